"""Whether canaries look more exposed after another start token than the one of the audit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from canary.audits.bounded_exposure import gives_bounds
from canary.audits.candidate_scorer import Below
from canary.audits.start_notes import RivalStart, StartChoice
from canary.corpus.canaries import CanarySet
from canary.errors import EstimationError, InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.scoring.batcher import Batcher
from canary.scoring.requests import announce
from canary.search.pricing import ListedRows
from canary.statistics.checks import LARGEST_BITS
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.extrapolation import skew_normal_bits
from canary.statistics.pvalues import fisher
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.starts import shown_before, usual_first

__all__ = ["LEVEL", "with_rivals"]

LEVEL = 0.01
"""How often a model that learned nothing has a rival, at most."""

_MOST_STARTS = 6  # the chosen one included
_MOST_CANARIES = 128  # of a format
_DRAWS, _DRAWS_FOR_FEW, _FEW = 128, 1_024, 4
_GAP_BITS = 1.0
_DOUBT = 0.2  # share of what a curve says beyond its draws
_STREAM = 0x73746172


def with_rivals(
    below: Below, canaries: CanarySet, choice: StartChoice, *, draws: int, seed: int
) -> StartChoice:
    """The choice with what speaks against it: starts after which canaries are more exposed.

    Injected canaries, and a few uniform draws of each format, are priced after the start token
    of the choice and after others: the five next best ones where it was chosen by evidence,
    the five most usual ones where it was named, a space, and no context where there is one.
    Each is a rival if, for all injected canaries or those of one number of copies, Fisher's
    p-value is significant after it and the median exposure is higher by more than a bit.

    Parameters
    ----------
    below : Below
        The model.
    canaries : CanarySet
    choice : StartChoice
        One that was chosen by evidence or named; others have no rivals.
    draws : int
        No more than these are drawn of a format.
    seed : int

    Notes
    -----
    The level is Bonferroni's over starts and groups, so that a model that learned
    nothing has a rival in at most 1 % of audits. Exposures are read off skew-normal curves;
    beyond what the draws show, a fifth of them is taken for doubt. Nothing is chosen here, so
    that p-values of the audit stay what they are.
    """
    sample = _Sample.of(canaries, draws=draws, seed=seed)
    if choice.why not in ("evidence", "asked") or gives_bounds(below.model) or not sample.groups:
        return choice
    others = _others(below, sample, choice)
    if not others:
        return choice
    rows = (1 + len(others)) * sample.rows
    announce(below.model, lambda: rows)
    tokens = (1 + len(others)) * sample.tokens(below.encoder)
    batcher = below.batcher("checking the start token", tokens)
    chosen = sample.exposures(batcher, below.encoder)
    priced = {}
    for start, encoder in others.items():
        # A hole begins the candidate, it is too long, or a server cannot be asked for it.
        with suppress(InputError, ModelError, UnsupportedError):
            priced[start] = sample.exposures(batcher, encoder)
    level = LEVEL / (len(others) * len(sample.groups))
    found = []
    for (token, context), other in priced.items():
        gaps = []
        for (repetitions, _), mine, (bits, p_value) in zip(
            sample.groups, chosen, other, strict=True
        ):
            doubt = _DOUBT * max(0.0, mine[0] - math.log2(sample.least_draws))
            if p_value <= level and bits > mine[0] + _GAP_BITS + doubt:
                rounded = round(bits, 2), round(mine[0], 2)
                more, bare = _beside(context, below.encoder)
                gaps.append(RivalStart(token, repetitions, *rounded, p_value, more, bare))
        if gaps:
            found.append(max(gaps, key=_gap))
    rivals = tuple(sorted(found, key=_gap, reverse=True))
    compared = []
    for token, context in priced:
        more, bare = _beside(context, below.encoder)
        compared.append(shown_before(token, more, bare=bare))
    return replace(choice, rivals=rivals, compared=tuple(compared))


def _beside(context: str, encoder: CandidateEncoder) -> tuple[str, bool]:
    """A context beside that of the audit: what is put there more, and whether it is left out."""
    return ("", not context) if encoder.context else (context, False)


def _others(
    below: Below, sample: _Sample, choice: StartChoice
) -> dict[tuple[str | None, str], CandidateEncoder]:
    """What else is put before the candidates, as start tokens and whole contexts.

    Other start tokens, a space after the chosen one, and no context where the audit has one.

    What makes the same tokens as another is left out.
    """
    encoder, tokenizer = below.encoder, below.encoder.tokenizer
    if choice.why == "evidence":
        tokens = [each.token for each in choice.tried if each.later_bits is not None]
    else:
        own = bool(choice.own)  # then a start token would come before that one
        tokens = [None] if own else usual_first(tokenizer, below.model.facts.vocabulary)
    tokens = [token for token in tokens if token != choice.token]
    starts = [(token, encoder.context) for token in tokens[: _MOST_STARTS - 1]]
    # After the usual tokens too: a template goes with a start token of its own.
    after = [choice.token, *tokens[:2]] if encoder.context else [choice.token]
    starts += [(token, "" if encoder.context else " ") for token in after]
    texts = [f.candidate(fill) for f, fills, _ in sample.formats for fill in fills[:2]]
    seen = {tuple(e.ids for e in encoder.encode(texts))}
    found = {}
    for token, context in starts:
        try:
            other = CandidateEncoder(tokenizer, token, context)
            ids = tuple(e.ids for e in other.encode(texts))
        except (InputError, ModelError):  # it knows no such character
            continue
        if ids not in seen:
            seen.add(ids)
            found[token, context] = other
    return found


def _gap(rival: RivalStart) -> float:
    return rival.bits - rival.chosen_bits


@dataclass(frozen=True)
class _Sample:
    """Injected canaries and uniform draws of each format, the canaries first.

    `groups` are numbers of copies, None for all, each with the places of its canaries among
    those of all formats.
    """

    formats: tuple[tuple[Format, tuple[str, ...], tuple[str, ...]], ...]
    groups: tuple[tuple[int | None, tuple[int, ...]], ...]

    @classmethod
    def of(cls, canaries: CanarySet, *, draws: int, seed: int) -> _Sample:
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
        groups = [
            (n, tuple(at for at, own in enumerate(copies) if own == n)) for n in sorted({*copies})
        ]
        if len(groups) > 1:
            groups = [*groups, (None, tuple(range(len(copies))))]  # type: ignore[list-item]
        return cls(tuple(formats), tuple(groups))

    @property
    def rows(self) -> int:
        """Candidates to price after each start token."""
        return sum(len(fills) + len(drawn) for _, fills, drawn in self.formats)

    @property
    def least_draws(self) -> int:
        """Draws of the format that has the fewest."""
        return min(len(drawn) for _, _, drawn in self.formats)

    def tokens(self, encoder: CandidateEncoder) -> int:
        """About as many tokens are priced after each start token."""
        found = 0
        for format, fills, drawn in self.formats:
            (one,) = encoder.encode([format.candidate(fills[0])])
            found += len(one.ids) * (len(fills) + len(drawn))
        return found

    def exposures(self, batcher: Batcher, encoder: CandidateEncoder) -> list[tuple[float, float]]:
        """Median exposure, in bits, and Fisher's p-value of each group."""
        bits: list[float] = []
        p_values: list[float] = []
        for format, fills, drawn in self.formats:
            encodings = encoder.candidates(format, [*fills, *drawn])
            px = np.minimum(ListedRows(encodings).price(batcher), LARGEST_BITS)
            own, others = px[: len(fills)], px[len(fills) :]
            noise_bits = batcher.model.facts.noise_bits(_most_tokens(encoder, format, fills))
            found = exposure_by_draws(own, others, space_size=format.size, noise_bits=noise_bits)
            counted = np.array([e.lower_bits if e.bits is None else e.bits for e in found])
            try:
                estimated = skew_normal_bits(own, others, noise_bits=noise_bits)
            except EstimationError:  # no curve: all alike, or few
                estimated = counted
            bits += np.minimum(estimated, format.bits).tolist()
            p_values += [float(e.p_value or 1.0) for e in found]
        return [
            (
                statistics.median([bits[at] for at in places]),
                fisher([p_values[at] for at in places], shared_draws=self.least_draws).p_value,
            )
            for _, places in self.groups
        ]


def _most_tokens(encoder: CandidateEncoder, format: Format, fills: Sequence[str]) -> int:
    return max(len(e.ids) for e in encoder.encode([format.candidate(fill) for fill in fills]))
