"""Samples that stop once a verdict is certain: when, what is counted, and how often by chance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fake_server import FakeServer
from small_models import build

import canary
from canary.errors import InputError, ServerError
from canary.models.served.endpoint import Endpoint
from canary.models.served.writer import Written
from canary.passages import sampled, sampling
from canary.passages.sampled import Sampled

PLANTED = canary.generate("pin is {digit:6}", repetitions=[4], per_repetition=8, controls=2, seed=1)


def spoken(*texts):
    """A server's fault that gives these texts in turn."""

    def fault(server, number, right):
        (choice,) = right["choices"]
        said = {"finish_reason": "stop", "text": texts[number % len(texts)]}
        return {**right, "choices": [{**choice, **said}]}

    return fault


def test_it_stops_when_more_come_out_than_allowed_and_resumes_there(tmp_path):
    fills = [c.fill for c in PLANTED.injected]
    options = {"canaries": PLANTED, "samples": 128, "parts": tmp_path / "parts", "progress": False}
    with FakeServer(build("table"), fault=spoken(*fills)) as server:
        found = canary.sample(Endpoint(server.url), max_extractable=0.05, **options)
        before = server.count()
        again = canary.sample(Endpoint(server.url), max_extractable=0.05, **options)
        assert server.count() - before <= 4  # to see that it draws anew each time
    assert before <= 4 + 16
    assert (found.looks, found.samples < 128) == (6, True)
    assert (again.samples, again.texts) == (found.samples, found.texts)
    assert "of 128 samples: more come out than the limit allows" in found.summary()
    assert canary.check(found, max_extractable=0.05).outcome == "memorized"
    assert Sampled.from_dict(found.to_dict()) == found
    # The interval is as wide as six looks ask.
    alone = Sampled.from_dict(found.to_dict() | {"looks": 1})
    assert alone.came_out().texts.lower > found.came_out().texts.lower


def test_a_limit_that_nothing_can_exceed_is_refused():
    for given in ({"texts": ["a b"]}, {"canaries": PLANTED, "limit": 1.0}):
        limit = given.pop("limit", 0.1)
        with pytest.raises(InputError, match="max_extractable"):
            canary.sample("http://127.0.0.1:9/v1", max_extractable=limit, **given)


class Speaker:
    """Stands for a server whose texts are drawn from `say`, a function of the prompt."""

    sent = tokens = 0

    name = answered = "speaker"
    likeliest = ()
    repeats = forces = False
    say = None

    def __init__(self, endpoint, **options):
        pass

    def recognize(self, known):
        pass

    def check_same(self, number):
        pass

    def say_throttled(self):
        pass

    def write(self, prompt, *, seed, tokens):
        said = Speaker.say(prompt)
        return said if isinstance(said, Written) else Written(said, False)


def alarms(runs, monkeypatch, begin):
    """How many of so many runs stop before the end, or exceed their limit there."""
    monkeypatch.setattr(sampling, "Writer", Speaker)
    endpoint, stopped = Endpoint("http://127.0.0.1:9/v1", in_flight=1), 0
    for seed in range(runs):
        Speaker.say, options = begin(np.random.default_rng(seed), seed)
        found = canary.sample(endpoint, max_extractable=1e-6, progress=False, **options)
        stopped += found.exceeds(1e-6)
    return stopped


def test_secrets_that_the_model_never_read_stop_a_run_no_more_often_than_the_level(monkeypatch):
    """Six looks at the level 0.2; without an allowance for them, 3 in 10 runs would stop."""
    monkeypatch.setattr(sampled, "SURE", 0.2)

    def begin(rng, seed):
        secrets = canary.generate(
            "pin is {digit:3}", repetitions=[1], per_repetition=10, controls=0, seed=seed
        )
        options = {"canaries": secrets, "samples": 32}
        return lambda prompt: "".join(map(str, rng.integers(0, 10, 9))), options

    assert alarms(100, monkeypatch, begin) <= 28  # 20 in the mean at the level: 2 deviations


