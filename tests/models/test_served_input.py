"""What servers get wrong is found out, with the reason, before or while they are used.

One that cannot be trusted costs bounded time and memory.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import time
from pathlib import Path

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

ROW = Rows.of([[1, 2, 3, 4]])
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def shown(answer):
    return answer["choices"][0]["logprobs"]


def echoes(answer):
    return isinstance(answer, dict) and len(shown(answer)["tokens"]) > 1


def answers(change):
    """Other answers; what changes one in place gives none."""

    def fault(server, number, answer):
        changed = change(answer)
        return answer if changed is None else changed

    return fault


def setting(place, value):
    """Another log-probability in some place."""
    return answers(lambda a: shown(a)["token_logprobs"].__setitem__(place, value))


def showing(**lists):
    return answers(lambda a: shown(a).update(lists))


def off_by_one(server, number, answer):
    """Each token with the log-probability that it has after itself, as llama-cpp-python."""
    if echoes(answer):
        prompt = server.tokens(server.bodies[number - 1])
        after = [server.read(prompt[: k + 1])[1][token] for k, token in enumerate(prompt)]
        shown(answer)["tokens"].pop()
        shown(answer).update(token_logprobs=[None, *map(float, after[1:])], top_logprobs=None)
    return answer


@answers
def one_too_early(answer):
    if echoes(answer):
        del shown(answer)["token_logprobs"][1]
        shown(answer)["token_logprobs"].append(-1.0)


@answers
def no_echo(answer):
    for values in shown(answer).values():
        del values[:-1]


def scaled(base):
    """Logarithms of another base."""

    def change(answer):
        lists, by = shown(answer), math.log(base)
        for place in filter(None, lists["top_logprobs"]):
            place.update({token: value / by for token, value in place.items()})
        lists["token_logprobs"] = [v if v is None else v / by for v in lists["token_logprobs"]]

    return answers(change)


def prepending(shows, counts):
    """A server that puts a start token before the token ids that it is sent."""

    def change(answer):
        lists = shown(answer)
        if len(lists["tokens"]) > 1:
            if shows:
                lists["tokens"].insert(0, "token_id:0")
                lists["token_logprobs"].insert(0, None)
            lists["token_logprobs"][int(shows)] = -1.25
        if counts:
            answer["usage"]["prompt_tokens"] += 1
        else:
            del answer["usage"]

    return answers(change)


def sure(rest):
    """Its choice at temperature 0, and `rest` for all others."""

    def change(answer):
        top = shown(answer)["top_logprobs"][-1]
        best = max(top, key=top.get)
        told = {name: 0.0 if name == best else rest for name in top}
        top.clear()
        top.update({name: value for name, value in told.items() if value is not None})
        shown(answer)["token_logprobs"][-1] = 0.0

    return answers(change)


def each(change):
    """All log-probabilities of an echo changed, and none of the most likely tokens."""

    def changed(answer):
        if echoes(answer):
            values = shown(answer)["token_logprobs"]
            shown(answer)["token_logprobs"] = [v if v is None else change(v) for v in values]

    return answers(changed)


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


def status(*answer):
    return answers(lambda a: Status(*answer))


PREPENDS = r"puts (a token|tokens of its own) before a prompt.*turn that off"
CHATS = r"no completions API .*\({}: 'Not Found'\).*only chats"
BUSY = r"\(503|left alone"
FAULTS = {
    "no log-probabilities": (
        answers(lambda a: {**a, "choices": [{"text": "x", "logprobs": None}]}),
        "gives no log-probabilities .*--top-k",
    ),
    "no echo": (no_echo, "returned 1: it does not echo"),
    "off by one": (off_by_one, "as the next token: .*off by one"),
    "one too early": (one_too_early, "later tokens change earlier ones"),
    "other tokens": (
        answers(lambda a: shown(a)["tokens"].__setitem__(2, "token_id:0") if echoes(a) else None),
        "other tokens of a prompt: number 3 of .*--tokenizer",
    ),
    "first has a number": (setting(0, -1.0), "first token of all"),
    "null": (setting(3, None), "no log-probability of token 4 of"),
    "NaN": (setting(3, math.nan), "not finite numbers"),
    "above 0": (setting(3, 0.5), "cannot be read"),
    "beyond all floats": (setting(2, -(10**400)), "cannot be read"),
    "infinite": (setting(2, math.inf), "cannot be read"),
    "no number": (setting(2, []), "cannot be read"),
    "base 10": (scaled(10), "a probability of 1.* together.*natural logarithms"),
    "base 2": (scaled(2), "a probability of at most 0.* together.*natural logarithms"),
    "cut off": (each(lambda v: max(v, -3.5)), "random tokens share the lowest value.*-3.5 nats"),
    "rounded": (each(lambda v: round(v, 1)), "rounds .* to multiples of 0.1 nats"),
    "rounded less": (each(lambda v: round(v, 2)), "rounds .* to multiples of 0.01 nats"),
    "other name": (answers(lambda a: {**a, "model": "another"}), "'another', and 'tiny' was"),
    "too many tokens": (
        lambda server, number, answer: {**answer, "usage": {"prompt_tokens": number + 20}},
        r"prompt_tokens\) where 12 were sent; .*counts wrongly",
    ),
    "another shape": (answers(lambda a: {"object": "error"}), "cannot be read"),
    "400": (status(400, {"error": {"message": "no echo"}}), "400: 'no echo'.*--top-k"),
    "307": (status(307, "", {"Location": "/x"}), "elsewhere"),
    # A gigabyte fits into a megabyte.
    "packed": (
        status(200, gzip.compress(b" " * 10**7), {"Content-Encoding": "gzip"}),
        "compresses its answer",
    ),
    "pause of nan": (status(503, "", {"Retry-After": "nan"}), BUSY),
    "pause before": (status(503, "", {"Retry-After": "-1"}), BUSY),
    "pause for ever": (status(503, "", {"Retry-After": "Fri, 20 Nov 9999 00:00:00 GMT"}), BUSY),
    "only chats": (status(404, {"detail": "Not Found"}), CHATS.format(404)),
    "only chats, bounds": (status(405, {"detail": "Not Found"}), CHATS.format(405), {"top_k": 5}),
    "prepends, shown and counted": (prepending(True, True), PREPENDS),
    "prepends, shown": (prepending(True, False), PREPENDS),
    "prepends, counted": (prepending(False, True), PREPENDS),
    "prepends": (prepending(False, False), PREPENDS),
    # An answer without an echo shows a token only in its count.
    "prepends, bounds": (prepending(False, True), PREPENDS, {"top_k": 5}),
    "temperature 0": (sure(-9999.0), "as the next token"),
    "temperature 0, bounds": (sure(-math.inf), "before sampling", {"top_k": 20}),
    "temperature 0, alone": (sure(None), "before sampling", {"top_k": 20}),
    "too probable": (
        showing(top_logprobs=[{"token_id:1": 0.0, "token_id:2": -0.1}]),
        "probability of 1.9 together",
        {"top_k": 2},
    ),
    "nothing next": (showing(top_logprobs=[{}]), "does not return the most likely", {"top_k": 2}),
    "not ours": (
        showing(top_logprobs=[{"nothing of ours": -1.0}]),
        "that the tokenizer does not have",
        {"top_k": 2},
    ),
    # Where nothing is echoed, a start token cannot be told from other tokens.
    "start before texts, bounds": (
        None,
        "other tokens of a text",
        {"top_k": 20, "model": starting(build("gpt2"))},
    ),
    # Texts only, and its own tokenizer puts a start token where ours has none.
    "start before texts": (
        None,
        "where the tokenizer makes",
        {"ids": False, "model": starting(build("table"))},
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_handshake_refuses(tmp_path, case):
    fault, message, *options = FAULTS[case]
    refused(tmp_path, message, fault, **dict(*options))
    assert not list(tmp_path.rglob("*.shard"))


@pytest.mark.parametrize(("decimals", "grain"), [(3, 1e-3), (5, 1e-5), (None, 0.0)])
def test_three_decimals_are_enough_and_count_as_noise(tmp_path, decimals, grain):
    """Two candidates may be as far apart as a rounding, for each token."""
    fault = None if decimals is None else each(lambda v: round(v, decimals))
    with FakeServer(build("table"), fault=fault) as server:
        noise = load_served(server, tmp_path).facts.noise_bits_per_token
    assert noise >= grain / np.log(2)
    assert noise < 9e-4 or decimals == 3


@pytest.mark.parametrize("ids", [True, False])
def test_a_server_that_is_off_by_one_for_long_prompts_is_refused(tmp_path, ids):
    """The rows of the handshake are short; it is asked again at the length of those in earnest."""

    def late(answer):
        # As where the numbers of a second part of a prompt are laid down one place late.
        if echoes(answer) and len(shown(answer)["tokens"]) > 21:
            values = shown(answer)["token_logprobs"]
            values[2:-1] = values[1:-2]

    rows = [[5 + (7 * k + k * k) % 30 for k in range(length)] for length in (8, 18, 24)]
    with FakeServer(build("table"), fault=answers(late), ids=ids) as server:
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
    told = [texts.is_token(*pair) for pair in (("<s>", start), ("", start), ("</s>", start))]
    assert told == [True, True, False]
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
    with (
        FakeServer(build("table"), fault=lambda *_: None) as server,
        pytest.raises(ServerError, match=r"though it lists its models; .* canary sample"),
    ):
        load_served(server, tmp_path, attempts=2)
    began = time.perf_counter()
    with pytest.raises(ServerError, match=r"/v1/models: cannot be reached.*start the server"):
        load_served(server, tmp_path, attempts=20)
    assert time.perf_counter() - began < 20  # nothing listens there: it is not asked again


PASSING = [
    lambda answer: Status(429, "slow down", {"Retry-After": "0"}),
    lambda answer: Status(500),
    lambda answer: Status(503, "", {"Retry-After": "Fri, 20 Nov 2020 00:00:00 GMT"}),
    lambda answer: b'{"choices": [{"text"',
    lambda answer: None,  # cut off
]


@pytest.mark.parametrize("top_k", [None, 5])
def test_a_server_that_fails_at_some_requests_is_suspected_of_their_tokens(tmp_path, top_k):
    """It is reached, for it answers others; what those requests hold may be wrong."""

    def dropping(server, number, answer):
        return None if max(server.bodies[-1]["prompt"]) > 5 else answer

    with (
        FakeServer(build("table"), fault=dropping) as server,
        pytest.raises(ServerError, match=r"drops this request.*--tokenizer") as caught,
    ):
        load_served(server, tmp_path, attempts=2, top_k=top_k)
    assert "cannot be reached" not in str(caught.value)


def test_what_may_pass_is_asked_again(tmp_path):
    """Each failure once or twice, in the run itself, beyond the handshake."""
    left = []

    def fault(server, number, answer):
        return left.pop()(answer) if left else answer

    rows = Rows.of([[1, 2, k] for k in range(12)])
    with FakeServer(build("table"), fault=fault) as server:
        model = load_served(server, tmp_path, attempts=2 * len(PASSING) + 1)
        left += 2 * PASSING
        before = server.count()
        found = model.score(rows)
        assert server.count() - before == 12 + 1 + 2 * len(PASSING)
    np.testing.assert_allclose(found, build("table").score(rows), atol=1e-6)


def test_a_first_request_that_failed_once_is_asked_again(tmp_path):
    rows = Rows.of([[1, 2, 3]])

    def fault(server, number, answer):
        return Status(500) if number == 1 else answer

    with FakeServer(build("table"), fault=fault) as server:
        found = load_served(server, tmp_path).score(rows)
    np.testing.assert_allclose(found, build("table").score(rows), atol=1e-6)


def test_a_limit_of_requests_is_kept_to_and_is_no_failure(tmp_path):
    """One request each 0.02 s, at first from eight threads; a wait is no attempt."""
    said, free, refusals = [], [0.0], []

    def limited(server, number, answer):
        with server.lock:
            if (now := time.monotonic()) < free[0]:
                refusals.append(number)
                wait = max(free[0] - now, 0.001)  # 0.000 would ask for no wait: a failure
                return Status(429, "", {"Retry-After": f"{wait:.3f}"})
            free[0] = now + 0.02
        return answer

    rows = Rows.of([[1, 2, a, b] for a in range(4) for b in range(10)])
    with FakeServer(build("table")) as server:
        model = load_served(server, tmp_path, attempts=1, max_requests=70, say=said.append)
        server.fault = limited
        found = model.score(rows)
        sent = model.requests()["requests_in_this_run"]
    np.testing.assert_allclose(found, build("table").score(rows), atol=1e-6)
    assert refusals
    assert sent == server.count() + 1 - len(refusals)  # the list of models is one, too
    assert [line for line in said if "429" in line] == [said[0]]
    assert said[-1].startswith(f"Throttled by the server: {len(refusals)} retr")


def test_a_server_that_asks_to_wait_again_and_again_ends_the_run(tmp_path):
    with FakeServer(build("table")) as server:
        model = load_served(server, tmp_path, attempts=1, patience=0.2)
        server.fault = status(429, "", {"Retry-After": "0.05"})
        with pytest.raises(ServerError, match="limits how often"):
            model.score(ROW)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (status(500, "secret 1 2 3"), r"failed \(500\) .*2 tries.*no answer is kept"),
        (status(400, "secret 1 2 3"), r"does not take the request \(400\);"),
        (answers(lambda a: b"{"), "no whole JSON"),
        (setting(3, math.nan), "not finite"),
        (answers(lambda a: {**a, "model": "another"}), "'another', and 'tiny' was asked"),
        (status(429, "", {"Retry-After": "4000"}), "left alone for 4,000 s"),
        (status(429, "", {"Retry-After": "0"}), "limits how often.*--in-flight"),
    ],
)
def test_what_does_not_pass_ends_the_run(tmp_path, fault, message):
    """And nothing that the server says of a secret is repeated."""
    with FakeServer(build("table")) as server:
        model = load_served(server, tmp_path, attempts=2)
        server.fault = fault
        with pytest.raises((ServerError, ModelError), match=message) as caught:
            model.score(ROW)
    assert "secret" not in str(caught.value)


def drip(write, first, forever):
    write(first)
    for _ in range(600):
        time.sleep(0.05)
        write(forever)


DRIPPING = {
    "body": lambda write: drip(write, HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
    "headers": lambda write: drip(write, HEAD, b"X: y\r\n"),
    "informed": lambda write: drip(write, b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
}


def test_a_server_that_drips_is_left_when_the_time_is_over(tmp_path):
    """Each byte comes within the time; the whole answer would take half a minute and more."""
    with FakeServer(build("table")) as server:
        model = load_served(server, tmp_path, attempts=1)
        client = model.client
        client._endpoint = dataclasses.replace(client._endpoint, timeout=0.3)
        for dripping in DRIPPING.values():
            server.fault = answers(lambda a, dripping=dripping: dripping)
            began = time.monotonic()
            with pytest.raises(ServerError, match=r"did not give its whole answer within 0.3 s"):
                model.score(ROW)
            assert time.monotonic() - began < 15


def test_an_answer_without_end_is_cut(tmp_path):
    written = [0]

    def endless(write):
        write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        part = b" " * 65536
        for _ in range(10**5):
            write(b"10000\r\n" + part + b"\r\n")
            written[0] += len(part)

    refused(tmp_path, "sent more than 8 MB", answers(lambda a: endless))
    assert written[0] < 100_000_000  # what was under way, besides the 8 MB


@pytest.mark.parametrize("names", [True, False])
def test_another_model_in_mid_run_is_an_error_and_no_mixture(tmp_path, names):
    """Whether or not it says its name; what the first one answered stays, and no more."""
    rows = Rows.of([[1, 2, a, b] for a in range(15) for b in range(10)])
    with FakeServer(build("table")) as server:
        model = load_served(server, tmp_path)
        swap_at = server.count() + 100  # in the second block

        def swapped(server, number, answer):
            if number < swap_at:
                return answer
            server.model = table_model(seed=8)
            return {**answer, "model": "another"} if names else answer

        server.fault = swapped
        with pytest.raises(ServerError, match="another"):
            model.score(rows)
        # The other model stays: it is not taken for the one whose answers are kept.
        server.fault = answers(lambda a: a)
        assert len(model._answers) == 64
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
        ("http://host", {"max_requests": 0}, "max_requests.* got 0"),
        ("http://host", {"in_flight": 0}, "in_flight.* got 0"),
        ("http://host", {"timeout": 0}, "timeout.* got 0"),
        ("http://host", {"top_k": 1000}, "top_k.* at most 100"),
    ],
)
def test_addresses_and_options(url, options, message):
    with pytest.raises(InputError, match=message) as caught:
        Endpoint(url, **options)
    assert "hunter2" not in str(caught.value)


def test_an_address_says_how_the_server_speaks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="write http://localhost:8000/v1$"):
        canary.load("localhost:8000/v1")
    Path("10:8").mkdir()
    with pytest.raises(ModelError, match="10:8"):  # a folder, without a model in it
        canary.load("10:8")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"tokenizer": None}, "needs the tokenizer .*--tokenizer"), ({"dtype": "float32"}, "served")],
)
def test_options_of_load(options, message):
    with pytest.raises(InputError, match=message):
        canary.load("http://127.0.0.1:9", **{"tokenizer": character_tokenizer(), **options})


def test_a_missing_library_names_the_extra(monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "httpx2" else find(name)
    )
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[endpoint\]' in a checkout"):
        canary.load("http://127.0.0.1:9", tokenizer=character_tokenizer())


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


def test_a_server_that_takes_no_texts_or_starts_texts_alone_is_believed(tmp_path):
    """As vLLM puts a start token before texts where our tokenizer does not."""

    def fault(server, number, answer):
        texts = isinstance(server.bodies[number - 1]["prompt"], str)
        return Status(400, "ids, please") if texts else answer

    with FakeServer(build("table"), fault=fault) as server:
        for top_k in (None, 20):
            assert load_served(server, tmp_path, top_k=top_k).facts.name == "tiny"
    with FakeServer(starting(build("gpt2"))) as server:
        assert load_served(server, tmp_path).facts.name == "tiny"
