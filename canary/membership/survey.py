"""All attacks on one target by one shadow, with the risk scores, as one result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.analysis import ClassRisks, possible_class_risks
from canary.membership.association import check_shadow
from canary.membership.controls import contrast
from canary.membership.doubts import doubts_of_attacks, doubts_of_pair
from canary.membership.evaluation import Evaluation, Part, evaluate, evaluate_by
from canary.membership.guessing import Guesses, leakage, precision_recall
from canary.membership.metric import ATTACKS, NEURAL, AttackScores, applicable, attack
from canary.membership.privacy import AttackEpsilon, attack_epsilon
from canary.membership.risk import Reliability, RiskScores, Scale, reliability
from canary.membership.smoothing import chosen_risk_scores
from canary.records.versions import versions
from canary.scoring.batcher import Stage
from canary.signals.output_checks import check_members
from canary.signals.signal_table import SignalTable
from canary.statistics.checks import check_confidence
from canary.statistics.operating import nonmembers_for_lower_end
from canary.statistics.roc import Estimate, OperatingPoint, check_rate

__all__ = [
    "FPRS",
    "KIND",
    "SCHEMA",
    "Attacked",
    "Surest",
    "Survey",
    "attacked_fields",
    "class_risk_fields",
    "estimate_fields",
    "names_of",
    "number_field",
    "rates_of",
    "risk_columns",
    "surest_fields",
    "surest_of",
    "survey",
]

KIND = "canary membership"
SCHEMA = 1

FPRS = (0.001, 0.01, 0.1)
"""False positive rates that are looked at unless others are asked for."""

_RISKY = 20


@dataclass(frozen=True, eq=False)
class Attacked:
    """One attack and what it reaches.

    Parameters
    ----------
    attack : AttackScores
    evaluation : Evaluation
    points : tuple of OperatingPoint
    """

    attack: AttackScores
    evaluation: Evaluation
    points: tuple[OperatingPoint, ...]

    @property
    def accuracy(self) -> Estimate:
        """Balanced accuracy of the attack's guesses."""
        assert self.evaluation.accuracy is not None
        return self.evaluation.accuracy


@dataclass(frozen=True)
class Surest:
    """The attack that finds most members at the least false positive rate of a survey.

    Parameters
    ----------
    name : str
        Of the attack.
    point : OperatingPoint
        What it reaches there; the interval allows for the choice among the attacks.
    attacks : int
        How many it was chosen from.
    """

    name: str
    point: OperatingPoint
    attacks: int


def surest_of(attacked: Sequence[Attacked], *, confidence: float) -> Surest | None:
    """The attack that finds most members at the least false positive rate that was looked at.

    Bonferroni, as `Survey.corrected`: each of k attacks may miss by one k-th of what one may.
    Of equal ones the first; None where no rate was looked at.
    """
    rates = [point.asked_fpr for point in attacked[0].points]
    if not rates:
        return None
    at = rates.index(min(rates))
    best = max(attacked, key=lambda a: a.points[at].tpr.value)
    level = 1.0 - (1.0 - confidence) / len(attacked)
    point = best.evaluation.roc.tpr_at_fpr(rates[at], confidence=level)
    return Surest(best.attack.name, point, len(attacked))


