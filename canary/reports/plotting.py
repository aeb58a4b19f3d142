"""The figures of reports on the reader's own axes, and as files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from canary.audits.audit_result import Audit
from canary.audits.history import History
from canary.errors import InputError, UnsupportedError
from canary.records.fields import brief
from canary.records.files import atomic_write
from canary.records.overwrite_guard import FIGURES
from canary.reports.canvas import canvas, file_bytes, load_matplotlib
from canary.reports.comparison import Strategy, compare, has_curves
from canary.reports.many_figures import ManyResult, many_drawing, of_many
from canary.statistics.numbers import clean, count, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FILE_KINDS", "Kind", "plot", "plot_file"]

Kind = Literal["exposure", "histogram", "utility"]
"""What `plot` can draw."""

Drawable = Audit | History | Sequence[Audit] | ManyResult | Sequence[ManyResult]
"""What `plot` draws."""

FILE_KINDS = ("svg", "png", "pdf")
"""Endings of the files that `plot_file` writes."""

_SIZE = (6.9, 4.2)  # inches: the width of a printed page
_LABEL_CHARACTERS = 48
_ONLY = ("exposure", 0, None, False, None, None)  # of options: none was given


def plot(
    audits: Drawable,
    ax: Axes | None = None,
    *,
    kind: Kind = "exposure",
    format: int = 0,
    copies: int | None = None,
    skew_normal: bool = False,
    labels: Sequence[str] | None = None,
    test_losses: Sequence[float | None] | None = None,
) -> Axes:
    """Draw an audit, several side by side, or the history of a training.

    Parameters
    ----------
    audits : Audit, sequence of Audit, or History
        What `audit` returned, or `Audit.load` read; or what a monitor measured. Or, of attacks
        on many models, an `Across` (its average ROC), `Growth`, `NullLosses`, several of one
        of these, or a `Scatter`; nothing else is asked of them.
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
    draw = _drawing(
        audits,
        kind,
        format,
        copies=copies,
        skew_normal=skew_normal,
        labels=labels,
        test_losses=test_losses,
    )
    if ax is None:
        load_matplotlib()
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=_SIZE, layout="constrained")
    draw(ax)
    return ax


def plot_file(
    audits: Drawable,
    path: str | os.PathLike[str],
    *,
    kind: Kind = "exposure",
    format: int = 0,
    copies: int | None = None,
    skew_normal: bool = False,
    labels: Sequence[str] | None = None,
    test_losses: Sequence[float | None] | None = None,
) -> Path:
    """Write what `plot` draws as a file for print, on white, in our own style.

    Parameters
    ----------
    path : path-like
        Its ending says which: ``.svg``, ``.pdf``, or ``.png`` with 300 dots per inch.

    Returns
    -------
    Path
        `path`. The same audits give the same bytes.

    Raises
    ------
    InputError
        As `plot`.
    UnsupportedError
        If the ending is another one.
    OutputError
        If the file cannot be written. What stood there before is left as it was.

    Notes
    -----
    The other parameters are those of `plot`.
    """
    target = Path(path)
    ending = target.suffix[1:].lower()
    if ending not in FILE_KINDS:
        raise UnsupportedError(
            f"figures are not written as {brief(target.suffix)}",
            cure="let the name end with .svg, .png or .pdf",
            where=str(target),
        )
    draw = _drawing(
        audits,
        kind,
        format,
        copies=copies,
        skew_normal=skew_normal,
        labels=labels,
        test_losses=test_losses,
    )
    with canvas(_SIZE) as figure:
        draw(figure.subplots())
        data = file_bytes(figure, ending)
    atomic_write(target, data, replaces=FIGURES)
    return target


def _drawing(
    given: Drawable,
    kind: Kind,
    at: int,
    *,
    copies: int | None,
    skew_normal: bool,
    labels: Sequence[str] | None,
    test_losses: Sequence[float | None] | None,
) -> Callable[[Axes], None]:
    """What draws on axes, once all that was asked for is there."""
    if kind not in get_args(Kind):
        raise InputError(
            f"there is no figure {brief(kind)}", cure=f"name one of {', '.join(get_args(Kind))}"
        )
    if of_many(given):
        if (kind, at, copies, skew_normal, labels, test_losses) != _ONLY:
            raise InputError(
                "results of attacks on many models have one figure each",
                cure="leave kind and all other options away",
            )
        return many_drawing(given)
    return _of_audits(
        cast("Audit | History | Sequence[Audit]", given),
        kind,
        at,
        copies=copies,
        skew_normal=skew_normal,
        labels=labels,
        test_losses=test_losses,
    )


