"""Rank among controls: a canary is compared with those that were drawn with it and stayed out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from canary.audits.method import Cost, Measured, Method, Unfit
from canary.audits.question import LEAST_CONTROLS, Question
from canary.errors import InputError
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.histogram import HistogramBuilder
from canary.statistics.number_checks import LARGEST_BITS
from canary.statistics.numbers import plural


class Controls(Method):
    """Fits every format and model: canaries and controls are scored as whole rows.

    Canaries and controls were drawn alike, so each canary that was not learned is equally likely
    to have any place among the controls. Its p-value is ``(1 + hits) / (1 + controls)``.
    """

    name = "controls"
    answers = ("controls",)
    help = (
        "controls compares each canary with the controls of its format, which auto does where "
        "they and the canaries are the whole space."
    )

    def cost(self, question: Question) -> Cost | Unfit:
        """The canaries and controls, as rows."""
        controls = sum(canary.control for canary in question.canaries)
        if controls < LEAST_CONTROLS:
            problem = (
                f"there are {plural(controls, 'control')}, and {LEAST_CONTROLS} are the fewest"
            )
            cure = 'draw more controls (--controls; 100 can show p = 0.01), or use method="auto"'
            return Unfit(problem, InputError(problem, cure=cure, where="method"))
        sizes = question.sizes()
        rows = len(question.fills)
        return Cost(
            f"compared with {plural(controls, 'control')} of the set",
            rows * sizes.tokens,
            rows,
            sizes,
        )

    def measure(self, question: Question, cost: Cost) -> Measured:
        """Count, for each canary and control, the other controls that are as likely."""
        sizes = cost.sizes
        work = len(question.fills) * sizes.tokens
        batcher = question.first_batcher(self.name, sizes, work)
        with question.pricer(None, sizes.noise_bits) as pricer:
            priced, queries = pricer.canaries(batcher, question.fills)
        px = np.minimum(priced.px_bits, LARGEST_BITS)
        control = np.array([canary.control for canary in question.canaries])
        exposures = []
        for place in range(len(px)):
            others = control.copy()
            others[place] = False
            (drawn,) = exposure_by_draws(
                px[place : place + 1],
                px[others],
                space_size=question.format.size,
                noise_bits=sizes.noise_bits,
            )
            exposures.append(replace(drawn, method=self.name))
        histogram = HistogramBuilder()
        histogram.add(priced.px_bits[control])
        return Measured(
            method=self.name,
            canaries=priced,
            exposures=exposures,
            histogram=histogram.build(),
            candidates=int(control.sum()),
            queries=queries,
            draws=int(control.sum()),
            draws_px=np.sort(px[control]),
            notes=(
                "Controls are compared with each other, so that their p-value is always near one "
                "half: it does not check this audit.",
            ),
        )
