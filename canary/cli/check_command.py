"""The command `check`: a result, its limits and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from canary.cli.command import command, flag_of
from canary.cli.console import show, show_report
from canary.cli.model_options import Count, Whole
from canary.cli.options import whole_numbers
from canary.cli.outputs import Names, Result, audit_in, check_outputs
from canary.errors import InputError, OutputError
from canary.records.validation import brief
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.gate.verdict import Verdict
    from canary.models.language_model import LanguageModel


_NEXT = "What to do next: docs/guides/gate.md, section “If it fails or is undecided”"


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
    mechanism: Literal["any", "gaussian"] = "any"
    trust_injection: bool = False
    require_learned: Count | None = None
    confidence: float | None = None
    undecided: Literal["pass", "fail"] = "fail"
    seed: Whole = 0
    max_auc: float | None = None
    max_tpr_at_fpr: list[str] | None = None
    forgotten: bool = False
    min_rho: float | None = None
    trust_members: bool = False
    max_extractable: float | None = None
    tries: Count = 1000
    chance: float = 0.5

    @property
    def given(self) -> bool:
        """Whether there is one."""
        values = (self.max_exposure_bits, self.max_p, self.max_epsilon, self.max_auc, self.min_rho)
        others = (self.max_tpr_at_fpr, self.max_extractable)
        flags = self.no_extraction or self.forgotten
        return flags or any(value is not None for value in (*values, *others))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments in Python."""
        limits = rate_limits(self.max_tpr_at_fpr or ())
        return {**vars(self), "max_tpr_at_fpr": limits or None}

    @property
    def details(self) -> dict[str, bool]:
        """Which of the options that only a limit heeds were given."""
        return {
            one.name: getattr(self, one.name) != one.default
            for one in fields(self)
            if one.name != "seed"
        }


def _unchecked(error: Exception, values: Mapping[str, Any]) -> None:
    """Say in the files of the verdict why there is none; an earlier one would look like this one's.

    As far as they can be written.
    """
    from canary.records.files import JUNIT, MARKDOWN, PAGES
    from canary.reports import unchecked

    for name, kind, write in (
        ("report", PAGES, unchecked.write_unchecked_page),
        ("junit", (JUNIT,), unchecked.write_unchecked_junit),
        ("markdown", (MARKDOWN,), unchecked.write_unchecked_markdown),
    ):
        if (file := values[name]) is not None:
            with suppress(OutputError):
                check_outputs([(file, kind)], inputs=[], force=None)
                write(error, file)


