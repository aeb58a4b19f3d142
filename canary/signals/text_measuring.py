"""A language model and texts -> the one table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.models.english import (
    above_chance,
    note_on_english,
    note_on_vocabulary,
    reads_no_english,
)
from canary.models.language_model import LanguageModel, TellsMoments
from canary.models.loading import load
from canary.records.progress import Progress, shows_progress
from canary.records.sealing import sealed
from canary.records.shards import open_run
from canary.records.validation import built
from canary.registry import called
from canary.scoring.run_options import ScoreOptions, Scoring, identity_of
from canary.scoring.served_requests import requests_of
from canary.scoring.texts import encode_placed
from canary.signals.output_checks import check_lengths, check_members
from canary.signals.signal_table import SignalTable
from canary.signals.text import TEXT_SIGNALS, PricedTexts
from canary.signals.text_pricing import Passes, Pricer, Rewriter, compared_beside, pricer_beside
from canary.statistics.numbers import plural

_WHERE = "measure_texts"

_MODELS = {"reference": "reference= or --reference MODEL", "masked": "masked= or --masked MODEL"}
"""How the models are named that a signal needs beside the one that is attacked."""


@dataclass(frozen=True, eq=False)
class TextTable:
    """The signals of texts.

    Parameters
    ----------
    table : SignalTable
        Of one model and the texts that are kept; the label of every text is 0.
    kept : ndarray of int64 of shape (samples,)
        Which of the given texts these are, from 0. Texts without a scored token are left
        out: empty texts, and single tokens without a token before them.
    tokens : ndarray of int64 of shape (samples,)
        Priced tokens of each.
    settings, notes : dict, tuple of str
        What is needed to measure again; what a reader has to know.
    doubts : tuple of str
        Those of the notes by which the model or its tokenizer may be the wrong one.
    beside : ndarray of float64 of shape (samples,) or None
        Loss of the reference model, if there is one, in nats per token of the attacked model.
    """

    table: SignalTable
    kept: NDArray[np.int64]
    tokens: NDArray[np.int64]
    settings: dict[str, Any]
    notes: tuple[str, ...]
    doubts: tuple[str, ...] = ()
    beside: NDArray[np.float64] | None = None


def text_signals_of(asked: str, *, reference: bool, masked: bool) -> list[str] | None:
    """The signals of a list with commas, or None for ``all`` that the models allow.

    An `InputError` if one does not exist, or needs a model that was not named.
    """
    if asked.strip() == "all":
        return None
    names = TEXT_SIGNALS.names(asked, where="attacks")
    there = {"reference": reference, "masked": masked}
    for name in names:
        needs = TEXT_SIGNALS[name].needs
        if not there.get(needs, True):
            problem = f"the attack {name} needs a second model"
            raise InputError(problem, cure=f"name it: {_MODELS[needs]}", where="attacks")
    return names


@sealed
@shows_progress
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
    reference_start_token: str | None = None,
    seed: int = 0,
    places: Callable[[int], str] | None = None,
    parts: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **options: Unpack[Scoring],
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
    neighbours, masked_share, seed : int, float, int
        Rewritten copies of each text, the share of its words that each replaces, their seed.
    share : float
        Of the tokens that min-k and min-k++ look at.
    window, overlap : int, optional
        A text of more than `window` tokens (what the model takes, unless given) is scored
        in windows; each after the first begins with the last `overlap` tokens of the one
        before (half a window, unless given), which are context and not scored again. The
        reference model's windows are the same, in its own tokens, as far as it takes them.
    reference_start_token : str, optional
        What is put before each text for the reference model: `start_token` unless given, and
        nothing if empty.
    places : callable, optional
        Names the place of text ``i``, for messages.
    parts : path-like, optional
        A folder for finished pieces: prices of blocks of about 65,000 tokens, losses of whole
        rewritten copies, and no text. A run that was stopped resumes there if it is started
        again in the same way; `member` may change. The folder stays.
    progress : callable or bool, optional
        Called with numbers of tokens and, for rewritten copies, of texts; see
        `canary.records.progress.Progress`.
    **options
        `start_token`, `context` and `batch_size`, as in
        `canary.scoring.run_options.ScoreOptions`. Tokens of the context are not priced.

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
    One pass over the texts, a second in lower case, one of the reference model, and one for each
    rewritten copy. Memory holds all texts, and a number for each token (three with min-k++).
    """
    scoring = built(ScoreOptions, options, "measure_texts")
    _check_numbers(share, masked_share, neighbours)
    names = text_signals_of(signals, reference=reference is not None, masked=masked is not None)
    flags = _checked(texts, member)
    place = places or (lambda text: f"text {text}")
    # Whatever can be refused is refused before the first long pass.
    seam = load(model)
    sizes: dict[str, Any] = {"window": window, "overlap": overlap}
    pricer = Pricer(seam, scoring, **sizes)
    notes: list[str] = []
    if names is None:
        moments = seam if isinstance(seam, TellsMoments) else None
        there = {"": seam, "reference": reference, "masked": masked, "moments": moments}
        if moments is None:
            notes.append(
                "min-k++ is left out: the model gives probabilities only of the tokens that a text "
                "has"
            )
        names = [n for n, signal in TEXT_SIGNALS.items() if there[signal.needs] is not None]
    needs = {TEXT_SIGNALS[name].needs for name in names}
    encodings = encode_placed(pricer.encoder, texts, place)
    second = named = theirs = None
    rewriter: Rewriter | None = None
    if "reference" in needs:
        second = _second(reference, seam)
        named = scoring.start_token
        if reference_start_token is not None:
            named = reference_start_token or None
        theirs = pricer_beside(second, replace(scoring, start_token=named), **sizes)
        others = encode_placed(theirs.encoder, texts, place)
        notes += compared_beside(pricer, encodings, theirs, others)
    if "masked" in needs:
        from canary.models.masked import load_masked

        rewriter = load_masked(masked) if isinstance(masked, str | os.PathLike) else masked
    settings = {
        "neighbours": neighbours,
        "masked_share": masked_share,
        "window": pricer.window,
        "overlap": pricer.overlap,
        "start_token": scoring.start_token,
        "reference_start_token": named,
        "context": scoring.context,
    }
    asked = {**settings, "signals": ", ".join(names), "seed": seed}

    with ExitStack() as held:
        run = None
        if parts is not None:
            identity = _identity(texts, seam, second, rewriter, asked)
            run = held.enter_context(open_run(parts, identity, layout=1))
        shards = None if run is None else run.series("texts")
        prices, windowed = pricer.price(
            encodings, progress=progress, name="texts", moments="moments" in needs, shards=shards
        )
        kept = np.flatnonzero((prices.counts > 0) & np.array([bool(text) for text in texts]))
        notes += _left_out(flags, kept)
        numbers = kept.tolist()
        chosen = [texts[number] for number in numbers]
        passes = Passes(
            chosen,
            lambda text: place(numbers[text]),
            progress,
            run,
            pricer,
            theirs,
            rewriter,
            asked,
        )
        priced = PricedTexts(chosen, prices.of(kept), share, passes.ask, passes.rewrite)
        values = {
            name: called(
                f"attack on texts {name!r}", TEXT_SIGNALS[name].value, priced, shape=(len(chosen),)
            )[None, :]
            for name in names
        }
    notes += _notes(pricer, windowed, priced.totals)
    doubts, known = _doubts(seam, second, priced, flags[kept])
    notes += known
    return TextTable(
        table=SignalTable(
            values=values,
            member=flags[kept][None, :],
            label=np.zeros(len(kept), np.int64),
            classes=1,
            source=seam.facts.name,
            of_texts=True,
        ),
        kept=kept,
        tokens=priced.prices.counts,
        settings={
            **settings,
            "model": seam.facts.to_dict(),
            "reference": None if second is None else second.facts.to_dict(),
            "masked": None if rewriter is None else dict(rewriter.facts),
            "share": share,
            "batch_size": scoring.batch_size,
            **requests_of(seam),
        },
        notes=(*notes, *doubts),
        doubts=tuple(doubts),
        beside=None if second is None else priced.reference / priced.prices.counts,
    )


