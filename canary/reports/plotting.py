"""The figures of reports on the reader's own axes, and as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from canary.audits.audit_result import Audit
from canary.errors import InputError, UnsupportedError
from canary.records.files import FIGURES, atomic_write
from canary.records.validation import brief
from canary.reports.builders import Kind, PlotOptions, figure_of
from canary.reports.drawing import draw_on, file_of, load_matplotlib
from canary.reports.pages import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from canary.reports.document import Figure

FILE_KINDS = ("svg", "png", "pdf")
"""Endings of the files that `plot_file` writes."""

_SIZE = (6.9, 4.2)  # inches: the width of a printed page


def plot(
    result: Any,
    ax: Axes | None = None,
    *,
    kind: Kind = "exposure",
    format: int = 0,
    copies: int | None = None,
    skew_normal: bool = False,
    labels: Sequence[str] | None = None,
    test_losses: Sequence[float | None] | None = None,
) -> Axes:
    """Draw a result: an audit, several side by side, the history of a training, an attack.

    Parameters
    ----------
    result : a result, or a sequence of them
        What `audit` returned, or `Audit.load` read, or several of them; or what a monitor
        measured. Or, of attacks on many models, an `Across` (its average ROC), `Growth`,
        `NullLosses`, several of one of these, or a `Scatter`; or a survey of membership attacks
        or a `Forgetting`. Audits and histories only have the options below.
    ax : matplotlib.axes.Axes, optional
        Where to draw; on a figure of its own unless given. Its background should be light.
    kind : {"exposure", "histogram", "utility"}
        Exposure against number of copies: every canary of one audit, or a line through the
        medians of each of several. The histogram of one audit's candidates with its fitted
        curve, its canaries below; it fills the frame of `ax` with two axes of its own. Or
        the test losses of several audits against their median exposure, with the Pareto
        front. A history has one figure, exposure against training steps, with the loss
        below it where it was logged.
    format : int
        Position of the format in `Audit.formats`.
    copies : int, optional
        Of which canaries, for utility; those with the most copies unless given.
    skew_normal : bool
        Of several audits or a history, draw the estimates off the skew-normal curves, which
        are numbers where draws give only bounds.
    labels, test_losses : sequence, optional
        As in `canary.report`, for several audits.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or that of the new figure.

    Raises
    ------
    InputError
        If the audits cannot be compared with each other, or do not have what was asked for.
    """
    options = PlotOptions(kind, format, copies, skew_normal)
    figure = _figure(result, options, labels=labels, test_losses=test_losses)
    if ax is None:
        load_matplotlib()
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=_SIZE, layout="constrained")
    draw_on(ax, figure)
    return ax


def plot_file(
    result: Any,
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    test_losses: Sequence[float | None] | None = None,
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
    InputError
        As `plot`.
    UnsupportedError
        If the ending is another one.
    OutputError
        If the file cannot be written. What was there before is left as it was.
    """
    target = Path(path)
    ending = target.suffix[1:].lower()
    if ending not in FILE_KINDS:
        raise UnsupportedError(
            f"figures are not written as {brief(target.suffix)}",
            cure="let the name end with .svg, .png or .pdf",
            where=str(target),
        )
    figure = _figure(result, PlotOptions(**options), labels=labels, test_losses=test_losses)
    atomic_write(target, file_of(figure, ending), replaces=FIGURES)
    return target


def _figure(
    result: Any,
    options: PlotOptions,
    *,
    labels: Sequence[str] | None,
    test_losses: Sequence[float | None] | None,
) -> Figure:
    if options.kind not in get_args(Kind):
        raise InputError(
            f"there is no figure {brief(options.kind)}",
            cure=f"name one of {', '.join(get_args(Kind))}",
        )
    several = list(result) if isinstance(result, list | tuple) else [result]
    if all(isinstance(one, Audit) for one in several):
        result = shown(result, labels, test_losses)
    elif labels is not None or test_losses is not None:
        raise InputError("labels and test losses are for comparing audits", cure="leave them away")
    return figure_of(result, options)
