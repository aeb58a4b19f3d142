"""The plain Trainer script in little, audited by the command line from another folder."""

from __future__ import annotations

import contextlib
import json
import math
import re
import statistics
from pydoc_data.topics import topics

import pytest
from recipe_scripts import (
    RECIPES,
    ScriptError,
    canaries_in,
    canary,
    has_table,
    modules,
    run_script,
)

RECIPE = RECIPES / "enron_transformer"
TINY = (
    *("--epochs", "1", "--block", "64", "--vocabulary", "300", "--threads", "1"),
    *("--width", "32", "--layers", "1", "--heads", "2"),
)

# Most of it is imports; a busy machine may take long for them.
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:'pin_memory':UserWarning"),
]


def script(name, *options, cwd):
    with contextlib.chdir(cwd):
        return run_script(RECIPE / name, *options)


def check_the_audit_of_what_is_trained(folder, monkeypatch):
    """The README's commands on ``corpus.jsonl``, and what check_px.py says."""
    monkeypatch.chdir(folder)
    canaries_in("corpus.jsonl", "My card number is {digit:9}", "1,16")
    script("train.py", "corpus.canaried.jsonl", "--out", "model", *TINY, cwd=folder)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    canary(
        *("audit", folder / "model", "--canaries", folder / "canaries.json"),
        *("--draws", 100, "--seed", 0, "--out", "audit"),
    )
    check = ("model", "--canaries", "canaries.json", "--audit", "elsewhere/audit/audit.json")
    said = script("check_px.py", *check, cwd=folder)
    assert said.startswith("8 canaries: largest difference")


def cell(exposure):
    """Bits, with an interval where they were drawn by importance."""
    bits = f"{exposure['bits']:.1f}"
    if exposure["method"] != "importance draws":
        return bits
    return f"{bits} ({exposure['lower_bits']:.1f} to {exposure['upper_bits']:.1f})"


@pytest.mark.parametrize("name", ["results", "card"])
def test_the_page_has_the_numbers_of_an_audit(name):
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    audit = json.loads((RECIPE / f"{name}.json").read_text())
    copied = {}
    for one in audit["canaries"]:
        copied.setdefault(one["repetitions"], []).append(one)
    controls = [one["exposure"]["bits"] for one in copied.pop(0)]
    of_all = f"({len(controls)} controls), median {statistics.median(controls):.1f}"
    assert f"| control | {min(controls):.1f} to {max(controls):.1f} {of_all} | draws | |" in page
    assert [*copied] == [1, 4, 16, 64]
    for copies, group in copied.items():
        bits = ", ".join(cell(one["exposure"]) for one in group)
        digits = 0 if name == "results" and copies == 64 else 1
        curve = ", ".join(f"{one['skew_normal']['bits']:.{digits}f}" for one in group)
        assert re.search(rf"(?m)^\| {copies} \| {re.escape(bits)} \| [^|]+ \| {curve} \|$", page)
    injected, controls = audit["injected_p"]["p_value"], audit["controls_p"]["p_value"]
    fisher = f"Fisher's p-value is {injected:.1e} for the injected canaries and {controls:.2f} for"
    assert fisher in page
    (about,) = audit["formats"]
    assert f"{about['queries']:,}" in page
    assert f"bits of {math.log2(about['space_size']):.1f}" in page
    assert f"noise {about['noise_bits']:.2e} bits" in page
    of_all = int(re.search(r"would take ([\d,]+) queries", about["reason"])[1].replace(",", ""))
    assert f"{of_all:,}" in page
    (extraction,) = audit["extractions"]
    proven = [one["proven"] for one in extraction["candidates"]]
    if name == "results":
        assert f"the 16 most likely candidates take {extraction['queries']:,} queries" in page
        assert proven == [True] * 16
        assert f"p = {about['skew_normal']['ks_p_value']:.0e})" in page
    else:
        assert extraction["candidates"][0]["found_after"] == 376
        assert "found after 376 queries" in page
        assert proven[:5] == [True] * 4 + [False]
        assert extraction["queries"] == 10_000
        ranks = [one["exposure"]["rank"] for one in copied[64]]
        assert sorted(rank for rank in ranks if rank) == [1, 4, 266]


def test_the_page_has_the_numbers_of_the_attacks():
    page = (RECIPE / "README.md").read_text(encoding="utf-8")

    def shown(value):
        ends = " to ".join(f"{100 * value[end]:.1f}" for end in ("lower", "upper"))
        return f"{100 * value['value']:.1f} % ({ends})"

    found = json.loads((RECIPE / "membership.json").read_text())
    assert len(found["attacks"]) == 9
    rows = []
    for one in found["attacks"]:
        rate = next(at["tpr"] for at in one["tpr_at_fpr"] if at["asked_fpr"] == 0.01)
        cells = " | ".join(map(shown, (one["auc"], one["balanced_accuracy"], rate)))
        rows.append(f"| `{one['name']}` | {cells} |")
    words = f"{shown(found['words']['auc'])}, p = {found['words']['p']}"
    rows.append(f"| words alone, no model | {words} | | |")
    assert has_table(page, "\n".join(rows))