@dataclass(frozen=True, eq=False)
class Survey:
    """What attacks on a target found.

    Parameters
    ----------
    target, shadow : SignalTable
        Of one target model, and of one or several shadow models.
    attacked : tuple of Attacked
        In the order that was asked for.
    by_class, by_group : tuple of Part
        The strongest attack on each class and each group; no groups if there are none.
    risks : RiskScores or None
        None where there is no modified entropy.
    reliability : Reliability or None
    confidence : float
    notes : tuple of str
    seed : int
        Of the neural attacks.
    class_risks : ClassRisks or None
        Risk of the classes beside their generalization error; None where too few differ.
    epsilons : mapping of str to AttackEpsilon
        Lower bounds on epsilon by each attack, where coins chose the members. Each at a
        confidence that allows for how many attacks were tried.
    doubts : tuple of str
        Of the notes, those by which it decides nothing that nothing was found.
    """

    target: SignalTable
    shadow: SignalTable
    attacked: tuple[Attacked, ...]
    by_class: tuple[Part, ...]
    by_group: tuple[Part, ...]
    risks: RiskScores | None
    reliability: Reliability | None
    confidence: float
    notes: tuple[str, ...]
    seed: int = 0
    class_risks: ClassRisks | None = None
    epsilons: Mapping[str, AttackEpsilon] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    @property
    def strongest(self) -> Attacked:
        """The attack of the highest balanced accuracy; the first, of equal ones."""
        return max(self.attacked, key=lambda a: a.accuracy.value)

    @property
    def blind(self) -> bool:
        """Whether no attack was taught by samples or splits that the target shares."""
        return all(one.attack.blind for one in self.attacked)

    def told_apart(self) -> bool | None:
        """Whether some attack is better than a coin, allowing for how many were tried.

        None where the attacks are not blind: they may owe it to what they know of the answers.
        None as well where none is, and there are doubts: files that are put together wrongly
        show nothing, whatever the model remembers.
        """
        if not self.blind:
            return None
        return self.corrected().lower > 0.5 or (None if self.doubts else False)

    @property
    def epsilon(self) -> tuple[str, AttackEpsilon] | None:
        """The largest lower bound on epsilon and whose it is; None without coins.

        It lies above the truth in at most ``1 - confidence`` of training runs, though it is
        the largest of k: each of k may do so in one k-th (Bonferroni).
        """
        if not self.epsilons:
            return None
        return max(self.epsilons.items(), key=lambda item: item[1].epsilon)

    def corrected(self) -> Estimate:
        """Balanced accuracy of the strongest attack, its interval widened for the choice.

        Bonferroni: each of k attacks may miss by one k-th of what one may.
        """
        k, best = len(self.attacked), self.strongest
        confidence = 1.0 - (1.0 - self.confidence) / k
        found = evaluate(best.attack, self.target.member[0], confidence=confidence).accuracy
        assert found is not None
        return found

    def surest(self) -> Surest | None:
        """The attack that finds most members at the least false positive rate: `surest_of`."""
        return surest_of(self.attacked, confidence=self.confidence)

    def most_at_risk(self, most: int = _RISKY) -> list[dict[str, Any]]:
        """The members of the highest risk, and of those the lowest modified entropy first."""
        if self.risks is None:
            return []
        entropy = self.target.signal("modified-entropy")[0]
        inside = np.flatnonzero(self.target.member[0])
        order = inside[np.lexsort((entropy[inside], -self.risks.scores[inside]))][:most]
        return [
            {
                "sample": int(at),
                "label": int(self.target.label[at]),
                "modified_entropy": number_field(float(entropy[at])),
                "risk": float(self.risks.scores[at]),
            }
            for at in order
        ]

    def guesses(self) -> list[Guesses]:
        """Precision and recall of guessing by the risk score, as in table 6 of the paper."""
        if self.risks is None:
            return []
        return precision_recall(self.risks, self.target.member[0], confidence=self.confidence)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data; infinities are the words ``"inf"`` and ``"-inf"``."""
        return {
            "target": _facts(self.target),
            "shadow": _facts(self.shadow),
            "confidence": self.confidence,
            "seed": self.seed,
            "strongest": self.strongest.attack.name,
            "blind": self.blind,
            "told_apart": self.told_apart(),
            "corrected_balanced_accuracy": estimate_fields(self.corrected()),
            "surest": surest_fields(self.surest()),
            "attacks": [attacked_fields(found) for found in self.attacked],
            "classes": [_part(part) for part in self.by_class],
            "groups": [_part(part) for part in self.by_group],
            "risk": self._risk(),
            "epsilon": self._epsilon(),
            "notes": list(self.notes),
            "versions": versions(),
        }

    def _risk(self) -> dict[str, Any] | None:
        if self.risks is None or self.reliability is None:
            return None
        found = self.reliability
        rows = zip(found.score, found.share, found.members, found.nonmembers, strict=True)
        return {
            "prior": self.risks.prior,
            "bins": self.risks.bins,
            "scale": self.risks.scale,
            "rmse": found.rmse,
            "calibration_error": estimate_fields(found.calibration_error),
            "reliability": [
                {"score": float(s), "share": float(p), "members": int(m), "nonmembers": int(n)}
                for s, p, m, n in rows
            ],
            "thresholds": [
                {
                    **vars(one),
                    "precision": None if one.precision is None else estimate_fields(one.precision),
                    "recall": estimate_fields(one.recall),
                }
                for one in self.guesses()
            ],
            "leakage": [
                {**vars(one), "leakage": estimate_fields(one.leakage)}
                for one in leakage(self.risks, self.target.member[0], confidence=self.confidence)
            ],
            "most_at_risk": self.most_at_risk(),
            "class_generalization": class_risk_fields(self.class_risks),
        }

    def _epsilon(self) -> dict[str, Any] | None:
        if self.epsilon is None:
            return None
        name, found = self.epsilon
        return {"attack": name, **found.to_dict()}


def names_of(table: SignalTable, asked: str, *, shadow: SignalTable | None = None) -> list[str]:
    """The attacks of a list with commas, or all that the tables allow for ``all``.

    Raises
    ------
    InputError
        If one of them does not exist or its signal is not there.
    """
    if asked.strip() == "all":
        theirs = applicable(table if shadow is None else shadow)
        return [name for name in applicable(table) if name in theirs]
    names = [name.strip() for name in asked.split(",")]
    for name in names:
        if name in NEURAL:
            continue  # the attack itself says what it lacks
        if name not in ATTACKS:
            raise InputError(
                f"there is no attack {name!r}",
                cure=f"name some of {', '.join([*ATTACKS, *NEURAL])}; or all",
                where="attacks",
            )
        table.signal(ATTACKS[name][0])
    return list(dict.fromkeys(names))


def rates_of(
    fprs: Sequence[float] | None, nonmembers: int, *, confidence: float | None = None
) -> tuple[list[float], list[str]]:
    """The false positive rates that are looked at, and what to say of them.

    Those that were asked for; or those of `FPRS` of which a nonmember at least is left. With
    a `confidence` the rates whose intervals have no lower end above 0 are named.

    Raises
    ------
    EstimationError
        If a rate that was asked for is below one nonmember.
    """
    chosen, notes = list(FPRS if fprs is None else fprs), []
    if fprs is None:
        chosen = [rate for rate in FPRS if rate * nonmembers >= 1]
        if len(chosen) < len(FPRS):
            notes.append(
                f"With {nonmembers:,} nonmembers no false positive rate below "
                f"{1 / nonmembers:.2g} can be seen, so none is shown"
            )
    for rate in chosen:
        check_rate(rate, nonmembers)
        needed = 1 if confidence is None else nonmembers_for_lower_end(rate, confidence=confidence)
        if nonmembers < needed:
            notes.append(
                f"At an FPR of {100 * rate:g} %, the interval of a TPR starts at 0 because "
                f"{nonmembers:,} nonmembers are too few for a lower end (it takes {needed:,}), "
                "not because there is no risk"
            )
    return chosen, notes


def survey(
    target: SignalTable,
    shadow: SignalTable,
    *,
    attacks: str = "all",
    fprs: Sequence[float] | None = None,
    confidence: float = 0.95,
    prior: float = 0.5,
    bins: int | None = None,
    scale: Scale = "log",
    least: int = 10,
    smooth: bool = False,
    seed: int = 0,
    coins: bool = False,
    guesses: int | None = None,
    delta: float = 0.0,
    stage: Stage = lambda name, total: lambda count: None,
) -> Survey:
    """Attack a target by what a shadow teaches, and score the risk of its samples.

    Parameters
    ----------
    target : SignalTable
        Of one model.
    shadow : SignalTable
        Of one or several.
    attacks : str
        Names with commas between them, or ``all`` that the signals allow.
    fprs : sequence of float, optional
        False positive rates to look at. Unless given, those of `FPRS` that the number of
        nonmembers allows.
    confidence : float
    prior, bins, scale, least, smooth
        Of the risk scores, as in `canary.membership.smoothing.chosen_risk_scores`.
    seed : int
        Of the neural attacks.
    coins : bool
        Whether a fair coin decided for each sample of the target by itself if it went in, and
        the shadow's data were chosen without regard to that. Then the attacks bound epsilon.
    guesses, delta
        Of that bound, as in `canary.membership.privacy.attack_epsilon`.
    stage : callable
        Told ``attacks`` and how many there are; gives what is told of every one that is done.

    Raises
    ------
    InputError
        If all samples of target or shadow are of one kind, the two do not fit, or they are
        of one model.
    EstimationError
        If a rate that was asked for is below one nonmember, or an option of the risk scores
        is out of range.
    """
    check_confidence(confidence, "survey")
    for table in (target, shadow):
        check_members(table.member, table.source)
    member = target.member[0]
    chosen, notes = rates_of(fprs, int((~member).sum()), confidence=confidence)
    shared = check_shadow(target, shadow)
    notes.extend(shared)
    doubts = doubts_of_pair(target, shadow)
    notes.extend(doubts)
    _check_coins(shared, coins=coins, guesses=guesses, delta=delta)
    entropies = all("modified-entropy" in table.values for table in (target, shadow))
    if not entropies:
        notes.append("Losses tell neither correctness nor entropies, nor risk scores")
    names = names_of(target, attacks, shadow=shadow)
    if attacks.strip() == "all" and entropies and NEURAL[0] not in names:
        notes.append("The outputs were not kept, so no network was trained on them")
    risks = trust = None
    if entropies:
        risks = chosen_risk_scores(
            target,
            shadow=shadow,
            prior=prior,
            bins=bins,
            scale=scale,
            least=least,
            smooth=smooth,
        )
        trust = reliability(risks, member, confidence=confidence)
        few = int(risks.pooled[np.unique(target.label)].sum())
        if few:
            notes.append(
                f"{few} of {target.classes} classes have fewer than {least} members or "
                "nonmembers in the shadow: their risk scores rest on all classes together"
            )
    attacked = []
    done = stage("attacks", len(names))
    for name in names:
        scores = attack(target, name, shadow=shadow, seed=seed)
        evaluation = evaluate(scores, member, confidence=confidence)
        points = tuple(evaluation.tpr_at_fpr(fpr) for fpr in chosen)
        attacked.append(Attacked(scores, evaluation, points))
        notes.extend(scores.notes)
        done(1)
    doubts += doubts_of_attacks([(a.attack, a.evaluation.roc) for a in attacked], shadow)
    best = max(attacked, key=lambda a: a.accuracy.value).attack
    epsilons = {}
    if coins:
        settings: dict[str, Any] = {
            "guesses": guesses,
            "delta": delta,
            "confidence": confidence,
            "attacks": len(attacked),
        }
        for one in attacked:
            bound = attack_epsilon(one.attack, member, coins=True, **settings)
            epsilons[one.attack.name] = bound
            notes.extend(bound.notes)
    found = Survey(
        target=target,
        shadow=shadow,
        attacked=tuple(attacked),
        by_class=tuple(evaluate_by(best, member, target.label, confidence=confidence)),
        by_group=()
        if target.group is None
        else tuple(evaluate_by(best, member, target.group, confidence=confidence)),
        risks=risks,
        reliability=trust,
        confidence=confidence,
        notes=tuple(dict.fromkeys([*notes, *doubts])),
        seed=seed,
        class_risks=None
        if risks is None
        else possible_class_risks(target, risks, confidence=confidence),
        epsilons=epsilons,
        doubts=doubts,
    )
    if found.told_apart() is not False:
        return found
    doubt, control = contrast(target, shadow)
    said = [one for one in (doubt, control) if one]
    return replace(found, notes=(*found.notes, *said), doubts=() if doubt is None else (doubt,))


def _check_coins(shared: Sequence[str], *, coins: bool, guesses: int | None, delta: float) -> None:
    """Refuse options of a bound on epsilon that is not asked for, or could not hold."""
    if not coins:
        if guesses is not None or delta:
            raise InputError(
                "guesses or delta without coins: no bound on epsilon is asked for",
                cure="say coins=True (--coin-flips) if fair coins chose the members, or leave "
                "them out",
                where="survey",
            )
        return
    if shared:
        raise InputError(
            f"from the shadow the attacks know coins that they are to guess. {shared[0]}",
            cure="train the shadow on other samples, or leave coins=True (--coin-flips) out",
            where="survey",
        )


def _facts(table: SignalTable) -> dict[str, Any]:
    return {
        "source": table.source,
        "models": table.models,
        "samples": table.samples,
        "members": int(table.member.sum()),
        "nonmembers": int((~table.member).sum()),
        "classes": table.classes,
        "accuracy_on_members": _share(table, inside=True),
        "accuracy_on_nonmembers": _share(table, inside=False),
    }


def _share(table: SignalTable, *, inside: bool) -> float | None:
    """Share of correct classifications among members, or nonmembers."""
    if "correctness" not in table.values:
        return None
    return float(table.values["correctness"][table.member == inside].mean())


def attacked_fields(found: Attacked) -> dict[str, Any]:
    """An attack and what it reaches as plain data."""
    learned = found.attack.thresholds
    return {
        "name": found.attack.name,
        "signal": found.attack.signal,
        "thresholds": None if learned is None else [_threshold(float(t)) for t in learned],
        "balanced_accuracy": estimate_fields(found.accuracy),
        "auc": estimate_fields(found.evaluation.auc),
        "largest_advantage": found.evaluation.roc.advantage(),
        "tpr_at_fpr": [_point(point) for point in found.points],
        "notes": list(found.attack.notes),
    }


def surest_fields(found: Surest | None) -> dict[str, Any] | None:
    """The surest attack as plain data, its interval widened for the choice."""
    return None if found is None else {"name": found.name, **_point(found.point)}


def _point(point: OperatingPoint) -> dict[str, Any]:
    return {
        "asked_fpr": point.asked_fpr,
        "fpr": point.fpr,
        "fpr_interval": dict(zip(("lower", "upper"), point.fpr_interval, strict=True)),
        "tpr": estimate_fields(point.tpr),
        "threshold": number_field(point.threshold),
        "true_positives": point.true_positives,
        "false_positives": point.false_positives,
        "members": point.members,
        "nonmembers": point.nonmembers,
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "value": part.value,
        "members": part.members,
        "nonmembers": part.nonmembers,
        "auc": None if part.auc is None else estimate_fields(part.auc),
        "balanced_accuracy": None if part.accuracy is None else estimate_fields(part.accuracy),
    }


def estimate_fields(found: Estimate) -> dict[str, float]:
    """A number with its interval as plain data."""
    return {"value": found.value, "lower": found.lower, "upper": found.upper}


def number_field(value: float) -> float | str:
    """A number as plain data; infinities are words."""
    return value if math.isfinite(value) else str(value)


def _threshold(value: float) -> float | str | None:
    """None for a threshold that calls nobody a member."""
    return None if math.isnan(value) else number_field(value)


def class_risk_fields(found: ClassRisks | None) -> dict[str, Any] | None:
    """Risk and generalization error of classes as plain data, by rising error."""
    if found is None:
        return None
    rows = zip(found.classes, found.error, found.risk, strict=True)
    return {
        "rank_correlation": estimate_fields(found.correlation.rank),
        "linear_correlation": estimate_fields(found.correlation.linear),
        "classes": [
            {"class": int(k), "generalization_error": float(e), "mean_risk_of_members": float(r)}
            for k, e, r in rows
        ],
    }


def risk_columns(table: SignalTable, risks: RiskScores) -> dict[str, NDArray[Any]]:
    """The columns of a table of risk scores, one row per sample."""
    return {
        "sample": np.arange(table.samples),
        "label": table.label,
        "member": table.member[0].astype(np.int8),
        "modified_entropy": table.signal("modified-entropy")[0],
        "risk": risks.scores,
    }
