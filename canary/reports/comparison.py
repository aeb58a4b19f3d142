"""Several audits side by side: which can be compared, and which model memorizes least."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from canary.audits.audit_result import CANARY_SET, Audit, FormatResult
from canary.audits.designs import Design, differences
from canary.audits.group_medians import ceiling, median_bits
from canary.errors import InputError
from canary.records.validation import brief
from canary.scoring.score_job import Scores, read_scores
from canary.statistics.exposures import Exposure
from canary.statistics.number_checks import LN2
from canary.statistics.numbers import plural

_MOST_NATS = 1e6  # a token; no model that computes at all does worse
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, eq=False)
class Strategy:
    """One way of training, as an audit of its model shows it."""

    name: str  # what stands for it in figures: A, B, C, … or 1, 2, 3, …
    label: str  # what its trainer calls it
    audit: Audit
    test_loss_nats: float | None  # its utility, per token; lower is better
    place: int  # among the audits that were given


@dataclass(frozen=True, eq=False)
class Comparison:
    """Audits in groups, in their order; only those of one group can be compared."""

    strategies: tuple[Strategy, ...]
    groups: tuple[tuple[Strategy, ...], ...]
    reasons: tuple[str, ...]  # of each group but the first, why it is none with the first
    notes: tuple[str, ...]  # what may explain differences besides the training


def letters(result: object) -> str:
    """What the letters of a comparison stand for, in brackets; nothing for any other result."""
    if not isinstance(result, Comparison):
        return ""
    return f" ({', '.join(f'{one.name}: {one.label}' for one in result.strategies)})"


@dataclass(frozen=True, eq=False)
class Point:
    """A strategy as utility and exposure at one number of copies."""

    strategy: Strategy
    loss_nats: float
    median_bits: float
    bound: bool  # whether the median is only a lower bound

    @property
    def most_bits(self) -> float:
        """What the median cannot exceed."""
        return math.inf if self.bound else self.median_bits


def compare(
    audits: Sequence[Audit],
    *,
    labels: Sequence[str] | None = None,
    test_losses: Sequence[float | None] | None = None,
) -> Comparison:
    """Put audits of differently trained models side by side.

    Parameters
    ----------
    audits : sequence of Audit
    labels : sequence of str, optional
        One for each; the names of the models unless given, with numbers where they repeat.
    test_losses : sequence of float or None, optional
        Loss of each on the same test text, in nats per token; None where it is not known.

    Raises
    ------
    InputError
        If labels or losses are not one for each audit, labels are empty or repeat, a loss is
        no number from 0 to a million, or two audits are of the same weights.
    """
    if not audits:
        raise InputError("there is no audit", cure="give at least one")
    names = _labels(audits, labels)
    losses = checked_losses(len(audits), test_losses)
    short = _LETTERS if len(audits) <= len(_LETTERS) else [str(i + 1) for i in range(len(audits))]
    strategies = tuple(
        Strategy(short[i], label, audit, loss, i)
        for i, (audit, label, loss) in enumerate(zip(audits, names, losses, strict=True))
    )
    groups: list[list[Strategy]] = []
    for strategy in strategies:
        home = next((g for g in groups if not any(_apart(strategy, one) for one in g)), None)
        if home is None:
            groups.append(home := [])
        home.append(strategy)
    for group in groups:
        check_weights(group)
    reasons = (
        f"{names_of(group)} cannot be compared with {names_of(groups[0])}: "
        f"{'; '.join(next(why for one in groups[0] if (why := _apart(group[0], one))))}."
        for group in groups[1:]
    )
    return Comparison(strategies, tuple(map(tuple, groups)), tuple(reasons), tuple(_notes(groups)))


def check_weights(group: Sequence[Strategy]) -> None:
    """Refuse two audits of the same weights, as far as their fingerprints are known."""
    for one, other in combinations(group, 2):
        weights = one.audit.model.get("fingerprint")
        if weights and weights == other.audit.model.get("fingerprint"):
            raise InputError(
                f"{brief(one.label)} and {brief(other.label)} are audits of the same weights",
                cure="give one audit of each model, and train a model for each way of training",
            )


@dataclass(frozen=True, eq=False)
class View:
    """One format of alike audits, with exposures as they were counted or as curves give them."""

    group: Sequence[Strategy]
    at: int = 0
    skew_normal: bool = False

    @property
    def copies(self) -> list[int]:
        """The numbers of copies, ascending; 0 for controls."""
        return [*self.group[0].audit.by_repetitions(self.at)]

    @property
    def priced(self) -> FormatResult:
        """The format, as the first audit has it."""
        return self.group[0].audit.formats[self.at]

    @property
    def space_bits(self) -> float:
        """The largest exposure that there is."""
        return math.log2(self.priced.space_size)

    def most_bits(self, copies: int) -> float:
        """The largest median that there is of the canaries with one number of copies."""
        number = 1 if self.skew_normal else len(self.exposures(self.group[0], copies))
        return ceiling([(self.space_bits, rank) for rank in range(1, number + 1)])

    def at_ceiling(self, copies: int) -> bool:
        """Whether any audit has its median near the highest possible, so that it ranks nothing."""
        full = (one.audit.at_ceiling(self.at) for one in self.group)
        return not self.skew_normal and any(copies in each for each in full)

    @property
    def has_curves(self) -> bool:
        """Whether every audit has skew-normal estimates."""
        return all(one.audit.formats[self.at].skew_normal is not None for one in self.group)

    @property
    def bounds(self) -> bool:
        """Whether any median is only a lower bound."""
        return any(self.median(one, n)[1] for one in self.group for n in self.copies)

    def exposures(self, one: Strategy, copies: int) -> list[Exposure]:
        """Exposure of each canary with one number of copies."""
        mine = one.audit.by_repetitions(self.at)[copies]
        return [e for c in mine if (e := c.skew_normal if self.skew_normal else c.exposure)]

    def median(self, one: Strategy, copies: int) -> tuple[float, bool]:
        """Median of `exposures`, and whether it is only a lower bound."""
        return median_bits(self.exposures(one, copies), ranked=True)

    def points(self, copies: int) -> list[Point]:
        """The strategies whose test loss is known, with their median exposure."""
        return [
            Point(one, one.test_loss_nats, *self.median(one, copies))
            for one in self.group
            if one.test_loss_nats is not None
        ]


def front(candidates: Sequence[Point]) -> list[Point]:
    """The Pareto front, by ascending exposure: those that none of the others surely beats.

    One beats another if it is at least as good in test loss and in exposure, and better in
    one of them. Where a median is only a lower bound, it beats nothing by its exposure,
    for that may be anywhere above.
    """

    def beats(one: Point, other: Point) -> bool:
        if one.loss_nats > other.loss_nats or one.most_bits > other.median_bits:
            return False
        return one.loss_nats < other.loss_nats or one.most_bits < other.median_bits

    kept = [p for p in candidates if not any(beats(other, p) for other in candidates)]
    return sorted(kept, key=lambda p: (p.median_bits, p.loss_nats))


def _labels(audits: Sequence[Audit], labels: Sequence[str] | None) -> list[str]:
    if labels is None:
        models = [audit.model_name or "a language model" for audit in audits]
        numbered = enumerate(models, 1)
        return [m if models.count(m) == 1 else f"{m}, audit {i}" for i, m in numbered]
    stripped = [str(label).strip() for label in labels]
    problem = cure = ""
    if len(stripped) != len(audits):
        problem = f"{plural(len(stripped), 'label')} for {plural(len(audits), 'audit')}"
        cure = "give one for each audit, in their order"
    elif "" in stripped:
        problem, cure = "a label is empty", "name each training strategy"
    elif len(set(stripped)) < len(stripped):
        (label, times) = Counter(stripped).most_common(1)[0]
        problem = f"the label {brief(label)} is given {times} times"
        cure = "give each audit a label of its own"
    if problem:
        raise InputError(problem, cure=cure, where="labels")
    return stripped


def checked_losses(number: int, losses: Sequence[float | None] | None) -> Sequence[float | None]:
    """A test loss for each of a number of audits; an `InputError` if they are not."""
    if losses is None:
        return [None] * number
    if len(losses) != number:
        raise InputError(
            f"{plural(len(losses), 'test loss', 'test losses')} for {plural(number, 'audit')}",
            cure="give one for each audit, in their order, in nats per token",
        )
    for loss in losses:
        if loss is not None and not 0 <= loss <= _MOST_NATS:
            raise InputError(
                f"a test loss of {loss} is none",
                cure=f"give the mean loss per token in nats, a number from 0 to {_MOST_NATS:,.0f}",
                where="test_losses",
            )
    return losses


def _apart(one: Strategy, other: Strategy) -> list[str]:
    found = list(differences(Design.of(one.audit), Design.of(other.audit)))
    sets = [each.audit.settings.get(CANARY_SET) for each in (one, other)]
    if not found and all(sets) and sets[0] != sets[1]:
        found.append(
            "the canaries are of another set, and one of the sets may never have been injected; "
            "train both models on one set, and audit both with it"
        )
    return found


def names_of(group: Sequence[Strategy]) -> str:
    """``A, B and C``."""
    names = [one.name for one in group]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


GUESSING = (
    "is above that of a model to which all tokens are equally probable. Give it in nats per token. "
    "If it is right, the tokenizer is another, or the model is untrained or overfitted, and low "
    "exposures say nothing"
)
"""What to say of audits that are `worse_than_guessing`."""


def worse_than_guessing(one: Strategy) -> bool:
    """Whether the test loss is above that of a uniform guess, where the vocabulary is known."""
    tokens = int(one.audit.model.get("vocabulary") or 0)
    return bool(tokens) and one.test_loss_nats is not None and one.test_loss_nats > math.log(tokens)


def _notes(groups: Sequence[Sequence[Strategy]]) -> Iterator[str]:
    """What the reader of a comparison has to know about its audits."""
    for group in groups:
        unknown = [one for one in group if not one.audit.settings.get(CANARY_SET)]
        if unknown and len(group) > 1:
            yield (
                f"The canary set of {names_of(unknown)} was not recorded. The comparison counts "
                "only if it is that of the others."
            )
        priced = [one for one in group if one.test_loss_nats is not None]
        if len({str(one.audit.model.get("dtype")) for one in group}) > 1:
            yield f"The models of {names_of(group)} were audited in different arithmetic."
        if len({str(one.audit.model.get("vocabulary")) for one in priced}) > 1:
            yield (
                f"The models of {names_of(priced)} have vocabularies of different sizes. A loss "
                "per token compares only where the same tokens are counted."
            )
        if guessing := [one for one in group if worse_than_guessing(one)]:
            yield f"The test loss of {names_of(guessing)} {GUESSING}."


def measured_losses(paths: Sequence[str | os.PathLike[str]]) -> list[float]:
    """Mean loss per token of each file that ``canary score`` wrote, in nats.

    Raises
    ------
    InputError
        If the files are not about the same lines with the same numbers of tokens: then
        texts or tokenizers differ, and a loss per token does not compare. If a model gives
        a text probability 0, which makes its loss infinite.
    RecordError
        If a file cannot be read or holds something else than scores.
    """
    losses, first = [], None
    for path in map(Path, paths):
        scores = read_scores(path)
        endless = np.flatnonzero(np.isinf(scores.px_bits))
        if len(endless):
            raise InputError(
                "the model gives this text probability 0, so its loss has no end",
                cure="leave the text out of all files of scores, or compare exposure only",
                where=f"{path}:{endless[0] + 1}",
            )
        first = first or (path, scores)
        if any(
            not np.array_equal(getattr(scores, name), getattr(first[1], name))
            for name in ("lines", "tokens")
        ):
            raise InputError(
                f"its scores ({_size(scores)}) and those in {first[0]} ({_size(first[1])}) are not "
                "of the same texts in the same tokens, so their losses per token do not compare",
                cure="score the same file with each model; of models with different "
                "tokenizers compare exposure only",
                where=str(path),
            )
        losses.append(math.fsum(scores.px_bits) * LN2 / int(scores.tokens.sum()))
    return losses


def _size(scores: Scores) -> str:
    return f"{len(scores.lines):,} texts, {int(scores.tokens.sum()):,} tokens"
