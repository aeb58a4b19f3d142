"""When a training is to stop: canaries with some number of copies are exposed above a limit."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from canary.errors import InputError
from canary.plugins.live_pricing import LivePricer
from canary.statistics.exposures import Exposure
from canary.statistics.numbers import plural


@dataclass(frozen=True)
class StopRule:
    """Stops where the median of the lower ends of a group is above `bits`.

    Parameters
    ----------
    bits : float
    groups : mapping of int to tuple of int
        Places of the injected canaries by their number of copies.
    """

    bits: float
    groups: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, bits: float, draws: LivePricer) -> StopRule:
        """The rule, if these draws can show that it is broken.

        Raises
        ------
        InputError
            If no canary of the set was injected, or no group can be shown to be above `bits`.
        """
        groups: dict[int, tuple[int, ...]] = {}
        for at, canary in enumerate(draws.canaries):
            if canary.repetitions:
                groups[canary.repetitions] = (*groups.get(canary.repetitions, ()), at)
        if not groups:
            raise InputError(
                "stop_above_bits was given, and the set has no injected canary, so nothing could "
                "ever stop the training",
                cure="give the set that was injected into the training data",
            )
        certain = draws.certain_bits()
        most = max(
            statistics.median(certain[draws.canaries[at].format] for at in places)
            for places in groups.values()
        )
        if not 0.0 <= bits < most:
            raise InputError(
                f"stop_above_bits={bits:g}, and the draws can show {most:.1f} bits at most",
                cure="give a limit from 0 up to that, or more draws: every doubling shows 1 bit "
                "more",
            )
        return cls(bits, groups)

    def broken(self, exposures: Sequence[Exposure]) -> str | None:
        """Which group is above the limit, in words; None if none is."""
        medians = {
            copies: statistics.median(exposures[at].lower_bits for at in places)
            for copies, places in self.groups.items()
        }
        copies = max(medians, key=lambda n: (medians[n], n))
        if medians[copies] <= self.bits:
            return None
        return (
            f"canaries with {plural(copies, 'copy', 'copies')} have a median exposure of at "
            f"least {medians[copies]:.1f} bits, above the limit of {self.bits:g}"
        )
