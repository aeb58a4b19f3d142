"""The paper's estimate: a skew-normal curve is fitted to uniform draws and extrapolated."""

from __future__ import annotations

from dataclasses import replace

from canary.audits.by_draws import UniformDraws
from canary.audits.method import Cost, Measured
from canary.audits.question import Question
from canary.statistics.exposures import SKEW_NORMAL


class SkewNormal(UniformDraws):
    """The estimate beside every exposure is taken as the exposure; it has no p-value."""

    name = SKEW_NORMAL
    answers = (SKEW_NORMAL,)
    help = "skew-normal reads exposure off a curve fitted to draws, and has no p-value."
    has_p_values = False

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Draw uniformly, and read exposures off the curve."""
        found = super().measure(question, cost)
        beside = found.curve(question, cost.sizes.noise_bits)
        return replace(found, exposures=beside[0], beside=beside)
