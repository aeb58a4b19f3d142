"""Neighbourhood: the loss of a text against that of its rewritten copies."""

from __future__ import annotations

import numpy as np
import pytest
from texts_and_models import letters_model

from canary.errors import InputError
from canary.signals.text_measuring import measure_texts

MODEL = letters_model(1 / 2, 1 / 4, 1 / 8, 1 / 8)
LN2 = np.log(2)


class Fixed:
    """Rewrites by a list: each time the next copies."""

    facts = {"name": "fixed", "fingerprint": "0"}  # noqa: RUF012

    def __init__(self, *copies):
        self.copies, self.asked = list(copies), []

    def rewrite(self, texts, *, share, rng):
        self.asked.append((list(texts), share, rng.random()))
        return self.copies[len(self.asked) - 1]


def test_by_hand_golden():
    """bb costs 2 bits a letter, ba and aa 1, bA 3, as the first letter has no price."""
    rewriter = Fixed(["ba", "ab"], ["bA", "ab"])
    found = measure_texts(MODEL, ["bb", "ab"], [True, False], masked=rewriter, neighbours=2)
    np.testing.assert_allclose(
        found.table.signal("neighbourhood")[0], [(2 - (1 + 3) / 2) * LN2, 0.0], atol=1e-7
    )
    assert found.settings["masked"] == {"name": "fixed", "fingerprint": "0"}


def test_copies_are_asked_for_with_their_own_seeds():
    rewriter = Fixed(["ba", "ab"], ["bA", "ab"], ["bA", "ab"])
    texts = ["bb", "", "ab"]
    options = {"masked": rewriter, "neighbours": 3, "masked_share": 0.3, "signals": "neighbourhood"}
    found = measure_texts(MODEL, texts, [True, True, False], seed=5, **options)
    assert [asked[:2] for asked in rewriter.asked] == [(["bb", "ab"], 0.3)] * 3
    assert len({asked[2] for asked in rewriter.asked}) == 3
    assert list(found.table.values) == ["neighbourhood"]


def test_copies_without_a_price_are_left_out():
    """One letter that nothing stands before: one copy of the first text counts."""
    rewriter = Fixed(["a", "a"], ["bA", "b"])
    found = measure_texts(MODEL, ["bb", "ab"], [True, False], masked=rewriter, neighbours=2)
    np.testing.assert_allclose(found.table.signal("neighbourhood")[0], [-LN2, 0.0], atol=1e-7)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"signals": "neighbourhood"}, "needs a second model; name it: masked= or --masked MODEL"),
        ({"neighbours": 0}, "neighbours=0, at least 1 was expected"),
        ({"masked_share": 0.0}, "masked_share=0.0, more than 0 and at most 1"),
    ],
)
def test_input(options, words):
    with pytest.raises(InputError, match=words):
        measure_texts(MODEL, ["bb", "ab"], [True, False], **options)
