"""From any result to its report and its figure, and sections that can be added to a report.

The module of a kind of result is imported when one is shown; it registers its builders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from importlib import import_module
from typing import Any, Literal, TypeVar

from canary.errors import InputError
from canary.registry import Registry, name_cure
from canary.reports.document import Axis, Block, Figure, Report, Section, Text
from canary.statistics.numbers import Shown

_HOMES = {
    "audit_report": ("Audit",),
    "extraction_report": ("Extraction",),
    "comparison_report": ("Comparison",),
    "forgetting_report": ("Forgetting",),
    "history_report": ("History",),
    "models_report": ("ModelsSurvey",),
    "survey_reports": ("ShadowSurvey", "TextSurvey"),
    "order_report": ("Order",),
    "samples_report": ("Sampled",),
    "seeds_report": ("SeedsCompared",),
    "verbatim_report": ("Verbatim",),
    "verdicts": ("Verdict",),
    "attacks_compared": ("AttacksCompared",),
    "attack_figures": ("Across", "Evaluation", "Growth", "NullLosses", "Scatter"),
    "other_results": (
        *("AttackEpsilon", "AttackScores", "CanarySet", "Counterfactual", "EpsilonBound"),
        *(
            "Exposures",
            "Extraction",
            "GatePlan",
            "ManyScores",
            "RiskScores",
            "SignalTable",
            "Verdict",
            "Verification",
        ),
    ),
}
"""A module of builders or sections, and the classes of the results that they are of."""

_REGISTRIES: dict[type, Registry[_Blocks]] = {}
_MAKERS: dict[tuple[type, _Blocks], _Maker] = {}

Unit = Literal["bits", "guesses"]
"""What exposures are drawn in."""

Kind = Literal["exposure", "histogram", "utility"]
"""What can be drawn of audits."""


@dataclass(frozen=True)
class PlotOptions:
    """What a figure was asked for; the fields are parameters of `canary.plot`."""

    kind: Kind = "exposure"
    format: int | None = None
    repetitions: int | None = None
    skew_normal: bool = False
    axis: Unit | None = None

    @property
    def at(self) -> int:
        """The format, the first unless one was asked for."""
        return self.format or 0

    @property
    def over_all(self) -> bool:
        """Whether formats may be drawn together."""
        return self.format is None and self.kind == "exposure" and not self.skew_normal


@singledispatch
def report_of(result: Any, **options: Any) -> Report:
    """What there is to say about a result, as plain data.

    Another package adds a kind of result by ``report_of.register``.

    Raises
    ------
    InputError
        If it is no result of which there is a report.
    """
    cure = "give what canary returned: an audit, several audits, a history, a survey, …"
    report: Report = _maker(report_of, result, "report", cure)(result, **options)
    return report


@singledispatch
def figure_of(result: Any, options: PlotOptions) -> Figure:
    """The figure of a result, or of several that share it.

    Another package adds a kind of result by ``figure_of.register``.

    Raises
    ------
    InputError
        If there is none, or not with these options.
    """
    cure = "give an audit, several audits, a history, or a result of attacks"
    figure: Figure = _maker(figure_of, result, "figure", cure)(result, options)
    return figure


def of_format(figure: Figure, at: int, formats: int) -> Figure:
    """A figure of one of several formats, with that on its lowest axis."""
    if formats == 1:
        return figure
    told = f"format {at + 1} of {formats}"

    def named(axis: Axis) -> Axis:
        label = f"{axis.label}; {told}" if axis.label else ""
        return replace(axis, label=label, short=f"{axis.short}; {told}" if axis.short else "")

    *others, low = figure.panels
    narrow = low.narrow_x and named(low.narrow_x)
    x = f"{figure.x}; {told}" if figure.x else ""
    return replace(figure, panels=[*others, replace(low, x=named(low.x), narrow_x=narrow)], x=x)


def _maker(builders: Any, result: Any, what: str, cure: str) -> Any:
    """The builder of a result, once those of its class, or of a list's items, are registered."""
    for item in (result, *result) if isinstance(result, list | tuple) else [result]:
        _import_homes(type(item))
    maker = builders.dispatch(type(result))
    if maker is builders.dispatch(object) and builders is report_of and isinstance(result, Shown):
        return import_module("canary.reports.other_results").any_report
    if maker is builders.dispatch(object):
        problem = f"there is no {what} of a value of the type {type(result).__name__}"
        raise InputError(problem, cure=cure)
    return maker


