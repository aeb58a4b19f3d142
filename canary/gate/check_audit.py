"""The gate: a result and what it must keep to, made into a verdict."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Literal, get_args

from canary.audits.audit_result import Audit
from canary.audits.audit_setup import control_of
from canary.audits.exposure_result import Exposures, audit_of
from canary.audits.history import History
from canary.audits.search_ranks import with_search
from canary.corpus.canaries import CanarySet
from canary.corpus.verification import Verification
from canary.errors import EstimationError
from canary.gate.audit_doubts import doubts_before, weak_controls
from canary.gate.baselines import Baseline, baseline_in
from canary.gate.check_result import Tested, check_attacks
from canary.gate.coins import epsilon_judges
from canary.gate.control_check import controls
from canary.gate.dataset_limit import check_order
from canary.gate.exposure_limit import check_level, evidence, largest, medians
from canary.gate.extraction_limit import check_extraction, extracted
from canary.gate.forgetting_limit import check_forgetting
from canary.gate.passages_limit import check_passages, check_samples
from canary.gate.preconditions import (
    groups_of,
    in_training,
    left_out_of,
    lost_in,
    verification_in,
)
from canary.gate.regression import check_seeds, more_than, of_same_weights, with_level
from canary.gate.same_weights import check_weights, of_files, other_files, stopped_runs
from canary.gate.subjects import Subject, check_options, nothing_to_check, subject_of
from canary.gate.verdict import Finding, Policy, Verdict
from canary.gate.verdict_hooks import LISTENERS
from canary.gate.watched import last_within, still_open, template_unseen, unanswered, watched
from canary.gate.weak_limits import check_limit
from canary.records.sealing import sealed
from canary.records.validation import one_of, one_or_more, some, whole_number
from canary.statistics.epsilon import Mechanism
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import count

Statistic = Literal["median", "maximum"]

_Judge = Callable[[Audit, Sequence[int]], list[Finding]]
_PLAIN = (bool, int, float, str)
_MEDIAN_CONFIDENCE = 0.9
_EPSILON_CONFIDENCE = 0.95
_LEFT_OUT = (
    "canaries with {} copies were left out, as was asked; this verdict does not speak of them"
)
_NO_START = (
    "an earlier version wrote the baseline, without the start token of its audit: if that was "
    "another one than now, the comparison is worthless. Write it again (--update-baseline)"
)


@sealed
def check(
    audit: Audit | str | os.PathLike[str] | Sequence[Audit] | Tested,
    *,
    max_exposure_bits: float | None = None,
    statistic: Statistic = "median",
    max_p: float | None = None,
    no_extraction: bool = False,
    baseline: Baseline | Audit | Sequence[Audit] | str | os.PathLike[str] | None = None,
    max_epsilon: float | None = None,
    canaries: CanarySet | None = None,
    delta: float = 0.0,
    guesses: int | None = None,
    mechanism: Mechanism = "any",
    repetitions: Sequence[int] | None = None,
    verification: Verification | str | os.PathLike[str] | None = None,
    history: History | str | os.PathLike[str] | None = None,
    trust_injection: bool = False,
    require_learned: int | None = None,
    confidence: float | None = None,
    undecided: Policy = "fail",
    seed: int = 0,
    max_auc: float | None = None,
    max_tpr_at_fpr: Mapping[float, float] | None = None,
    forgotten: bool = False,
    min_rho: float | None = None,
    trust_members: bool = False,
    max_extractable: float | None = None,
    tries: int = 1000,
    chance: float = 0.5,
    limit_by: str | None = None,
    model: Any = None,
) -> Verdict:
    """Say whether a model keeps within limits: passed, memorized (or failed), or undecided.

    At least one limit must be given. The verdict is the worst of what they find, and true
    only if the model passed, so that it can follow `assert`. Tests of membership, forgetting and
    passages take their own options, from `max_auc` on, and `undecided`.

    Parameters
    ----------
    audit : Audit, sequence of Audit, Exposures, Extraction, Survey, Forgetting, Order, Verbatim, \
    Sampled, or path of one
        Several audits are of models that were trained with different seeds. Limits hold for each of
        them. Exposures are judged as an audit. An extraction, which has to know its canaries, takes
        `no_extraction`, `trust_injection` and `undecided`. The others are what membership attacks,
        `canary.forgotten`, `canary.verbatim` and `canary.sample` found. Files are those that the
        commands wrote.
    max_exposure_bits : float, optional
        The largest exposure that passes. *memorized* if the lower end of the interval is
        above it, *passed* if the upper end does not, *undecided* otherwise.
    statistic : {"median", "maximum"}
        Of which exposure: the median of each number of copies, or the largest of all.
    max_p : float, optional
        *memorized* if Fisher's p-value of canaries of any number of copies, adjusted by
        Holm, is at most this. Of an order test, or a membership test of texts (all
        members at once): *failed* if its p-value is, else *undecided*.
    no_extraction : bool
        *memorized* if the audit, or the extraction, brought an injected canary out of the model.
    baseline : Baseline, path, Audit or sequence of Audit, optional
        *memorized* if canaries are more exposed than there (`canary.gate.regression`);
        *undecided* if only there some were learned, or the weights are the same without `model`.
    max_epsilon : float, optional
        *memorized* if training is less private than this for certain. Needs `canaries`.
    canaries : CanarySet, optional
        The audited set, drawn with ``coin_flips=True``, for `max_epsilon`.
    delta, guesses, mechanism : float, int, {"any", "gaussian"}
        Of `max_epsilon`: see `canary.gate.coins.epsilon_bound`.
    repetitions : sequence of int, optional
        Which numbers of copies are looked at, whatever the limit; a bound on epsilon takes one
        of them. All unless given.
    verification : Verification or path, optional
        What `canary.verify` found in the corpus of the training. If canaries did not survive
        there, no model passes; one that memorized them is memorized all the same.
    history : History or path, optional
        Of the monitor of this training, which counted the canaries in its batches: evidence in
        place of `verification`. *Undecided* if it counted none, or fewer copies than planned, or
        if its last measurement has not the log-perplexities of the audit; canaries need not look
        learned if it has.
    trust_injection : bool
        Your word that the canaries were in the training data of this model. Without it, or a
        baseline like it, a model passes only if the canaries with the most copies look learned (p
        of 0.01 at most); otherwise it is *undecided*, for a model that never read them, or was
        audited with another tokenizer, would pass. A verification speaks of the corpus alone.
    require_learned : int, optional
        The number of copies of a positive control. No limit is asked of these canaries, and the
        verdict is *undecided* unless they look learned (p of 0.01 at most), and reach the
        limit in bits or the most that can be measured (unless `history` is of this model), whatever
        `trust_injection` or a baseline says. That of the audit unless given.
    confidence : float, optional
        With which either verdict on an exposure is right, 0.9 unless given, and a bound on
        epsilon, 0.95 unless given. See Notes.
    undecided : {"fail", "pass"}
        Whether an undecided verdict is true.
    seed : int
        Of random permutations.
    max_auc : float, optional
        Of a membership test: *failed* if the AUC of some attack is above this, by the lower end of
        its interval, *passed* if no upper end is. Intervals allow for the choice among attacks.
        From 0.5 to below 1. A test that is void, undecided or has doubts about its input is
        *undecided*.
    max_tpr_at_fpr : mapping of float to float, optional
        The same of the true positive rate at false positive rates: ``{0.001: 0.02}``. *Undecided*
        if the test did not measure at that rate.
    forgotten : bool
        Of a forgetting test: its answer. *Passed* if the query set is forgotten or no trace was
        found, *failed* if it is not forgotten or something is left.
    min_rho : float, optional
        Of a forgetting test: *passed* if the whole interval of rho is at this or above, *failed*
        if it is below, and if nothing else that was tested contradicts it. A target that never saw
        the query set has a rho of about 1, so a limit somewhat below 1 can be passed. Above 0, at
        most 1.
    trust_members : bool
        Your word that the model was trained on the members, texts or secrets, and on none of the
        non-members or controls. Without it, a test that shows no sign of them does not pass.
    max_extractable : float, optional
        Of a test of passages or samples: *passed* if the share of passages, or planted secrets,
        that come out is at most this, by the interval. *memorized* if more secrets come out (p of
        0.001), *failed* if passages do, beyond controls (p of 0.05). Above 0, below 1.
    tries, chance : int, float
        Of `max_extractable`: a passage comes out if greedy decoding gives it, or if `tries`
        samples under any measured scheme hold it with at least this chance.
    limit_by : str, optional
        Who set the limits, and when, for reports.
    model : what `canary.load` takes, optional
        The audited model as it is now: an audit of other weights is refused. Without it, the
        verdict is *undecided* if the model's folder has other weight files now.

    Returns
    -------
    Verdict

    Raises
    ------
    InputError
        If no limit is given, an option of `max_epsilon` without it, one is out
        of range or cannot be exceeded in the space, there is no canary of a number of copies,
        canaries were left out of the corpus on purpose, the verification or the history is of
        another set, the audit extracted nothing and `no_extraction` is given, two audits are of
        the same weights or not of `model`, or this kind of result has no such option.
    EstimationError
        If canaries did not survive and none is memorized, or p-values of natural secrets were
        asked for.
    RecordError
        If a file is missing, damaged or too new, or an earlier version wrote it without what a
        limit needs.

    Notes
    -----
    The median is that of *all* canaries with this number of copies, of which the audit has some
    (`canary.statistics.medians`). Four canaries of a kind decide at the default confidence if
    they agree, and six at 0.95. The confidence holds for each number of copies, and the verdict
    is the worst of all: of audits with four groups of four canaries, the median of each right
    at the limit, 1 - (15/16)**4 = 22.8 % are called memorized.

    Controls that look learned make the verdict undecided, and so does an audit whose canaries
    look more exposed after another start token than the one that it chose (`Audit.start`), or
    whose canaries follow a text in the verified corpus that is not its context.

    Examples
    --------
    >>> verdict = check("audit/audit.json", max_exposure_bits=10)  # doctest: +SKIP
    >>> bool(verdict), str(verdict)  # doctest: +SKIP
    (False, 'memorized: the median exposure of canaries with 16 copies ...')
    """
    given = locals()
    one_of(undecided, "policy of undecided", get_args(Policy))
    subject = subject_of(audit)
    check_options(subject, _asked(given))
    if subject != "an audit":
        return _announced(_of_another_kind(subject, given), limit_by)
    one_of(statistic, "statistic", get_args(Statistic))
    if confidence is not None:
        check_confidence(confidence, "check")
    seed = whole_number(seed, "seed", at_least=0, below=None)
    if repetitions is not None:
        copies = some(repetitions, "repetitions", cure="give a list of numbers of copies")
        repetitions = [whole_number(n, "each of repetitions", at_least=0) for n in copies]
    check_weights(audits := _audits(audit), model)
    verification = verification_in(verification)
    require_learned = control_of(*audits) if require_learned is None else require_learned
    judges: list[_Judge] = []
    if max_exposure_bits is not None:
        sure, limit = confidence or _MEDIAN_CONFIDENCE, check_limit(max_exposure_bits)
        judge = {"median": medians, "maximum": largest}[statistic]
        judges.append(partial(judge, limit=limit, confidence=sure))
    if max_p is not None:
        judges.append(partial(evidence, level=check_level(max_p)))
    if no_extraction:
        judges.append(extracted)
    judges += epsilon_judges(
        *(max_epsilon, canaries),
        copies=repetitions, guesses=guesses, delta=delta, mechanism=mechanism,
        confidence=confidence or _EPSILON_CONFIDENCE,
    )  # fmt: skip
    if not judges and baseline is None:
        raise nothing_to_check(subject)
    findings: list[Finding] = []
    for number, each in enumerate(audits, 1):
        mine = _asked_of(each, groups_of(each, repetitions, require_learned), judges, verification)
        of = f"audit {number}: " if len(audits) > 1 else ""
        findings += [replace(f, subject=of + f.subject, sentence=of + f.sentence) for f in mine]
    counted, seen = watched(audits, history)
    findings = [
        *still_open(findings, audits, history),
        *counted,
        *template_unseen(audits, verification, history),
        *(other_files(audits) if model is None and not seen else []),
    ]
    compared = stopped_runs(audits) + last_within(findings, audits, history)
    if baseline is not None:
        baseline, now = _baseline(baseline), Baseline.of(audits)
        own = groups_of(audits[0], repetitions, require_learned) if require_learned else repetitions
        findings.append(with_level(
            of_same_weights(more_than(now, baseline, repetitions=own, seed=seed), audits, baseline,
                            named=model is not None),
            [] if max_exposure_bits else audits, own,
        ))  # fmt: skip
        known = [all(m.start_token for m in side.audits) for side in (now, baseline)]
        compared += [_NO_START] * (known == [True, False])
    left_out = left_out_of(audits, repetitions, require_learned)
    limited = (left_out, require_learned, None if seen else max_exposure_bits)
    findings += weak_controls(audits, *limited, trusted=trust_injection)
    verdict = Verdict(tuple(findings), undecided, audits=audits)
    verdict = in_training(
        *(verdict, audits, verification, baseline), trusted=trust_injection,
        watched=seen, control=require_learned,
    )  # fmt: skip
    if silent := [count(n) for n in left_out if verdict and n != require_learned]:
        compared.append(_LEFT_OUT.format(", ".join(silent)))
    notes = (*unanswered(audits, verification, history), *compared, *verdict.notes)
    control = require_learned or 0
    return _announced(replace(verdict, notes=notes, left_out=left_out, control=control), limit_by)


def _asked_of(
    audit: Audit,
    groups: Sequence[int],
    judges: Sequence[_Judge],
    verification: Verification | None = None,
) -> list[Finding]:
    """What limits find in an audit, and what no limit settles."""
    judged = chain.from_iterable(judge(with_search(audit), groups) for judge in judges)
    return [*doubts_before(audit, verification), *judged, *controls(audit)]


def forecast(audit: Audit, limit: float) -> Verdict:
    """The verdict of `check` on a limit in bits, if the canaries were in the training data.

    Nobody listens to it. An InputError if no exposure could exceed the limit.
    """
    judge = partial(medians, limit=limit, confidence=_MEDIAN_CONFIDENCE)
    findings = _asked_of(audit, groups_of(audit, None, control_of(audit)), [judge])
    return in_training(Verdict(tuple(findings), audits=(audit,)), [audit], None, trusted=True)


def _of_another_kind(subject: Subject, given: Mapping[str, Any]) -> Verdict:
    """The verdict on a result that is no audit."""
    judges: Mapping[Subject, tuple[Callable[..., Verdict], str]] = {
        "an extraction": (check_extraction, "no_extraction trust_injection"),
        "a membership test": (check_attacks, "max_auc max_p max_tpr_at_fpr trust_members"),
        "a forgetting test": (check_forgetting, "forgotten min_rho"),
        "an order test": (check_order, "max_p"),
        "a test of passages": (check_passages, "max_extractable tries chance trust_members"),
        "samples of a server": (check_samples, "max_extractable trust_members"),
    }
    judge, names = judges[subject]
    return of_files(judge(given["audit"], **{n: given[n] for n in (*names.split(), "undecided")}))


def _asked(given: Mapping[str, object]) -> list[str]:
    """The options of `check` that are not what they are by default."""
    defaults = {one.name: one.default for one in inspect.signature(check).parameters.values()}
    return [
        name
        for name, value in given.items()
        if name not in ("audit", "limit_by")
        and not (value is defaults[name] or (type(value) in _PLAIN and value == defaults[name]))
    ]


def _announced(verdict: Verdict, limit_by: str | None) -> Verdict:
    """The verdict, once those who listen have heard it."""
    verdict = replace(verdict, limit_by=(limit_by or "").strip())
    for listener in LISTENERS:
        listener(verdict)
    return verdict


def new_baseline(
    audits: Audit | Sequence[Audit],
    *,
    verification: Verification | str | os.PathLike[str] | None = None,
) -> Baseline:
    """The baseline that audits make, if they can be relied on.

    Parameters
    ----------
    audits : Audit or sequence of Audit
    verification : Verification or path, optional
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
    audits, verification = _audits(audits), verification_in(verification)
    for audit in audits:
        groups_of(audit, None)
    if verification is not None and (lost := lost_in(verification, audits)) is not None:
        raise lost
    for audit in audits:
        for finding in (*controls(audit), *doubts_before(audit, verification)):
            if finding.outcome != "passed":
                raise EstimationError(finding.sentence, cure=finding.cure, where="baseline")
    return Baseline.of(audits)


def _baseline(given: Any) -> Baseline:
    """A baseline, that in a file, or that of audits."""
    return new_baseline(given) if isinstance(given, Audit | list | tuple) else baseline_in(given)


def _audits(given: object) -> tuple[Audit, ...]:
    if isinstance(given, str | os.PathLike | Exposures):
        return (audit_of(given),)
    cure = "give what canary.audit returned, or audit.json"
    audits = one_or_more(given, Audit, "an audit, the path of one, or several audits", cure=cure)
    check_seeds([a.model.get("fingerprint") or a.file or id(a) for a in audits], where="check")
    return audits
