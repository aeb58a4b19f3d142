"""The signals of texts, derived by hand on tables of probabilities that are powers of two.

The next letter is a, b, A, B with probabilities 1/2, 1/4, 1/8, 1/8, whatever came before: 1, 2,
3, 3 bits. Of abAB the first letter has no price; the others cost 2 + 3 + 3 = 8 bits.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import build
from texts_and_models import letters_model

from canary.errors import InputError
from canary.models.language_model import Rows
from canary.models.torch_model import token_moments
from canary.scoring.batcher import Batcher
from canary.scoring.texts import score
from canary.signals.text import TEXT_SIGNALS, TokenPrices, lowest, standardised
from canary.signals.text_measuring import measure_texts

LN2 = np.log(2)
MODEL = letters_model(1 / 2, 1 / 4, 1 / 8, 1 / 8)
EVEN = letters_model(1 / 4, 1 / 4, 1 / 4, 1 / 4)


def one(text, *, beside="ab", **options):
    """The signals of one text."""
    found = measure_texts(MODEL, [text, beside], [True, False], reference=EVEN, **options)
    return {name: values[0, 0] for name, values in found.table.values.items()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("total-loss", 8 * LN2),
        ("loss", 8 / 3 * LN2),
        # zlib: 2 bytes of head, 4 of checksum; 3 bits, four letters of 8 and an end of 7 are 42
        # bits, so 6 bytes: 12 in all, 96 bits.
        ("zlib", 8 / 3 * LN2 / 12),
        ("total-zlib", 8 / 96),
        # abab: 2 + 1 + 2 bits for as many letters.
        ("lower-case", 8 / 5),
        # 2 bits for each letter, 6 in all; 3 priced letters.
        ("reference", (8 - 6) / 3 * LN2),
        # A fifth of three is none, so one is taken: the dearest.
        ("min-k", -3 * LN2),
        # Mean -(1/2 + 2/4 + 3/4) = -7/4 bits; variance 1/2 9/16 + 1/4 1/16 + 1/4 25/16 = 11/16.
        ("min-k++", (-3 + 7 / 4) / np.sqrt(11 / 16)),
    ],
)
def test_each_signal(name, expected):
    found = one("abAB")
    assert found[name] == pytest.approx(expected, rel=1e-6)
    assert list(found) == [name for name in TEXT_SIGNALS if name != "neighbourhood"]


@pytest.mark.parametrize(("share", "taken"), [(0.2, 1), (1 / 3, 1), (0.66, 1), (2 / 3, 2), (1, 3)])
def test_share_of_the_lowest(share, taken):
    """Of 2, 3 and 3 bits the dearest one, two or three."""
    found = one("abAB", share=share)
    bits = [-3, -3, -2]
    assert found["min-k"] == pytest.approx(np.mean(bits[:taken]) * LN2)
    scaled = (np.array(bits[:taken]) + 7 / 4) / np.sqrt(11 / 16)
    assert found["min-k++"] == pytest.approx(scaled.mean(), rel=1e-6)


def test_start_token_prices_the_first_letter():
    model = letters_model(1 / 2, 1 / 4, 1 / 8, 1 / 8, start="^")
    found = measure_texts(model, ["b", "a"], [True, False])
    np.testing.assert_allclose(found.table.signal("total-loss")[0], [2 * LN2, LN2], rtol=1e-6)
    assert found.tokens.tolist() == [1, 1]


def test_context_is_not_priced():
    """After A the next letter is b for sure; so it is in the text, and B is not priced."""
    model = letters_model(1 / 2, 1 / 4, 1 / 8, 1 / 8, after={"A": (0, 1, 0, 0)})
    found = measure_texts(model, ["b", "ba"], [True, False], context="BA")
    np.testing.assert_allclose(found.table.signal("total-loss")[0], [0, LN2], atol=1e-7)


def test_every_deviation_of_a_certain_token_is_zero():
    """Certain and even distributions deviate by nothing: what they give is as expected."""
    model = letters_model(1 / 4, 1 / 4, 1 / 4, 1 / 4, after={"a": (0, 1, 0, 0)})
    found = measure_texts(model, ["ab", "bA", "aa"], [True, False, False])
    scaled = found.table.signal("min-k++")[0]
    np.testing.assert_allclose(scaled[:2], [0, 0], atol=1e-2)
    assert scaled[2] == -np.inf


def test_probability_zero_is_infinite_and_neutral_where_both_have_it():
    model = letters_model(1 / 2, 1 / 2, 0, 0)
    other = letters_model(1 / 4, 3 / 4, 0, 0)
    found = measure_texts(model, ["aA", "ab"], [True, False], reference=other)
    values = {name: value[0] for name, value in found.table.values.items()}
    for name in ("loss", "total-loss", "zlib", "total-zlib", "lower-case"):
        assert values[name][0] == np.inf, name
    assert values["min-k"][0] == values["min-k++"][0] == -np.inf
    assert values["reference"].tolist() == [0.0, pytest.approx(np.log(3 / 4) + LN2)]
    assert "1 text had a token of probability 0: the loss is infinite" in found.notes


def test_lower_case_of_nothing_to_lower_is_one():
    sure = letters_model(0, 1, 0, 0)
    found = measure_texts(sure, ["bb", "bbb"], [True, False], signals="lower-case")
    assert found.table.signal("lower-case").tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 1.0])
def test_lowest_oracle(share):
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 40, 50)
    values = rng.normal(size=counts.sum()).round(1)
    parts = np.split(values, np.cumsum(counts)[:-1])
    expected = [np.sort(part)[: max(int(share * len(part)), 1)].mean() for part in parts]
    np.testing.assert_allclose(lowest(values, counts, share=share), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["table", "lstm", "gpt2"])
def test_moments_through_the_batcher_do_not_depend_on_its_size(name):
    rng = np.random.default_rng(0)
    rows = Rows.of([rng.integers(0, 45, n).tolist() for n in rng.integers(2, 40, 12)])
    model = build(name)
    one_by_one = Batcher(model, batch_size=1).moments(rows)
    together = Batcher(model).moments(rows)
    for field in ("log_probs", "means", "deviations"):
        np.testing.assert_allclose(
            getattr(one_by_one, field), getattr(together, field), atol=1e-4, err_msg=field
        )
    np.testing.assert_allclose(together.log_probs, Batcher(model).score(rows), atol=1e-5)
    assert (together.means <= 0).all()
    assert (together.deviations >= 0).all()
    prices = TokenPrices(together.log_probs, rows.scored, together.means, together.deviations)
    assert np.isfinite(standardised(prices)).all()


def test_tokens_that_a_torch_model_rules_out_add_nothing_golden():
    """Probabilities 1/2, 1/2 and 0: every token costs 1 bit, so nothing deviates."""
    logits = torch.tensor([[[0.0, 0.0, -np.inf], [np.log(3), 0.0, -np.inf]]])
    found = token_moments(logits, torch.tensor([[1, 2]]), torch.ones((1, 2), dtype=torch.bool))
    np.testing.assert_allclose(found.log_probs, [-LN2, -np.inf], rtol=1e-6)
    # 3/4 and 1/4: the mean is -(3/4 log 4/3 + 1/4 log 4), the two are log 3 apart.
    mean = -(3 / 4 * np.log(4 / 3) + 1 / 4 * np.log(4))
    np.testing.assert_allclose(found.means, [-LN2, mean], rtol=1e-6)
    spread = np.sqrt(3 / 4 * 1 / 4) * np.log(3)
    np.testing.assert_allclose(found.deviations, [0, spread], rtol=1e-6, atol=1e-7)


class Fixed:
    """Rewrites by a list: each time the next copies."""

    facts = {"name": "fixed", "fingerprint": "0"}  # noqa: RUF012

    def __init__(self, *copies):
        self.copies, self.asked = list(copies), []

    def rewrite(self, texts, *, share, rng):
        self.asked.append((list(texts), share, rng.random()))
        return self.copies[len(self.asked) - 1]


@pytest.mark.parametrize(
    ("copies", "bits"),
    [
        ((["ba", "ab"], ["bA", "ab"]), 2 - (1 + 3) / 2),
        # One letter that nothing stands before has no price: one copy of the first text counts.
        ((["a", "a"], ["bA", "b"]), 2 - 3),
    ],
)
def test_neighbours_by_hand_golden(copies, bits):
    """bb costs 2 bits a letter, ba and aa 1, bA 3, as the first letter has no price."""
    rewriter = Fixed(*copies)
    found = measure_texts(MODEL, ["bb", "ab"], [True, False], masked=rewriter, neighbours=2)
    values = found.table.signal("neighbourhood")[0]
    np.testing.assert_allclose(values, [bits * LN2, 0.0], atol=1e-7)
    assert found.settings["masked"] == {"name": "fixed", "fingerprint": "0"}


def test_copies_are_asked_for_with_their_own_seeds():
    rewriter = Fixed(["ba", "ab"], ["bA", "ab"], ["bA", "ab"])
    options = {"masked": rewriter, "neighbours": 3, "masked_share": 0.3, "signals": "neighbourhood"}
    found = measure_texts(MODEL, ["bb", "", "ab"], [True, True, False], seed=5, **options)
    assert [asked[:2] for asked in rewriter.asked] == [(["bb", "ab"], 0.3)] * 3
    assert len({asked[2] for asked in rewriter.asked}) == 3
    assert list(found.table.values) == ["neighbourhood"]


SHORT = "the code"


def text_of(length):
    rng = np.random.default_rng(length)
    return "".join(rng.choice(list("abc 0123"), length))


@pytest.mark.parametrize(("window", "overlap"), [(None, None), (16, 5), (16, 15), (2, 1), (40, 1)])
def test_each_token_is_priced_once_oracle(window, overlap):
    """Against each token priced alone, below the tokens of its window before it."""
    model, texts = build("gpt2"), [*map(text_of, (15, 16, 17, 64, 65, 90)), SHORT]
    member = [text is SHORT for text in texts]
    found = measure_texts(
        model, texts, member, signals="total-loss", window=window, overlap=overlap
    )
    size = 64 if window is None else window
    step = size - (size // 2 if overlap is None else overlap)
    assert found.tokens.tolist() == [len(text) - 1 for text in texts]
    for text, total in zip(texts, found.table.signal("total-loss")[0], strict=True):
        parts = []
        for at in range(1, len(text)):
            begin = (0 if at < size else (at - size) // step + 1) * step
            parts += [text[begin : at + 1], text[begin:at]]
        bits = score(model, parts)
        assert total == pytest.approx((bits[::2] - bits[1::2]).sum() * np.log(2), rel=1e-4)


def test_a_model_of_any_length_needs_no_windows():
    found = measure_texts(build("lstm"), [text_of(900), SHORT], [True, False], signals="loss")
    assert not any("windows" in note for note in found.notes)
    assert found.settings["window"] is None


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("gpt2", {"overlap": 64}, "overlap=64 does not fit windows of 64 tokens; give 1 to 63"),
        ("gpt2", {"window": 8, "overlap": 8}, "overlap=8 does not fit windows of 8 tokens"),
        ("gpt2", {"overlap": 0}, "overlap=0 does not fit"),
        ("gpt2", {"window": 1}, "window=1 scores no token"),
        ("lstm", {"overlap": 3}, "overlap=3 without windows: the model takes texts of any"),
        ("gpt2", {"window": 4, "context": "abcdef"}, "the context has 6 tokens, a window takes 4"),
    ],
)
def test_sizes_that_do_not_fit(name, options, words):
    with pytest.raises(InputError, match=words):
        measure_texts(build(name), [text_of(90), SHORT], [True, False], signals="loss", **options)
