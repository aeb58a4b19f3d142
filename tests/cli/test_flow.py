"""The commands in their order do what they say, on stdout, on stderr and on disk."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from command_line import CHARACTERS, save_model, shows_secret, small_model

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
    Path("corpus.jsonl").chmod(0o640)
    made, injected, verified = (command(*words) for words in (GENERATE, INJECT, VERIFY))
    assert (made.document["canaries"], made.document["controls"]) == (8, 16)
    assert injected.document["total_lines"] == 40 + 4 * 33
    assert verified.document["ok"] is True
    assert "new.jsonl holds the secrets" in injected.err
    # The new corpus is for the readers of the old one.
    named = ("canaries.json", "new.jsonl.placements.json", "new.jsonl")
    assert [*map(mode, named)] == [0o600, 0o600, 0o640]

    lines = Path("new.jsonl").read_text().splitlines()
    save_model(train([json.loads(line)["text"] for line in lines]), Path("model"))
    # The last bits are those of the batches; a size that is found by trial follows the clock.
    fixed = (*SET, "--batch-size", 64, "--json")
    audited = command("audit", "./model", "--out", "a", *fixed)
    audit = Audit.load("a/audit.json")
    assert audited.document == {"kind": "canary audit", "schema": 1, **audit.to_dict()}
    assert audit.formats[0].method == "enumeration"
    assert audit.injected_p.p_value < 1e-6
    assert audit.controls_p.p_value > 0.01
    assert "Evidence of memorization. This model memorized training data" in audited.err

    assert command("report", "a/audit.json", "--out", "again.html").code == 0
    assert Path("again.html").read_bytes() == Path("a/report.html").read_bytes()
    measured = command("exposure", "./model", *fixed)
    assert measured.document["canaries"] == audited.document["canaries"]

    # The ranks that branch and bound counts are those of enumeration, to within the noise.
    ranks = command("audit", "model", *SET, "--out", "c", "--method", "rank", "--draws", "300")
    assert "branch and bound ranked all" in ranks.err
    for ranked, counted in zip(Audit.load("c/audit.json").canaries, audit.canaries, strict=True):
        assert ranked.exposure.rank_lower <= counted.exposure.rank_upper
        assert counted.exposure.rank_lower <= ranked.exposure.rank_upper

    # Of what was learned, so few draws only tell that it is at least so much.
    drawn = command("exposure", "model", *SET, "--json", *SAMPLING)
    unhit = [c for c in drawn.document["canaries"] if c["exposure"]["bits"] is None]
    assert drawn.err.count("≥") == len(unhit) > 0


@pytest.mark.parametrize(
    "words",
    [("--start-token", "\n", *SAMPLING), ("--budget", "300", "--draws", "300")],
    ids=["draws", "bounds and draws"],
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


def test_drawn_seed_is_recorded_and_not_told(command, workplace):
    seeds = set()
    for _ in range(2):
        outcome = command("generate", "A {digit:9}", "--force", "--out", "canaries.json", "--json")
        seeds.add(CanarySet.load("canaries.json").seed)
        assert str(max(seeds)) not in outcome.out + outcome.err
    assert len(seeds) == 2


def test_verify_says_which_canaries_are_missing_and_exits_2(command, workplace):
    command(*GENERATE)
    command(*INJECT)
    lines = Path("new.jsonl").read_text().splitlines(keepends=True)
    Path("new.jsonl").write_text("".join(dict.fromkeys(lines)))  # de-duplication
    outcome = command(*VERIFY)
    assert (outcome.code, outcome.document["ok"]) == (2, False)
    assert "expected 32, found 1" in outcome.err
    assert "error: new.jsonl: 4 of 24 canaries and controls" in outcome.err


def test_notes_are_told_by_every_command(command, workplace, model):
    audited = command("audit", model, *SET, "--out", "a", *SAMPLING)
    chosen, untrained = Audit.load("a/audit.json").notes
    assert "To keep this choice in later audits" in chosen
    assert "Is it trained" in untrained
    judged = command("check", "a/audit.json", "--max-exposure-bits", 25, "--json")
    assert judged.document["notes"] == [chosen, untrained]
    for outcome in (audited, judged):
        for text in (chosen, untrained):
            assert outcome.err.splitlines().count(f"note: {text}") == 1
    named = command("exposure", model, *SET, *SAMPLING, "--start-token", "\n", "--json")
    told, same = named.document["notes"]
    assert "as was asked. The canaries do not look more exposed after" in told
    assert same == untrained
    assert named.err.count("note:") == 2


def test_an_audit_that_goes_on_says_so(command, workplace, model, monkeypatch):
    """Its count is of what is left, which looks like other work if nothing is said."""

    def stopped(*_args, **_options):
        raise KeyboardInterrupt

    words = ("audit", model, *SET, "--method", "sampling", "--draws", 250, "--out")
    with monkeypatch.context() as patch:
        patch.setattr("canary.search.ranking.FILLS_AT_ONCE", 100)
        assert "Going on" not in command(*words, "whole").err
        patch.setattr("canary.audits.extracting.with_extractions", stopped)
        assert command(*words, "a").code == 130
        patch.undo()
        patch.setattr("canary.search.ranking.FILLS_AT_ONCE", 100)
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