@command(
    "check audit/audit.json --max-exposure-bits 4 --max-p 0.001 --no-extraction "
    "--verification verified.json --junit canary.xml --markdown canary.md",
    "check audit/audit.json --max-exposure-bits 12 --statistic maximum --trust-injection --json",
    "check audit/audit.json --baseline baseline.json --update-baseline",
    "check audit/audit.json --baseline baseline.json --verification verified.json",
    "check membership.json --max-auc 0.9 --max-tpr-at-fpr 0.01=0.5 --trust-members",
    "check forgetting.json --forgotten",
    "check audit/audit.json --max-exposure-bits 4 --verification verified.json "
    '--report verdict.html --model-name letters-1 --corpus-name "letters of 2025" '
    '--auditor "R. Roe"',
    "check order.json --max-p 0.01",
    "check extraction.json --no-extraction --trust-injection",
    "check verbatim.json --max-extractable 0.001 --tries 1000 --chance 0.5 --trust-members",
    failed=_unchecked,
    audit_files="AUDIT...: The audit.json that canary audit wrote. Give several only for different "
    "seeds of the same training. Or one membership.json, models.json, order.json, forgetting.json "
    "or verbatim.json, the samples.json of canary sample, the exposure.json of canary exposure, or "
    "the extraction.json of canary extract.",
    statistic="Which exposure is limited: the median for each number of copies, or the largest of "
    "all.",
    max_p="P: The level of the test of evidence. The verdict is memorized if canaries of some "
    "number of copies look learned at it (Fisher, Holm). Of an order test, or all members "
    "of a test of texts, the verdict is failed at it.",
    no_extraction="The verdict is memorized if the audit, or the extraction, brought a canary out "
    "of the model.",
    baseline="FILE: The verdict is memorized if canaries are more exposed than in this baseline.",
    update_baseline="Write the audits to --baseline instead of comparing with it. The limits that "
    "are given are checked first; without one, nothing is checked.",
    max_epsilon="EPSILON: The verdict is memorized if training is certainly less private than "
    "this. It needs --canaries from canary generate --coin-flips.",
    canaries="[Privacy bound] FILE: The canary set that was audited, for its coins.",
    repetitions="[Statistics] N,N,...: The numbers of copies to check.  [default: all]",
    seed="[Statistics] N: The seed of all random draws; the same seed gives the same result.",
    require_learned="COPIES: A positive control: canaries with this number of copies have no "
    "limit, and the verdict is undecided unless they look learned, with a median that reaches the "
    "limit.",
    confidence="LEVEL: The confidence of a verdict on exposure, or of the bound on epsilon.  "
    "[default: 0.9, or 0.95 for epsilon]",
    undecided="The exit code of an undecided verdict: fail gives 3, pass gives 0.",
    max_auc="AUC: The verdict is failed if the AUC of an attack is above this, from 0.5 to 1.",
    max_tpr_at_fpr="FPR=TPR: The verdict is failed if an attack has a "
    "true positive rate above TPR at the false positive rate FPR. Repeat it for more rates.",
    forgotten="The verdict is the test's answer: passed if no trace was found or the query set is "
    "forgotten, failed if it is not forgotten or something is left.",
    min_rho="RHO: The verdict is failed if rho is below this, above 0 "
    "and at most 1. A model that never saw the query set has about 1.",
    trust_members="Confirm that the model was trained on the members or texts, and on none of the "
    "non-members or controls. Without this a test that shows no sign of them is undecided.",
    max_extractable="SHARE: The verdict is failed if a larger share of the passages comes out of "
    "the model, beyond that of the controls. Above 0, below 1.",
    tries="N: How many samples an attacker draws.",
    chance="CHANCE: With which a passage has to be among these samples to count.",
    history="FILE: The canary_history.json of the training. The verdict is undecided if its "
    "batches held no canary, or fewer copies than planned, or if its last measurement is not of "
    "the audited model.",
    model="MODEL: The audited model as it is now. An audit of other weights is refused.",
    factory="[Further evidence] FUNCTION: Builds --model, as for canary audit.",
    report="FILE: Also write the report of the audit, with the limit and the verdict.",
    junit="FILE: Also write the verdict as JUnit XML; with exit code 2, why there is none.",
    markdown="FILE: Also write the verdict as Markdown; with exit code 2, why there is none.",
    limit_by='TEXT: Who set the limit, and when, for the report: "R. Roe, 2026-11-01".',
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
    history: Path | None = None,
    model: str | None = None,
    factory: str | None = None,
    report: Path | None = None,
    junit: Path | None = None,
    markdown: Path | None = None,
    names: Names,
    limit_by: str | None = None,
    verbose: bool = False,
) -> Result:
    """Compare an audit, or a test of another kind, with limits, and give a verdict.

    Give one limit or more. For audits: --max-exposure-bits, --max-p, --baseline, --max-epsilon or
    --no-extraction. For membership tests: --max-auc or --max-tpr-at-fpr. For forgetting tests:
    --forgotten or --min-rho. For order tests: --max-p. For tests of passages: --max-extractable.
    For extractions: --no-extraction. Exposures have the limits of audits, but for --no-extraction.
    It prints the verdict, a line for each finding, and notes. The guide is docs/guides/gate.md.

    Exit codes: 0 passed, 1 memorized or failed, 2 wrong input, 3 undecided.
    """
    from canary.audits.exposure_result import audit_of
    from canary.corpus.canaries import CanarySet
    from canary.gate.baselines import KIND as BASELINE
    from canary.gate.check_audit import check as judge
    from canary.gate.check_audit import new_baseline
    from canary.gate.subjects import check_options, subject_of
    from canary.gate.verdict import KIND, SCHEMA
    from canary.records.files import JUNIT, MARKDOWN, PAGES
    from canary.reports.pages import report as write_report
    from canary.reports.pages import with_names
    from canary.reports.verdicts import audited_lines, write_junit, write_markdown

    if update_baseline and baseline is None:
        raise InputError(
            "--update-baseline without --baseline", cure="name the file with --baseline FILE"
        )
    if update_baseline and not limits.given:
        files = {
            "canaries": canaries,
            "history": history,
            "report": report,
            "junit": junit,
            "markdown": markdown,
            "limit_by": limit_by,
        }
        of_a_verdict = {**files, "markdown": markdown, "repetitions": repetitions, **limits.details}
        if useless := [flag_of(name) for name, given in of_a_verdict.items() if given]:
            raise InputError(
                f"--update-baseline without a limit judges nothing, so {', '.join(useless)} would "
                "be ignored",
                cure="give a limit as well, or omit these options; a baseline holds all canaries",
            )
    if report is None and markdown is None and any(vars(names).values()):
        raise InputError(
            "names are for a report", cure="give --report FILE or --markdown FILE, or omit them"
        )
    compared, new = (None, baseline) if update_baseline else (baseline, None)
    places = [audit_in(file) for file in audit_files]
    read = [
        *places,
        *(file for file in (canaries, verification, history, compared) if file is not None),
    ]
    outputs = ((report, PAGES), (junit, (JUNIT,)), (markdown, (MARKDOWN,)), (new, (BASELINE,)))
    written = [(file, kinds) for file, kinds in outputs if file is not None]
    check_outputs(written, inputs=read, force=None)
    others = [place for place in places if subject_of(place) != "an audit"]
    if others and len(places) > 1:
        raise InputError(
            f"is {subject_of(others[0])}, and several results were given",
            cure="check it alone",
            where=str(others[0]),
        )
    if others and new is not None:
        check_options(subject_of(others[0]), ["update_baseline"])
    audits = [] if others else [audit_of(place) for place in places]
    made = None if new is None else new_baseline(audits, verification=verification)
    verdict, said = None, list[str]()
    if limits.given or made is None:
        numbers = None if repetitions is None else whole_numbers(repetitions, "--repetitions")
        verdict = judge(
            others[0] if others else audits,
            baseline=compared,
            canaries=None if canaries is None else CanarySet.load(canaries),
            repetitions=numbers,
            verification=verification,
            history=history,
            limit_by=limit_by,
            model=model if factory is None else _built(model, factory),
            **limits.arguments,
        )
        verdict = with_names(verdict, vars(names))
        pages = {report: partial(write_report, force=True)}
        said += _written(verdict, pages | {junit: write_junit, markdown: write_markdown})
    if made is not None and new is not None:
        made.save(new)
        show(f"The baseline of {plural(len(audits), 'audit')} is in {new}")
    if verdict is None:
        show("No limit was given, so nothing was checked: the baseline allows what is in it")
        return Result("canary baseline written", {"out": str(new), "audits": len(audits)})
    lines = verdict.lines(
        [one for one in verdict.ordered if one is not verdict.reason], said=[verdict.reason.cure]
    )
    lines += [*_alone(verdict), *(f"Checked: {line}" for line in audited_lines(verdict))]
    show_report(verdict, answer=[verdict.in_short, *lines], short=not verbose)
    for line in said:
        show(line)
    return Result(KIND, verdict.to_dict(), SCHEMA, verdict.exit_code)


