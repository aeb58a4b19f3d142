"""Whether a query set was forgotten, as one HTML file that opens from disk."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from canary.records.files import atomic_write
from canary.records.overwrite_guard import PAGES
from canary.reports.canvas import NARROW, WIDE
from canary.reports.forgetting_figures import draw_forgetting
from canary.reports.pages import page, software
from canary.statistics.numbers import count, probability

if TYPE_CHECKING:
    from canary.membership.forgetting import Forgetting

__all__ = ["report_forgetting"]

_TEMPLATE = "forgetting.html.j2"
_TONES = {"forgotten": "not-found", "not forgotten": "memorized", "undecided": "undecided"}


def report_forgetting(found: Forgetting, path: str | os.PathLike[str], *, name: str) -> Path:
    """Write the comparison as a report that a person can read and defend.

    Parameters
    ----------
    found : Forgetting
    path : path-like
    name : str
        Of the target.

    Returns
    -------
    Path
        `path`, one self-contained HTML file without scripts.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    target = Path(path)
    atomic_write(target, render(found, name=name), private=True, replaces=PAGES)
    return target


def render(found: Forgetting, *, name: str) -> str:
    """The HTML of `report_forgetting`, as text."""
    from markupsafe import Markup

    return page(
        _TEMPLATE,
        name=name,
        tone="undecided"
        if found.unlike or found.unproven or found.remembered
        else _TONES[found.answer],
        label=_label(found),
        sentence=found.summary(),
        tiles=_tiles(found),
        notes=list(found.notes),
        confidence=f"{100 * found.confidence:g} %",
        rows=_rows(found),
        # The drawing holds our own numbers and words only.
        figures={
            ("forgetting", width): Markup(draw_forgetting(found, size=inches))  # noqa: S704
            for width, inches in (("wide", WIDE), ("narrow", NARROW))
        },
        words=(
            "Distribution of the losses of each model on the query set, and distances from the "
            f"query model: target {found.target:.3f}, calibration models "
            f"{found.calibration.min():.3f} to {found.calibration.max():.3f}."
        ),
        chance=f"{found.chance:.3f}",
        retrained=found.retrained is not None,
        auc=found.auc is not None,
        facts=_facts(found),
        software=software(),
    )


def _label(found: Forgetting) -> str:
    if found.remembered:
        return "Something is left of it"
    if found.unlike:
        return "Forgotten, and it shows"
    if found.unproven:
        return "Not forgotten, or never seen"
    if found.alike:
        return "Like models that never saw it"
    return found.answer.capitalize()


def _tiles(found: Forgetting) -> list[tuple[str, str, str]]:
    upper = f"{found.upper:.2f}" if math.isfinite(found.upper) else "no upper end"
    tiles = [
        ("rho", f"{found.rho:.2f}", f"{found.lower:.2f} to {upper}; forgotten from 1 on"),
        (
            "p",
            probability(found.p),
            "of a distance as small, if the target were to the query set as a calibration model is",
        ),
    ]
    if found.p_unlike is not None:
        tiles.append(
            (
                "p, any difference",
                probability(found.p_unlike),
                "that the target answers as the calibration models do",
            )
        )
    if found.auc is not None:
        tiles.append(
            (
                "Membership attack",
                f"{100 * found.auc.value:.1f} %",
                f"AUC, {100 * found.auc.lower:.1f} to {100 * found.auc.upper:.1f}; 50 % is a coin",
            )
        )
    return tiles


def _rows(found: Forgetting) -> list[tuple[str, str, str]]:
    rows = [("Target", f"{found.target:.4f}", f"{found.rho:.3f}")]
    mean = float(found.calibration.mean())
    groups = (("Calibration model", found.calibration), ("Retrained model", found.retrained))
    for name, distances in groups:
        for number, distance in enumerate(() if distances is None else distances, 1):
            rows.append((f"{name} {number}", f"{distance:.4f}", f"{distance / mean:.3f}"))
    if found.floor is not None:
        rows.append(
            ("Query models, from each other", f"{found.floor:.4f}", f"{found.floor / mean:.3f}")
        )
    return rows


def _facts(found: Forgetting) -> dict[str, str]:
    facts = {
        "Samples of the query set": count(found.samples),
        "Query models": count(len(found.losses["query"])),
        "Calibration models": count(len(found.calibration)),
        "Resamples": count(found.resamples),
        "Seed": str(found.seed),
    }
    if found.retrained is not None:
        facts["Retrained models"] = count(len(found.retrained))
    return facts
