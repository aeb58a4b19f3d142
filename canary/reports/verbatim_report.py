"""The report of which passages of texts a model repeats, and its figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from canary.models.decoding import NAMED
from canary.passages.extractable import Extractable
from canary.passages.result import SWAPPED, Verbatim
from canary.passages.tries import tries_for
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
    mark,
    said,
    sentence,
)
from canary.reports.document_strips import strips, worst
from canary.reports.palette import CONTROL, CURVE, SERIES, dots, line
from canary.reports.wording import about_of, called, ended, software
from canary.statistics.clustered import ClusteredShare
from canary.statistics.numbers import count, plural, probability

_CHANCE = 0.5
_TRIES = (1, 100, 10_000, 1_000_000)
_SHOWN_TRIES = 1_000  # of the figure and of the documents
_SHORT = 12  # tokens of a suffix that a common phrase may have
_NAMED = 5
_LEVEL = 0.05
_FEW = 0.01
"""The share of passages that must be ruled out before a page is calm."""


PASSAGES: Mapping[str, tuple[str, str]] = {
    "memorized": ("Passages of the training text come out", "memorized"),
    "unclear": ("Passages come out, but perhaps any model writes them", "undecided"),
    "alone": ("Passages come out, but perhaps any model writes them", "undecided"),
}
"""What is said where passages come out, by `answer_of`."""


@report_of.register
def verbatim_report(result: Verbatim) -> Report:
    """What there is to say about the passages that a model repeats."""
    found, grid = result.greedy_rate(), result.settings
    characters = "near_unit" in grid
    drawn = result.rate(tries=_SHOWN_TRIES, chance=_CHANCE)
    near = result.near_rate(tries=_SHOWN_TRIES, chance=_CHANCE) if result.texts.near else None
    key = _key(found, drawn)
    label, tone = {
        **PASSAGES,
        "drawn": ("Passages come out if the model is asked often", "undecided"),
        "none": ("No passage came out, but too few were tested", "undecided"),
    }[key]
    calm = key == "none" and found.texts.upper <= _FEW
    if calm:
        label, tone = "No passage came out", "not-found"
    texts, controls, lead = found.texts, found.controls, found.difference
    swapped = lead is not None and lead.upper < 0.0
    other = key == "memorized" and bool(result.likeness.other_kind)
    files = swapped or other
    if files:
        label, tone = "Nothing is decided: look at the files first", "undecided"
    suffix = int(grid["suffix"])
    alike = drawn.difference is not None and drawn.texts.hits and drawn.difference.p > _LEVEL
    if key == "drawn" and alike and not swapped:
        label = "Passages come out if asked often, but not more than what it never saw"
    return Report(
        title=f"What comes out of {called(result.model_name)} word for word?",
        label=label,
        tone=tone,
        sentences=[
            sentence(
                f"verbatim.{key}", rate=_share(texts), windows=texts.windows,
                documents=texts.documents, tries=_SHOWN_TRIES, one_in=_one_in(texts.upper),
                large=not calm, others=controls and _share(controls), often=_share(drawn.texts),
                worst=_worst_named(result), stand_out=texts.hits > 1,
            ),
            *(
                sentence(
                    "verbatim.often", said=key != "drawn", tries=_SHOWN_TRIES,
                    often=_share(drawn.texts), controls=controls,
                    often_others=drawn.controls and _share(drawn.controls), alike=alike,
                    near=near and not characters and _share(near.texts),
                    near_text=near and characters and _share(near.texts),
                    edits=grid.get("near"),
                )
                for _ in [key]
                if key != "none" and (key != "drawn" or controls or near)
            ),
        ],
        basis=""
        if key == "memorized" and not files
        else basis("claimed", "the model was trained on these texts", "this result"),
        decide=said(
            "verbatim.decide",
            memorized=key == "memorized" and not files,
            drawn=drawn.texts.hits > texts.hits,
            look=bool(drawn.texts.hits or texts.hits),
            out=bool(drawn.texts.hits or texts.hits),
            quiet=not (drawn.texts.hits or texts.hits),
            worst=_worst_named(result),
            unsure=tone == "undecided" and not (key == "drawn" and controls and not alike),
            none=calm,
        ),
        actions=said(
            "verbatim.actions", alone=controls is None or other,
            memorized=key == "memorized" and not files,
            none=key == "none", unclear=key in ("unclear", "drawn"),
            few=key == "none" and not calm,
            enough=count(math.ceil(math.log((1 - texts.confidence) / 2) / math.log(1 - _FEW))),
        ),
        about={**about_of(result, corpus="Texts"), **{
            name: f"{plural(of.documents, 'text')} with {plural(of.windows, 'passage')}"
            for name, of in (("Tested", texts), ("Never seen (controls)", controls)) if of
        }},
        outcome=[
            sentence(
                "verbatim.how", prefix=int(grid["prefix"]), suffix=suffix, short=suffix <= _SHORT,
                whole="context_tokens" in grid, most=int(grid.get("context_tokens", 0)) - suffix,
            ),
            _outcome(result),
        ],
        unsaid=said("verbatim.unsaid", exact=not result.texts.near),
        notes=ended([*([SWAPPED] if swapped else []), *result.notes]),
        sections=sections_of(result),
        brief=[_rates(result), *dependence(result)],
    )  # fmt: skip


def _outcome(result: Verbatim) -> Block:
    """The figure; where nothing comes out of any text, a line."""
    if any(hits.any() for hits, _ in _ways(result).values()):
        return passages_figure(result)
    return sentence(
        "verbatim.nowhere", documents=len(set(result.texts.document)), tries=_SHOWN_TRIES,
        longest=max(result.texts.longest), suffix=result.texts.suffix,
        scheme=str(result.schemes[0]),
    )  # fmt: skip


def _share(share: ClusteredShare) -> str:
    """``2.4 %``, ``none``; of very few passages their numbers."""
    return f"{_percent(share.value)} %" if share.hits else "none"


def _one_in(share: float) -> str:
    """``up to 1 in 8``, of a bound."""
    return f"up to 1 in {count(math.floor(1 / share))}" if share <= _CHANCE else "most"


def _worst_named(result: Verbatim) -> str:
    """The texts from which most comes out, by their numbers."""
    kind = result.texts
    out = kind.greedy | (tries_for(kind.log_prob(0), _CHANCE) <= _SHOWN_TRIES)
    there = set(np.asarray(kind.document)[out].tolist())
    named = [count(at + 1) for at in worst(kind, out) if at in there][:_NAMED]
    if _NAMED < len(there) == len(set(kind.document)):
        return (
            f"all {count(len(there))} texts, starting with {', '.join(named[:-1])} and {named[-1]}"
        )
    more = f" and {count(len(there) - _NAMED)} more" if len(there) > _NAMED else ""
    return f"text{'s' if len(there) > 1 else ''} {', '.join(named)}{more}"


def _key(found: Extractable, drawn: Extractable) -> str:
    """Which of the answers of ``words.md`` holds, by greedy decoding and by samples."""
    return "drawn" if drawn.texts.hits and not found.texts.hits else answer_of(found)


def answer_of(found: Extractable) -> str:
    """Which of `PASSAGES` holds, or ``"none"``."""
    if not found.texts.hits:
        return "none"
    if found.difference is None:
        return "alone"
    return "memorized" if found.difference.p <= _LEVEL else "unclear"


def share_said(share: ClusteredShare) -> str:
    """A share with its interval; of none its upper bound."""
    if not share.hits:
        return f"0 % (at most {_percent(share.upper)} %)"
    ends = f"{_percent(share.lower)} to {_percent(share.upper)} %"
    return f"{_percent(share.value)} % ({ends})"


def _percent(share: float) -> str:
    return "100" if share >= 0.995 else f"{100 * share:.2g}"


@section(Verbatim, "How many passages come out")
def rates(result: Verbatim) -> Iterator[Block]:
    """The share of passages by greedy decoding, and within numbers of samples."""
    yield _rates(result, tested=False)
    characters = "near_unit" in result.settings
    near = bool(result.texts.near) and not characters
    yield from said("verbatim.rates", near=near, near_text=characters)


def _rates(result: Verbatim, *, tested: bool = True) -> Table:
    found = {"first try (greedy decoding)": result.greedy_rate()}
    for scheme in result.schemes:
        for tries in _TRIES:
            named = f"asked {plural(tries, 'time')} ({scheme})"
            found[named] = result.rate(scheme, tries=tries, chance=_CHANCE)
    for tries in _TRIES if result.texts.near else ():
        edits = result.near_edits
        named = f"asked {plural(tries, 'time')} ({result.schemes[0]}), within {edits}"
        found[named] = result.near_rate(tries=tries, chance=_CHANCE)
    return shares_table("Share of passages that come out", "How", found, tested=tested)


def shares_table(
    caption: str, first: str, found: Mapping[str, Extractable], *, tested: bool = True
) -> Table:
    """Shares by name, with those of controls if they are there, and whether they were `tested`."""
    columns, rows = [first, "Texts"], []
    for name, one in found.items():
        row = [name, share_said(one.texts)]
        if one.controls is not None and one.difference is not None:
            row += [share_said(one.controls), *([probability(one.difference.p)] if tested else [])]
        rows.append(row)
    others = ["Never seen (controls)", "p of the difference"]
    return Table(caption, [*columns, *others][: len(rows[0])], rows, style="words")


@section(Verbatim, "What it depends on")
def dependence(result: Verbatim) -> Iterator[Block]:
    """The share that comes out by the length of the prefix, and by the copies of a text."""
    lengths, groups = result.by_prefix(), result.by_copies()
    panels, columns, rows = [], ["", "Texts"], []
    controls = result.controls is not None and len(lengths) > 1
    if len(lengths) > 1:
        marks = _curve(list(lengths), [one.texts for one in lengths.values()], CURVE, "texts")
        others = [one.controls for one in lengths.values() if one.controls is not None]
        if others:
            marks += _curve(list(lengths), others, CONTROL, "controls")
        panels.append(_shares(marks, "tokens of the prefix", {n: count(n) for n in lengths}))
        for length, one in lengths.items():
            beside = [share_said(one.controls)] if one.controls else []
            rows.append([f"prefix of {plural(length, 'token')}", share_said(one.texts), *beside])
    if len(groups) > 1:
        named = {low: _range(low, high) for low, high in groups}
        marks = _curve(list(named), list(groups.values()), CURVE, "texts")
        panels.append(_shares(marks, "copies of a text in the training data", named))
        for (low, high), share in groups.items():
            beside = [""] if controls else []
            copies = f"{_range(low, high)} {'copy' if high == 1 else 'copies'} of the text"
            rows.append([copies, share_said(share), *beside])
    if panels:
        columns += ["Controls"] if controls else []
        table = Table("Share that greedy decoding gives", columns, rows, style="words")
        words = "; ".join(": ".join(map(str, row[:2])) for row in rows)
        caption = sentence("verbatim.dependence")
        yield Figure("dependence", words, panels, caption, table)


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
    facts["Start token"] = own or str(result.settings["start_token"] or "none")
    facts["Confidence of intervals"] = f"{100 * result.confidence:g} %"
    facts["SHA-256 of the texts"] = result.texts.digest
    yield Facts(facts)
    yield from said("verbatim.method", options=NAMED)
    if result.controls is not None:
        yield _rates(result)
    yield software()


def _ways(result: Verbatim) -> dict[str, tuple[NDArray[np.bool_], str]]:
    """Which passages come out in each way that a figure shows, and its colour."""
    kind = result.texts
    out = tries_for(kind.log_prob(0), _CHANCE) <= _SHOWN_TRIES
    samples = f"when asked {count(_SHOWN_TRIES)} times"
    found = {"at the first try": (kind.greedy, CURVE), samples: (out, SERIES[1])}
    if kind.near:
        edits = result.near_edits
        near = tries_for(kind.near_log_prob, _CHANCE) <= _SHOWN_TRIES
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
        [*levels, ("does not come out", ~any_way, CONTROL)],
        f"{count(int(kind.greedy.sum()))} of {plural(len(kind), 'passage')} come out at the first "
        "try.",
        "verbatim.picture",
        columns={
            **columns,
            "Longest run (tokens)": lambda mine: count(int(np.asarray(kind.longest)[mine].max())),
        },
    )


def _hits_of(hits: NDArray[np.bool_], mine: NDArray[np.bool_]) -> str:
    return count(int(hits[mine].sum()))
