"""The report of one audit, with no secret in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from canary.audits.audit_result import Audit
from canary.audits.audit_setup import control_of, limit_of, without_control
from canary.audits.group_medians import shown_median
from canary.audits.search_ranks import unsearched, with_search
from canary.reports.advice import advice, decisions, unsaid
from canary.reports.builders import report_of, section, sections_of
from canary.reports.document import (
    Block,
    Bullets,
    Facts,
    Figure,
    Heading,
    Report,
    Span,
    Table,
    Text,
    prose,
    said,
    said_in_one,
    sentence,
)
from canary.reports.exposure_figures import exposure_figure, guesses_figure, histogram_figure
from canary.reports.extraction_report import candidates_of
from canary.reports.limit_choice import exposure_limit
from canary.reports.limits import UNSHOWN, basis_of, learned_copies, listed, planting
from canary.reports.recovery import counts, cut_searches, learned_unfound, recovered
from canary.reports.recovery import table as recovery_table
from canary.reports.sentences import (
    LEVEL,
    MODEL_ARGUMENTS,
    answer,
    control_words,
    extract_command,
    extraction_sentence,
    strongest,
)
from canary.reports.wording import (
    about_of,
    before_of,
    called,
    ended,
    facts_blocks,
    folded,
    format_facts,
    interval_of,
    kind_of,
    percent,
    place_of,
    run_blocks,
)
from canary.statistics.learned_parts import CONTROLS_LEVEL
from canary.statistics.numbers import (
    bits,
    bits_or_bound,
    copies,
    count,
    plural,
    probability,
)
from canary.tokens.starts import shown_start

_NBSP = "\N{NO-BREAK SPACE}"
_MOST_ROWS = 25


@report_of.register
def audit_report(audit: Audit) -> Report:
    """What there is to say about an audit."""
    judged, kind, rest = answer(audit), planting(audit), without_control(audit)
    unread = judged.verdict == "not found" and kind not in ("shown", "own")
    box: Text = answer(rest).sentence
    if judged.verdict == "memorized":
        learned = listed(many) if (many := learned_copies(rest)) else ""
        box = counts(rest) or learned_unfound(with_search(rest), learned) or box
    elif judged.case == "not_found":
        most = max(c.repetitions for c in rest.injected)
        up_to = "up to " if any(c.repetitions < most for c in rest.injected) else ""
        number = len(rest.injected)
        box = sentence("audit.not_found", number=number, most=f"{up_to}{copies(most)}")
    advised = audit if judged.case == "control" else rest
    return Report(
        title=f"Memorization audit of {called(audit.model_name, 'a language model')}",
        label=UNSHOWN if unread and kind else judged.label,
        tone="undecided" if unread else judged.verdict.replace(" ", "-"),
        about={**about_of(audit), **before_of(audit), "Limit": _limit(audit)},
        sentences=[box] * (judged.case != "control") + [w for w in [control_words(audit)] if w],
        basis=basis_of(audit) if judged.verdict == "not found" else "",
        notes=notes(audit, audit.notes),
        outcome=[*outcome(audit, told=judged.verdict == "memorized" and bool(counts(rest)))],
        decide=decisions(advised),
        actions=advice(advised),
        unsaid=unsaid(
            audit,
            calm=judged.verdict not in ("memorized", "suspect"),
            unlimited=bool(audit.injected) and limit_of(audit) is None,
            limited=limit_of(audit) is not None,
        ),
        sections=sections_of(audit),
        brief=[*_brief(audit)],
    )


def _limit(audit: Audit) -> str:
    """The limit that the audit was made for, which another page judges."""
    if (limit := limit_of(audit)) is None:
        return "none was set"
    sizes = {priced.space_size for priced in audit.formats}
    words = exposure_limit(sizes.pop() if len(sizes) == 1 else 0, limit)
    return sentence("limit.kept", limit=words, bits=f"{limit:g}")


def notes(
    audit: Audit, said_of_it: Iterable[str], *, verified: bool = False, seen: bool = False
) -> list[Text]:
    """What to know first, in plain words; of the start token the details are for specialists.

    `verified` says that what the training data have before the canaries was compared, and `seen`
    that the batches of the training had the start token of the audit.
    """
    start = audit.start
    details = () if start is None else start.notes
    known: list[Text] = [*cut_searches(audit)]
    bounded = any(c.exposure.bits is None for c in with_search(audit).injected)
    whole = "score" in audit.model.get("capabilities", ())  # else the likeliest tokens were used
    why = ended(unsearched(audit))
    if bounded and whole and audit.model.get("device") == "served":
        known += why or said("audit.served")
    known += [note for note in ended(said_of_it) if note not in (*ended(details), *why)]
    if seen or start is None or start.own or start.tested or not audit.canaries_in_corpus:
        return known
    asked = start.why == "asked" and not start.context
    said_before = {"asked": asked, "verified": verified and not audit.settings.get("context")}
    if start.rivals:
        risk = sentence("start.rivals", name=shown_start(start.token), **said_before)
    else:
        before = {None: "nothing", "\n": "newline"}.get(start.token, "other")
        if verified and start.token is not None:
            return [sentence("start.verified", name=shown_start(start.token)), *known]
        before = "context" if start.context or audit.settings.get("context") else before
        named = {before: True, "name": shown_start(start.token)}
        risk = sentence("start.risk", **named, **said_before)
    return [(Span(risk, "strong"),), *known]


def outcome(
    audit: Audit,
    limit_bits: float | None = None,
    *,
    told: bool = False,
    each: float | None = None,
) -> Iterator[Block]:
    """How many secrets an attacker recovers, and in how many guesses each; see `recovered`.

    `each` is as in `canary.reports.recovery.table`.
    """
    yield from recovered(audit := with_search(audit), limit_bits, told=told)
    yield from _by_format(
        audit,
        lambda one, at: replace(
            guesses_figure(one, at, limit_bits),
            table=recovery_table(one, at, limit_bits, each=each),
        ),
    )


def _brief(audit: Audit) -> Iterator[Block]:
    """For specialists at a terminal."""
    injected = "the planted canaries" if audit.canaries_in_corpus else "the left-out canaries"
    injected += ", without the positive control" * bool(control_of(audit))
    judged = without_control(audit).injected_p
    for who, combined in ((injected, judged), ("the controls", audit.controls_p)):
        if combined is not None:
            yield f"Fisher's p-value of {who}: {probability(combined.p_value)}"
    yield from () if audit.start is None else audit.start.notes
    for number, priced in enumerate(audit.formats, 1):
        which = f"Format {number}: " if len(audit.formats) > 1 else ""
        yield f"{which}Method: {priced.method}: {priced.reason}"
    if times := _times(audit):
        yield f"Time: {'; '.join(f'{name}: {taken}' for name, taken in times.items())}"


def _times(audit: Audit) -> dict[str, str]:
    """What each part of the run took."""
    searches = [extraction.seconds for extraction in audit.extractions] if audit.seconds else []
    parts = {**audit.seconds, **({"Extraction": sum(searches)} if searches else {})}
    return {f"{name[0].upper()}{name[1:]}": f"{taken:,.1f} s" for name, taken in parts.items()}


@section(Audit, "Evidence", specialist=True)
def evidence(audit: Audit) -> Iterator[Block]:
    """Whether anything was learned at all, whatever a limit allows."""
    yield answer(audit).sentence
    yield said_in_one("audit.evidence")
    if audit.canaries:
        yield Facts(dict(_evidence(audit)))


def _evidence(audit: Audit) -> Iterator[tuple[str, str]]:
    there, group = audit.canaries_in_corpus, strongest(with_search(audit))
    if group is not None:
        each = plural(group.repetitions, "copy", "copies")
        each = f"with {each} each" if there else f"planned for {each}, none put in"
        yield (
            "Most exposed group",
            f"median exposure of {'at least ' if group.bound else ''}{bits(group.median_bits)} "
            f"bits ({plural(group.size, 'canary', 'canaries')} {each}); 1 bit is usual for text "
            "that was not learned",
        )
        if under := [c.base.exposure for c in group.canaries if c.base]:
            yield (
                "The same canaries under the base model",
                f"median exposure of {shown_median(under)}",
            )
    injected = "Planted canaries" if there else "Canaries, not planted"
    flaw, judged = "a flaw in the audit", without_control(audit)
    for name, members, combined, level, of in (
        (injected, judged.injected, judged.injected_p, LEVEL, "memorization" if there else flaw),
        ("Controls", audit.controls, audit.controls_p, CONTROLS_LEVEL, flaw),
    ):
        words = "none in this set"
        if combined is not None:
            p = probability(combined.p_value)
            number = plural(len(members), "canary", "canaries")
            left_out = control_of(audit) and name == injected
            among = ", without the positive control" if left_out else ""
            words = (
                f"p {p if p.startswith('<') else f'= {p}'} ({number} taken together{among}); "
                f"{percent(level)} or less is evidence of {of}"
            )
        yield name, words


@section(Audit, "Exposure by number of copies", specialist=True)
def exposure(audit: Audit) -> Iterator[Block]:
    """Every canary a point, beside others of as many copies."""
    yield said_in_one("secrets", there=audit.canaries_in_corpus)
    yield from _by_format(with_search(audit), exposure_figure)


@section(Audit, "Canaries among the other candidates", specialist=True)
def candidates(audit: Audit) -> Iterator[Block]:
    """The histogram of the candidates, with the canaries below."""
    yield said_in_one("audit.candidates")
    yield from _by_format(audit, histogram_figure)


def _by_format(audit: Audit, draw: Callable[[Audit, int], Figure]) -> Iterator[Block]:
    """A figure of each format that has canaries."""
    for at in sorted({c.format for c in audit.canaries}):
        if len(audit.formats) > 1:
            masked = audit.formats[at].masked
            yield Heading(prose(f"Format {at + 1}: `{{format}}`", format=masked))
        yield draw(audit, at)
    if not audit.canaries:
        yield "There is no canary to show."


@section(Audit, "Every canary", specialist=True)
def table(audit: Audit) -> Iterator[Block]:
    """A row for each canary, in the order of the set."""
    audit = with_search(audit)
    values, several = _values(audit), len(audit.formats) > 1
    curves, drawn = values["curves"], values["drawn"]
    intervals = any(interval_of(c.exposure) != bits_or_bound(c.exposure) for c in audit.canaries)
    yield said_in_one("audit.table", intervals=intervals, **values)
    if not audit.canaries:
        yield "There is none."
        return
    kinds = {kind_of(c.exposure) for c in audit.canaries}
    mixed, kind = len(kinds) > 1, min(kinds)
    place = "Rank\namong all"
    if drawn:
        place = "Hits\nof draws"
        if values["ranked"] or values["importance"]:
            place = "Rank, or\nhits of draws"
    based = values["based"]
    rows = []
    for c in audit.canaries:
        e, fit = c.exposure, audit.formats[c.format].skew_normal
        failed = f"{_NBSP}†" if fit is not None and fit.rejected else ""
        rows.append(
            (
                c.id,
                *((str(c.format + 1),) if several else ()),
                "0 (control)" if c.control else count(c.repetitions),
                bits_or_bound(e),
                *((interval_of(e) + (f", {kind_of(e)}" if mixed else ""),) if intervals else ()),
                *((bits_or_bound(c.base.exposure) if c.base else "–",) if based else ()),
                f"{c.px_bits:.2f}",
                place_of(e),
                "–" if c.natural else probability(e.p_value),
                *((bits_or_bound(c.skew_normal) + failed,) if curves else ()),
            )
        )
    columns = (
        "Canary",
        *(("Format",) if several else ()),
        "Copies" if audit.canaries_in_corpus else "Copies\nplanned",
        *(
            "Exposure\n(bits)",
            *((f"Interval\n(bits{'' if mixed else f', {kind}'})",) if intervals else ()),
        ),
        *(("Under the base\n(bits)",) if based else ()),
        *("Log-perplexity\n(bits)", place, "p-value"),
        *(("Skew-normal\n(bits)",) if curves else ()),
    )
    tones = ["control" if c.control else "" for c in audit.canaries]
    style = "canaries" if curves else ""
    yield from folded(Table("Exposure of every canary", columns, rows, tones, style))


@section(Audit, "What could be extracted", specialist=True)
def extraction(audit: Audit) -> Iterator[Block]:
    """The most likely candidates that a search brought, without their secrets."""
    if not audit.extractions:
        return
    yield said_in_one("audit.extraction", **_values(audit))
    for searched in audit.extractions:
        if len(audit.extractions) > 1:
            yield Heading(prose("`{format}`", format=searched.masked))
        yield extraction_sentence(audit, searched)
        yield prose("`{command}`", command=extract_command(audit, searched))
        yield from candidates_of(searched, named={c.id for c in audit.injected})


@section(Audit, "How this was computed", specialist=True)
def how(audit: Audit) -> Iterator[Block]:
    """What the words mean, and everything that was asked and done."""
    yield from said("audit.how", **_values(audit))
    if audit.start is not None:
        yield Heading("What comes before each candidate")
        yield Bullets(audit.start.notes)
    for number, priced in enumerate(audit.formats, 1):
        which = f" {number}" if len(audit.formats) > 1 else ""
        yield Heading(prose(f"Format{which}: `{{format}}`", format=priced.masked))
        mine = [c.exposure for c in audit.canaries if c.format == number - 1]
        yield Facts(format_facts(priced, mine))
    yield from facts_blocks({"Time": _times(audit)})
    yield from run_blocks(audit.model, audit.settings)


@section(Audit, "What the numbers do not say", specialist=True)
def limits(audit: Audit) -> Iterator[Block]:
    """What must not be read into the numbers."""
    yield Bullets(said("audit.limits", **_values(audit)))


def _values(audit: Audit) -> dict[str, Any]:
    """What the longer words ask of an audit."""
    fits = [priced.skew_normal for priced in audit.formats]
    exposures = [c.exposure for c in audit.canaries]
    drawn = [e for e in exposures if e.confidence is not None]
    ranked = [e for e in exposures if e.confidence is None]
    importance = any(e.effective_draws is not None for e in drawn)
    sampled = {c.format for c in audit.canaries if c.exposure.draws is not None}
    counted = {c.format for c in audit.canaries if c.exposure.rank_upper is not None}
    bounded = {at for at in counted if not audit.formats[at].enumerated}
    estimates = [e for c in audit.canaries if (e := c.skew_normal) is not None]
    return {
        "there": audit.canaries_in_corpus,
        "named": MODEL_ARGUMENTS in audit.settings,
        "level": percent(LEVEL),
        "controls_level": percent(CONTROLS_LEVEL),
        "bounded": bounded,
        "drawn": drawn,
        "sampled": drawn and sampled,
        "importance": importance,
        "uniform": drawn and sampled and not importance,
        "confidences": " or ".join(sorted({percent(e.confidence or 0.0) for e in drawn})),
        "censored": any(e.censored for e in drawn),
        "ranked": ranked,
        "ranked_by_bounds": ranked and bounded,
        "ranked_by_count": ranked and not bounded,
        "unfinished": any(not e.exact for e in ranked),
        "exact_p": counted - sampled,
        "drawn_p": sampled - counted,
        "both_p": counted & sampled,
        "shared": any(p and p.shared_draws for p in (audit.injected_p, audit.controls_p)),
        "curves": any(fits),
        "based": any(c.base for c in audit.canaries),
        "rejected": any(fit and fit.rejected for fit in fits),
        "beyond": any((e.bits or 0.0) > e.space_bits for e in estimates),
    }
