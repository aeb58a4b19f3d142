"""The report of which passages of texts a model repeats, and its figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.gate.passages_limit import check_passages
from canary.models.decoding import NAMED
from canary.passages.extractable import Extractable, percent_said, share_percent
from canary.passages.result import CHANCE, SHOWN_TRIES, SWAPPED, TRIES, Verbatim
from canary.passages.sampled import Sampled
from canary.passages.tries import comes_out
from canary.reports.builders import PlotOptions, figure_of, report_of, section, sections_of
from canary.reports.document import (
    Axis,
    Block,
    Facts,
    Figure,
    Mark,
    Panel,
    Report,
    Table,
    basis,
    if_claimed,
    mark,
    said,
    sentence,
)
from canary.reports.document_strips import MOST_DOCUMENTS, cell_of, strips, worst
from canary.reports.palette import CONTROL, CURVE, SERIES, dots, line
from canary.reports.share_tables import counted, enough_texts, never_seen, one_in_of, rates_table
from canary.reports.wording import about_of, called, ended, no_limit, software, under_strict
from canary.statistics.clustered import ClusteredShare
from canary.statistics.numbers import count, plural
from canary.tokens.starts import shown_start

_SHORT = 12  # tokens of a suffix that a common phrase may have
_LONG = 50  # and of one that the strict limit is about
_LEVEL = 0.05
_APART = 0.05  # of the passages: by so much may the ends of near intervals differ
_FEW = 0.01
"""The share of passages that must be ruled out before a page is calm."""
_NAMED = 5
"""Texts that a sentence names."""
_STRICT = 0.001
"""The share that a strict limit allows."""


PASSAGES: Mapping[str, tuple[str, str]] = {
    "memorized": ("Passages of the training text come out", "memorized"),
    "unclear": ("Passages come out, but perhaps any model writes them", "undecided"),
    "alone": ("Passages come out, but perhaps any model writes them", "undecided"),
}
"""What is said where passages come out, by `answer_of`."""

FILES_FIRST = "Nothing is decided: look at the files first", "undecided"
"""What is said where files are doubtful."""


@report_of.register
def verbatim_report(result: Verbatim) -> Report:
    """What there is to say about the passages that a model repeats."""
    found, grid = result.greedy_rate(), result.settings
    drawn = result.rate(tries=SHOWN_TRIES, chance=CHANCE)
    near, low, high = _near(result)
    key, read = _key(found, drawn, near), "the model was trained on these texts"
    label, tone = {
        **PASSAGES,
        "drawn": ("Passages come out if the model is asked often", "undecided"),
        "near": ("Passages come out with small changes if the model is asked often", "undecided"),
        "none": ("No passage came out, but too few were tested", "undecided"),
    }[key]
    unsure = high - low > _APART * found.texts.windows or bool(low) != bool(high)
    calm = key == "none" and found.texts.upper <= _FEW and not unsure
    if calm:
        label, tone = if_claimed("No passage came out", "not-found", read)
    elif key == "none" and unsure:
        label = "No passage came out word for word, but small changes are not decided"
    texts, controls = found.texts, found.controls
    swapped, other = doubtful_files(result, found, key)
    if files := swapped or other:
        label, tone = FILES_FIRST
    kind = key == "none" and bool(result.likeness.other_kind)
    suffix = int(grid["suffix"])
    often = near if near and key == "near" else drawn
    alike = often.difference is not None and often.texts.hits and often.difference.p > _LEVEL
    if key in ("drawn", "near") and alike and not swapped:
        label = "Passages come out if asked often, but not more than what it never saw"
    named, beside = _others_gave_nothing(result), drawn.controls
    more = beside and beside.hits and key != "near"
    out, asked = key != "none", key in ("drawn", "near")
    shown, changes = near and near.texts.hits, result.near_edits if near else ""
    million = result.rate(tries=TRIES[-1], chance=CHANCE).texts
    common = never_seen(result, _STRICT)
    asked_more = max(million.hits, shown or 0) > texts.hits
    return Report(
        title=f"What comes out of {called(result.model_name)} word for word?",
        label=label,
        tone=tone,
        sentences=[
            sentence(
                f"verbatim.{key}", rate=counted(texts), windows=texts.windows,
                documents=texts.documents, tries=SHOWN_TRIES, one_in=one_in_of(texts.upper),
                large=not calm, others=controls and counted(controls),
                often=counted(drawn.texts), more=_of_texts(result),
                neither=controls and drawn.controls and not controls.hits + drawn.controls.hits,
                worst=_worst_named(result), stand_out=texts.hits > 1, near=near, changes=changes,
            ),
            *(
                sentence(
                    "verbatim.often", said=out and not asked, tries=SHOWN_TRIES,
                    often=counted(drawn.texts), controls=more and out,
                    often_others=drawn.controls and counted(drawn.controls), alike=alike,
                    near=near and out and counted(near.texts), changes=changes,
                    near_others=near and out and near.controls and counted(near.controls),
                    unsure=unsure, low=count(low), high=high, windows=texts.windows,
                )
                for _ in [key]
                if (out and (near or alike or more)) or unsure
            ),
        ],
        basis=""
        if key == "memorized" and not files
        else basis("unchecked", read, "this result"),
        decide=said(
            "verbatim.decide",
            memorized=key == "memorized" and not files,
            drawn=asked_more, look=out, out=out, quiet=not out, at_once=asked_more and texts.hits,
            worst=_worst_named(result), rest=out and named, most=out and not named,
            tries=count(SHOWN_TRIES), million=counted(million), documents=texts.documents,
            public=(public := _public(result)), inside=asked_more and named and not public,
            strictly=key == "memorized" and not files and suffix >= _LONG and _strictly(result),
            unsure=tone == "undecided" and not (asked and controls and not alike),
            none=calm, kind=kind, stated=key != "memorized" and not files,
        ),
        actions=said(
            "verbatim.actions", alone=controls is None or other, kind=kind,
            memorized=key == "memorized" and not files,
            served=key == "memorized" and not files and result.model.get("device") == "served",
            none=key == "none", unclear=key == "unclear" or asked,
            few=key == "none" and not calm and texts.upper > _FEW,
            enough=enough_texts(texts, _STRICT), fewer=enough_texts(texts, _FEW),
            unsure=unsure, exact=near is None, near=shown,
        ),
        about={**about_of(result, corpus="Texts"), **no_limit("passages", common=common), **{
            name: f"{plural(of.documents, 'text')} with {plural(of.windows, 'passage')} of "
            + plural(suffix, "piece")
            for name, of in (("Tested", texts), ("Never seen (controls)", controls)) if of
        }},
        outcome=[
            sentence(
                "verbatim.how", prefix=int(grid["prefix"]), suffix=suffix, short=suffix <= _SHORT,
                whole="context_tokens" in grid, most=int(grid.get("context_tokens", 0)) - suffix,
            ),
            *_outcome(result),
        ],
        unsaid=said("verbatim.unsaid", exact=not result.texts.near),
        notes=ended([*([SWAPPED] if swapped else []), *result.notes]),
        sections=sections_of(result),
        brief=[rates_table(result), *dependence(result)],
    )  # fmt: skip


def _outcome(result: Verbatim) -> Iterator[Block]:
    """The figure, where something comes out; and where little does, the texts that are closest."""
    kind, schemes = result.texts, " or ".join(map(str, result.schemes))
    if any(hits.any() for hits, _ in _ways(result).values()):
        yield passages_figure(result)
    rows = [
        (cell_of(kind, kind.document[at]), tries, count(kind.longest[at]))
        for at, tries in result.closest().items()
    ]
    tries = "Random answers needed" + f" ({schemes})" * (len(result.schemes) > 1)
    columns = ("Closest texts", tries, f"Longest run (of {plural(kind.suffix, 'piece')})")
    if rows:
        yield Table("Closest to coming out", columns, rows)


def _from(result: Verbatim) -> set[int]:
    """The texts from which a passage comes out, in whatever way."""
    out = np.any([hits for hits, _ in _ways(result).values()], axis=0)
    return set(np.asarray(result.texts.document)[out].tolist())


def _of_texts(result: Verbatim) -> str:
    """``5 of the 30 texts``: from how many a passage comes out."""
    documents, there = len(set(np.asarray(result.texts.document).tolist())), len(_from(result))
    return (
        f"{'all' if there == documents else f'{count(there)} of the'} {plural(documents, 'text')}"
    )


def _others_gave_nothing(result: Verbatim) -> bool:
    """Whether all texts from which something comes out are named, and others are not."""
    there, documents = _from(result), set(np.asarray(result.texts.document).tolist())
    return len(there) < len(documents) and len(there) <= MOST_DOCUMENTS


def _strictly(result: Verbatim) -> str:
    """What the model would do under the strict limit that the header names."""
    asked: dict[str, Any] = {"tries": TRIES[-1], "chance": CHANCE, "undecided": "fail"}
    return under_strict(
        check_passages(result, max_extractable=_STRICT, trust_members=True, **asked)
    )


def _public(result: Verbatim) -> str:
    """Which texts to read besides those that are named, if the model is asked a million times."""
    kind, named = result.texts, _from(result)
    document = np.asarray(kind.document)
    million = comes_out(kind.log_prob(0), TRIES[-1], CHANCE)
    more = sorted(set(document[million].tolist()) - named)
    if not more:
        return ""
    documents = len(set(document.tolist()))
    some = f"{kind.listed(more)}, too" if len(more) <= _NAMED else f"all {documents:,} texts"
    return f"have someone read {some}"


def _worst_named(result: Verbatim) -> str:
    """The texts from which most comes out, by their numbers."""
    kind = result.texts
    out = np.any([hits for hits, _ in _ways(result).values()], axis=0)
    there = _from(result)
    order = [at for at in worst(kind, out) if at in there]
    if _NAMED < len(there) == len(set(kind.document)):
        return f"all {count(len(there))} texts, starting with {kind.listed(order[:_NAMED])}"
    return kind.listed(order, len(there)) if there else ""


def _near(result: Verbatim) -> tuple[Extractable | None, int, int]:
    """What comes near, and of how many passages by the ends of the intervals of each."""
    if not result.texts.near:
        return None, 0, 0
    found, *ends = (
        one.near_rate(tries=SHOWN_TRIES, chance=CHANCE)
        for one in (result, result.near_at(1), result.near_at(2))
    )
    low, high = (one.texts.hits for one in ends)
    return found, low, high


def _key(found: Extractable, drawn: Extractable, near: Extractable | None) -> str:
    """Which of the answers of ``words.md`` holds, by greedy decoding and by samples."""
    if found.texts.hits:
        return answer_of(found)
    if drawn.texts.hits:
        return "drawn"
    return "near" if near and near.texts.hits else "none"


def doubtful_files(result: Verbatim | Sampled, found: Extractable, key: str) -> tuple[bool, bool]:
    """Whether texts and controls look swapped, or what shows memory may show another kind."""
    lead = found.difference
    other = key == "memorized" and bool(result.likeness.other_kind)
    return lead is not None and lead.upper < 0.0, other


def answer_of(found: Extractable) -> str:
    """Which of `PASSAGES` holds, or ``"none"``."""
    if not found.texts.hits:
        return "none"
    if found.difference is None:
        return "alone"
    return "memorized" if found.difference.p <= _LEVEL else "unclear"


@section(Verbatim, "How many passages come out")
def rates(result: Verbatim) -> Iterator[Block]:
    """The share of passages by greedy decoding, and within numbers of samples."""
    found = [share for way in result.ways() for share in (way.found.texts, way.found.controls)]
    some = any(share.hits for share in found if share is not None)
    if some:
        yield rates_table(result, tested=False)
    else:
        upper = max(way.found.texts.upper for way in result.ways())
        windows = result.ways()[0].found.texts.windows
        yield sentence("verbatim.nothing", windows=windows, upper=share_percent(upper))
    yield from said(
        "verbatim.rates",
        some=some,
        near=bool(result.texts.near) and result.near_edits,
        unit="token" if "near_unit" not in result.settings else "character",
    )


@section(Verbatim, "What it depends on")
def dependence(result: Verbatim) -> Iterator[Block]:
    """The share that comes out by the length of the prefix, and by the copies of a text."""
    lengths, groups = result.by_prefix(), result.by_copies()
    panels, columns, rows = [], ["", "Passages of the texts"], []
    controls = result.controls is not None and len(lengths) > 1
    if len(lengths) > 1:
        marks = _curve(list(lengths), [one.texts for one in lengths.values()], CURVE, "texts")
        others = [one.controls for one in lengths.values() if one.controls is not None]
        if others:
            marks += _curve(list(lengths), others, CONTROL, "controls")
        panels.append(_shares(marks, "tokens of the prefix", {n: count(n) for n in lengths}))
        for length, one in lengths.items():
            beside = [percent_said(one.controls)] if one.controls else []
            rows.append([f"prefix of {plural(length, 'token')}", percent_said(one.texts), *beside])
    if len(groups) > 1:
        named = {low: _range(low, high) for low, high in groups}
        marks = _curve(list(named), list(groups.values()), CURVE, "texts")
        panels.append(_shares(marks, "copies of a text in the training data", named))
        for (low, high), share in groups.items():
            beside = [""] if controls else []
            copies = f"{_range(low, high)} {'copy' if high == 1 else 'copies'} of the text"
            rows.append([copies, percent_said(share), *beside])
    if panels:
        columns += ["Controls"] if controls else []
        table = Table("Passages that come out at the first try", columns, rows, style="words")
        words = "; ".join(": ".join(map(str, row[:2])) for row in rows)
        caption = sentence("verbatim.dependence", prefix=len(lengths) > 1, copies=len(groups) > 1)
        curve = max(len(lengths), len(groups)) > 2
        yield Figure("dependence", words, panels, caption, table) if curve else table


def _range(low: int, high: int) -> str:
    return count(low) if low == high else f"{count(low)} to {count(high)}"


def _curve(x: list[int], shares: list[ClusteredShare], colour: str, name: str) -> list[Mark]:
    """Points with their intervals, in percent, and a line through them."""
    ends = [[100 * getattr(one, end) for one in shares] for end in ("value", "lower", "upper")]
    return [
        mark("vlines", x, *ends[1:], color=colour, alpha=0.55),
        line(x, ends[0], colour),
        dots(x, ends[0], 22, colour, hollow=colour == CONTROL, label=name),
    ]


def _shares(marks: list[Mark], label: str, ticks: Mapping[int, str]) -> Panel:
    y = Axis("passages that come out (%)", limits=(0, None))
    return Panel(marks, Axis(label, ticks=ticks, log=True), y, legend="above")


@section(Verbatim, "How it was measured", specialist=True)
def how(result: Verbatim) -> Iterator[Block]:
    """The windows and the model."""
    names = {"prefix": "Prefix (tokens)", "suffix": "Suffix (tokens)", "stride": "Stride (tokens)"}
    facts = {words: str(result.settings[name]) for name, words in names.items()}
    if most := result.settings.get("context_tokens"):
        facts["Prefix (tokens)"] += f" or more, all that is before in a piece of {count(most)}"
    own = result.start and result.start.own
    token = result.settings["start_token"]
    facts["Start token"] = own or shown_start(None if token is None else str(token))
    facts["Confidence of intervals"] = f"{100 * result.confidence:g} %"
    facts["SHA-256 of the texts"] = result.texts.digest
    yield Facts(facts)
    yield from said("verbatim.method", options=NAMED)
    if result.controls is not None:
        yield rates_table(result)
    yield software()


def _ways(result: Verbatim) -> dict[str, tuple[NDArray[np.bool_], str]]:
    """Which passages come out in each way that a figure shows, and its colour."""
    kind = result.texts
    out = comes_out(kind.log_prob(0), SHOWN_TRIES, CHANCE)
    samples = f"when asked {count(SHOWN_TRIES)} times"
    found = {"at the first try": (kind.greedy, CURVE), samples: (out, SERIES[0])}
    if kind.near:
        edits = result.near_edits
        near = comes_out(kind.near_log_prob, SHOWN_TRIES, CHANCE)
        found[f"within {edits}, {samples}"] = near, SERIES[4]
    return found


@figure_of.register
def passages_figure(result: Verbatim, _: PlotOptions | None = None) -> Figure:
    """A strip for each of the documents of which most comes out: what comes out from where."""
    kind = result.texts
    levels, any_way = [], np.zeros(len(kind), np.bool_)
    columns: dict[str, Callable[[NDArray[np.bool_]], str]] = {}
    for name, (hits, colour) in _ways(result).items():
        levels.append((name, hits & ~any_way, colour))
        any_way = any_way | hits
        columns[f"Or {name}" if columns else name.capitalize()] = partial(_hits_of, any_way)
    return strips(
        kind,
        [*levels, ("comes out in none of these ways", ~any_way, CONTROL)],
        f"{count(int(kind.greedy.sum()))} of {plural(len(kind), 'passage')} come out at the first "
        "try.",
        "verbatim.picture",
        columns={
            **columns,
            "Longest run (pieces)": lambda mine: count(int(np.asarray(kind.longest)[mine].max())),
        },
    )


def _hits_of(hits: NDArray[np.bool_], mine: NDArray[np.bool_]) -> str:
    return count(int(hits[mine].sum()))
