"""From any result to its report and its figure, and sections that can be added to a report.

The module of a kind of result is imported when one is shown; it registers its builders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch
from importlib import import_module
from typing import Any, Literal

from canary.errors import InputError
from canary.registry import Registry
from canary.reports.document import Block, Figure, Report, Section, Text

_HOMES = {
    **dict.fromkeys(("Audit", "Extraction"), "audit_report"),
    "Comparison": "comparison_report",
    "Forgetting": "forgetting_report",
    "History": "history_report",
    "ModelsSurvey": "models_report",
    **dict.fromkeys(("ShadowSurvey", "TextSurvey"), "survey_reports"),
    "Verdict": "verdicts",
    **dict.fromkeys(("Across", "Growth", "NullLosses", "Scatter"), "attack_figures"),
}
"""The class of a result, and the module of its builders."""

_REGISTRIES: dict[type, Registry[_Maker]] = {}

Kind = Literal["exposure", "histogram", "utility"]
"""What can be drawn of audits."""


@dataclass(frozen=True)
class PlotOptions:
    """What a figure was asked for; the fields are parameters of `canary.plot`."""

    kind: Kind = "exposure"
    format: int = 0
    copies: int | None = None
    skew_normal: bool = False


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


def _maker(builders: Any, result: Any, what: str, cure: str) -> Any:
    """The builder of a result, once those of its class, or of a list's items, are registered."""
    for item in result if isinstance(result, list | tuple) and result else [result]:
        for kind in type(item).__mro__:
            if kind.__module__.startswith("canary.") and kind.__name__ in _HOMES:
                import_module(f"canary.reports.{_HOMES[kind.__name__]}")
    maker = builders.dispatch(type(result))
    if maker is builders.dispatch(object):
        problem = f"there is no {what} of a value of the type {type(result).__name__}"
        raise InputError(problem, cure=cure)
    return maker


_Blocks = Callable[[Any], Iterator[Block | Section]]


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
) -> Callable[[_Blocks], _Blocks]:
    """A decorator: the function's blocks are a section of each report of such a result.

    The section has the function's name, and is left out where there is no block. A function
    may give whole sections as well.

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

    def add(blocks: _Blocks) -> _Blocks:
        known = _REGISTRIES.setdefault(
            kind, Registry("section", group=f"{kind.__name__.lower()}_sections")
        )
        known.add(blocks.__name__, _Maker(heading, blocks, specialist, before))
        return blocks

    return add


def sections_of(result: Any) -> list[Section]:
    """The sections of a result that have something in them, in their order."""
    makers = {
        name: maker
        for kind in type(result).__mro__
        for name, maker in _REGISTRIES.get(kind, {}).items()
    }
    order: list[str] = []
    for name, maker in makers.items():
        order.insert(order.index(maker.before) if maker.before in order else len(order), name)
    sections: list[Section] = []
    for name in order:
        maker, blocks = makers[name], list(makers[name].blocks(result))
        sections += [block for block in blocks if isinstance(block, Section)]
        if rest := [block for block in blocks if not isinstance(block, Section)]:
            heading = maker.heading(result) if callable(maker.heading) else maker.heading
            sections.append(Section(name.replace("_", "-"), heading, rest, maker.specialist))
    return sections