def _of_audits(
    given: Audit | History | Sequence[Audit],
    kind: Kind,
    at: int,
    *,
    copies: int | None,
    skew_normal: bool,
    labels: Sequence[str] | None,
    test_losses: Sequence[float | None] | None,
) -> Callable[[Axes], None]:
    from canary.reports.comparison_figures import copies_of, exposures_on, utility_on
    from canary.reports.figures import exposure_on, histogram_on
    from canary.reports.history_figures import history_on

    if isinstance(given, History):
        if kind != "exposure" or copies is not None or labels or test_losses:
            raise InputError(
                "a history has one figure: exposure against training steps",
                cure="leave kind, copies, labels and test losses away",
            )
        _check_format(given, at)
        return lambda axes: history_on(axes, given, at, skew_normal=skew_normal)
    audits = [given] if isinstance(given, Audit) else list(given)
    comparison = compare(audits, labels=labels, test_losses=test_losses)
    group = comparison.strategies
    _check_format(audits[0], at)
    if len(group) == 1 and kind == "utility":
        raise InputError("utility is for comparing, and there is one audit", cure="give several")
    if len(group) == 1:
        one = exposure_on if kind == "exposure" else histogram_on
        return lambda axes: one(axes, audits[0], at)
    if kind == "histogram":
        raise InputError(
            f"a histogram is of one audit, {len(group)} were given", cure="give one at a time"
        )
    if comparison.reasons:
        raise InputError(
            comparison.reasons[0].rstrip("."), cure="draw those together that can be compared"
        )
    if skew_normal and not has_curves(group, at):
        raise InputError(
            "not every audit has a skew-normal curve", cure="leave the skew-normal estimate away"
        )
    if kind == "exposure":
        return lambda axes: _with_key(
            axes, group, lambda: exposures_on(axes, group, at, skew_normal=skew_normal)
        )
    if any(one.test_loss_nats is None for one in group):
        raise InputError(
            "utility needs the test loss of each audit", cure="give one for each, in nats per token"
        )
    injected = [n for n in copies_of(group, at) if n]
    chosen = injected[-1] if copies is None and injected else copies
    if chosen not in injected:
        raise InputError(
            f"no canary has {chosen} copies" if chosen else "the audits have no injected canary",
            cure=f"choose from {', '.join(map(count, injected))}" if injected else "",
        )
    return lambda axes: _with_key(
        axes, group, lambda: utility_on(axes, group, at, chosen, skew_normal=skew_normal)
    )


def _check_format(audit: Audit | History, at: int) -> None:
    formats, what = len(audit.formats), "audit" if isinstance(audit, Audit) else "history"
    if not 0 <= at < formats or not any(c.format == at for c in audit.canaries):
        raise InputError(
            f"no canary of the {what} has format {at + 1}, counted from 1",
            cure=f"the {what} has {plural(formats, 'format')}"
            if formats
            else "audit a set with canaries",
        )


def _with_key(axes: Axes, group: Sequence[Strategy], draw: Callable[[], None]) -> None:
    """Draw, and say above what the short names stand for."""
    from matplotlib.lines import Line2D

    from canary.reports.comparison_figures import colour_of

    draw()
    handles = [Line2D([], [], color=colour_of(one), linewidth=2.0) for one in group]
    names = [f"{one.name}: {_short(clean(one.label))}" for one in group]
    key = axes.legend(
        handles,
        names,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.01),
        ncols=2,
        frameon=False,
        fontsize=9,
        borderaxespad=0.0,
    )
    for text in key.get_texts():
        text.set_parse_math(False)  # a label is text, whatever dollar signs are in it


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_CHARACTERS else f"{label[: _LABEL_CHARACTERS - 1]}…"
