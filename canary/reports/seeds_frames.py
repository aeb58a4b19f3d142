"""The tables of ways of training that were compared over seeds: of a `SeedsCompared`."""

from __future__ import annotations

from typing import Any

from canary.reports.seeds_cells import estimate
from canary.statistics.welch import Estimated


def audit_rows(found: Any) -> list[dict[str, Any]]:
    """A row for each audit and number of copies."""
    return [
        {
            "group": label,
            "run": i,
            "audit": one.label,
            "format": cell.format,
            "repetitions": cell.repetitions,
            "median_bits": cell.medians[at][i - 1],
            "bound": cell.bounds[at][i - 1],
            "at_ceiling": cell.full[at][i - 1],
            "overall_bits": found.overall[at][i - 1] if found.overall else None,
            **_ends("group", found.means[at] if found.means else None),
            "test_loss": one.test_loss_nats,
        }
        for cell in found.cells
        for at, label in enumerate(found.labels)
        for i, one in enumerate(found.groups[at], 1)
    ]


def mean_rows(found: Any) -> list[dict[str, Any]]:
    """A row for each group and number of copies."""
    rows = []
    for cell in found.cells:
        for at, label in enumerate(found.labels):
            mean = estimate(cell, at, found.confidence)
            gap = found.difference(cell, at)
            rows.append(
                {
                    "group": label,
                    "format": cell.format,
                    "repetitions": cell.repetitions,
                    "seeds": len(cell.medians[at]),
                    "mean_bits": mean.value,
                    "bound": any(cell.bounds[at]),
                    "at_ceiling": any(cell.full[at]),
                    "counted": cell.usable,
                    "lower_bits": mean.lower,
                    "upper_bits": mean.upper,
                    "highest_bits": cell.most,
                    "difference_bits": gap and gap.value,
                    **_ends("difference", gap),
                    "p_value": gap and gap.p_value,
                    **_overall_columns(found, at),
                    **_loss_columns(found, at),
                    "confidence": found.confidence,
                }
            )
    return rows


def _ends(name: str, found: Estimated | None) -> dict[str, float | None]:
    low, high = (None, None) if found is None else (found.lower, found.upper)
    return {f"{name}_lower": low, f"{name}_upper": high}


def _value(found: Estimated | None) -> float | None:
    return None if found is None else found.value


def _overall_columns(found: Any, at: int) -> dict[str, float | None]:
    """The one number of a group, by which it is ranked."""
    mean = found.means[at] if found.means else None
    return {"overall_bits": _value(mean), **_ends("overall", mean)}


def _loss_columns(found: Any, at: int) -> dict[str, float | None]:
    """What is known of a group's loss on new text."""
    mean = found.mean_losses[at] if found.losses else None
    gap = found.loss_gaps[at - 1] if found.losses and at else None
    return {
        "mean_loss": _value(mean),
        **_ends("loss", mean),
        "loss_difference": _value(gap),
        **_ends("loss_difference", gap),
        "loss_p_value": None if gap is None else gap.p_value,
    }
