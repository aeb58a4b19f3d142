"""The commands on results: report, plot, forgotten; and the demo of the whole job."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from canary.cli.command import command
from canary.cli.compared import Compared, size_of
from canary.cli.console import Bars, show, show_lines, show_report, show_tables
from canary.cli.membership_models import output_files
from canary.cli.model_options import Count, Whole
from canary.cli.outputs import Names, Result, audit_in, check_outputs, report_folder
from canary.errors import InputError

if TYPE_CHECKING:
    from canary.reports.evidence import Evidence

_UNANSWERED = 3
"""The exit code where nothing was decided."""


@command(
    "report audit/audit.json --out report.html",
    'report a/audit.json b/audit.json --label "dropout 0" --label "dropout 0.5" '
    "--test-loss 4.31 --test-loss 4.36 --out comparison.html",
    "report a/audit.json b/audit.json --test-scores a/scores.jsonl "
    "--test-scores b/scores.jsonl --out comparison.html --force",
    "report --group with=a --group without=b --out seeds.html",
    "report output/canary_history.json --out training.html",
    "report a/membership.json b/membership.json --out leaks.html",
    "report audit/audit.json membership/membership.json --model-name net --annex annex.md "
    "--model-card CARD.md",
    "report extraction.json --out extraction.html",
    audit_files="AUDIT...: The audit.json that canary audit wrote, or alone the history of a "
    "training, or an exposure.json, extraction.json, samples.json, verbatim.json or order.json; "
    "or several membership.json, which are compared. "
    "For --annex and --model-card also extraction.json, samples.json, membership.json, models.json "
    "and forgetting.json, and what canary check --json printed for one of these and canary verify "
    "--json for the set of an audit.",
    out="FILE: The page to write.",
    annex="FILE: An annex to a data protection file, .md or .html. It lists the attacks that EDPB "
    "Opinion 28/2024 names, and says which were tried and what came out.",
    model_card="FILE: The model card, such as the README.md of a model's folder, that gets a "
    "section on the tests, and their numbers as metadata. All else in it stays.",
)
def report(
    audit_files: list[Path] | None = None,
    *,
    out: Path | None = None,
    annex: Path | None = None,
    model_card: Path | None = None,
    names: Names,
    compared: Compared,
    force: bool = False,
) -> Result:
    """Write the report of a result, compare several audits, or write an annex or a model card.

    The comparison shows exposure and utility (test loss) side by side, with the Pareto front, and
    says which audits cannot be compared. With --group, ways of training are compared over their
    seeds. The report of a monitored training shows exposure against
    training steps. The guide is docs/guides/reports.md.
    """
    from canary.records.files import PAGES
    from canary.reports.annex import ENDINGS, check_ending, write_annex
    from canary.reports.builders import report_of
    from canary.reports.comparison import letters
    from canary.reports.model_card import check_card, write_model_card
    from canary.reports.pages import report as write_report
    from canary.reports.pages import shown
    from canary.reports.tested_results import read_evidence

    written: dict[str, Path] = {
        name: file
        for name, file in (("out", out), ("annex", annex), ("model_card", model_card))
        if file is not None
    }
    if not written:
        raise InputError(
            "there is nothing to write", cure="give --out, --annex or --model-card, with a file"
        )
    if out is None and any(vars(compared).values()):
        raise InputError(
            "labels and test losses are for the page that compares audits",
            cure="omit them, or give --out",
        )
    kinds = {"out": PAGES, "model_card": ()}
    if annex is not None:
        kinds["annex"] = ENDINGS[check_ending(annex)]
    files = audit_files or []
    inputs = compared.read(files)
    if compared.group and len(written) > (out is not None):
        raise InputError("groups have a page only", cure="give --out alone, or single audits")
    outputs = [(file, kinds[name]) for name, file in written.items()]
    check_outputs(outputs, inputs=inputs, force=True)
    check_outputs([pair for pair in outputs if pair[0] != model_card], inputs=inputs, force=force)
    if model_card is not None:
        check_card(model_card, replace=force)
    if out is not None:
        results, called = compared.results(files)
        page = write_report(results, out, **called, **vars(names), force=True)
        found = shown(results, **called)
        lines = found.summary() if compared.group else f"{report_of(found).label}{letters(found)}."
        show_lines(lines)
        show(f"The report is {page}")
    tests = [*map(audit_in, files)]
    if out is None:
        for test in read_evidence(tests):
            show(f"{test.report.label}.")
    if model_card is not None:
        card = write_model_card(tests, model_card, **vars(names), replace=force)
        show(f"The section on memorization tests is in {card}")
    if annex is not None:
        show(f"The annex is {write_annex(tests, annex, **vars(names))}")
    if annex or model_card:
        named = {"model": names.model_name, "corpus": names.corpus_name, "auditor": names.auditor}
        _show_doubts(read_evidence(tests, **named))
    return Result("canary report", {name: str(file) for name, file in written.items()})


def _show_doubts(tests: Sequence[Evidence]) -> None:
    """Show if tests are of different models, and which names are missing."""
    from canary.reports.document import name_with, prose, words_of
    from canary.reports.evidence import MISSING, TO_FORGET, mixed_models

    facts = [test.facts() for test in tests]
    missing = [name for name in MISSING if any(one.get(name) == "not named" for one in facts)]
    if TO_FORGET in missing and any(TO_FORGET not in one for one in facts):
        missing.remove(TO_FORGET)
        show(
            "Name the data to be forgotten with --corpus-name of canary forgotten: beside other "
            "tests, that of canary report names the training data."
        )
    for doubt in [*mixed_models(tests), *([prose(name_with(missing))] if missing else [])]:
        show(words_of(doubt))


@command(
    "plot audit/audit.json --kind histogram --out histogram.svg",
    "plot a/audit.json b/audit.json --test-loss 4.31 --test-loss 4.36 --kind utility "
    "--repetitions 4 --out utility.pdf",
    "plot audit/audit.json --axis guesses --size 3.3,2.6 --out column.pdf",
    out="FILE: The figure to write: .svg, .pdf, or .png at 300 dpi.",
    kind="[Figure] exposure by number of copies, the histogram of one audit's candidates, or the "
    "utility of several audits against their exposure.",
    format="N: The format that is shown, by its number in the report.  [default: all in one figure "
    "where each number of copies has its own, else 1]",
    repetitions="[Figure] N: For utility and for several trainings, how many copies the canaries "
    "have.  [default: the most]",
    skew_normal="For several audits, show estimates from the skew-normal curves, which are numbers "
    "where draws give only bounds.",
    axis="The unit of exposure.  [default: bits for one audit, guesses for several and for "
    "trainings]",
    size="WIDTH,HEIGHT: Of the figure, in inches; 3.3,2.6 fits a column of a paper.  [default: "
    "6.9,4.2]",
)
def plot(
    audit_files: list[Path] | None = None,
    *,
    out: Path,
    kind: Literal["exposure", "histogram", "utility"] = "exposure",
    format: Count | None = None,
    repetitions: Count | None = None,
    skew_normal: bool = False,
    axis: Literal["bits", "guesses"] | None = None,
    size: str | None = None,
    compared: Compared,
    force: bool = False,
) -> Result:
    """Write one figure of audits or of trainings, for print."""
    from canary.records.files import FIGURES
    from canary.reports.drawing import PRINTED
    from canary.reports.pages import plot_file

    files = audit_files or []
    check_outputs([(out, FIGURES)], inputs=compared.read(files), force=force)
    results, called = compared.results(files, drawn=True)
    figure = plot_file(
        results,
        out,
        kind=kind,
        format=None if format is None else format - 1,
        repetitions=repetitions,
        skew_normal=skew_normal,
        axis=axis,
        size=size_of(size) if size else PRINTED,
        **called,
    )
    show(f"The figure is {figure}")
    return Result("canary plot", {"out": str(figure)})


@command(
    "forgotten --query-model query.npz --target target.npz --unseen unseen.npz "
    "--calibration other1.npz --calibration other2.npz --out forgetting/",
    "forgotten --query-model query.jsonl --target unlearned.jsonl --calibration other.jsonl "
    "--retrained retrained.jsonl --out forgetting/ --force --json",
    query_model="FILE: Outputs on the query set from a model that was trained on it: an .npz, "
    "Parquet or CSV file with logits (or probs, or losses) and labels, or a .jsonl file that "
    "canary score wrote. Repeat it for more models.",
    target="FILE: The same for the model that should have forgotten.",
    calibration="FILE: The same for a model that was trained on other data of the domain. Repeat "
    "it for more models, or give a folder of such files; p = 0.05 needs 19 or more.",
    out="FOLDER: Where forgetting.json and report.html go.",
    retrained="FILE: The same for a model that was retrained without the query set. Repeat it for "
    "more models.",
    unseen="FILE: Outputs of the target on samples of the same kind that it never saw, 100 or "
    "more: an attack tries to pick out the query set. canary check --forgotten needs it.",
    query_data="FILE: The query set: a .npy array of samples, or text with a sample on each line. "
    "With --calibration-data, the two are checked for common samples.",
    calibration_data="FILE: The calibration set, in the same form.",
    resamples="N: Resamples of samples and models, for the interval.",
)
def forgotten(
    *,
    query_model: list[Path],
    target: Path,
    calibration: list[Path],
    out: Path,
    retrained: list[Path] | None = None,
    unseen: Path | None = None,
    query_data: Path | None = None,
    calibration_data: Path | None = None,
    confidence: float = 0.95,
    resamples: Count = 1000,
    seed: Whole = 0,
    names: Names,
    force: bool = False,
) -> Result:
    """Decide whether a model has forgotten a data set.

    The data set is called the query set. FOLDER/report.html is for people,
    FOLDER/forgetting.json for machines. For language models, write all files with canary score,
    from the same texts. The guide is docs/guides/forgetting.md.

    Exit codes: 0 answered, whatever the answer, 2 wrong input, 3 undecided.
    """
    from dataclasses import replace

    from canary.membership.forgetting import forgotten as compare
    from canary.membership.forgetting_result import KIND, SCHEMA

    query_model, calibration, retrained = (
        output_files(files, ".jsonl") for files in (query_model, calibration, retrained or [])
    )
    read = [*query_model, target, *calibration, *retrained]
    read += [path for path in (unseen, query_data, calibration_data) if path]
    with report_folder(out, KIND, "forgetting.json", inputs=read, force=force) as folder:
        sets = [None if path is None else _samples(path) for path in (query_data, calibration_data)]
        with folder.running() as bars:
            comparison = compare(
                query_model,
                target,
                calibration,
                retrained=retrained or None,
                unseen=unseen,
                query_data=sets[0],
                calibration_data=sets[1],
                confidence=confidence,
                resamples=resamples,
                seed=seed,
                progress=bars.stage,
            )
        named = names.on(comparison.named(model_name=target.name))
        result = folder.finish(named, SCHEMA)
    return replace(result, code=_UNANSWERED) if comparison.answer == "undecided" else result


def _samples(path: Path) -> Iterable[Any]:
    """The samples of a set, for their hashes."""
    import numpy as np
    from numpy.typing import NDArray

    try:
        if path.suffix.lower() == ".npy":
            array: NDArray[Any] = np.load(path, allow_pickle=False, mmap_mode="r")
            return array
        return path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot be read ({reason})",
            cure="give a .npy array without pickled objects, or a text file of UTF-8",
            where=str(path),
        ) from error


@command(
    "demo --out demo/",
    out="FOLDER: Where all files of the demo go.",
    inject="Inject the canaries, or train without them.",
)
def demo(*, out: Path, inject: bool = True, seed: Whole = 0, force: bool = False) -> Result:
    """Plant canaries, train a small model, and audit it.

    This takes about a minute. The text ships with Python, so nothing is downloaded. With
    --no-inject no canary goes in, and the audit must find none.
    """
    from canary.audits.audit_result import KIND, SCHEMA
    from canary.demo import FILES, run
    from canary.records.files import folder_made

    written = [(out / name, kinds) for name, kinds in FILES.items()]
    with folder_made(out), folder_made(out / "model"), Bars() as bars:
        check_outputs(written, inputs=[], force=force)
        result = run(out, inject=inject, seed=seed, progress=bars.stage, say=bars.say)
    show_report(result, short=True)
    show_tables(result)
    secrets = [out / "canaries.json", *([out / "corpus.jsonl"] if inject else [])]
    show(f"Secrets are in clear in {' and '.join(map(str, secrets))}")
    show(f"What it means and what to do is in {out / 'report.html'}. What to type next:")
    judged = shlex.quote(str(out / "audit.json"))
    show(f"- to set a limit: canary check {judged} --max-exposure-bits 4")
    show('- for your own corpus: canary generate "The code is {digit:9}" --out canaries.json')
    return Result(KIND, result.to_dict(), SCHEMA)
