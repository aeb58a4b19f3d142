"""The report of what came out of a server that only writes text, and its figure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from canary.passages.extractable import lowest_limit, percent_said, share_percent
from canary.passages.result import SWAPPED
from canary.passages.sampled import SURE, Sampled
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
    words_of,
)
from canary.reports.document_strips import strips
from canary.reports.palette import CONTROL, CURVE, dots
from canary.reports.share_tables import shares_table
from canary.reports.verbatim_report import (
    FILES_FIRST,
    PASSAGES,
    answer_of,
    doubtful_files,
)
from canary.reports.wording import NOT_STATED, about_of, called, ended, software
from canary.statistics.numbers import copies as copied
from canary.statistics.numbers import count, duration, plural, probability


@report_of.register
def samples_report(result: Sampled) -> Report:
    """What there is to say about the secrets or passages that came out."""
    found, key, others = result.came_out(), _key(result), count(result.unplanted)
    label, tone = {
        "planted": ("Planted secrets come out", "memorized"),
        "luck": ("Planted secrets came out: a warning, and no proof", "undecided"),
        "natural": ("Secrets came out: a warning, and no proof", "undecided"),
        "secret": ("No planted secret came out", "undecided"),
        "other": (
            f"None of the planted secrets came out, but {others} others of this form did",
            "undecided",
        ),
        **PASSAGES,
        "none": ("No passage came out", "undecided"),
    }[key]
    texts, controls = found.texts, found.controls
    natural, chat = result.natural, bool(result.settings["chat"])
    if natural:
        label = label.replace("planted ", "")
    swapped, other = doubtful_files(result, found, key)
    if files := swapped or other:
        label, tone = FILES_FIRST
    about = about_of(result, corpus="Training data" if result.planted else "Texts")
    if parts := _parts_of(int(result.model.get("requests", 0)), result):
        about["Sent"] += f": {parts}"
    about["Version of the weights"] = NOT_STATED
    about["Limit"] = "none was set"
    about["Server"] = str(result.model["server"])
    return Report(
        title=f"What comes out of {called(result.model_name)} word for word?",
        label=label,
        tone=tone,
        sentences=[
            sentence(
                f"samples.{key}", hits=texts.hits, windows=texts.windows,
                secrets=plural(texts.windows, "secret" if natural else "planted secret"),
                documents=texts.documents, samples=result.samples, asked=result.asked,
                upper=share_percent(result.undetected), ends=percent_said(texts),
                others=controls and f"{count(controls.hits)} of {count(controls.windows)}",
                greedy=result.greedy,
                p=probability(result.chance.p_value) if result.chance else "",
                unplanted=others, least=result.least_often,
                rare=key == "luck" and result.chance and math.ceil(1_000 * result.chance.p_value),
            ),
            *(words_of(text) for text in said("extraction.meaning", natural=key == "natural")),
            *_by_copies_said(result),
        ],
        basis=basis(
            "shown" if key in ("planted", "memorized") and not files else "unchecked",
            f"the model was trained on these {'secrets' if result.planted else 'texts'}",
            "this result",
        ),
        decide=[*(said("extraction.odd") if key == "other" else ()),
                *said("extraction.decide", natural=key == "natural"), *said(
            "samples.decide", within=not texts.hits and key != "other", came=texts.hits,
            none=not texts.hits, calm=not texts.hits and key != "other",
            out=bool(texts.hits) and key not in ("luck", "natural"),
            luck=key == "luck", files=not texts.hits or key == "luck",
            stated=key not in ("planted", "memorized", "natural") and not files,
            kind="secrets" if result.planted else "texts",
            planted=key == "planted", passages=texts.hits and not result.planted,
            unclear=key in ("alone", "unclear") or files,
            unsure=key in ("alone", "unclear", "luck") or files,
        )],
        actions=[*(said("samples.confirm") if key == "other" else ()),
                 *said("extraction.actions", natural=key == "natural"), *said(
            "samples.actions", out=key in ("planted", "memorized") and not files,
            none=not texts.hits, passages=key == "none", alone=key == "alone" or other,
            chat=chat and not texts.hits,
            unclear=key == "unclear", luck=key == "luck",
            drawn=not texts.hits and not result.greedy, more=count(4 * result.samples),
            greedy=not texts.hits and result.greedy,
            requests=plural(200 * (result.prompts or texts.windows), "request"),
            secrets=key == "secret" and not natural and plural(texts.windows, "secret"),
            limits=lowest_limit(texts) if key == "secret" else "",
        )],
        about=about,
        outcome=[samples_figure(result)] if texts.hits or (controls and controls.hits) else [],
        unsaid=said(
            "samples.unsaid", chat=chat, out=bool(texts.hits), greedy=texts.hits and result.greedy
        ),
        notes=ended([*([SWAPPED] if swapped else []), *result.notes]),
        sections=sections_of(result),
        brief=[*_by_form(result), *([] if result.planted else [_rates(result)]), _cost(result)],
    )  # fmt: skip


def _key(result: Sampled) -> str:
    """Which of the answers of ``words.md`` holds."""
    found = result.came_out()
    if result.planted:
        if not found.texts.hits:
            return "other" if result.unplanted else "secret"
        if result.natural:
            return "natural"
        return "planted" if result.chance and result.chance.p_value <= SURE else "luck"
    return answer_of(found)


@section(Sampled, "How much came out")
def shares(result: Sampled) -> Iterator[Block]:
    """Of secrets by format; of texts word for word and nearly."""
    yield from _by_form(result)
    if not result.planted:
        yield _rates(result)
        yield from said("samples.rates")


@section(Sampled, "Each secret", specialist=True)
def secret_by_secret(result: Sampled) -> Iterator[Block]:
    """How often each planted secret came out."""
    if result.planted:
        yield _secret_by_secret(result)


def _groups(result: Sampled) -> Iterator[tuple[int, list[int]]]:
    """Numbers of copies, the controls' first, and how often each secret with them came out."""
    for kind in filter(None, (result.controls, result.texts)):
        for copies in sorted(set(kind.copies)):
            yield copies, [n for n, of in zip(kind.hits, kind.copies, strict=True) if of == copies]