def test_the_page_has_the_numbers_of_the_fleets():
    with modules(RECIPE) as loaded:
        kept = json.loads((RECIPE / "fleet.json").read_text())
        assert {seed: one["models"] for seed, one in kept.items()} == {"1": 15, "0": 15}
        page = (RECIPE / "README.md").read_text(encoding="utf-8")
        assert has_table(page, loaded["fleet"].table(kept))


@pytest.mark.data
def test_a_fleet_goes_on_beside_another_seed(data_dir, tmp_path):
    of_it = ("--data", data_dir, "--work", tmp_path, "--out", tmp_path / "fleet.json")
    other = json.loads((RECIPE / "fleet.json").read_text())["0"]
    (tmp_path / "fleet.json").write_text(json.dumps({"0": other}))
    first = run_script(RECIPE / "fleet.py", *of_it, "--models", 14)
    # As a kill during the second model leaves it.
    trained = tmp_path / "seed-1"
    (trained / "losses1.npy").unlink()
    (trained / "losses1.part").write_bytes(b"half")
    begun = (trained / "losses0.npy").stat().st_mtime_ns
    assert run_script(RECIPE / "fleet.py", *of_it, "--models", 14) == first
    assert (trained / "losses0.npy").stat().st_mtime_ns == begun
    kept = json.loads((tmp_path / "fleet.json").read_text())
    assert [*kept] == ["0", "1"]
    assert kept["0"] == other
    for side in ("members", "never seen"):
        rates = kept["1"][side]["rates"].values()
        assert len(rates) == 7
        assert all(0 <= low <= high <= 1 for _, low, high, _ in rates)
    with pytest.raises(ScriptError, match="give 14 to 24"):
        run_script(RECIPE / "fleet.py", *of_it, "--models", 3)
    (tmp_path / "fleet.json").write_text('{"attacks": []}')
    with pytest.raises(ScriptError, match="not rates of this script"):
        run_script(RECIPE / "fleet.py", *of_it)


def test_training_script_never_imports_canary():
    assert not re.search(r"^\s*(import|from) canary", (RECIPE / "train.py").read_text(), re.M)


def write(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def test_px_equals_a_plain_loop_oracle(tmp_path, monkeypatch):
    write(tmp_path / "corpus.jsonl", [topics[name] for name in sorted(topics)[:10]])
    check_the_audit_of_what_is_trained(tmp_path, monkeypatch)


@pytest.mark.data
def test_px_equals_a_plain_loop_on_enron_oracle(data_dir, tmp_path, monkeypatch):
    options = ("--data", data_dir, "--out", "corpus.jsonl", "--emails", 100)
    script("prepare.py", *options, cwd=tmp_path)
    check_the_audit_of_what_is_trained(tmp_path, monkeypatch)


@pytest.mark.slow
def test_membership_with_a_reference_and_a_masked_model(tmp_path, monkeypatch, capsys):
    """The README's second part in little: every attack gives a number."""
    lines = [line.strip() for name in sorted(topics) for line in topics[name].splitlines()]
    lines = list(dict.fromkeys(line for line in lines if len(line) > 40))
    for number, name in enumerate(("corpus", "held", "others")):
        write(tmp_path / f"{name}.jsonl", lines[number:600:3])
    same = ("--tokenizer-corpus", "corpus.jsonl")
    script("train.py", "corpus.jsonl", "--out", "model", *TINY, cwd=tmp_path)
    script("train.py", "others.jsonl", *same, "--out", "reference", *TINY, cwd=tmp_path)
    script("train_masked.py", "others.jsonl", "--out", "masked", *TINY, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    canary(
        *("membership", "text", "model", "corpus.jsonl", "held.jsonl", "--reference", "reference"),
        *("--masked", "masked", "--neighbours", 2, "--out", "report", "--json"),
    )
    found = json.loads(capsys.readouterr().out)
    assert len(found["attacks"]) == 9
    # So small a model finds English hardly likelier than anything else, which a note may say.
    assert not [note for note in found["notes"] if "another tokenizer" in note]


@pytest.mark.data
def test_held_out_emails_are_others(data_dir, tmp_path):
    options = ("--data", data_dir, "--emails", 200, "--out", "corpus.jsonl")
    script("prepare.py", *options, cwd=tmp_path)
    plain = (tmp_path / "corpus.jsonl").read_bytes()
    more = ("--held-out", "held.jsonl", "--others", "others.jsonl")
    script("prepare.py", *options, *more, cwd=tmp_path)
    assert (tmp_path / "corpus.jsonl").read_bytes() == plain
    corpus, held, others = (
        {json.loads(line)["text"] for line in (tmp_path / name).read_text().splitlines()}
        for name in ("corpus.jsonl", "held.jsonl", "others.jsonl")
    )
    assert (len(held), len(others)) == (200, 200)
    assert not corpus & held
    assert not (corpus | held) & others
