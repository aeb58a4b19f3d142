"""A new attack, signal or format is one object: the command, its help and errors know it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from fleets import made, means

import canary
from canary.corpus.file_formats import FILE_FORMATS
from canary.corpus.line_formats import PlainText
from canary.errors import InputError
from canary.fleet.splits import halves
from canary.membership.attacks import ATTACKS, Attack, AttackScores, with_many_models
from canary.membership.many import attack_models
from canary.signals.definitions import SIGNALS, Signal
from canary.signals.text import TEXT_SIGNALS, TextSignal

DOCS = Path(__file__).parents[2] / "docs" / "guides"


@pytest.fixture
def added(monkeypatch):
    """Adds to a registry for the time of a test."""

    def add(registry, thing):
        len(registry)  # whose own are there first
        monkeypatch.setattr(registry, "_things", {**registry._things})
        if registry is SIGNALS:
            len(ATTACKS)
            monkeypatch.setattr(ATTACKS, "_things", {**ATTACKS._things})
        return registry.add(thing.name, thing)

    return add


def test_a_format_of_corpora(added, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    added(FILE_FORMATS, type("Notes", (PlainText,), {"name": "notes", "endings": ()}))
    shown = "".join(command("discover", "--help").out.split())
    assert f"--file-formatNAMETheformatofthecorpus:{','.join(FILE_FORMATS)}." in shown
    assert "parquet,arrow,megatron,notes." in shown
    shown = "".join(command("strip", "--help").out.split())
    assert r'[default:"\n""";"""" for csv,tsv,text,notes]'.replace(" ", "") in shown
    Path("corpus.dat").write_text("It is 5.\n")
    words = ["discover", "corpus.dat", "It is {digit:1}.", "--out", "found.json", "--file-format"]
    wrong = command(*words, "nots")
    assert (
        "did you mean notes? Use one of jsonl, csv, tsv, text, parquet, arrow, megatron, notes"
        in wrong.err
    )
    assert command(*words, "notes").code == 0


def files(folder, monkeypatch):
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    for name in ("target.npz", "shadow.npz"):
        labels, member = rng.integers(0, 3, 200), rng.random(200) < 0.5
        logits = rng.normal(size=(200, 3)) + 3 * np.eye(3)[labels] * member[:, None]
        np.savez(folder / name, logits=logits, labels=labels, member=member)
    return [*("--target", "target.npz", "--shadow", "shadow.npz", "--out", "out", "--json")]


def place(table, attack, *, shadow, target, seed):
    scores = np.arange(float(table.samples))
    return AttackScores(attack.name, attack.signal, scores, scores > 0, None, (), blind=True)


def peak(table, attack, *, shadow, target, seed):
    highest = table.outputs[target].max(axis=1).astype(float)
    return AttackScores(attack.name, attack.signal, highest, highest > -0.1, None, (), blind=True)


def margin(log_probs, labels):
    return log_probs[np.arange(len(labels)), labels] - np.sort(log_probs, axis=1)[:, -2]


ADDED = {
    "place": (ATTACKS, Attack(name="place", help="by place", signal="loss", score=place)),
    "peak": (ATTACKS, Attack(name="peak", help="the largest", signal="outputs", score=peak)),
    "margin": (SIGNALS, Signal("margin", 1, "above the second class", value=margin)),
}


@pytest.mark.parametrize("name", ADDED)
def test_an_attack_or_a_signal(added, command, tmp_path, monkeypatch, name):
    added(*ADDED[name])
    words = files(tmp_path, monkeypatch)
    said = command("membership", "attack", *words, "--attacks", name).document
    assert [one["name"] for one in said["attacks"]] == [name]
    assert name == "place" or said["attacks"][0]["auc"]["value"] > 0.8
    assert name in command("membership", "attack", "--help").out
    wrong = command("membership", "attack", *words, "--force", "--attacks", name[:-1])
    assert f"did you mean {name}" in wrong.err


def test_an_attack_with_many_models(added, command):
    def judge(references, tuning):
        return -references.table.signal("loss")[references.targets]

    added(ATTACKS, Attack(name="plain", help="the loss", signal="loss", judge=judge, outside=False))
    table = canary.measure(
        [np.arange(1.0, 5.0), np.arange(4.0, 0.0, -1.0)],
        y=[0, 0, 1, 1],
        member=[[1, 0, 1, 0], [0, 1, 0, 1]],
        outputs="losses",
    )
    np.testing.assert_array_equal(attack_models(table, "plain").scores, -table.signal("loss"))
    assert "plain" in command("membership", "models", "--help").out


def of_fleet(folder):
    """The folder of a fleet of four models that keeps their outputs."""
    options = {"outputs": "logits", "keep_outputs": True}
    canary.Fleet(means, made(), halves(), 4, 0, **options).run(folder=folder / "fleet")
    return ["fleet"]


def of_files(folder):
    """Two models on the same samples."""
    with np.load("shadow.npz") as given:
        both = {name: given[name] for name in given.files}
    logits = np.roll(both["logits"], 1, axis=0)
    np.savez("other.npz", **{**both, "logits": logits, "member": ~both["member"]})
    return ["shadow.npz", "other.npz"]


@pytest.mark.parametrize("kind", [("own", of_files), ("outputs", of_files), ("outputs", of_fleet)])
def test_an_attack_on_many_models_by_what_it_reads(added, command, tmp_path, monkeypatch, kind):
    reads, given = kind

    def value(log_probs, labels):
        assert log_probs.dtype == np.float64
        return log_probs[np.arange(len(labels)), labels]

    def judge(references, tuning):
        table, label = references.table, references.table.label
        if reads == "own":
            return table.signal("own")[references.targets]
        return table.outputs[references.targets][:, np.arange(len(label)), label].astype(float)

    added(SIGNALS, Signal("own", 1, "log-probability of the label", value=value))
    added(ATTACKS, Attack(name="many", help="by it", signal=reads, judge=judge, outside=False))
    files(tmp_path, monkeypatch)
    words = [*given(tmp_path), "--attacks", "many", "--out", "out", "--json"]
    said = command("membership", "models", *words).document
    assert [one["name"] for one in said["attacks"]] == ["many"]
    probs = np.array([[1e-50, 1.0]])
    (own,) = canary.measure(probs, y=[0], member=[True], outputs="probs").signal("own")[0]
    assert own == pytest.approx(-50 * np.log(10))


def test_a_signal_of_texts(added, command):
    added(TEXT_SIGNALS, TextSignal("length", -1, "of the text", lambda of: of.totals * 0 + 1))
    assert "length" in command("membership", "text", "--help").out
    with pytest.raises(InputError, match="did you mean length"):
        TEXT_SIGNALS.names("lenth", where="attacks")


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("membership.md", [name for name, one in ATTACKS.items() if one.thresholds != "one"]),
        ("membership-text.md", list(TEXT_SIGNALS)),
        ("many-models.md", with_many_models()),
    ],
)
def test_the_guides_have_a_row_for_each(page, names):
    rows = (DOCS / page).read_text(encoding="utf-8").partition("| attack |")[2].partition("\n\n")[0]
    there = {name for row in rows.splitlines() for name in re.findall(r"`([^`]+)`", row[:60])}
    many = page.startswith("many")
    wanted = {
        name.removesuffix("-fixed")
        for name in names
        if name not in ATTACKS or many is bool(ATTACKS[name].judge)
    }
    assert wanted <= there
