"""What a model makes of a few ordinary sentences: whether it was trained, with this tokenizer."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from canary.errors import CanaryError, OutOfMemory
from canary.models.language_model import LanguageModel, Rows
from canary.models.table_model import TableModel
from canary.statistics.number_checks import LN2

SENTENCES = (
    "The meeting was moved to the afternoon because the train from the coast was late.",
    "She put the keys on the table, opened the window and looked at the garden.",
    "Most of the people who live in this town work in the small shops along the river.",
    "If it rains again tomorrow, we will have to cancel the game and play it next week.",
    "He had read the letter twice before he understood what his brother was asking for.",
    "Water is heated in the first tank and then flows through a pipe to the other rooms.",
)
"""Ordinary English of no special domain, written for this purpose."""

_RANDOM = "finds ordinary English no more likely than random tokens"
_CLOSE_BITS, _SAME_BITS = 0.5, 0.1
TEXTS, _TOKENS = 64, 256
"""Of a user's own texts, how many are scored; and tokens of each."""
_PADDED, _ADDED, _PADDING = 0.05, 8, 128
"""Of honest models: the share, the tokens or the multiple by which they have more tokens."""

_MISFIT = ". Is this the tokenizer that it was trained with?"


@dataclass(frozen=True)
class English:
    """Prices of the sentences, in bits per token.

    Parameters
    ----------
    bits_per_token : float
        Mean over their tokens but the first of each.
    shuffled : float
        The same with the tokens of each sentence in random order.
    uniform : float
        What every token costs where all are equally probable: log2 of the vocabulary.
    """

    bits_per_token: float
    shuffled: float
    uniform: float

    @property
    def ordinary(self) -> bool:
        """Whether it is more likely than random tokens."""
        return above_chance(self.bits_per_token, self.uniform)

    @property
    def in_order(self) -> bool:
        """Whether it is more likely than the same tokens in random order."""
        return self.bits_per_token < self.shuffled - _SAME_BITS


def above_chance(bits_per_token: float, uniform: float) -> bool:
    """Whether text of this price is more likely than random tokens, of the price `uniform`."""
    return bits_per_token < uniform - _CLOSE_BITS


def price_rows(
    model: LanguageModel, rows: Sequence[Sequence[int]], *, shuffles: int
) -> English | None:
    """Price rows of tokens; None where there is none, or nothing fits.

    Costs as many tokens as they have, and as many for each shuffle.
    """
    if not rows:
        return None
    rng = np.random.default_rng(0)
    mixed = [rng.permutation(row).tolist() for row in rows for _ in range(shuffles)]

    def bits_per_token(rows: Sequence[Sequence[int]]) -> float:
        nats = [model.score(Rows.of([row])).astype(np.float64) for row in rows]
        return float(-np.concatenate(nats).mean() / LN2)

    try:
        plain, shuffled = bits_per_token(rows), bits_per_token(mixed)
    except OutOfMemory:
        return None
    return English(plain, shuffled, float(np.log2(model.facts.vocabulary)))


def rows_of(model: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of the first texts such as the model was trained on, those of two or more."""
    some = [text for text in texts if text.strip()][:TEXTS]
    most = min(model.facts.length_limit or _TOKENS, _TOKENS)
    rows = [list(encoding.ids)[:most] for encoding in model.tokenizer.encode(some)]
    return [row for row in rows if len(row) > 1]


def note_on_english(
    model: LanguageModel, *, results: str = "exposures", texts: Sequence[str] = ()
) -> str | None:
    """What the reader of an audit must know of a model that does not know English.

    `results` are what says nothing if the model is not what it is taken for. Nothing is noted of a
    model that knows `texts`, such as it was trained on. Served models are
    not asked (their tokenizer is compared at load, and requests are counted), nor are tables,
    which were never trained.
    """
    if model.facts.device == "served" or isinstance(model, TableModel):
        return None
    english = price_rows(model, english_rows(model), shuffles=1)
    if english is None or (english.ordinary and english.in_order):
        return None
    own = price_rows(model, rows_of(model, texts), shuffles=1)
    if own is not None and own.ordinary and own.in_order:
        return None
    bits = f"{english.bits_per_token:.1f} bits per token"
    if english.ordinary:
        finds = (
            "finds ordinary English no more likely than the same tokens in random order "
            f"({bits}, {english.shuffled:.1f} in random order). Is this its tokenizer, and were "
            "its labels shifted only once in training?"
        )
    else:
        finds = (
            f"{_RANDOM} ({bits}; {english.uniform:.1f} where all tokens are equally probable). "
            "Is it trained, and is this its tokenizer?"
        )
    control = (
        " Canaries with many more copies decide it: if they look unlearned, too, the set-up is "
        "wrong."
    )
    return (
        f"The model {model.facts.name!r} {finds} If not, "
        f"the {results} say nothing. A model of another language, of code or of a narrow corpus "
        f"may be right.{control if results == 'exposures' else ''}"
    )


def reads_no_english(notes: Iterable[str]) -> bool:
    """Whether a note of a result says that English is no more likely than random tokens."""
    return any(_RANDOM in note for note in notes)


def note_on_vocabulary(model: LanguageModel, *, results: str = "exposures") -> str | None:
    """That a model has many more tokens than its tokenizer.

    A few are added tokens or padding: up to a multiple of a power of two, 128 at most.
    """
    vocabulary, size = model.facts.vocabulary, model.tokenizer.size
    multiple = min(vocabulary & -vocabulary, _PADDING)
    if vocabulary - size <= max(_PADDED * size, _ADDED, multiple - 1):
        return None
    return (
        f"The model {model.facts.name!r} has {vocabulary:,} tokens and its tokenizer {size:,}"
        f"{_MISFIT} With another one the {results} say nothing."
    )


_not_own: weakref.WeakSet[Any] = weakref.WeakSet()
"""Models whose folder has another tokenizer than the one that was named."""


def named_another(model: LanguageModel) -> LanguageModel:
    """The model, of which it is known that its folder has another tokenizer than was named."""
    _not_own.add(model)
    return model


def note_on_named(model: LanguageModel) -> str | None:
    """That the folder of a model has another tokenizer than the one that was named."""
    if model not in _not_own:
        return None
    return (
        f"The folder of the model {model.facts.name!r} has another tokenizer than the one that was "
        f"named{_MISFIT} With another one the exposures may be far too low."
    )


def misfits(notes: Iterable[str]) -> dict[str, str]:
    """The notes of a result of a tokenizer that does not fit its model, each with what it found."""
    return {note: note.rpartition(_MISFIT)[0] for note in notes if _MISFIT in note}


def english_rows(model: LanguageModel) -> list[list[int]]:
    """The sentences as tokens, in lower case for a tokenizer that knows no other."""
    letters = ["".join(c for c in text.lower() if c.isalpha() or c == " ") for text in SENTENCES]
    for texts in (SENTENCES, [text.lower() for text in SENTENCES], letters):
        try:
            encodings = model.tokenizer.encode(texts)
        except CanaryError:
            continue
        rows = [list(encoding.ids)[: model.facts.length_limit] for encoding in encodings]
        return [row for row in rows if len(row) > 1]
    return []
