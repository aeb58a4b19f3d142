"""The command that measures the checkpoints of one training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from canary.cli.command import command
from canary.cli.console import show, show_report
from canary.cli.model_options import Count, Whole
from canary.cli.options import FindingOptions
from canary.cli.outputs import Result, check_outputs, factory_file


@command(
    "checkpoints ./base output/checkpoint-100 output/checkpoint-200 --canaries canaries.json "
    "--out checkpoints/",
    models="CHECKPOINT...: Folders of one training, or hub ids with revisions, such as "
    "org/model@step-100. The last number of a name or revision is its step. The base model, "
    "without a number, may come first; of adapters it is measured with the first one off.",
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
    from canary.records.files import PAGES, folder_made
    from canary.reports.pages import report

    steps_of_names(models)
    chosen = CanarySet.load(canaries)
    asked: dict[str, Any] = {**options.running(), "seed": seed}
    read = [canaries, *factory_file(options.factory)]
    with folder_made(out) as folder:
        numbers, page = folder / "canary_history.json", folder / "report.html"
        if force:
            numbers.unlink(missing_ok=True)
        check_outputs([(numbers, (KIND,)), (page, PAGES)], inputs=read, force=True)
        history = exposure_over(
            models, chosen, path=numbers, draws=draws, loader=options.load, **asked
        )
        report(history, page)
    show_report(history)
    show(f"The report is {page}; its numbers are in {numbers}")
    return Result(KIND, history.to_dict(), SCHEMA)
