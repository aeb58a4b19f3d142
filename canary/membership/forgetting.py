"""Has a model forgotten a data set? The method of Liu and Tsaftaris, with what it lacks.

All models are asked about the same samples, the query set. A query model was trained on
it, calibration models on other data of the same domain, and the target is asked about. The
distance of two models is that of Kolmogorov and Smirnov between their losses [1]_.

References
----------
.. [1] Liu and Tsaftaris, Have you forgotten? A method to assess if machine learning models
   have forgotten data, MICCAI 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.membership.evaluation import evaluate
from canary.membership.forgetting_result import LEVEL, Forgetting
from canary.membership.repeats import Repeat, repeated_models
from canary.records.validation import whole_number
from canary.signals.loss_tables import Answers, Said, answers_of, check_same_samples, shared_samples
from canary.statistics.distances import (
    Distance,
    chance_distance,
    ks_distance,
    ratio_interval,
    resampled_distance,
    resamples,
)
from canary.statistics.number_checks import check_confidence, positive_integer
from canary.statistics.numbers import plural
from canary.statistics.roc import Estimate

KIND = "canary forgetting"
SCHEMA = 1

_FEWEST = 8
_FEW = 100
_FEW_MODELS = 5
_WELL = 0.9
_CEILING = 0.98
_MAY_BE_ONE = {("query", "target"), ("target", "retrained"), ("calibration", "retrained")}
"""A target may be one of the query models or of the retrained ones: a control."""

Floats = NDArray[np.float64]


def forgotten(
    query: Said,
    target: Said,
    calibration: Said,
    *,
    retrained: Said | None = None,
    unseen: Said | None = None,
    query_data: Iterable[Any] | None = None,
    calibration_data: Iterable[Any] | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    done: Callable[[int], object] = lambda count: None,
) -> Forgetting:
    """Compare what models say of the query set: has the target forgotten it?

    Parameters
    ----------
    query : path-like, SignalTable, array_like of float, or list of these
        What one or several models said of the query set that were trained on it, with the
        target's design: files of outputs (`member` is not needed), what `canary.measure`
        gave, or losses in nats of shape (samples,) or (models, samples).
    target : the same
        Of the one model that is asked about.
    calibration : the same
        Of one or, better, 19 or more models that were trained on other data of the domain.
    retrained : the same, optional
        Of models retrained without the query set: what an unlearned model should be like.
    unseen : the same, optional
        What the target said of samples that it certainly never saw, of the query set's
        kind: gives the membership attack beside it.
    query_data, calibration_data : iterable of str or arrays, optional
        The two sets themselves, to be checked by hash for samples that are in both.
    confidence : float
        Of every interval.
    resamples : int
        Of samples and of models, for the interval.
    seed : int
    done : callable
        Told of every pair of models that is compared.

    Raises
    ------
    InputError
        If the models were asked about different samples, there are several targets, one
        model was given in two places, or query and calibration set share samples.
    EstimationError
        If there are fewer than 8 samples, or a calibration model answers as the query model
        does, so that the ratio has no meaning.

    Notes
    -----
    The interval speaks of other samples of the query set's kind and, where there are several
    query or calibration models, of other trainings of them; never of another training of the
    target. O(models n log n + resamples models n).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> knows, others = rng.exponential(0.1, (2, 500)), rng.exponential(1.0, (19, 500))
    >>> found = forgotten(knows[0], knows[1], others)
    >>> found.answer, found.p
    ('not forgotten', 0.05)
    """
    check_confidence(confidence, "forgotten")
    count = positive_integer(resamples, "resamples", "forgotten", cure="1000 is usual")
    seed = whole_number(seed, "seed", at_least=0)
    asked = {
        "query": answers_of(query, "query model"),
        "target": answers_of(target, "target"),
        "calibration": answers_of(calibration, "calibration model"),
    }
    if retrained is not None:
        asked["retrained"] = answers_of(retrained, "retrained model")
    for name, answers in asked.items():
        check_same_samples(asked["query"], answers, name)
    if asked["target"].models > 1:
        raise InputError(
            f"{asked['target'].models} targets were given",
            cure="ask about one at a time",
            where="target",
        )
    if (query_data is None) != (calibration_data is None):
        raise InputError(
            "one of query_data and calibration_data was given",
            cure="give both, to be compared, or none",
            where="forgotten",
        )
    if query_data is not None and calibration_data is not None:
        both = shared_samples(query_data, calibration_data)
        if len(both):
            raise InputError(
                f"{plural(len(both), 'sample')} of the query set, the first at {both[0]}, "
                f"{'is' if len(both) == 1 else 'are'} in the calibration set too: its models know "
                "what they should not",
                cure="take them out of the calibration set and train its models again",
                where="forgotten",
            )
    losses = {name: answers.losses for name, answers in asked.items()}
    alike = repeated_models(losses, may_be_one=_MAY_BE_ONE)
    _check_different(asked, alike)
    n = asked["query"].samples
    if n < _FEWEST:
        raise EstimationError(
            f"the query set has {plural(n, 'sample')}",
            cure=f"give at least {_FEWEST}; with fewer a distance says nothing",
            where="forgotten",
        )
    return _compared(asked, unseen, alike, confidence=confidence, count=count, seed=seed, done=done)


def _compared(
    asked: dict[str, Answers],
    unseen: Said | None,
    alike: list[Repeat],
    *,
    confidence: float,
    count: int,
    seed: int,
    done: Callable[[int], object],
) -> Forgetting:
    losses = {name: answers.losses for name, answers in asked.items()}
    queries, target, others = losses["query"], losses["target"][0], losses["calibration"]
    times = resamples(len(target), count, seed=seed)

    def from_queries(model: Floats) -> list[Distance]:
        found = [resampled_distance(one, model, times) for one in queries]
        done(len(queries))
        return found

    rng = np.random.default_rng([seed, 1])
    drawn = rng.integers(len(queries), size=(count, len(queries)))
    of_target = _mean_of([from_queries(target)], drawn, rng)
    each = [from_queries(model) for model in others]
    of_others = _mean_of(each, drawn, rng)
    if of_others.value == 0:
        raise EstimationError(
            "the calibration models answer exactly as the query model does, so that the ratio "
            "has no denominator",
            cure="train them on data without the query set, and check that the files differ",
            where="calibration model",
        )
    lower, upper = ratio_interval(of_target, of_others, confidence=confidence)
    calibration = np.array([np.mean([one.value for one in row]) for row in each])
    k = len(others)
    chance = chance_distance(len(target), len(target), level=LEVEL)
    return Forgetting(
        rho=of_target.value / of_others.value,
        lower=lower,
        upper=upper,
        confidence=confidence,
        target=of_target.value,
        calibration=calibration,
        retrained=_distances(queries, losses["retrained"]) if "retrained" in losses else None,
        floor=_floor(queries),
        p=(1 + int((calibration <= of_target.value).sum())) / (k + 1),
        p_unlike=_unlike(target, others) if k > 1 else None,
        auc=None if unseen is None else _attack(target, unseen, confidence),
        losses=losses,
        chance=chance,
        resamples=count,
        seed=seed,
        notes=(
            *_doubts(asked, of_target.value, calibration, chance, confidence),
            *(_doubted(asked, one) for one in alike),
        ),
    )


def _mean_of(
    distances: list[list[Distance]], queries: NDArray[np.int64], rng: np.random.Generator
) -> Distance:
    """The mean distance of models from query models, were all of them trained anew.

    `distances` has of each model its distance from each query model, `queries` which ones each
    resample takes. The mean of the models moves by Student's t and its standard error: resampled
    models move too little. Those of the query models, which move both distances together, are
    resampled and stretched alike.
    """
    from scipy.special import stdtrit

    values = np.array([[one.value for one in row] for row in distances])
    mean, rounds, (models, asked) = float(values.mean()), len(queries), values.shape
    shift = (values.mean(axis=0)[queries].mean(axis=1) - mean) * _stretched(asked)
    if models > 1:
        places = (rng.permutation(rounds) + 0.5) / rounds
        error = float(values.mean(axis=1).std(ddof=1)) / math.sqrt(models)
        shift += error * stdtrit(models - 1, places)
    at = np.arange(rounds)[:, None]

    def errors(kind: str) -> Floats:
        whole = np.mean(
            [np.stack([getattr(one, kind) for one in row]) for row in distances], axis=0
        )
        return np.asarray(whole[queries, at].mean(axis=1) + shift)

    return Distance(mean, errors("excess"), errors("shortfall"))


def _stretched(resampled: int) -> float:
    """How much wider Student's interval of a mean is than that of so many resampled numbers."""
    from scipy.special import ndtri, stdtrit

    if resampled == 1:
        return 1.0
    wider = float(stdtrit(resampled - 1, 0.975)) / float(ndtri(0.975))
    return wider * math.sqrt(resampled / (resampled - 1))


