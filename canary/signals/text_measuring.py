"""A language model and texts -> the one table."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.models.english import note_on_english, note_on_vocabulary
from canary.models.language_model import LanguageModel, TellsMoments
from canary.models.loading import load
from canary.records.fields import brief
from canary.records.sealing import sealed
from canary.records.shards import Run, Series, open_run
from canary.scoring.batcher import Stage
from canary.scoring.identity import identity_of
from canary.signals.neighbours import Rewriter, mean_of, rewritten
from canary.signals.output_checks import check_lengths, check_members
from canary.signals.sample_overlap import digests
from canary.signals.signal_table import SignalTable
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
from canary.tokens.tokenizer import Encoding

__all__ = ["TextTable", "measure_texts", "text_signals_of"]

_WHERE = "measure_texts"
_FLOATS = np.dtype("<f8")


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
    beside : ndarray of float64 of shape (samples,) or None
        Loss of the reference model on each, in nats per token of the attacked model; None
        without a reference.
    """

    table: SignalTable
    kept: NDArray[np.int64]
    tokens: NDArray[np.int64]
    settings: dict[str, Any]
    notes: tuple[str, ...]
    beside: NDArray[np.float64] | None = None


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


@sealed
def measure_texts(
    model: Any,
    texts: Sequence[str],
    member: ArrayLike,
    *,
    signals: str = "all",
    reference: Any = None,
    masked: Any = None,
    neighbours: int = 10,
    masked_share: float = 0.15,
    share: float = 0.2,
    window: int | None = None,
    overlap: int | None = None,
    start_token: str | None = None,
    context: str = "",
    reference_start_token: str | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    places: Callable[[int], str] | None = None,
    parts: str | os.PathLike[str] | None = None,
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
    masked : Rewriter or path-like, optional
        A masked language model that rewrites the texts for neighbourhood: a folder or hub
        id (`canary.models.masked.load_masked`), or an object behind `Rewriter`.
    neighbours : int
        Rewritten copies of each text.
    masked_share : float
        Of its words that are replaced in each copy.
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
    seed : int
        Of the rewritten copies.
    places : callable, optional
        Says where text ``i`` stands, for messages.
    parts : path-like, optional
        A folder for finished pieces: prices of blocks of some 65,000 tokens, and of
        rewritten copies the losses of whole passes. A run that was stopped goes on from
        there when it is started again in the same way; who is a member may change. No text
        is kept. The folder stays (`canary.records.shards.discard_run`).
    stage : Stage
        Progress, in tokens; of what is rewritten (`REWRITING`), in texts.

    Returns
    -------
    TextTable

    Raises
    ------
    InputError
        If texts and members do not fit, an option is out of range, or nothing is left.
    UnsupportedError
        If a signal was named that the model cannot give.
    RecordError
        If the run in `parts` was begun with other models, texts or settings.

    Notes
    -----
    One pass over the texts, a second in lower case, one of the reference model, and one for
    each rewritten copy, which are by far the most costly. Memory holds all texts, their
    tokens and a number for each token (three with min-k++).
    """
    _check_share(share, "share", "of the tokens, such as 0.2")
    _check_share(masked_share, "masked_share", "of the words, such as 0.15")
    if neighbours < 1:
        raise InputError(
            f"neighbours={neighbours}, at least 1 was expected", cure="give 10", where=_WHERE
        )
    names = text_signals_of(signals, reference=reference is not None, masked=masked is not None)
    _check_texts(texts)
    flags = _flags(member, len(texts))
    place = places or (lambda at: f"text {at}")
    # Whatever can be refused is refused before the first long pass.
    seam = load(model)
    sizes: dict[str, Any] = {"window": window, "overlap": overlap, "batch_size": batch_size}
    pricer = Pricer(seam, start_token=start_token, context=context, **sizes)
    notes: list[str] = []
    if names is None:
        names = _possible(
            seam, reference=reference is not None, masked=masked is not None, notes=notes
        )
    encodings = pricer.encode(texts, place)
    second = named = theirs = losses_beside = None
    if "reference" in names:
        second = _second(reference, seam)
        named = start_token if reference_start_token is None else reference_start_token or None
        theirs = _pricer_of(second, named, context=context, **sizes)
        _check_comparable(pricer, encodings, theirs, theirs.encode(texts, place), notes)
    rewriter = _rewriter(masked) if "neighbourhood" in names else None

    with ExitStack() as held:
        run = None
        if parts is not None:
            identity = {
                "task": "membership text",
                "texts": sha256(b"".join(digests(texts))).hexdigest(),
                **identity_of(seam),
                "signals": ", ".join(names),
                "start token": start_token,
                "context": context,
                "window": pricer.window,
                "overlap": pricer.overlap,
                **_identity_beside(second, named),
                **_identity_of_copies(rewriter, neighbours, masked_share, seed),
            }
            run = held.enter_context(open_run(parts, identity))
        ours = pricer.price(
            encodings,
            stage=stage,
            name="texts",
            moments="min-k++" in names,
            shards=None if run is None else run.series("texts"),
        )
        kept = np.flatnonzero((ours.prices.counts > 0) & np.array([bool(text) for text in texts]))
        _check_kept(flags, kept, notes)
        prices = _taken(ours.prices, kept)
        chosen = _Chosen(
            [texts[at] for at in kept.tolist()], lambda at: place(int(kept[at])), stage, run
        )

        totals, losses = prices.totals, prices.losses
        values = {"loss": losses, "total-loss": totals, **_of_prices(names, prices, chosen, share)}
        if "lower-case" in names:
            lowered = [text.lower() for text in chosen.texts]
            values["lower-case"] = ratio(losses, chosen.price(pricer, lowered, "lower case").losses)
        if theirs is not None:
            beside = chosen.price(theirs, chosen.texts, "reference model")
            losses_beside = beside.totals / prices.counts
            values["reference"] = difference(totals, beside.totals) / prices.counts
        if rewriter is not None:
            copies = chosen.copies(
                pricer, rewriter, count=neighbours, share=masked_share, seed=seed
            )
            values["neighbourhood"] = difference(losses, mean_of(copies))
    _note_prices(notes, pricer, ours, totals)
    for one in (seam, second):
        if one is not None:
            said = (ask(one, results="attacks") for ask in (note_on_vocabulary, note_on_english))
            notes.extend(note for note in said if note)
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
            "masked": None if rewriter is None else dict(rewriter.facts),
            "neighbours": neighbours,
            "masked_share": masked_share,
            "share": share,
            "window": pricer.window,
            "overlap": pricer.overlap,
            "start_token": start_token,
            "reference_start_token": named,
            "context": context,
            "batch_size": batch_size,
        },
        notes=tuple(notes),
        beside=losses_beside,
    )


@dataclass(frozen=True)
class _Chosen:
    """The texts that are kept, where each stands, who is told of progress, and what is kept."""

    texts: list[str] = field(repr=False)
    place: Callable[[int], str]
    stage: Stage
    run: Run | None

    def series(self, name: str) -> Series | None:
        """The shards of a pass, if they are kept."""
        return None if self.run is None else self.run.series(name.replace(" ", "-"))

    def price(
        self, pricer: Pricer, versions: list[str], name: str, *, keep: bool = True
    ) -> TokenPrices:
        """The prices of a version of each text."""
        encodings = pricer.encode(versions, self.place)
        shards = self.series(name) if keep else None
        return pricer.price(encodings, stage=self.stage, name=name, shards=shards).prices

    def copies(
        self, pricer: Pricer, rewriter: Rewriter, *, count: int, share: float, seed: int
    ) -> list[NDArray[np.float64]]:
        """The losses of rewritten copies of each text.

        They are kept pass by pass: a copy that is rewritten again need not be the same to the
        last word on every device, and no text is kept.
        """
        shards = self.series("copies")
        found = [] if shards is None else [np.frombuffer(one.body, _FLOATS) for one in shards]
        made = rewritten(
            rewriter,
            self.texts,
            count=count,
            begin=len(found),
            share=share,
            seed=seed,
            stage=self.stage,
        )
        for number, copy in enumerate(made, len(found) + 1):
            found.append(self.price(pricer, copy, f"copies {number}", keep=False).losses)
            if shards is not None:
                shards.append({"copies": number}, found[-1].astype(_FLOATS).tobytes())
        return found


def _identity_beside(reference: LanguageModel | None, start_token: str | None) -> dict[str, Any]:
    """The reference model's part of the identity of a run."""
    if reference is None:
        return {"reference": None}
    mine = {
        f"reference {name}": value
        for name, value in identity_of(reference).items()
        if not name.startswith("version")
    }
    return {**mine, "reference start token": start_token}


def _identity_of_copies(
    rewriter: Rewriter | None, neighbours: int, share: float, seed: int
) -> dict[str, Any]:
    """The part of the rewritten copies in the identity of a run."""
    if rewriter is None:
        return {"masked": None}
    return {
        "masked": dict(rewriter.facts),
        "neighbours": neighbours,
        "masked share": share,
        "seed": seed,
    }


def _of_prices(
    names: list[str], prices: TokenPrices, chosen: _Chosen, share: float
) -> dict[str, NDArray[np.float64]]:
    """The signals that follow from the prices and the texts."""
    values = {}
    if {"zlib", "total-zlib"} & set(names):
        compressed = compressed_bytes(chosen.texts)
        values["zlib"] = prices.losses / compressed
        values["total-zlib"] = total_zlib(prices.totals, compressed)
    if "min-k" in names:
        values["min-k"] = lowest(prices.log_probs, prices.counts, share=share)
    if "min-k++" in names:
        values["min-k++"] = lowest(standardised(prices), prices.counts, share=share)
    return values


def _check_texts(texts: Sequence[str]) -> None:
    odd = next((at for at, text in enumerate(texts) if not isinstance(text, str)), None)
    if odd is None and not isinstance(texts, str):
        return
    given = "one text" if odd is None else f"text {odd} as {type(texts[odd]).__name__}"
    raise InputError(
        f"a sequence of texts was expected, got {given}", cure="give a list of str", where=_WHERE
    )


def _flags(member: ArrayLike, texts: int) -> NDArray[np.bool_]:
    given = np.asarray(member)
    if given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        raise InputError(
            "member must hold true and false, or 1 and 0", cure="mark each text", where=_WHERE
        )
    flags: NDArray[np.bool_] = given.astype(np.bool_)
    check_lengths({"texts": texts, "member": len(flags)}, _WHERE)
    check_members(flags, _WHERE)
    return flags


def _second(reference: Any, target: LanguageModel) -> LanguageModel:
    found = load(reference)
    if found.facts.fingerprint == target.facts.fingerprint:
        raise InputError(
            "the reference model is the model that is attacked",
            cure="name one that was not trained on the members",
            where="reference",
        )
    return found


def _check_share(value: float, name: str, of: str) -> None:
    if not 0.0 < value <= 1.0:
        raise InputError(
            f"{name}={value}, more than 0 and at most 1 was expected",
            cure=f"give the share {of}",
            where=name,
        )


def _rewriter(masked: Any) -> Rewriter:
    if not isinstance(masked, str | os.PathLike):
        found: Rewriter = masked
        return found
    from canary.models.masked import load_masked

    return load_masked(masked)


def _possible(
    model: LanguageModel, *, reference: bool, masked: bool, notes: list[str]
) -> list[str]:
    """All signals that the models allow; notes say why others are missing."""
    left = set()
    if not isinstance(model, TellsMoments):
        left.add("min-k++")
        notes.append(
            "min-k++ is left out: the model tells nothing of the tokens that a text does not have"
        )
    if not reference:
        left.add("reference")
    if not masked:
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


def _check_kept(flags: NDArray[np.bool_], kept: NDArray[np.int64], notes: list[str]) -> None:
    """Refuse texts of which nothing is left; say how many are left out."""
    left = len(flags) - len(kept)
    if left:
        notes.append(
            f"{plural(left, 'text')} without a priced token {'is' if left == 1 else 'are'} left "
            "out: empty, or one token that nothing stands before"
        )
    if not len(kept):
        raise InputError(
            "no text has a priced token", cure="name the start token (--start-token)", where=_WHERE
        )
    check_members(flags[kept], _WHERE)


def _note_prices(
    notes: list[str], pricer: Pricer, ours: Priced, totals: NDArray[np.float64]
) -> None:
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


def _check_comparable(
    ours: Pricer,
    encodings: list[Encoding],
    theirs: Pricer,
    others: list[Encoding],
    notes: list[str],
) -> None:
    """Refuse a reference that prices other parts of the texts; say so if it has other tokens."""
    if all(one.ids == other.ids for one, other in zip(encodings, others, strict=True)):
        return
    bare = [
        name
        for name, pricer, given in (
            ("target", ours, encodings),
            ("reference model", theirs, others),
        )
        if pricer.bare(given)
    ]
    if bare:
        raise InputError(
            f"the reference model has another tokenizer, and the {bare[0]} has no price for the "
            "first token of a text: the two would be compared on different parts of it",
            cure="name what stood before each text in training, with start_token (--start-token) "
            "and reference_start_token (--reference-start-token)",
            where="reference",
        )
    notes.append(
        "The reference model has another tokenizer: what is compared is the loss of each whole "
        "text, per token of the attacked model"
    )