def _doubts(
    seam: LanguageModel,
    second: LanguageModel | None,
    priced: PricedTexts,
    member: NDArray[np.bool_],
) -> tuple[list[str], list[str]]:
    """Why a model or its tokenizer may be the wrong one, and what its members disprove of that.

    A model that knows the members is trained and reads them with its own tokenizer, though it
    may know no English.
    """
    bits = float(priced.totals[member].sum() / priced.prices.counts[member].sum() / np.log(2.0))
    knows_members = above_chance(bits, float(np.log2(seam.facts.vocabulary)))
    doubts, disproved = list[str](), list[str]()
    asking = product(filter(None, (seam, second)), (note_on_vocabulary, note_on_english))
    for of, note_on in asking:
        if doubt := note_on(of, results="attacks"):
            known = of is seam and knows_members and reads_no_english([doubt])
            (disproved if known else doubts).append(doubt)
    return doubts, disproved


def _identity(
    texts: Sequence[str],
    model: LanguageModel,
    reference: LanguageModel | None,
    rewriter: Rewriter | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """What a run that goes on has to have in common with the one that was stopped."""
    beside: dict[str, Any] = {"reference": None}
    if reference is not None:
        theirs = identity_of(reference).items()
        beside = {f"reference {k}": v for k, v in theirs if not k.startswith("version")}
        beside["reference start token"] = settings["reference_start_token"]
    copies: dict[str, Any] = {"masked": None}
    if rewriter is not None:
        copies = {"masked": dict(rewriter.facts), "masked share": settings["masked_share"]}
        copies |= {name: settings[name] for name in ("neighbours", "seed")}
    return {
        "task": "membership text",
        "texts": sha256(json.dumps(list(texts)).encode()).hexdigest(),
        **identity_of(model),
        "signals": settings["signals"],
        "start token": settings["start_token"],
        **{name: settings[name] for name in ("context", "window", "overlap")},
        **beside,
        **copies,
    }


def _checked(texts: Sequence[str], member: ArrayLike) -> NDArray[np.bool_]:
    """The flags, once texts are known to be texts of both kinds."""
    odd = [number for number, text in enumerate(texts) if not isinstance(text, str)]
    if odd or isinstance(texts, str):
        given = f"text {odd[0]} as {type(texts[odd[0]]).__name__}" if odd else "one text"
        problem = f"a sequence of texts was expected, got {given}"
        raise InputError(problem, cure="give a list of str", where=_WHERE)
    marks = np.asarray(member)
    if marks.dtype.kind not in "biuf" or not np.isin(marks, (0, 1)).all():
        problem = "member must hold true and false, or 1 and 0"
        raise InputError(problem, cure="mark each text", where=_WHERE)
    flags = marks.astype(np.bool_)
    check_lengths({"texts": len(texts), "member": len(flags)}, _WHERE)
    check_members(flags, _WHERE)
    return flags


def _check_numbers(share: float, masked_share: float, neighbours: int) -> None:
    for name, value, of in (
        ("share", share, "of the tokens, such as 0.2"),
        ("masked_share", masked_share, "of the words, such as 0.15"),
    ):
        if not 0.0 < value <= 1.0:
            problem = f"{name}={value}, more than 0 and at most 1 was expected"
            raise InputError(problem, cure=f"give the share {of}", where=name)
    if neighbours < 1:
        problem = f"neighbours={neighbours}, at least 1 was expected"
        raise InputError(problem, cure="give 10", where=_WHERE)


def _second(reference: Any, target: LanguageModel) -> LanguageModel:
    second = load(reference)
    if second.facts.fingerprint == target.facts.fingerprint:
        problem = "the reference model is the model that is attacked"
        cure = "name one that was not trained on the members"
        raise InputError(problem, cure=cure, where="reference")
    return second


def _left_out(flags: NDArray[np.bool_], kept: NDArray[np.int64]) -> list[str]:
    """How many texts are left out; an InputError where nothing is left."""
    if not len(kept):
        cure = "name the start token (--start-token)"
        raise InputError("no text has a scored token", cure=cure, where=_WHERE)
    check_members(flags[kept], _WHERE)
    left = len(flags) - len(kept)
    be = "is" if left == 1 else "are"
    note = f"{plural(left, 'text')} without a scored token {be} left out: empty, or one token that "
    return [note + "nothing stands before"] if left else []


def _notes(pricer: Pricer, windowed: int, totals: NDArray[np.float64]) -> Iterator[str]:
    if windowed:
        be = "was" if windowed == 1 else "were"
        yield (
            f"{plural(windowed, 'text')} of more than {pricer.window} tokens {be} scored in "
            f"windows that share {pricer.overlap} tokens"
        )
    if infinite := int(np.isinf(totals).sum()):
        yield f"{plural(infinite, 'text')} had a token of probability 0: the loss is infinite"
