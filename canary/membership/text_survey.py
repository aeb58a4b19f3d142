"""All attacks on the texts of a language model, beside what their words alone show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.attacking import attack
from canary.membership.doubts import POSITIVE_CONTROL, SURE, upside_down
from canary.membership.evaluation import Evaluation, evaluate
from canary.membership.samples_needed import rates_of
from canary.membership.survey import (
    Attacked,
    OneTargetSurvey,
    Outcome,
    plain,
    rows_of,
)
from canary.membership.words_alone import FOLDS, WordsAlone, by_columns, words_alone
from canary.membership.words_alone import LEVEL as DIFFER
from canary.records.progress import Progress, shows_progress, stage
from canary.signals.text import TEXT_SIGNALS
from canary.signals.text_measuring import TextTable
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import probability
from canary.statistics.roc import Estimate, balanced_accuracy, roc

KIND = "canary membership text"

LEVEL = 0.01
"""p-values up to this say that members as a whole look different to the model."""

DEALINGS = 999
"""Times that the flags are dealt anew for the p-value of all members together."""

_MOST = 20


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TextSurvey(OneTargetSurvey):
    """What attacks on texts found; see `Survey`.

    AUC and rates of an attack are for all texts. Its balanced accuracy is for one half of them,
    with a threshold learned on the other half. `words` is the result of a bag-of-words classifier
    that sees no model; `length` says how well the number of tokens separates members. `together`
    is the same regression on the signals, a test of all members at once; None of too few signals.
    `lines` of
    shape (samples,) names each text by its line or position.
    """

    measured: TextTable
    words: WordsAlone
    length: Evaluation
    lines: NDArray[np.int64]
    together: WordsAlone | None = None
    kind = "texts"

    @property
    def member(self) -> NDArray[np.bool_]:
        """Whether the model was trained on each text."""
        return np.asarray(self.measured.table.member[0])

    def against(self) -> tuple[str, ...]:
        """What speaks against the files: the doubts, and words that differ without any model."""
        warning = self.warning() if self.differ_without_model() else None
        return self.doubts if warning is None else (*self.doubts, warning)

    def differ_without_model(self) -> bool:
        """Whether words alone separate members from non-members, by the permutation test."""
        return self.words.differ

    @property
    def model(self) -> dict[str, Any]:
        """The facts of the attacked model."""
        facts: dict[str, Any] = self.measured.settings["model"]
        return facts

    def differ_in_length(self) -> bool:
        """Whether members are longer or shorter than non-members, by the interval of the AUC."""
        return not self.length.auc.lower <= 0.5 <= self.length.auc.upper

    def no_better_than_words(self) -> bool:
        """Whether the strongest attack is not clearly better than words alone."""
        return self.words.auc.value > 0.5 and self.words.auc.upper >= self.corrected().lower

    def outcome(self) -> Outcome:
        """As of every survey; void where words alone do as well, undecided where they may."""
        if self.differ_without_model() and self.no_better_than_words():
            return "void"
        return "undecided" if self.told_apart() and self.doubted() else super().outcome()

    def dataset(self) -> Literal["seen", "undecided", "void"] | None:
        """Whether the file of members, as a whole, was in the training data (Maini et al. 2024).

        *Void* if words alone separate the files, and *undecided* also if lengths do, or there are
        doubts. It is never that it was not. None without `together`.
        """
        if self.together is None:
            return None
        if self.differ_without_model():
            return "void"
        shown = self.together.p <= LEVEL and not self.doubts and not self.differ_in_length()
        return "seen" if shown else "undecided"

    def warning(self) -> str | None:
        """What a reader must know of words alone before believing an attack; None if nothing."""
        if self.differ_without_model():
            return (
                "Members and non-members differ without any model: a bag of words separates them "
                f"with an AUC of {_said(self.words.auc)}, p = {probability(self.words.p)}. The "
                "attacks may see that difference and no memorization; take both from one source. "
                f"Random parts of one source have p of {DIFFER:g} or less one time in "
                f"{1 / DIFFER:.0f}: if these are, use all your texts first"
            )
        if self.told_apart() and self.no_better_than_words():
            return (
                "The strongest attack is not clearly better than a bag of words without any "
                f"model, whose AUC is {_said(self.words.auc)}: more texts would decide it"
            )
        return None

    def why_open(self) -> tuple[str, ...]:
        """That words or lengths differ, or may be all that is seen; empty where it is decided."""
        if self.outcome() not in ("undecided", "void"):
            return ()
        return tuple(filter(None, (self.warning(), self.length_warning())))

    def length_warning(self) -> str | None:
        """What a reader must know of the lengths of the texts; None if they do not differ."""
        if not self.differ_in_length():
            return None
        auc = self.length.auc
        which = "longer" if auc.value > 0.5 else "shorter"
        seen = [one.name for one in self.attacked if TEXT_SIGNALS[one.name].sees == "length"]
        told = f", and may be all that {', '.join(seen)} sees" if seen else ""
        return (
            f"Members are {which} than non-members: of a member and a non-member the member has "
            f"more tokens in {_said(auc)} of cases, where 0.5 is chance. That is seen without the "
            f"model{told}. If both files are random parts of one source, "
            "this warning of lengths is a false alarm, as in "
            f"{100 * (1 - self.confidence):.3g} % of such tests; if not, take both from "
            "one source at random"
        )

    def doubted(self) -> bool:
        """Whether the best attacks may see words or lengths that differ without any model."""
        best = {self.strongest.name, self.lead.name}
        by_length = any(TEXT_SIGNALS[name].sees == "length" for name in best)
        return (by_length and self.differ_in_length()) or self.warning() is not None

    def most_member_like(self, most: int = _MOST) -> list[dict[str, Any]]:
        """The members that the leading attack is surest of: line, tokens, and signal."""
        attack = self.lead.attack
        inside = np.flatnonzero(self.member)
        order = inside[np.argsort(-attack.scores[inside], kind="stable")][:most]
        values = self.measured.table.signal(attack.signal)[0]
        tokens = self.measured.tokens[order]
        return rows_of({"line": self.lines[order], "tokens": tokens, "value": values[order]})

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data; infinities are the words ``"inf"`` and ``"-inf"``."""
        kinds = (("members", self.member), ("nonmembers", ~self.member))
        return {
            **self.measured.settings,
            **{name: int(inside.sum()) for name, inside in kinds},
            **{f"tokens_of_{n}": int(self.measured.tokens[inside].sum()) for n, inside in kinds},
            **self._answer(),
            "corrected_auc": plain(self.corrected()),
            "words": {
                "auc": plain(self.words.auc),
                "p": self.words.p,
                "permutations": self.words.permutations,
                "folds": FOLDS,
                "differ_without_model": self.differ_without_model(),
                "no_better_than_words": self.no_better_than_words(),
            },
            "dataset": None
            if self.together is None
            else {
                "outcome": self.dataset(),
                "auc": plain(self.together.auc),
                "p": self.together.p,
                "permutations": self.together.permutations,
            },
            "length": {"auc": plain(self.length.auc), "differ_in_length": self.differ_in_length()},
            "warning": self.warning(),
            "length_warning": self.length_warning(),
            "most_member_like": self.most_member_like(),
        }


