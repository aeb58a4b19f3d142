"""Served models from the command line, and what a run leaves behind of the key: nothing."""

from __future__ import annotations

import json
import re
import traceback
from urllib.parse import quote

import pytest
from fake_server import FakeServer, Status

import canary
from canary.errors import CanaryError
from canary.models.served.endpoint import Endpoint

KEY = "sk-Qq7_never.written/9+=="
VARIABLE = "A_KEY_FOR_TESTS"


@pytest.fixture
def canaries(tmp_path, monkeypatch):
    """A set, in a folder that nothing of a run may leave."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for folder in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(folder, str(tmp_path))
    monkeypatch.setenv(VARIABLE, KEY)
    made = canary.generate(["my pin {digit:2}."], repetitions=[1], per_repetition=2, seed=1)
    path = tmp_path / "canaries.json"
    made.save(path)
    return path


def words(command, server, model, *more):
    return (command, f"{server.url}/v1", "--tokenizer", model, "--answers", "answers", *more)


def test_exposure_score_extract_audit(tmp_path, command, model, loaded, canaries):
    here = command("exposure", model, "--canaries", canaries, "--json").document["canaries"]
    with FakeServer(loaded) as server:
        done = command(
            *words("exposure", server, model, "--canaries", canaries, "--json"), "--in-flight", 4
        )
        assert done.code == 0, done.err
        assert "sent so far; about 120 to come in this step" in done.err
        for inside, outside in zip(here, done.document["canaries"], strict=True):
            assert outside["exposure"]["bits"] == inside["exposure"]["bits"]
            assert outside["px_bits"] == pytest.approx(inside["px_bits"], abs=1e-4)
        asked = server.count()
        done = command(*words("audit", server, model, "--canaries", canaries, "--out", "out"))
        assert done.code == 0, done.err
        # What exposure asked for is known; the search asks for beginnings besides.
        assert server.count() - asked < 150
        facts = json.loads((tmp_path / "out" / "audit.json").read_text())["model"]
        assert (facts["name"], facts["device"]) == ("tiny", "served")
        page = (tmp_path / "out" / "report.html").read_text()
        assert "Version of the weights" not in page
        assert "Fingerprint of its first answers" in page
        assert "through a server that gives" in (tmp_path / "out" / "report.html").read_text()
        done = command(*words("extract", server, model, "my pin {digit:2}.", "--json"))
        assert done.code == 0, done.err
        assert len(done.document["candidates"]) == 1
        (tmp_path / "texts.jsonl").write_text('{"text": "my pin"}\n{"text": "your pin"}\n')
        done = command(*words("score", server, model, "texts.jsonl", "--out", "scores.jsonl"))
        assert done.code == 0, done.err
        assert "about 3 to come" in done.err
        done = command("score", model, "texts.jsonl", "--out", "here.jsonl")
        served, local = (
            [json.loads(line)["px_bits"] for line in (tmp_path / name).read_text().splitlines()]
            for name in ("scores.jsonl", "here.jsonl")
        )
        assert served == pytest.approx(local, abs=1e-4)


def test_a_forecast_sends_no_requests(command, model, loaded, canaries):
    with FakeServer(loaded) as server:
        given = ("my pin {digit:2}.", "--model", f"{server.url}/v1", "--tokenizer", model)
        done = command("plan", *given)
        assert done.code == 2
        assert "count the requests with canary audit --dry-run" in done.err
        assert server.count() < 100  # those of loading


def test_bounds_from_the_likeliest_next_tokens(command, model, loaded, canaries):
    with FakeServer(loaded) as server:
        asked = ("--canaries", canaries, "--top-k", 20)
        done = command(*words("exposure", server, model, *asked, "--json"))
        assert done.code == 0, done.err
        assert "certainly within its interval" in done.err
        for found in done.document["canaries"]:
            exposure = found["exposure"]
            assert 0 <= exposure["lower_bits"] <= exposure["upper_bits"] <= 6.65
        few = ("--max-requests", server.count() - 4, "--answers", "others")
        done = command(*words("exposure", server, model, *asked, *few))
        assert done.code == 0, done.err
        shown = " ".join(done.out.split())
        assert "the same command continues it" in shown
        bare = int(re.search(r"No lower bound of the exposure is known for (\d+) of", shown)[1])
        told = re.search(r"Of (\d+) the server did not return", shown)
        early = re.search(r"knew a lower bound for (\d+) (?:other canar|of them)", shown)
        assert sum(int(one[1]) for one in (told, early) if one) == bare > 0
        done = command(*words("exposure", server, model, *asked, "--top-k", 1))
        assert "unknown" in done.out
        assert "No lower bound of the exposure is known for" in " ".join(done.out.split())
        before = server.count()
        done = command(*words("audit", server, model, *asked, "--out", "out"))
        assert done.code == 2
        assert server.count() == before
        assert "use canary exposure and canary extract" in done.err


def test_exposures_from_the_likeliest_tokens_are_judged(command, model, loaded, canaries, tmp_path):
    with FakeServer(loaded) as server:
        for top, folder in ((1, "few"), (20, "many")):
            asked = ("--canaries", canaries, "--top-k", top, "--out", folder)
            assert command(*words("exposure", server, model, *asked)).code == 0
    # Of no canary is anything known, and a limit is not kept by that.
    page = tmp_path / "v.html"
    checked = ("--max-exposure-bits", 2, "--trust-injection", "--report", page)
    done = command("check", "few/exposure.json", *checked)
    assert done.code == 3, done.err
    for said in (done.out + done.err, page.read_text()):
        assert "exposure --top-k 20" not in " ".join(said.split())  # that is what was run
    assert command("report", "many/exposure.json", "--out", tmp_path / "r.html").code == 0


def test_too_many_requests_are_refused_before_the_run(command, model, loaded, canaries):
    with FakeServer(loaded) as server:
        done = command(
            *words("exposure", server, model, "--canaries", canaries, "--max-requests", 50)
        )
        assert done.code == 2
        assert "requests are needed in this run, and 50 allowed" in done.err
        asked = ("--canaries", canaries, "--draws", 60)
        command(*words("exposure", server, model, "--canaries", canaries, "--top-k", 5))
        bound = server.count() + 20
        done = command(*words("exposure", server, model, *asked, "--total-requests", bound))
        assert done.code == 2
        enough = re.search(r"give --total-requests (\d+)", done.err)[1]
        assert int(enough) > bound
        done = command(*words("exposure", server, model, *asked, "--total-requests", enough))
        assert done.code == 0, done.err


def test_exact_ranks_are_refused_because_the_model_is_at_an_address(
    command, model, loaded, canaries
):
    with FakeServer(loaded) as server:
        ranked = ("--canaries", canaries, "--start-token", "none", "--method", "rank")
        done = command(*words("exposure", server, model, *ranked))
    assert done.code == 2
    assert "cannot be reused, because it is at an address; use --method sampling" in done.err


def test_a_server_that_wants_a_key_is_asked_no_more(command, loaded):
    """No question of doctor would be answered."""
    with FakeServer(loaded, key=KEY) as server:
        asked, right = [], server.answer
        server.answer = lambda *request: asked.append(1) or right(*request)
        done = command("doctor", f"{server.url}/v1")
    assert done.code == 2
    assert "401" in done.err
    assert len(asked) == 1


def telling(code):
    """The server says the key that it was sent."""
    said = json.dumps({"error": {"message": f"is {KEY} a key?"}})
    said += said.replace("/", "\\/")
    return lambda *_: Status(code, said.encode())


def escaped(code):
    """The same with the key written as JSON may write it, and as an address does."""
    letters = "".join(f"\\u{ord(c):04X}" for c in KEY)
    said = f'{{"error": {{"message": "is {letters} or {quote(KEY, safe="")} a key?"}}}}'
    return lambda *_: Status(code, said.encode())


def hang_up(server, number, answer):
    return None


def name_the_key(server, number, answer):
    return {**answer, "model": KEY}


FAULTS = {
    "400": telling(400),
    "401": telling(401),
    "500": telling(500),
    "400, escaped": escaped(400),
    "401, escaped": escaped(401),
    "500, cut off where it is escaped": lambda *_: Status(500, escaped(500)().body[:-3]),
    "hang up": hang_up,
    "cut off": lambda *_: b'{"cho',
    "another model": name_the_key,
}


def test_nothing_that_a_run_leaves_behind_holds_the_key(command, model, loaded, canaries, caplog):
    """With every library telling all that it does."""
    for fault, name in ((None, "out"), (name_the_key, "other")):
        own = ("--out", name, "--key-env", VARIABLE, "--request-timeout", 5)
        with FakeServer(loaded, key=KEY, fault=fault) as server, caplog.at_level(1):
            done = command(*words("audit", server, model, "--canaries", canaries, *own))
        assert done.code == (0 if fault is None else 2), done.err
        assert "HTTP" in caplog.text, "the log was on"
        assert not any("Qq7" in text for text in (done.out, done.err, caplog.text))
        # Files of numbers hold any three bytes now and then; nine they do not.
        files = [path.read_bytes() for path in canaries.parent.rglob("*") if path.is_file()]
        assert not any(b"Qq7_never" in text for text in files)
        caplog.clear()


@pytest.mark.parametrize("name", FAULTS)
def test_errors_do_not_hold_the_key(tmp_path, monkeypatch, model, loaded, name):
    """Not in their words, their chain, nor in the variables of any frame on their way."""
    monkeypatch.setenv(VARIABLE, KEY)
    with FakeServer(loaded, key=KEY, fault=FAULTS[name]) as server:
        endpoint = Endpoint(server.url, answers=tmp_path, key_env=VARIABLE, attempts=1)
        with pytest.raises(CanaryError) as caught:
            canary.load(endpoint, tokenizer=str(model))
    told = "".join(
        traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
    )
    chain, error = [], caught.value
    while error is not None:
        chain.append(repr(error) + str(vars(error)))
        error = error.__cause__ or error.__context__
    for text in (told, *chain, repr(endpoint)):
        assert "Qq7" not in text
        assert "written%2F" not in text
        assert "\\u0051" not in text


def test_a_key_that_is_given_in_place_of_its_name_is_not_repeated(command, model, canaries):
    done = command(
        *("exposure", "http://127.0.0.1:9", "--tokenizer", model),
        *("--canaries", canaries, "--key-env", "sk-mistaken"),
    )
    assert done.code == 2
    assert "sk-mistaken" not in done.err


@pytest.mark.parametrize("value", ["", " ", "two words", "naïve", "line\nline", 'a"quote'])
def test_keys_that_cannot_be_sent(monkeypatch, model, value):
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(CanaryError, match="key") as caught:
        canary.load(Endpoint("http://127.0.0.1:9", key_env=VARIABLE), tokenizer=str(model))
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    own = [f for f in told.stack if "canary/models" in f.filename]
    assert own
    assert not value.strip() or repr(value) not in f"{caught.value} {[f.locals for f in own]}"


def test_no_key_is_sent_unless_its_variable_is_named(tmp_path, monkeypatch, model, loaded):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv(VARIABLE, KEY)
    with FakeServer(loaded, key=KEY) as server:
        with pytest.raises(CanaryError, match=r"401.*--key-env"):
            canary.load(Endpoint(server.url, answers=tmp_path), tokenizer=str(model))
        canary.load(Endpoint(server.url, answers=tmp_path, key_env=VARIABLE), tokenizer=str(model))
