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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.membership.evaluation import evaluate
from canary.membership.forgetting_checks import (
    FEWEST,
    check_apart,
    check_flags,
    check_rounding,
    check_unseen,
    doubts,
    repeats,
    unseen_needed,
)
from canary.membership.forgetting_result import LEVEL, Forgetting, recorded
from canary.membership.own_labels import refuse_flat
from canary.records.progress import Progress, shows_progress, stage
from canary.records.validation import whole_number
from canary.signals.loss_tables import Answers, Said, answers_of, check_same_samples
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

_SHOWN = (
    "the retrained models are shown beside the others and change nothing: rho, p and the answer "
    "are by the calibration models alone"
)

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
        kind: gives the membership attack beside it. Samples that are flagged as members are
        refused.
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
        and calibration set share samples, flags of members contradict the role of a model, or
        some probabilities are rounded and others are not.
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
    check_apart(query_data, calibration_data)
    check_flags(read, {**roles, "unseen": "unseen"})
    check_rounding(read)
    refuse_flat(read)
    if "unseen" in read:
        check_unseen(asked, read["unseen"], roles)
    same = repeats(asked)
    losses = {name: answers.losses for name, answers in asked.items()}
    queries, own, others = losses["query"], losses["target"][0], losses["calibration"]
    n, k = len(own), len(others)
    if n < FEWEST:
        raise EstimationError(
            f"the query set has {plural(n, 'sample')}",
            cure=f"give at least {FEWEST}; with fewer a distance says nothing",
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
        unseen_needed=None
        if unseen is None
        else unseen_needed(queries, others, read["unseen"].samples, confidence),
        losses=losses,
        chance=chance,
        resamples=count,
        seed=seed,
        files={name: recorded(one.sources, one.losses) for name, one in read.items()},
        source=asked["target"].sources[0] if isinstance(target, str | os.PathLike) else "",
        notes=(*doubts(asked, of_target.value, distances, chance, confidence), *same, *shown),
    )


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