def _alone(verdict: Verdict) -> list[str]:
    """That nobody should rely on a pass against weak attacks alone, or what to do without one."""
    from canary.gate.verdict import NOT_MADE
    from canary.reports.document import sentence

    if verdict.audits and verdict.outcome != "passed":
        return [_NEXT]
    weak = verdict.outcome == "passed" and verdict.about.get(NOT_MADE)
    return [sentence("limit.decide", weak=True).replace(" below", "")] if weak else []


def _built(model: str | None, factory: str) -> LanguageModel | None:
    """The model of a folder, by a function that builds it."""
    from canary.models.loading import load

    return None if model is None else load(model, factory=factory)


def _written(
    verdict: Verdict, pages: Mapping[Path | None, Callable[[Verdict, Path], object]]
) -> Iterator[str]:
    """Write a verdict to the files that were asked for, and say so."""
    for file, write in pages.items():
        if file is not None:
            before = " in place of an earlier one" if file.exists() else ""
            write(verdict, file)
            yield f"The verdict is in {file}{before}"


def rate_limits(given: Sequence[str]) -> dict[float, float]:
    """The limits in several ``0.001=0.02``, by rate."""
    limits: dict[float, float] = {}
    for pair in given:
        rate, sign, limit = pair.partition("=")
        if not sign:
            raise InputError(
                f"expected a false positive rate and a limit, got {brief(pair)}",
                cure="write 0.001=0.02",
                where="max_tpr_at_fpr",
            )
        try:
            fpr, most = float(rate), float(limit)
        except ValueError as error:
            raise InputError(
                f"expected a false positive rate and a limit as shares, got {brief(pair)}",
                cure="write 0.01=0.05 for at most 5 % at a false positive rate of 1 %",
                where="max_tpr_at_fpr",
            ) from error
        if fpr in limits:
            raise InputError(
                "two limits at one false positive rate",
                cure="give one of them",
                where="max_tpr_at_fpr",
            )
        limits[fpr] = most
    return limits
