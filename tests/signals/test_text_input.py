"""What texts, files and models are refused, and what is left out with a word."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from texts_and_models import letters_model, write_texts

from canary.errors import CorpusError, InputError, ModelError, UnsupportedError
from canary.signals.text_files import read_texts
from canary.signals.text_measuring import measure_texts

LN2 = np.log(2)
MODEL = letters_model(1 / 2, 1 / 4, 1 / 8, 1 / 8)
STARTED = letters_model(1 / 2, 1 / 4, 1 / 8, 1 / 8, start="^")


class Served:
    """A model that tells of the tokens it is asked for, as an endpoint does."""

    _model = letters_model(1 / 2, 1 / 4, 1 / 8, 1 / 8, after={"a": (1 / 4, 1 / 2, 1 / 8, 1 / 8)})
    tokenizer, facts = _model.tokenizer, _model.facts
    score, memory, open = _model.score, _model.memory, _model.open


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_texts_without_a_priced_token_are_left_out():
    """Nothing stands before a text here, so a single letter has no price."""
    texts = ["ab", "", "a", "ba", "B"]
    found = measure_texts(MODEL, texts, [True, True, False, False, False], signals="loss")
    assert found.kept.tolist() == [0, 3]
    assert found.table.member.tolist() == [[True, False]]
    assert found.notes[0].startswith("3 texts without a scored token are left out: empty, or one")


@pytest.mark.parametrize(
    ("error", "change", "words"),
    [
        (InputError, {"texts": ["a", "b"]}, "no text has a scored token; name the start token"),
        (InputError, {"texts": ["ab", "b"]}, "all 1 samples are members; give samples of both"),
        (InputError, {"texts": ["ab", None]}, "a sequence of texts was .*, got text 1 as None"),
        (InputError, {"texts": "ab"}, "a sequence of texts was expected, got one text"),
        (InputError, {"member": [2, 0]}, "member must hold true and false, or 1 and 0"),
        (CorpusError, {"texts": ["ab", "\ud800"]}, "text 1: holds half a surrogate pair"),
        (InputError, {"signals": "lira"}, "unknown attack on texts 'lira'; use one of loss, total"),
        (InputError, {"signals": "reference"}, "needs a second .* it: reference= or --reference"),
        (InputError, {"signals": "neighbourhood"}, "second model; name it: masked= or --masked M"),
        (InputError, {"share": 0.0}, "share=0.0, more than 0 and at most 1 was expected"),
        (InputError, {"share": float("nan")}, "share=nan"),
        (InputError, {"masked_share": 0.0}, "masked_share=0.0, more than 0 and at most 1"),
        (InputError, {"neighbours": 0}, "neighbours=0, at least 1 was expected"),
        # A text that the tokenizer lacks is named by its place, and not shown.
        (ModelError, {"texts": ["ab", "abz"]}, "^(?!.*abz).*text 1"),
    ],
)
def test_refused_input(error, change, words):
    given = {"texts": ["ab", "ba"], "member": [True, False]} | change
    with pytest.raises(error, match=words):
        measure_texts(MODEL, **given)


def test_a_served_model_has_no_distributions():
    found = measure_texts(Served(), ["ab", "ba"], [True, False])
    assert "min-k++" not in found.table.values
    assert any(note.startswith("min-k++ is left out") for note in found.notes)
    with pytest.raises(UnsupportedError, match="not how the whole vocabulary is distributed"):
        measure_texts(Served(), ["ab", "ba"], [True, False], signals="min-k++")


def test_another_tokenizer_is_compared_by_whole_texts_or_refused_golden():
    """Behind start tokens both price whole texts; without one, the first letter is missing."""
    other = letters_model(1 / 4, 1 / 4, 1 / 4, 1 / 4, start="!")
    pairs = letters_model(1 / 4, 1 / 4, 1 / 8, 1 / 8, 1 / 4, start="^", pair="ab")
    member = [True, False]
    with pytest.raises(InputError, match="the target has no score for the first token"):
        measure_texts(MODEL, ["bb", "ab"], member, reference=other)
    with pytest.raises(InputError, match="the reference model has no score for the first"):
        measure_texts(STARTED, ["b", "ab"], member, reference=MODEL)
    # The ids agree although the names of the start tokens differ: the tokens are the same.
    found = measure_texts(STARTED, ["b", "ab"], member, reference=other)
    np.testing.assert_allclose(found.table.signal("reference")[0], [0, -0.5 * LN2], atol=1e-6)
    # ab is 1 and 2 bits in two tokens of ours, and 2 bits in one of theirs.
    found = measure_texts(STARTED, ["ab", "B"], member, reference=pairs)
    np.testing.assert_allclose(found.table.signal("reference")[0], [0.5 * LN2, 0], atol=1e-6)
    assert found.notes[-1].startswith("The reference model has another tokenizer: what is compared")


def test_start_tokens_of_two_models():
    """The reference gets the start token that was named, unless it is given its own, or none."""
    texts, member = ["bb", "ab"], [True, False]
    even = letters_model(1 / 4, 1 / 4, 1 / 4, 1 / 4)
    found = measure_texts(MODEL, texts, member, reference=even, start_token="a")
    assert found.settings["reference_start_token"] == "a"
    np.testing.assert_allclose(found.table.signal("reference")[0], [0, -0.5 * LN2], atol=1e-6)
    options = {"reference": STARTED, "start_token": "a", "signals": "reference"}
    with pytest.raises(InputError, match="the reference model is named by reference_start_token"):
        measure_texts(MODEL, texts, member, **{**options, "reference_start_token": "ab"})
    found = measure_texts(MODEL, texts, member, **{**options, "reference_start_token": ""})
    assert found.settings["reference_start_token"] is None
    assert found.notes[-1].startswith("The reference model has another tokenizer: what is compared")


def test_files_are_read_with_their_lines():
    write_texts("in.jsonl", ["ab", "ba"])
    Path("out.jsonl").write_text('\n{"text": "bb"}\n\n{"text": "aa"}\n')
    found = read_texts("in.jsonl", "out.jsonl")
    assert found.texts == ["ab", "ba", "bb", "aa"]
    assert found.member.tolist() == [True, True, False, False]
    assert [found.place(at) for at in range(4)] == [
        "in.jsonl:1",
        "in.jsonl:2",
        "out.jsonl:2",
        "out.jsonl:4",
    ]


def test_texts_on_both_sides_are_members():
    write_texts("in.jsonl", ["ab", "ba", "ab"])
    write_texts("out.jsonl", ["ba", "bb", "ab", "ba"])
    found = read_texts("in.jsonl", "out.jsonl")
    assert found.texts == ["ab", "ba", "ab", "bb"]
    assert found.lines.tolist() == [1, 2, 3, 2]
    assert found.notes == (
        "3 non-members are the same texts as members, and left out",
        "1 text of the members repeats another: intervals take them for different texts",
    )
    write_texts("out.jsonl", ["ba", "ab"])
    with pytest.raises(CorpusError, match=r"out.jsonl: each of its texts is also in the members'"):
        read_texts("in.jsonl", "out.jsonl")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("\n\n", "out.jsonl: holds no record"),
        (json.dumps({"body": "ab"}), "out.jsonl:1: has no column 'text'; name one of 'body'"),
        ('{"text": "ab"}\n["ab"]', "out.jsonl:2: is a list, not a JSON object"),
    ],
)
def test_bad_files(body, words):
    write_texts("in.jsonl", ["ab"])
    Path("out.jsonl").write_text(body)
    with pytest.raises(CorpusError, match=words):
        read_texts("in.jsonl", "out.jsonl")
