"""Audits as one HTML file that opens from disk, with no network and no script."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canary.audits.audit_result import Audit, CanaryResult, FormatResult, median_bits
from canary.audits.history import History
from canary.errors import InputError
from canary.records.files import atomic_write
from canary.records.overwrite_guard import PAGES
from canary.records.sealing import sealed
from canary.records.validation import file_path, one_or_more
from canary.reports.cells import EXPOSURE_COLUMNS, exposure_cells
from canary.reports.comparison import compare
from canary.reports.comparison_html import render_comparison
from canary.reports.extractions import MODEL_ARGUMENTS, extraction_view
from canary.reports.history_html import render_history
from canary.reports.pages import page
from canary.reports.sentences import LEVEL, UNLEARNED_95_BITS, answer, curve_verdict, strongest
from canary.reports.wording import facts_in_words, settings_in_words
from canary.statistics.exposure_result import (
    ENUMERATION,
    IMPORTANCE,
    RANK,
    RANK_AND_DRAWS,
    UNIFORM_DRAWS,
)
from canary.statistics.numbers import bits, bits_or_bound, count, plural, probability

if TYPE_CHECKING:
    from canary.statistics.exposure_result import Exposure
    from canary.statistics.extrapolation import SkewNormalFit
    from canary.statistics.histogram import Histogram

__all__ = ["render", "report"]

_TEMPLATE = "audit.html.j2"
_NBSP = "\N{NO-BREAK SPACE}"


@sealed
def report(
    audits: Audit | History | Sequence[Audit],
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    test_losses: Sequence[float | None] | None = None,
) -> Path:
    """Write an audit as a report that a person can read and defend, or compare several.

    Parameters
    ----------
    audits : Audit, sequence of Audit, or History
        What `audit` returned, or `Audit.load` read; several stand side by side. Or what a
        monitor measured while a model was trained.
    path : path-like
        The file to write; its folder must exist.
    labels : sequence of str, optional
        Of several audits, what each stands for; the names of their models unless given.
    test_losses : sequence of float or None, optional
        Of several audits, the utility of each model: its mean loss on the same test text,
        in nats per token. With them comes the Pareto front of utility and exposure.

    Returns
    -------
    Path
        `path`, now one self-contained HTML file: it refers to nothing outside itself, and
        shows no secret in clear (but see `canary.audits.audit_result`: keep it like the model).
        The same audits give the same bytes.

    Raises
    ------
    InputError
        If labels or losses are not one for each audit, or come with a single one.
    OutputError
        If the file cannot be written. What stood there before is left as it was.
    """
    target = file_path(path, "path", cure="give the file that the report is to be in")
    if isinstance(audits, History):
        if labels is not None or test_losses is not None:
            raise InputError(
                "labels and test losses are for comparing audits, and this is a history",
                cure="leave them away",
            )
        atomic_write(target, render_history(audits), private=True, replaces=PAGES)
        return target
    cure = "give what canary.audit or Audit.load returned"
    given = one_or_more(audits, Audit, "an audit, several audits, or a history", cure=cure)
    if len(given) == 1 and labels is None and test_losses is None:
        html = render(given[0])
    elif len(given) == 1:
        raise InputError(
            "labels and test losses are for comparing, and there is one audit",
            cure="give several audits, or leave them away",
        )
    else:
        html = render_comparison(compare(given, labels=labels, test_losses=test_losses))
    atomic_write(target, html, private=True, replaces=PAGES)
    return target


def render(audit: Audit) -> str:
    """The HTML of `report` for one audit, as text."""
    return page(
        _TEMPLATE,
        answer=answer(audit),
        audit=audit,
        model=audit.model.get("name") or "a language model",
        tiles=_tiles(audit),
        formats=[_format_view(audit, at) for at in range(len(audit.formats))],
        rows=[_row(audit, c) for c in audit.canaries],
        extractions=[extraction_view(audit, e) for e in audit.extractions],
        curves=any(f.skew_normal for f in audit.formats),
        rejected=any(f.skew_normal and f.skew_normal.rejected for f in audit.formats),
        beyond=any(_beyond(c.skew_normal) for c in audit.canaries),
        facts=facts_in_words(audit.model),
        settings=settings_in_words(audit.settings),
        notes=audit.notes,
        in_corpus=audit.canaries_in_corpus,
        confidences=sorted({_percent(e.confidence) for e in _drawn(audit) if e.confidence}),
        drawn=bool(_drawn(audit)),
        shared=any(p and p.shared_draws for p in (audit.injected_p, audit.controls_p)),
        importance=any(e.effective_draws is not None for e in _drawn(audit)),
        unfinished=any(
            c.exposure.censored and c.exposure.confidence is None for c in audit.canaries
        ),
        ranked=len(_drawn(audit)) < len(audit.canaries),
        bounded=any(f.method in (RANK, RANK_AND_DRAWS) for f in audit.formats),
        censored=any(e.censored for e in _drawn(audit)),
        exposure_columns=EXPOSURE_COLUMNS,
        histogram_columns=("Of", "Number", "Smallest", "Median", "Largest"),
        limit_apart=answer(audit).verdict in ("memorized", "undecided", "not found"),
        named=MODEL_ARGUMENTS in audit.settings,
        exact_p=any(f.method in (ENUMERATION, RANK) for f in audit.formats),
        drawn_p=any(f.method in (UNIFORM_DRAWS, IMPORTANCE) for f in audit.formats),
        both_p=any(f.method == RANK_AND_DRAWS for f in audit.formats),
        level=_percent(LEVEL),
        unlearned=bits(UNLEARNED_95_BITS),
        most_drawn=bits(math.log2(max((e.draws or 1 for e in _drawn(audit)), default=1))),
    )


def _tiles(audit: Audit) -> list[tuple[str, str, str]]:
    """The few numbers behind the answer: name, value, what it is."""
    tiles = []
    group = strongest(audit)
    if group is not None:
        each = f"with {plural(group.repetitions, 'copy', 'copies')} each"
        if not audit.canaries_in_corpus:
            each = f"planned for {plural(group.repetitions, 'copy', 'copies')}, none put in"
        tiles.append(
            (
                "Strongest group",
                f"{'≥ ' if group.bound else ''}{bits(group.median_bits)} bits",
                f"median exposure of {plural(group.size, 'canary', 'canaries')} {each}; 1 bit is "
                "usual for text that was not learned",
            )
        )
    injected = ("Injected canaries", "of memorization")
    if not audit.canaries_in_corpus:
        injected = ("Canaries, not injected", "of a flaw in the audit")
    for name, members, combined, evidence in (
        (injected[0], audit.injected, audit.injected_p, injected[1]),
        ("Controls", audit.controls, audit.controls_p, "of a flaw in the audit"),
    ):
        value, note = "none", "none in this set"
        if combined is not None:
            p = probability(combined.p_value)
            value = f"p {p}" if p.startswith("<") else f"p = {p}"
            note = (
                f"{plural(len(members), 'canary', 'canaries')} taken together; "
                f"{_percent(LEVEL)} or less is evidence {evidence}"
            )
        tiles.append((name, value, note))
    return tiles


def _format_view(audit: Audit, at: int) -> dict[str, Any]:
    from markupsafe import Markup

    from canary.reports.canvas import NARROW, WIDE
    from canary.reports.figures import draw_exposure, draw_histogram

    this = audit.formats[at]
    mine = [c for c in audit.canaries if c.format == at]
    enumerated = this.method == ENUMERATION
    size = count(this.space_size)
    facts = {
        "Format": this.format,
        "Possible secrets": f"{size} ({bits(math.log2(this.space_size))} bits)",
        "Method": this.method,
        "Why this method": this.reason,
        "Candidates priced": count(this.candidates),
        "Uniform draws among them": "none" if this.draws is None else count(this.draws),
        "Every candidate counted once": _completeness(this),
        "Queries": f"{count(this.queries)} tokens computed",
        "Longest candidate": plural(this.tokens, "token"),
        "Noise of the arithmetic": f"{this.noise_bits:.2g} bits for a whole candidate",
        "Skew-normal curve": _curve(this.skew_normal),
        "Time": f"{this.seconds:,.1f} s",
    }
    return {
        "masked": this.masked,
        "size": size,
        "candidates": count(this.candidates if enumerated else this.histogram.total),
        "enumerated": enumerated,
        "drawn": any(c.exposure.draws is not None for c in mine),
        "censored": any(c.exposure.censored for c in mine),
        "crowd": _crowd(mine, this.space_size) if audit.canaries_in_corpus else None,
        "facts": facts,
        "fit": this.skew_normal,
        "curve_verdict": curve_verdict(this.skew_normal),
        "exposure_rows": [
            exposure_cells(group[0].repetitions, [c.exposure for c in group])
            for group in _by_copies(mine)
        ],
        "histogram_rows": [_candidate_cells(this.histogram)]
        + [_px_cells(group) for group in _by_copies(mine)],
        "exposure_words": _exposure_words(mine, this.space_size),
        "histogram_words": _histogram_words(audit, at, mine),
        "figures": {
            # The drawings hold our own numbers and words only, as figures.py says.
            (kind, name): Markup(draw(audit, at, size=inches))  # noqa: S704
            for kind, draw in (("exposure", draw_exposure), ("histogram", draw_histogram))
            for name, inches in (("wide", WIDE), ("narrow", NARROW))
        }
        if mine
        else {},
    }


def _completeness(priced: FormatResult) -> str:
    """How it is known that no candidate was left out or counted twice."""
    if priced.method == UNIFORM_DRAWS:
        return "not needed: the draws are random candidates"
    certified, _, how = (priced.certificate or "").partition(": ")
    if certified == "certified":
        return f"yes: {how}"
    if certified == "not certified":
        return f"very likely: {how}"
    return priced.certificate or "not recorded"


def _crowd(mine: list[CanaryResult], space_size: int) -> dict[str, str] | None:
    """The likeliest injected canaries, if they take at least half of the first places.

    Canaries of one format cannot share a place: the k-th has log2|R| - log2 k bits at most,
    however well the model learned it.
    """
    ranks = sorted(c.exposure.rank for c in mine if not c.control and c.exposure.rank is not None)
    crowded = [k for k, rank in enumerate(ranks, 1) if k > 1 and rank <= 2 * k]
    if not crowded:
        return None
    k = crowded[-1]
    most = math.log2(space_size) - math.log2(k)
    return {"size": count(k), "places": count(ranks[k - 1]), "most": bits(most)}


def _exposure_words(mine: list[CanaryResult], space_size: int) -> str:
    """What the first figure shows, for those who do not see it."""
    groups = []
    for group in _by_copies(mine):
        median, bound = median_bits([c.exposure for c in group])
        copies = group[0].repetitions
        name = plural(copies, "copy", "copies") if copies else "controls"
        groups.append(f"{name}: {'at least ' if bound else ''}{bits(median)}")
    return (
        "Exposure against number of copies. Median exposure in bits, "
        f"{'; '.join(groups)}. The largest possible is {bits(math.log2(space_size))}."
    )


def _by_copies(mine: Sequence[CanaryResult]) -> list[tuple[CanaryResult, ...]]:
    numbers = sorted({c.repetitions for c in mine})
    return [tuple(c for c in mine if c.repetitions == n) for n in numbers]


def _px_cells(group: Sequence[CanaryResult]) -> tuple[str, ...]:
    px = [c.px_bits for c in group]
    copies = group[0].repetitions
    name = plural(copies, "copy", "copies") if copies else "controls"
    values = (min(px), statistics.median(px), max(px))
    return name, count(len(px)), *(f"{value:.2f}" for value in values)


def _candidate_cells(histogram: Histogram) -> tuple[str, ...]:
    """As `_px_cells`, to the width of a bin: the lower edges of the bins that hold them."""
    counts = np.array(histogram.counts, np.int64)
    total = int(counts.sum())
    if not total:
        return "candidates", "0", "–", "–", "–"
    edges, filled = histogram.edges(), np.flatnonzero(counts)
    middle = np.searchsorted(counts.cumsum(), total / 2)
    bins = (filled[0], middle, filled[-1])
    return "candidates", count(total), *(f"about {bits(edges[at])}" for at in bins)


def _histogram_words(audit: Audit, at: int, mine: list[CanaryResult]) -> str:
    histogram = audit.formats[at].histogram
    text = f"Log-perplexities of {count(histogram.total)} candidates"
    if histogram.total:
        edges = histogram.edges()
        text += f", between {bits(edges[0])} and {bits(edges[-1])} bits"
    if mine:
        px = [c.px_bits for c in mine]
        text += f"; those of the canaries lie between {bits(min(px))} and {bits(max(px))} bits"
    if (fit := audit.formats[at].skew_normal) is not None:
        text += (
            f"; the skew-normal curve over them has its mean at {bits(fit.curve.mean_bits)} bits"
        )
    return f"{text}."


def _curve(fit: SkewNormalFit | None) -> str:
    if fit is None:
        return "none: none could be fitted"
    curve = fit.curve
    shape = f"{curve.shape:.3g}" if math.isfinite(curve.shape) else "infinite (half-normal)"
    return (
        f"mean {curve.mean_bits:.2f} bits, standard deviation {curve.sd_bits:.2f} bits, shape "
        f"{shape}; fitted to {count(fit.fitted)} draws, tested on {count(fit.tested)} others"
    )


def _beyond(estimate: Exposure | None) -> bool:
    """Whether an estimate says more than the space can hold."""
    return estimate is not None and (estimate.bits or 0.0) > estimate.space_bits


def _row(audit: Audit, canary: CanaryResult) -> dict[str, str]:
    fit = audit.formats[canary.format].skew_normal
    e = canary.exposure
    interval = f"{e.lower_bits:z.2f} to {e.upper_bits:z.2f}"
    if e.rank is not None:
        place = count(e.rank)
        if e.rank_lower is not None and e.rank_upper is not None and e.rank_lower < e.rank_upper:
            # One break is allowed, before the range.
            place += f" ({count(e.rank_lower)}{_NBSP}to{_NBSP}{count(e.rank_upper)})"
    elif e.effective_draws is not None and e.bits is not None:
        place = f"about{_NBSP}{_rounded(2.0 ** (e.space_bits - e.bits))}"
    elif e.draws is None:
        place = f"{count(e.rank_lower or 0)}{_NBSP}to{_NBSP}{count(e.rank_upper or 0)}"
    else:
        place = f"{count(e.hits or 0)} of {count(e.draws or 0)}"
    return {
        "id": canary.id,
        "format": str(canary.format + 1),
        "copies": "0 (control)" if canary.control else count(canary.repetitions),
        "px": f"{canary.px_bits:.2f}",
        "exposure": bits_or_bound(e),
        "interval": interval,
        "place": place,
        "p": "–" if canary.natural else probability(e.p_value),
        "skewed": bits_or_bound(canary.skew_normal)
        + (f"{_NBSP}†" if fit is not None and fit.rejected else ""),
    }


def _rounded(rank: float) -> str:
    """A rank that was estimated, to three digits."""
    return count(int(float(f"{rank:.3g}")))


def _drawn(audit: Audit) -> list[Exposure]:
    """Exposures whose intervals rest on draws."""
    return [c.exposure for c in audit.canaries if c.exposure.confidence is not None]


def _percent(share: float) -> str:
    return f"{100 * share:g}\N{NO-BREAK SPACE}%"
