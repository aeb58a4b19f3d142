"""Experiments on a model's numbers, each with its figure.

Those of long rows find an adapter that cuts rows, or drops a start token, and so prices
canaries too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.conformance import TOKENS
from canary.models.english import english_rows, note_on_vocabulary
from canary.models.language_model import Children, Ints, LanguageModel, Rows
from canary.models.noise import nodes_of, opened, random_rows, row_table
from canary.records.record import Record
from canary.statistics.number_checks import LN2, UNITS
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.starts import shown_start, usual_first

NOISE_CURE = "measure it: canary.models.noise.with_measured_noise(model, model.facts)"

_ROWS, _LONG_ROWS, _TEXTS, _MOST_STARTS = 8, 4, 16, 8
_AT_ONCE = 1 << 12
_MUCH_NOISE = 0.05
_SHARP = 10.0  # times the noise: an edge, not forgetting
_MOSTLY = 0.8
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Finding(Record, written=("check", "verdict", "figure", "cure")):
    """What one check showed.

    Parameters
    ----------
    check : str
        What ought to hold, as a sentence.
    verdict : {"fine", "noted", "refused", "not checked", "not loaded"}
    figure : str
        What was measured, with its unit; why it was refused or not checked.
    cure : str
        What to do where it was refused or noted.
    error : ModelError, optional
        What was raised, where that was it.
    """

    check: str
    verdict: Literal["fine", "noted", "refused", "not checked", "not loaded"]
    figure: str
    cure: str = ""
    error: ModelError | None = field(default=None, repr=False, compare=False)


# What experiments give: findings that do not say what was checked.
fine = partial(Finding, "", "fine")
noted = partial(Finding, "", "noted")
refused = partial(Finding, "", "refused")
unchecked = partial(Finding, "", "not checked")


def _random(model: LanguageModel, count: int) -> Ints:
    return random_rows(model, count, TOKENS, seed=11)


def _noise(model: LanguageModel) -> float:
    """Nats by which the sum over a row may differ."""
    return model.facts.noise_bits(TOKENS) * LN2


def facts(model: LanguageModel) -> Finding:
    """The vocabulary is that of the tokenizer, and the noise a number."""
    known, size = model.facts, model.tokenizer.size
    noise = known.noise_bits_per_token
    if known.vocabulary < size:
        return refused(
            f"it has {known.vocabulary} tokens, its tokenizer {size}",
            "give the tokenizer that the model was trained with",
        )
    if not (np.isfinite(noise) and noise >= 0):
        return refused(f"its noise is {noise} bits per token", NOISE_CURE)
    figure = f"{known.vocabulary:,} tokens, the tokenizer {size:,}; noise {noise:.2g} bits a token"
    if note_on_vocabulary(model):
        cure = "is this the tokenizer that the model was trained with?"
        return noted(f"{figure}: many more than its tokenizer", cure)
    return noted(f"{figure}, which is much", NOISE_CURE) if noise > _MUCH_NOISE else fine(figure)


def shift(model: LanguageModel) -> Finding:
    """The last token is only asked for; the one before it must matter as those before do."""
    ids = _random(model, _ROWS)
    if ids.shape[1] < 4:
        return unchecked(f"it takes {ids.shape[1]} tokens")
    last, moved = row_table(model, ids)[:, -1], []
    for at in (-2, -3):
        other = ids.copy()
        other[:, at] = np.roll(ids[:, at], 1)
        with np.errstate(invalid="ignore"):
            change = np.abs(last - row_table(model, other)[:, -1])
        moved.append(float(np.nan_to_num(change, posinf=1e3).max()) / LN2)
    figure = (
        f"changing it moves the next token by {moved[0]:.3g} bits, changing the one before it "
        f"by {moved[1]:.3g}"
    )
    if moved[0] <= _noise(model) / LN2 < moved[1]:
        cure = "look up token i + 1 in the logits of position i, after the token i was read"
        return refused(figure, cure)
    return fine(figure)


def cheap(model: LanguageModel, most_rows: int | None) -> bool:
    """Whether all next tokens are few rows: of one row, or no more than allowed."""
    if most_rows is None or model.facts.vocabulary <= _AT_ONCE // 2:
        return True
    with opened(model, _random(model, 1)[0, :1]) as walker:
        few = Children(np.arange(64, dtype=np.int32))
        return bool(walker.expand(nodes_of([[]]), few).queries < 64)


def sums(model: LanguageModel, most_rows: int | None) -> Finding:
    """Probabilities of all next tokens sum to 1; logarithms to another base are named."""
    vocabulary, few_rows = model.facts.vocabulary, cheap(model, most_rows)
    if not few_rows and vocabulary > (most_rows or 0):
        return unchecked(f"each of {vocabulary:,} tokens would be a row of its own")
    first, *path = _random(model, 1)[0].tolist()
    distributions: list[NDArray[Any]] = []
    with opened(model, [first]) as walker:
        for depth in (0, 2) if few_rows else (0,):
            parts = [
                walker.expand(nodes_of([path[:depth]]), Children(some), keep=False).log_probs[0]
                for some in np.split(
                    np.arange(vocabulary, dtype=np.int32), range(_AT_ONCE, vocabulary, _AT_ONCE)
                )
            ]
            distributions.append(np.concatenate(parts).astype(np.float64))
    within = max(_SUM_TOLERANCE, float(np.expm1(model.facts.excess_nats)))
    worst = {
        unit: max(
            (float(np.exp(values * nats).sum()) for values in distributions),
            key=lambda total: abs(total - 1.0),
        )
        for unit, nats in UNITS.items()
    }
    figure = f"they sum to {worst['nats']:.4g}"
    unit = next((unit for unit, total in worst.items() if abs(total - 1.0) <= within), "")
    if unit == "nats":
        return fine(f"within {abs(worst['nats'] - 1.0):.2g}")
    if unit:
        cure = f"give nats: multiply by {UNITS[unit]:.6g}"
        return refused(f"{figure}; taken for {unit} they sum to 1", cure)
    return refused(
        figure,
        "give a log-softmax over the vocabulary, in nats, of the logits of the place before "
        "the token (logits of position i are for token i + 1)",
    )


def varies(model: LanguageModel) -> Finding:
    """Not one probability for all tokens, nor one distribution after any token."""
    size = min(model.facts.vocabulary, model.tokenizer.size)
    firsts, asked = (
        np.linspace(low, size - 1, min(size, _TEXTS)).astype(np.int64) for low in (0, size // 32)
    )
    rows = [[int(first), int(token)] for first in firsts for token in asked]
    bits = -row_table(model, rows).reshape(len(firsts), len(asked)).astype(np.float64) / LN2
    finite = np.where(np.isfinite(bits), bits, 1e3)
    between, within = float(np.ptp(finite, axis=0).max()), float(np.ptp(finite))
    figure = f"scores of {len(asked)} tokens differ by {within:.3g} bits over {len(firsts)} texts"
    noise = _noise(model)
    # To a model of few words, random tokens look alike; those of sentences do not.
    if between > noise / LN2:
        return fine(figure)
    for row in english_rows(model):
        there = model.score(Rows.of([row], 2))
        alone = model.score(Rows.of([[row[0], token] for token in row[2:]]))
        if bool((np.abs(np.exp(there) - np.exp(alone)) > noise).any()):
            return fine(figure)
    reason = "all the same" if within <= noise / LN2 else "the same after every token"
    cure = "give the log-probabilities of a language model that reads the tokens before"
    return refused(f"{figure}: {reason}", cure)


def _long_rows(model: LanguageModel, length: int) -> Ints:
    return random_rows(model, _LONG_ROWS, length, seed=13)


def _table(model: LanguageModel, rows: Ints) -> NDArray[np.float64]:
    """Nats of all tokens of each row but the first; probability 0 is a number, too."""
    return np.maximum(row_table(model, rows).astype(np.float64), -1e3)


def prices(model: LanguageModel, length: int) -> Finding:
    """A tail whose prices depend on no token, though those of the beginning do, is refused."""
    differ = np.ptp(_table(model, _long_rows(model, length)), axis=0) > _noise(model)
    last = int(np.flatnonzero(differ)[-1]) + 2 if differ.any() else 0
    if length - last >= TOKENS // 2 and differ[: TOKENS - 1].mean() >= _MOSTLY:
        figure = f"after the first {last} tokens all cost the same, whatever they are"
        return refused(figure, "score every token of a row; do not cut rows")
    return fine(f"scores differ up to token {last}")


def window(model: LanguageModel, length: int) -> Finding:
    """How far back a token can be and still matter to the last; a sharp end is noted."""
    rows = _long_rows(model, length)
    last, noise = _table(model, rows)[:, -1], _noise(model)

    def change(kept: int) -> float:
        """Of the last price, in nats, where all but `kept` tokens before it are others."""
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


def starts(model: LanguageModel, start_token: str | None) -> Finding:
    """Start tokens that change no price, where other tokens in their place do."""
    names: list[str | None] = [start_token]
    if start_token is None:
        names = usual_first(model.tokenizer, model.facts.vocabulary)[1 : 1 + _MOST_STARTS]
    first_of = {name: CandidateEncoder(model.tokenizer, name).start for name in names}
    length = min(TOKENS, model.facts.length_limit or TOKENS)
    if not first_of or length < 4:
        return unchecked("there is none")
    rows, noise = _long_rows(model, length - 1), _noise(model)
    plain = _table(model, rows)

    def matters(first: Ints) -> bool:
        """Whether a token before each row changes what comes after the row's first."""
        after = _table(model, np.concatenate([first[:, None], rows], axis=1))[:, 1:]
        return bool(np.abs(after - plain).max() > noise)

    if not matters(np.roll(rows[:, -1], 1)):
        return fine("no token matters beyond the next one, by design")
    dropped = [name for name, ids in first_of.items() if not matters(np.full(_LONG_ROWS, ids[0]))]
    if not dropped:
        return fine(f"{_named(list(first_of))} does")
    figure = f"{_named(dropped)} changes no score after it, though other tokens in its place do"
    cure = "give the model every token of a row, special ones too"
    return noted(figure, cure) if start_token is None else refused(figure, cure)


def _named(names: Sequence[str | None]) -> str:
    return ", ".join(map(shown_start, names))
