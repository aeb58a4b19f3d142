"""The commands that decide: check after training, plan before it.

Each body parses, calls, prints. What they call is imported when they run, so that the
help is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from canary.cli.console import emit, say
from canary.cli.options import Json, Seed, decodable, whole_numbers
from canary.cli.outputs import audit_in, check_outputs
from canary.cli.terminal_tables import show_notes
from canary.errors import InputError
from canary.statistics.numbers import plural

PolicyName = Literal["pass", "fail"]
StatisticName = Literal["median", "maximum"]


def check(
    audit_files: Annotated[
        list[Path],
        typer.Argument(
            metavar="AUDIT...",
            help="The audit.json that audit wrote; several, if they are of different seeds of "
            "one way of training.",
        ),
    ],
    max_exposure_bits: Annotated[
        float | None,
        typer.Option(
            "--max-exposure-bits",
            metavar="BITS",
            help="The largest exposure that passes; memorized if the interval lies above it.",
        ),
    ] = None,
    statistic: Annotated[
        StatisticName,
        typer.Option(
            "--statistic",
            help="Of which exposure: the median of each number of copies, or the largest of all.",
        ),
    ] = "median",
    max_p: Annotated[
        float | None,
        typer.Option(
            "--max-p",
            metavar="P",
            help="Memorized if the canaries of some number of copies look learned at this level "
            "(Fisher, Holm).",
        ),
    ] = None,
    no_extraction: Annotated[
        bool,
        typer.Option(
            "--no-extraction", help="Memorized if the audit brought a canary out of the model."
        ),
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="FILE",
            help="Memorized if canaries are more exposed than in this baseline.",
        ),
    ] = None,
    update_baseline: Annotated[
        bool,
        typer.Option(
            "--update-baseline",
            help="Write the audits to --baseline in place of comparing them, once all else is "
            "judged.",
        ),
    ] = False,
    max_epsilon: Annotated[
        float | None,
        typer.Option(
            "--max-epsilon",
            metavar="EPSILON",
            help="Memorized if training is surely less private than this. It takes --canaries "
            "of generate --coin-flips.",
        ),
    ] = None,
    canaries: Annotated[
        Path | None,
        typer.Option(
            "--canaries", metavar="FILE", help="The canary set that was audited, for its coins."
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option("--delta", help="Of the privacy that --max-epsilon claims.")
    ] = 0.0,
    guesses: Annotated[
        int | None,
        typer.Option(
            "--guesses",
            min=1,
            help="Coins to guess; fix it before you see an audit.  [default: all]",
        ),
    ] = None,
    repetitions: Annotated[
        str | None,
        typer.Option(
            "--repetitions", metavar="N,N,...", help="Numbers of copies to look at.  [default: all]"
        ),
    ] = None,
    verification: Annotated[
        Path | None,
        typer.Option(
            "--verification",
            metavar="FILE",
            help="What verify --json printed of the training corpus: nothing is decided if "
            "canaries were lost there.",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            "--confidence",
            help="Of a verdict on exposure, or of the bound on epsilon.  [default: 0.9, and 0.95]",
        ),
    ] = None,
    undecided: Annotated[
        PolicyName,
        typer.Option("--undecided", help="Whether an undecided verdict ends with 3 or with 0."),
    ] = "fail",
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML as well.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown as well.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say whether a model keeps within limits, by exit code.

    0 passed, 1 memorized, 3 undecided, 2 if nothing can be judged; and one line says why.
    """
    from canary.audits.audit_result import Audit
    from canary.corpus.canaries import CanarySet
    from canary.corpus.verification import Verification
    from canary.gate.baselines import KIND as BASELINE
    from canary.gate.check_audit import check as judge
    from canary.gate.check_audit import new_baseline
    from canary.gate.verdict import KIND, SCHEMA
    from canary.records.overwrite_guard import JUNIT, MARKDOWN
    from canary.reports.verdicts import write_junit, write_markdown

    if update_baseline and baseline is None:
        raise InputError(
            "--update-baseline without --baseline", cure="name the file with --baseline FILE"
        )
    limited = no_extraction or any(x is not None for x in (max_exposure_bits, max_p, max_epsilon))
    if update_baseline and not limited:
        _nothing_is_judged(
            {
                "--canaries": canaries is not None,
                "--guesses": guesses is not None,
                "--repetitions": repetitions is not None,
                "--confidence": confidence is not None,
                "--junit": junit is not None,
                "--markdown": markdown is not None,
                "--delta": delta != 0.0,
                "--statistic": statistic != "median",
                "--undecided": undecided != "fail",
            }
        )
    read = [audit_in(file) for file in audit_files]
    compared, new = (None, baseline) if update_baseline else (baseline, None)
    read += [file for file in (canaries, verification, compared) if file is not None]
    outputs = ((junit, JUNIT), (markdown, MARKDOWN), (new, BASELINE))
    written = [(file, (kind,)) for file, kind in outputs if file is not None]
    check_outputs(written, inputs=read, force=None)
    audits = [Audit.load(audit_in(file)) for file in audit_files]
    verified = None if verification is None else Verification.load(verification)
    made = new_baseline(audits, verification=verified) if update_baseline else None
    written_to = f"The baseline, {plural(len(audits), 'audit')}, is in {baseline}"
    if made is not None and baseline is not None and not limited:
        made.save(baseline)
        say(written_to)
        if as_json:
            emit("canary baseline written", {"out": str(baseline), "audits": len(audits)})
        return
    if not limited and baseline is None:
        raise InputError(
            "there is nothing to check",
            cure="give a limit, such as --max-exposure-bits 10; the others are --max-p, "
            "--no-extraction, --baseline and --max-epsilon",
        )
    verdict = judge(
        audits,
        max_exposure_bits=max_exposure_bits,
        statistic=statistic,
        max_p=max_p,
        no_extraction=no_extraction,
        baseline=None if update_baseline else baseline,
        max_epsilon=max_epsilon,
        canaries=None if canaries is None else CanarySet.load(canaries),
        delta=delta,
        guesses=guesses,
        repetitions=None if repetitions is None else whole_numbers(repetitions, "--repetitions"),
        verification=verified,
        confidence=confidence,
        undecided=undecided,
        seed=seed,
    )
    if junit is not None:
        write_junit(verdict, junit)
    if markdown is not None:
        write_markdown(verdict, markdown)
    if made is not None and baseline is not None:
        made.save(baseline)
        say(written_to)
    say(str(verdict))
    show_notes(verdict.notes)
    if as_json:
        emit(KIND, verdict.to_dict(), schema=SCHEMA)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def _nothing_is_judged(given: Mapping[str, bool]) -> None:
    """Refuse options of a verdict where a baseline is written and no limit given."""
    useless = [option for option, there in given.items() if there]
    if useless:
        raise InputError(
            f"--update-baseline without a limit judges nothing, so {', '.join(useless)} would "
            "be ignored",
            cure="give a limit as well, or leave such options out; a baseline holds all canaries",
        )


