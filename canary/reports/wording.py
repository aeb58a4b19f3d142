"""Facts, settings, groups of canaries and attacks as words and cells."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from canary.audits.audit_result import Audit, FormatResult
from canary.audits.group_medians import MEDIAN_CONFIDENCE, between_medians, median_bits
from canary.gate.verdict import Verdict
from canary.records.about import Named
from canary.records.validation import versions
from canary.records.weight_files import FILES, FOLDER
from canary.reports.document import (
    Block,
    Facts,
    Heading,
    Note,
    Table,
    paragraphs_of,
    said,
    sentence,
    words_of,
)
from canary.reports.evidence import Cost
from canary.statistics.exposures import Exposure
from canary.statistics.numbers import bits, count, percent_of, plural

EXPOSURE_COLUMNS = (
    *("Copies", "Canaries", "Median"),
    f"{100 * MEDIAN_CONFIDENCE:g} % interval\nof the median",
    *("Smallest", "Largest"),
)
"""Of `exposure_cells`."""

_NBSP = "\N{NO-BREAK SPACE}"


def exposure_cells(
    repetitions: int,
    exposures: Sequence[Exposure],
    *,
    formats: Sequence[int] | None = None,
    controls: str = "0 (controls)",
) -> tuple[str, ...]:
    """Of the canaries of one number of copies: that, number, median with interval, least, most.

    `formats` are those of the exposures, where there are several.
    """
    ways = (statistics.median, min, max)
    median, *ends = (bound_or_bits(*median_bits(exposures, of)) for of in ways)
    copies = count(repetitions) if repetitions else controls
    between = between_medians(exposures, formats) or "–"
    return copies, count(len(exposures)), median, between, *ends


def exposure_table(audit: Audit, at: int) -> Table:
    """The exposures of one format by number of copies, each median with its interval."""
    groups = audit.by_repetitions(at)
    rows = [exposure_cells(n, [c.exposure for c in group]) for n, group in groups.items()]
    form = f": {audit.formats[at].masked}" if len(audit.formats) > 1 else ""
    return Table(f"Exposure by number of copies, in bits{form}", EXPOSURE_COLUMNS, rows)


def bound_or_bits(bits: float, bound: bool) -> str:  # noqa: FBT001 - what median_bits returns
    """Bits with two decimals, marked where they are only a lower bound."""
    return f"{'≥ ' if bound else ''}{bits:z.2f}"


def interval_of(e: Exposure) -> str:
    """The ends of its interval, once where they read the same."""
    ends = (f"{e.lower_bits:z.2f}", f"{e.upper_bits:z.2f}")
    return " to ".join(dict.fromkeys(ends))


def kind_of(e: Exposure) -> str:
    """What an interval is: certain bounds of a rank, or of draws with this confidence."""
    return "certain" if e.confidence is None else percent(e.confidence)


def place_of(e: Exposure) -> str:
    """Its rank or what is known of it; one break is allowed, before the range."""
    between = f"{count(e.rank_lower or 0)}{_NBSP}to{_NBSP}{count(e.rank_upper or 0)}"
    if e.rank is not None:
        certain = e.rank_lower is None or e.rank_upper is None or e.rank_lower >= e.rank_upper
        return count(e.rank) + ("" if certain else f" ({between})")
    if e.effective_draws is not None and e.bits is not None:
        rank = float(f"{2.0 ** (e.space_bits - e.bits):.3g}")
        return f"about{_NBSP}{count(int(rank))}"
    if e.draws is not None:
        return f"{count(e.hits or 0)} of {count(e.draws)}"
    return "–" if e.rank_upper is None else between


def percent(share: float) -> str:
    """``95 %``, in one piece."""
    return f"{100 * share:g}\N{NO-BREAK SPACE}%"


def called(model: str, otherwise: str = "the model") -> str:
    """A name within a sentence: ``the model “net”``, or what stands for one without a name."""
    return (
        f"the model \N{LEFT DOUBLE QUOTATION MARK}{model}\N{RIGHT DOUBLE QUOTATION MARK}"
        if model
        else otherwise
    )


NOT_STATED = "not stated (outputs were tested, not weights)"
"""The version of a model of which only answers are there."""


def about_of(*results: Named, own: str = "", corpus: str = "Training data") -> dict[str, str]:
    """What was tested, when and by whom: the first facts of every report.

    `own` is what a model is called that has no name, and `corpus` what the data are.
    """

    def joined(named: Iterable[str], otherwise: str) -> str:
        return ", ".join(dict.fromkeys(filter(None, named))) or otherwise

    about = [result.about for result in results]
    versions = joined((one.model_version for one in results), "")
    ways = [(access_of(one), sent_to(one)) for one in results]
    served = [way for way in ways if way[0]]
    which = "" if len(served) == len(ways) else f"{len(served)} of {len(ways)} "
    return {
        "Model": joined((one.model_name for one in results), own or "not named"),
        **({"Version of the weights": versions} if versions else {}),
        **({"Access": f"{which}{joined((way for way, _ in served), '')}"} if served else {}),
        **({"Sent": sent} if (sent := joined((sent for _, sent in served), "")) else {}),
        corpus: joined((one.corpus for one in about), "not named"),
        "Date": joined((one.date for one in about), "not recorded"),
        "Tested by": joined((one.auditor for one in about), "not named"),
    }


_STARTS = {r"'\n'": "a line break", "' '": "a space", r"'\n' and ' '": "a line break and a space"}


def plain_start(shown: str) -> str:
    """A start token, as it is shown to engineers, in plain words."""
    return _STARTS.get(shown, shown)


def before_of(*audits: Audit) -> dict[str, str]:
    """What audits put before each secret, a fact of their pages."""
    shown = dict.fromkeys(plain_start(a.start.shown) for a in audits if a.start)
    return {"Before each secret, the test put": ", ".join(shown)} if shown else {}


def access_of(result: Any) -> str:
    """Through which interface a model was asked; nothing where its files were there."""
    model, settings = _asked(result)
    if "server" in model:
        chat = settings.get("chat")
        return sentence("access.text", chat=chat, completions=not chat)
    if model.get("device") != "served":
        return ""
    top = "score" not in (model.get("capabilities") or ("score",))
    known = settings.get("top_k")
    kinds = {"whole": not top, "some": top and not known}
    return sentence("access.served", **kinds, top=known if top else 0, top_k=known)


def sent_to(result: Any) -> str:
    """What a server was sent, as far as the result says it."""
    model, settings = _asked(result)
    sent = settings.get("requests_in_this_run", model.get("requests"))
    tokens = settings.get("prompt_tokens_in_this_run", model.get("prompt_tokens"))
    if not sent:
        return ""
    in_prompts = f" (about {plural(int(tokens), 'token')} in prompts)" if tokens else ""
    which = "" if "requests" in model else " in the last run"
    kept = settings.get("answers_kept_before")
    fresh = settings.get(_FRESH)
    earlier = f"; {plural(int(kept), 'answer')} of earlier runs were there" if kept else ""
    earlier = (
        f"; {plural(int(fresh), 'request')} for who has no earlier answers" if fresh else earlier
    )
    whole = settings.get("requests_in_all_runs", sent)
    earlier += f"; {plural(int(whole), 'request')} in all runs" if whole != sent else ""
    return f"{plural(int(sent), 'request')}{which}{in_prompts}{earlier}"


_FRESH = "requests_without_earlier_answers"


def requests_paid(result: Any) -> int:
    """Requests that somebody pays for a result who has no answers of earlier runs."""
    return int(_asked(result)[1].get(_FRESH) or requests_sent(result))


def cost_of(result: Any) -> Cost:
    """What a result cost, as far as it says it."""
    model, settings = _asked(result)
    known = getattr(result, "seconds", 0.0)
    whole = sum(known.values()) if isinstance(known, Mapping) else known
    now = settings.get("prompt_tokens_in_this_run", model.get("prompt_tokens", 0))
    tokens = settings.get("prompt_tokens_without_earlier_answers", now)
    seconds = settings.get("seconds_in_this_run") or whole
    spared = bool(settings.get("answers_kept_before")) and "seconds_in_this_run" not in settings
    return Cost(requests_paid(result), int(tokens), float(seconds), at_least=spared)


def requests_sent(result: Any) -> int:
    """Requests to a server, of the last run that made a result; 0 of any other."""
    model, settings = _asked(result)
    return int(settings.get("requests_in_this_run") or model.get("requests") or 0)


def sent_in_all(result: Any) -> tuple[str, int, int]:
    """The folder of answers of a result, and the requests of all runs with it, sent and allowed."""
    model, settings = _asked(result)
    settings = {**model, **settings}
    numbers = (int(settings.get(f"requests_{name}", 0)) for name in ("in_all_runs", "allowed"))
    return settings.get("answers_in", ""), *numbers


def _asked(result: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The model and the settings of a result; those of texts are with their measurements."""
    measured = getattr(result, "measured", result)
    model = getattr(result, "model", None) or {}
    return model, getattr(measured, "settings", None) or {}


