"""What a comparison of models on a query set says: is it forgotten?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from canary.records.about import About, Named
from canary.records.record import to_plain
from canary.records.validation import versions
from canary.records.versioned_json import Saves
from canary.statistics.distances import lies_lower
from canary.statistics.numbers import Shown, percent_of, probability
from canary.statistics.roc import Estimate

KIND, SCHEMA = "canary forgetting", 1

Answer = Literal["forgotten", "no trace found", "something is left", "not forgotten", "undecided"]
Floats = NDArray[np.float64]

LEVEL = 0.05
"""At and below which a p-value counts."""

ENOUGH = math.ceil(1 / LEVEL - 1 - 1e-9)
"""Calibration models with which a p-value can count."""

ANSWERS: dict[str, Answer] = {
    "void": "undecided",
    "unseen_known": "undecided",
    "unproven": "undecided",
    "surpasses": "not forgotten",
    "not_forgotten": "not forgotten",
    "remembered": "something is left",
    "knowing": "undecided",
    "unlike": "undecided",
    "alike": "no trace found",
    "undecided": "undecided",
    "forgotten": "forgotten",
}
"""The answer of each outcome. Of several that hold, the first one counts."""


def recorded(files: Sequence[str], losses: Floats) -> dict[str, Any]:
    """What answers of some models were read from, and the SHA-256 of their losses."""
    data = np.ascontiguousarray(losses).tobytes()
    return {"files": [Path(file).name for file in files], "fingerprint": sha256(data).hexdigest()}


_WRITTEN = (
    *("rho", "lower", "confidence", "answer", "void", "surpasses", "unlike", "alike"),
    *("remembered", "knowing", "unproven", "unseen_known"),
    *("p", "p_unlike", "target", "calibration", "retrained", "floor", "auc", "samples"),
    *("unseen_needed",),
    *("resamples", "seed", "notes"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Forgetting(Named, Shown, Saves):
    """How the target compares with models that know the query set and models that do not.

    Parameters
    ----------
    rho, lower, upper, confidence : float
        Equation 4, with its interval: the target's distance from the query model over that of the
        calibration models; means where there are several. By the paper's rule the query set is
        forgotten from 1 on. `upper` is infinite where the denominator may be 0.
    target : float
        Distance of the target from the query model (equation 2).
    calibration, retrained : float64 array of shape (models,)
        Distance of each calibration model from the query model (equation 3), and of each model
        retrained without the query set, or None.
    floor : float or None
        Mean distance of the query models from each other: what a target would have that was
        trained on the query set alone. None with one of them.
    p : float
        p-value of "the target is to the query set as a calibration model is".
    p_unlike : float or None
        That of "the target answers as the calibration models do", in any direction, by its mean
        distance from them. None with fewer than two.
    auc : Estimate or None
        The chance that the target's loss is lower on a sample of the query set than on an unseen
        one.
    unseen_needed : int or None
        Unseen samples with which the attack would find the query set in a model that knows it as
        the query models do, with a chance of 80 %; None if there are as many or none, and 0 if no
        number is enough.
    losses : dict of str to float64 array of shape (models, samples)
        Of query, target, calibration and, if given, retrained models.
    chance : float
        Distance that equal distributions of this many samples exceed in one of twenty cases.
    resamples, seed : int
    notes : tuple of str
        What speaks against the answer.
    source : str
        The file that the target's answers were read from; empty of arrays.
    files : mapping of str to mapping
        For query, target, calibration and other answers, their files and the SHA-256 of the losses.
    about : About
        Names for its report (the corpus is the query set), and its date.
    """

    _kind, _schema = KIND, SCHEMA

    rho: float
    lower: float
    upper: float
    confidence: float
    target: float
    calibration: Floats
    retrained: Floats | None
    floor: float | None
    p: float
    p_unlike: float | None
    auc: Estimate | None
    losses: dict[str, Floats]
    chance: float
    resamples: int
    seed: int
    notes: tuple[str, ...]
    unseen_needed: int | None = None
    source: str = ""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    about: About = field(default_factory=About.today)

    def _table(self) -> list[dict[str, Any]]:
        mean = float(self.calibration.mean())
        groups = {"target": np.array([self.target]), "calibration": self.calibration}
        if self.retrained is not None:
            groups["retrained"] = self.retrained
        return [
            {"model": name, "distance": float(distance), "rho": float(distance) / mean}
            for name, distances in groups.items()
            for distance in distances
        ]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        for name in ("rho", "lower", "upper", "p", "p_unlike"):
            yield f"forgetting/{name}", getattr(self, name)
        if self.auc is not None:
            yield "forgetting/auc", self.auc.value

    @property
    def samples(self) -> int:
        """Samples of the query set."""
        return int(self.losses["target"].shape[1])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the target's losses, by which its answers are known again."""
        return sha256(np.ascontiguousarray(self.losses["target"]).tobytes()).hexdigest()

    @property
    def most_remainder(self) -> float | None:
        """The largest share of the query set that the target may still know; a bound at `LEVEL`.

        A target that never saw the query set has the distance of a calibration model. With a share
        s of its losses those of the query models, it has ``1 - s`` of that. So s is at most what
        would bring the farthest of these models to the target. No target is shown to know
        less than a typical one that never saw the set. None with too few calibration models.
        """
        allowed = int(LEVEL * (len(self.calibration) + 1) + 1e-9)
        if not allowed:
            return None
        farthest = float(np.sort(self.calibration)[-allowed])
        nearer = min(self.target, float(np.median(self.calibration)))
        return max(0.0, 1.0 - nearer / farthest)

    @property
    def forgotten(self) -> bool:
        """The paper's rule: whether rho is at least 1."""
        return self.rho >= 1.0

    @cached_property
    def outcome(self) -> str:
        """What there is to say: the first of `ANSWERS` that holds. All answers and pages follow it.

        Where the target knows the query set better than the query model does, it is as far from
        that model on the other side, and has not forgotten, unless the membership attack finds
        nothing. Of a comparison that is void nothing is decided.
        """
        attacked = None if self.auc is None else self.auc.lower > 0.5
        enough = 1 / (len(self.calibration) + 1) <= LEVEL
        other = 0.0 if self.p_unlike is None else self.p_unlike
        said = {
            "void": self.void,
            "unseen_known": self.auc is not None and self.auc.upper < 0.5,
            "unproven": (self.surpasses or self.upper < 1.0) and attacked is False,
            "surpasses": self.surpasses,
            "not_forgotten": self.upper < 1.0,
            "remembered": attacked is True,
            "knowing": bool(self._near),
            "unlike": self.p_unlike is not None and other <= LEVEL and self.forgotten,
            "alike": enough and min(self.p, other) > LEVEL,
            "undecided": self.lower < 1.0,
        }
        return next((name for name, holds in said.items() if holds), "forgotten")

    @property
    def answer(self) -> Answer:
        """The `outcome` in short."""
        return ANSWERS[self.outcome]

    @cached_property
    def void(self) -> bool:
        """Whether models that know the query set cannot be distinguished from those that do not.

        The calibration models are no farther away than chance allows, or their losses on the
        query set are not above those of the query model. Then no target could differ from them.
        """
        query, others = (float(np.median(self.losses[name])) for name in ("query", "calibration"))
        return float(self.calibration.mean()) <= self.chance or query >= others

    @cached_property
    def surpasses(self) -> bool:
        """Whether the target's losses are below those of most query models, beyond chance."""
        target = self.losses["target"][0]
        lower = [lies_lower(target, query) for query in self.losses["query"]]
        beyond = self.target > self.chance and 2 * sum(lower) > len(lower)
        return beyond and not self.void

    @property
    def swapped(self) -> bool:
        """Whether it is void, and the target alone answers as if it knew the query set.

        Then the query model is nearly a calibration model: it may be the target.
        """
        target, query = (float(np.median(self.losses[name])) for name in ("target", "query"))
        near = float(self.calibration.max()) < self.target / 2.0
        return self.void and near and self.target > self.chance and target < query

    @property
    def unlike(self) -> bool:
        """Whether rho is 1 or more, and yet it differs from the calibration models: undecided."""
        return self.outcome == "unlike"

    @property
    def alike(self) -> bool:
        """Whether the target cannot be distinguished from the calibration models, if enough.

        For a target that never saw the query set rho is 1 up to chance: that it is among the
        calibration models is what can be shown. It takes 19 of them, and no membership attack that
        finds something.
        """
        return self.outcome == "alike"

    @property
    def remembered(self) -> bool:
        """Whether it does not count as not forgotten, and yet the membership attack finds it.

        A model that was made worse for all samples can be as far from the query model as one that
        never saw the query set. A query set that is easier than unseen samples looks the same.
        """
        return self.outcome == "remembered"

    @cached_property
    def _near(self) -> tuple[str, ...]:
        """Calibration models half as far from the query models as the middle one, or closer.

        And beyond the spread of the others, by six robust standard deviations.
        """
        distances = self.calibration
        middle = float(np.median(distances))
        spread = max(1.4826 * float(np.median(np.abs(distances - middle))), self.chance / 4.0)
        most = min(middle / 2.0, middle - 6.0 * spread)
        names = self.files.get("calibration", {}).get("files", ())
        return tuple(
            names[row] if row < len(names) else f"model {row + 1}"
            for row in np.flatnonzero(distances <= most)
        )

    @property
    def knowing(self) -> tuple[str, ...]:
        """Calibration models that answer as if they knew the query set: undecided.

        They bring the distance of those that never saw it down, so that a target that knows a part
        of it looks like them.
        """
        return self._near if self.outcome == "knowing" else ()

    @property
    def unproven(self) -> bool:
        """Whether its losses are those of a model that knows it, and no attack finds it: undecided.

        The distance falls also for a target that was trained on other data of the query
        set's own kind, if the calibration models were not.
        """
        return self.outcome == "unproven"

    @property
    def unseen_known(self) -> bool:
        """Whether it knows the unseen samples better than the query set: undecided.

        They may have been in its training, be easier, or the target was pushed away from the set;
        one honest target in 40 gets this by chance.
        """
        return self.outcome == "unseen_known"

    def summary(self) -> str:
        """The answer in three sentences at most."""
        if self.void:
            return (
                "Nothing is decided: the calibration models answer on the query set nearly as the "
                f"query model does, so no target could differ from them. rho is {self.rho:.2f}, "
                "and says nothing here."
            )
        upper = f"{self.upper:.2f}" if math.isfinite(self.upper) else "no upper end"
        number, closer = len(self.calibration), int((self.calibration <= self.target).sum())
        which = (
            f"Of {number} calibration models {closer or 'none'} {'is' if closer <= 1 else 'are'}"
        )
        if number == 1:
            which = f"The one calibration model is{'' if closer else ' not'}"
        rule = "The paper's rule does not decide whether the query set is forgotten"
        if self.upper < 1.0 or self.lower >= 1.0:
            alone = "" if self.answer in ("forgotten", "not forgotten") else " alone"
            has = "has not" if self.upper < 1.0 else "has"
            rule = f"By the paper's rule{alone} the target {has} forgotten the query set"
        limit = "and 1 is the limit"
        if self.alike:
            tried = ", but nobody tried to pick it out (--unseen)"
            if self.auc is not None:
                few = ", but an attack with so few unseen samples could miss it"
                tried = "" if self.unseen_needed is None else few
            rule = f"No trace of the query set was found{tried}"
            limit = "about 1 for models that never saw it"
        first = (
            f"{rule}: rho is {self.rho:.2f} ({self.lower:.2f} to {upper}), {limit}. "
            f"{which} as close to the query model as the target: p = {probability(self.p)}."
        )
        if self.surpasses:
            done = "" if self.unproven else " has not forgotten the query set: it"
            first = (
                f"The target{done} has losses on the query set that are even lower than those of "
                f"the query model. rho is {self.rho:.2f}, but takes distances in either "
                "direction, and says nothing here."
            )
        p_unlike, attack = probability(self.p_unlike or 0.0), ""
        if self.auc is not None:
            ends = f"{100 * self.auc.lower:.1f} to {100 * self.auc.upper:.1f}"
            attack = f"AUC {percent_of(self.auc.value)}, {ends}"
        last = {
            "remembered": " But its losses on the query set are lower than on samples that it "
            f"never saw ({attack}): unless the set is easier than these, something is left of it.",
            "unseen_known": " But its losses on the samples that it never saw (--unseen) are lower "
            f"than on the query set ({attack}): it may have been trained on them, or they "
            "are easier.",
            "knowing": " But calibration models answer as if they knew the query set: "
            f"{', '.join(self.knowing)}.",
            "unlike": f" But it does not answer as they do either (p = {p_unlike}): one that never "
            "saw the query set would.",
            "alike": f" It differs from them in no direction (p = {p_unlike}): it answers as a "
            "model that never saw the query set.",
            "unproven": " But its losses on the query set are not shown to be lower than on "
            f"samples that it never saw ({attack}): training on other data like the query set "
            "would do that.",
        }.get(self.outcome, "")
        return f"{first}{last}"

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, without the losses; no upper end is None."""
        return {
            **{name: to_plain(getattr(self, name)) for name in _WRITTEN},
            "upper": self.upper if math.isfinite(self.upper) else None,
            "forgotten_by_the_rule": self.forgotten,
            "chance_distance": self.chance,
            "most_remainder": self.most_remainder,
            "target_source": self.source,
            "target_fingerprint": self.fingerprint,
            "answers": dict(self.files),
            "query_models": len(self.losses["query"]),
            "about": self.about.to_dict(),
            "versions": versions(),
        }
