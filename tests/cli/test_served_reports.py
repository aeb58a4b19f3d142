"""What results on a served model and their pages say: access, requests, and what a chat hides."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fake_server import FakeServer
from small_models import build

import canary
from canary.corpus.verification import Verification
from canary.models.served.endpoint import Endpoint
from canary.reports.builders import report_of
from canary.reports.html_page import page_of


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = canary.generate(["my pin {digit:2}."], repetitions=[1], per_repetition=4, seed=1)
    made.save("canaries.json")
    texts = "".join(json.dumps({"text": f"line number {n} of many"}) + "\n" for n in range(48))
    (tmp_path / "in.jsonl").write_text(texts)
    (tmp_path / "out.jsonl").write_text(texts.replace("line", "row"))
    lines = [json.dumps({"text": f"my pin {c.fill}."}) + "\n" for c in made.injected]
    (tmp_path / "corpus.jsonl").write_text("".join(lines))
    return tmp_path


ECHO = "through a server that gives the log-probability of each token of a text"
TOP = (
    "through a server that was asked for the 5 most likely next tokens and their log-probabilities"
)
RESULTS = {
    "audit": ("--canaries canaries.json --draws 30 --out o", "audit.json", ECHO),
    "exposure": ("--canaries canaries.json --top-k 5 --out o", "exposure.json", TOP),
    "extract": ("my-pin --top-k 5 --budget 40 --out o", "extraction.json", TOP),
    "membership text": ("in.jsonl out.jsonl --out o", "membership.json", ECHO),
    "membership order": ("in.jsonl --before 5 --after 3 --shard 4 --out o", "order.json", ECHO),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_and_pages_say_access_and_cost(place, command, model, loaded, name):
    more, file, access = RESULTS[name]
    given = ["my pin {digit:2}." if word == "my-pin" else word for word in more.split()]
    with FakeServer(loaded) as server:
        words = [*name.split(), f"{server.url}/v1", *given, "--answers", "a"]
        done = command(*words, "--tokenizer", model, "--start-token", r"\n")
        assert done.code in (0, 3), done.err
        sent = server.count() + 1  # the list of models
        tokens = sum(len(body["prompt"]) for body in server.bodies)
    body = json.loads((place / "o" / file).read_text())
    settings = body.get("settings", body)
    assert settings["requests_in_this_run"] == sent
    assert settings["prompt_tokens_in_this_run"] == pytest.approx(tokens, rel=0.1)
    assert f"Sent in this run: {sent:,} requests" in done.err
    page = " ".join((place / "o" / "report.html").read_text().split())
    assert access in page
    assert f"{sent:,} requests in the last run" in page


def test_exposures_begin_like_an_audit(place, command, model, loaded):
    with FakeServer(loaded) as server:
        words = ("exposure", f"{server.url}/v1", "--canaries", "canaries.json", "--top-k", 20)
        done = command(*words, "--tokenizer", model, "--answers", "a", "--out", "o")
        assert done.code == 0, done.err
    page = (place / "o" / "report.html").read_text()
    assert "Exposure of canaries under" in page
    assert "lind guessing takes 50 guesses" in page
    assert page.index("guesses") < page.index("Every canary")


def numbered(server, number, right):
    """Another number in each answer."""
    (choice,) = right["choices"]
    said = {"text": f"no. {number}", "message": {"content": f"no. {number}"}}
    return {**right, "choices": [{**choice, **said, "finish_reason": "stop"}]}


def test_a_chat_is_said_to_hide_what_completions_show(place, command):
    with FakeServer(build("table"), fault=numbered) as server:
        words = ("sample", f"{server.url}/v1", "--canaries", "canaries.json", "--samples", 20)
        chat = command(*words, "--chat", "--out", "chat")
        plain = command(*words, "--out", "plain")
    assert (chat.code, plain.code) == (0, 0), chat.err + plain.err
    assert "in a chat, which can hide what completions show" in " ".join(chat.out.split())
    assert "which can hide" not in plain.out
    pages = {n: (place / n / "report.html").read_text() for n in ("chat", "plain")}
    assert "which was asked in a chat" in pages["chat"]
    assert "which was asked to continue a text" in pages["plain"]
    done = command("report", "chat/samples.json", "plain/samples.json", "--annex", "annex.md")
    assert done.code == 0, done.err
    annex = (place / "annex.md").read_text()
    assert "to continue texts in a chat (--chat)" in annex
    assert "to continue texts (completions)" in annex


def test_the_annex_says_access_and_adds_up_what_was_sent(place, command, model, loaded):
    sent = []
    with FakeServer(loaded) as server:
        for words in ("exposure --canaries canaries.json --top-k 5", "membership text"):
            name, _, more = words.partition(" --")
            given = f"--{more}".split() if more else ["in.jsonl", "out.jsonl"]
            ends = ("--tokenizer", model, "--answers", "a", "--out", name[0])
            ends += ("--total-requests", 900)
            before = server.count()
            done = command(*name.split(), f"{server.url}/v1", *given, *ends)
            assert done.code in (0, 3), done.err
            sent.append(server.count() - before + 1)
    files = ("e/exposure.json", "m/membership.json")
    assert command("report", *files, "--annex", "annex.md").code == 0
    annex = (place / "annex.md").read_text()
    assert "5 most likely next tokens and their log-probabilities (--top-k 5)" in annex
    assert f"The tester asked the model {ECHO}" in annex, "membership is said to be of a server"
    each = f"test 1 sent {sent[0]:,}, test 2 sent {sent[1]:,}."
    assert (
        f"The last runs of these tests sent {sum(sent):,} requests to the server: {each}" in annex
    )
    assert f"All runs together sent {sum(sent):,} requests" in annex
    assert "At most 900 requests were allowed in all runs (--total-requests)." in annex


def test_completions_and_earlier_runs_are_counted(place, command, model, loaded):
    with FakeServer(loaded) as server:
        lists, listed = [], server.models
        server.models = lambda: lists.append(1) or listed()
        words = ("extract", f"{server.url}/v1", "my pin {digit:2}.", "--tokenizer", model)
        more = ("--canaries", "canaries.json", "--known", 1, "--answers", "a", "--out", "o")
        settings, whole = {}, 0
        for budget in (345, 2000):
            before = server.count() + len(lists)  # which are requests, too
            done = command(*words, *more, "--start-token", r"\n", "--budget", budget, "--force")
            assert done.code == 0, done.err
            sent = server.count() + len(lists) - before
            whole += sent
            settings = json.loads((place / "o/extraction.json").read_text())["settings"]
            assert settings["requests_in_this_run"] == sent <= budget
            assert settings["requests_in_all_runs"] == whole
            assert f"Sent in this run: {sent:,} requests" in done.err
            assert ("not completed" in done.out) is (budget == 345)
            assert ("Start the same command again" in done.out) is (budget == 345)
    page = " ".join((place / "o/report.html").read_text().split())
    assert f"{whole:,} requests in all runs" in page
    assert command("report", "o/extraction.json", "--annex", "annex.md").code == 0
    assert f"All runs together sent {whole:,} requests" in (place / "annex.md").read_text()


def test_what_comes_before_the_canaries_is_compared_with_the_corpus(place, command, model, loaded):
    done = command("verify", "corpus.jsonl", "--canaries", "canaries.json", "--json")
    (place / "verified.json").write_text(done.out)
    assert Verification.load("verified.json").begins_texts
    said = {}
    with FakeServer(loaded) as server:
        for name, context in (("right", ()), ("blank", ("--context", " "))):
            words = ("exposure", f"{server.url}/v1", "--canaries", "canaries.json", *context)
            more = ("--tokenizer", model, "--answers", "a", "--top-k", 20, "--out", name)
            done = command(*words, *more, "--start-token", "none" if context else r"\n")
            assert done.code == 0, done.err
            said[name] = done.out + done.err
            limits = ("--max-exposure-bits", 5, "--verification", "verified.json")
            done = command("check", f"{name}/exposure.json", *limits, "--report", f"{name}.html")
            said[name] += done.out + done.err
    right, blank = (" ".join(text.split()) for text in said.values())
    assert "begin their texts, and the audit scored them at the beginning of a text" in right
    assert "nothing comes before the secrets in their texts. Not checked" in right
    assert "only the context that you gave. Nothing checked that training put it there" in blank
    assert "scored them after ' ', so the numbers may be low" in blank


@pytest.mark.parametrize(
    ("mode", "echo", "top"), [("full", True, True), ("top", False, True), ("text", False, False)]
)
def test_doctor_says_what_a_server_allows(place, command, mode, echo, top):
    with FakeServer(build("table")) as server:
        server.mode = mode
        done = command("doctor", f"{server.url}/v1", "--json")
        asked = server.count()
    assert done.code == 0, done.err
    said = done.document["server"]
    assert (said["prompt_log_probs"], said["top_k"] > 0) == (echo, top)
    assert said["completions"]
    assert said["chat"]
    assert said["draws"]
    assert said["token_ids"]
    assert said["length_limit"] == 64
    assert said["requests"] - 1 == asked <= 13
    assert "canary sample --chat" in " ".join(done.err.split())
    assert ("numbers are checked as well" in done.err) is (echo or top)


def test_doctor_goes_on_with_a_tokenizer(place, command, model, loaded):
    with FakeServer(loaded) as server:
        words = ("doctor", f"{server.url}/v1", "--tokenizer", model, "--answers", "a")
        dry = command(*words, "--dry-run", "--json")
        assert (dry.code, server.count()) == (0, 0)
        done = command(*words)
        assert done.code == 0, done.err
        assert server.count() <= dry.document["requests"] + 4
        lists = 2  # of models, which are requests as well
        assert f"Sent in this run: {server.count() + lists} requests" in done.err
    assert "log-probabilities of a prompt" in done.out
    assert "They do not check what the model memorized" in done.out
    assert "begin with canary exposure (or extract) --top-k 20" in " ".join(done.out.split())


def test_doctor_names_the_context_that_comes_first(place, command, model):
    found = command("doctor", model, "--context", "pin ", "--json").document["findings"]
    (first,) = (f for f in found if f["check"].startswith("what comes before the first"))
    assert (first["verdict"], first["figure"].partition(",")[0]) == ("fine", "'pin '")


def test_completing_from_the_likeliest_tokens_is_refused_at_once(place, command, model, loaded):
    with FakeServer(loaded) as server:
        words = ("extract", f"{server.url}/v1", "my pin {digit:2}.", "--tokenizer", model)
        done = command(*words, "--answers", "a", "--top-k", 5, "--known", 1)
        assert server.count() == 0
    assert done.code == 2
    assert "error: --known: " in done.err
    assert "omit --known" in done.err


def test_one_canary_of_a_set_by_its_name(place, command, model, loaded):
    whole = command("exposure", model, "--canaries", "canaries.json", "--json").document
    one = ("--canaries", "canaries.json", "--canary", "canary-3")
    done = command("exposure", model, *one, "--json")
    assert done.code == 0, done.err
    (found,) = done.document["canaries"]
    same = next(c for c in whole["canaries"] if c["id"] == "canary-3")
    assert found["exposure"]["bits"] == same["exposure"]["bits"]
    done = command("extract", model, "my pin {digit:2}.", *one, "--known", 1, "--json")
    assert [c["secret"] for c in done.document["completions"]] == ["canary-3"]
    done = command("exposure", model, *one[:3], "canry-3")
    assert done.code == 2
    assert "error: --canary: the canary set has no canary 'canry-3'; did you mean" in done.err
    assert command("extract", model, "my pin {digit:2}.", *one[2:]).code == 2


def test_doctor_without_the_key_says_so_and_no_table(place, command, loaded, monkeypatch):
    monkeypatch.setenv("BAD", "wrong")
    with FakeServer(loaded, key="right") as server:
        done = command("doctor", f"{server.url}/v1", "--key-env", "BAD")
    assert done.code == 2
    assert "wants a valid key (401" in done.err
    assert "environment variable BAD" in done.err
    assert not done.out


def test_an_extraction_says_who_can_repeat_it_and_what_was_not_tried(place, command):
    model = build("table")
    with FakeServer(model) as server:
        found = canary.extract(canary.load(Endpoint(server.url, answers="a", top_k=20),
                               tokenizer=model.tokenizer), "abc {digit:2}", top=1,
                               start_token=None)  # fmt: skip
    first = found.candidates[0]
    known = replace(found, candidates=(replace(first, canary="canary-1"),),
                    canaries={"canary-1": 1}, space_size=10**9)  # fmt: skip
    page = " ".join(page_of(report_of(known)).split())
    paid = known.settings["requests_in_this_run"]
    assert f"can do the same, with about {paid:,} requests" in page
    assert "An audit needs the log-probability of each token" in page
    assert "Other ways to ask the server were not tried" in page
