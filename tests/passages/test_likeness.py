"""Whether controls are of the kind of texts, and texts as training read them."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import build
from started import table

from canary.passages.likeness import Likeness, likeness

CASED = table().tokenizer  # one token for each character
PROSE = "The house on the hill is old, and 3 of us lived there in the year it was sold."
CODE = "def run(self, x): return x + 1 if self.ready else None # TODO Check it. 0"


def texts(words, count, seed, change=str):
    rng = np.random.default_rng(seed)
    return [change(" ".join(rng.choice(words.split(), 80))) for _ in range(count)]


@pytest.mark.parametrize("count", [12, 250])
def test_controls_of_one_source_are_alike_and_others_are_not(count):
    alike = likeness({"texts": texts(PROSE, count, 1), "controls": texts(PROSE, count, 2)}, CASED)
    assert not alike.other_kind
    assert 0.2 < alike.auc < 0.8
    code = likeness({"texts": texts(PROSE, count, 1), "controls": texts(CODE, count, 2)}, CASED)
    assert (code.auc, code.p) == (1.0, 0.01)
    assert "separate texts from controls in 100 % of pairs (p = 0.01)" in code.other_kind
    few = likeness({"texts": texts(PROSE, 8, 1), "controls": texts(CODE, count, 2)}, CASED)
    assert few == Likeness()


@pytest.mark.parametrize(
    ("change", "lack"),
    [
        (str.lower, ("capital letters",)),
        (lambda t: "".join(c for c in t if not c.isdigit()), ("digits",)),
        (lambda t: "".join(c for c in t if c.isalnum() or c == " "), ("punctuation",)),
        (str, ()),
    ],
)
def test_what_only_one_of_them_lacks_is_named(change, lack):
    plain, changed = texts(PROSE, 9, 1), texts(PROSE, 9, 2, change)
    found = likeness({"texts": changed, "controls": plain}, CASED)
    assert (found.texts_lack, found.controls_lack) == (lack, ())
    assert bool(found.other_kind) == bool(lack)
    turned = likeness({"texts": plain, "controls": changed}, CASED)
    assert (turned.texts_lack, turned.controls_lack) == ((), lack)
    single = likeness({"texts": [" ".join(changed)], "controls": [" ".join(plain)]}, CASED)
    assert single.texts_lack == lack


def test_texts_without_capitals_that_the_tokenizer_knows_are_noted():
    small, plain = texts(PROSE, 9, 1, str.lower), texts(PROSE, 9, 2)
    assert likeness({"texts": small}, CASED).lower
    assert likeness({"texts": small, "controls": small}, CASED).lower
    assert not likeness({"texts": small, "controls": plain}, CASED).lower
    assert not likeness({"texts": plain}, CASED).lower
    assert not likeness({"texts": small[:1]}, CASED).lower
    assert not likeness({"texts": ["123 456"] * 9}, CASED).lower
    assert not likeness({"texts": small}, build("table").tokenizer).lower  # it knows no capital
