"""What a command would send to a server: counted before it is sent, and right."""

from __future__ import annotations

import json
import re

import pytest
from fake_server import FakeServer

import canary
from canary.errors import EstimationError
from canary.models.served.endpoint import Endpoint
from canary.models.served.rehearsal import CLOSE, count_requests


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = canary.generate(["my pin {digit:2}."], repetitions=[1], per_repetition=2, seed=1)
    made.save("canaries.json")
    words = ["she", "sells", "some", "fine", "old", "shells", "by", "the", "long", "sea", "shore"]
    for name, first in (("in", 0), ("out", 24)):
        lines = [
            json.dumps({"text": " ".join(words[n % 9 :][: 3 + n % 3]) + f" {n}"}) + "\n"
            for n in range(first, first + 24)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    return tmp_path


IN_ALL = ("check of the start token", "canaries and controls", "draws", "texts", "pairs of texts")

COMMANDS = {
    "audit": "audit URL --canaries canaries.json --draws 40 --extraction-budget 0 --out o",
    "named": "audit URL --canaries canaries.json --draws 40 --extraction-budget 0 --out o "
    r"--start-token \n",
    "exposure": "exposure URL --canaries canaries.json --draws 40",
    "score": "score URL in.jsonl --out o.jsonl",
    "text": "membership text URL in.jsonl out.jsonl --out o",
    "order": "membership order URL in.jsonl --shard 4 --before 6 --after 4 --out o",
    "order by top": "membership order URL in.jsonl --shard 4 --before 6 --after 4 --top-k 5 "
    "--out o",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_count_is_right_before_anything_is_sent(place, command, model, loaded, name):
    with FakeServer(loaded) as server:
        words = COMMANDS[name].replace("URL", f"{server.url}/v1").split()
        words += ["--tokenizer", model, "--answers", "answers"]
        table = command(*words, "--dry-run").out
        checked = "check of the start token" in table and "canaries and controls" in table
        assert ("canaries and controls not sent above" in table) is checked
        before = sorted(path.name for path in place.iterdir())
        dry = command(*words, "--dry-run", "--json")
        assert dry.code == 0, dry.err
        assert server.count() == 0
        assert sorted(path.name for path in place.iterdir()) == before, "nothing is left behind"
        counts = dry.document
        few = command(*words, "--max-requests", counts["requests"] - CLOSE - 1)
        assert few.code == 2
        assert f"give --max-requests {counts['requests'] + CLOSE} or more" in few.err
        assert server.count() == 0
        done = command(*words)
        assert done.code in (0, 3), done.err
        assert "Counting the requests" in done.err.splitlines()[0]
        assert f"about {counts['requests']:,} requests" in done.err.splitlines()[1]
        if name in ("order", "order by top", "score"):  # all that is sent is sent in one step
            sent, more = map(int, re.search(r"(\d+) sent so far; about (\d+)", done.err).groups())
            assert sent + more == pytest.approx(server.count(), abs=CLOSE)
        # The list of models is a request, and no completion.
        assert counts["requests"] - 1 == pytest.approx(server.count(), abs=CLOSE)
        prompts = [body["prompt"] for body in server.bodies]
        tokens = sum(len(prompt) for prompt in prompts if isinstance(prompt, list))
        assert counts["prompt_tokens"] == pytest.approx(tokens, rel=0.05)
        parts = counts["parts"]
        for key in ("requests", "prompt_tokens"):
            assert sum(part[key] for part in parts.values()) == counts[key]
        assert sum(part["requests"] for name, part in parts.items() if name in IN_ALL) > 20
        again = command(*words, *(["--force"] if "--out" in words else []), "--dry-run", "--json")
        assert again.document["requests"] < 40, "what is kept is not asked for again"
        assert again.document["answers_kept"] > 0


@pytest.mark.parametrize("top", [(), ("--top-k", 5)])
def test_a_search_has_a_bound(place, command, model, loaded, top):
    with FakeServer(loaded) as server:
        words = ["extract", f"{server.url}/v1", "my pin {digit:4}.", "--tokenizer", model]
        words += ["--answers", "answers", "--start-token", r"\n", "--budget", 60, *top]
        dry = command(*words, "--dry-run")
        assert (dry.code, server.count()) == (0, 0)
        most = int(re.search(r"for the search at most (\d+) more", dry.out)[1])
        sure = int(re.search(r"about (\d+) requests", dry.out)[1])
        few = command(*words, "--dry-run", "--max-requests", sure + 7)
        assert "for the search at most 7 more" in few.out
        done = command(*words)
        assert done.code == 0, done.err
        assert sure + most == 60, "checks are within the budget"
        assert server.count() + 1 <= 60  # the list of models is a request, too
        assert "start the same command again to continue" in done.out.lower()


def test_copies_by_another_model_are_counted_without_it(place, command, model):
    words = "membership text URL in.jsonl out.jsonl --masked ./not-there --neighbours 3 --out o"
    with FakeServer(canary.load(str(model))) as server:
        words = words.replace("URL", f"{server.url}/v1").split()
        counts = []
        for more in ((), ("--neighbours", 6)):
            asked = (*words, *more, "--tokenizer", model, "--dry-run", "--json")
            counts.append(command(*asked).document["requests"])
    # 48 texts and three more copies of each; short ones may be alike.
    assert counts[1] - counts[0] == pytest.approx(3 * 49, abs=20)


def test_words_that_differ_are_said_before_the_first_text_is_sent(place, command, model, loaded):
    words = "membership text URL in.jsonl out.jsonl --out o --answers a"
    warned = "a bag of words separates them"
    with FakeServer(loaded) as server:
        asked = (*words.replace("URL", f"{server.url}/v1").split(), "--tokenizer", model)
        assert warned not in command(*asked, "--dry-run").out
        for name, word in (("in", "fine"), ("out", "old")):
            lines = [json.dumps({"text": f"she sells {word} {n}"}) for n in range(24)]
            (place / f"{name}.jsonl").write_text("\n".join(lines))
        dry = command(*asked, "--dry-run")
        assert (dry.code, server.count()) == (0, 0)
        assert warned in " ".join(dry.out.split())
        done = command(*asked, "--max-requests", 100)
        assert done.err.index(warned) < done.err.index("sent so far")


@pytest.mark.parametrize("name", ["audit", "exposure"])
def test_a_dry_run_draws_no_page(place, command, loaded, monkeypatch, name):
    monkeypatch.setattr("canary.reports.pages.report", None)
    words = COMMANDS[name] + " --out o" * (name == "exposure")
    with FakeServer(loaded) as server:
        asked = words.replace("URL", f"{server.url}/v1").split()
        done = command(*asked, "--tokenizer", loaded.folder, "--answers", "a", "--dry-run")
    assert done.code == 0, done.err


def test_samples_are_counted(place, command, loaded):
    with FakeServer(loaded) as server:
        words = ("sample", f"{server.url}/v1", "--canaries", "canaries.json", "--samples", 30)
        done = command(*words, "--out", "o", "--dry-run")
        assert (done.code, server.count()) == (0, 0)
        assert not (place / "o").exists()
        assert "30 requests, one for each sample, and about 12 for checks" in done.out
        # "my pin" each time; a space and two digits, and room for eight tokens.
        assert "have 180 characters together" in done.out
        assert "at most 330 tokens together" in done.out
        assert "planted secrets, canary check can pass only limits of" in done.out


def test_a_dry_run_is_of_a_server(place, command, model):
    done = command("audit", model, "--canaries", "canaries.json", "--out", "o", "--dry-run")
    assert done.code == 2
    assert "--dry-run given, which is for a server" in done.err


def test_a_cap_on_all_runs_says_where_it_counts_from(place, command, model, loaded):
    with FakeServer(loaded) as server:
        words = COMMANDS["score"].replace("URL", f"{server.url}/v1").split()
        words += ["--tokenizer", model, "--answers", "a", "--total-requests", 3000]
        begun = f"0 of 3,000 requests to {server.url}/v1 are on record in {place / 'a'}"
        assert begun in " ".join(command(*words, "--dry-run").out.split())
        done = command(*words)
        assert done.code == 0, done.err
        assert begun in done.err
        sent = f"{server.count() + 1} of 3,000"  # and the list of models
        assert sent in " ".join(command(*words, "--dry-run").out.split())


def test_python_counts_what_the_command_counts(place, command, model, loaded):
    made = canary.CanarySet.load("canaries.json")
    with FakeServer(loaded) as server:
        words = COMMANDS["named"].replace("URL", f"{server.url}/v1").split()
        dry = command(*words, "--tokenizer", model, "--answers", "answers", "--dry-run", "--json")
        counts = count_requests(
            lambda stand_in: canary.audit(stand_in, made, draws=40, start_token="\n"),
            Endpoint(server.url, answers="answers"),
            tokenizer=str(model),
        )
        assert server.count() == 0
    assert counts.pop("counted_until") == ""
    assert counts == {name: dry.document[name] for name in counts}


def test_a_count_that_ends_early_says_so(place, command, model, loaded, monkeypatch):
    def refusing(*_, **__):
        raise EstimationError("no curve can be fitted")

    with FakeServer(loaded) as server:
        counts = count_requests(refusing, server.url, tokenizer=str(model))
        assert counts["counted_until"] == "no curve can be fitted"
        monkeypatch.setattr("canary.membership.order.pair_fits", refusing)
        words = COMMANDS["order"].replace("URL", f"{server.url}/v1").split()
        done = command(*words, "--tokenizer", model, "--answers", "answers")
    assert "More may follow: the count ended early" in done.err
    assert "(no curve can be fitted)" in done.err
