"""Long texts: every token is priced once, with the context that its window gives it."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import build

from canary.errors import InputError
from canary.scoring.texts import score
from canary.signals.text_measuring import measure_texts

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
        ("gpt2", {"window": 1}, "window=1 prices no token"),
        ("lstm", {"overlap": 3}, "overlap=3 without windows: the model takes texts of any"),
        ("gpt2", {"window": 4, "context": "abcdef"}, "the context has 6 tokens, a window takes 4"),
    ],
)
def test_sizes_that_do_not_fit(name, options, words):
    with pytest.raises(InputError, match=words):
        measure_texts(build(name), [text_of(90), SHORT], [True, False], signals="loss", **options)
