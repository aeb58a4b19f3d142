"""Inputs of a forgetting test that cannot be right, and what speaks against its answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.sharing import repeated_models
from canary.signals.loss_tables import Answers, shared_samples
from canary.statistics.numbers import count, percent_of, plural
from canary.statistics.roc import roc

_FEW, _FEW_MODELS = 100, 5
FEWEST = 8
"""Samples below which nothing is said."""

_POWER = 0.8
"""Chance with which the attack must find a query set that is known."""

_GUESSED = 0.01
"""Chance of as many right answers up to which it is no guessing."""

_WELL = 0.9
_CEILING = 0.98

_MAY_BE_ONE = {("target", "retrained"), ("calibration", "retrained")}
"""A target may be one of the retrained models: a control."""

_GRADED = 8
"""Different losses from which on equal ones are no chance."""

_DIGITS, _UNITS, _BITS, _RARE = 4, 3, 2.0**-21, 1e-9
"""The most digits that are looked for, by how many units of the last one the sum of a rounded row
may be off, what single precision leaves open of a probability, and how rarely unrounded numbers may
look rounded."""

Floats = NDArray[np.float64]


def check_apart(query_data: Iterable[Any] | None, calibration_data: Iterable[Any] | None) -> None:
    """Refuse sets that share samples, or one without the other."""
    if query_data is None and calibration_data is None:
        return
    if query_data is None or calibration_data is None:
        raise InputError(
            "one of query_data and calibration_data was given",
            cure="give both, to be compared, or none",
            where="forgotten",
        )
    both = shared_samples(query_data, calibration_data)
    if len(both):
        raise InputError(
            f"{plural(len(both), 'sample')} of the query set, the first at {both[0]}, "
            f"{'is' if len(both) == 1 else 'are'} in the calibration set too: its models know "
            "what they should not",
            cure="take them out of the calibration set and train its models again",
            where="forgotten",
        )


def check_flags(read: Mapping[str, Answers], roles: Mapping[str, str]) -> None:
    """Refuse flags of members that contradict the role of a model.

    A model of which no sample is flagged says nothing by that: `canary.measure` asks for flags.
    """
    for name, answers in read.items():
        for flagged, source in zip(answers.members, answers.sources, strict=True):
            against, what = flagged, "members of the tested model"
            cure = "give only samples that the tested model never saw"
            if name in ("calibration", "retrained"):
                what = f"members of a {roles[name]}, which must not have been trained on them"
                cure = "give a model that never saw the query set"
            elif name == "query":
                against = answers.samples - flagged if flagged else 0
                what = "non-members of a query model, which must have been trained on them"
                cure = "give a model that was trained on the whole query set"
            if name != "target" and against:
                some = f"{count(against)} of {plural(answers.samples, 'sample')}"
                raise InputError(
                    f"{some} are flagged as {what}",
                    cure=f"{cure}; or leave `member` out, if it is of another model",
                    where=source if Path(source).suffix else roles[name],
                )


def check_unseen(asked: dict[str, Answers], unseen: Answers, roles: dict[str, str]) -> None:
    """Refuse as unseen what was said of the query set: the same file, or the same losses."""
    own, place = np.sort(unseen.losses[0]), unseen.sources[0]
    for name, answers in asked.items():
        for source, losses in zip(answers.sources, answers.losses, strict=True):
            one = Path(source).suffix and Path(source).resolve() == Path(place).resolve()
            same = len(np.unique(own)) >= _GRADED and np.array_equal(np.sort(losses), own)
            if one or same:
                raise InputError(
                    f"the unseen samples ({place}) are those of the {roles[name]} ({source}): the "
                    "query set itself",
                    cure="give the target's outputs on samples of the same kind that it never saw",
                    where="unseen",
                )


def unseen_needed(queries: Floats, others: Floats, unseen: int, confidence: float) -> int | None:
    """With how many unseen samples an attack would find the query set in a model that knows it.

    None where there are as many, 0 where no number is enough. A is the area under the ROC curve
    between the losses of the query models and those of the calibration models on the query set:
    what the attack would reach. It finds the set with a chance of 80 % if A is above one half by
    ``(z + 0.84) sd``, with z of the interval and ``sd**2 = (q + u + 1) / (12 q u)``, the variance
    of Mann and Whitney for q samples beside u unseen ones.

    Without that, an attack that finds nothing is no evidence: nor would it if the set were known.
    """
    from scipy.special import ndtri

    scores = -np.concatenate([queries.ravel(), others.ravel()])
    area = roc(scores, np.arange(len(scores)) < queries.size).auc().value
    reach = float(ndtri(0.5 + confidence / 2.0) + ndtri(_POWER))
    q, most = queries.shape[1], (max(area - 0.5, 0.0) / reach) ** 2
    if 12.0 * q * most <= 1.0:
        return 0
    needed = max(FEWEST, math.ceil((q + 1.0) / (12.0 * q * most - 1.0)))
    return needed if unseen < needed else None


def check_rounding(read: Mapping[str, Answers]) -> None:
    """Refuse probabilities that were rounded for some models and not for others.

    The distance of two models would be that of their digits.
    """
    rounded: dict[int, str] = {}
    whole: dict[int, str] = {}
    for role, answers in read.items():
        for losses, source in zip(answers.losses, answers.sources, strict=True):
            place = source if Path(source).suffix else role
            values = np.exp(-losses)
            for digits in range(1, _DIGITS + 1):
                off = _off(values, digits)
                if off.any():
                    whole.setdefault(digits, place)
                elif _chance(values, digits) < _RARE:
                    rounded.setdefault(digits, place)
                    break
    for digits, place in rounded.items():
        if digits in whole:
            raise InputError(
                f"its probabilities are rounded to {plural(digits, 'digit')}, and those in "
                f"{whole[digits]} are not: that changes losses as forgetting does",
                cure="save all outputs again, with full precision; logits are best",
                where=place,
            )


def _inside(values: Floats) -> NDArray[np.bool_]:
    """Probabilities that are not 0 or 1 to the last bits of a float32."""
    return np.asarray((values > 0.0) & (values < 1.0 - _BITS))


def _off(values: Floats, digits: int) -> NDArray[np.bool_]:
    """Which probabilities are no fractions as rounded rows give them, divided by their sums.

    The sum of a rounded row is 1, but for a few units of the last digit.
    """
    whole = 10.0**digits
    sums = whole + np.arange(-_UNITS, _UNITS + 1)
    parts = values[_inside(values)][:, None] * sums
    wrong = (np.abs(parts - np.round(parts)) > _BITS * whole) | (parts < 0.5)
    return np.asarray(wrong.all(axis=1))


def _chance(values: Floats, digits: int) -> float:
    """That numbers without rounding are all such fractions."""
    one = min(1.0, (2 * _UNITS + 1) * 2 * _BITS * 10.0**digits)
    return float(one ** int(_inside(values).sum()))


def repeats(asked: dict[str, Answers]) -> list[str]:
    """Notes on models that may be one; an InputError if two are surely."""

    def named(name: str, number: int) -> str:
        """A model by its place and, if it came from a file, by that."""
        role = "the target" if name == "target" else f"{name} model {number + 1}"
        source = asked[name].sources[number]
        return f"{role} ({source})" if Path(source).suffix else role

    losses = {name: answers.losses for name, answers in asked.items()}
    notes = []
    for repeat in repeated_models(losses, may_be_one=_MAY_BE_ONE):
        first, second = named(*repeat.first), named(*repeat.second)
        if repeat.certain:
            raise InputError(
                f"{second} gives every sample the loss that {first} gives it: they are one model, "
                "and would count as two",
                cure="name each model once, and in one place",
                where="forgotten",
            )
        notes.append(
            f"{second[0].upper()}{second[1:]} gives every sample the loss that {first} gives it, "
            "but there are few different losses, so they may still be two models. If they are one, "
            "p and the interval are wrong"
        )
    return notes


def _guesses(asked: dict[str, Answers]) -> str:
    """The share of right answers of a target that guesses where calibration models do not."""
    from scipy.special import bdtrc

    labels, own = asked["target"].labels, asked["target"].correct
    others, n = asked["calibration"].correct, asked["target"].samples
    if labels is None or own is None or others is None:
        return ""
    common = float(np.unique(labels, return_counts=True)[1].max()) / n
    counts = [round(n * float(share)) for share in (own[0], np.median(others))]
    # Chance that naming the most common class is right as often or more.
    target, usual = (float(bdtrc(right - 1, n, common)) if right else 1.0 for right in counts)
    return percent_of(float(own[0])) if target > _GUESSED and usual <= _GUESSED else ""


def doubts(
    asked: dict[str, Answers],
    distance: float,
    calibration: Floats,
    chance: float,
    confidence: float,
) -> list[str]:
    """What speaks against the answer."""
    queries, k = asked["query"], len(calibration)
    mean, n, level = calibration.mean(), queries.samples, 1 - confidence
    median = {name: float(np.median(answers.losses)) for name, answers in asked.items()}
    endless = {name: int(np.isinf(answers.losses).sum()) for name, answers in asked.items()}
    told = ", ".join(f"{name} {number:,}" for name, number in endless.items() if number)
    learned = median["query"] < median["calibration"]
    right = 1.0 if queries.correct is None else queries.correct.min()
    guesses = _guesses(asked)
    said = (
        (
            bool(told),
            f"Some losses are infinite ({told}): a probability of 0 for the label. Save logits if "
            "that is rounding, and look for a broken model if it is not",
        ),
        (
            n < _FEW,
            f"The query set has {n} samples: a distance moves by {chance:.2f} by chance alone",
        ),
        (
            mean <= chance,
            f"The calibration models are no farther from the query model ({mean:.3f})"
            f" than chance allows ({chance:.3f}): they seem to know the query set as well, or a "
            "model that never saw it was given as query model. The ratio says little. Check the "
            "roles, train the query model to a lower loss, or take other data",
        ),
        (
            min(mean, distance) >= _CEILING,
            f"Target and calibration models are both about as far from the query model as can be "
            f"({distance:.3f} and {mean:.3f}, of 1): the query model is so sure of "
            "the query set that a target which knows it less well looks like one that does not. "
            "Train it for fewer steps, or on the query set among other data",
        ),
        (
            distance > chance and median["target"] < median["query"],
            "The target's losses on the query set are below the query model's own: it is surer of "
            "the set, and the distance counts that as if it knew it less. Rho is too large, unless "
            "--query-model and --target are swapped; train the query model longer, or on the "
            "query set among other data",
        ),
        (
            not learned,
            "The query model's losses on the query set are not below those of the calibration "
            "models: it has not learned the query set, and the ratio says nothing",
        ),
        (
            learned and right < _WELL,
            f"A query model is right on {100 * right:.0f} % of the query set it "
            "was trained on: the method is for models that were trained to the end",
        ),
        (
            bool(guesses),
            f"The target is right on {guesses} of the query set, no more than by naming its most "
            "common class, and models that never saw it are right on more: the target's outputs "
            "may be of other samples, or in another order, than the labels. If they are not, it "
            "was pushed away from the query set",
        ),
        (
            1 / (k + 1) > level,
            f"With {plural(k, 'calibration model')} p is {1 / (k + 1):.2g} at the least; it takes "
            f"{math.ceil(1 / level - 1 - 1e-9)} to reach {level:.2g}",
        ),
        (
            1 < k < _FEW_MODELS,
            f"With {k} calibration models their spread is hardly known, and the interval of rho is "
            f"wide for that; with {_FEW_MODELS} or more it is narrower",
        ),
        (
            queries.models == 1 and k == 1,
            "There is one query model and one calibration model: the interval speaks of other "
            "samples, not of other trainings",
        ),
    )
    return [sentence for condition, sentence in said if condition]