def limit_given(date: str, by: str) -> str:
    """Who set a limit and when, as far as that is known."""
    return sentence("limit.set", by=by, date=not by and date, unknown=not (by or date))


STRICT_SAMPLES = "5,300"
"""Of each kind that a test of a strict limit on recognition takes, by `plan_attacks`."""


def no_limit(kind: str, **values: object) -> dict[str, str]:
    """That no limit was set, and what a strict one of a kind of test says: two facts."""
    strict = sentence("limit.strict", **{kind: True}, **values, needed=STRICT_SAMPLES)
    return {"Limit": "none was set", "A strict limit would be": strict}


def under_strict(judged: Verdict, models: str = "this model") -> str:
    """What models would do under the strict limit of `no_limit`, by the verdict on it."""
    outcome = {"failed": "memorized", "undecided": "unsettled"}.get(judged.outcome, judged.outcome)
    words = sentence("limit.would", models=models, between="", **{outcome: True})
    return f"With the strict limit, {words}."


def software() -> str:
    """Names and versions of what the numbers were made with, in one line."""
    return _software(versions())


def run_blocks(model: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Block]:
    """The model and the settings of a run, each below its heading."""
    served = model.get("device") == "served"  # nobody sees its weights
    names = {"fingerprint": "fingerprint_of_answers"} if served else {}
    model = {names.get(name, name): value for name, value in model.items()}
    yield from facts_blocks({"Model": in_words(model), "Settings": in_words(settings)})