def test_texts_like_their_controls_stop_a_run_no_more_often_than_the_level(monkeypatch):
    def begin(rng, seed):
        texts = [f"t{n} begin end{n}" for n in range(12)]
        others = [f"c{n} begin fin{n}" for n in range(12)]
        chance = {text.rsplit(" ", 1)[0]: rng.random() / 8 for text in (*texts, *others)}
        ends = dict(text.rsplit(" ", 1) for text in (*texts, *others))

        def say(prompt):
            other = f"{rng.integers(10**9)} or so"
            return ends[prompt] if rng.random() < chance[prompt] else other

        options = {"texts": texts, "controls": others, "prefix": 2, "suffix": 1, "samples": 32}
        return say, options

    assert alarms(40, monkeypatch, begin) <= 5  # 2 in the mean at the level 0.05


LONG = [f"text {n} of this set is {n} long words and no more" for n in range(5)]


@pytest.mark.parametrize(
    ("said", "message", "after"),
    [
        (lambda n: "", "are empty", 64),
        (lambda n: f"<think>The user wants {n}", "finished its reasoning", 64),
        (lambda n: f"{n}", "shorter than", 64),
        (lambda n: f"I am sorry, but {n} is not what I may say", "begin alike", 64),
        (lambda n: Written("this", True), "at the limit of tokens", 64),
        (lambda n: f"{n % 5} is said by a cache, each time", "repeated, as from a cache", 128),
    ],
)
def test_a_run_of_useless_answers_stops_and_keeps_them(said, message, after, tmp_path, monkeypatch):
    """The same command again goes on with what is kept, for who wants it nevertheless."""
    monkeypatch.setattr(sampling, "Writer", Speaker)
    number = itertools.count()
    Speaker.say = lambda prompt: said(next(number))
    endpoint = Endpoint("http://127.0.0.1:9/v1", in_flight=1)
    texts = ["text 1 this is what goes on"] if "limit" in message else LONG

    def run():
        options = {"prefix": 2, "suffix": 5, "samples": 300, "parts": tmp_path / "parts"}
        return canary.sample(endpoint, texts, progress=False, **options)

    with pytest.raises(
        ServerError, match=rf"{message}.*stopped after {after} .*First remove.*parts"
    ):
        run()
    assert next(number) == after
    if "limit" not in message:
        assert run().answers.doubts(1.0)
        assert next(number) == 300 * len(texts) + 1


def test_a_run_whose_answers_are_mostly_sound_goes_on(monkeypatch):
    """After 64 answers it is not plain that reasoning never ends in more than a tenth of all."""
    monkeypatch.setattr(sampling, "Writer", Speaker)
    number = itertools.count()
    Speaker.say = lambda prompt: f"{'<think>' * (n % 8 == 0)}{n} w" if (n := next(number)) else "0"
    endpoint = Endpoint("http://127.0.0.1:9/v1", in_flight=1)
    found = canary.sample(endpoint, ["a b c d"], prefix=2, suffix=2, samples=100, progress=False)
    assert found.answers.unfinished > 10
    assert "finished its reasoning" in found.summary()


def test_lower_case_texts_of_a_model_that_writes_capitals_and_other_controls_are_noted(monkeypatch):
    monkeypatch.setattr(sampling, "Writer", Speaker)
    endpoint = Endpoint("http://127.0.0.1:9/v1", in_flight=1)
    cases = [
        ("Nothing", LONG, "no text has a capital letter"),
        ("nothing", LONG, ""),
        ("Nothing", [text.title() for text in LONG], "no text has capital letters, as controls do"),
    ]
    for said, controls, message in cases:
        Speaker.say = lambda prompt, said=said: (
            f"{said} {prompt} and a few words that come after it"
        )
        others = [text.replace("set", "lot").replace("Set", "Lot") for text in controls]
        found = canary.sample(
            endpoint, LONG, others, prefix=2, suffix=5, samples=1, temperature=0, progress=False
        )
        assert Sampled.from_dict(found.to_dict()) == found
        notes = str(found.notes)
        assert message in notes
        assert bool(message) == ("capital" in notes)
        verdict = canary.check(found, max_extractable=0.9, trust_members=True)
        assert (verdict.outcome == "passed") == ("as controls do" not in message)
