"""What an audit will take, said before it: queries, seconds and bytes, from a few batches of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from canary.audits.audit_setup import with_controls
from canary.audits.by_draws import UniformDraws
from canary.audits.choosing import METHODS, choose
from canary.audits.cut_secrets import rows_compared
from canary.audits.method import Method, Unfit
from canary.audits.pacing import LOOK, Pace, Probes, clocks, say_probing, since
from canary.audits.question import AuditOptions, Question, questions_of
from canary.audits.start_search import started, work_of_check
from canary.corpus.canaries import Canary, CanarySet
from canary.errors import UnsupportedError
from canary.formats.format import Format
from canary.models.english import note_on_english
from canary.models.language_model import peak_memory
from canary.models.loading import load
from canary.records.record import Record
from canary.records.sealing import sealed
from canary.records.validation import AUTO
from canary.search.pricing import walk_memory
from canary.statistics.numbers import Shown, duration, gigabytes, plural

_STREAM = 0x666F7265


@dataclass(frozen=True)
class MethodForecast(Record):
    """What one method takes for all formats.

    Parameters
    ----------
    method : str
    queries : int
        Tokens computed below the contexts, those of the canaries included.
    seconds, processor_seconds : float
        On the clock, and of all processors together, which other work on the machine hardly
        changes. Loading the model is not counted.
    bytes : int
        Peak memory: of the process on a CPU, of the model's devices elsewhere.
    at_most : bool
        Whether the search may end before.
    chosen : bool
        Whether ``"auto"`` takes it.
    reason : str
        Why it cannot be had; empty if it can.
    """

    method: str
    queries: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    bytes: int = 0
    at_most: bool = False
    chosen: bool = False
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Forecast(Shown, Record):
    """What an audit takes under a model, by each method.

    Parameters
    ----------
    model : dict
        The facts of the model.
    formats, canaries, draws, budget : int
        Of the audit; the budget is that of each format.
    context_seconds : float
        Part of all `seconds`: the context is read, and the canaries are scored.
    check_seconds : float
        Part of all `seconds`: the start token is chosen, and compared with others; and ordinary
        English is scored or, where canaries look learned, parts of their secrets: what takes
        longer.
    methods : tuple of MethodForecast
    extraction : MethodForecast or None
        What the extraction takes that `canary audit` begins afterwards, at most; None without one.
    """

    model: dict[str, Any]
    formats: int
    canaries: int
    draws: int
    budget: int
    context_seconds: float
    check_seconds: float
    methods: tuple[MethodForecast, ...]
    extraction: MethodForecast | None = None

    @property
    def parts(self) -> tuple[MethodForecast, ...]:
        """The methods, of which an audit takes one, and the extraction after it."""
        return self.methods if self.extraction is None else (*self.methods, self.extraction)

    def _table(self) -> list[dict[str, Any]]:
        return [vars(part) for part in self.parts]

    def rows(self) -> list[tuple[str, ...]]:
        """A line for each part that can be had: its name, queries, time, and memory."""
        return [
            (
                f"{method.method}{' (auto)' if method.chosen else ''}",
                *(
                    f"{'up to ' if method.at_most else ''}{shown}"
                    for shown in (
                        f"{method.queries:,}",
                        duration(method.seconds),
                        duration(method.processor_seconds),
                        gigabytes(method.bytes),
                    )
                ),
            )
            for method in self.parts
            if not method.reason
        ]

    def summary(self) -> str:
        """The forecast in lines."""
        about = (
            f"{plural(self.canaries, 'canary or control', 'canaries and controls')} of "
            f"{plural(self.formats, 'format')}, {plural(self.draws, 'draw')}, a budget of "
            f"{plural(self.budget, 'query', 'queries')} per format, on {self.model['device']}"
        )
        told = [
            f"{name}: {queries} queries, {clock} ({processor} of processors), {memory}"
            for name, queries, clock, processor, memory in map(tuple, self.rows())
        ]
        unfit = [f"{m.method}: not possible, {m.reason}" for m in self.parts if m.reason]
        return "\n".join([about, *self.total(), *told, *unfit, self.part()])

    def total(self) -> list[str]:
        """What an audit with its defaults takes in all, in a sentence; none if it cannot be had."""
        chosen = [m for m in self.methods if m.chosen and not m.reason]
        if not chosen:
            return []
        (auto,), draws = chosen, [m for m in self.methods if m.method == UniformDraws.name]
        more = self.extraction.seconds if self.extraction and not self.extraction.reason else 0.0
        most = "at most" if auto.at_most or more else "about"
        whole = "In all, with its extraction," if more else "In all,"
        told = f"{whole} canary audit takes {most} {duration(auto.seconds + more)} here"
        if auto.at_most and draws and not draws[0].reason:
            told += f", and about {duration(draws[0].seconds + more)} if little was learned"
        bounded = "; --seconds and --budget bound the search" if auto.at_most else ""
        return [f"{told}{bounded}. Loading the model comes before"]

    def part(self) -> str:
        """What of the time is the same for all methods, in a sentence."""
        then = "" if self.extraction is None else "The extraction comes after any of them. "
        return (
            f"{then}Of each method, {duration(self.check_seconds)} are for comparing the start "
            "token with others and checking that the model reads English, or that no secret was cut"
        )


@sealed
def forecast(
    model: Any,
    canaries: CanarySet | Format | str,
    options: AuditOptions | None = None,
    *,
    count: int = 48,
    extraction_budget: int = 0,
    probe_seconds: float | None = None,
) -> Forecast:
    """Queries, seconds and bytes of an audit by each method, measured on a few batches.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    canaries : CanarySet, Format or str
        Of a format, `count` candidates are drawn in the place of canaries and controls.
    options : AuditOptions, optional
        Draws, budget and what is said before each candidate. The budget bounds searches; a larger
        one shows what enumerating a larger space takes.
    extraction_budget : int
        The most queries of the extraction that follows, for each format; 0 for none.
    probe_seconds : float, optional
        Of the processors, for each probe: a format takes up to three, and reading the context
        besides.

    Returns
    -------
    Forecast

    Raises
    ------
    InputError, FormatError, ModelError
        As for `canary.audit`.

    Examples
    --------
    >>> print(forecast("./model", "The code is {digit:6}"))  # doctest: +SKIP
    """
    seam = load(model)
    if seam.facts.device == "served":
        raise UnsupportedError(
            "timing a served model would send it thousands of requests",
            cure="start canary audit with --dry-run: it says how many requests and tokens it would "
            "send, and sends none",
        )
    found = isinstance(canaries, CanarySet) and canaries.natural
    if not isinstance(canaries, CanarySet):
        canaries = _stand_ins(Format.of(canaries), count)
    options = options or AuditOptions()
    if found:
        canaries = with_controls(canaries, options.seed)
    if canaries.role and options.chat_template == AUTO and not options.context:
        options = replace(options, chat_template=canaries.role)
    began = clocks()
    options, start = started(seam, canaries.formats, options, canaries=None, draws=options.draws)
    checks = since(began, 0)
    methods = [m for m in METHODS.values() if m.has_p_values]
    parts: dict[str, list[MethodForecast]] = {method.name: [] for method in methods}
    searches: list[MethodForecast] = []
    known: dict[Any, list[Pace]] = {}
    look = LOOK if probe_seconds is None else probe_seconds
    auto, reading, english, cuts = "", 0.0, Pace(), Pace()
    questions = questions_of(seam, canaries, replace(options, method="auto"))
    probed = [Probes(question, look, known) for question in questions]
    for question in questions:
        question.format.check_prefix_free()
    say_probing(probed, look, extraction=bool(extraction_budget))
    for question, probes in zip(questions, probed, strict=True):
        if question.prices_rows:
            if not question.number:
                work = work_of_check(seam, canaries, start, options, options.draws)
                began = clocks()
                note_on_english(seam)
                english = since(began, 0)
                checks += probes.beginnings(*work)
            injected = [c.fill for c in question.canaries if not c.control]
            if injected and not found:
                cuts += probes.rows(rows_compared(question, injected))
            auto, reading = choose(question)[0].name, reading + probes.canaries.seconds
        for method in methods:
            parts[method.name].append(_of_method(method, question, probes))
        searches += [_of_search(question, probes, extraction_budget)] if extraction_budget else []
    checks += max(english, cuts, key=lambda pace: pace.processor)  # an audit does one of them
    return Forecast(
        model=seam.facts.to_dict(),
        formats=len(canaries.formats),
        canaries=len(canaries),
        draws=options.draws,
        budget=options.budget,
        context_seconds=reading,
        check_seconds=checks.seconds,
        methods=tuple(
            replace(_together(found, checks), chosen=name == auto) for name, found in parts.items()
        ),
        extraction=_together(searches, Pace()) if searches else None,
    )


def _stand_ins(format: Format, count: int) -> CanarySet:
    fills = format.sample(min(count, format.size), rng=np.random.default_rng(_STREAM))
    drawn = tuple(Canary(f"c{n}", 0, fill, 1) for n, fill in enumerate(fills))
    return CanarySet(formats=(format,), canaries=drawn, seed=0, natural=True)


def _of_method(method: Method, question: Question, probes: Probes) -> MethodForecast:
    if method.whole_rows != question.prices_rows:
        only = "it is only for models that cannot score a given text, and this one can"
        needs = "it scores given texts, and this model cannot"
        return MethodForecast(method.name, reason=only if question.prices_rows else needs)
    cost = method.cost(question)
    if isinstance(cost, Unfit):
        return MethodForecast(method.name, reason=cost.reason)
    stages = method.stages(question, cost)
    taken, held = probes.canaries, 0
    for stage in stages:
        taken += probes.pace(stage.kind, cost).of(stage.queries)
        if stage.kind == "search":
            room = walk_memory(question.model)
            held = min(stage.queries * question.model.memory().bytes_per_held_token, room)
    return MethodForecast(
        method=method.name,
        queries=taken.queries,
        seconds=taken.seconds,
        processor_seconds=taken.processor,
        bytes=peak_memory(question.model) + held,
        at_most=any(stage.at_most for stage in stages),
    )


def _of_search(question: Question, probes: Probes, budget: int) -> MethodForecast:
    """The extraction of one format, at most."""
    cost = METHODS["rank"].cost(question)
    if isinstance(cost, Unfit):
        return MethodForecast("extraction", reason=cost.reason)
    taken = probes.extraction(cost, top=len(question.fills), budget=budget)
    held = budget * question.model.memory().bytes_per_held_token
    return MethodForecast(
        method="extraction",
        queries=budget,
        seconds=taken.seconds,
        processor_seconds=taken.processor,
        bytes=peak_memory(question.model) + min(held, walk_memory(question.model)),
        at_most=True,
    )


def _together(found: Sequence[MethodForecast], checks: Pace) -> MethodForecast:
    """One method for all formats, one after the other."""
    for each in found:
        if each.reason:
            return each
    return replace(
        found[0],
        queries=sum(each.queries for each in found),
        seconds=checks.seconds + sum(each.seconds for each in found),
        processor_seconds=checks.processor + sum(each.processor_seconds for each in found),
        bytes=max(each.bytes for each in found),
        at_most=any(each.at_most for each in found),
    )
