"""What servers get wrong is found out, with the reason, before or while they are used."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
from fake_server import FakeServer, Status
from served_things import load_served, refused
from small_models import build, character_tokenizer, table_model
from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers import models as backends

import canary
from canary.errors import InputError, MissingExtraError, ModelError, ServerError
from canary.models.language_model import Rows
from canary.models.served.endpoint import Endpoint
from canary.models.served.token_texts import Texts
from canary.tokens.fast import FastTokenizer


def shown(answer):
    return answer["choices"][0]["logprobs"]


def changed(answer, **lists):
    answer = copy.deepcopy(answer)
    shown(answer).update(lists)
    return answer


def echoes(answer):
    return isinstance(answer, dict) and len(shown(answer)["tokens"]) > 1


def off_by_one(server, number, answer):
    """Each token with the log-probability that it has after itself, as llama-cpp-python."""
    if not echoes(answer):
        return answer
    prompt = server.tokens(server.bodies[number - 1])
    after = [server._next(prompt[: k + 1])[token] for k, token in enumerate(prompt)]
    return changed(
        answer,
        tokens=shown(answer)["tokens"][:-1],
        token_logprobs=[None, *map(float, after[1:])],
        top_logprobs=None,
    )


def scaled(base):
    """Logarithms of another base."""

    def fault(server, number, answer):
        lists, by = shown(answer), math.log(base)
        top = [place and {t: v / by for t, v in place.items()} for place in lists["top_logprobs"]]
        values = [v if v is None else v / by for v in lists["token_logprobs"]]
        return changed(answer, token_logprobs=values, top_logprobs=top)

    return fault


def values(change, *, echoed=False):
    """Other log-probabilities; `echoed`: in echoes alone."""

    def fault(server, number, answer):
        if echoed and not echoes(answer):
            return answer
        return changed(answer, token_logprobs=change(shown(answer)["token_logprobs"]))

    return fault


def answers(change):
    return lambda server, number, answer: change(answer)


FAULTS = {
    "no log-probabilities": (
        answers(lambda a: {**a, "choices": [{"text": "x", "logprobs": None}]}),
        "gives no log-probabilities .*--top-k",
    ),
    "no echo": (
        answers(lambda a: changed(a, **{name: part[-1:] for name, part in shown(a).items()})),
        "told of 1: it does not echo",
    ),
    "off by one": (off_by_one, "as the next token: .*off by one"),
    "one too early": (
        values(lambda v: [None, *v[2:], v[-1]], echoed=True),
        "later tokens change earlier ones",
    ),
    "other tokens": (
        answers(
            lambda a: changed(
                a, tokens=["token_id:0" if k == 2 else t for k, t in enumerate(shown(a)["tokens"])]
            )
        ),
        "other tokens of a prompt: number 3 of .*--tokenizer",
    ),
    "first has a number": (values(lambda v: [-1.0, *v[1:]]), "first token of all"),
    "null": (values(lambda v: [*v[:3], None, *v[4:]]), "no log-probability of token 4 of"),
    "NaN": (values(lambda v: [*v[:3], float("nan"), *v[4:]]), "not finite numbers"),
    "above 0": (values(lambda v: [*v[:3], 0.5, *v[4:]]), "cannot be read"),
    "base 10": (scaled(10), "a probability of 1.* together.*natural logarithms"),
    "base 2": (scaled(2), "a probability of at most 0.* together.*natural logarithms"),
    "other name": (answers(lambda a: {**a, "model": "another"}), "'another', and 'tiny' was"),
    "too many tokens": (
        lambda server, number, answer: {**answer, "usage": {"prompt_tokens": number + 20}},
        r"prompt_tokens\) where 12 were sent; .*counts wrongly",
    ),
    "another shape": (answers(lambda a: {"object": "error"}), "cannot be read"),
    "400": (
        answers(lambda a: Status(400, {"error": {"message": "no echo"}})),
        "400: 'no echo'.*--top-k",
    ),
    "307": (answers(lambda a: Status(307, "", {"Location": "/x"})), "elsewhere"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_handshake_refuses(tmp_path, case):
    fault, message = FAULTS[case]
    refused(tmp_path, message, fault)
    assert not list(tmp_path.rglob("*.shard"))


@pytest.mark.parametrize("ids", [True, False])
def test_a_server_that_is_off_by_one_for_long_prompts_is_refused(tmp_path, ids):
    """The rows of the handshake are short; it is asked again at the length of those in earnest."""

    def fault(server, number, answer):
        # As where the numbers of a second part of a prompt are laid down one place late.
        if not echoes(answer) or len(shown(answer)["tokens"]) <= 21:
            return answer
        values = shown(answer)["token_logprobs"]
        return changed(answer, token_logprobs=[None, values[1], *values[1:-2], values[-1]])

    rows = [[5 + (7 * k + k * k) % 30 for k in range(length)] for length in (8, 18, 24)]
    with FakeServer(build("table"), fault=fault, ids=ids) as server:
        model = load_served(server, tmp_path)
        assert len(model.score(Rows.of(rows[:2]))) == 7 + 17
        asked = server.count()
        model.score(Rows.of([rows[1], rows[2][1:19]]))  # as long as before
        assert server.count() == asked + 1 + 1  # a new row, and the probe that vouches for it
        with pytest.raises(ServerError, match="behind 23 tokens it gives a token .*off by one"):
            model.score(Rows.of(rows))


def test_special_tokens_may_be_told_by_name():
    """They have no text of their own within a text."""
    backend = Tokenizer(backends.BPE({c: i for i, c in enumerate("abcdef ")}, []))
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    texts = Texts(FastTokenizer(backend))
    start, end = texts.tokenizer.token_id("<s>"), texts.tokenizer.token_id("</s>")
    assert texts.is_token("<s>", start)
    assert texts.is_token("", start)
    assert not texts.is_token("</s>", start)
    assert not texts.is_token("<s>", 0)
    assert (texts.number("<s>"), texts.number("</s>"), texts.number("a")) == (start, end, 0)


def test_another_model_than_asked_is_refused(tmp_path):
    with FakeServer(build("table")) as server:
        with pytest.raises(ServerError, match="does not have the model 'big'; it has 'tiny'"):
            load_served(server, tmp_path, model="big")
        server.models = lambda: {"data": [{"id": "one"}, {"id": "two"}]}
        with pytest.raises(InputError, match="2 models .*'one', 'two'.*--served-model"):
            load_served(server, tmp_path)
        server.models = lambda: {"models": 3}
        with pytest.raises(ServerError, match="list of models that cannot be read"):
            load_served(server, tmp_path)


def starting(model):
    """The model behind a server whose tokenizer puts a start token before a text."""

    class Starting:
        size, decode = model.tokenizer.size, model.tokenizer.decode

        def encode(self, texts):
            return [type(e)((0, *e.ids), None) for e in model.tokenizer.encode(texts)]

    class Wrapped:
        tokenizer = Starting()
        facts, score, open = model.facts, model.score, model.open

    return Wrapped()


def test_a_server_that_makes_other_tokens_of_a_text_is_refused(tmp_path):
    """Texts only, and its own tokenizer puts a start token where ours has none."""
    with FakeServer(build("table"), ids=False) as server:
        server.model = starting(server.model)
        with pytest.raises(ServerError, match="where the tokenizer makes"):
            load_served(server, tmp_path)


def times(count, fault):
    """A fault of the first requests of the run itself, beyond the handshake."""
    left = [count]

    def wrapped(server, number, answer):
        if not getattr(server, "running", False) or left[0] == 0:
            return answer
        left[0] -= 1
        return fault(answer)

    return wrapped


PASSING = {
    "429": lambda answer: Status(429, "slow down", {"Retry-After": "0"}),
    "500": lambda answer: Status(500),
    "503 with a date": lambda a: Status(503, "", {"Retry-After": "Fri, 20 Nov 2020 00:00:00 GMT"}),
    "truncated": lambda answer: b'{"choices": [{"text"',
    "cut off": lambda answer: None,
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_asked_again(tmp_path, fault):
    rows = Rows.of([[1, 2, k] for k in range(12)])
    with FakeServer(build("table"), fault=times(3, fault)) as server:
        model = load_served(server, tmp_path, attempts=5)
        server.running, before = True, server.count()
        found = model.score(rows)
        assert server.count() - before == 12 + 1 + 3
    np.testing.assert_allclose(found, build("table").score(rows), atol=1e-6)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda answer: Status(500, "secret 1 2 3"), r"failed \(500\); .*no answer is kept"),
        (lambda answer: Status(400, "secret 1 2 3"), r"does not take the request \(400\);"),
        (lambda answer: b"{", "no whole JSON"),
        (lambda a: values(lambda v: [*v[:3], math.nan, *v[4:]])(None, 0, a), "not finite"),
        (lambda answer: {**answer, "model": "another"}, "'another', and 'tiny' was asked"),
        (lambda a: Status(429, "", {"Retry-After": "4000"}), "left alone for 4,000 s"),
    ],
)
def test_what_does_not_pass_ends_the_run(tmp_path, fault, message):
    """And nothing that the server says of a secret is repeated."""
    with FakeServer(build("table"), fault=times(10**6, fault)) as server:
        model = load_served(server, tmp_path, attempts=2)
        server.running = True
        with pytest.raises((ServerError, ModelError), match=message) as caught:
            model.score(Rows.of([[1, 2, 3, 4]]))
    assert "secret" not in str(caught.value)


def test_nobody_there(tmp_path):
    with FakeServer(build("table")) as server:
        url = server.url
    with pytest.raises(ServerError, match=r"/v1/models: cannot be reached"):
        canary.load(Endpoint(url, answers=tmp_path, attempts=2), tokenizer=character_tokenizer())


@pytest.mark.parametrize("names", [True, False])
def test_another_model_in_mid_run_is_an_error_and_no_mixture(tmp_path, names):
    """Whether or not it says its name; what the first one answered stays, and no more."""
    other = table_model(seed=8)
    rows = Rows.of([[1, 2, a, b] for a in range(15) for b in range(10)])
    with FakeServer(build("table")) as server:
        model = load_served(server, tmp_path)
        honest = server.complete
        swap_at = server.count() + 100  # in the second block

        def complete(body):
            if server.count() >= swap_at:
                server.model = other
                answer = honest(body)
                return {**answer, "model": "another"} if names else answer
            return honest(body)

        server.complete = complete
        with pytest.raises(ServerError, match="another"):
            model.score(rows)
        # The other model stays: it is not taken for the one whose answers are kept.
        server.complete = honest
        kept = len(model._asking._answers)
        assert kept == 64
        del model
        with pytest.raises(ServerError, match="another model under this name than when 64"):
            load_served(server, tmp_path)
        server.model = build("table")
        again = load_served(server, tmp_path)
        before = server.count()
        np.testing.assert_allclose(again.score(rows), build("table").score(rows), atol=1e-6)
        assert server.count() - before == 150 - 64 + 2


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("http://", {}, "cannot be read"),
        ("http://host:port", {}, "cannot be read"),
        ("http://user:hunter2@host/v1", {}, "more than a host and a path.*--key-env"),
        ("http://host/v1?api_key=hunter2", {}, "more than a host and a path"),
        ("http://127.0.0.1:9", {"tokenizer": None}, "needs the tokenizer .*--tokenizer"),
        ("http://127.0.0.1:9", {"dtype": "float32"}, "this one is served"),
    ],
)
def test_addresses(url, options, message):
    with pytest.raises(InputError, match=message) as caught:
        canary.load(url, **{"tokenizer": character_tokenizer(), **options})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("max_requests", 0), ("in_flight", 0), ("timeout", 0), ("top_k", 1000)]
)
def test_options_out_of_range(name, value):
    with pytest.raises(InputError, match=f"{name}.* (got 0|at most 100)"):
        Endpoint("http://host", **{name: value})


def test_a_missing_library_names_the_extra(monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tenacity" else find(name)
    )
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[endpoint\]' in a checkout"):
        canary.load("http://127.0.0.1:9", tokenizer=character_tokenizer())


# Set up wrongly.


def another_tokenizer():
    """The same characters under other numbers."""
    spec = json.loads(character_tokenizer().to_str())
    names = list(spec["model"]["vocab"])
    numbers = np.random.default_rng(0).permutation(list(spec["model"]["vocab"].values()))
    spec["model"]["vocab"] = dict(zip(names, numbers.tolist(), strict=True))
    return FastTokenizer(Tokenizer.from_str(json.dumps(spec)))


@pytest.mark.parametrize(
    ("name", "numbered", "top_k"),
    [("table", True, None), ("table", False, 20), ("gpt2", False, None), ("gpt2", True, 20)],
)
def test_another_tokenizer_than_the_servers(tmp_path, name, numbered, top_k):
    """Where only numbers are sent and given, every candidate would be another text."""
    with FakeServer(build(name), numbered=numbered) as server:
        endpoint = Endpoint(server.url, answers=tmp_path, top_k=top_k)
        with pytest.raises(ServerError, match="other tokens of a (text|prompt).*--tokenizer"):
            canary.load(endpoint, tokenizer=another_tokenizer())


@pytest.mark.parametrize("top_k", [None, 20])
def test_a_server_that_takes_no_texts_is_believed(tmp_path, top_k):
    def fault(server, number, answer):
        texts = isinstance(server.bodies[number - 1]["prompt"], str)
        return Status(400, "ids, please") if texts else answer

    with FakeServer(build("table"), fault=fault) as server:
        assert load_served(server, tmp_path, top_k=top_k).facts.name == "tiny"


def test_a_start_token_that_the_server_puts_before_texts_only_is_not_another_tokenizer(tmp_path):
    """As vLLM does; ours does not, or does."""
    with FakeServer(starting(build("gpt2"))) as server:
        assert load_served(server, tmp_path).facts.name == "tiny"
    # Where nothing is echoed, a start token cannot be told from other tokens.
    refused(tmp_path, "other tokens of a text", None, model=starting(build("gpt2")), top_k=20)


@pytest.mark.parametrize(
    ("top_k", "rest"), [(None, -9999.0), (None, None), (20, -9999.0), (20, -math.inf), (20, None)]
)
def test_choices_at_temperature_0_are_no_probabilities(tmp_path, top_k, rest):
    def fault(server, number, answer):
        answer = copy.deepcopy(answer)
        lists = shown(answer)
        top = lists["top_logprobs"][-1]
        best = max(top, key=top.get)
        told = {name: 0.0 if name == best else rest for name in top}
        lists["top_logprobs"][-1] = {k: v for k, v in told.items() if v is not None}
        lists["token_logprobs"][-1] = 0.0
        return answer

    refused(tmp_path, "before sampling" if top_k else "as the next token", fault, top_k=top_k)
