"""The history of a training as one HTML file."""

from __future__ import annotations

import bisect
import math
from typing import Any

import numpy as np

from canary.audits.audit_result import median_bits
from canary.audits.history import PASSED_AT_THE_END, History, Moment
from canary.reports.canvas import NARROW, WIDE
from canary.reports.cells import bound_or_bits
from canary.reports.history_figures import GroupLine, draw_history, group_lines, group_name
from canary.reports.pages import page
from canary.reports.sentences import UNLEARNED_95_BITS
from canary.reports.wording import facts_in_words, settings_in_words
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.numbers import bits, count, plural
from canary.tokens.starts import shown_start

__all__ = ["render_history"]

_TEMPLATE = "history.html.j2"
_MOST_ROWS = 200


def render_history(history: History) -> str:
    """The HTML of `canary.report` for a history, as text."""
    shown = {name: value for name, value in history.settings.items() if name != "marks"}
    return page(
        _TEMPLATE,
        model=history.model.get("name") or "a language model",
        sentence=_sentence(history),
        tiles=_tiles(history),
        formats=[_format_view(history, at) for at in range(len(history.formats))],
        findings=history.batches.get("findings", []),
        start=_start(history),
        failures=[(count(m.step), m.reason) for m in history.moments if m.reason is not None],
        marks=bool(history.settings.get("marks")),
        stopped=history.stopped_at is not None,
        losses=bool(history.losses),
        censored=any(e.censored for m in history.measured for e in m.exposures),
        unlearned=bits(UNLEARNED_95_BITS),
        facts=facts_in_words(history.model),
        settings=settings_in_words(shown),
    )


def _sentence(history: History) -> str:
    if not history.measured:
        return "No exposure was measured in this training."
    last = history.measured[-1]
    copies, median, bound = _strongest(history, last)
    found = (
        f"At step {count(last.step)}, {_named(copies)} had a median exposure of "
        f"{'at least ' if bound else ''}{bits(median)} bits"
    )
    found += f"; {_most_of_draws(history)}." if bound else "."
    if history.stopped_at is not None:
        limit = history.settings.get("stop_above_bits")
        why = f" above {limit:g} bits" if isinstance(limit, int | float) else ""
        reason = history.stop_reason or ""
        if reason.startswith(PASSED_AT_THE_END):
            return f"{reason[0].upper()}{reason[1:]}. {found}"
        if reason:
            why = f": {reason}"
        found = f"The training was stopped at step {count(history.stopped_at)}{why}. {found}"
    return found


def _start(history: History) -> str:
    """What was put before candidates, and what the batches show of it."""
    used = {moment.start_token for moment in history.measured}
    names = " and ".join(sorted(map(shown_start, used)))
    said = f"Candidates were priced after {names}." if used else ""
    after = history.batches.get("after")
    if after:
        seen = ", ".join(f"{name} before {count(times)}" for name, times in after.items())
        canaries = plural(history.batches["canaries"], "canary", "canaries")
        said += f" Of {canaries} in the batches that were read, there was {seen}."
    return said.strip()


def _named(copies: int) -> str:
    return f"the canaries with {group_name(copies)}" if copies else "the controls"


def _most_of_draws(history: History) -> str:
    """The largest lower bound that so many draws can give, which is where none was as likely."""
    about = max(history.formats, key=lambda f: f.draws)
    best = exposure_by_draws([0.0], np.ones(about.draws), space_size=about.space_size)[0]
    return f"{plural(about.draws, 'draw')} can show no more than about {bits(best.lower_bits)} bits"


def _strongest(history: History, moment: Moment) -> tuple[int, float, bool]:
    """Copies, median and whether it is a bound, of the most exposed group."""
    medians = {
        copies: median_bits([moment.exposures[at] for at in places])
        for copies, places in history.groups().items()
    }
    copies = max(medians, key=lambda n: (bool(n), medians[n][0], n))
    return copies, *medians[copies]


