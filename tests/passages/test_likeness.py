"""Whether controls are of the kind of texts, and texts as training read them."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import build
from started import table

from canary.passages.likeness import Likeness, knows_capitals, likeness
from canary.passages.misfits import known_but_not_repeated, no_better_known

PROSE = "The house on the hill is old, and 3 of us lived there in the year it was sold."
CODE = "def run(self, x): return x + 1 if self.ready else None # TODO Check it. 0"


def texts(words, count, seed, change=str):
    rng = np.random.default_rng(seed)
    return [change(" ".join(rng.choice(words.split(), 80))) for _ in range(count)]


@pytest.mark.parametrize("count", [12, 250])
def test_controls_of_one_source_are_alike_and_others_are_not(count):
    alike = likeness(
        {"texts": texts(PROSE, count, 1), "controls": texts(PROSE, count, 2)}, capitals=True
    )
    assert not alike.other_kind
    assert 0.2 < alike.auc < 0.8
    code = likeness(
        {"texts": texts(PROSE, count, 1), "controls": texts(CODE, count, 2)}, capitals=True
    )
    assert (code.auc, code.p) == (1.0, 0.01)
    assert "separate texts from controls in 100 % of pairs (p = 0.01)" in code.other_kind
    few = likeness({"texts": texts(PROSE, 8, 1), "controls": texts(CODE, count, 2)}, capitals=True)
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
    found = likeness({"texts": changed, "controls": plain}, capitals=True)
    assert (found.texts_lack, found.controls_lack) == (lack, ())
    assert bool(found.other_kind) == bool(lack)
    turned = likeness({"texts": plain, "controls": changed}, capitals=True)
    assert (turned.texts_lack, turned.controls_lack) == ((), lack)
    single = likeness({"texts": [" ".join(changed)], "controls": [" ".join(plain)]}, capitals=True)
    assert single.texts_lack == lack


def test_texts_without_capitals_that_the_tokenizer_knows_are_noted():
    small, plain = texts(PROSE, 9, 1, str.lower), texts(PROSE, 9, 2)
    assert likeness({"texts": small}, capitals=True).oddities
    assert likeness({"texts": small, "controls": small}, capitals=True).oddities
    assert not likeness({"texts": small, "controls": plain}, capitals=True).oddities
    assert not likeness({"texts": plain}, capitals=True).oddities
    assert not likeness({"texts": small[:1]}, capitals=True).oddities
    assert not likeness({"texts": ["123 456"] * 9}, capitals=True).oddities
    assert knows_capitals(table().tokenizer)
    assert not likeness(
        {"texts": small}, capitals=knows_capitals(build("table").tokenizer)
    ).oddities  # it knows no capital


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda text: text.replace("\n", "\r\n"), "carriage return"),
        (lambda text: text.replace("\n", " ") * 9, "no text has a line break"),
        (lambda text: f"\u201c{text}\u201d", "all quotes are typographic"),
    ],
)
def test_a_form_that_training_may_not_have_read_is_named(change, named):
    usual = [f"{text}\n{text}".replace("'", "") for text in texts(PROSE, 9, 1)]
    changed = [change(text) for text in usual]
    assert not likeness({"texts": usual, "controls": usual}, capitals=True).oddities
    (oddity,) = likeness({"texts": changed, "controls": changed}, capitals=True).oddities
    assert named in oddity
    assert not likeness(
        {"texts": changed, "controls": ["It's so."] * 9}, capitals=True
    ).oddities or ("carriage" in named)


def test_a_model_that_knows_texts_but_repeats_few_is_named():
    problem, cure = known_but_not_repeated(4.0, 13.6, 0.07)
    assert "4.0 bits per token, 13.6 for controls" in problem
    assert "tokenizer" in cure
    for bits, others, share in ((4.0, 13.6, 0.9), (13.0, 13.6, 0.0), (4.0, None, 0.0)):
        assert known_but_not_repeated(bits, others, share) == ("", "")
    assert "8.26 and 8.37" in no_better_known(8.27, 8.37).replace("8.27", "8.26")
    assert no_better_known(8.1, 8.37) == no_better_known(8.0, None) == ""
