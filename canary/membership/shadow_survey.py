"""All attacks on one target by one shadow, with the risk scores, as one result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from canary.errors import InputError
from canary.membership.analysis import (
    ClassRisks,
    Guesses,
    leakage,
    overstated,
    possible_class_risks,
    precision_recall,
)
from canary.membership.association import check_shadow, contrast, unmatched
from canary.membership.attacking import named_attacks, scored
from canary.membership.doubts import (
    POSITIVE_CONTROL,
    doubts_of_pair,
)
from canary.membership.evaluation import Part, evaluate, evaluate_by
from canary.membership.own_labels import sorted_rows
from canary.membership.privacy import AttackEpsilon, attack_epsilon
from canary.membership.risk import Reliability, RiskScores, Scale, reliability, risk_scores
from canary.membership.samples_needed import rates_of
from canary.membership.singled_out import SingledOut, singled_out
from canary.membership.survey import (
    SCHEMA,
    Attacked,
    OneTargetSurvey,
    Outcome,
    plain,
    rows_of,
)
from canary.membership.unlike import HIDES
from canary.records.progress import Progress, shows_progress, stage
from canary.records.versioned_json import Saves
from canary.signals.measuring import TableOrPath, table_of
from canary.signals.output_checks import check_members
from canary.signals.signal_table import SignalTable, table_facts
from canary.statistics.epsilon import Mechanism
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import percent_of, picked
from canary.statistics.roc import Estimate, balanced_accuracy

KIND = "canary membership"
_MOST = 20


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ShadowSurvey(OneTargetSurvey, Saves):
    """What attacks on a target by a shadow found; see `Survey`.

    Of one `target` model, by one or several of `shadow`. `by_class` and `by_group` have the
    strongest attack on each of these, if there are groups. `risks` and `reliability` are None where
    there is no modified entropy, or the test is void, `class_risks` where too few classes differ.
    `epsilons` are lower bounds by each attack, where coins chose the members, at a confidence that
    allows for how many attacks were tried.
    """

    target: SignalTable
    shadow: SignalTable
    by_class: tuple[Part, ...]
    by_group: tuple[Part, ...]
    risks: RiskScores | None
    reliability: Reliability | None
    average_name = "balanced accuracy"
    kind = "shadow"
    _kind, _schema = KIND, SCHEMA

    class_risks: ClassRisks | None = None
    epsilons: Mapping[str, AttackEpsilon] = field(default_factory=dict)

    def average_of(self, one: Attacked, confidence: float) -> Estimate:
        """The balanced accuracy of its guesses."""
        assert one.attack.guess is not None
        return balanced_accuracy(one.attack.guess, self.target.member[0], confidence=confidence)

    @property
    def blind(self) -> bool:
        """Whether no attack was taught by samples or splits that the target shares."""
        return all(one.attack.blind for one in self.attacked)

    def told_apart(self) -> bool | None:
        """As of every survey; None too where attacks may know something of the answers."""
        return super().told_apart() if self.blind else None

    def outcome(self) -> Outcome:
        """As of every survey; void where attacks may know something of the answers."""
        return super().outcome() if self.blind else "void"

    def why_open(self) -> tuple[str, ...]:
        """As of every survey; where it is void, what target and shadow share."""
        shared = [one.attack.notes[0] for one in self.attacked if not one.attack.blind]
        return tuple(shared[:1]) or super().why_open()

    @property
    def epsilon(self) -> tuple[str, AttackEpsilon] | None:
        """The largest lower bound on epsilon and the name of its attack; None without coins.

        It is above the truth in at most ``1 - confidence`` of training runs, though it is the
        largest of k.
        """
        return max(self.epsilons.items(), key=lambda item: item[1].epsilon, default=None)

    def singled_out(self, fpr: float | None = None) -> SingledOut:
        """The members that the best attack at a false positive rate singles out.

        Unless given, `fpr` is that of `surest`. `to_frame` has their places, ids and classes, the
        highest score first. An EstimationError if `fpr` is below one non-member.

        Examples
        --------
        >>> survey("target.npz", "shadow.npz").singled_out(0.001).to_frame()  # doctest: +SKIP
        """
        surest = self.surest()
        asked = fpr if fpr is not None else 1.0 if surest is None else surest.fpr
        at = {one.name: one.evaluation.tpr_at_fpr(asked) for one in self.attacked}
        best = max(self.attacked, key=lambda one: at[one.name].tpr.value)
        chance = best.evaluation.roc.tpr_at_fpr(asked, confidence=self.each).tpr.lower <= asked
        score, point = best.attack.scores, at[best.name]
        return singled_out(self.target, best.name, score, point, may_be_chance=chance)

    def most_at_risk(self, most: int = _MOST) -> list[dict[str, Any]]:
        """The members of the highest risk, and of those the lowest modified entropy first.

        Scores that rest on few shadow samples come last.
        """
        if self.risks is None:
            return []
        entropy = self.target.signal("modified-entropy")[0]
        inside = np.flatnonzero(self.target.member[0])
        thin = self.risks.thin[inside]
        order = inside[np.lexsort((entropy[inside], -self.risks.scores[inside], thin))][:most]
        names = {} if self.target.ids is None else {"id": self.target.ids[order]}
        columns = {
            "sample": order,
            **names,
            "label": self.target.label[order],
            "modified_entropy": entropy[order],
            "risk": self.risks.scores[order],
        }
        if self.risks.support is not None:
            columns["support"] = self.risks.support[order]
        return rows_of(columns)

    def as_risky(self) -> tuple[int, int]:
        """Members and non-members whose score is that of the last of `most_at_risk`, or higher."""
        if self.risks is None or not (listed := self.most_at_risk()):
            return 0, 0
        high, member = self.risks.scores >= listed[-1]["risk"], self.target.member[0]
        return int((high & member).sum()), int((high & ~member).sum())

    def guesses(self) -> list[Guesses]:
        """Precision and recall of guessing by the risk score, as in table 6 of the paper."""
        if self.risks is None:
            return []
        return precision_recall(self.risks, self.target.member[0], confidence=self.confidence)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data; infinities are the words ``"inf"`` and ``"-inf"``."""
        epsilon = self.epsilon
        return {
            **self._answer(),
            "target": table_facts(self.target),
            "shadow": table_facts(self.shadow),
            "blind": self.blind,
            "corrected_balanced_accuracy": plain(self.corrected()),
            "classes": [_part_fields(part) for part in self.by_class],
            "groups": [_part_fields(part) for part in self.by_group],
            "risk": self._risk(),
            "epsilon": None if epsilon is None else {"attack": epsilon[0], **epsilon[1].to_dict()},
        }

    def _risk(self) -> dict[str, Any] | None:
        if self.risks is None or self.reliability is None:
            return None
        trust, member = self.reliability, self.target.member[0]
        trusted = picked(trust, "score", "share", "members", "nonmembers")
        return {
            **picked(self.risks, "prior", "bins", "scale"),
            "rmse": trust.rmse,
            "calibration_error": plain(trust.calibration_error),
            "reliability": rows_of(trusted),
            "thresholds": plain(self.guesses()),
            "leakage": plain(leakage(self.risks, member, confidence=self.confidence)),
            "most_at_risk": self.most_at_risk(),
            "class_generalization": class_risk_fields(self.class_risks),
        }


