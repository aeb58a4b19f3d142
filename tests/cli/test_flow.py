"""The commands in their order do what they say, on stdout, on stderr and on disk."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from command_line import CHARACTERS, files, save_model, shows_secret, small_model

from canary.audits.audit_result import Audit
from canary.corpus.canaries import CanarySet

GENERATE = (
    *("generate", "The code is {digit:4}", "--repetitions", "1,32", "--per-repetition", "4"),
    *("--controls", "16", "--seed", "0", "--force", "--out", "canaries.json", "--json"),
)
INJECT = ("inject", "corpus.jsonl", "--canaries", "canaries.json", "--out", "new.jsonl", "--json")
VERIFY = ("verify", "new.jsonl", "--canaries", "canaries.json", "--json")
SET = ("--canaries", "canaries.json")
SAMPLING = ("--method", "sampling", "--draws", "300")


def train(texts):
    """A small model that has seen `texts` often."""
    import torch

    model = small_model()
    ids = [[CHARACTERS.index(c) for c in text] for text in texts]
    width = max(map(len, ids))
    rows = torch.tensor([row + [0] * (width - len(row)) for row in ids])
    labels = torch.tensor([row + [-100] * (width - len(row)) for row in ids])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(150):
        loss = model(rows, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_whole_flow_finds_what_was_learned(command, workplace):
    made = command(*GENERATE)
    assert made.code == 0
    assert made.document["canaries"] == 8
    assert made.document["controls"] == 16
    assert "8 canaries and 16 controls" in made.err
    assert "holds the secrets" in made.err
    assert mode("canaries.json") == 0o600

    injected = command(*INJECT)
    assert injected.code == 0
    assert injected.document["copies"] == 4 * 33
    assert injected.document["total_lines"] == 40 + 4 * 33
    assert "132 copies of 8 canaries went into new.jsonl, now 172 records" in injected.err
    assert mode("new.jsonl.placements.json") == 0o600

    verified = command(*VERIFY)
    assert verified.code == 0
    assert verified.document["ok"] is True

    lines = Path("new.jsonl").read_text().splitlines()
    save_model(train([json.loads(line)["text"] for line in lines]), Path("model"))
    # The last bits are those of the batches; a size that is found by trial follows the clock.
    fixed = ("--canaries", "canaries.json", "--batch-size", 64, "--json")
    audited = command("audit", "./model", "--out", "a", *fixed)
    assert audited.code == 0
    audit = Audit.load("a/audit.json")
    assert audited.document == {"kind": "canary audit", "schema": 1, **audit.to_dict()}
    assert audit.formats[0].method == "enumeration"
    assert audit.injected_p.p_value < 1e-6
    assert audit.controls_p.p_value > 0.01
    assert "Evidence of memorization. This model memorized training data" in audited.err
    assert "Fisher's p-value of the controls" in audited.err
    assert str(Path("a/report.html")) in audited.err

    page = Path("a/report.html").read_bytes()
    reported = command("report", "a/audit.json", "--out", "again.html", "--json")
    assert reported.code == 0
    assert reported.document["out"] == "again.html"
    assert Path("again.html").read_bytes() == page

    measured = command("exposure", "./model", *fixed)
    assert measured.code == 0
    assert measured.document["canaries"] == audited.document["canaries"]
    assert "control-16" in measured.err

    # The ranks that branch and bound counts are those of enumeration, to within the noise.
    ranks = command("audit", "model", *SET, "--out", "c", "--method", "rank", "--draws", "300")
    assert "branch and bound ranked all" in ranks.err
    assert "branch and bound" in Path("c/report.html").read_text()
    for ranked, counted in zip(Audit.load("c/audit.json").canaries, audit.canaries, strict=True):
        assert ranked.exposure.rank_lower <= counted.exposure.rank_upper
        assert counted.exposure.rank_lower <= ranked.exposure.rank_upper

    # Of what was learned, so few draws only tell that it is at least so much.
    drawn = command("exposure", "model", "--canaries", "canaries.json", "--json", *SAMPLING)
    unhit = [c for c in drawn.document["canaries"] if c["exposure"]["bits"] is None]
    assert unhit
    assert drawn.err.count("≥") == len(unhit)


@pytest.mark.parametrize(
    "words",
    [
        SAMPLING,
        ("--start-token", "\n", *SAMPLING),
        ("--method", "rank", "--budget", "300", "--draws", "300"),
        ("--budget", "300", "--draws", "300"),
    ],
    ids=["draws", "start token", "bounds", "bounds and draws"],
)
def test_no_secret_is_shown_or_written(command, workplace, model, words):
    shown = []
    for call in (
        ("generate", "The code is {digit:9}", "--force", "--out", "canaries.json", "--json"),
        INJECT,
        VERIFY,
        ("verify", "corpus.jsonl", "--canaries", "canaries.json", "--json"),
        ("audit", model, "--canaries", "canaries.json", "--out", "a", "--json", *words),
        ("exposure", model, "--canaries", "canaries.json", "--json", *words),
        ("report", "a/audit.json", "--out", "report.html", "--json"),
    ):
        outcome = command(*call)
        assert outcome.document["kind"].startswith("canary "), call
        shown += [outcome.out, outcome.err]
    shown += [path.read_text() for path in (*Path("a").iterdir(), Path("report.html"))]
    assert not any(map(shows_secret, shown))
    # With the format, the seed of the set gives all of its fills.
    assert str(CanarySet.load("canaries.json").seed) not in "".join(shown)


def test_audit_json_does_not_give_the_seed_of_the_canaries(command, workplace, model):
    words = ("audit", model, *SET, "--seed", "1", "--out", "a", "--draws", "50", *SAMPLING[:2])
    drawn = ("generate", "The code is {digit:9}", "--seed", "41", "--out", "canaries.json")
    made = command(*drawn, "--force")
    assert made.code == command(*words).code == 0
    assert json.loads(Path("a/audit.json").read_text())["settings"]["seed"] == 1
    assert "41" not in map(str, json.loads(Path("a/audit.json").read_text())["settings"].values())


def test_stdout_stays_empty_without_json(command, workplace, model):
    for call in (
        ("generate", "A {digit:3}", "B {letter:2} {digit:2}", "--force", "--out", "canaries.json"),
        INJECT[:-1],
        VERIFY[:-1],
        ("audit", model, "--canaries", "canaries.json", "--out", "a", *SAMPLING),
        ("exposure", model, "--canaries", "canaries.json", *SAMPLING),
        ("report", "a/audit.json", "--out", "report.html"),
    ):
        outcome = command(*call)
        assert outcome.code == 0, outcome.err
        assert outcome.out == ""
        assert outcome.err


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o644])
def test_new_corpus_is_for_the_readers_of_the_old_one(command, workplace, bits):
    Path("corpus.jsonl").chmod(bits)
    injected = command(*INJECT)
    assert injected.code == 0
    assert mode("new.jsonl") == bits
    assert mode("new.jsonl.placements.json") == 0o600
    assert "new.jsonl holds the secrets" in injected.err


def test_canaries_are_replaced_only_by_force(command, workplace):
    before = Path("canaries.json").read_bytes()
    words = ("generate", "The code is {digit:9}", "--out", "canaries.json")
    assert command(*words).code == 2
    assert Path("canaries.json").read_bytes() == before
    assert command(*words, "--force").code == 0
    assert Path("canaries.json").read_bytes() != before


def test_same_seed_same_bytes(command, workplace):
    for out in ("one", "two"):
        Path(out).mkdir()
        assert command(*GENERATE[:-3], "--out", f"{out}/canaries.json").code == 0
        words = ("--canaries", f"{out}/canaries.json", "--seed", "5", "--out", f"{out}/new.jsonl")
        assert command("inject", "corpus.jsonl", *words).code == 0
    assert files(Path("one")) == files(Path("two"))


def test_drawn_seed_is_recorded_and_not_told(command, workplace):
    seeds = set()
    for _ in range(2):
        outcome = command("generate", "A {digit:9}", "--force", "--out", "canaries.json", "--json")
        seeds.add(CanarySet.load("canaries.json").seed)
        assert str(max(seeds)) not in outcome.out + outcome.err
    assert len(seeds) == 2


def test_verify_says_which_canaries_are_missing_and_exits_2(command, workplace):
    command(*INJECT)
    lines = Path("new.jsonl").read_text().splitlines(keepends=True)
    Path("new.jsonl").write_text("".join(dict.fromkeys(lines)))  # de-duplication
    outcome = command(*VERIFY)
    assert outcome.code == 2
    assert outcome.document["ok"] is False
    assert "canary-3" in outcome.err
    assert "expected 8, found 1" in outcome.err
    assert "error: new.jsonl: 2 of 8 canaries and controls" in outcome.err


def test_notes_are_told_by_every_command(command, workplace, model):
    audited = command("audit", model, *SET, "--out", "a", *SAMPLING)
    chosen, untrained = Audit.load("a/audit.json").notes
    assert "To keep this choice in later audits" in chosen
    assert "Is it trained" in untrained
    measured = command("exposure", model, *SET, *SAMPLING, "--json")
    assert measured.document["notes"] == [chosen, untrained]
    judged = command("check", "a/audit.json", "--max-exposure-bits", 25, "--json")
    assert judged.document["notes"] == [chosen, untrained]
    for outcome in (audited, measured, judged):
        for text in (chosen, untrained):
            assert outcome.err.splitlines().count(f"note: {text}") == 1
    named = command("exposure", model, *SET, *SAMPLING, "--start-token", "\n", "--json")
    told, same = named.document["notes"]
    assert "as was asked. The canaries do not look more exposed after" in told
    assert same == untrained
    assert named.err.count("note:") == 2
    asked = command("exposure", model, *SET, *SAMPLING, "--start-token", "none", "--json")
    assert asked.document["start"]["why"] == "asked"
    assert "--start-token auto" in asked.document["notes"][0]


def test_controls_that_lost_their_coin_are_told(command, workplace):
    words = ("generate", "A {digit:9}", "--repetitions", "1", "--per-repetition", "40")
    outcome = command(*words, "--coin-flips", "--seed", 0, "--force", "--out", "canaries.json")
    made = CanarySet.load("canaries.json")
    lost = 40 - len(made.injected)
    assert f"{40 - lost} canaries and {lost + 16} controls are in" in outcome.err
    assert f"of the controls, {lost} lost the toss of their coin and stay out" in outcome.err
    assert "16 had no coin" in outcome.err


def test_an_audit_that_goes_on_says_so(command, workplace, model, monkeypatch):
    """Its count is of what is left, which looks like other work if nothing is said."""

    def stopped(*_args, **_options):
        raise KeyboardInterrupt

    words = ("audit", model, *SET, "--method", "sampling", "--draws", 250, "--out")
    with monkeypatch.context() as patch:
        patch.setattr("canary.search.drawing.FILLS_AT_ONCE", 100)
        assert "Going on" not in command(*words, "whole").err
        patch.setattr("canary.audits.extracting.with_extractions", stopped)
        assert command(*words, "a").code == 130
        patch.undo()
        patch.setattr("canary.search.drawing.FILLS_AT_ONCE", 100)
        patch.setattr("canary.cli.console.EVERY", 0.001)
        again = command(*words, "a")
    assert again.code == 0
    # What the canaries cost, and three blocks of draws.
    assert "earlier run of this command finished (4 pieces in a/parts)" in again.err
    assert "uniform draws of The code is •••••••••, the rest" in again.err
    found = [Audit.load(f"{out}/audit.json").canaries for out in ("a", "whole")]
    assert [c.exposure for c in found[0]] == [c.exposure for c in found[1]]


def test_demo_passes_what_it_was_told(command, workplace, monkeypatch, model):
    command("audit", model, "--canaries", "canaries.json", "--out", "a", *SAMPLING)
    told = {}

    def run(out, *, inject, seed, stage, say):
        told.update(out=out, inject=inject, seed=seed)
        stage("training", 10)(10)
        say("a line")
        return Audit.load("a/audit.json")

    monkeypatch.setattr("canary.demo.run", run)
    outcome = command("demo", "--out", "d", "--no-inject", "--seed", "4", "--json")
    assert outcome.code == 0
    assert told == {"out": Path("d"), "inject": False, "seed": 4}
    assert outcome.document["kind"] == "canary audit"
    assert "a line" in outcome.err
    assert "Secrets stand in clear in d/canaries.json" in outcome.err


def test_words_from_a_file(command, workplace):
    Path("words.txt").write_text("north south\neast\nwest\n")
    text = "Go {word:6} now."
    done = command(
        "generate", text, "{digit:9}.", "--words", "words.txt", "--out", "w.json", "--json"
    )
    assert done.code == 0, done.err
    assert [about["space_size"] for about in json.loads(done.out)["formats"]] == [4**6, 10**9]
    assert CanarySet.load("w.json").formats[0].words == ("east", "north", "south", "west")
    done = command("generate", "{digit:9}", "--words", "words.txt", "--out", "other.json")
    assert done.code == 2
    assert "no hole uses them" in done.err