@shows_progress
def survey_texts(
    measured: TextTable,
    texts: Sequence[str],
    *,
    lines: NDArray[np.int64] | None = None,
    fprs: Sequence[float] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress = None,
) -> TextSurvey:
    """Every attack that the signals allow, and what words alone can do.

    Parameters
    ----------
    measured : TextTable
    texts : sequence of str
        The texts that were measured, those that were left out among them.
    lines : ndarray of int64 of shape (texts,), optional
        What each text is called in results; its position, from 0, unless given.
    fprs : sequence of float, optional
        False positive rates to look at. Unless given, those of
        `canary.membership.samples_needed.FPRS` that the number of non-members allows.
    confidence : float
    seed : int
        Of the halves, the folds and the permutations.
    progress : callable or bool, optional
        Called with rounds of ``attacks``; see `canary.records.progress.Progress`.

    Raises
    ------
    InputError
        If there are fewer texts than were measured.
    EstimationError
        If members or non-members are too few, or a rate that was asked for is below one
        non-member.
    """
    check_confidence(confidence, "survey_texts")
    table, member = measured.table, measured.table.member[0]
    if len(texts) <= int(measured.kept.max()):
        raise InputError(
            f"{len(texts)} texts were given and {int(measured.kept.max()) + 1} or more measured",
            cure="give the texts that were measured",
            where="survey_texts",
        )
    names = [name for name in TEXT_SIGNALS if name in table.values]
    others = int((~member).sum())
    rates, notes = rates_of(fprs, others, confidence=confidence, attacks=len(names))
    chosen = [texts[at] for at in measured.kept.tolist()]
    taught = [name for name in names if TEXT_SIGNALS[name].sees != "length"]
    done = stage(progress, "attacks", FOLDS * (1 + bool(taught)) + len(names), "rounds")
    words = words_alone(chosen, member, seed=seed, confidence=confidence, done=done)
    together = None
    if taught:
        columns = np.stack([table.signal(name)[0] for name in taught], axis=1)
        together = by_columns(
            chosen, columns, member,
            seed=seed, confidence=confidence, permutations=DEALINGS, done=done,
        )  # fmt: skip
    teaching, judged = _halves(member, seed)
    attacked = []
    for name in names:
        scores = attack(table, name)
        learned = attack(table.select(samples=judged), name, shadow=table.select(samples=teaching))
        assert learned.guess is not None
        accuracy = balanced_accuracy(learned.guess, member[judged], confidence=confidence)
        evaluation = replace(evaluate(scores, member, confidence=confidence), accuracy=accuracy)
        points = tuple(evaluation.tpr_at_fpr(rate) for rate in rates)
        scores = replace(scores, thresholds=learned.thresholds)
        attacked.append(Attacked(scores, evaluation, points))
        done(1)
    by_loss = {o.name: o.auc_at for o in attacked if TEXT_SIGNALS[o.name].sees == "loss"}
    doubts = (*measured.doubts, *upside_down(by_loss, "files"))
    if measured.beside is not None:
        auc = roc(-measured.beside, member).auc(confidence=SURE)
        if auc.lower > 0.5:
            doubts += (
                f"The loss of the reference model is lower for the member in {100 * auc.value:.1f} "
                "% of pairs of a member and a non-member, where chance is 50 %: it was trained on "
                "members, too, or they are easier than non-members for any model. If it was "
                "trained on them, the figures of the attack reference are lower bounds. Name a "
                "reference that never saw the members",
            )
    result = TextSurvey(
        measured=measured,
        attacked=tuple(attacked),
        words=words,
        length=evaluate(measured.tokens, member, confidence=confidence),
        confidence=confidence,
        seed=seed,
        lines=measured.kept if lines is None else lines[measured.kept],
        together=together,
        notes=tuple(dict.fromkeys((*measured.notes, *notes, *doubts))),
        doubts=doubts,
    )
    if result.told_apart() is not False:
        return result
    return replace(result, notes=(*result.notes, POSITIVE_CONTROL))


def _halves(member: NDArray[np.bool_], seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Two random halves of the texts, each with half of the members."""
    rng = np.random.default_rng((seed, 1))
    orders = [rng.permutation(np.flatnonzero(member == flag)) for flag in (True, False)]
    first = np.concatenate([order[: len(order) // 2] for order in orders])
    second = np.concatenate([order[len(order) // 2 :] for order in orders])
    return np.sort(first), np.sort(second)


def _said(auc: Estimate) -> str:
    """An AUC in words."""
    return f"{auc.value:.3f} ({auc.lower:.3f} to {auc.upper:.3f})"
