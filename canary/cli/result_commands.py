"""The commands on results: check, report, plot, forgotten; and the demo of the whole job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from canary.cli.command import command, flag_of
from canary.cli.console import Bars, say, show_report
from canary.cli.options import Count, Whole, whole_numbers
from canary.cli.outputs import Names, Result, audit_in, check_outputs, report_folder
from canary.errors import InputError
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.audits.audit_result import Audit
    from canary.audits.history import History

_UNANSWERED = 3
"""The exit code where nothing was decided."""


@dataclass(frozen=True)
class Limits:
    """What is judged, and how."""

    max_exposure_bits: float | None = None
    statistic: Literal["median", "maximum"] = "median"
    max_p: float | None = None
    no_extraction: bool = False
    max_epsilon: float | None = None
    delta: float = 0.0
    guesses: Count | None = None
    trust_injection: bool = False
    confidence: float | None = None
    undecided: Literal["pass", "fail"] = "fail"
    seed: Whole = 0

    @property
    def given(self) -> bool:
        """Whether there is one."""
        numbers = (self.max_exposure_bits, self.max_p, self.max_epsilon)
        return self.no_extraction or any(number is not None for number in numbers)

    @property
    def details(self) -> dict[str, bool]:
        """Which of the options that only a limit heeds were given."""
        return {
            one.name: getattr(self, one.name) != one.default
            for one in fields(self)
            if one.name != "seed"
        }


@dataclass(frozen=True)
class Compared:
    """What several results are called, and how well their models do."""

    label: list[str] | None = None
    test_loss: list[float] | None = None
    test_scores: list[Path] | None = None

    def read(self, audit_files: list[Path]) -> list[Path]:
        """The files that a command with these options reads."""
        return [*map(audit_in, audit_files), *(self.test_scores or [])]

    def results(self, files: list[Path]) -> tuple[list[Audit] | History, dict[str, Any]]:
        """The audits in some files, or the history of a training in a single one; what to call it.

        Without labels they are the files' names where the models do not distinguish the audits.
        """
        from canary.audits.audit_result import Audit
        from canary.audits.history import KIND, History
        from canary.records.versioned_json import kind_of
        from canary.reports.comparison import measured_losses

        if self.test_loss and self.test_scores:
            raise InputError(
                "--test-loss and --test-scores are both given", cure="give one of them"
            )
        losses = measured_losses(self.test_scores) if self.test_scores else self.test_loss or None
        places = [audit_in(file) for file in files]
        histories = [place for place in places if kind_of(place) == KIND]
        if histories and len(files) > 1:
            raise InputError(
                "is the history of a training, which cannot be compared",
                cure="give it as the only file",
                where=str(histories[0]),
            )
        if histories:
            return History.load(histories[0]), {"labels": self.label, "test_losses": losses}
        audits = [Audit.load(place) for place in places]
        models = {str(audit.model.get("name")) for audit in audits}
        names = [str(file) for file in files]
        unclear = len(models) < len(audits) and len(set(names)) == len(names)
        labels = self.label or (names if unclear else None)
        return audits, {"labels": labels, "test_losses": losses}


@command(
    "check audit/audit.json --max-exposure-bits 10 --max-p 0.001 --no-extraction "
    "--verification verified.json --junit canary.xml --markdown canary.md",
    "check audit/audit.json --max-exposure-bits 12 --statistic maximum --trust-injection --json",
    "check audit/audit.json --baseline baseline.json --update-baseline",
    "check audit/audit.json --baseline baseline.json --verification verified.json",
    audit_files="AUDIT...: The audit.json that canary audit wrote. Give several only for different "
    "seeds of the same training.",
    statistic="Which exposure is limited: the median for each number of copies, or the largest of "
    "all.",
    max_p="P: The level of the test of evidence. The verdict is memorized if canaries of some "
    "number of copies look learned at it (Fisher, Holm).",
    no_extraction="The verdict is memorized if the audit extracted a canary from the model.",
    baseline="FILE: The verdict is memorized if canaries are more exposed than in this baseline.",
    update_baseline="Write the audits to --baseline instead of comparing with it, after all other "
    "limits are checked.",
    max_epsilon="EPSILON: The verdict is memorized if training is certainly less private than "
    "this. It needs --canaries from canary generate --coin-flips.",
    canaries="[Privacy bound] FILE: The canary set that was audited, for its coins.",
    repetitions="[Statistics] N,N,...: The numbers of copies to check.  [default: all]",
    seed="[Statistics] N: The seed of all random draws; the same seed gives the same result.",
    confidence="LEVEL: The confidence of a verdict on exposure, or of the bound on epsilon.  "
    "[default: 0.9, or 0.95 for epsilon]",
    undecided="The exit code of an undecided verdict: fail gives 3, pass gives 0.",
    report="FILE: Also write the report of the audit, with the limit and the verdict.",
    junit="FILE: Also write the verdict as JUnit XML.",
    markdown="FILE: Also write the verdict as Markdown.",
)
def check(
    audit_files: list[Path],
    *,
    limits: Limits,
    baseline: Path | None = None,
    update_baseline: bool = False,
    canaries: Path | None = None,
    repetitions: str | None = None,
    verification: Path | None = None,
    report: Path | None = None,
    junit: Path | None = None,
    markdown: Path | None = None,
) -> Result:
    """Compare an audit with limits, and give a verdict.

    Give one limit or more: --max-exposure-bits, --max-p, --no-extraction, --baseline or
    --max-epsilon. One line explains the verdict. The guide is docs/guides/gate.md.

    Exit codes: 0 passed, 1 memorized, 2 wrong input, 3 undecided.
    """
    from canary.audits.audit_result import Audit
    from canary.corpus.canaries import CanarySet
    from canary.corpus.verification import Verification
    from canary.gate.baselines import KIND as BASELINE
    from canary.gate.check_audit import check as judge
    from canary.gate.check_audit import new_baseline
    from canary.gate.verdict import KIND, SCHEMA
    from canary.records.files import JUNIT, MARKDOWN, PAGES
    from canary.reports.pages import report as write_report
    from canary.reports.verdicts import write_junit, write_markdown

    if update_baseline and baseline is None:
        raise InputError(
            "--update-baseline without --baseline", cure="name the file with --baseline FILE"
        )
    if update_baseline and not limits.given:
        files = {"canaries": canaries, "report": report, "junit": junit, "markdown": markdown}
        of_a_verdict = {**files, "repetitions": repetitions, **limits.details}
        if useless := [flag_of(name) for name, given in of_a_verdict.items() if given]:
            raise InputError(
                f"--update-baseline without a limit judges nothing, so {', '.join(useless)} would "
                "be ignored",
                cure="give a limit as well, or omit these options; a baseline holds all canaries",
            )
    compared, new = (None, baseline) if update_baseline else (baseline, None)
    places = [audit_in(file) for file in audit_files]
    read = [*places, *(file for file in (canaries, verification, compared) if file is not None)]
    outputs = ((report, PAGES), (junit, (JUNIT,)), (markdown, (MARKDOWN,)), (new, (BASELINE,)))
    written = [(file, kinds) for file, kinds in outputs if file is not None]
    check_outputs(written, inputs=read, force=None)
    audits = [Audit.load(place) for place in places]
    verified = None if verification is None else Verification.load(verification)
    made = None if new is None else new_baseline(audits, verification=verified)
    verdict = None
    if limits.given or made is None:
        numbers = None if repetitions is None else whole_numbers(repetitions, "--repetitions")
        verdict = judge(
            audits,
            baseline=compared,
            canaries=None if canaries is None else CanarySet.load(canaries),
            repetitions=numbers,
            verification=verified,
            **vars(limits),
        )
        if report is not None:
            write_report(verdict, report)
        if junit is not None:
            write_junit(verdict, junit)
        if markdown is not None:
            write_markdown(verdict, markdown)
    if made is not None and new is not None:
        made.save(new)
        say(f"The baseline of {plural(len(audits), 'audit')} is in {new}")
    if verdict is None:
        return Result("canary baseline written", {"out": str(new), "audits": len(audits)})
    others = [f"{finding.outcome}: {finding}" for finding in verdict.others]
    show_report(verdict, answer=[str(verdict), *others])
    return Result(KIND, verdict.to_dict(), SCHEMA, verdict.exit_code)


@command(
    "report audit/audit.json --out report.html",
    'report a/audit.json b/audit.json --label "dropout 0" --label "dropout 0.5" '
    "--test-loss 4.31 --test-loss 4.36 --out comparison.html",
    "report a/audit.json b/audit.json --test-scores a/scores.jsonl "
    "--test-scores b/scores.jsonl --out comparison.html --force",
    "report output/canary_history.json --out training.html",
    out="FILE: The page to write.",
)
def report(
    audit_files: list[Path],
    *,
    out: Path,
    names: Names,
    compared: Compared,
    force: bool = False,
) -> Result:
    """Write the report of an audit, or compare several.

    The comparison shows exposure and utility (test loss) side by side, with the Pareto front, and
    says which audits cannot be compared. The report of a monitored training shows exposure against
    training steps.
    """
    from canary.records.files import PAGES
    from canary.reports.pages import report as write_report

    check_outputs([(out, PAGES)], inputs=compared.read(audit_files), force=force)
    results, called = compared.results(audit_files)
    page = write_report(results, out, **called, **vars(names))
    say(f"The report is {page}")
    return Result("canary report", {"out": str(page)})


@command(
    "plot audit/audit.json --kind histogram --out histogram.svg",
    "plot a/audit.json b/audit.json --test-loss 4.31 --test-loss 4.36 --kind utility "
    "--repetitions 4 --out utility.pdf",
    out="FILE: The figure to write: .svg, .pdf, or .png at 300 dpi.",
    kind="exposure by number of copies, the histogram of one audit's candidates, or the utility of "
    "several audits against their exposure.",
    format="N: The format that is shown, by its number in the report.",
    repetitions="[Figure] N: For utility, how many copies the canaries have.  [default: the most]",
    skew_normal="For several audits, show estimates from the skew-normal curves, which are numbers "
    "where draws give only bounds.",
)
def plot(
    audit_files: list[Path],
    *,
    out: Path,
    kind: Literal["exposure", "histogram", "utility"] = "exposure",
    format: Count = 1,
    repetitions: Count | None = None,
    skew_normal: bool = False,
    compared: Compared,
    force: bool = False,
) -> Result:
    """Write one figure of audits or of a training, for print."""
    from canary.records.files import FIGURES
    from canary.reports.pages import plot_file

    check_outputs([(out, FIGURES)], inputs=compared.read(audit_files), force=force)
    results, called = compared.results(audit_files)
    figure = plot_file(
        results,
        out,
        kind=kind,
        format=format - 1,
        repetitions=repetitions,
        skew_normal=skew_normal,
        **called,
    )
    say(f"The figure is {figure}")
    return Result("canary plot", {"out": str(figure)})


@command(
    "forgotten --query-model query.npz --target target.npz --calibration other1.npz "
    "--calibration other2.npz --out forgetting/",
    "forgotten --query-model query.jsonl --target unlearned.jsonl --calibration other.jsonl "
    "--retrained retrained.jsonl --out forgetting/ --force --json",
    query_model="FILE: Outputs on the query set from a model that was trained on it: an .npz, "
    "Parquet or CSV file with logits (or probs, or losses) and labels, or a .jsonl file that "
    "canary score wrote. Repeat it for more models.",
    target="FILE: The same for the model that should have forgotten.",
    calibration="FILE: The same for a model that was trained on other data of the domain. Repeat "
    "it for more models; p = 0.05 needs 19 or more.",
    out="FOLDER: Where forgetting.json and report.html go.",
    retrained="FILE: The same for a model that was retrained without the query set. Repeat it for "
    "more models.",
    unseen="FILE: Outputs of the target on other samples that it never saw, for an additional "
    "membership attack.",
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

    from canary.membership.forgetting import KIND, SCHEMA
    from canary.membership.forgetting import forgotten as compare

    read = [*query_model, target, *calibration, *(retrained or [])]
    read += [path for path in (unseen, query_data, calibration_data) if path]
    with report_folder(out, KIND, "forgetting.json", inputs=read, force=force) as folder:
        sets = [None if path is None else _samples(path) for path in (query_data, calibration_data)]
        with Bars() as bars:
            comparison = compare(
                query_model,
                target,
                calibration,
                retrained=retrained,
                unseen=unseen,
                query_data=sets[0],
                calibration_data=sets[1],
                confidence=confidence,
                resamples=resamples,
                seed=seed,
                progress=bars.stage,
            )
        named = names.on(comparison.named(model=target.name))
        result = folder.finish(named, named.to_dict(), SCHEMA)
    answered = comparison.answer != "undecided" or comparison.alike or comparison.remembered
    return result if answered else replace(result, code=_UNANSWERED)


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

    This takes half a minute. The text ships with Python, so nothing is downloaded. With
    --no-inject no canary goes in, and the audit must find none.
    """
    from canary.audits.audit_result import KIND, SCHEMA
    from canary.demo import FILES, run
    from canary.records.files import folder_made

    written = [(out / name, kinds) for name, kinds in FILES.items()]
    with folder_made(out), folder_made(out / "model"), Bars() as bars:
        check_outputs(written, inputs=[], force=force)
        result = run(out, inject=inject, seed=seed, progress=bars.stage, say=bars.say)
    show_report(result)
    secrets = [out / "canaries.json", *([out / "corpus.jsonl"] if inject else [])]
    say(f"Secrets are in clear in {' and '.join(map(str, secrets))}")
    return Result(KIND, result.to_dict(), SCHEMA)