@shows_progress
def survey(
    target: TableOrPath,
    shadow: TableOrPath,
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
    mechanism: Mechanism = "any",
    progress: Progress = None,
) -> ShadowSurvey:
    """Attack a target by what a shadow teaches, and score the risk of its samples.

    This is the command ``canary membership attack``. `canary.report` writes the page of what
    comes out, and `canary.check` compares it with limits.

    Parameters
    ----------
    target, shadow : SignalTable or path
        Of one model; of one or several. A path is measured first.
    attacks : str
        Names with commas between them, or ``all`` that the signals allow.
    fprs : sequence of float, optional
        False positive rates to look at. Unless given, those of
        `canary.membership.samples_needed.FPRS` that the number of non-members allows.
    confidence : float
    prior, bins, scale, least, smooth
        Of the risk scores, as in `canary.membership.risk.risk_scores`.
    seed : int
        Of the neural attacks.
    coins : bool
        Whether an independent fair coin decided for each sample of the target if it went in,
        and the shadow's data were chosen without regard to that. Then the attacks bound epsilon.
    guesses, delta, mechanism
        Of that bound, as in `canary.membership.privacy.attack_epsilon`.
    progress : callable or bool, optional
        Called with rounds of ``attacks``; see `canary.records.progress.Progress`.

    Raises
    ------
    InputError
        If all samples of target or shadow are of one kind, the two do not fit, or they are
        of one model.
    EstimationError
        If a rate that was asked for is below one non-member, or an option of the risk scores
        is out of range.

    Examples
    --------
    >>> survey("target.npz", "shadow.npz").told_apart()  # doctest: +SKIP
    True
    """
    check_confidence(confidence, "survey")
    target, shadow = table_of(target, "target"), table_of(shadow, "shadow")
    for table in (target, shadow):
        check_members(table.member, table.source)
    member = target.member[0]
    shared = check_shadow(target, shadow)
    asked: dict[str, Any] = {"guesses": guesses, "delta": delta, "mechanism": mechanism}
    if not coins and asked != {"guesses": None, "delta": 0.0, "mechanism": "any"}:
        raise InputError(
            "guesses, delta or mechanism without coins: no bound on epsilon is asked for",
            cure="say coins=True (--coin-flips) if fair coins chose the members, or leave them out",
            where="survey",
        )
    if coins and shared:
        raise InputError(
            f"from the shadow the attacks know coins that they are to guess. {shared[0]}",
            cure="train the shadow on other samples, or leave coins=True (--coin-flips) out",
            where="survey",
        )
    names = named_attacks(target, attacks, shadow=shadow)
    others, doubts = int((~member).sum()), doubts_of_pair(target, shadow)
    rates, notes = rates_of(fprs, others, confidence=confidence, attacks=len(names))
    notes += [*shared, *doubts, *([] if shared else unmatched(target, shadow))]
    entropies = all("modified-entropy" in table.values for table in (target, shadow))
    if not entropies:
        notes.append("Losses alone give neither correctness nor entropies, nor risk scores")
    kept = target.outputs is not None and shadow.outputs is not None
    topical = "modified-entropy" in names
    if attacks.strip() == "all" and entropies and not kept:
        notes.append(
            "The attacks by a neural network were left out: they need the outputs of all classes, "
            "which were not kept (keep_outputs=True in Python; the command keeps those of files "
            "of up to 1 GB)"
        )
    risks = trust = classes = None
    if entropies and not shared:
        risks = risk_scores(
            target, shadow=shadow, prior=prior, bins=bins, scale=scale, least=least, smooth=smooth
        )
        trust = reliability(risks, member, confidence=confidence)
        classes = possible_class_risks(target, risks, confidence=confidence)
        notes += [] if doubts or not topical else overstated(risks, member, confidence=confidence)
        if few := int(risks.pooled[np.unique(target.label)].sum()):
            notes.append(
                f"{few} of {target.classes} classes have fewer than {least} members or "
                "non-members in the shadow: their risk scores rest on all classes together"
            )
    attacked, epsilons, done = [], {}, stage(progress, "attacks", len(names), "rounds")
    for name in names:
        scores = scored(target, name, shadow=shadow, seed=seed).guessing()
        evaluation = evaluate(scores, member, confidence=confidence)
        attacked.append(Attacked(scores, evaluation, tuple(map(evaluation.tpr_at_fpr, rates))))
        notes += scores.notes
        done(1)
    doubts += _unfit_thresholds(attacked, shadow)
    if coins:
        for one in attacked:
            asked |= {"coins": True, "confidence": confidence, "attacks": len(attacked)}
            epsilons[one.name] = attack_epsilon(one.attack, member, **asked)
            notes += epsilons[one.name].notes
    best = max(attacked, key=lambda one: one.accuracy.value).attack
    by_class, by_group = (
        () if column is None else tuple(evaluate_by(best, member, column, confidence=confidence))
        for column in (target.label, target.group)
    )
    result = ShadowSurvey(
        target=target,
        shadow=shadow,
        attacked=tuple(attacked),
        by_class=by_class,
        by_group=by_group,
        risks=risks,
        reliability=trust,
        class_risks=classes,
        confidence=confidence,
        notes=tuple(dict.fromkeys([*notes, *doubts])),
        seed=seed,
        epsilons=epsilons,
        doubts=doubts,
    )
    if result.told_apart() is not False:
        return result
    if (doubt := contrast(target, shadow)) is None:
        return replace(result, notes=(*result.notes, *sorted_rows(target), POSITIVE_CONTROL))
    return replace(result, notes=(*result.notes, doubt), doubts=(doubt,))


