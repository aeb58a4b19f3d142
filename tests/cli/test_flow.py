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
    *("generate", "The code is {digit:3}", "--repetitions", "1,32", "--per-repetition", "4"),
    *("--controls", "16", "--seed", "0", "--force", "--out", "canaries.json", "--json"),
)
INJECT = ("inject", "corpus.jsonl", "--canaries", "canaries.json", "--out", "new.jsonl", "--json")
VERIFY = ("verify", "new.jsonl", "--canaries", "canaries.json", "--json")
SET = ("--canaries", "canaries.json")
NO_EXTRACTION = ("--extraction-budget", 0)
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
    for _ in range(120):
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
    texts = [json.loads(line)["text"] for line in dict.fromkeys(lines)]
    save_model(train(texts), Path("model"))
    # The last bits are those of the batches; a size that is found by trial follows the clock.
    fixed = (*SET, "--batch-size", 64, "--json")
    audited = command("audit", "./model", "--out", "a", *fixed)
    audit = Audit.load("a/audit.json")
    assert audited.document == {"kind": "canary audit", "schema": 1, **audit.to_dict()}
    assert audit.formats[0].method == "enumeration"
    assert audit.injected_p.p_value < 1e-6
    assert audit.controls_p.p_value > 0.01
    assert "The model memorized planted secrets. 1 of 8 planted secrets was found" in audited.err

    assert command("report", "a/audit.json", "--out", "again.html").code == 0
    assert Path("again.html").read_bytes() == Path("a/report.html").read_bytes()
    measured = command("exposure", "./model", *fixed)
    assert measured.document["canaries"] == audited.document["canaries"]


def test_no_secret_is_shown_or_written(command, workplace, model):
    shown, words = [], ("--start-token", "\n", "--budget", "300", "--draws", "300", "--json")
    for call in (
        ("generate", "The code is {digit:9}", "--force", "--out", "canaries.json", "--json"),
        INJECT,
        VERIFY,
        ("verify", "corpus.jsonl", *SET, "--json"),
        ("audit", model, *SET, "--out", "a", "--seed", "1", *words),
        ("exposure", model, *SET, "--method", "sampling", *words),
        ("report", "a/audit.json", "--out", "report.html", "--json"),
    ):
        outcome = command(*call)
        assert outcome.document["kind"].startswith("canary "), call
        shown += [outcome.out, outcome.err]
    shown += [path.read_text() for path in (*Path("a").iterdir(), Path("report.html"))]
    assert not any(map(shows_secret, shown))
    assert json.loads(Path("a/audit.json").read_text())["settings"]["seed"] == 1
    # With the format, the seed of the set gives all of its fills; it is drawn anew each time.
    seed = CanarySet.load("canaries.json").seed
    assert str(seed) not in "".join(shown)
    command("generate", "The code is {digit:9}", "--force", "--out", "canaries.json")
    assert CanarySet.load("canaries.json").seed != seed


def test_a_limit_of_an_audit_is_in_its_file(command, workplace, model):
    judged = ("--max-exposure-bits", "6", "--trust-injection")
    command("audit", model, *SET, *SAMPLING, *NO_EXTRACTION, *judged, "--out", "limited")
    assert Audit.load("limited/audit.json").settings["max_exposure_bits"] == 6.0
    shown = command("report", "limited/audit.json", "--out", "page.html", "--json")
    assert shown.code == 0
    assert "exposure of at most 6 bits" in Path("page.html").read_text()


def test_notes_are_told_by_every_command(command, workplace, model):
    audit = ("audit", model, *SET, *SAMPLING, *NO_EXTRACTION)
    short = command(*audit, "--out", "short")
    assert "Is it trained" not in short.out
    assert [line.startswith("note: ") for line in short.out.splitlines()].count(True) == 1
    assert "What to do" not in short.out
    assert "interval" in short.out
    audited = command(*audit, "--out", "a", "--verbose")
    chosen, untrained = Audit.load("a/audit.json").notes
    assert "To keep this choice" in chosen
    assert "Is it trained" in untrained
    judged = command("check", "a/audit.json", "--max-exposure-bits", 25, "--json", "--verbose")
    assert judged.document["notes"] == [chosen, untrained]
    for said in (audited.out, judged.err):
        lines = said.splitlines()
        assert [lines.count(line) for line in (chosen, f"note: {untrained}")] == [1, 1]
        assert "warning: The true risk may be higher: the test assumed that nothing" in said
    named = command("exposure", model, *SET, *SAMPLING, "--start-token", "\n", "--json")
    assert named.document["notes"] == [untrained]
    assert named.err.count("note:") == 1


def test_demo_passes_what_it_was_told(command, workplace, monkeypatch, model):
    command("audit", model, *SET, "--out", "a", *SAMPLING, *NO_EXTRACTION)
    told = {}

    def run(out, *, inject, seed, progress, say):
        told.update(out=out, inject=inject, seed=seed)
        progress("training", 10, "steps")(10)
        say("a line")
        return Audit.load("a/audit.json")

    monkeypatch.setattr("canary.demo.run", run)
    outcome = command("demo", "--out", "d", "--no-inject", "--seed", "4", "--json")
    assert outcome.code == 0
    assert told == {"out": Path("d"), "inject": False, "seed": 4}
    assert outcome.document["kind"] == "canary audit"
    assert "a line" in outcome.err
    assert "Secrets are in clear in d/canaries.json" in outcome.err
    assert "canary check d/audit.json --max-exposure-bits 4" in outcome.err
    assert "Guesses" in outcome.err
    assert "What to do" not in outcome.err  # the page says it


@pytest.mark.parametrize("as_json", [True, False])
def test_doctor_of_a_model_that_cannot_be_loaded(command, tmp_path, as_json):
    import torch

    model = small_model()
    with torch.no_grad():
        model.transformer.h[0].mlp.c_fc.weight[0, 0] = float("nan")
    save_model(model, tmp_path / "model")
    found = command("doctor", tmp_path / "model", *(["--json"] if as_json else []))
    assert found.code == 2
    said = found.err if as_json else found.out
    assert "not finite" in said
    assert "The model could not be loaded, so nothing was checked" in said
    assert "refused" not in said
    assert not as_json or found.document["sound"] is False
