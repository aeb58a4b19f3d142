"""Attacks S, P, R, D and L: is the loss below the lower quantile of a null hypothesis?

Ye et al. [1]_ reject "not a member" when ``loss <= c_alpha`` (equation 9), and differ in the
losses of which ``c_alpha`` is the quantile:

S
    shadow models on samples of the same class outside their training sets (equations 11 to 16)
P
    the target on population points, of all classes together (17 to 22)
R
    reference models on the sample itself, which they were not trained on (23 to 27)
D
    the same, of models that were distilled from the target on other data (28 to 38)
L
    the same, of models that were trained on the target's data without the sample (section 4.5)

R, D and L are one rule on three kinds of models; `canary.statistics.tails` has the quantiles.

References
----------
.. [1] Ye et al., Enhanced Membership Inference Attacks against Machine Learning Models, ACM
   CCS 2022.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.attacks import ALWAYS, Attack, Tuning
from canary.membership.lira import (
    LEAST_VARIANCE,
    Moments,
    common_variance,
    logits_of,
    moments,
    pooled_variance,
)
from canary.membership.references import References
from canary.statistics.tails import (
    Rule,
    bits_needed,
    gaussian_evidence,
    gaussian_quantile,
    quantile_place,
    rank_evidence,
    rank_quantile,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Nth = Callable[[Ints], Floats]
"""The order statistics of a null at places from 0: anything before the first, NaN after the end."""


def by_sample(bench: References, tuning: Tuning) -> Floats:
    """Attacks R, D and L, of shape (targets, samples). O(nK log K).

    With a level in the tuning these are thresholds in nats of loss, without one evidence in bits.
    """
    rule, alpha = tuning.rule, tuning.alpha
    result = np.empty((len(bench.targets), bench.table.samples))
    common = common_variance(bench, "outside")
    for part in bench.parts():
        compared = bench.compared(part, "limited")
        if rule == "gaussian":
            found = moments(logits_of(bench.source, bench.rows, part), compared)
            seen = logits_of(bench.table, bench.targets, part)
            result[:, part] = _gaussian(seen, found, common, alpha)
            continue
        values = bench.table.signal("loss")[:, part][bench.targets].T
        losses = bench.source.signal("loss")[:, part][bench.rows]
        less = np.sort(compared.left_out(losses, np.nan).swapaxes(1, 2), axis=0)
        null = np.sort(np.where(compared.flags, losses, np.nan).T, axis=1)
        below = row_ranks(null, values) - (less <= values).sum(axis=0)
        nth = _nth_of_rows(null, less)
        result[:, part] = _ranked(values, below, compared.count.T, nth, rule=rule, alpha=alpha).T
    return result


def by_model(bench: References, tuning: Tuning) -> Floats:
    """Attack P; parameters and result as of `by_sample`. O(n log n) for each target."""
    table, rule, alpha = bench.table, tuning.rule, tuning.alpha
    result = np.empty((len(bench.targets), table.samples))
    for i, row in enumerate(bench.targets):
        own, values = bench.points(row, "P"), table.signal("loss")[row]
        places = np.flatnonzero(own)
        places = places[np.argsort(values[places], kind="stable")]
        null = values[places]
        at = np.searchsorted(null, values, side="right")
        missing, skip = own, np.arange(table.samples)
        if bench.population is None:
            # A member that ties with a point stands in for it: as k of n, and non-members as
            # k of n - 1, equal losses would be told apart. One between the points k and k + 1
            # has (k + 1) / (n + 1) of n, which is between their k / n and (k + 1) / n.
            tied = places[np.maximum(at - 1, 0)]
            missing = own | ((at > 0) & (values[tied] == values))
            skip = np.where(own, skip, tied)
        if rule == "gaussian":
            logits = logits_of(table, bench.targets[i : i + 1], slice(None))
            points = logits[0, own]
            centre, left = points.mean(), (len(points) - missing)[None, :]
            second = ((points - centre) ** 2).sum()
            apart = np.where(missing, logits[0, skip] - centre, 0.0)[None, :]
            size = second + len(points) * centre * centre
            of_each = Moments.around(centre, left, -apart, second - apart * apart, size)
            every = np.array([max(float(points.var(ddof=1)), LEAST_VARIANCE)])
            result[i] = _gaussian(logits, of_each, every.copy, alpha)[0]
            continue
        below = (at - (missing & (values[skip] <= values)))[None, :]
        nth = _nth_of_rows(null[None, :], np.where(missing, values[skip], np.nan)[None, None, :])
        count = (len(null) - missing)[None, :]
        result[i] = _ranked(values[None, :], below, count, nth, rule=rule, alpha=alpha)[0]
    return result


def by_class(bench: References, tuning: Tuning) -> Floats:
    """Attack S; parameters and result as of `by_sample`. O(nK log(nK)), memory of one class.

    An InputError if a class of the target has no sample that is outside a shadow's training set.
    The losses of a class are sorted once for all targets; each skips its own.
    """
    table, source, rule, alpha = bench.table, bench.source, tuning.rule, tuning.alpha
    result = np.empty((len(bench.targets), table.samples))
    usable = np.ones(source.samples, np.bool_)
    if source is table and bench.population is not None:
        usable = bench.population
    order = np.argsort(table.label, kind="stable")
    classes, starts = np.unique(table.label[order], return_index=True)
    nulls = []
    for label, columns in zip(classes, np.split(order, starts[1:]), strict=True):
        points = np.flatnonzero(usable & (source.label == label))
        outside = ~source.member[np.ix_(bench.rows, points)]
        without = outside.sum() - np.where(bench.own >= 0, outside.sum(axis=1)[bench.own], 0)
        if (without < 1).any():
            raise InputError(
                f"attack S: class {label} has no point outside a shadow model's training set",
                cure="bring samples of that class that a shadow was not trained on"
                + (", among the population" if usable is bench.population else ""),
                where=source.source,
            )
        nulls.append((columns, points, outside))
    if rule == "gaussian":
        _class_gaussians(bench, nulls, alpha, result)
        return result
    for columns, points, outside in nulls:
        values = source.signal("loss")[np.ix_(bench.rows, points)][outside]
        of = np.repeat(np.arange(len(bench.rows)), outside.sum(axis=1))
        sort = np.argsort(values)
        null, of = values[sort], of[sort]
        by_row = np.argsort(of, kind="stable")  # places of each reference in the null
        ends = np.searchsorted(of[by_row], np.arange(len(bench.rows) + 1))
        for i, row in enumerate(bench.targets):
            own = bench.own[i]
            skip = by_row[ends[own] : ends[own + 1]] if own >= 0 else by_row[:0]
            seen = table.signal("loss")[row, columns]
            at = np.searchsorted(null, seen, side="right")
            below = at - np.searchsorted(skip, at)
            count = np.full(len(seen), len(null) - len(skip))

            def nth(place: Ints, null: Floats = null, skip: Ints = skip) -> Floats:
                before = skip - np.arange(len(skip))  # how many are left before each
                place = place + np.searchsorted(before, place, side="right")
                return np.where(place >= len(null), np.nan, null[np.clip(place, 0, len(null) - 1)])

            result[i, columns] = _ranked(seen, below, count, nth, rule=rule, alpha=alpha)
    return result


def row_ranks(null: Floats, values: Floats) -> Ints:
    """How many of a row of `null` are at most each of its `values`.

    The rows ascend, filled up with NaN. A binary search in all at once, O(log size) for each value.
    """
    rows, size = null.shape
    width = 1 << size.bit_length()
    filled = np.full((rows, width), np.nan)
    filled[:, :size] = null
    flat = filled.ravel()
    begin = np.arange(rows, dtype=np.int64)[:, None] * width
    place = begin + np.zeros(values.shape, np.int64)
    step = width >> 1
    while step:
        place += step * (flat[place + (step - 1)] <= values)
        step >>= 1
    return np.asarray(place - begin)


def _ranked(
    values: Floats, below: Ints, count: Ints, nth: Nth, *, rule: Rule, alpha: float | None
) -> Floats:
    if alpha is not None:
        place, beyond = quantile_place(alpha, count)
        low = nth(place - 1)
        return rank_quantile(place, beyond, low, low if rule == "empirical" else nth(place), rule)
    if rule == "empirical":
        return rank_evidence(values, below, count, values, values, rule=rule)
    return rank_evidence(values, below, count, nth(below - 1), nth(below), rule=rule)


def _nth_of_rows(null: Floats, less: Floats) -> Nth:
    """Order statistics of ascending rows, NaN at their ends, without ascending numbers `less`."""
    rows, last = np.arange(len(null))[:, None], null.shape[1] - 1

    def nth(place: Ints) -> Floats:
        holes = [np.where(np.isnan(x), last + 1, row_ranks(null, x) - 1) for x in less]
        for k in range(len(holes) - 2, -1, -1):  # equal numbers stand side by side
            holes[k] = np.minimum(holes[k], holes[k + 1] - 1)
        for hole in holes:
            place = place + (place >= hole)
        return np.where(place > last, np.nan, null[rows, np.clip(place, 0, last)])

    return nth


def _gaussian(
    seen: Floats, found: Moments, common: Callable[[], Floats], alpha: float | None
) -> Floats:
    """By the Gaussian rule on logit-scaled losses, of which high ones speak for members."""
    variance, poor = found.variance(common)
    scale = np.sqrt(variance * (1.0 + 1.0 / np.maximum(found.count, 1)))
    freedom = np.where(poor, np.inf, found.count - 1.0)
    if alpha is None:
        return gaussian_evidence((seen - found.mean) / scale, freedom)
    logit = gaussian_quantile(alpha, found.mean, scale, freedom)
    return np.logaddexp(0.0, -logit)  # the loss of a logit


def _class_gaussians(
    bench: References,
    nulls: list[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]],
    alpha: float | None,
    result: Floats,
) -> None:
    found = []
    for _, points, outside in nulls:
        logits = logits_of(bench.source, bench.rows, points)
        total = outside.sum()
        centre = logits[outside].sum() / total
        apart = np.where(outside, logits - centre, 0.0)
        sums = outside.sum(axis=1), apart.sum(axis=1), np.einsum("ij,ij->i", apart, apart)
        left, first, second = (
            (of_row.sum() - np.where(bench.own >= 0, of_row[bench.own], 0))[:, None]
            for of_row in sums
        )
        size = sums[2].sum() + total * centre * centre
        found.append(Moments.around(centre, left, first, second, size))
    freedom = np.sum([np.maximum(one.count[:, 0] - 1.0, 0.0) for one in found], axis=0)
    total_squares = np.sum([one.squares[:, 0] for one in found], axis=0)
    common = pooled_variance(total_squares, freedom, bench.source.source)
    for (columns, _, _), one in zip(nulls, found, strict=True):
        seen = logits_of(bench.table, bench.targets, columns)
        result[:, columns] = _gaussian(seen, one, lambda: common, alpha)


BUILT_IN = tuple(
    Attack(
        name=name,
        help=f"the loss against losses of {null}",
        signal="loss",
        judge=judge,
        threshold=bits_needed,
        others=name != "P",
        outside=judge is by_sample,
        points=name == "P",
        own=own,
        usual=() if own else ALWAYS,
    )
    for name, judge, null, own in (
        ("S", by_class, "shadow models on samples of the class", ""),
        ("P", by_model, "the target on population points", ""),
        ("R", by_sample, "reference models on the sample", ""),
        ("D", by_sample, "distilled models", "models that were distilled from the target"),
        (
            "L",
            by_sample,
            "models without the sample",
            "models that were trained on the target's data without one sample each",
        ),
    )
)
"""The attacks of Ye et al., for `canary.membership.attacks.ATTACKS`."""
