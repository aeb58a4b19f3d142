"""The command plan: what canaries can show, and what an audit of them takes under a model."""

from __future__ import annotations

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
    'plan "The random number is {digit:9}" --per-repetition 8 --draws 20000 --max-exposure-bits 10',
    'plan "The random number is {digit:9}" --exposure-bits 4 --power 0.9 --json',
    'plan "The random number is {digit:9}" --model ./model --start-token none',
    'plan "The random number is {digit:9}" --model ./model --passages train.jsonl',
    formats="FORMAT...: Text with holes, such as {digit:9}, as for canary generate.",
    repetitions=GROUPS,
    model="MODEL: Also time a few batches of this model here, and show what an audit would take: "
    "a folder, or a hub id, or with --factory your own.",
    draws="N: Candidates that canaries will be compared with.  [default: exact ranks]",
    canaries="FILE: The canary set that --model is audited with, in place of candidates drawn "
    "from FORMAT.",
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
)
def plan(
    formats: list[str],
    *,
    repetitions: list[str] | None = None,
    per_repetition: Count = 8,
    draws: Count | None = None,
    max_p: float = 0.001,
    max_exposure_bits: float | None = None,
    exposure_bits: float | None = None,
    confidence: float = 0.9,
    power: float = 0.9,
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
    --passages adds the time of canary verbatim.
    """
    from canary.corpus.canaries import CanarySet, generate
    from canary.gate.planning import plan as planned

    spaces = groups_of(formats, repetitions, per_repetition)
    planning = planned(
        spaces,
        per_repetition=per_repetition,
        draws=draws,
        max_p=max_p,
        max_exposure_bits=max_exposure_bits,
        exposure_bits=exposure_bits,
        confidence=confidence,
        power=power,
    )
    for line in planning.summary().splitlines():
        show(line)
    if model is None:
        if passages is not None:
            cure = "give the model with --model"
            raise InputError("--passages are timed on a model, and there is none", cure=cure)
        return Result("canary plan", planning.to_dict())
    count = planning.per_format + _CONTROLS
    whose: str | CanarySet = formats[0]
    if canaries is not None:
        whose = CanarySet.load(canaries)
    elif len(formats) > 1:
        whose = generate(spaces, per_repetition=per_repetition, controls=_CONTROLS, seed=0)
    asked = {"budget": budget, **({} if draws is None else {"draws": draws})}
    texts = called_texts_in({"texts": passages}, column, None).get("texts")
    loaded, running = options.load(model), options.running()
    found = _forecast(loaded, whose, count, {**running, **asked})
    told = {"forecast": found.to_dict()}
    if texts is not None:
        cut = {"prefix": prefix, "suffix": suffix}
        cut |= {name: running[name] for name in ("start_token", "batch_size")}
        told["passages"] = _passages(loaded, texts, cut)
    return Result("canary plan", {**planning.to_dict(), **told})


def _passages(
    loaded: LanguageModel, texts: list[str] | dict[str, str], asked: dict[str, Any]
) -> dict[str, Any]:
    """What a run on passages takes, with a sentence of it shown."""
    from canary.passages.passages_forecast import passages_forecast

    with Bars() as bars:
        bars.phase("Timing a few passages")
        found = passages_forecast(loaded, texts, **asked)
    show(found.summary())
    return found.to_dict()


def _forecast(
    loaded: LanguageModel, whose: str | CanarySet, count: int, asked: dict[str, Any]
) -> Forecast:
    """What an audit takes, with a table of it shown."""
    from canary.audits.forecast import forecast
    from canary.audits.question import AuditOptions

    with Bars() as bars:
        bars.phase("Timing a few batches")
        found = forecast(
            loaded, whose, AuditOptions(**asked), count=count, extraction_budget=EXTRACTION_BUDGET
        )
    about, *_ = found.summary().splitlines()
    show(f"An audit of {about}:")
    show_table(("method", "queries", "time", "processor time", "peak memory"), found.rows())
    for line in (found.part(), *found.total()):
        show(line)
    for part in found.parts:
        if part.reason:
            show(f"{part.method} is not possible: {part.reason}")
    return found
