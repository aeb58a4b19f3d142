"""Several trainings that were watched in one figure: a colour for each, or for each group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from canary.audits.group_medians import MEDIAN_CONFIDENCE
from canary.audits.history import History
from canary.errors import InputError
from canary.records.validation import brief
from canary.reports.builders import PlotOptions, figure_of
from canary.reports.document import Axis, Figure, Mark, Panel, mark
from canary.reports.exposure_figures import check_format, exposure_axis, group_name, in_guesses
from canary.reports.history_lines import GroupLine, group_lines
from canary.reports.palette import MUTED, SERIES, dots, line
from canary.reports.wording import bound_or_bits
from canary.statistics.numbers import Shown, clean, count, percent_of, plural
from canary.statistics.welch import mean_of

_MOST_MARKERS = 60


@dataclass(frozen=True, eq=False)
class Histories:
    """Histories by label, in the order in which they are drawn; several of one are seeds."""

    groups: Mapping[str, tuple[History, ...]]

    @property
    def every(self) -> tuple[History, ...]:
        """All of them."""
        return tuple(one for group in self.groups.values() for one in group)


def histories_of(result: Any, labels: Sequence[str] | None = None) -> Histories | None:
    """Several histories that were given, as a list or a mapping; None if it is anything else.

    Raises
    ------
    InputError
        If the labels are not one for each, or repeat.
    """
    if isinstance(result, Mapping):
        groups = {str(label): _listed(some) for label, some in result.items()}
    elif isinstance(result, list | tuple) and not isinstance(result, Shown):
        called = [one.model_name for one in result if isinstance(one, History)]
        clear = all(called) and len({*called}) == len(result)
        names = labels or (called if clear else [f"training {i + 1}" for i in range(len(result))])
        if len(names) != len(result) or len({*names}) < len(names):
            raise InputError(
                f"{plural(len(names), 'label')} for {len(result)} histories",
                cure="give one for each, all different",
                where="labels",
            )
        groups = {str(name): (one,) for name, one in zip(names, result, strict=True)}
    else:
        return None
    given = [one for group in groups.values() for one in group]
    if len(given) < 2 or not all(isinstance(one, History) for one in given):
        return None
    return Histories({clean(label): group for label, group in groups.items() if group})


def _listed(some: Any) -> tuple[Any, ...]:
    return tuple(some) if isinstance(some, list | tuple) else (some,)


@figure_of.register
def histories_figure(found: Histories, options: PlotOptions) -> Figure:
    """Exposure against training steps for one number of copies, a colour for each label.

    A hollow triangle is more likely than all draws but one, or than all. Of several seeds each is
    a faint line; between them is their mean, at the steps that all measured, with Student's
    interval.
    """
    at, copies = options.at, _copies(found, options)
    first, skew_normal = found.every[0], options.skew_normal
    space_bits = math.log2(first.formats[at].space_size)
    most = space_bits if skew_normal else min(math.log2(first.formats[at].draws), space_bits)
    in_bits = skew_normal or options.axis == "bits"
    marks: list[Mark] = []
    told, highest = [], 0.0
    for place, (label, group) in enumerate(found.groups.items()):
        lines = [_line(one, at, copies, skew_normal=skew_normal) for one in group]
        highest = max([highest, *(value for one in lines for value in one.heights)])
        last = max(step for one in found.every for step in [one.measured[-1].step])
        aside = 0.012 * last * (place - (len(found.groups) - 1) / 2)  # intervals beside each other
        marks += _marks(lines, SERIES[place % len(SERIES)], aside)
        ends = [
            f"{bound_or_bits(one.medians[-1], one.bounds[-1])} at step {count(one.steps[-1])}"
            for one in lines
        ]
        told.append(f"{label}: {', '.join(ends)}")
    words = None if most == space_bits else ("nothing above can be seen", "")
    name = f"{'skew-normal estimate of ' if skew_normal else ''}median exposure"
    limits, y = exposure_axis(most, f"{name}, {group_name(copies)} (bits)", 1.05 * highest, words)
    if not in_bits:
        y = in_guesses(y, space_bits)
        y = replace(y, label=f"guesses that an attacker needs, {group_name(copies)}")
    key = [(SERIES[i % len(SERIES)], label) for i, label in enumerate(found.groups)]
    x = "training steps"
    if any(len(group) > 1 for group in found.groups.values()):
        level = percent_of(MEDIAN_CONFIDENCE, digits=None)
        key.append((MUTED, "faint: one seed"))
        x += f"; mean over seeds with {level} interval"
    if any(line.style.get("marker") == "^" for line in marks):
        key.append((MUTED, "hollow: beyond the draws"))
    return Figure(
        f"histories {at}",
        f"Exposure of {group_name(copies)} against training steps. {'; '.join(told)}.",
        [
            Panel(
                limits + marks,
                Axis(x, short="training steps"),
                y,
                grid="y",
                legend="above",
                key=key,
            )
        ],
    )


def _copies(found: Histories, options: PlotOptions) -> int:
    """The number of copies that is drawn: the one asked for, or the most but for the control."""
    first = found.every[0]
    check_format(first, options.at)
    if options.kind != "exposure" or (options.skew_normal and options.axis == "guesses"):
        raise InputError(
            "histories have one figure: exposure against training steps, and skew-normal "
            "estimates in bits",
            cure="leave kind out, and axis beside skew_normal",
        )
    known = first.places(options.at)
    for label, group in found.groups.items():
        for one in group:
            apart = one.formats != first.formats or one.places(options.at).keys() != known.keys()
            if apart or not one.measured:
                what = "measured nothing" if not one.measured else "has other formats or copies"
                raise InputError(
                    f"a history of {brief(label)} {what}, and cannot be drawn with the others",
                    cure="draw those together that watched the same set",
                )
    if options.repetitions not in (None, *known):
        raise InputError(
            f"no canary has {options.repetitions} copies",
            cure=f"choose from {', '.join(map(count, known))}",
        )
    most = max(first.without_control().places(options.at))
    return most if options.repetitions is None else options.repetitions


def _line(one: History, at: int, copies: int, *, skew_normal: bool) -> GroupLine:
    lines = {line.copies: line for line in group_lines(one, at, skew_normal=skew_normal)}
    if not lines[copies].steps:
        raise InputError("a history has no skew-normal estimates", cure="leave skew_normal out")
    return lines[copies]


def _marks(lines: Sequence[GroupLine], colour: str, aside: float) -> Iterator[Mark]:
    """The lines of the seeds, and where there are several their mean and its interval.

    These are `aside` of their step, so that those of several groups are beside each other.
    """
    alone = len(lines) == 1
    for one in lines:
        yield line(one.steps, one.heights, colour, 1.8 if alone else 0.9, alpha=1 if alone else 0.4)
        if len(one.steps) <= _MOST_MARKERS:
            for bound in {*one.bounds}:
                some = [i for i, is_bound in enumerate(one.bounds) if is_bound == bound]
                style = {"marker": "^" if bound else "o", "alpha": 1 if alone else 0.4}
                places = [one.steps[i] for i in some], [one.heights[i] for i in some]
                yield dots(*places, 22 if alone else 10, colour, hollow=bound, zorder=2.5, **style)
    if alone:
        return
    shared = sorted(set.intersection(*(set(one.steps) for one in lines)))
    means, known = [], []
    for step in shared:
        values = [(one.heights[i], one.bounds[i]) for one in lines for i in [one.steps.index(step)]]
        mean = mean_of([value for value, _ in values], MEDIAN_CONFIDENCE)
        mean = replace(mean, lower=mean.lower and max(mean.lower, 0.0))
        bound = any(is_bound for _, is_bound in values)
        means.append(mean.value)
        known.append(None if bound or mean.lower is None or mean.upper is None else mean)
    at = [step + aside for step in shared]
    yield line(at, means, colour, 2.2)
    ends = [(step, mean.lower, mean.upper) for step, mean in zip(at, known, strict=True) if mean]
    if ends and len(shared) <= _MOST_MARKERS:
        yield mark("vlines", *zip(*ends, strict=True), color=colour, alpha=0.6, linewidth=2.2)
    elif ends:
        yield mark("fill_between", *zip(*ends, strict=True), color=colour, alpha=0.16, linewidth=0)
    bounded = [i for i, mean in enumerate(known) if mean is None]
    hidden = [at[i] for i in bounded], [means[i] for i in bounded]
    if bounded and len(shared) <= _MOST_MARKERS:
        yield dots(*hidden, 36, colour, hollow=True, marker="^", zorder=3)
