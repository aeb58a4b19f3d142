"""The command plan: what canaries can show, and what an audit of them takes under a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from canary.cli.command import command
from canary.cli.console import Bars, show, show_table
from canary.cli.model_options import EXTRACTION_BUDGET, Count
from canary.cli.options import GROUPS, FindingOptions, groups_of
from canary.cli.outputs import Result

if TYPE_CHECKING:
    from canary.audits.forecast import Forecast
    from canary.corpus.canaries import CanarySet
    from canary.models.language_model import LanguageModel

_CONTROLS = 16  # as canary generate is usually asked for


@command(
    'plan "The random number is {digit:9}" --per-repetition 8 --draws 20000 --max-exposure-bits 10',
    'plan "The random number is {digit:9}" --exposure-bits 4 --power 0.9 --json',
    'plan "The random number is {digit:9}" --model ./model --start-token none',
    formats="FORMAT...: Text with holes, such as {digit:9}, as for canary generate.",
    repetitions=GROUPS,
    model="MODEL: Also time a few batches of this model here, and show what an audit would take: "
    "a folder, or a hub id, or with --factory your own.",
    draws="N: Candidates that canaries will be compared with.  [default: exact ranks]",
    canaries="FILE: The canary set that --model is audited with, in place of candidates drawn "
    "from FORMAT.",
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
    budget: Count = 1_000_000,
    options: FindingOptions,
) -> Result:
    """Show what a set of canaries can detect, and with --model what an audit takes.

    It also shows how many canaries a limit takes. Nothing is trained, and nothing loaded without
    --model. With it, the table has the queries, the time and the memory of each method.
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
        return Result("canary plan", planning.to_dict())
    count = planning.per_format + _CONTROLS
    whose: str | CanarySet = formats[0]
    if canaries is not None:
        whose = CanarySet.load(canaries)
    elif len(formats) > 1:
        whose = generate(spaces, per_repetition=per_repetition, controls=_CONTROLS, seed=0)
    asked = {"budget": budget, **({} if draws is None else {"draws": draws})}
    found = _forecast(options.load(model), whose, count, {**options.running(), **asked})
    return Result("canary plan", {**planning.to_dict(), "forecast": found.to_dict()})


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
