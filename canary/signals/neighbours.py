"""Rewritten copies of texts: the neighbours with which a text is compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from canary.scoring.batcher import Stage

__all__ = ["REWRITING", "Rewriter", "mean_of", "rewritten"]

REWRITING = "rewriting"
"""With what the names of stages begin that count texts, and not tokens."""


class Rewriter(Protocol):
    """What replaces words of texts by others that fit, such as a masked language model."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Its name and its fingerprint."""
        ...

    def rewrite(self, texts: Sequence[str], *, share: float, rng: np.random.Generator) -> list[str]:
        """Each text with `share` of its words replaced; one that has none is as it was."""
        ...


def rewritten(
    rewriter: Rewriter,
    texts: Sequence[str],
    *,
    count: int,
    share: float,
    seed: int,
    stage: Stage,
    begin: int = 0,
) -> Iterator[list[str]]:
    """`count` times all texts, each time with other words replaced; without the first `begin`."""
    for number in range(begin, count):
        done = stage(f"{REWRITING} {number + 1}", len(texts))
        copies = rewriter.rewrite(texts, share=share, rng=np.random.default_rng((seed, number)))
        done(len(texts))
        yield copies


def mean_of(losses: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Mean loss of the copies of each text, shape (texts,).

    A copy without a priced token (NaN) is left out; NaN where all are.
    """
    together = np.stack(losses)
    there = ~np.isnan(together)
    sums = np.where(there, together, 0.0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.where(there.any(axis=0), sums / np.maximum(there.sum(axis=0), 1), np.nan)
