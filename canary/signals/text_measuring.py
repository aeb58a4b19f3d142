"""A language model and texts -> the one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.models.base import LanguageModel, TellsMoments
from canary.models.loading import load
from canary.records.fields import brief
from canary.scoring.batcher import Stage
from canary.signals.checking import check_lengths, check_members
from canary.signals.table import SignalTable
from canary.signals.text import (
    TEXT_SIGNALS,
    TokenPrices,
    compressed_bytes,
    difference,
    lowest,
    ratio,
    standardised,
    total_zlib,
)
from canary.signals.text_pricing import Priced, Pricer
from canary.statistics.numbers import plural

__all__ = ["TextTable", "measure_texts", "text_signals_of"]

_WHERE = "measure_texts"


@dataclass(frozen=True, eq=False)
class TextTable:
    """The signals of texts.

    Parameters
    ----------
    table : SignalTable
        Of one model and the texts that are kept; the label of every text is 0.
    kept : ndarray of int64 of shape (samples,)
        Which of the given texts these are, from 0. A text of which no token is priced
        tells nothing and is left out: an empty one, and one of a single token that
        nothing stands before.
    tokens : ndarray of int64 of shape (samples,)
        Priced tokens of each.
    settings : dict
        What is needed to measure again.
    notes : tuple of str
        What a reader has to know.
    """

    table: SignalTable
    kept: NDArray[np.int64]
    tokens: NDArray[np.int64]
    settings: dict[str, Any]
    notes: tuple[str, ...]


def text_signals_of(asked: str, *, reference: bool, masked: bool) -> list[str] | None:
    """The signals of a list with commas, or None for ``all`` that the models allow.

    Raises
    ------
    InputError
        If one does not exist, or needs a model that was not named.
    """
    if asked.strip() == "all":
        return None
    names = list(dict.fromkeys(name.strip() for name in asked.split(",")))
    for name in names:
        if name not in TEXT_SIGNALS:
            raise InputError(
                f"there is no attack {brief(name)} on texts",
                cure=f"name some of {', '.join(TEXT_SIGNALS)}; or all",
                where="attacks",
            )
        for needs, there, flag in (
            ("reference", reference, "--reference"),
            ("neighbourhood", masked, "--masked"),
        ):
            if name == needs and not there:
                raise InputError(
                    f"the attack {name} needs a second model",
                    cure=f"name it: {name.replace('neighbourhood', 'masked')}= or {flag} MODEL",
                    where="attacks",
                )
    return names


def measure_texts(
    model: Any,
    texts: Sequence[str],
    member: ArrayLike,
    *,
    signals: str = "all",
    reference: Any = None,
    share: float = 0.2,
    window: int | None = None,
    overlap: int | None = None,
    start_token: str | None = None,
    context: str = "",
    reference_start_token: str | None = None,
    batch_size: int | None = None,
    places: Callable[[int], str] | None = None,
    stage: Stage = lambda name, total: lambda done: None,
) -> TextTable:
    """Signals of a language model for every text, in one table.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    texts : sequence of str
    member : array_like of bool of shape (texts,)
        Whether the model was trained on each.
    signals : str
        Names of `canary.signals.text` with commas between them, or ``all`` that the models
        allow: min-k++ needs a model that runs here, reference a second one.
    reference : LanguageModel, or what `canary.load` takes, optional
        A model of the same kind that was not trained on the members.
    share : float
        Of the tokens that min-k and min-k++ look at.
    window, overlap : int, optional
        A text of more than `window` tokens (what the model takes, unless given) is priced
        in windows; each after the first begins with the last `overlap` tokens of the one
        before (half a window, unless given), which are context and not priced again. So
        each token is priced once, and signals are those of all tokens of the text. The
        reference model's windows are the same, in its own tokens, as far as it takes them.
    start_token, context : str
        See `canary.scoring.texts.score`. Tokens of the context are not priced.
    reference_start_token : str, optional
        The same for the reference model: `start_token` unless given, and none if empty.
    batch_size : int, optional
    places : callable, optional
        Says where text ``i`` stands, for messages.
    stage : Stage
        Progress.

    Returns
    -------
    TextTable

    Raises
    ------
    InputError
        If texts and members do not fit, an option is out of range, or nothing is left.
    UnsupportedError
        If a signal was named that the model cannot give.

    Notes
    -----
    One pass over the texts, a second in lower case, one of the reference model. Memory
    holds all texts, their tokens and a number for each token (three with min-k++).
    """
    if not 0.0 < share <= 1.0:
        raise InputError(
            f"share={share}, more than 0 and at most 1 was expected",
            cure="give the share of the tokens, such as 0.2",
            where=_WHERE,
        )
    names = text_signals_of(signals, reference=reference is not None, masked=False)
    flags = np.asarray(member).astype(np.bool_)
    check_lengths({"texts": len(texts), "member": len(flags)}, _WHERE)
    check_members(flags, _WHERE)
    place = places or (lambda at: f"text {at}")
    seam = load(model)
    sizes: dict[str, Any] = {"window": window, "overlap": overlap, "batch_size": batch_size}
    pricer = Pricer(seam, start_token=start_token, context=context, **sizes)
    notes: list[str] = []
    if names is None:
        names = _possible(seam, reference=reference is not None, notes=notes)

    ours = pricer.price(texts, place=place, stage=stage, name="texts", moments="min-k++" in names)
    kept = np.flatnonzero((ours.prices.counts > 0) & np.array([bool(t) for t in texts]))
    _note_left_out(notes, len(texts) - len(kept))
    if not len(kept):
        raise InputError(
            "no text has a priced token", cure="name the start token (--start-token)", where=_WHERE
        )
    check_members(flags[kept], _WHERE)
    prices, chosen = _taken(ours.prices, kept), [texts[at] for at in kept.tolist()]

    def placed(at: int) -> str:
        return place(int(kept[at]))

    values: dict[str, NDArray[np.float64]] = {}
    totals, losses = prices.totals, prices.losses
    values["loss"], values["total-loss"] = losses, totals
    if {"zlib", "total-zlib"} & set(names):
        compressed = compressed_bytes(chosen)
        values["zlib"] = losses / compressed
        values["total-zlib"] = total_zlib(totals, compressed)
    if "min-k" in names:
        values["min-k"] = lowest(prices.log_probs, prices.counts, share=share)
    if "min-k++" in names:
        values["min-k++"] = lowest(standardised(prices), prices.counts, share=share)
    if "lower-case" in names:
        lowered = pricer.price(
            [text.lower() for text in chosen], place=placed, stage=stage, name="lower case"
        )
        values["lower-case"] = ratio(losses, lowered.prices.losses)
    second = named = None
    if "reference" in names:
        second = load(reference)
        if second.facts.fingerprint == seam.facts.fingerprint:
            raise InputError(
                "the reference model is the model that is attacked",
                cure="name one that was not trained on the members",
                where="reference",
            )
        named = start_token if reference_start_token is None else reference_start_token or None
        other = _pricer_of(second, named, context=context, **sizes)
        theirs = other.price(chosen, place=placed, stage=stage, name="reference model")
        _check_comparable(ours, kept, theirs, notes)
        values["reference"] = difference(totals, theirs.prices.totals) / prices.counts
    if ours.windowed:
        notes.append(
            f"{plural(ours.windowed, 'text')} of more than {pricer.window} tokens "
            f"{'was' if ours.windowed == 1 else 'were'} priced in windows that share "
            f"{pricer.overlap} tokens"
        )
    if np.isinf(totals).any():
        notes.append(
            f"{plural(int(np.isinf(totals).sum()), 'text')} had a token of probability 0: the "
            "loss is infinite"
        )
    return TextTable(
        table=SignalTable(
            values={name: values[name][None, :] for name in names},
            member=flags[kept][None, :],
            label=np.zeros(len(kept), np.int64),
            classes=1,
            source=seam.facts.name,
            of_texts=True,
        ),
        kept=kept,
        tokens=prices.counts,
        settings={
            "model": seam.facts.to_dict(),
            "reference": None if second is None else second.facts.to_dict(),
            "share": share,
            "window": pricer.window,
            "overlap": pricer.overlap,
            "start_token": start_token,
            "reference_start_token": named,
            "context": context,
            "batch_size": batch_size,
        },
        notes=tuple(notes),
    )


def _possible(model: LanguageModel, *, reference: bool, notes: list[str]) -> list[str]:
    """All signals that the models allow; notes say why others are missing."""
    left = set()
    if not isinstance(model, TellsMoments):
        left.add("min-k++")
        notes.append(
            "min-k++ is left out: the model tells nothing of the tokens that a text does not have"
        )
    if not reference:
        left.add("reference")
    left.add("neighbourhood")
    return [name for name in TEXT_SIGNALS if name not in left]


def _pricer_of(reference: LanguageModel, start_token: str | None, **options: Any) -> Pricer:
    """The pricer of the reference model; what is wrong with its start token is said to be its."""
    try:
        return Pricer(reference, start_token=start_token, **options)
    except InputError as error:
        if start_token is None:
            raise
        raise InputError(
            error.problem,
            cure=f"{error.cure}; that of the reference model is named by reference_start_token "
            "(--reference-start-token), '' for none",
            where="reference",
        ) from error


def _taken(prices: TokenPrices, kept: NDArray[np.int64]) -> TokenPrices:
    """The prices of some of the texts, in their order."""
    if len(kept) == len(prices.counts):
        return prices
    chosen = np.zeros(len(prices.counts), np.bool_)
    chosen[kept] = True
    tokens = np.repeat(chosen, prices.counts)
    return TokenPrices(
        prices.log_probs[tokens],
        prices.counts[kept],
        None if prices.means is None else prices.means[tokens],
        None if prices.deviations is None else prices.deviations[tokens],
    )


def _note_left_out(notes: list[str], left: int) -> None:
    if left:
        notes.append(
            f"{plural(left, 'text')} without a priced token {'is' if left == 1 else 'are'} left "
            "out: empty, or one token that nothing stands before"
        )


def _check_comparable(
    ours: Priced, kept: NDArray[np.int64], theirs: Priced, notes: list[str]
) -> None:
    """Refuse a reference that prices other parts of the texts; say so if it has other tokens."""
    same = all(
        ours.encodings[at] == tokens for at, tokens in zip(kept, theirs.encodings, strict=True)
    )
    if same:
        return
    if ours.bare or theirs.bare:
        bare = "target" if ours.bare else "reference model"
        raise InputError(
            f"the reference model has another tokenizer, and the {bare} has no price for the "
            "first token of a text: the two would be compared on different parts of it",
            cure="name what stood before each text in training, with start_token (--start-token) "
            "and reference_start_token (--reference-start-token)",
            where="reference",
        )
    notes.append(
        "The reference model has another tokenizer: what is compared is the loss of each whole "
        "text, per token of the attacked model"
    )