def _import_homes(type_of_result: type) -> None:
    names = {kind.__name__ for kind in type_of_result.__mro__ if _ours(kind)}
    for home, kinds in _HOMES.items():
        if names & {*kinds}:
            import_module(f"canary.reports.{home}")


def _ours(thing: Any) -> bool:
    return bool(thing.__module__.startswith("canary."))


_Blocks = Callable[[Any], Iterator[Block | Section]]
_Decorated = TypeVar("_Decorated", bound=_Blocks)


@dataclass(frozen=True)
class _Maker:
    heading: Text | Callable[[Any], Text]
    blocks: _Blocks
    specialist: bool
    before: str


def section(
    kind: type,
    heading: Text | Callable[[Any], Text],
    *,
    specialist: bool = False,
    before: str = "",
) -> Callable[[_Decorated], _Decorated]:
    """A decorator: the function's blocks are a section of each report of such a result.

    The section has the function's name, and is left out where there is no block. A function
    may give whole sections as well. Another package names the decorated function in an entry
    point of the group ``canary.audit_sections``, with the class of the results in lower case.

    Parameters
    ----------
    kind : type
        Of the results.
    heading : Text or function
        A function makes it of the result.
    specialist : bool
        As in `Section`.
    before : str
        The section that it goes before; the end of the report without it.
    """

    def add(blocks: _Decorated) -> _Decorated:
        known = _REGISTRIES.setdefault(
            kind, Registry("section", group=f"{kind.__name__.lower()}_sections")
        )
        _MAKERS[kind, known.add(blocks.__name__, blocks)] = _Maker(
            heading, blocks, specialist, before
        )
        return blocks

    return add


def sections_of(result: Any) -> list[Section]:
    """The sections of a result that have something in them, in their order.

    Raises
    ------
    InputError
        If an entry point names a function that `section` does not decorate, or a section goes
        before one that is not there.
    """
    _import_homes(type(result))
    makers = {}
    for kind in type(result).__mro__:
        for added, function in _REGISTRIES.get(kind, {}).items():
            if (kind, function) not in _MAKERS:
                raise InputError(
                    f"the entry point {added} is no section of {kind.__name__}",
                    cure="decorate its function with canary.reports.builders.section("
                    f'{kind.__name__}, "Heading")',
                )
            makers[function.__name__] = _MAKERS[kind, function]
    for name, maker in makers.items():
        if maker.before and maker.before not in makers:
            raise InputError(
                f"the section {name} goes before {maker.before!r}, which is no section",
                cure=name_cure(maker.before, makers),
            )
    order: list[str] = []
    waiting = sorted(makers, key=lambda name: not _ours(makers[name].blocks))
    while waiting:
        placed = [name for name in waiting if makers[name].before not in waiting] or waiting
        for name in placed:
            before = makers[name].before
            order.insert(order.index(before) if before in order else len(order), name)
        waiting = [name for name in waiting if name not in placed]
    sections: list[Section] = []
    for name in order:
        maker, blocks = makers[name], list(makers[name].blocks(result))
        sections += [block for block in blocks if isinstance(block, Section)]
        if rest := [block for block in blocks if not isinstance(block, Section)]:
            heading = maker.heading(result) if callable(maker.heading) else maker.heading
            sections.append(Section(name.replace("_", "-"), heading, rest, maker.specialist))
    return sections
