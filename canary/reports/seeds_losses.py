"""The losses of ways of training on new text, beside their exposure."""

from __future__ import annotations

from typing import Any

from canary.errors import InputError
from canary.records.validation import brief
from canary.reports.comparison import Strategy
from canary.reports.document import Axis, Figure, Mark, Panel, Table, mark, said_in_one, sentence
from canary.reports.palette import MUTED, SERIES, dots
from canary.reports.seeds_cells import ends_of, listed, loss_ends, loss_words
from canary.reports.seeds_compared import EVERY_END, SeedsCompared
from canary.statistics.numbers import bits, count, percent_of, probability

_MARKERS = "osDvPX*"


def colour_of(group: int) -> str:
    """That of a group in all figures."""
    return SERIES[group % len(SERIES)]


def marker_of(group: int) -> str:
    """That of a group in all figures."""
    return _MARKERS[group % len(_MARKERS)]


def key_of_sets(found: SeedsCompared) -> list[tuple[str, str]]:
    """What the legend says where the canary sets of the groups differ."""
    return [(MUTED, "other canaries: not comparable")] if found.mixed_sets else []


def losses_sentence(found: SeedsCompared) -> str:
    """The mean loss of each group, and how much higher those after the first are."""
    level = percent_of(found.confidence, digits=None)
    told = [
        f"{brief(label)} {loss_words(mean)}"
        for label, mean in zip(found.labels, found.mean_losses, strict=True)
    ]
    gaps = []
    for label, gap in zip(found.labels[1:], found.loss_gaps, strict=True):
        more = "more" if gap.value >= 0 else "less"
        how = "no interval: the seeds have no spread, or are too few"
        if gap.lower is not None:
            how = f"difference {loss_ends(gap)}, p = {probability(gap.p_value)}"
        gaps.append(f"{brief(label)} {abs(gap.value):.3f} {more} ({how})")
    values = {"means": listed(told), "gaps": listed(gaps), "first": brief(found.labels[0])}
    return sentence("seeds.loss", level=level, **values)


def losses_figure(found: SeedsCompared) -> Figure:
    """Loss on new text against exposure: a faint point for each seed, a cross for each group."""
    if not found.losses:
        raise InputError(
            "utility needs the test loss of each audit",
            cure="give test_losses, a list for each group, in nats per token",
        )
    if not found.overall:
        raise InputError(
            f"{EVERY_END}, so none is drawn against a loss",
            cure="draw the exposure by number of copies",
        )
    marks: list[Mark] = []
    rows, told = [], []
    for at, label in enumerate(found.labels):
        colour, marker = colour_of(at), marker_of(at)
        faint: dict[str, Any] = {"marker": marker, "alpha": 0.35, "zorder": 2}
        marks.append(dots(list(found.overall[at]), list(found.losses[at]), 16, colour, **faint))
        exposure, loss = found.means[at], found.mean_losses[at]
        thick = {"color": colour, "linewidth": 2.0, "zorder": 3}
        if exposure.lower is not None and exposure.upper is not None:
            marks.append(mark("hlines", loss.value, exposure.lower, exposure.upper, **thick))
        if loss.lower is not None and loss.upper is not None:
            marks.append(mark("vlines", exposure.value, loss.lower, loss.upper, **thick))
        marks.append(dots(exposure.value, loss.value, 52, colour, marker=marker, zorder=3.5))
        gap = found.loss_gaps[at - 1] if at else None
        rows.append(
            (
                label,
                count(len(found.losses[at])),
                bits(exposure.value),
                ends_of(exposure),
                f"{loss.value:.3f}",
                loss_ends(loss),
                f"{gap.value:+.3f}" if gap else "–",
                loss_ends(gap) if gap else "–",
                probability(gap.p_value) if gap and gap.p_value is not None else "–",
            )
        )
        told.append(f"{label}: {bits(exposure.value)} bits, loss {loss.value:.3f}")
    level = percent_of(found.confidence, digits=None)
    columns = (
        *("Group", "Seeds", "Exposure, bits", f"{level} interval"),
        *("Loss", f"{level} interval", f"Difference to {found.labels[0]}"),
        *(f"{level} interval (Welch)", "p"),
    )
    key = [(colour_of(at), label) for at, label in enumerate(found.labels)]
    key.append((MUTED, "faint: one seed"))
    key += key_of_sets(found)
    x = Axis(f"mean of median exposures (bits), {found.used}")
    y = Axis("loss on new text (nats per token)")
    marks.append(mark("margins", 0.12, 0.12))
    return Figure(
        "seeds utility",
        f"Loss on new text against exposure, as means over seeds. {'; '.join(told)}.",
        [Panel(marks, x, y, legend="above", key=key)],
        said_in_one("seeds.utility.caption", level=level, used=found.used),
        Table("Exposure and loss on new text, over seeds", columns, rows),
    )


def named_losses(one: Strategy) -> tuple[str, ...]:
    """The cell of a table with the loss of an audit, if there is one."""
    return () if one.test_loss_nats is None else (f"{one.test_loss_nats:.4f}",)