def facts_blocks(parts: Mapping[str, Mapping[str, str]]) -> Iterator[Block]:
    """Facts by heading; nothing of what is empty."""
    for heading, facts in parts.items():
        if facts:
            yield from [Heading(heading)] if heading else ()
            yield Facts(facts)


def in_words(facts: Mapping[str, Any]) -> dict[str, str]:
    """What is known of a model and was asked for: name of a fact, and what it says.

    Those that ``words.md`` knows come in its order, whatever wrote them; others as they are.
    """
    facts = {name: value for name, value in facts.items() if name not in (FOLDER, FILES)}
    names = (key.removeprefix("fact.") for key in paragraphs_of() if key.startswith("fact."))
    known = [name for name in names if name in facts]
    worded = {words_of(said(f"fact.{name}")[0]): _fact(name, facts[name]) for name in known}
    others = {n.replace("_", " "): _shown(value) for n, value in facts.items() if n not in known}
    return worded | others


def _fact(name: str, value: Any) -> str:
    """The words for a value: a line that begins with it, or with what it is; else as text."""
    if isinstance(value, (list, tuple)):
        return ", ".join(_fact(name, item) for item in value) or "none"
    if name == "versions" and isinstance(value, Mapping):
        return _software(value)
    empty, number = value in (None, ""), isinstance(value, (int, float))
    text = _shown(value)
    flags = {re.sub(r"\W", "_", text): True, "empty": empty, "some": not empty, "number": number}
    shown = {
        "count": count(value) if type(value) is int else text,
        "quoted": json.dumps(text, ensure_ascii=False),
        "percent": percent_of(value, digits=None) if number else "",
    }
    words = said(f"fact.{name}", **flags | shown)[1:]
    return words_of(words[0]) if words else text


def _shown(value: Any) -> str:
    """A value as text; the template escapes it."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return str(value)  # a seed is copied, not read: no thousands separators
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _software(versions: Mapping[Any, Any]) -> str:
    names = {"python": "Python", "canary-lm": "canary"}
    return ", ".join(f"{names.get(str(k), str(k))} {_shown(v)}" for k, v in versions.items())


def format_facts(priced: FormatResult, exposures: Iterable[Exposure]) -> dict[str, str]:
    """How the candidates of a format were scored: name of a fact, and what it says."""
    complete = priced.certificate or "not recorded"
    certified, _, how = complete.partition(": ")
    if not priced.enumerated and all(e.only_draws for e in exposures):
        complete = "not needed: the draws are random candidates"
    elif answer := {"certified": "yes", "not certified": "very likely"}.get(certified):
        complete = f"{answer}: {how}"
    curve = "none: none could be fitted"
    if (fit := priced.skew_normal) is not None:
        normal = fit.curve
        shape = f"{normal.shape:.3g}" if math.isfinite(normal.shape) else "infinite (half-normal)"
        curve = (
            f"mean {normal.mean_bits:.2f} bits, standard deviation {normal.sd_bits:.2f} bits, "
            f"shape {shape}; fitted to {count(fit.fitted)} draws, tested on {count(fit.tested)} "
            "others"
        )
    space_bits = bits(math.log2(priced.space_size))
    return {
        "Format": priced.format,
        "Possible secrets": f"{count(priced.space_size)} ({space_bits} bits)",
        "Method": priced.method,
        "Why this method": priced.reason,
        "Candidates scored": count(priced.candidates),
        "Uniform draws among them": "none" if priced.draws is None else count(priced.draws),
        "Every candidate counted once": complete,
        "Queries": f"{count(priced.queries)} tokens computed",
        "Longest candidate": plural(priced.tokens, "token"),
        "Noise of the arithmetic": f"{priced.noise_bits:.2g} bits for a whole candidate",
        "Skew-normal curve": curve,
        "Time": f"{priced.seconds:,.1f} s",
    }


def folded(table: Table) -> Iterator[Block]:
    """A table without the columns that repeat one value, and above it what they say."""
    cells = [*zip(*table.rows, strict=True)]
    kept = [at for at, column in enumerate(cells) if not at or len({*column}) > 1]
    if len(table.rows) > 1 and len(kept) < len(cells):
        same = (at for at in range(len(cells)) if at not in kept)
        said = (f"{table.columns[at]} {words_of(cells[at][0])}" for at in same)
        yield Note(f"The same in all rows: {'; '.join(said)}.")
        table = replace(
            table,
            columns=[table.columns[at] for at in kept],
            rows=[[row[at] for at in kept] for row in table.rows],
        )
    yield table


def ended(notes: Iterable[str]) -> list[str]:
    """Notes as sentences."""
    return [
        f"{note[:1].upper()}{note[1:]}{'' if note.endswith(('.', '?')) else '.'}" for note in notes
    ]