def _tiles(history: History) -> list[tuple[str, str, str]]:
    share = history.share
    injected = sum(1 for canary in history.canaries if canary.repetitions)
    controls = len(history.canaries) - injected
    return [
        (
            "Measured",
            plural(len(history.measured), "time"),
            f"of {plural(history.asked, 'step')} that {'was' if history.asked == 1 else 'were'} "
            f"asked for{_skipped(history)}",
        ),
        (
            "Time taken",
            "none" if share is None else _share_in_words(share),
            f"{history.own_seconds:.1f} s beside {history.training_seconds:.1f} s",
        ),
        (
            "Canaries",
            count(injected),
            f"and {plural(controls, 'control')}, which were never in the corpus",
        ),
    ]


def _skipped(history: History) -> str:
    if history.asked <= len(history.moments):
        return ""
    return "; the others would have taken more time than the share"


def _share_in_words(share: float) -> str:
    if share < 1.0:
        return f"{100 * share:.2g} % of the training"
    return (
        f"{share:.1f} times the training's"
        if share < 9.95
        else f"{share:,.0f} times the training's"
    )


def _format_view(history: History, at: int) -> dict[str, Any]:
    from markupsafe import Markup

    about = history.formats[at]
    kinds: dict[str, bool] = {"draws": False}
    if any(line.steps for line in group_lines(history, at, skew_normal=True)):
        kinds["curve"] = True
    views = []
    for kind, skew_normal in kinds.items():
        lines = group_lines(history, at, skew_normal=skew_normal)
        views.append(
            {
                "skew_normal": skew_normal,
                "words": _words(lines),
                "columns": _columns(history, lines),
                "rows": _rows(history, lines),
                "figures": {
                    # The drawings hold our own numbers and words only.
                    (kind, name): Markup(  # noqa: S704
                        draw_history(history, at, skew_normal=skew_normal, size=inches)
                    )
                    for name, inches in (("wide", WIDE), ("narrow", NARROW))
                },
                "kind": kind,
            }
        )
    return {
        "masked": about.masked,
        "size": count(about.space_size),
        "most": bits(math.log2(about.space_size)),
        "draws": count(about.draws),
        "views": views,
    }


def _words(lines: list[GroupLine]) -> str:
    """What a figure shows, for those who do not see it."""
    parts = [
        f"{group_name(line.copies)}: from {bits(line.medians[0])} at step {count(line.steps[0])} "
        f"to {bits(line.medians[-1])} at step {count(line.steps[-1])}"
        for line in lines
        if line.steps
    ]
    return f"Exposure against training steps. Median exposure in bits, {'; '.join(parts)}."


def _columns(history: History, lines: list[GroupLine]) -> tuple[str, ...]:
    loss = ("Loss",) if history.losses else ()
    return "Step", "Epoch", *loss, *(group_name(line.copies) for line in lines)


def _rows(history: History, lines: list[GroupLine]) -> list[tuple[str, ...]]:
    """A row per moment; of very many, evenly chosen ones and the last."""
    moments = history.measured
    every = math.ceil(len(moments) / _MOST_ROWS) or 1
    chosen = [m for i, m in enumerate(moments) if i % every == 0 or i == len(moments) - 1]
    steps = [loss.step for loss in history.losses]
    rows = []
    for moment in chosen:
        epoch = "–" if moment.epoch is None else f"{moment.epoch:.2f}"
        behind = bisect.bisect_right(steps, moment.step)
        loss = f"{history.losses[behind - 1].value:.4g}" if behind else "–"
        rows.append(
            (
                count(moment.step),
                epoch,
                *((loss,) if steps else ()),
                *(_cell(line, moment.step) for line in lines),
            )
        )
    return rows


def _cell(line: GroupLine, step: int) -> str:
    at = bisect.bisect_left(line.steps, step)
    if at == len(line.steps) or line.steps[at] != step:
        return "–"
    return bound_or_bits(line.medians[at], line.bounds[at])
