"""Counterfactual memorization: what having a sample in the training data does to its own score.

References
----------
.. [1] Zhang, Ippolito, Lee, Jagielski, Tramèr and Carlini, Counterfactual memorization in neural
   language models, NeurIPS 2023.
.. [2] Newcombe, Interval estimation for the difference between independent proportions,
   Statistics in Medicine 17, 1998 (method 10).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.signals.definitions import SIGNALS
from canary.signals.signal_table import SignalTable
from canary.signals.text import TEXT_SIGNALS
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import Shown, count, plural
from canary.statistics.welch import welch_half

Floats = NDArray[np.float64]

FEWEST = 2
"""Models with a sample, and without it, that its interval needs."""


@dataclass(frozen=True, eq=False, repr=False)
class Counterfactual(Shown):
    """How much each sample raises its own score by being in the training data.

    Parameters
    ----------
    signal : str
        The score; where members have lower numbers (as of losses), its negative.
    value, lower, upper : ndarray of float64 of shape (samples,)
        The mean over the models with the sample less that over the models without it, and the
        ends of its interval. NaN where fewer than two models are of either kind.
    trained, untrained : ndarray of int64 of shape (samples,)
        Models with the sample, and without it.
    confidence : float
        Of the interval of each sample alone: of many samples some intervals miss.
    label : ndarray of shape (samples,) or None
        The class of each sample.
    ids : ndarray of shape (samples,) or None
        Your names of the samples.
    """

    signal: str
    value: Floats
    lower: Floats
    upper: Floats
    trained: NDArray[np.int64]
    untrained: NDArray[np.int64]
    confidence: float
    label: NDArray[np.int64] | None = None
    ids: NDArray[Any] | None = None

    def summary(self) -> str:
        """The mean, and how many samples are memorized."""
        judged = int(np.isfinite(self.value).sum())
        above, left = int((self.lower > 0).sum()), len(self.value) - judged
        chance = (1 - self.confidence) / 2
        lines = [
            f"counterfactual memorization by {self.signal}: mean {np.nanmean(self.value):.3g} over "
            f"{plural(judged, 'sample')}, at most {np.nanmax(self.value):.3g}; {count(above)} of "
            f"their intervals are above 0 (by chance alone about {chance * judged:.3g})"
        ]
        if left:
            lines.append(
                f"{plural(left, 'sample')} without two models of either kind "
                f"{'was' if left == 1 else 'were'} left out"
            )
        return "\n".join(lines)

    def _table(self) -> dict[str, Any]:
        return {
            "sample": np.arange(len(self.value)),
            **({} if self.ids is None else {"id": self.ids}),
            **({} if self.label is None else {"label": self.label}),
            "memorization": self.value,
            "lower": self.lower,
            "upper": self.upper,
            "trained": self.trained,
            "untrained": self.untrained,
        }

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        yield f"counterfactual/{self.signal}_mean", float(np.nanmean(self.value))


def counterfactual(
    table: SignalTable, signal: str = "loss", *, confidence: float = 0.95
) -> Counterfactual:
    """Counterfactual memorization [1]_ of each sample, from models that differ in having it.

    Parameters
    ----------
    table : SignalTable
        Of models whose members were drawn, as by `canary.fleet.splits.halves`.
    signal : str
        The score, such as ``loss`` (nats) or ``correctness``, the accuracy of the paper.
    confidence : float

    Raises
    ------
    InputError
        If the table has no such signal, a number of it is not finite, or no sample has two models
        with it and two without.

    Notes
    -----
    Intervals are Welch's, over models; of a score that is 0 or 1 Newcombe's [2]_, since equal
    answers of few models have no spread. O(models * samples).

    Examples
    --------
    >>> found = counterfactual(fleet.run(), "loss")  # doctest: +SKIP
    >>> found.value.argmax()  # doctest: +SKIP
    17
    """
    check_confidence(confidence, "counterfactual")
    scores = table.signal(signal)
    sign = (TEXT_SIGNALS if table.of_texts else SIGNALS)[signal].sign
    if not np.isfinite(scores).all():
        cure = "measure another signal, or leave the samples out by table.select(samples=...)"
        raise InputError(f"the signal {signal} has numbers that are not finite", cure=cure)
    kinds = [_moments(sign * scores, member) for member in (table.member, ~table.member)]
    means, variances, models = zip(*kinds, strict=True)
    trained, untrained = models
    if not (judged := np.minimum(trained, untrained) >= FEWEST).any():
        raise InputError(
            "no sample has two models that were trained on it and two that were not",
            cure="train the models on random halves (canary.fleet.splits.halves)",
            where=table.source,
        )
    value = np.where(judged, means[0] - means[1], np.nan)
    if np.isin(scores, (0.0, 1.0)).all():
        ends = _newcombe(means, models, confidence)
    else:
        half, _ = welch_half(variances, models, confidence)
        ends = half, half
    lower, upper = value - ends[0], value + ends[1]
    found = (value, lower, upper, trained, untrained)
    label = None if table.of_texts else table.label
    return Counterfactual(signal, *found, confidence, label, table.ids)


def _moments(scores: Floats, of: NDArray[np.bool_]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Mean and variance over some models of each sample, and how many they are."""
    models = of.sum(axis=0)
    mean = np.where(of, scores, 0.0).sum(axis=0) / np.maximum(models, 1)
    squares = (np.where(of, scores - mean, 0.0) ** 2).sum(axis=0)
    return mean, squares / np.maximum(models - 1, 1), models


def _newcombe(means: Any, models: Any, confidence: float) -> tuple[Floats, Floats]:
    """The same for shares, which may be negative both: by the ends of Wilson's intervals."""
    from scipy.special import ndtri

    z2, gaps = ndtri((1 + confidence) / 2) ** 2, []
    for mean, n in zip(np.abs(means), np.maximum(models, 1), strict=True):
        centre = (mean + z2 / (2 * n)) / (1 + z2 / n)
        half = np.sqrt(z2 * (mean * (1 - mean) / n + z2 / (4 * n * n))) / (1 + z2 / n)
        gaps.append((mean - (centre - half), centre + half - mean))
    if np.min(means) < 0:
        gaps = [(up, down) for down, up in gaps]
    return np.hypot(gaps[0][0], gaps[1][1]), np.hypot(gaps[0][1], gaps[1][0])