def _distances(queries: Floats, models: Floats) -> Floats:
    """The mean distance of each model from the query models."""
    return np.array([np.mean([ks_distance(q, model) for q in queries]) for model in models])


def _floor(queries: Floats) -> float | None:
    pairs = [ks_distance(one, other) for one, other in combinations(queries, 2)]
    return float(np.mean(pairs)) if pairs else None


def _unlike(target: Floats, others: Floats) -> float:
    """p-value of the target's mean distance from the others, among all K + 1 models' own."""
    models = [target, *others]
    totals = np.zeros(len(models))
    for pair in combinations(range(len(models)), 2):
        totals[list(pair)] += ks_distance(*(models[one] for one in pair))
    # Rounding of sums shall not order what is equal.
    return (1 + int((totals[1:] >= totals[0] - 1e-9).sum())) / len(models)


def _attack(target: Floats, unseen: Said, confidence: float) -> Estimate:
    others = answers_of(unseen, "unseen").losses
    if len(others) > 1:
        raise InputError(
            f"losses of {len(others)} models on unseen samples",
            cure="give those of the target alone",
            where="unseen",
        )
    scores = -np.concatenate([target, others[0]])
    member = np.arange(len(scores)) < len(target)
    return evaluate(scores, member, confidence=confidence).auc