def _counts(result: Sampled) -> str:
    """How many secrets came out, by copies."""
    return ", ".join(
        f"{count(sum(hit > 0 for hit in hits))} of {count(len(hits))} that "
        + (f"appeared {copied(copies)}" if copies else "were never planted")
        for copies, hits in sorted(_groups(result), reverse=True)
    )


def _by_copies_said(result: Sampled) -> Iterator[str]:
    if result.planted and result.came_out().texts.hits:
        forms = [f"{count(out)} of {count(of)} of {form}"
                 for form, (out, of) in result.by_form().items()]  # fmt: skip
        yield sentence("samples.copies", counts=_counts(result), forms=", ".join(forms))


def _by_copies(result: Sampled) -> Table:
    rows = []
    for copies, hits in _groups(result):
        name = "0 (never planted)" if copies == 0 else count(copies)
        found = count(sum(hit > 0 for hit in hits))
        rows.append([name, count(len(hits)), found, _ends(result, max(hits))])
    columns = ["Copies", "Secrets", "Came out", "The most frequent of them"]
    return Table("Secrets that came out", columns, rows)


def _by_form(result: Sampled) -> Iterator[Table]:
    """Of secrets of several formats, which of them came out."""
    if found := result.by_form():
        rows = [(form, count(of), count(out)) for form, (out, of) in found.items()]
        yield Table("Secrets that came out, by format", ("Format", "Secrets", "Came out"), rows)


def _cost(result: Sampled) -> str:
    """What it took: requests, and the time of the last run."""
    sent = int(result.model.get("requests", result.samples * result.prompts))
    words = f" ({parts})" if (parts := _parts_of(sent, result)) else ""
    time = f", {duration(result.seconds)} in the last run" if result.seconds else ""
    return f"Cost: {plural(sent, 'request')}{words}{time}."


def _parts_of(sent: int, result: Sampled) -> str:
    """What the requests were for, where some were not for answers."""
    asked = result.samples * result.prompts
    rest = f"{count(sent - asked)} to check the server or to ask again"
    return f"{count(asked)} for the answers and {rest}" if sent > asked > 0 else ""


