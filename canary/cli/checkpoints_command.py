"""The command that measures the checkpoints of one training."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from canary.cli.command import command
from canary.cli.console import say, show, show_report
from canary.cli.model_options import Count, Whole
from canary.cli.options import FindingOptions
from canary.cli.outputs import Result, check_outputs, factory_file
from canary.errors import InputError


@command(
    "checkpoints ./base output/checkpoint-100 output/checkpoint-200 --canaries canaries.json "
    "--out checkpoints/",
    "checkpoints ./base output --watch --canaries canaries.json --out checkpoints/",
    models="CHECKPOINT...: Folders of one training, or hub ids with revisions, such as "
    "org/model@step-100. The last number of a name or revision is its step. The base model, "
    "without a number, may come first; of adapters it is measured with the first one off.",
    watch="Measure the checkpoints in the last folder as a running training saves them, until the "
    "last step of a Trainer, or Ctrl-C.",
    until="N: With --watch, end after this number of checkpoints.",
    out="FOLDER: Where canary_history.json and report.html go.",
    draws="[Measurement] N: Candidates drawn per format, the same for all checkpoints.",
)
def checkpoints(
    models: list[str],
    *,
    canaries: Path,
    out: Path,
    draws: Count = 1_000,
    seed: Whole = 0,
    watch: bool = False,
    until: Count | None = None,
    options: FindingOptions,
    force: bool = False,
) -> Result:
    """Measure the exposure of canaries in each checkpoint of a training.

    FOLDER/report.html shows exposure against steps. Run the same command again to resume it, or
    with more checkpoints to add them: those in FOLDER/canary_history.json are not measured again.
    """
    from canary.audits.history import KIND, SCHEMA
    from canary.corpus.canaries import CanarySet
    from canary.plugins.checkpoints import exposure_over, steps_of_names
    from canary.plugins.watching import watched
    from canary.records.files import PAGES, folder_made
    from canary.reports.pages import report

    if until is not None and not watch:
        raise InputError("--until ends a --watch", cure="give --watch as well, or omit it")
    named = models[:-1] if watch else models
    steps = steps_of_names(named) if named else []
    ordered = [name for _, name in sorted(zip(steps, named, strict=True))]
    if watch:
        say(f"Watching {models[-1]}, until the last step of a Trainer, or Ctrl-C")
    every = chain(ordered, watched(models[-1], until=until)) if watch else models
    chosen = CanarySet.load(canaries)
    asked: dict[str, Any] = {**options.running(), "seed": seed}
    read = [canaries, *factory_file(options.factory)]
    with folder_made(out) as folder:
        numbers, page = folder / "canary_history.json", folder / "report.html"
        if force:
            numbers.unlink(missing_ok=True)
        check_outputs([(numbers, (KIND,)), (page, PAGES)], inputs=read, force=True)
        history = exposure_over(
            every,
            chosen,
            path=numbers,
            draws=draws,
            loader=options.load,
            after=lambda history: report(history, page, force=True),
            **asked,
        )
        if not history.measured:
            cure = "wait until the training has saved one"
            raise InputError("no checkpoint was complete", cure=cure, where=models[-1])
        report(history, page, force=True)
    show_report(history)
    show(f"The report is {page}; its numbers are in {numbers}")
    return Result(KIND, history.to_dict(), SCHEMA)
