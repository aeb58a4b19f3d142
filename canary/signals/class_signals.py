r"""Signals of a classifier's outputs for samples whose true label is known.

With ``p`` the probabilities of a sample over the classes and ``y`` its label, in nats:

==================  =============================================================  ======
signal              formula                                                        member
==================  =============================================================  ======
correctness         1 if ``argmax_i p_i = y`` (the first, of equal ones), else 0   high
confidence          ``p_y``                                                        high
loss                ``-log p_y``                                                   low
logit-confidence    ``log(p_y / (1 - p_y))``                                       high
entropy             ``-sum_i p_i log p_i``                                         low
modified-entropy    ``-(1 - p_y) log p_y - sum_{i != y} p_i log(1 - p_i)``         low
gradient-norm       ``|d loss / d parameters|``, by `canary.signals.gradients`     low
==================  =============================================================  ======

The first is equation 5 of Song and Mittal [1]_, the second and the entropies stand in
equations 6, 7 and 8; the logit-confidence is the statistic of Carlini et al. [2]_.

From logits nothing is lost to rounding near 0 and 1: with the largest logit at 0 and ``S``
the sum of the exponentials of the others, ``p_max = 1 / (1 + S)`` and ``1 - p_max =
S / (1 + S)``; all other probabilities are at most a half. From probabilities the formulas
are taken as they stand. Where ``p_y = 0``, loss and modified entropy are infinite and the
logit-confidence is minus infinity; where another class has probability 1 the modified
entropy is infinite; where ``p_y = 1`` the logit-confidence is infinite. ``0 log 0`` is 0.

References
----------
.. [1] Song and Mittal, Systematic Evaluation of Privacy Risks of Machine Learning Models,
   USENIX Security 2021.
.. [2] Carlini et al., Membership Inference Attacks From First Principles, IEEE Symposium
   on Security and Privacy 2022, section V.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from canary.registry import called
from canary.signals.definitions import SIGNALS, Signal

Outputs = Literal["logits", "probs", "losses"]
"""What a classifier gave: logits or probabilities of shape (samples, classes), or losses."""

Values = dict[str, NDArray[np.float64]]
Worker = Callable[[Callable[[slice], Values], list[slice]], Iterator[Values]]
"""As `map`, in the order of the slices."""

BUILT_IN = (
    Signal("correctness", 1, "whether the label is the most likely class"),
    Signal("confidence", 1, "the probability of the label", of_losses=True),
    Signal("loss", -1, "minus the logarithm of the confidence", of_losses=True),
    Signal("logit-confidence", 1, "the log-odds of the label", of_losses=True),
    Signal("entropy", -1, "of all probabilities"),
    Signal("modified-entropy", -1, "the entropy with the label taken into account"),
    Signal("gradient-norm", -1, "how far a step of training on the sample would go", False, False),  # noqa: FBT003
)

_BLOCK = 1 << 17  # numbers that are worked on at a time; their copies stay in the cache
_SMALLEST = 1e-290  # sums of exponentials below it have lost digits
_MOST_THREADS = 8


@contextmanager
def working() -> Iterator[Worker]:
    """Threads for `signals_of`, for as long as the block lasts."""
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as pool:
        yield pool.map


def signals_of(
    outputs: NDArray[Any], labels: NDArray[np.int64], kind: Outputs, *, worker: Worker = map
) -> Values:
    """Every signal that the outputs have, each of shape (samples,) and float64.

    Parameters
    ----------
    outputs : ndarray of shape (samples, classes), or (samples,) for losses
        Checked numbers of any floating type; logits may be minus infinity.
    labels : ndarray of int64 of shape (samples,)
        From 0 to classes - 1.
    kind : {"logits", "probs", "losses"}
        Losses are in nats and have only the signals that follow from them.
    worker : Worker
        Blocks of samples go through it.

    Returns
    -------
    dict of str to float64 array of shape (samples,)
        By the names of `canary.signals.definitions.SIGNALS`.

    Examples
    --------
    >>> import numpy as np
    >>> from canary.signals.class_signals import signals_of
    >>> found = signals_of(np.array([[2.0, 0.0]]), np.array([0]), "logits")
    >>> round(float(found["loss"][0]), 4), float(found["correctness"][0])
    (0.1269, 1.0)
    """
    if kind == "losses":
        return _of_losses(outputs.astype(np.float64))
    rule = _of_logits if kind == "logits" else _of_probs
    added = {name: signal.value for name, signal in SIGNALS.items() if signal.value}
    size = max(_BLOCK // outputs.shape[1], 1)
    slices = [slice(at, at + size) for at in range(0, len(outputs), size)]

    def block(part: slice) -> Values:
        # The error state is the thread's own.
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            values = rule(outputs[part].astype(np.float64), labels[part])
            if added:
                logs = log_probs_of(outputs[part], kind, np.float64)
                logs.flags.writeable = False
                values |= {
                    name: called(f"signal {name!r}", value, logs, labels[part], shape=(len(logs),))
                    for name, value in added.items()
                }
            return values

    done = list(worker(block, slices))
    return {name: np.concatenate([values[name] for values in done]) for name in done[0]}


def log_probs_of(outputs: NDArray[Any], kind: Outputs, dtype: Any = np.float32) -> NDArray[Any]:
    """Log-probabilities of classes, in nats.

    Parameters
    ----------
    outputs : ndarray of shape (samples, classes)
    kind : {"logits", "probs"}
    dtype : dtype
        Of the result.

    Returns
    -------
    ndarray of shape (samples, classes)
        Minus infinity for a probability of 0.
    """
    if kind == "probs":
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(outputs.astype(dtype)))
    z = outputs.astype(dtype)
    z -= z.max(axis=1, keepdims=True)
    z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
    return z


def _of_logits(z: NDArray[np.float64], labels: NDArray[np.int64]) -> Values:
    """`z` is used up."""
    rows = np.arange(len(z))
    top = z.argmax(axis=1)
    z -= z[rows, top, None]
    right = top == labels
    z_label = z[rows, labels]
    z[rows, top] = -np.inf  # from here on the likeliest class is left out of sums
    p = np.exp(z)
    rest = p.sum(axis=1)
    log_rest = np.log(rest)
    for row in np.flatnonzero(rest < _SMALLEST):
        second = z[row].max()
        log_rest[row] = second
        if second > -np.inf:
            log_rest[row] += np.log(np.exp(z[row] - second).sum())
    log_total = np.log1p(rest)  # -log p_max
    p_top = 1.0 / (1.0 + rest)
    p *= p_top[:, None]
    p_label = np.where(right, p_top, p[rows, labels])
    np.maximum(z, np.finfo(np.float64).min, out=z)  # p is 0 where it was minus infinity
    entropy = log_total - np.einsum("ij,ij->i", p, z)
    # Of the classes that are neither the label nor the likeliest.
    others = np.log1p(-p)
    others[rows, labels] = 0.0
    modified = -np.einsum("ij,ij->i", p, others)
    wrong = ~right
    loss = log_total - np.where(right, 0.0, z_label)
    modified[right] += (rest * p_top * log_total)[right]
    modified[wrong] += ((1.0 - p_label) * loss + p_top * (log_total - log_rest))[wrong]
    return {
        "correctness": right.astype(np.float64),
        "confidence": p_label,
        "loss": loss,
        "logit-confidence": np.where(
            right, -log_rest, -loss - np.log1p(-np.where(right, 0.0, p_label))
        ),
        "entropy": entropy,
        "modified-entropy": modified,
    }


def _of_probs(p: NDArray[np.float64], labels: NDArray[np.int64]) -> Values:
    rows = np.arange(len(p))
    right = p.argmax(axis=1) == labels
    np.minimum(p, 1.0, out=p)
    p_label = p[rows, labels]
    log_label = np.log(p_label)
    entropy = -np.einsum("ij,ij->i", p, np.log(np.maximum(p, np.finfo(np.float64).tiny)))
    others = np.log1p(-p)
    log_rest = others[rows, labels].copy()
    others[rows, labels] = 0.0
    modified = -np.einsum("ij,ij->i", p, others)
    return {
        "correctness": right.astype(np.float64),
        "confidence": p_label,
        "loss": 0.0 - log_label,
        "logit-confidence": log_label - log_rest,
        "entropy": np.maximum(entropy, 0.0),
        "modified-entropy": modified - (1.0 - p_label) * log_label,
    }


def _of_losses(loss: NDArray[np.float64]) -> Values:
    with np.errstate(divide="ignore"):
        return {
            "confidence": np.exp(-loss),
            "loss": loss,
            "logit-confidence": -loss - np.log(-np.expm1(-loss)),
        }