def _secret_by_secret(result: Sampled) -> Table:
    rows = [
        [name, count(copies), count(hits), _ends(result, hits)]
        for kind in (result.texts, result.controls)
        if kind is not None
        for name, copies, hits in zip(kind.names, kind.copies, kind.hits, strict=True)
    ]
    return Table("Secrets", ["Secret", "Copies", "Samples with it", "Of all samples"], rows)


def _ends(result: Sampled, hits: int) -> str:
    low, high = map(share_percent, result.interval(hits))
    share = share_percent(hits / result.samples)
    return low if low == high else f"{share} ({low} to {high})"


def _rates(result: Sampled) -> Table:
    drawn = plural(result.samples, "sample")
    caption = f"What comes out within {drawn}"
    return shares_table(caption, "Came out", result.ways())


@section(Sampled, "How it was measured", specialist=True)
def how(result: Sampled) -> Iterator[Block]:
    """The settings and the server."""
    given = result.settings
    facts = {
        "Samples after each prefix": count(result.samples),
        **({"Prefixes": count(result.prompts)} if result.prompts else {}),
        "Cost": _cost(result).removeprefix("Cost: ").removesuffix("."),
        "Temperature": f"{given['temperature']:g}",
        "Seed": str(given["seed"]),
        "Longest answer (tokens)": str(given["max_tokens"] or "as needed"),
        "Confidence of intervals": f"{100 * result.confidence:g} %",
        "SHA-256 of what was looked for": result.texts.digest,
    }
    if result.chance:
        facts["p of the secrets"] = probability(result.chance.p_value)
    if answered := result.model.get("answered as"):
        facts["Name of the model on the server"] = str(answered)
    if not result.planted:
        facts |= {"Prefix (words)": str(given["prefix"]), "Suffix (words)": str(given["suffix"])}
    yield Facts(facts)
    yield from said("samples.method")
    yield software()


@figure_of.register
def samples_figure(result: Sampled, _: PlotOptions | None = None) -> Figure:
    """How often each secret came out, by copies; or where in the texts passages did."""
    if result.planted:
        return _secrets(result)
    kind = result.texts
    whole, near = np.asarray(kind.hits) > 0, np.asarray(kind.near) > 0
    hits = int(whole.sum())
    words = f"{count(hits)} of {plural(len(kind), 'passage')} came out word for word."
    levels = (
        ("word for word", whole, CURVE),
        ("nearly", near & ~whole, CONTROL),
        ("neither", ~near, CONTROL),
    )
    return strips(kind, levels, words, "samples.picture", unit="word")


def _secrets(result: Sampled) -> Figure:
    kinds = [kind for kind in (result.controls, result.texts) if kind is not None]
    groups = sorted({copies for kind in kinds for copies in kind.copies})
    unseen = 100 * result.undetected
    most_said = "" if result.greedy else f", so at most {unseen:.2g} %"
    marks: list[Mark] = [
        mark("axhline", unseen, color=CONTROL, linestyle=":", linewidth=1,
             label=f"hollow points: not seen{most_said}")
    ]  # fmt: skip
    for kind in kinds:
        for place, copies in enumerate(groups):
            mine = [at for at, of in enumerate(kind.copies) if of == copies]
            for turn, at in enumerate(mine):
                x, hits = place + 0.6 * ((turn + 0.5) / len(mine) - 0.5), kind.hits[at]
                colour = CURVE if copies else CONTROL
                if hits:
                    low, high = (100 * end for end in result.interval(hits))
                    marks.append(mark("vlines", [x], [low], [high], color=colour, linewidth=1))
                share = 100 * hits / result.samples
                marks.append(dots([x], [share], 22, colour, hollow=not hits, label=""))
    most = max(100 * result.interval(max(max(kind.hits) for kind in kinds))[1], unseen) or 100
    found = result.came_out().texts
    ticks = {float(place): count(copies) for place, copies in enumerate(groups)}
    return Figure(
        "samples",
        f"{count(found.hits)} of {plural(found.windows, 'secret')} came out.",
        [
            Panel(
                marks,
                Axis("copies in the training data (0: controls)", ticks=ticks, ruled=False),
                Axis("answers with the secret (%)", limits=(-0.04 * most, 1.05 * most)),
                grid="y",
                legend="above",
            )
        ],
        sentence("samples.secrets", samples=result.samples),
        _by_copies(result),
    )
