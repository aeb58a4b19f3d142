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
import os
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.membership.evaluation import evaluate
from canary.membership.forgetting_result import LEVEL, Forgetting, recorded
from canary.membership.own_labels import refuse_flat
from canary.membership.sharing import repeated_models
from canary.records.progress import Progress, shows_progress, stage
from canary.records.validation import whole_number
from canary.signals.loss_tables import Answers, Said, answers_of, check_same_samples, shared_samples
from canary.statistics.distances import (
    Distance,
    chance_distance,
    ks_distance,
    ratio_interval,
    resampled_distance,
)
from canary.statistics.distances import resamples as resamples_of
from canary.statistics.number_checks import check_confidence, positive_integer
from canary.statistics.numbers import plural
from canary.statistics.roc import Estimate

_FEWEST, _FEW, _FEW_MODELS = 8, 100, 5
_WELL = 0.9
_CEILING = 0.98
_SHOWN = (
    "the retrained models are shown beside the others and change nothing: rho, p and the answer "
    "are by the calibration models alone"
)

_MAY_BE_ONE = {("target", "retrained"), ("calibration", "retrained")}
"""A target may be one of the retrained models: a control."""

_GRADED = 8
"""Different losses from which on equal ones are no chance."""

Floats = NDArray[np.float64]


@shows_progress
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
    progress: Progress = None,
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
    progress : callable or bool, optional
        Called with the number of pairs of models; see `canary.records.progress.Progress`.

    Raises
    ------
    InputError
        If the models were asked about different samples, there are several targets, one
        model was given in two places, `unseen` is what was given in another place, or query
        and calibration set share samples.
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
    given = {"query": query, "target": target, "calibration": calibration, "retrained": retrained}
    roles = {name: "target" if name == "target" else f"{name} model" for name in given}
    asked = {
        name: answers_of(said, roles[name]) for name, said in given.items() if said is not None
    }
    read = asked if unseen is None else {**asked, "unseen": answers_of(unseen, "unseen")}
    for name, answers in asked.items():
        check_same_samples(asked["query"], answers, name)
    if asked["target"].models > 1:
        raise InputError(
            f"{asked['target'].models} targets were given",
            cure="ask about one at a time",
            where="target",
        )
    _check_apart(query_data, calibration_data)
    refuse_flat(read)
    if "unseen" in read:
        _check_unseen(asked, read["unseen"], roles)
    repeats = _repeats(asked)
    losses = {name: answers.losses for name, answers in asked.items()}
    queries, own, others = losses["query"], losses["target"][0], losses["calibration"]
    n, k = len(own), len(others)
    if n < _FEWEST:
        raise EstimationError(
            f"the query set has {plural(n, 'sample')}",
            cure=f"give at least {_FEWEST}; with fewer a distance says nothing",
            where="forgotten",
        )
    times = resamples_of(n, count, seed=seed)
    advance = stage(progress, "comparison", len(queries) * (1 + k), "pairs")

    def from_queries(model: Floats) -> list[Distance]:
        distances = [resampled_distance(known, model, times) for known in queries]
        advance(len(queries))
        return distances

    rng = np.random.default_rng([seed, 1])
    drawn = rng.integers(len(queries), size=(count, len(queries)))
    of_target = _mean_of([from_queries(own)], drawn, rng)
    rows = [from_queries(model) for model in others]
    of_others = _mean_of(rows, drawn, rng)
    if of_others.value == 0:
        raise EstimationError(
            "the calibration models answer exactly as the query model does, so that the ratio "
            "has no denominator",
            cure="train them on data without the query set, and check that the files differ",
            where="calibration model",
        )
    lower, upper = ratio_interval(of_target, of_others, confidence=confidence)
    distances = np.array([np.mean([one.value for one in row]) for row in rows])
    chance = chance_distance(n, n, level=LEVEL)
    floor = [ks_distance(one, other) for one, other in combinations(queries, 2)]
    of_retrained, shown = None, [_SHOWN] if retrained is not None else []
    if retrained is not None:
        of_retrained = np.array(
            [np.mean([ks_distance(q, model) for q in queries]) for model in losses["retrained"]]
        )
    return Forgetting(
        rho=of_target.value / of_others.value,
        lower=lower,
        upper=upper,
        confidence=confidence,
        target=of_target.value,
        calibration=distances,
        retrained=of_retrained,
        floor=float(np.mean(floor)) if floor else None,
        p=(1 + int((distances <= of_target.value).sum())) / (k + 1),
        p_unlike=_unlike(own, others) if k > 1 else None,
        auc=None if unseen is None else _attack(own, read["unseen"], confidence),
        losses=losses,
        chance=chance,
        resamples=count,
        seed=seed,
        files={name: recorded(one.sources, one.losses) for name, one in read.items()},
        source=asked["target"].sources[0] if isinstance(target, str | os.PathLike) else "",
        notes=(*_doubts(asked, of_target.value, distances, chance, confidence), *repeats, *shown),
    )


def _check_apart(query_data: Iterable[Any] | None, calibration_data: Iterable[Any] | None) -> None:
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


def _check_unseen(asked: dict[str, Answers], unseen: Answers, roles: dict[str, str]) -> None:
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


def _repeats(asked: dict[str, Answers]) -> list[str]:
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


def _mean_of(
    distances: list[list[Distance]], queries: NDArray[np.int64], rng: np.random.Generator
) -> Distance:
    """The mean distance of models from query models, were all of them trained anew.

    The mean of the models moves by Student's t and its standard error: resampled models move too
    little. Those of the query models (`queries` says which ones each resample takes) are stretched.
    """
    from scipy.special import ndtri, stdtrit

    values = np.array([[one.value for one in row] for row in distances])
    mean, rounds, (models, asked) = float(values.mean()), len(queries), values.shape
    shift = values.mean(axis=0)[queries].mean(axis=1) - mean
    if asked > 1:
        wider = float(stdtrit(asked - 1, 0.975)) / float(ndtri(0.975))
        shift *= wider * math.sqrt(asked / (asked - 1))
    if models > 1:
        places = (rng.permutation(rounds) + 0.5) / rounds
        error = float(values.mean(axis=1).std(ddof=1)) / math.sqrt(models)
        shift += error * stdtrit(models - 1, places)

    def errors(kind: str) -> Floats:
        rows = [np.stack([getattr(one, kind) for one in row]) for row in distances]
        whole = np.mean(rows, axis=0)[queries, np.arange(rounds)[:, None]]
        return np.asarray(whole.mean(axis=1) + shift)

    return Distance(mean, errors("excess"), errors("shortfall"))


def _unlike(target: Floats, others: Floats) -> float:
    """p-value of the target's mean distance from the others, among all K + 1 models' own."""
    models = [target, *others]
    totals = np.zeros(len(models))
    for pair in combinations(range(len(models)), 2):
        totals[list(pair)] += ks_distance(*(models[number] for number in pair))
    # Rounding of sums shall not order what is equal.
    return (1 + int((totals[1:] >= totals[0] - 1e-9).sum())) / len(models)


def _attack(target: Floats, unseen: Answers, confidence: float) -> Estimate:
    others = unseen.losses
    if len(others) > 1:
        raise InputError(
            f"losses of {len(others)} models on unseen samples",
            cure="give those of the target alone",
            where="unseen",
        )
    scores = -np.concatenate([target, others[0]])
    member = np.arange(len(scores)) < len(target)
    return evaluate(scores, member, confidence=confidence).auc


def _doubts(
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
