"""The check of the English finds what it is there for, and only that."""

from __future__ import annotations

import prose
import pytest
from prose import MOST_WORDS, found_in, of_module, of_page, sentences

LONG = "word " * (MOST_WORDS + 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A copy stands in\nthe file.", ["1: 'stands'"]),
        ("First.\n\n```sh\nstand\n```\n\nIt is\ntold.", ["8: 'told'"]),
        ("- one\n- whoever\n\n| a |\n| --- |\n| lies |", ["2: 'whoever'", "6: 'lies'"]),
        ("`tell` <!-- told --> [x](stood.md) understand, believes", []),
        (f"{LONG}. Short.", [f"1: {MOST_WORDS + 1} words"]),
        (f"{'word ' * MOST_WORDS}. Word.", []),
        (f"| {LONG} |\n| --- |", []),
    ],
)
def test_pages(tmp_path, monkeypatch, text, found):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text(text)
    lines = [line.split(":", 1)[1] for line in found_in(tmp_path / "README.md")]
    assert len(lines) == len(found)
    assert all(line.startswith(start) for line, start in zip(lines, found, strict=True))


def test_modules():
    text = (
        'def generate():\n    """It stands here."""\n\ndef _inner():\n    """It stands there."""\n'
    )
    assert [line for line, said in of_module(text) if "stands" in said] == [2]
    assert not [*of_module('"""It stands here, at the top."""\nx = "stands"\n')]
    assert [*of_module("z = 'lies in the folder'")] == [(1, "lies in the folder")]


def test_sentences():
    assert sentences("One (e.g. so). Two?\nThree") == ["One (e.g. so).", "Two?", "Three"]
    assert [line for line, _ in of_page("a\n\n\nb\n- c\n")] == [1, 4, 5]
