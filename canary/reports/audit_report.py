"""The report of one audit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from canary.audits.audit_result import Audit, CanaryResult, FormatResult
from canary.reports.builders import report_of, section, sections_of
from canary.reports.document import (
    Block,
    Bullets,
    Facts,
    Heading,
    Report,
    Table,
    Text,
    Tile,
    prose,
)
from canary.reports.exposure_figures import exposure_figure, group_name, histogram_figure
from canary.reports.extractions import MODEL_ARGUMENTS, extraction_blocks, extraction_sentence
from canary.reports.sentences import LEVEL, UNLEARNED_95_BITS, answer, curve_verdict, strongest
from canary.reports.wording import (
    EXPOSURE_COLUMNS,
    exposure_cells,
    facts_in_words,
    percent,
    settings_in_words,
)
from canary.statistics.exposure_result import (
    ENUMERATION,
    IMPORTANCE,
    RANK,
    RANK_AND_DRAWS,
    UNIFORM_DRAWS,
    Exposure,
)
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.histogram import Histogram
from canary.statistics.numbers import bits, bits_or_bound, count, plural, probability

__all__ = ["audit_report"]

_NBSP = "\N{NO-BREAK SPACE}"
_NOTHING = "There is no canary to show."


@report_of.register
def audit_report(audit: Audit, *, name: str | None = None) -> Report:
    """What there is to say about an audit."""
    found = answer(audit)
    model = name or audit.model.get("name") or "a language model"
    return Report(
        title=f"Memorization audit of {model}",
        label=found.label,
        tone=found.verdict.replace(" ", "-"),
        sentences=[found.sentence],
        remark=prose(
            "This is about evidence: whether the canaries look learned at all. Whether more was "
            "learned than you allow is another question. `canary check` answers it from your "
            "limit, and calls a model *memorized* only if it lies above."
        )
        if found.verdict in ("memorized", "undecided", "not found")
        else "",
        tiles=[*_tiles(audit)] if audit.canaries else (),
        notes=audit.notes,
        sections=sections_of(audit),
        brief=[*_brief(audit)],
    )


def _brief(audit: Audit) -> Iterator[Block]:
    there = audit.canaries_in_corpus
    yield Table(
        "",
        (
            *("copies" if there else "copies planned", "number"),
            *("median exposure, bits", "smallest", "largest"),
        ),
        [
            _at_least(exposure_cells(copies, [c.exposure for c in group], controls="0 (control)"))
            for copies, group in audit.by_repetitions().items()
        ],
    )
    injected = "the injected canaries" if there else "the canaries that were left out"
    for who, combined in ((injected, audit.injected_p), ("the controls", audit.controls_p)):
        if combined is not None:
            yield f"Fisher's p-value of {who}: {probability(combined.p_value)}"
    for number, priced in enumerate(audit.formats, 1):
        which = f"Format {number}: " if len(audit.formats) > 1 else ""
        yield f"{which}Method: {priced.method}: {priced.reason}"
        yield f"{which}{curve_verdict(priced.skew_normal)}"
    for extraction in audit.extractions:
        which = f"{extraction.masked}: " if len(audit.extractions) > 1 else ""
        yield f"{which}{extraction_sentence(audit, extraction)}"


def _at_least(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(cell.replace("≥", "at least") for cell in cells)


def _tiles(audit: Audit) -> Iterator[Tile]:
    there, group = audit.canaries_in_corpus, strongest(audit)
    if group is not None:
        each = plural(group.repetitions, "copy", "copies")
        each = f"with {each} each" if there else f"planned for {each}, none put in"
        yield Tile(
            "Strongest group",
            f"{'≥ ' if group.bound else ''}{bits(group.median_bits)} bits",
            f"median exposure of {plural(group.size, 'canary', 'canaries')} {each}; 1 bit is "
            "usual for text that was not learned",
        )
    injected = "Injected canaries" if there else "Canaries, not injected"
    for name, members, combined, of in (
        (injected, audit.injected, audit.injected_p, "memorization" if there else ""),
        ("Controls", audit.controls, audit.controls_p, ""),
    ):
        value, note = "none", "none in this set"
        if combined is not None:
            p = probability(combined.p_value)
            value = f"p {p}" if p.startswith("<") else f"p = {p}"
            note = (
                f"{plural(len(members), 'canary', 'canaries')} taken together; {percent(LEVEL)} "
                f"or less is evidence of {of or 'a flaw in the audit'}"
            )
        yield Tile(name, value, note)


@section(Audit, "Exposure by number of copies")
def exposure(audit: Audit) -> Iterator[Block]:
    """Every canary a point, beside others of as many copies."""
    yield prose(
        "Canaries are made-up secrets that were put into the training data on purpose."
        if audit.canaries_in_corpus
        else "Canaries are made-up secrets. Those of this audit were drawn, and then left out of "
        "the training data on purpose, so that none of them can have been learned.",
        "Exposure says how far up one stands in the list of all possible secrets, the likeliest "
        "first: every bit halves the part of the list that it is in.",
    )
    if not audit.canaries:
        yield _NOTHING
    for at, priced in enumerate(audit.formats):
        mine = [c for c in audit.canaries if c.format == at]
        if not mine:
            continue
        yield from _format_heading(audit, at)
        table = Table(
            "Exposure by number of copies, in bits",
            EXPOSURE_COLUMNS,
            [
                exposure_cells(group[0].repetitions, [c.exposure for c in group])
                for group in _by_copies(mine)
            ],
        )
        caption = _exposure_caption(audit, priced, mine)
        yield replace(exposure_figure(audit, at), caption=caption, table=table)


def _exposure_caption(audit: Audit, priced: FormatResult, mine: list[CanaryResult]) -> Text:
    censored = any(c.exposure.censored for c in mine)
    draws = max((e.draws or 1 for e in _drawn(audit)), default=1)
    inside = ", hidden in the format `{format}`" if len(audit.formats) == 1 else ""
    there = audit.canaries_in_corpus
    return prose(
        f"Every point is a canary, with its interval{inside}; hollow points are controls, which "
        f"were never {'put into' if there else 'meant for'} the corpus.",
        censored and "A triangle is a lower bound:",
        censored
        and (
            "no drawn candidate was as likely as that canary, so its exposure lies anywhere on "
            "the dotted line above. It may stand below the point of a canary that is exposed less "
            "but was hit by a draw or two: such a point stands at its estimate (up to {most} "
            "bits), a triangle at the lower end of its interval."
            if any(c.exposure.draws is not None for c in mine)
            else "the search for likelier candidates ended before the rank of that canary was "
            "counted, so its exposure lies anywhere on the dotted line above."
        ),
        "Bars are medians; where one depends on triangles it is marked ≥ and is the median of the "
        "lower ends."
        if censored
        else "Bars are medians.",
        f"The shaded band holds 95{_NBSP}% of canaries that were not learned (below {{usual}} "
        "bits), and the dotted line in it is their median, 1 bit. The dashed line is the largest "
        "exposure that there is: the secret is the first of {size} that the model would guess.",
        _crowding(mine, priced.space_size) if there else "",
        format=priced.masked,
        most=bits(math.log2(draws)),
        usual=bits(UNLEARNED_95_BITS),
        size=count(priced.space_size),
    )


def _crowding(mine: list[CanaryResult], space_size: int) -> str:
    """What keeps the likeliest injected canaries down, if they take half of the first places.

    Canaries of one format cannot share a place: the k-th has log2|R| - log2 k bits at most,
    however well the model learned it.
    """
    ranks = sorted(c.exposure.rank for c in mine if not c.control and c.exposure.rank is not None)
    crowded = [k for k, rank in enumerate(ranks, 1) if k > 1 and rank <= 2 * k]
    if not crowded:
        return ""
    k = crowded[-1]
    return (
        "Canaries of one format push each other down, as no two share a place: here the "
        f"{count(k)} likeliest stand within the first {count(ranks[k - 1])} places, and the last "
        f"of them could not have more than {bits(math.log2(space_size) - math.log2(k))} bits."
    )


@section(Audit, "Canaries among the other candidates")
def candidates(audit: Audit) -> Iterator[Block]:
    """The histogram of the candidates, with the canaries below."""
    yield (
        "How likely the model finds each possible secret, and where the canaries stand among "
        "them. One that stands far to the left of the others was learned."
    )
    if not audit.canaries:
        yield _NOTHING
    for at, priced in enumerate(audit.formats):
        mine = [c for c in audit.canaries if c.format == at]
        if not mine:
            continue
        yield from _format_heading(audit, at)
        table = Table(
            "Log-perplexities, in bits",
            ("Of", "Number", "Smallest", "Median", "Largest"),
            [_candidate_cells(priced.histogram), *map(_px_cells, _by_copies(mine))],
        )
        drawn = count(priced.histogram.total)
        caption = prose(
            "Above, the log-perplexities of "
            + (
                f"all {count(priced.candidates)} candidates of the format; below,"
                if priced.method == ENUMERATION
                else f"{drawn} candidates drawn uniformly from {count(priced.space_size)}; below,"
            ),
            "those of the canaries, a tick each, by their number of copies.",
            priced.skew_normal is not None
            and "The dashed line is a skew-normal curve fitted to draws of them.",
            curve_verdict(priced.skew_normal),
        )
        yield replace(histogram_figure(audit, at), caption=caption, table=table)


def _format_heading(audit: Audit, at: int) -> Iterator[Heading]:
    if len(audit.formats) > 1:
        yield Heading(prose(f"Format {at + 1}: `{{format}}`", format=audit.formats[at].masked))


def _by_copies(mine: Sequence[CanaryResult]) -> list[list[CanaryResult]]:
    numbers = sorted({c.repetitions for c in mine})
    return [[c for c in mine if c.repetitions == n] for n in numbers]


def _px_cells(group: Sequence[CanaryResult]) -> tuple[str, ...]:
    px = [c.px_bits for c in group]
    values = (min(px), statistics.median(px), max(px))
    return group_name(group[0].repetitions), count(len(px)), *(f"{v:.2f}" for v in values)


def _candidate_cells(histogram: Histogram) -> tuple[str, ...]:
    """As `_px_cells`, to the width of a bin: the lower edges of the bins that hold them."""
    counts = np.array(histogram.counts, np.int64)
    total = int(counts.sum())
    if not total:
        return "candidates", "0", "–", "–", "–"
    edges, filled = histogram.edges(), np.flatnonzero(counts)
    middle = np.searchsorted(counts.cumsum(), total / 2)
    return (
        *("candidates", count(total)),
        *(f"about {bits(edges[place])}" for place in (filled[0], middle, filled[-1])),
    )


@section(Audit, "Every canary")
def table(audit: Audit) -> Iterator[Block]:
    """A row for each canary, in the order of the set."""
    fits = [priced.skew_normal for priced in audit.formats]
    curves, drawn = any(fits), _drawn(audit)
    yield prose(
        "In the order of the canary set. No secret stands here in clear, but whoever also has the "
        "model can find them by trying all candidates, for a rank or a log-perplexity tells which "
        "one it is: treat this report like the model.",
        curves
        and "The last column is the estimate of the paper that introduced exposure, read off the "
        "skew-normal curve: a number where draws give only a bound, and no proof.",
        any(
            e is not None and (e.bits or 0.0) > e.space_bits
            for e in (c.skew_normal for c in audit.canaries)
        )
        and "It may exceed the largest exposure that there is.",
        any(fit and fit.rejected for fit in fits)
        and f"†{_NBSP}marks numbers off a curve that failed its test.",
    )
    if not audit.canaries:
        yield "There is none."
        return
    ranked = len(drawn) < len(audit.canaries) or _by_importance(audit)
    place = "Rank, or\nhits of draws" if ranked else "Hits\nof draws"
    yield Table(
        "Exposure of every canary",
        (
            "Canary",
            *(("Format",) if len(audit.formats) > 1 else ()),
            "Copies" if audit.canaries_in_corpus else "Copies\nplanned",
            *("Exposure\n(bits)", "Interval\n(bits)", "Log-perplexity\n(bits)"),
            *(place if drawn else "Rank\namong all", "p-value"),
            *(("Skew-normal\n(bits)",) if curves else ()),
        ),
        [
            (
                c.id,
                *((str(c.format + 1),) if len(audit.formats) > 1 else ()),
                "0 (control)" if c.control else count(c.repetitions),
                bits_or_bound(c.exposure),
                f"{c.exposure.lower_bits:z.2f} to {c.exposure.upper_bits:z.2f}",
                f"{c.px_bits:.2f}",
                _place(c.exposure),
                "–" if c.natural else probability(c.exposure.p_value),
                *((_skewed(c, fits[c.format]),) if curves else ()),
            )
            for c in audit.canaries
        ],
        tones=["control" if c.control else "" for c in audit.canaries],
        style="canaries" if curves else "",
    )


def _place(e: Exposure) -> str:
    """Its rank or what is known of it; one break is allowed, before the range."""
    if e.rank is not None:
        certain = e.rank_lower is None or e.rank_upper is None or e.rank_lower >= e.rank_upper
        return count(e.rank) + ("" if certain else f" ({_range(e)})")
    if e.effective_draws is not None and e.bits is not None:
        rank = float(f"{2.0 ** (e.space_bits - e.bits):.3g}")
        return f"about{_NBSP}{count(int(rank))}"
    if e.draws is None:
        return _range(e)
    return f"{count(e.hits or 0)} of {count(e.draws or 0)}"


def _range(e: Exposure) -> str:
    return f"{count(e.rank_lower or 0)}{_NBSP}to{_NBSP}{count(e.rank_upper or 0)}"


def _skewed(canary: CanaryResult, fit: SkewNormalFit | None) -> str:
    failed = f"{_NBSP}†" if fit is not None and fit.rejected else ""
    return bits_or_bound(canary.skew_normal) + failed


@section(Audit, "What could be extracted")
def extraction(audit: Audit) -> Iterator[Block]:
    """The likeliest candidates that a search brought, without their secrets."""
    if not audit.extractions:
        return
    named = MODEL_ARGUMENTS in audit.settings
    yield prose(
        "The likeliest candidates of a format, searched for without knowing the canaries: what "
        "anyone who has the model can bring out of it. *Proven* says that no other candidate can "
        "be likelier, to within the noise of the arithmetic. The candidates themselves are not "
        "kept here; the command below prints them"
        + (
            "."
            if named
            else ", with the model, and the options that it was loaded with, in the "
            "place of `MODEL`."
        )
    )
    for found in audit.extractions:
        if len(audit.extractions) > 1:
            yield Heading(prose("`{format}`", format=found.masked))
        yield from extraction_blocks(audit, found)


@section(Audit, "How this was computed", specialist=True)
def how(audit: Audit) -> Iterator[Block]:
    """What the words mean, and everything that was asked and done."""
    methods = {priced.method for priced in audit.formats}
    drawn, importance = bool(_drawn(audit)), _by_importance(audit)
    injected = "injected canaries" if audit.canaries_in_corpus else "canaries that were left out"
    shared = any(p and p.shared_draws for p in (audit.injected_p, audit.controls_p))
    sharing = ", which accounts for the draws that they share" if shared else ""
    yield prose(
        "A *candidate* is the fixed text of a format with one of its possible secrets in it. Its "
        "*log-perplexity* is how surprised the model is by the whole candidate, in bits: −log~2~ "
        "of the probability that the model gives it. One bit less is twice the probability."
    )
    yield prose(
        "All candidates of a format, sorted by log-perplexity, are the order in which the model "
        "would guess. The *rank* of a canary is its place in that order, ties before it, and its "
        "*exposure* is log~2~ of the number of candidates less log~2~ of its rank: 0 bits for the "
        "last guess, 1 for the middle one, and the largest for the first.",
        methods & {RANK, RANK_AND_DRAWS}
        and "To count those before a canary, no beginning needs to be looked into that is less "
        "likely than the whole canary (*branch and bound*): the likelier a canary, the sooner its "
        "rank is known.",
        drawn
        and "Where there are too many candidates to price them all, a uniform sample of them is "
        "drawn; the *hits*, those drawn at least as likely as the canary, estimate its rank.",
        importance
        and "Where hardly any draw is as likely as a canary, others are drawn that prefer what "
        "the model finds likely, and each counts for as many as it stands for (*importance "
        "draws*): so come the ranks with *about* before them.",
    )
    yield prose(
        "The *p-value* of a canary is the probability of so high an exposure if it was not "
        "learned, or a little more, never less.",
        methods & {ENUMERATION, RANK}
        and "Of an exact rank it is that rank, the last of those that are possible, over the "
        "number of candidates.",
        methods & {UNIFORM_DRAWS, IMPORTANCE}
        and "From draws it is (1 + hits) / (1 + draws): without the added ones no hit would make "
        "it 0.",
        RANK_AND_DRAWS in methods
        and "Where draws and exact ranks stand side by side, it is rank / candidates only where "
        "that is at most 1 / (1 + draws), and (2 + hits) / (1 + draws) elsewhere, also of "
        "canaries whose rank is exact: to take the smaller of two p-values as it is would raise "
        "false alarms, and one hit more pays for the choice. So it may be several times the share "
        "of candidates that stands before the canary.",
        f"Those of the {injected}, and apart from them those of the controls, are combined by "
        f"Fisher’s method{sharing}; at or below {percent(LEVEL)} it counts as evidence. Of "
        "models that learned nothing, one in a hundred looks so by luck.",
    )
    if any(priced.skew_normal for priced in audit.formats):
        yield prose(
            "The *skew-normal* estimate fits a curve to the log-perplexities of uniform draws, by "
            "maximum likelihood on one half of them, and takes −log~2~ of what the curve holds "
            "between 0 and the canary for its exposure. The other half of the draws tests the "
            "curve (Kolmogorov–Smirnov). It enters no p-value."
        )
    for number, priced in enumerate(audit.formats, 1):
        which = f" {number}" if len(audit.formats) > 1 else ""
        yield Heading(prose(f"Format{which}: `{{format}}`", format=priced.masked))
        yield _format_facts(priced)
    for heading, facts in (
        ("Model", facts_in_words(audit.model)),
        ("Settings", settings_in_words(audit.settings)),
    ):
        if facts:
            yield Heading(heading)
            yield Facts(facts)


def _format_facts(priced: FormatResult) -> Facts:
    space_bits = bits(math.log2(priced.space_size))
    return Facts(
        {
            "Format": priced.format,
            "Possible secrets": f"{count(priced.space_size)} ({space_bits} bits)",
            "Method": priced.method,
            "Why this method": priced.reason,
            "Candidates priced": count(priced.candidates),
            "Uniform draws among them": "none" if priced.draws is None else count(priced.draws),
            "Every candidate counted once": _completeness(priced),
            "Queries": f"{count(priced.queries)} tokens computed",
            "Longest candidate": plural(priced.tokens, "token"),
            "Noise of the arithmetic": f"{priced.noise_bits:.2g} bits for a whole candidate",
            "Skew-normal curve": _curve(priced.skew_normal),
            "Time": f"{priced.seconds:,.1f} s",
        }
    )


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


def _curve(fit: SkewNormalFit | None) -> str:
    if fit is None:
        return "none: none could be fitted"
    curve = fit.curve
    shape = f"{curve.shape:.3g}" if math.isfinite(curve.shape) else "infinite (half-normal)"
    return (
        f"mean {curve.mean_bits:.2f} bits, standard deviation {curve.sd_bits:.2f} bits, shape "
        f"{shape}; fitted to {count(fit.fitted)} draws, tested on {count(fit.tested)} others"
    )


@section(Audit, "What this does not say", specialist=True)
def limits(audit: Audit) -> Iterator[Block]:
    """What must not be read into the numbers."""
    drawn = _drawn(audit)
    bounded = any(priced.method in (RANK, RANK_AND_DRAWS) for priced in audit.formats)
    unfinished = any(c.exposure.censored and c.exposure.confidence is None for c in audit.canaries)
    confidences = sorted({percent(e.confidence) for e in drawn if e.confidence})
    items = (
        "Exposure speaks about these canaries: their format, their number of copies, this model. "
        "Other text can be learned more or less easily, and text that stands in the corpus more "
        "often than any canary here was not tested.",
        "Finding nothing is no proof that nothing was memorized. It bounds what these canaries "
        "could show.",
        "Guesses are counted for somebody who knows the format and can ask the model for "
        "probabilities. Whether a secret can be drawn from the model by prompting it is another "
        "question.",
        len(drawn) < len(audit.canaries)
        and prose(
            "Where all candidates were priced"
            f"{', or all that are at least as likely as a canary' if bounded else ''}, exposure is "
            "exact. Its interval covers the noise of the model's arithmetic only: "
            "log-perplexities closer than that noise count as ties of unknown order.",
            unfinished
            and "Where the search ended before a rank was known, the rank lies between two bounds "
            "for certain.",
        ),
        bool(drawn)
        and prose(
            "Where candidates were drawn, an interval is built to cover the true exposure of its "
            f"canary in {' or '.join(confidences)} of repeated draws (Clopper–Pearson"
            + (
                "; of importance draws, Fay and Feuer’s, which holds about as often)."
                if _by_importance(audit)
                else ")."
            ),
            "It speaks of one canary; among many, a few intervals miss.",
            any(e.censored for e in drawn)
            and "A lower bound, marked ≥, has the same confidence; more draws raise it.",
        ),
        any(priced.skew_normal for priced in audit.formats)
        and "Beyond the draws nothing tests the skew-normal curve. A passed test says that it "
        "fits where the draws lie; how far the model's own distribution departs from it where the "
        "canaries lie, the test cannot see, and an interval in the machine-readable audit covers "
        "only the luck of the draws.",
        audit.canaries_in_corpus
        and prose(
            "Canaries of one format stand in one order, so that they push each other down: the "
            "k-th of them has log~2~ of the number of candidates less log~2~ k bits at most."
        ),
        prose(
            "No secret stands in this report or in the `audit.json` behind it. That does not make "
            "them harmless: whoever has one of them, the format and the model can price all "
            "candidates and see which of them has the rank or the log-perplexity of a canary."
        ),
        "A model that was trained again, on another order of the same data or from another seed, "
        "gives other exposures.",
    )
    yield Bullets([item for item in items if item])


def _drawn(audit: Audit) -> list[Exposure]:
    """Exposures whose intervals rest on draws."""
    return [c.exposure for c in audit.canaries if c.exposure.confidence is not None]


def _by_importance(audit: Audit) -> bool:
    return any(e.effective_draws is not None for e in _drawn(audit))
