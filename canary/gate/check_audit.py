"""The gate: an audit and what it must keep to, made into a verdict."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from canary.audits.audit_result import Audit
from canary.corpus.canaries import CanarySet, canary_set
from canary.corpus.verification import Verification
from canary.errors import EstimationError, InputError
from canary.gate.baselines import Baseline
from canary.gate.coins import epsilon_bound, within_epsilon
from canary.gate.evidence import check_level, evidence
from canary.gate.exposure_limit import check_limit, largest, medians
from canary.gate.extraction_limit import extracted
from canary.gate.preconditions import (
    controls,
    doubts_before,
    groups_of,
    in_training,
    lost_in,
)
from canary.gate.regression import more_than
from canary.gate.verdict import Finding, Policy, Verdict
from canary.gate.verdict_hooks import tell
from canary.records.validation import (
    as_real,
    file_path,
    of_kind,
    one_of,
    one_or_more,
    some,
    whole_number,
)
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import count, plural

Statistic = Literal["median", "maximum"]

_MEDIAN_CONFIDENCE = 0.9
_EPSILON_CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an audit is held to, as `check` was given it.

    Raises
    ------
    InputError
        If no limit is given, or a value has the wrong type or does not go with the others.
    """

    max_exposure_bits: float | None
    statistic: Statistic
    max_p: float | None
    no_extraction: bool
    baseline: Baseline | str | os.PathLike[str] | None
    max_epsilon: float | None
    canaries: CanarySet | None
    delta: float
    guesses: int | None
    repetitions: Sequence[int] | None
    verification: Verification | None
    confidence: float | None
    undecided: Policy
    seed: int

    def __post_init__(self) -> None:
        limits = (self.max_exposure_bits, self.max_p, self.baseline, self.max_epsilon)
        if not self.no_extraction and all(limit is None for limit in limits):
            raise InputError(
                "there is nothing to check",
                cure="give max_exposure_bits, max_p, no_extraction, baseline or max_epsilon",
                where="check",
            )
        coins = {
            "canaries": self.canaries is not None,
            "guesses": self.guesses is not None,
            "delta": as_real(self.delta) != 0.0,
        }
        names = " and ".join(name for name, given in coins.items() if given)
        if self.max_epsilon is None and names:
            raise InputError(
                f"{names} given, and no limit on epsilon that would heed it",
                cure=f"give max_epsilon as well, or leave {names} out",
                where="max_epsilon",
            )
        one_of(self.undecided, "policy of undecided", get_args(Policy))
        one_of(self.statistic, "statistic", get_args(Statistic))
        if self.confidence is not None:
            check_confidence(self.confidence, "check")
        seed = whole_number(self.seed, "seed", at_least=0, below=None)
        object.__setattr__(self, "seed", seed)
        if self.repetitions is not None:
            copies = some(self.repetitions, "repetitions", cure="give a list of numbers of copies")
            copies = [whole_number(n, "each of repetitions", at_least=0) for n in copies]
            object.__setattr__(self, "repetitions", copies)
        if self.verification is not None:
            cure = "give what canary.verify returned"
            of_kind(self.verification, Verification, "verification", cure=cure)
        if self.canaries is not None:
            canary_set(self.canaries)


