"""Which model of a fleet is trained on which samples, as the attacks ask for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError

_TRADES = 5
"""Per model; after that many the rows of two models agree as often as independent ones."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a split gives.

    `member`, of shape (models, samples), says whether the model is trained on the sample. With
    `soft`, of shape (samples, classes), these are the labels to train with; `target` is the
    fingerprint of the model that they are made for.
    """

    member: NDArray[np.bool_]
    soft: NDArray[np.float32] | None = None
    target: str | None = None


Split = Callable[[NDArray[np.int64], int, int], Drawn]
"""From labels of shape (samples,), the number of models and a seed.

An array of flags of shape (models, samples) serves as well.
"""


def halves(*, among: ArrayLike | None = None) -> Split:
    """Every sample in exactly half of the models, every model on half of the samples.

    Beginning with pairs of complementary models, two models at a time shuffle the samples
    that only one of them has, which keeps both counts [1]_. The number of models is even; of
    an odd number of samples a model has the smaller or the larger half. `among` are the samples
    that take part, by number or flag; all without it.

    References
    ----------
    .. [1] Strona et al., A fast and unbiased procedure to randomize ecological binary
       matrices with fixed row and column totals, Nature Communications 2014.
    """

    def draw(labels: NDArray[np.int64], n_models: int, seed: int) -> Drawn:
        _check_even(n_models, "sample", "halves")
        rows = _rows(among, len(labels), "halves")
        rng = np.random.default_rng([seed, 0])
        inside = np.zeros((n_models, len(rows)), np.bool_)
        for first in range(0, n_models, 2):
            inside[first, rng.permutation(len(rows))[: len(rows) // 2]] = True
            inside[first + 1] = ~inside[first]
        for _ in range(_TRADES * n_models if n_models > 2 else 0):
            first, second = rng.choice(n_models, 2, replace=False)
            apart = np.flatnonzero(inside[first] != inside[second])
            traded = rng.permutation(inside[first, apart])
            inside[first, apart], inside[second, apart] = traded, ~traded
        member = np.zeros((n_models, len(labels)), np.bool_)
        member[:, rows] = inside
        return Drawn(member)

    return draw


def subsets(size: int, *, among: ArrayLike | None = None) -> Split:
    """Each model on a random subset of its own, drawn without replacement.

    `size` are the samples of a model, drawn from `among`, or from all without it. More models of
    the same seed begin with the subsets of fewer.
    """

    def draw(labels: NDArray[np.int64], n_models: int, seed: int) -> Drawn:
        rows = _rows(among, len(labels), "subsets")
        if not 1 <= size <= len(rows):
            problem = f"subsets of {size} of {len(rows)} samples"
            raise InputError(problem, cure=f"give a size from 1 to {len(rows)}", where="subsets")
        member = np.zeros((n_models, len(labels)), np.bool_)
        for model in range(n_models):
            rng = np.random.default_rng([seed, 1, model])
            member[model, rows[rng.choice(len(rows), size, replace=False)]] = True
        return Drawn(member)

    return draw


def leave_one_out(
    points: ArrayLike, *, member: ArrayLike | None = None, target: str | None = None
) -> Split:
    """Models on all members but one, for each of some points (attack L).

    With K points and n models, models 0 to n/K - 1 leave the first point out, the next n/K
    the second, and so on; they differ in their seeds.

    Parameters
    ----------
    points : array_like of int of shape (points,)
        The samples to leave out; members all.
    member : array_like of bool of shape (samples,), optional
        What the target was trained on: its row of a table's ``member``. All samples without.
    target : str, optional
        Fingerprint of the target: its entry in a table's ``origin.models``.
    """

    def draw(labels: NDArray[np.int64], n_models: int, seed: int) -> Drawn:
        del seed  # nothing is drawn
        where = "leave_one_out"
        out = _rows(points, len(labels), where, ordered=False)
        base = np.zeros(len(labels), np.bool_)
        base[_rows(member, len(labels), where)] = True
        if not base[out].all():
            problem = f"sample {int(out[~base[out]][0])} is no member, so it cannot be left out"
            raise InputError(problem, cure="name members of the target only", where=where)
        if n_models % len(out):
            problem = f"{n_models} models for {len(out)} points"
            cure = f"ask for a multiple of {len(out)}: as many for each point"
            raise InputError(problem, cure=cure, where=where)
        inside = np.repeat(base[None, :], n_models, axis=0)
        inside[np.arange(n_models), np.repeat(out, n_models // len(out))] = False
        return Drawn(inside, target=target)

    return draw


def soft_labelled(split: Split, probs: ArrayLike, *, target: str | None = None) -> Split:
    """A split whose models learn what a target said, not the true labels (attack D).

    Parameters
    ----------
    split : Split
        Which samples each is trained on; for attack D subsets of the population, which holds
        no point that is attacked.
    probs : array_like of shape (samples, classes)
        The target's probabilities; rows of samples in no subset are not looked at.
    target : str, optional
        As in `leave_one_out`.
    """

    def draw(labels: NDArray[np.int64], n_models: int, seed: int) -> Drawn:
        drawn = split(labels, n_models, seed)
        soft = np.asarray(probs, np.float32)
        used = drawn.member.any(axis=0)
        if soft.ndim != 2 or len(soft) != len(labels):
            problem = f"soft labels of shape {soft.shape} for {len(labels)} samples"
            cure = "give the target's probabilities of all classes for every sample"
            raise InputError(problem, cure=cure, where="soft_labelled")
        off = ~(np.abs(soft.sum(axis=1, dtype=np.float64) - 1) <= 1e-3) | ~(soft >= 0).all(axis=1)
        if (off & used).any():
            problem = f"the soft labels of sample {int((off & used).argmax())} are no probabilities"
            cure = "apply the softmax to the target's logits"
            raise InputError(problem, cure=cure, where="soft_labelled")
        return replace(drawn, soft=soft, target=target)

    return draw


def with_and_without(canaries: ArrayLike, *, among: ArrayLike | None = None) -> Split:
    """All samples in every model, but for canaries that are in exactly half of them.

    `canaries` are their places among the samples; the half is drawn for each separately. The
    number of models is even. `among` are the other samples that take part; all without it.
    """

    def draw(labels: NDArray[np.int64], n_models: int, seed: int) -> Drawn:
        where = "with_and_without"
        _check_even(n_models, "canary", where)
        held = _rows(canaries, len(labels), where)
        inside = np.zeros((n_models, len(labels)), np.bool_)
        inside[:, _rows(among, len(labels), where)] = True
        rng = np.random.default_rng([seed, 2])
        order = rng.random((n_models, len(held))).argsort(axis=0)
        inside[:, held] = order < n_models // 2
        return Drawn(inside)

    return draw


def _check_even(n_models: int, what: str, where: str) -> None:
    if n_models % 2:
        problem = f"{n_models} models: no {what} can be in half of them"
        raise InputError(problem, cure="ask for an even number of models", where=where)


def _rows(
    given: ArrayLike | None, samples: int, where: str, *, ordered: bool = True
) -> NDArray[np.int64]:
    """Places of samples, each once."""
    if given is None:
        return np.arange(samples)
    array = np.asarray(given)
    if array.dtype == np.bool_ and array.shape == (samples,):
        array = np.flatnonzero(array)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        problem = f"samples given as {array.dtype} of shape {array.shape}"
        cure = f"give their numbers, or a flag for each of the {samples}; at least one"
        raise InputError(problem, cure=cure, where=where)
    places = np.unique(array)
    if len(places) < len(array) or places[0] < 0 or places[-1] >= samples:
        problem = f"samples {places[0]} to {places[-1]}, {len(array) - len(places)} of them twice"
        cure = f"number the samples from 0 to {samples - 1}, and name each once"
        raise InputError(problem, cure=cure, where=where)
    return (places if ordered else array).astype(np.int64)
