"""Results as a person sees them: as a page, on axes, or as a drawing for print."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, get_args

from canary.audits.audit_result import Audit
from canary.errors import InputError, OutputError, UnsupportedError
from canary.gate.verdict import Verdict
from canary.records.about import Named
from canary.records.files import FIGURES, MARKDOWN, PAGES, atomic_write, check_replaceable
from canary.records.sealing import sealed
from canary.records.validation import as_real, brief, file_path, one_of, one_or_more
from canary.reports.builders import Kind, PlotOptions, Unit, figure_of, report_of
from canary.reports.document import Figure
from canary.reports.drawing import PRINTED, draw_on, file_of, load_matplotlib
from canary.reports.group_losses import Losses
from canary.reports.histories_figure import histories_of
from canary.reports.html_page import page_of
from canary.reports.seeds_compared import SeedsCompared, compare, grouped
from canary.statistics.numbers import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST, _MOST = 1.0, 60.0  # inches

FILE_KINDS = ("svg", "png", "pdf")
"""Endings of the files that `plot_file` writes."""


@sealed
def report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    test_losses: Losses | None = None,
    model_name: str | None = None,
    corpus_name: str | None = None,
    auditor: str | None = None,
    force: bool = False,
) -> Path:
    """Write a result as a report that a person can read and defend, or compare several audits.

    Parameters
    ----------
    result : a result, or a sequence of Audit
        What a function of canary returned, or several audits to compare; of a dict of them, the
        keys are labels. A dict of lists compares ways of training over seeds, as `canary.compare`.
    path : path-like
        The file to write; its folder must exist. One that ends in ``.md`` is Markdown, for the
        summary of a CI job: without the sections for specialists.
    labels : sequence of str, optional
        Of several audits, what each stands for; the names of their models unless given.
    test_losses : sequence of float or None, optional
        Of several audits, the utility of each model: its mean loss on the same test text,
        in nats per token. With them comes the Pareto front of utility and exposure. Of groups a
        list for each label, as `canary.compare` takes.
    model_name, corpus_name, auditor : str, optional
        What the model and its training data are called, and who tested it, in place of what the
        result says; for a query set that was to be forgotten, `corpus_name` is its name.
    force : bool
        Replace the report that `path` holds; without it, only the same report is written again.

    Returns
    -------
    Path
        `path`, now one self-contained file, readable by its owner only: it refers to
        nothing outside itself, and shows no secret in clear (but see
        `canary.audits.audit_result`: keep it like the model). The same result gives the same
        bytes.

    Raises
    ------
    InputError
        If there is no report of such a result; if labels or losses are not one for each audit,
        or come without several audits; if names are given that the report does not show.
    OutputError
        If there is another report, or the file cannot be written. What was there before is left
        as it was.

    Examples
    --------
    >>> plan = canary.plan("my pin is {digit:4}", max_exposure_bits=6)  # doctest: +SKIP
    >>> canary.report(plan, "plan.html")  # doctest: +SKIP
    PosixPath('plan.html')
    """
    target = file_path(path, "path", cure="give the file that the report is to be in")
    result, labels = _labelled(result, labels)
    names = {"model_name": model_name, "corpus_name": corpus_name, "auditor": auditor}
    found = shown(with_names(result, names), labels, test_losses)
    if target.suffix.lower() == ".md":
        from canary.reports.verdicts import markdown  # the sections of verdicts are its

        words, replaces = markdown(found), (MARKDOWN,)
    else:
        words, replaces = page_of(report_of(found)), PAGES
    check_replaceable(target, replaces)
    if not force and target.is_file() and target.read_bytes() not in (b"", words.encode()):
        cure = "name another file, or replace it with force=True"
        raise OutputError("exists already", cure=cure, where=str(target))
    atomic_write(target, words, private=True, replaces=replaces)
    return target


def _labelled(result: Any, labels: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """The audits of a dict, and its keys as labels."""
    if labels is None and isinstance(result, Mapping) and result and not grouped(result):
        return [*result.values()], [*map(str, result)] if len(result) > 1 else None
    return result, labels


def _several(result: Any) -> TypeGuard[Sequence[Any]]:
    """Several results; one that is a tuple of its parts is a single one."""
    return isinstance(result, list | tuple) and not isinstance(result, Shown)


def with_names(result: Any, names: Mapping[str, str | None]) -> Any:
    """A result, or each of several, with the names that were given for its report."""
    if _several(result):
        return [with_names(one, names) for one in result]
    if grouped(result):
        return {label: with_names(some, names) for label, some in result.items()}
    if isinstance(result, Verdict) and (result.audits or result.tested):
        tested = result.tested and result.tested.named(**names)
        return replace(result, audits=tuple(with_names(result.audits, names)), tested=tested)
    if isinstance(result, Named | SeedsCompared):
        return result.named(**names)
    if given := [name for name in ("model_name", "corpus_name") if names[name] is not None]:
        raise InputError(
            f"{given[0]} is for the report of a test of a model, and this is "
            f"{type(result).__name__}",
            cure="omit it; for attacks on a classifier, give what canary.survey(target, shadow) "
            "returned",
        )
    return result


def shown(
    result: Any,
    labels: Sequence[str] | None = None,
    test_losses: Losses | None = None,
) -> Any:
    """What is shown of a result: several audits are compared, a single one in a list is itself."""
    if histories_of(result):
        raise InputError(
            "histories are drawn together by plot, and each has a report of its own",
            cure="give one history",
        )
    if grouped(result):
        if labels is not None:
            raise InputError(
                "labels are not for groups of seeds",
                cure="omit them; the keys of the mapping are the labels",
            )
        return compare(result, test_losses=test_losses)
    if isinstance(test_losses, Mapping):
        raise InputError(
            "test losses by label are for groups of seeds",
            cure="give one for each audit, in their order",
        )
    if _several(result):
        from canary.gate.subjects import are_surveys, only_audits

        if len(result) > 1 and are_surveys(result):
            from canary.reports.attacks_compared import compare_attacks

            if test_losses is not None:
                raise InputError("test losses are for comparing audits", cure="omit them")
            return compare_attacks(result, labels)
        if len(result) > 1:
            only_audits(result)
        cure = "give what canary.audit or Audit.load returned"
        several = one_or_more(result, Audit, "a result, or several audits", cure=cure)
        if len(several) > 1:
            from canary.reports.comparison import compare as side_by_side

            return side_by_side(several, labels=labels, test_losses=test_losses)
        result = several[0]
    if labels is not None or test_losses is not None:
        raise InputError(
            "labels and test losses are for comparing audits, and there is one result",
            cure="give several audits, or omit them",
        )
    return result


def plot(
    result: Any,
    ax: Axes | str | os.PathLike[str] | None = None,
    *,
    kind: Kind = "exposure",
    format: int | None = None,
    repetitions: int | None = None,
    skew_normal: bool = False,
    axis: Unit | None = None,
    labels: Sequence[str] | None = None,
    test_losses: Losses | None = None,
    path: str | os.PathLike[str] | None = None,
    size: tuple[float, float] = PRINTED,
) -> Axes:
    """Draw a result: an audit, several side by side, the history of a training, an attack.

    Parameters
    ----------
    result : a result, or a sequence of them
        What a function of canary returned, or several audits, also by label in a dict; of
        attacks on many models several `Across`, `Growth` or `NullLosses`. Several histories are
        drawn together, also by label, or as lists of seeds by label. Only audits and histories
        have the options below.
    ax : matplotlib.axes.Axes or path-like, optional
        Where to draw; on a figure of its own unless given. Its background should be light. A path
        is a file to write, as `path`.
    kind : {"exposure", "histogram", "utility"}
        Exposure against number of copies: every canary of one audit, or a line through the
        medians of each of several. The histogram of one audit's candidates with its fitted
        curve, its canaries below, on two axes within `ax`. Or the test losses of several
        audits against their median exposure, with the Pareto front. A history has one
        figure: exposure against training steps, with the loss below it.
    format : int, optional
        Position of the format in `Audit.formats`. Unless given, exposures of all formats in one
        figure where each number of copies has a format of its own; else the first format.
    repetitions : int, optional
        Of several histories, the number of copies that is drawn; the most unless given. For
        utility: canaries with this number of copies; unless given, the largest number whose
        median is not near the highest possible in any audit (`Audit.notes`).
    skew_normal : bool
        Of several audits or a history, draw the estimates off the skew-normal curves, which
        are numbers where draws give only bounds.
    axis : {"bits", "guesses"}, optional
        The unit of exposure: bits for one audit, and guesses for several and for histories,
        unless given.
    labels, test_losses : sequence, optional
        As in `canary.report`, for several audits.
    path : path-like, optional
        A file to write the drawing to as well: ``.svg``, ``.pdf``, or ``.png`` with 300 dots per
        inch.
    size : (float, float)
        Width and height of a figure of its own, in inches; a column of a paper has about
        ``(3.3, 2.6)``.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or that of the new figure.

    Raises
    ------
    InputError
        If the audits cannot be compared with each other, or do not have what was asked for.
    UnsupportedError, OutputError
        If the file's ending is another one, or it cannot be written.

    Examples
    --------
    >>> axes = canary.plot(canary.plan("my pin is {digit:4}"))  # doctest: +SKIP
    >>> axes.get_xlabel()  # doctest: +SKIP
    'median exposure (bits)'
    """
    options = PlotOptions(kind, format, repetitions, skew_normal, axis)
    figure = _figure(result, options, labels, test_losses)
    if isinstance(ax, str | os.PathLike):  # as `canary.report` is given one
        path, ax = ax if path is None else path, None
    size = _checked(size)
    if path is not None:
        _write(figure, path, size)
    if ax is None:
        load_matplotlib()
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=size, layout="constrained")
    draw_on(ax, figure)
    return ax


def plot_file(
    result: Any,
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    test_losses: Losses | None = None,
    size: tuple[float, float] = PRINTED,
    **options: Any,
) -> Path:
    """Write what `plot` draws as a file for print, on white, in our own style.

    Parameters
    ----------
    path : path-like
        Its ending says which: ``.svg``, ``.pdf``, or ``.png`` with 300 dots per inch.
    **options
        The other parameters of `plot`.

    Returns
    -------
    Path
        `path`. The same result gives the same bytes.

    Raises
    ------
    UnsupportedError
        If the ending is another one.
    OutputError
        If the file cannot be written. What was there before is left as it was.
    """
    figure = _figure(result, PlotOptions(**options), labels, test_losses)
    return _write(figure, path, _checked(size))


def _checked(size: tuple[float, float]) -> tuple[float, float]:
    """Two lengths in inches that a figure can have."""
    sides = [as_real(side) for side in size] if isinstance(size, list | tuple) else []
    if len(sides) != 2 or not all(_LEAST <= side <= _MOST for side in sides):
        raise InputError(
            f"a size of {brief(size)} is not that of a figure",
            cure=f"give width and height in inches, from {_LEAST:g} to {_MOST:g}",
            where="size",
        )
    return sides[0], sides[1]


def _write(figure: Figure, path: str | os.PathLike[str], size: tuple[float, float]) -> Path:
    target = file_path(path, "path", cure="give the file that the figure is to be in")
    ending = target.suffix[1:].lower()
    if ending not in FILE_KINDS:
        raise UnsupportedError(
            f"figures are not written as {brief(target.suffix)}",
            cure="let the name end with .svg, .png or .pdf",
            where=str(target),
        )
    atomic_write(target, file_of(figure, ending, size), replaces=FIGURES)
    return target


def _figure(
    result: Any,
    options: PlotOptions,
    labels: Sequence[str] | None,
    test_losses: Losses | None,
) -> Figure:
    one_of(options.kind, "figure", get_args(Kind))
    one_of(options.axis or "bits", "axis", get_args(Unit))
    if (several := histories_of(result, labels)) and test_losses is None:
        return figure_of(several, options)
    result, labels = _labelled(result, labels)
    items = result if _several(result) else [result]
    if grouped(result):
        return figure_of(shown(result, labels, test_losses), options)
    audits = all(isinstance(item, Audit) for item in items)
    if audits or labels is not None or test_losses is not None:
        result = shown(result, labels, test_losses)
    return figure_of(result, options)
