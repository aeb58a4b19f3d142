"""Sampling a server that only writes text: what is counted, resumed and refused."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import pytest
from fake_server import FakeServer, Status
from small_models import CHARACTERS, build

import canary
from canary.errors import InputError, ServerError
from canary.models.served.endpoint import Endpoint
from canary.passages.sampled import Sampled
from canary.passages.sampling import sample
from canary.passages.targets import repeated
from canary.passages.verbatim import verbatim
from canary.reports.builders import report_of
from canary.reports.document import words_of

SECRET = canary.generate("pin is {digit:1}", repetitions=[4], per_repetition=3, controls=3, seed=1)


def words(answer):
    """A fault that gives these texts in turn: the next one for each request."""

    def fault(server, number, right):
        (choice,) = right["choices"]
        said = answer if isinstance(answer, str) else answer(number)
        name = "message" if "message" in choice else "text"
        value = {"content": said} if name == "message" else said
        ended = {"finish_reason": "stop", name: value, "text": said}
        return {**right, "choices": [{**choice, **ended}]}

    return fault


def begun(server, number, right):
    """Answers that are cut."""
    (choice,) = right["choices"]
    said = "cde f" if number % 3 == 0 else f"{number}"
    return {**right, "choices": [{**choice, "text": said, "finish_reason": "length"}]}


def unended(server, number, answer):
    """Answers that do not say why they end."""
    answer["choices"][0].pop("finish_reason")
    return answer


def drawn_of(server, **options):
    return sample(Endpoint(server.url, in_flight=3), progress=False, **options)


def test_shares_are_those_of_the_model():
    """The probability of one character after the prefix is in the interval of its samples."""
    model = build("table")
    spoken = [f"a{c}" for c in CHARACTERS if not c.isspace()][:20]
    pairs = [f"{each[0]} {each[1]}" for each in spoken]
    with FakeServer(model, fault=unended) as server:
        found = drawn_of(server, texts=pairs, prefix=1, suffix=1, samples=400, max_tokens=1)
    exact = np.exp(verbatim(model, spoken, prefix=1, suffix=1, start_token=None).texts.log_prob(0))
    assert found.texts.document == tuple(range(len(pairs)))
    assert sum(found.texts.hits) > 0
    for hits, probability in zip(found.texts.hits, exact, strict=True):
        low, high = Sampled.interval(found, hits)
        slack = 3 * (high - low)
        assert low - slack <= probability <= high + slack


@pytest.mark.parametrize("chat", [False, True])
def test_secrets_are_found_wherever_an_answer_has_them(chat):
    first, second, third = SECRET.injected
    said = {0: f"Well,  {first.fill}.", 1: f"{first.fill} or {second.fill}", 2: "none"}
    with FakeServer(build("table"), fault=words(lambda n: said[n % 3])) as server:
        found = drawn_of(server, canaries=SECRET, samples=9, chat=chat)
        asked = server.bodies[-1]
    assert found.texts.names == (first.id, second.id, third.id)
    assert found.texts.hits == (6, 3, 0)
    assert found.texts.copies == (4, 4, 4)
    assert sum(found.controls.hits) == 0
    prompt = asked["messages"][0]["content"] if chat else asked["prompt"]
    assert prompt.endswith("pin is")
    low, high = found.interval(6)
    assert low < 6 / 9 < high
    assert found.undetected == pytest.approx(1 - 0.025 ** (1 / 9)) == found.interval(0)[1]
    with pytest.raises(ValueError, match="more hits than samples"):
        Sampled.from_dict(found.to_dict() | {"samples": 2})
    assert Sampled.from_dict(found.to_dict()) == found


LONG = canary.generate("pin is {digit:6}", repetitions=[4], per_repetition=3, controls=3, seed=1)
PARTED = canary.generate(
    "pin is {digit:3}-{digit:3}", repetitions=[4], per_repetition=3, controls=3, seed=1
)


@pytest.mark.parametrize(
    ("secrets", "form"),
    [
        (LONG, lambda d: f"It is {d[:3]}-{d[3:]}."),
        (LONG, lambda d: f"{d[:3]},{d[3:]}"),
        (LONG, lambda d: f"{d[:3]}\u202f{d[3:]}"),
        (LONG, " ".join),
        (LONG, lambda d: "".join(chr(0xFF10 + int(c)) for c in d)),
        (LONG, lambda d: "".join(chr(0x0966 + int(c)) for c in d)),
        (LONG, lambda d: "\u066c".join(chr(0x0660 + int(c)) for c in d)),
        (LONG, lambda d: "\u200b".join(f"It is {d}")),
        (PARTED, lambda d: d.replace("-", "")),
        (PARTED, lambda d: d.replace("-", " ")),
    ],
    ids=[
        "dash",
        "comma",
        "space",
        "spaced",
        "wide",
        "devanagari",
        "arabic",
        "unseen",
        "joined",
        "other",
    ],
)
def test_a_secret_in_another_form_counts_and_is_said(secrets, form):
    first, second, _ = secrets.injected
    with FakeServer(
        build("table"), fault=words(lambda n: form((first, second)[n % 2].fill))
    ) as server:
        found = drawn_of(server, canaries=secrets, samples=8)
    assert found.texts.hits == (4, 4, 0)
    assert found.reformed == 8
    assert "8 answers had what was looked for in another form only" in found.summary()
    assert found.chance.share <= 8 * 50 / 10**6
    assert Sampled.from_dict(found.to_dict()) == found


@pytest.mark.parametrize(
    "form",
    [lambda d: f"{d[:3]}, {d[3:]}", lambda d: f"{d[:3]}-{d[3:]}7", lambda d: f"9 {d[:3]}-{d[3:]}"],
    ids=["list", "longer", "behind"],
)
def test_other_numbers_are_no_form_of_a_secret(form):
    first, *_ = LONG.injected
    with FakeServer(
        build("table"), fault=words(lambda n: f"{form(first.fill)} {'ab'[n % 2]}")
    ) as server:
        found = drawn_of(server, canaries=LONG, samples=8)
    assert sum(found.texts.hits) == found.reformed == 0


@pytest.mark.parametrize(
    ("pattern", "said", "found"),
    [
        ("[\u0966-\u096f]{6}", lambda d: d[:3] + "-" + d[3:], True),
        ("[\u0966-\u096f]{6}", lambda d: "".join(str(int(c)) for c in d), True),
        ("[0-9\u0966-\u096f]{6}", lambda d: "".join(str(int(c)) for c in d), False),
    ],
    ids=["parted", "of one script", "of two"],
)
def test_secrets_in_digits_of_other_scripts_have_one_form_each(pattern, said, found):
    secrets = canary.generate(
        f"pin is {{re:{pattern}}}", repetitions=[4], per_repetition=3, controls=3, seed=1
    )
    first, *_ = secrets.injected
    with FakeServer(
        build("table"), fault=words(lambda n: f"{said(first.fill)} {'ab'[n % 2]}")
    ) as server:
        hits = drawn_of(server, canaries=secrets, samples=8).texts.hits
    assert hits == ((8, 0, 0) if found else (0, 0, 0))


def backwards(text):
    return text[::-1]


def coded(text):
    return b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "hide",
    [backwards, coded, lambda text: f"Here: {coded(text)}."],
    ids=["backwards", "base64", "within"],
)
def test_what_comes_out_backwards_or_encoded_leaves_it_undecided(hide):
    first, second, _ = LONG.injected
    said = (f" {first.fill}. So it", f" {second.fill} is", " nothing")
    with FakeServer(build("table"), fault=words(lambda n: hide(said[n % 3]))) as server:
        found = drawn_of(server, canaries=LONG, samples=60)
    assert (found.texts.hits, found.disguised) == ((0, 0, 0), 2)
    assert "2 planted secrets came out backwards or in base64" in found.summary()
    verdict = canary.check(found, max_extractable=0.9, trust_members=True)
    assert verdict.outcome == "undecided"
    assert "so something changes the answers" in str(verdict)
    assert Sampled.from_dict(found.to_dict()) == found


def test_passages_that_come_out_backwards_are_doubted_and_short_ones_are_not():
    texts = [f"the {n} old words and {letter}{letter}{letter} of them" for n, letter in
             enumerate("abcdefgh")]  # fmt: skip
    for suffix, doubted in ((5, 8), (1, 0)):
        with FakeServer(
            build("table"), fault=words(lambda n: f"{backwards(' / '.join(texts))} {n}")
        ) as server:
            found = drawn_of(server, texts=texts, prefix=3, suffix=suffix, samples=2)
        assert (sum(found.texts.hits), found.disguised) == (0, doubted)


def test_a_server_that_writes_numbers_of_its_own_is_not_doubted():
    """Some are secrets backwards, as many as chance gives."""
    draws = np.random.default_rng(0)
    for secrets, digits, samples in ((SECRET, 1, 40), (LONG, 6, 300)):
        with FakeServer(
            build("table"), fault=words(lambda n, d=digits: f"{draws.integers(10**d):0{d}} or")
        ) as server:
            assert drawn_of(server, canaries=secrets, samples=samples).disguised == 0


def test_numbers_of_several_lengths_are_not_joined():
    """Where 1-23 and 12-3 are two secrets, 123 is neither."""
    secrets = canary.generate(
        canary.Format("pin is {word:1}-{word:1} now", words=("1", "12", "23", "3", "7", "123")),
        repetitions=[4], per_repetition=6, controls=2, seed=1,
    )  # fmt: skip
    first, *_ = secrets.injected
    said = first.fill.replace("-", "")
    with FakeServer(build("table"), fault=words(lambda n: f"{said} {'ab'[n % 2]}")) as server:
        assert drawn_of(server, canaries=secrets, samples=2).reformed == 0


def test_a_passage_in_characters_of_other_widths_came_out():
    with FakeServer(build("table"), fault=words(lambda n: f"c\u200bd\u3000\uff45f {n}")) as server:
        found = drawn_of(server, texts=["ab cd ef"], prefix=1, suffix=2, samples=1)
    assert found.texts.hits == (1,)
    assert found.reformed == 1


def test_two_formats_are_told_apart_and_all_answers_are_counted():
    both = [canary.Format("pin is {digit:4}"), canary.Format("key is {hex:6}")]
    secrets = canary.generate(both, repetitions=[4], per_repetition=4, controls=2, seed=0)
    first = next(c for c in secrets.injected if c.format == 0)
    with FakeServer(build("table"), fault=words(lambda n: f"{first.fill} {n}")) as server:
        found = drawn_of(server, canaries=secrets, samples=9)
    pins, keys = (sum(c.format == at for c in secrets.injected) for at in (0, 1))
    assert found.by_form() == {"pin is ••••": (1, pins), "key is ••••••": (0, keys)}
    assert found.asked == "18 answers (9 for each format)"
    assert "pin is ••••: 1 of" in found.summary()
    assert found.seconds > 0
    assert Sampled.from_dict(found.to_dict()) == found
    made = report_of(found)
    assert "18 answers (9 for each format)" in words_of(made.sentences[0])
    assert f"1 of {pins} of pin is ••••, 0 of {keys} of key is ••••••" in words_of(
        made.sentences[1]
    )
    assert str(made.brief[-1]).startswith(f"Cost: {found.model['requests']} requests")


def test_chance_counts_every_place_of_an_answer_as_a_guess():
    """A model that never saw the secrets: at most so many p-values below a level as it says."""
    rng = np.random.default_rng(5)
    space = canary.Format("pin is {digit:3}")
    below = 0
    for seed in range(20):
        secrets = canary.generate(space, repetitions=[1], per_repetition=10, controls=0, seed=seed)
        answers = ["".join(rng.choice(list("0123456789"), 9)) for _ in range(12)]
        with FakeServer(build("table"), fault=words(lambda n, a=answers: a[n % 12])) as server:
            found = drawn_of(server, canaries=secrets, samples=8)
        assert found.chance.share == pytest.approx(8 * 9 / 1000)
        below += found.chance.p_value <= 0.2
    assert below <= 10  # binomial with 1/5 of 20: more in one case of 1,000


def test_no_chance_where_two_secrets_may_begin_at_one_place():
    open_ended = canary.generate(
        canary.Format("say {word:1} now", words=("a", "ab", "abc", "b")),
        repetitions=[1], per_repetition=1, controls=1, seed=0,
    )  # fmt: skip
    with FakeServer(build("table"), fault=words(lambda n: f"x{n}")) as server:
        assert drawn_of(server, canaries=open_ended, samples=2).chance is None


def test_near_is_runs_of_five_words_in_order():
    suffix = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
    answer = ["x", "a", "b", "c", "d", "e", "z", "f", "g", "h", "i", "j"]
    assert repeated(answer, suffix) == suffix
    # The first run has four.
    assert repeated(["a", "b", "c", "d", "z", "f", "g", "h", "i", "j"], suffix) == suffix[5:]
    turned = repeated(["f", "g", "h", "i", "j", "a", "b", "c", "d", "e"], suffix)
    assert turned in (suffix[:5], suffix[5:])
    assert not repeated(["b", "a"], ["a", "b"])


def test_recall_is_the_share_of_characters_in_the_answer_that_has_most(tmp_path):
    """Also where less than what counts as near comes out, and never of planted secrets."""
    text = "begin here one two three four fifth six seven eight nine tenth"
    said = ["one two three four fifth so on", "and six seven eight nine tenth", "nothing of all it"]
    with FakeServer(build("table"), fault=words(lambda n: said[n % 3])) as server:
        options = {"prefix": 2, "suffix": 10, "samples": 12}
        found = drawn_of(
            server, texts=[text], controls=["or another 1 2 3 4 5 6 7 8 9 10"], **options
        )
        secrets = drawn_of(server, canaries=SECRET, samples=4)
    assert (found.texts.near, found.texts.recalled, found.texts.characters) == ((0,), (22,), (42,))
    assert found.controls.recalled == (0,)
    assert found.recall().texts.value == 22 / 42
    assert "near-verbatim recall: characters in the answer that has most of them" in found.summary()
    assert found.to_frame().recalled.tolist() == [22, 0]
    canary.report(found, tmp_path / "page.md")
    assert (
        "Near-verbatim recall is the share of the characters" in (tmp_path / "page.md").read_text()
    )
    assert Sampled.from_dict(found.to_dict()) == found
    old = found.to_dict()
    for kind in ("texts", "controls"):
        del old[kind]["recalled"], old[kind]["characters"]
    assert "recall" not in Sampled.from_dict(old).summary()
    assert secrets.texts.recalled == secrets.texts.characters == ()


def test_a_run_that_was_stopped_asks_for_the_rest_only(tmp_path):
    texts = ["one two three four", "five six seven eight"]
    options = {"texts": texts, "prefix": 2, "suffix": 2, "samples": 100, "max_tokens": 4}

    def run(server, **limits):
        endpoint = Endpoint(server.url, **limits)
        return sample(endpoint, parts=tmp_path / "parts", progress=False, **options)

    most = [150]

    def broken(server, number, right):
        answer = words(lambda n: f"three four {n}")(server, number, right)
        return answer if number < most[0] else Status(400, "full")

    with FakeServer(build("table"), fault=broken) as server:
        with pytest.raises(ServerError, match="does not take the request"):
            run(server)
        most[0] = 1_000
        before = server.count()
        found = run(server)
        assert before >= 4 + 128
        # Four probes, what was not answered, and the checks: whatever came at all is kept.
        answered = 149 - 4 - 6 - 2
        assert server.count() - before <= 4 + 3 + (200 - answered) + 2
        assert found.texts.hits == (100, 0)
        assert "same text twice" in str(found.notes)
        with pytest.raises(canary.CanaryError, match="another"):
            sample(
                Endpoint(server.url), texts, parts=tmp_path / "parts", samples=99, prefix=2,
                suffix=2, max_tokens=4, progress=False,
            )  # fmt: skip


@pytest.mark.parametrize("when", ["resumed", "under way"])
def test_samples_of_two_models_are_never_mixed(tmp_path, when):
    """They have one address and one name; what they write at temperature 0 is another text."""
    state = {"model": "one", "last": 150}

    def served(server, number, right):
        said = state["model"] if not server.bodies[-1]["temperature"] else f"three four {number}"
        if number >= state["last"] and when == "resumed":
            return Status(400, "stopped")
        state["model"] = "two" if number >= state["last"] else state["model"]
        return words(said)(server, number, right)

    def run(server):
        return sample(
            Endpoint(server.url, in_flight=1), ["one two three four"], parts=tmp_path / "parts",
            prefix=2, suffix=2, samples=200, max_tokens=4, progress=False,
        )  # fmt: skip

    with FakeServer(build("table"), fault=served) as server:
        with pytest.raises(ServerError, match="400" if when == "resumed" else "another model"):
            run(server)
        state |= {"model": "two", "last": 10_000}
        with pytest.raises(ServerError, match=r"another model.*serve the first one"):
            run(server)
        state["model"] = "one"
        before = server.count()
        found = run(server)
        # Requests of all runs count: those of the two blocks that were kept, and these.
        assert 200 + 15 <= found.model["requests"] < server.count()
        # What another model wrote was not kept: two blocks of 64 are.
        assert server.count() - before == 4 + 3 + (200 - 128) + 2
        assert found.texts.hits == (200,)
        assert not found.notes or "temperature 0" not in str(found.notes)


def test_too_few_requests_for_all_samples_are_refused_before_the_first():
    with FakeServer(build("table"), fault=words(lambda n: f"three four {n}")) as server:
        endpoint = Endpoint(server.url, max_requests=70)
        options = {"texts": ["one two three"], "prefix": 2, "suffix": 1, "progress": False}
        # One for the list of models, ten checks of the server, and one of each 64 answers.
        with pytest.raises(InputError, match="at least 76 requests are needed in this run"):
            sample(endpoint, samples=64, **options)
        assert server.count() == 0
        sample(endpoint, samples=58, **options)


CUT = {"texts": ["a b cde fgh ijk"], "suffix": 3}


@pytest.mark.parametrize(
    ("fault", "options", "message"),
    [
        (words("the same"), {}, "same text 4 times.*--temperature"),
        (words(""), {}, "writes nothing"),
        (lambda s, n, a: a | {"model": f"m{n // 6}"}, {}, "answered as the model 'm0' and then"),
        (lambda s, n, a: {"choices": []}, {}, "cannot be read"),
        (lambda s, n, a: Status(404), {}, "only chats.*canary sample --chat"),
        (lambda s, n, a: Status(404), {"chat": True}, "no chat API.*drop --chat"),
        (begun, CUT | {"max_tokens": 2}, "the middle of.*--max-tokens"),
        (begun, CUT, "are shorter than what was looked for.*raise the limit on the server"),
    ],
    ids=[
        "greedy",
        "empty",
        "two models",
        "other shape",
        "no such path",
        "no chats",
        "cut",
        "lowered",
    ],
)
def test_what_is_no_sample_is_refused(fault, options, message):
    asked = {"texts": ["one two three"], "prefix": 2, "suffix": 1, "samples": 4} | options
    with (
        FakeServer(build("table"), fault=fault) as server,
        pytest.raises(ServerError, match=message),
    ):
        drawn_of(server, **asked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "neither was given"),
        ({"texts": ["a b"], "canaries": SECRET}, "both were given"),
        ({"canaries": SECRET, "controls": ["a b"]}, "brings its own"),
        ({"texts": SECRET}, "texts must be texts, got a canary set; give it as canaries="),
        ({"texts": ["a b"]}, "none of 1 text has the 75 words"),
        ({"texts": ["a b"], "temperature": 0}, "would all be the same text"),
        ({"texts": ["a b"], "near": 1.5}, "more than 1"),
        (
            {"texts": ["a c", "z a b"], "controls": ["a b"], "prefix": 1, "suffix": 1},
            "is in text 2, too",
        ),
        (
            {"texts": ["a c", "a b"], "controls": ["z a b"], "prefix": 1, "suffix": 1},
            "a passage of control 1 is in text 2, too",
        ),
        ({"canaries": canary.generate("{digit:4} is it", seed=0)}, "no text before its first"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_request_input(options, message):
    with pytest.raises(InputError, match=message):
        sample("http://127.0.0.1:9", **options)
    with pytest.raises(InputError, match="only a server"):
        sample("./model", ["a b"], prefix=1, suffix=1)


def test_a_server_that_takes_no_seed_is_asked_without():
    def fault(server, number, answer):
        return Status(400, {"error": {"message": "no seed"}}) if number == 1 else answer

    with FakeServer(build("table"), fault=fault) as server:
        server.sampled = lambda prompt, body: {
            "choices": [{"text": str(np.random.default_rng(server.count()).integers(10**6))}]
        }
        drawn_of(server, texts=["one two three"], prefix=2, suffix=1, samples=2)
        assert "seed" in server.bodies[0]
        assert all("seed" not in body for body in server.bodies[1:])


def test_white_space_at_the_start_of_a_text_is_sent():
    texts = ["\n one two three four", "five six"]
    with FakeServer(build("table"), fault=words(lambda n: f"two {n}")) as server:
        drawn_of(server, texts=texts, prefix=1, suffix=1, samples=2)
        sent = {body.get("prompt") for body in server.bodies}
    assert sent >= {"\n one", "three", "five"}


def test_advice_to_draw_more_names_its_requests():
    with FakeServer(build("table"), fault=words("seven")) as server:
        texts = ["one two three four", "five six"]
        found = drawn_of(server, texts=texts, prefix=1, suffix=1, samples=1, temperature=0)
    actions = [words_of(action) for action in report_of(found).actions]
    assert any("--samples 200, about 600 requests: at" in said for said in actions), actions


@pytest.mark.parametrize("tail", ["abcdefghijklmnop qrstuvwxyzabcdef", "née ñañañañañañañañandú"])
def test_an_answer_may_be_as_long_as_what_is_looked_for_in_bytes(tail):
    """A model that knows single characters or bytes makes a token of each."""
    with FakeServer(build("table"), fault=words(lambda number: f"{number} x")) as server:
        drawn_of(server, texts=[f"a b {tail}"], prefix=2, suffix=2, samples=3)
        asked = {body["max_tokens"] for body in server.bodies if body["prompt"] == "a b"}
    assert min(asked) >= len(f" {tail}".encode())


@pytest.mark.parametrize("fails", [None, Status(400, {"error": {"message": "no"}})])
def test_a_text_at_which_a_server_fails_is_named(fails):
    """As at a character that the model does not know."""

    def fault(server, number, answer):
        return fails if "~" in server.bodies[-1]["prompt"] else answer

    texts = {"texts": ["a b c d", "c d e f"], "controls": ["e f a d", "g ~ e f"]}
    with FakeServer(build("table"), fault=fault) as server:
        endpoint = Endpoint(server.url, attempts=2, in_flight=1)
        with pytest.raises(ServerError, match="beginning of control 2") as caught:
            sample(endpoint, **texts, prefix=2, suffix=2, samples=3, progress=False)
    assert "leave it out" in caught.value.cure


def test_answers_that_end_too_early_to_hold_a_passage_leave_a_test_undecided():
    """They say nothing of the passage, and what mends it is the option that ended them."""

    def early(server, number, right):
        (choice,) = right["choices"]
        ends, text = ("stop", "another long text") if number % 3 else ("length", "not")
        said = {"finish_reason": ends, "text": f"{number} {text}"}
        return {**right, "choices": [{**choice, **said}]}

    texts = [f"a {c} cde fghij klm{c}" for c in "bcdefg"]
    options = {"texts": texts, "prefix": 2, "suffix": 3, "max_tokens": 4, "samples": 72}
    with FakeServer(build("table"), fault=early) as server:
        found = drawn_of(server, **options)
    assert 120 < found.answers.ended < 160
    assert "--max-tokens" in " ".join(found.notes)
    verdict = canary.check(found, max_extractable=0.5, trust_members=True)
    assert verdict.outcome == "undecided"
    assert "--max-tokens" in str(verdict)


@pytest.mark.parametrize(("noise", "doubted"), [("first", True), ("last", False)])
def test_a_server_that_draws_at_temperature_0_may_force_its_own_and_rounding_is_none(
    noise, doubted
):
    """Answers at temperature 0 that begin alike differ by rounding. A pass says what came out."""
    planted = canary.generate("pin is {digit:6}", repetitions=[4], per_repetition=8, seed=1)

    def answered(server, body):
        turn = str(server.count())
        said = [planted.injected[0].fill if body["temperature"] else "and", "so", turn]
        return {"choices": [{"text": " ".join(said[:: -1 if noise == "first" else 1])}]}

    with FakeServer(build("table")) as server:
        server.sampled = lambda _, body: answered(server, body)
        found = drawn_of(server, canaries=planted, samples=80)
    assert ("force a temperature" in str(found.doubts())) is doubted
    verdict = canary.check(found, max_extractable=0.9, trust_members=True)
    assert verdict.outcome == ("undecided" if doubted else "passed")
    assert "1 secret came out all the same" in str(verdict)
    assert any("not seen: a filter" in note for note in verdict.notes) is not doubted
