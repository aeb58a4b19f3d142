"""A server that cannot be trusted costs bounded time and memory, and is named."""

from __future__ import annotations

import gzip
import json
import time

import pytest
from fake_server import FakeServer, Status
from served_things import load_served, refused
from small_models import build

from canary.errors import CanaryError, ServerError
from canary.models.language_model import Rows

ROWS = Rows.of([[1, 2, 3, 4]])
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def drip(write, first, forever):
    write(first)
    for _ in range(600):
        time.sleep(0.05)
        write(forever)


def body_by_bytes(write):
    drip(write, HEAD + b"Content-Length: 100000\r\n\r\n", b" ")


def headers_by_bytes(write):
    drip(write, HEAD, b"X: y\r\n")


def informed_forever(write):
    drip(write, b"", b"HTTP/1.1 102 Processing\r\n\r\n")


@pytest.mark.parametrize("dripping", [body_by_bytes, headers_by_bytes, informed_forever])
def test_a_server_that_drips_is_left_when_the_time_is_over(tmp_path, dripping):
    """Each byte comes within the time; the whole answer would take half a minute and more."""
    fault = {}
    with FakeServer(build("table"), fault=lambda s, n, a: fault.get("now", a)) as server:
        model = load_served(server, tmp_path, timeout=2, attempts=1)
        fault["now"] = dripping
        began = time.monotonic()
        with pytest.raises(ServerError, match=r"did not give its whole answer within 2 s"):
            model.score(ROWS)
        assert time.monotonic() - began < 15


def test_an_answer_without_end_is_cut(tmp_path):
    written = [0]

    def endless(write):
        write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        part = b" " * 65536
        for _ in range(10**5):
            write(b"10000\r\n" + part + b"\r\n")
            written[0] += len(part)

    refused(tmp_path, "sent more than 8 MB", lambda s, n, a: endless)
    assert written[0] < 100_000_000  # what was under way, besides the 8 MB


PACKED = Status(200, gzip.compress(b" " * 10**7), {"Content-Encoding": "gzip"})
SINCE = "Fri, 20 Nov 9999 00:00:00 GMT"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (PACKED, "compresses its answer"),  # a gigabyte fits into a megabyte
        *((Status(503, "", {"Retry-After": h}), r"\(503|left alone") for h in ("nan", SINCE, "-1")),
    ],
)
def test_what_no_honest_server_answers(tmp_path, status, message):
    refused(tmp_path, message, lambda s, n, a: status)


@pytest.mark.parametrize("number", [f"-1{'0' * 400}", "1e400", '"x"', "[]"])
def test_a_number_beyond_all_floats_is_no_log_probability(tmp_path, number):
    def fault(server, count, answer):
        answer["choices"][0]["logprobs"]["token_logprobs"][2] = "HERE"
        return json.dumps(answer).replace('"HERE"', number).encode()

    refused(tmp_path, "cannot be read", fault)


def prepending(shown, counted):
    """A server that puts a start token before the token ids that it is sent."""

    def fault(server, number, answer):
        lists = answer["choices"][0]["logprobs"]
        if len(lists["tokens"]) > 1:
            if shown:
                lists["tokens"].insert(0, "token_id:0")
                lists["token_logprobs"].insert(0, None)
            lists["token_logprobs"][int(shown)] = -1.25
        if counted:
            answer["usage"]["prompt_tokens"] += 1
        else:
            del answer["usage"]
        return answer

    return fault


@pytest.mark.parametrize(
    ("shown", "counted", "top_k"),
    # An answer without an echo shows a token only in its count.
    [
        *((shown, counted, None) for shown in (True, False) for counted in (True, False)),
        *((shown, True, 5) for shown in (True, False)),
    ],
)
def test_a_server_that_prepends_a_token_is_said_to(tmp_path, shown, counted, top_k):
    message = r"puts (a token|tokens of its own) before a prompt.*turn that off"
    refused(tmp_path, message, prepending(shown, counted), top_k=top_k)


@pytest.mark.parametrize(("code", "top_k"), [(404, None), (405, None), (501, None), (404, 5)])
def test_a_server_that_only_chats_is_said_to(tmp_path, code, top_k):
    fault = Status(code, {"detail": "Not Found"})
    message = rf"no completions API .*\({code}: 'Not Found'\).*only chats"
    refused(tmp_path, message, lambda s, n, a: fault, top_k=top_k)


@pytest.mark.parametrize(("fine", "kept"), [(70, "64 answers are kept"), (30, "no answer is kept")])
def test_how_many_answers_are_kept_is_said_as_it_is(tmp_path, fine, kept):
    """When the server goes, the probe that vouches for the last of them cannot be asked for."""
    left = [10**9]

    def fault(server, number, answer):
        left[0] -= 1
        return answer if left[0] > 0 else Status(500)

    rows = Rows.of([[1, 2, a, b] for a in range(10) for b in range(10)])
    with FakeServer(build("table"), fault=fault) as server:
        model = load_served(server, tmp_path, attempts=1)
        left[0] = fine
        with pytest.raises(CanaryError, match=kept):
            model.score(rows)
        again = len(model._asking._answers)
    assert kept.startswith(str(again) if again else "no")
