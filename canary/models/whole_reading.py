"""Whether a model reads rows whole: every token has its price, and none is left out.

The checks of `canary.models.examining` use short rows. An adapter that cuts long ones, or
drops a start token, passes them and prices canaries too high.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from canary.models.conformance import TOKENS
from canary.models.finding import Check, Finding, fine, noted, refused, unchecked
from canary.models.language_model import Ints, LanguageModel
from canary.models.probing import random_rows, row_table
from canary.statistics.number_checks import LN2
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.starts import shown_start, usual_first

TOKENS_BY_DEFAULT = 256
"""Tokens of the rows of `canary doctor`, where the model takes so many."""

_ROWS = 4
_MOST_STARTS = 8
_SHARP = 10.0  # times the noise: an edge, not forgetting
_MOSTLY = 0.8


def reading(
    model: LanguageModel, *, tokens: int, start_token: str | None = None
) -> Iterator[Finding]:
    """Findings on rows of `tokens` tokens, and on start tokens; one that is named must matter."""
    length = min(tokens, model.facts.length_limit or tokens)
    if length > TOKENS:
        yield Check(
            f"each token of a row of {length} has a price of its own",
            partial(_prices, length=length),
        ).of(model)
        yield Check(
            f"the last token of a row of {length} depends on the tokens before it",
            partial(_window, length=length),
        ).of(model)
    starts = partial(_starts, start_token=start_token)
    yield Check("a start token changes what comes after it", starts).of(model)


def _random(model: LanguageModel, length: int) -> Ints:
    return random_rows(model, _ROWS, length, seed=13)


def _table(model: LanguageModel, rows: Ints) -> NDArray[np.float64]:
    """Nats of all tokens of each row but the first; probability 0 is a number, too."""
    return np.maximum(row_table(model, rows).astype(np.float64), -1e3)


def _noise(model: LanguageModel) -> float:
    return model.facts.noise_bits(TOKENS) * LN2


def _prices(model: LanguageModel, *, length: int) -> Finding:
    """A tail whose prices depend on no token, though those of the beginning do, is refused."""
    differ = np.ptp(_table(model, _random(model, length)), axis=0) > _noise(model)
    last = int(np.flatnonzero(differ)[-1]) + 2 if differ.any() else 0
    if length - last >= TOKENS // 2 and differ[: TOKENS - 1].mean() >= _MOSTLY:
        figure = f"after the first {last} tokens all cost the same, whatever they are"
        return refused(figure, "price every token of a row; do not cut rows")
    return fine(f"prices differ up to token {last}")


def _window(model: LanguageModel, *, length: int) -> Finding:
    """How far back a token can be and still matter to the last; a sharp end is noted."""
    rows = _random(model, length)
    last, noise = _table(model, rows)[:, -1], _noise(model)

    def change(kept: int) -> float:
        """Of the last price, in nats, where all but so many tokens before it are others."""
        other = rows.copy()
        other[:, : length - 1 - kept] = np.roll(rows[:, : length - 1 - kept], 1, axis=0)
        return float(np.abs(_table(model, other)[:, -1] - last).max())

    low, high = 0, length - 2  # all tokens but the first are kept
    before = change(low)
    if before <= noise:
        figure = f"changing all of them moves it by {before / LN2:.3g} bits"
        return refused(figure, "read every token of a row; do not cut rows")
    if change(high) > noise:
        return fine("the first token matters")
    while high - low > 1:
        middle = (low + high) // 2
        moved = change(middle)
        if moved > noise:
            low, before = middle, moved
        else:
            high = middle
    if before <= _SHARP * noise:
        return fine(f"what is more than {high} tokens back is forgotten")
    return noted(
        f"of a row of {length} tokens only the last {high} matter to the next one",
        "does the adapter cut rows? A model that reads so few tokens by design is right",
    )


def _starts(model: LanguageModel, *, start_token: str | None) -> Finding:
    """Start tokens that change no price, where other tokens in their place do."""
    names: list[str | None] = [start_token]
    if start_token is None:
        names = usual_first(model.tokenizer, model.facts.vocabulary)[1 : 1 + _MOST_STARTS]
    starts = {name: CandidateEncoder(model.tokenizer, name).start for name in names}
    length = min(TOKENS, model.facts.length_limit or TOKENS)
    if not starts or length < 4:
        return unchecked("there is none")
    rows, noise = _random(model, length - 1), _noise(model)
    plain = _table(model, rows)

    def matters(first: Ints) -> bool:
        """Whether a token before each row changes what comes after the row's first."""
        after = _table(model, np.concatenate([first[:, None], rows], axis=1))[:, 1:]
        return bool(np.abs(after - plain).max() > noise)

    if not matters(np.roll(rows[:, -1], 1)):
        return fine("no token matters beyond the next one, by design")
    dropped = [name for name, ids in starts.items() if not matters(np.full(_ROWS, ids[0]))]
    if not dropped:
        return fine(f"{_named(list(starts))} does")
    figure = f"{_named(dropped)} changes no price after it, though other tokens in its place do"
    cure = "give the model every token of a row, special ones too"
    return noted(figure, cure) if start_token is None else refused(figure, cure)


def _named(names: Sequence[str | None]) -> str:
    return ", ".join(map(shown_start, names))
