"""`canary membership text`: from a model and two files to numbers, a page and a table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from command_line import save_model, small_model
from masked_models import bert, word_piece
from texts_and_models import random_words, write_texts

import canary
from canary.cli.console import Bars
from canary.membership.text_survey import survey_texts
from canary.signals.text import TEXT_SIGNALS
from canary.signals.text_files import read_texts
from canary.signals.text_measuring import measure_texts

N = 40


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = random_words(np.random.default_rng(0), 2 * N, words=4, vocabulary=40)
    write_texts("in.jsonl", made[:N])
    write_texts("out.jsonl", made[N:])
    return made


CODES = {"identified": 0, "not identified": 0, "undecided": 3, "void": 3}


@pytest.fixture
def attack(command, model):
    """Attack the model with two files of texts, into the folder `report`."""
    return lambda *words: command(
        *("membership", "text", model, "in.jsonl", "out.jsonl", "--out", "report", "--json"), *words
    )


def test_numbers_are_those_of_the_functions(attack, model, texts, tmp_path, drawn):
    save_model(small_model(positions=48), tmp_path / "other")
    other = ("--reference", tmp_path / "other")
    outcome = attack("--attacks", "all", *other, "--batch-size", "16", "--seed", "4")
    found = outcome.document
    assert outcome.code == CODES[found["outcome"]], outcome.err
    assert json.loads(Path("report/membership.json").read_text()) == found
    assert Path("report/membership.json").stat().st_mode & 0o077 == 0
    names = [name for name in TEXT_SIGNALS if name != "neighbourhood"]
    assert [one["name"] for one in found["attacks"]] == names
    measured = measure_texts(
        *(str(model), texts, np.arange(2 * N) < N), reference=str(other[1]), batch_size=16, seed=4
    )
    expected = json.loads(json.dumps(survey_texts(measured, texts, seed=4).to_dict()))
    assert found["attacks"] == expected["attacks"]
    assert (found["members"], found["nonmembers"], found["told_apart"]) == (N, N, None)
    # An untrained model is no model whose attacks may find nothing.
    assert "Nothing is decided, neither an alarm nor an all-clear, because" in outcome.err
    assert "identified training samples better than guessing" not in outcome.err
    # No text is shown anywhere.
    page = Path("report/report.html").read_text()
    written = outcome.err + page + Path("report/membership.json").read_text()
    assert not any(word in written for text in texts for word in text.split())
    assert page.count("<svg ") == 2
    assert not re.search(r"https?://|<script|mathdefault", page)


@pytest.fixture
def units(monkeypatch):
    """What each stage of a command counts, by its name."""
    told, stage = {}, Bars.stage

    def listening(self, name, total, unit="tokens"):
        told[name] = unit
        return stage(self, name, total, unit)

    monkeypatch.setattr(Bars, "stage", listening)
    return told


def test_a_masked_model_rewrites(attack, texts, units, tmp_path):
    """Words of letters alone are rewritten; the attack joins the others."""
    tokenizer = word_piece(sorted({word for text in texts for word in text.split()}))
    bert(len(tokenizer), positions=32).save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    options = ("--masked", tmp_path / "bert", "--neighbours", "2", "--masked-share", "0.4")
    outcome = attack("--attacks", "neighbourhood", *options, "--batch-size", "16")
    found = outcome.document
    assert outcome.code == CODES[found["outcome"]], outcome.err
    assert [one["name"] for one in found["attacks"]] == ["neighbourhood"]
    assert (found["masked"]["name"], found["neighbours"], found["masked_share"]) == ("bert", 2, 0.4)
    assert units.pop("attacks") == "rounds"
    assert [units.pop(f"rewriting {number}") for number in (1, 2)] == ["texts"] * 2
    assert set(units.values()) == {"tokens"}


def test_options_reach_the_measurement(attack, model, texts):
    write_texts("in.jsonl", texts[:N], column="body")
    write_texts("out.jsonl", texts[N:], column="body")
    given = {"share": 0.5, "window": 8, "overlap": 2, "start_token": "e"}
    others = {"confidence": 0.9, "seed": 4}
    options = [
        word
        for name, value in {**given, **others}.items()
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    outcome = attack("--column", "body", "--attacks", "loss,min-k", "--fpr", "0.1,0.5", *options)
    found = outcome.document
    assert outcome.code == CODES[found["outcome"]], outcome.err
    assert [point["asked_fpr"] for point in found["attacks"][0]["tpr_at_fpr"]] == [0.1, 0.5]
    assert {name: found[name] for name in (*given, *others)} == {**given, **others}
    read = read_texts("in.jsonl", "out.jsonl", column="body")
    table = measure_texts(str(model), read.texts, read.member, **given).table
    for one, name in zip(found["attacks"], ("loss", "min-k"), strict=True):
        wanted = canary.evaluate(canary.attack(table, name), table.member[0]).auc.value
        assert (one["name"], one["auc"]["value"]) == (name, pytest.approx(wanted, abs=0.01))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--attacks lira", "unknown attack on texts 'lira'"),
        ("--attacks reference", "needs a second model"),
        ("--fpr 0.0001", "0.0001 cannot be seen with 40 non-members"),
        ("--overlap 9999", "overlap=9999 does not fit"),
        ("--column body", "in.jsonl:1: has no column 'body'"),
        ("--share 2", "--share: share=2.0"),
        ("--masked-share 2", "--masked-share: --masked-share=2.0"),
        ("--confidence 95", "confidence must be between 0 and 1"),
        ("few", "9 different members are too few"),
    ],
)
def test_bad_options_leave_nothing_behind(attack, texts, options, words):
    if options == "few":
        write_texts("in.jsonl", texts[:9])
    outcome = attack(*options.removeprefix("few").split())
    assert outcome.code == 2
    assert words in outcome.err
    assert not Path("report").exists()
    assert options != "few" or "Loading" not in outcome.err


def test_a_file_with_a_text_on_each_line_is_refused_with_a_way_to_convert_it(command, texts):
    Path("plain.txt").write_text("a text\nanother text\n")
    done = command("membership", "text", "no-model", "plain.txt", "plain.txt", "--out", "o")
    assert done.code == 2
    assert "If the file has a text on each line, make records: python -c" in done.err
