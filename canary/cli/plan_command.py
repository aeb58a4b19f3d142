"""The command plan: what canaries can show, and what an audit of them takes under a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canary.cli.command import command
from canary.cli.console import Bars, show, show_table
from canary.cli.model_options import EXTRACTION_BUDGET, Count
from canary.cli.options import GROUPS, FindingOptions, groups_of
from canary.cli.outputs import Result, called_texts_in
from canary.errors import InputError

if TYPE_CHECKING:
    from canary.audits.forecast import Forecast
    from canary.corpus.canaries import CanarySet
    from canary.models.language_model import LanguageModel

_CONTROLS = 16  # as canary generate is usually asked for


@command(
    'plan "The random number is {digit:9}" --per-repetition 8 --draws 20000 --max-exposure-bits 4',
    'plan "The random number is {digit:9}" --exposure-bits 4 --power 0.9 --json',
    'plan "The random number is {digit:9}" --model ./model --start-token none',
    "plan --canaries canaries.json --model ./model --passages train.jsonl",
    budget="N: The most queries (tokens computed) per format for enumeration, or for branch and "
    "bound and importance draws together. Canaries and uniform draws cost extra.",
    formats="FORMAT...: Text with holes, such as {digit:9}, as for canary generate. Not needed "
    "with --canaries.",
    repetitions=GROUPS,
    per_repetition="N: The number of canaries in each group.  [default: 8]",
    model="MODEL: Also time a few batches of this model here, and show what an audit would take: "
    "a folder, or a hub id, or with --factory your own.",
    draws="N: Candidates that canaries will be compared with.  [default: exact ranks]",
    canaries="FILE: A canary set that was drawn already: its formats, canaries and numbers of "
    "copies are planned with.",
    passages="[Long texts] FILE: Also say how long canary verbatim takes on --model for the texts "
    "of this JSON Lines file.",
    column="[Long texts] NAME: The field of --passages that holds the text.",
    prefix="[Long texts] TOKENS: The tokens of a passage that the model is given.",
    suffix="[Long texts] TOKENS: The tokens after these, which it has to repeat.",
    max_p="P: The level of the test of evidence, as in canary check.",
    max_exposure_bits="BITS: A limit on the median exposure, as in canary check.",
    exposure_bits="BITS: A median exposure to detect: how likely that is, and how many canaries it "
    "takes.",
    confidence="LEVEL: The confidence of a verdict on the limit, between 0 and 1.",
    power="P: The chance wanted of detecting that exposure.",
    require_learned="[Statistics] COPIES: The positive control: canaries with as many copies are "
    "not judged, so the plan is for the others.",
)
def plan(
    formats: list[str] | None = None,
    *,
    repetitions: list[str] | None = None,
    per_repetition: Count | None = None,
    draws: Count | None = None,
    max_p: float = 0.001,
    max_exposure_bits: float | None = None,
    exposure_bits: float | None = None,
    confidence: float = 0.9,
    power: float = 0.9,
    require_learned: Count | None = None,
    model: str | None = None,
    canaries: Path | None = None,
    passages: Path | None = None,
    column: str = "text",
    prefix: Count = 50,
    suffix: Count = 50,
    budget: Count = 1_000_000,
    options: FindingOptions,
) -> Result:
    """Show what a set of canaries can detect, and with --model what an audit takes.

    It also shows how many canaries a limit takes. Nothing is trained, and nothing loaded without
    --model. With it, the table has the queries, the time and the memory of each method, and
    --passages adds the time of canary verbatim. Tests of membership, fleets of classifiers and
    served models are not timed. Without --canaries, 16 controls of each format are assumed.
    """
    from canary.corpus.canaries import generate
    from canary.gate.planning import plan as planned
    from canary.models.served.endpoint import is_url

    if model is not None and is_url(model):
        raise InputError(
            "models are timed here, and this is the address of a server",
            cure="count the requests with canary audit --dry-run, or give the folder of the model",
            where=model,
        )
    drawn: CanarySet | None = None
    if canaries is not None:
        drawn = _set_in(canaries, formats or [], repetitions, per_repetition)
    elif not formats:
        raise InputError("no format", cure="give FORMAT, or a canary set with --canaries")
    each = per_repetition or 8
    spaces = groups_of(formats or [], repetitions, each)
    limits = max_exposure_bits is not None or exposure_bits is not None
    found: dict[str, Any] = {}
    if drawn and drawn.natural and model is not None and not limits:
        show("These secrets were found and not drawn, so no test of them is planned")
    else:
        planning = planned(
            drawn or spaces,
            per_repetition=each,
            draws=draws,
            max_p=max_p,
            max_exposure_bits=max_exposure_bits,
            exposure_bits=exposure_bits,
            confidence=confidence,
            power=power,
            require_learned=require_learned,
        )
        found = planning.to_dict()
        for line in planning.summary().splitlines():
            show(line)
    if model is None:
        if passages is not None:
            cure = "give the model with --model"
            raise InputError("--passages are timed on a model, and there is none", cure=cure)
        return Result("canary plan", found)
    whose = drawn or generate(spaces, per_repetition=each, controls=_CONTROLS, seed=0)
    asked = {"budget": budget, **({} if draws is None else {"draws": draws})}
    texts = called_texts_in({"texts": passages}, column, None).get("texts")
    loaded, running = options.load(model), options.running()
    if texts is not None:  # first, as texts may be too short
        cut = {"prefix": prefix, "suffix": suffix}
        cut |= {name: running[name] for name in ("start_token", "batch_size")}
        found["passages"] = _passages(loaded, texts, cut, str(passages))
    found["forecast"] = _forecast(loaded, whose, {**running, **asked}).to_dict()
    return Result("canary plan", found)


def _set_in(
    file: Path, formats: list[str], repetitions: list[str] | None, per_repetition: int | None
) -> CanarySet:
    """The set of a file; an InputError if what it says is asked for otherwise besides."""
    from canary.corpus.canaries import CanarySet

    drawn = CanarySet.load(file)
    options = {"--repetitions": repetitions, "--per-repetition": per_repetition}
    if given := [option for option, value in options.items() if value is not None]:
        problem = f"{' and '.join(given)} given, and the canaries are drawn already"
        raise InputError(problem, cure=f"leave out {' and '.join(given)}", where=str(file))
    if formats and sorted(formats) != sorted(format.text for format in drawn.formats):
        problem = "the set has other formats than those given"
        raise InputError(problem, cure="leave FORMAT out: the set has its own", where=str(file))
    return drawn


def _passages(
    loaded: LanguageModel, texts: list[str] | dict[str, str], asked: dict[str, Any], file: str
) -> dict[str, Any]:
    """What a run on passages takes, with a sentence of it shown; errors name line and file."""
    from canary.passages.passages_forecast import passages_forecast

    with Bars() as bars:
        bars.phase("Timing a few passages")
        try:
            found = passages_forecast(loaded, texts, **asked)
        except InputError as error:
            if error.where == "texts":
                lines = [*texts] if isinstance(texts, dict) else []
                error.problem = re.sub(
                    r"(?<=, )text (\d+)",
                    lambda found: lines[int(found[1]) - 1] if lines else f"line {found[1]}",
                    error.problem,
                )
                error.where = file
            raise
    show(found.summary())
    return found.to_dict()


def _forecast(loaded: LanguageModel, whose: CanarySet, asked: dict[str, Any]) -> Forecast:
    """What an audit takes, with a table of it shown."""
    from canary.audits.forecast import forecast
    from canary.audits.question import AuditOptions

    with Bars() as bars:
        options = AuditOptions(**asked, progress=bars.stage)
        found = forecast(loaded, whose, options, extraction_budget=EXTRACTION_BUDGET)
    about, *_ = found.summary().splitlines()
    show(f"An audit of {about}:")
    for line in found.total():
        show(line)
    show_table(("method", "queries", "time", "processor time", "peak memory"), found.rows())
    show(found.part())
    for part in found.parts:
        if part.reason:
            show(f"{part.method} is not possible: {part.reason}")
    return found
