"""The start token of an audit, and whether canaries look more exposed after another one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from canary.audits.sample import Sample
from canary.audits.start_notes import RivalStart, StartChoice
from canary.audits.start_search import start_for
from canary.corpus.canaries import CanarySet
from canary.corpus.occurrences import find_canaries
from canary.errors import InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import LanguageModel
from canary.scoring.batcher import Batcher
from canary.scoring.requests import announce
from canary.scoring.run_options import RunOptions
from canary.statistics.pvalues import fisher
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.starts import shown_before, usual_first

LEVEL = 0.01
"""How often a model that learned nothing has a rival, at most."""

_MOST_STARTS = 6  # the chosen one included
_MOST_CANARIES = 128  # of a format
_DRAWS, _DRAWS_FOR_FEW, _FEW = 128, 1_024, 4
_GAP_BITS = 1.0
_DOUBT = 0.2  # share of what a curve says beyond its draws
_STREAM = 0x73746172

Options = TypeVar("Options", bound=RunOptions)


def started(
    model: LanguageModel,
    formats: Sequence[Format],
    options: Options,
    *,
    canaries: CanarySet | None,
    draws: int,
) -> tuple[Options, StartChoice]:
    """The options with the start token that is meant, and why it is.

    Raises
    ------
    InputError
        If a start text holds a canary: a choice that depends on secrets would make p-values
        wrong.
    """
    if options.start_texts is not None and canaries is not None and canaries.canaries:
        found = find_canaries(canaries, canaries.canaries)
        for number, text in enumerate(options.start_texts, 1):
            if hits := found(text):
                raise InputError(
                    f"text {number:,} of start_texts holds {hits[0][2]}, and a start token must "
                    "not be chosen by secrets",
                    cure="give texts of the corpus without canaries",
                )
    start = start_for(model, formats, options)
    options = replace(options, start_token=start.token, start_texts=None)
    if canaries is not None:
        start = with_rivals(model, canaries, start, options, draws=draws)
    return options, start


def with_rivals(
    model: LanguageModel,
    canaries: CanarySet,
    choice: StartChoice,
    options: RunOptions,
    *,
    draws: int,
) -> StartChoice:
    """The choice with what speaks against it: starts after which canaries are more exposed.

    Injected canaries and a few uniform draws of each format, at most `draws`, are priced after
    the chosen start token and after others: the five next best ones where it was chosen by
    evidence, the five most usual ones where it was named, a space, and no context where there
    is one. Each is a rival if, for all injected canaries or those of one number of copies,
    Fisher's p-value is significant after it and the median exposure is higher by more than a
    bit.

    Notes
    -----
    The level is Bonferroni's over starts and groups, so that a model that learned
    nothing has a rival in at most 1 % of audits. Exposures are read off skew-normal curves;
    a fifth of what lies beyond the draws is taken for doubt. Nothing is chosen here, so the
    p-values of the audit stay what they are.
    """
    if choice.why not in ("evidence", "asked") or "score" not in model.facts.capabilities:
        return choice
    sample = _Injected.of(canaries, draws=draws, seed=options.seed)
    mine = options.encoder(model)
    others = dict(_others(model, mine, sample, choice)) if sample.groups else {}
    if not others:
        return choice
    rows = sum(len(fills) + len(drawn) for _, fills, drawn in sample.formats)
    announce(model, lambda: (1 + len(others)) * rows)
    tokens = (1 + len(others)) * sample.tokens(mine)
    progress = options.progress("checking the start token", tokens)
    batcher = Batcher(model, batch_size=options.batch_size, progress=progress)
    chosen = sample.exposures(batcher, mine)
    level = LEVEL / (len(others) * len(sample.groups))
    rivals, compared = [], []
    for (token, context), encoder in others.items():
        # A hole begins the candidate, it is too long, or a server cannot be asked for it.
        with suppress(InputError, ModelError, UnsupportedError):
            other = sample.exposures(batcher, encoder)
            more, bare = ("", not context) if mine.context else (context, False)
            compared.append(shown_before(token, more, bare=bare))
            gaps = []
            for (copies, _), (own, _), (bits, p_value) in zip(
                sample.groups, chosen, other, strict=True
            ):
                doubt = _DOUBT * max(0.0, own - math.log2(sample.least_draws))
                if p_value <= level and bits > own + _GAP_BITS + doubt:
                    rounded = round(bits, 2), round(own, 2)
                    gaps.append(RivalStart(token, copies, *rounded, p_value, more, bare))
            if gaps:
                rivals.append(max(gaps, key=_gap))
    rivals.sort(key=_gap, reverse=True)
    return replace(choice, rivals=tuple(rivals), compared=tuple(compared))


def _gap(rival: RivalStart) -> float:
    return rival.bits - rival.chosen_bits


def _others(
    model: LanguageModel, mine: CandidateEncoder, sample: _Injected, choice: StartChoice
) -> Iterator[tuple[tuple[str | None, str], CandidateEncoder]]:
    """What else may come before the candidates, as start tokens and whole contexts.

    What makes the same tokens as another is left out.
    """
    if choice.why == "evidence":
        tokens = [each.token for each in choice.tried if each.later_bits is not None]
    else:  # a start token would come before one that the tokenizer itself puts there
        tokens = [None] if choice.own else usual_first(mine.tokenizer, model.facts.vocabulary)
    tokens = [token for token in tokens if token != choice.token]
    starts = [(token, mine.context) for token in tokens[: _MOST_STARTS - 1]]
    # After the usual tokens too: a template goes with a start token of its own.
    after = [choice.token, *tokens[:2]] if mine.context else [choice.token]
    starts += [(token, "" if mine.context else " ") for token in after]
    texts = [f.candidate(fill) for f, fills, _ in sample.formats for fill in fills[:2]]
    seen = {tuple(e.ids for e in mine.encode(texts))}
    for token, context in starts:
        with suppress(InputError, ModelError):  # it knows no such character
            encoder = CandidateEncoder(mine.tokenizer, token, context)
            ids = tuple(e.ids for e in encoder.encode(texts))
            if ids not in seen:
                seen.add(ids)
                yield (token, context), encoder


@dataclass(frozen=True)
class _Injected:
    """Fills of injected canaries and of uniform draws of each format.

    `groups` are numbers of copies, None for all, each with the places of its canaries among
    those of all formats.
    """

    formats: tuple[tuple[Format, tuple[str, ...], tuple[str, ...]], ...]
    groups: tuple[tuple[int | None, tuple[int, ...]], ...]

    @classmethod
    def of(cls, canaries: CanarySet, *, draws: int, seed: int) -> _Injected:
        formats, copies = [], []
        for number, format in enumerate(canaries.formats):
            mine = [c for c in canaries.injected if c.format == number]
            mine = sorted(mine, key=lambda c: -c.repetitions)[:_MOST_CANARIES]
            if not mine:
                continue
            copies += [c.repetitions for c in mine]
            wanted = _DRAWS if len(mine) >= _FEW else _DRAWS_FOR_FEW
            rng = np.random.default_rng([_STREAM, seed, number])
            drawn = format.sample(min(wanted, draws, format.size), rng=rng)
            formats.append((format, tuple(c.fill for c in mine), tuple(drawn)))
        groups: list[tuple[int | None, tuple[int, ...]]] = [
            (n, tuple(at for at, own in enumerate(copies) if own == n)) for n in sorted({*copies})
        ]
        if len(groups) > 1:
            groups.append((None, tuple(range(len(copies)))))
        return cls(tuple(formats), tuple(groups))

    @property
    def least_draws(self) -> int:
        return min(len(drawn) for _, _, drawn in self.formats)

    def tokens(self, encoder: CandidateEncoder) -> int:
        """About how many tokens are priced after each start token."""
        return sum(
            len(encoder.encode([format.candidate(fills[0])])[0].ids) * (len(fills) + len(drawn))
            for format, fills, drawn in self.formats
        )

    def exposures(self, batcher: Batcher, encoder: CandidateEncoder) -> list[tuple[float, float]]:
        """Median exposure, in bits, and Fisher's p-value of each group."""
        bits: list[float] = []
        p_values: list[float] = []
        for format, fills, drawn in self.formats:
            found = Sample.of(format, fills, drawn, encoder).measure(batcher)
            counted = [e.lower_bits if e.bits is None else e.bits for e in found.exposures]
            estimated = np.where(np.isnan(found.curve_bits), counted, found.curve_bits)
            bits += np.minimum(estimated, format.bits).tolist()
            p_values += [float(e.p_value or 1.0) for e in found.exposures]
        return [
            (
                statistics.median([bits[at] for at in places]),
                fisher([p_values[at] for at in places], shared_draws=self.least_draws).p_value,
            )
            for _, places in self.groups
        ]