def check(
    audit: Audit | str | os.PathLike[str] | Sequence[Audit],
    *,
    max_exposure_bits: float | None = None,
    statistic: Statistic = "median",
    max_p: float | None = None,
    no_extraction: bool = False,
    baseline: Baseline | str | os.PathLike[str] | None = None,
    max_epsilon: float | None = None,
    canaries: CanarySet | None = None,
    delta: float = 0.0,
    guesses: int | None = None,
    repetitions: Sequence[int] | None = None,
    verification: Verification | None = None,
    confidence: float | None = None,
    undecided: Policy = "fail",
    seed: int = 0,
) -> Verdict:
    """Say whether a model keeps within limits: passed, memorized or undecided.

    At least one limit must be given. The verdict is the worst of what they find, and true
    only if the model passed, so that it can stand behind `assert`.

    Parameters
    ----------
    audit : Audit, path of one, or sequence of Audit
        Several are of models that were trained with different seeds. Limits hold for each
        of them.
    max_exposure_bits : float, optional
        The largest exposure that passes. *memorized* if the lower end of the interval lies
        above it, *passed* if the upper end does not, *undecided* otherwise.
    statistic : {"median", "maximum"}
        Of which exposure: the median of each number of copies, or the largest of all.
    max_p : float, optional
        *memorized* if Fisher's p-value of canaries of any number of copies, adjusted by
        Holm, is at most this.
    no_extraction : bool
        *memorized* if the audit brought an injected canary out of the model.
    baseline : Baseline or path, optional
        *memorized* if canaries are more exposed than there (`canary.gate.regression`).
    max_epsilon : float, optional
        *memorized* if training is less private than this for certain. Needs `canaries`.
    canaries : CanarySet, optional
        The audited set, drawn with ``coin_flips=True``, for `max_epsilon`.
    delta : float
        Of the privacy that `max_epsilon` claims.
    guesses : int, optional
        See `canary.gate.coins.epsilon_bound`.
    repetitions : sequence of int, optional
        Which numbers of copies are looked at, whatever the limit; a bound on epsilon takes one
        of them. All unless given.
    verification : Verification, optional
        What `canary.verify` found in the corpus of the training. If canaries did not survive
        there, no model passes; one that memorized them is memorized all the same.
    confidence : float, optional
        With which either verdict on an exposure is right, 0.9 unless given, and a bound on
        epsilon, 0.95 unless given. It is that of each number of copies by itself: see Notes.
    undecided : {"fail", "pass"}
        Whether an undecided verdict is true.
    seed : int
        Of random permutations.

    Returns
    -------
    Verdict

    Raises
    ------
    InputError
        If no limit is given, `canaries`, `guesses` or `delta` without `max_epsilon`, one is out
        of range or cannot be exceeded in the space, there is no canary of a number of copies,
        canaries were left out of the corpus on purpose, the verification is of another set,
        or the audit extracted nothing and `no_extraction` is given.
    EstimationError
        If canaries did not survive and none is memorized, or p-values of natural secrets were
        asked for.
    RecordError
        If the baseline is missing, damaged or too new.

    Notes
    -----
    The median is that of *all* canaries with so many copies, of which the audit has some;
    how that and the canaries' own intervals make an interval stands in
    `canary.statistics.medians`. Four canaries of a kind decide at the default confidence if
    they agree, and six at 0.95.

    The confidence holds for each number of copies by itself, and the verdict is the worst of
    all. Of audits with four groups of four canaries, the median of each right at the limit,
    23.7 % are called memorized (1,500 simulated; 1 - (15/16)**4 by theory).

    Controls that look learned make the verdict undecided, and so does an audit whose canaries
    look more exposed after another start token than the one that it chose (`Audit.start`), or
    whose canaries stand behind a text in the verified corpus that is not its context.

    Examples
    --------
    >>> verdict = check("audit/audit.json", max_exposure_bits=10)  # doctest: +SKIP
    >>> bool(verdict), str(verdict)  # doctest: +SKIP
    (False, 'memorized: the median exposure of canaries with 16 copies ...')
    """
    limits = Limits(
        max_exposure_bits=max_exposure_bits,
        statistic=statistic,
        max_p=max_p,
        no_extraction=no_extraction,
        baseline=baseline,
        max_epsilon=max_epsilon,
        canaries=canaries,
        delta=delta,
        guesses=guesses,
        repetitions=repetitions,
        verification=verification,
        confidence=confidence,
        undecided=undecided,
        seed=seed,
    )
    audits = _audits(audit)
    findings: list[Finding] = []
    for number, each in enumerate(audits, 1):
        groups = groups_of(each, limits.repetitions)
        found = [finding for judge in _JUDGES for finding in judge(each, groups, limits)]
        found = [*doubts_before(each, limits.verification), *found, *controls(each)]
        findings += _named(found, number) if len(audits) > 1 else found
    findings += _against_baseline(audits, limits)
    verdict = Verdict(tuple(findings), undecided, _notes(audits))
    more = in_training(verdict, audits, limits.verification)
    if verdict:
        more = (*_left_out(audits, limits.repetitions), *more)
    return tell(replace(verdict, notes=(*verdict.notes, *more)))


def new_baseline(
    audits: Audit | Sequence[Audit], *, verification: Verification | None = None
) -> Baseline:
    """The baseline that audits make, if they can be relied on.

    Parameters
    ----------
    audits : Audit or sequence of Audit
    verification : Verification, optional
        As for `check`.

    Raises
    ------
    InputError
        If an audit has no injected canary, its canaries were left out of the corpus, or the
        verification is of others.
    EstimationError
        If canaries did not survive in the corpus, controls look learned, or canaries look more
        exposed after another start token than the one that was chosen.
    """
    given = _audits(audits)
    for audit in given:
        groups_of(audit, None)
    if verification is not None and (lost := lost_in(verification, given)) is not None:
        raise lost
    for audit in given:
        for finding in (*controls(audit), *doubts_before(audit, verification)):
            if finding.outcome != "passed":
                raise EstimationError(finding.sentence, cure=finding.cure, where="baseline")
    return Baseline.of(given)