def plan(
    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT", callback=decodable, help="Text with holes, as for generate."
        ),
    ],
    repetitions: Annotated[
        str, typer.Option("--repetitions", metavar="N,N,...", help="Numbers of copies.")
    ] = "1,4,16,64",
    per_repetition: Annotated[
        int, typer.Option("--per-repetition", min=1, help="Canaries of each number of copies.")
    ] = 8,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws", min=1, help="Candidates drawn to compare with.  [default: exact ranks]"
        ),
    ] = None,
    max_p: Annotated[
        float, typer.Option("--max-p", metavar="P", help="Level of the test of evidence.")
    ] = 0.001,
    max_exposure_bits: Annotated[
        float | None,
        typer.Option("--max-exposure-bits", metavar="BITS", help="A limit on the median."),
    ] = None,
    exposure_bits: Annotated[
        float | None,
        typer.Option(
            "--exposure-bits",
            metavar="BITS",
            help="A median exposure of which to say how likely it is seen, and how many "
            "canaries that takes.",
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", help="Of a verdict on the limit.")
    ] = 0.9,
    power: Annotated[
        float, typer.Option("--power", help="The wanted chance of seeing what is there.")
    ] = 0.9,
    as_json: Json = False,
) -> None:
    """Say what so many canaries could show, and how many it takes.

    Nothing is trained or loaded for it.
    """
    from canary.gate.planning import plan as planned

    found = planned(
        format,
        repetitions=whole_numbers(repetitions, "--repetitions"),
        per_repetition=per_repetition,
        draws=draws,
        max_p=max_p,
        max_exposure_bits=max_exposure_bits,
        exposure_bits=exposure_bits,
        confidence=confidence,
        power=power,
    )
    for line in found.summary().splitlines():
        say(line)
    if as_json:
        emit("canary plan", found.to_dict())
