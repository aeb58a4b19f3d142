"""The paper's estimate: a skew-normal curve is fitted to uniform draws and extrapolated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from canary.audits.by_draws import UniformDraws
from canary.audits.method import Cost, Measured, Method
from canary.audits.question import Question
from canary.statistics.exposures import SKEW_NORMAL, Exposure
from canary.statistics.extrapolation import SkewNormalFit, exposure_by_skew_normal

_STREAM = 0x63757276


class SkewNormal(Method):
    """The estimate beside every exposure is taken as the exposure; it has no p-value."""

    name = SKEW_NORMAL
    answers = (SKEW_NORMAL,)
    has_p_values = False

    def cost(self, question: Question) -> Cost:
        """Uniform draws."""
        return UniformDraws().cost(question)

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Draw uniformly, and read exposures off the curve."""
        found = UniformDraws().measure(question, cost)
        beside = curve(question, found, cost.sizes.noise_bits)
        return replace(found, exposures=beside[0], beside=beside)


def curve(
    question: Question, found: Measured, noise_bits: float
) -> tuple[Sequence[Exposure], SkewNormalFit]:
    """The estimate of each canary, and the curve.

    Raises
    ------
    EstimationError
        If no curve can be fitted: fewer than 40 draws, all alike, or an impossible one.
    """
    return exposure_by_skew_normal(
        found.canaries.px_bits,
        found.draws_px,
        space_size=question.format.size,
        rng=question.rng(_STREAM),
        noise_bits=noise_bits,
    )