def _exposure(audit: Audit, groups: Sequence[int], limits: Limits) -> Iterable[Finding]:
    if limits.max_exposure_bits is None:
        return []
    limit = check_limit(limits.max_exposure_bits)
    sure = _MEDIAN_CONFIDENCE if limits.confidence is None else limits.confidence
    if limits.statistic == "median":
        return medians(audit, groups, limit, confidence=sure)
    return [largest(audit, groups, limit, confidence=sure)]


def _evidence(audit: Audit, groups: Sequence[int], limits: Limits) -> Iterable[Finding]:
    return [] if limits.max_p is None else evidence(audit, groups, check_level(limits.max_p))


def _extraction(audit: Audit, groups: Sequence[int], limits: Limits) -> Iterable[Finding]:
    return extracted(audit, groups) if limits.no_extraction else []


def _epsilon(audit: Audit, _: Sequence[int], limits: Limits) -> Iterable[Finding]:
    if limits.max_epsilon is None:
        return []
    if limits.canaries is None:
        raise InputError(
            "a limit on epsilon needs the canary set, which holds how the coins fell",
            cure="give canaries (--canaries FILE)",
            where="max_epsilon",
        )
    copies = None if limits.repetitions is None else sorted(set(limits.repetitions))
    if copies is not None and len(copies) != 1:
        raise InputError(
            f"a bound on epsilon cannot be of {plural(len(copies), 'number')} of copies",
            cure="give one number of copies with max_epsilon, or leave repetitions out for all",
            where="repetitions",
        )
    bound = epsilon_bound(
        audit,
        limits.canaries,
        copies=copies[0] if copies else None,
        guesses=limits.guesses,
        delta=limits.delta,
        confidence=_EPSILON_CONFIDENCE if limits.confidence is None else limits.confidence,
    )
    return [within_epsilon(bound, limits.max_epsilon)]


_JUDGES = (_exposure, _evidence, _extraction, _epsilon)
"""One for each limit: an audit, numbers of copies and the limits to findings; none if not asked."""


def _against_baseline(audits: Sequence[Audit], limits: Limits) -> Iterable[Finding]:
    baseline = limits.baseline
    if baseline is None:
        return []
    if not isinstance(baseline, Baseline):
        cure = "give the file of a baseline, or what Baseline.load returned"
        baseline = Baseline.load(file_path(baseline, "baseline", cure=cure))
    now = Baseline.of(audits)
    return [more_than(now, baseline, repetitions=limits.repetitions, seed=limits.seed)]


def _audits(given: Audit | str | os.PathLike[str] | Sequence[Audit]) -> tuple[Audit, ...]:
    if isinstance(given, str | os.PathLike):
        return (Audit.load(Path(given)),)
    return one_or_more(
        given,
        Audit,
        "an audit, the path of one, or several audits",
        cure="give what canary.audit returned, or audit.json",
    )


def _notes(audits: Sequence[Audit]) -> tuple[str, ...]:
    """What the audits note, with the number of the audit where not all note it."""
    shared = set.intersection(*(set(audit.notes) for audit in audits))
    return tuple(
        dict.fromkeys(
            note if note in shared else f"audit {number}: {note}"
            for number, audit in enumerate(audits, 1)
            for note in audit.notes
        )
    )


def _left_out(audits: Sequence[Audit], repetitions: Sequence[int] | None) -> Iterator[str]:
    """That a verdict is of some of the canaries alone."""
    copies = {c.repetitions for one in audits for c in one.injected}
    others = sorted(copies - set(copies if repetitions is None else repetitions))
    if others:
        yield (
            f"canaries with {', '.join(map(count, others))} copies were left out, as was asked; "
            "this verdict does not speak of them"
        )


def _named(found: Sequence[Finding], number: int) -> Iterator[Finding]:
    """The findings of one of several audits, with its number."""
    for finding in found:
        yield replace(
            finding,
            subject=f"audit {number}: {finding.subject}",
            sentence=f"audit {number}: {finding.sentence}",
        )