def _unfit_thresholds(attacked: Sequence[Attacked], shadow: SignalTable) -> tuple[str, ...]:
    """A note if an attack is far less right than its signal allows: less than half as good.

    Of the attacks whose signals reach most. Beyond chance: three standard errors of both models.
    """
    curve, inside = attacked[0].evaluation.roc, int(shadow.member.sum())
    counts = (curve.members, curve.nonmembers, inside, shadow.member.size - inside)
    chance = max(0.1, 1.5 * math.sqrt(sum(1.0 / count for count in counts)))
    found = []
    for one in attacked:
        if one.attack.guess is not None and one.attack.thresholds is not None:
            curve = one.evaluation.roc
            reach = float((curve.tpr - curve.fpr).max())
            found.append((reach, 2.0 * one.accuracy.value - 1.0, one.name))
    most = max((reach for reach, *_ in found), default=0.0)
    far = [
        one for one in found if one[0] >= 0.8 * most and one[0] > max(2.0 * one[1], one[1] + chance)
    ]
    if not far:
        return ()
    reach, got, name = max(far, key=lambda one: one[0] - one[1])
    right = [percent_of((1.0 + advantage) / 2.0) for advantage in (got, reach)]
    return (
        f"By the thresholds of the shadow the attack {name} is right in {right[0]} of cases "
        f"(balanced accuracy), and by the best ones in {right[1]}: the thresholds of the shadow "
        "do not fit the target, as where only one model's outputs were calibrated (temperature). "
        f"Then {HIDES}. Check that the outputs of both are in the same units: logits, "
        "probabilities or losses, on the same scale",
    )


def _part_fields(part: Part) -> dict[str, Any]:
    fields: dict[str, Any] = plain(part)
    fields["balanced_accuracy"] = fields.pop("accuracy")
    return fields


def class_risk_fields(risks: ClassRisks | None) -> dict[str, Any] | None:
    """Risk and generalization error of classes as plain data, by rising error."""
    if risks is None:
        return None
    columns = {
        "class": risks.classes,
        "generalization_error": risks.error,
        "mean_risk_of_members": risks.risk,
    }
    return {
        "rank_correlation": plain(risks.correlation.rank),
        "linear_correlation": plain(risks.correlation.linear),
        "classes": rows_of(columns),
    }