def _check_different(asked: dict[str, Answers], alike: list[Repeat]) -> None:
    """Refuse a model that was given twice."""
    for one in alike:
        if one.certain:
            first, second = (_named(asked, *place) for place in (one.first, one.second))
            raise InputError(
                f"{second} gives every sample the loss that {first} gives it: they are one model, "
                "and would count as two",
                cure="name each model once, and in one place",
                where="forgotten",
            )


def _doubted(asked: dict[str, Answers], one: Repeat) -> str:
    first, second = (_named(asked, *place) for place in (one.first, one.second))
    return (
        f"{second[0].upper()}{second[1:]} gives every sample the loss that {first} gives it, but "
        "there are few different losses, so they may still be two models. If they are one, p and "
        "the interval are wrong"
    )


def _named(asked: dict[str, Answers], name: str, at: int) -> str:
    """A model by its place and, if it came from a file, by that."""
    role = "the target" if name == "target" else f"{name} model {at + 1}"
    source = asked[name].sources[at]
    return f"{role} ({source})" if Path(source).suffix else role


def _doubts(
    asked: dict[str, Answers],
    distance: float,
    calibration: Floats,
    chance: float,
    confidence: float,
) -> list[str]:
    """What stands against the answer."""
    queries, others = asked["query"], asked["calibration"]
    n, k = queries.samples, others.models
    notes = []
    endless = {name: int(np.isinf(answers.losses).sum()) for name, answers in asked.items()}
    if any(endless.values()):
        told = ", ".join(f"{name} {number:,}" for name, number in endless.items() if number)
        notes.append(
            f"Some losses are infinite ({told}): a probability of 0 for the label. Save logits if "
            "that is rounding, and look for a broken model if it is not"
        )
    if n < _FEW:
        notes.append(
            f"The query set has {n} samples: a distance moves by {chance:.2f} by chance alone"
        )
    if calibration.mean() <= chance:
        notes.append(
            f"The calibration models are no farther from the query model ({calibration.mean():.3f})"
            f" than chance allows ({chance:.3f}): they seem to know the query set as well, and the "
            "ratio says little. Train the query model to a lower loss, or take other data"
        )
    if min(calibration.mean(), distance) >= _CEILING:
        notes.append(
            f"Target and calibration models are both about as far from the query model as can be "
            f"({distance:.3f} and {calibration.mean():.3f}, of 1): the query model is so sure of "
            "the query set that a target which knows it less well looks like one that does not. "
            "Train it for fewer steps, or on the query set among other data"
        )
    if distance > chance and np.median(asked["target"].losses) < np.median(queries.losses):
        notes.append(
            "The target's losses on the query set are below the query model's own: it is surer of "
            "the set, and the distance counts that as if it knew it less. Rho is too large; train "
            "the query model longer, or on the query set among other data"
        )
    learned = float(np.median(queries.losses)) < float(np.median(others.losses))
    if not learned:
        notes.append(
            "The query model's losses on the query set are not below those of the calibration "
            "models: it has not learned the query set, and the ratio says nothing"
        )
    elif queries.correct is not None and queries.correct.min() < _WELL:
        notes.append(
            f"A query model is right on {100 * queries.correct.min():.0f} % of the query set it "
            "was trained on: the method is for models that were trained to the end"
        )
    if 1 / (k + 1) > 1 - confidence:
        notes.append(
            f"With {plural(k, 'calibration model')} p is {1 / (k + 1):.2g} at the least; it takes "
            f"{math.ceil(1 / (1 - confidence) - 1 - 1e-9)} to reach {1 - confidence:.2g}"
        )
    if 1 < k < _FEW_MODELS:
        notes.append(
            f"With {k} calibration models their spread is hardly known, and the interval of rho is "
            f"wide for that; with {_FEW_MODELS} or more it is narrower"
        )
    if queries.models == 1 and k == 1:
        notes.append(
            "There is one query model and one calibration model: the interval speaks of other "
            "samples, not of other trainings"
        )
    return notes
