"""What a method of measuring exposure offers: its cost, and what it measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from canary.audits.question import Question, Sizes
from canary.errors import CanaryError
from canary.records.progress import phase
from canary.search.pricing import Priced
from canary.statistics.exposures import Exposure
from canary.statistics.extrapolation import SkewNormalFit, exposure_by_skew_normal
from canary.statistics.histogram import Histogram

_STREAM = 0x63757276


@dataclass(frozen=True, eq=False)
class Cost:
    """What a method takes for a question.

    Parameters
    ----------
    reason : str
        Why this method, in a clause.
    queries, rows : int
        Tokens below the context of the stage that is sure to be done, and candidates that are
        priced as whole rows.
    sizes : Sizes
    certificate : str or None
        How it is known that every candidate is scored once; None for draws.
    """

    reason: str
    queries: int
    rows: int
    sizes: Sizes
    certificate: str | None = None


@dataclass(frozen=True)
class Stage:
    """Work of one kind, and its queries; `at_most` if it may end before.

    Kinds are ``"leaves"`` (a walk over all leaves), ``"draws"`` and ``"search"``.
    """

    kind: str
    queries: int
    at_most: bool = False


@dataclass(frozen=True)
class Unfit:
    """Why a method cannot be had: a clause, and the error where the user asked for it."""

    reason: str
    error: CanaryError


@dataclass(frozen=True, eq=False)
class Measured:
    """What a method gives for a format.

    Parameters
    ----------
    method, histogram, candidates, queries, draws
        As in `FormatResult`.
    canaries, exposures : Priced, sequence of Exposure
        In the order of the canaries.
    draws_px : array
        Log-perplexities of draws that are no canaries, ascending, for the skew-normal curve.
    done : str
        What the method did, to follow `Cost.reason`.
    beside : tuple of (sequence of Exposure, SkewNormalFit), optional
        The skew-normal estimates and their curve, if the method made them.
    notes : tuple of str
        What the reader must know of the numbers.
    """

    method: str
    canaries: Priced
    exposures: Sequence[Exposure]
    histogram: Histogram
    candidates: int
    queries: int
    draws: int | None
    draws_px: NDArray[np.float64]
    done: str = ""
    beside: tuple[Sequence[Exposure], SkewNormalFit] | None = None
    notes: tuple[str, ...] = ()

    def curve(
        self, question: Question, noise_bits: float
    ) -> tuple[Sequence[Exposure], SkewNormalFit]:
        """The skew-normal estimate of each canary, and the curve, or an EstimationError."""
        phase("Fitting the curve")
        return exposure_by_skew_normal(
            self.canaries.px_bits,
            self.draws_px,
            space_size=question.format.size,
            rng=question.rng(_STREAM),
            noise_bits=noise_bits,
        )


class Method(ABC):
    """A method of measuring exposure.

    Whether an exposure is certain, drawn or read off a curve, it says itself (`Exposure.miss`,
    `Exposure.only_draws`, `Exposure.unbounded`): nobody asks for the name of its method.

    Attributes
    ----------
    name, answers : str, tuple of str
        By which it is known, and what the user may ask for to get it: ``"auto"``, too.
    whole_rows : bool
        Whether it scores whole candidates, which some served models cannot do.
    has_p_values : bool
        Whether its exposures have p-values; an audit rests on them.
    help : str
        A clause for the help of the command line; empty if its name says enough.
    """

    name: ClassVar[str]
    answers: ClassVar[tuple[str, ...]]
    whole_rows: ClassVar[bool] = True
    has_p_values: ClassVar[bool] = True
    help: ClassVar[str] = ""

    @abstractmethod
    def cost(self, question: Question) -> Cost | Unfit:
        """What it takes for a question, or why it cannot be had."""

    def stages(self, question: Question, cost: Cost) -> tuple[Stage, ...]:
        """What it does, in order, without the canaries; draws unless a method says otherwise."""
        return (Stage("draws", cost.queries),)

    @abstractmethod
    def measure(self, question: Question, cost: Cost) -> Measured:
        """Measure the canaries of a question."""
