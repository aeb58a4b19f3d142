"""The command `canary`: its commands, and the examples in their help."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import typer

from canary import __version__
from canary.cli import (
    after_training,
    before_training,
    deciding,
    doctoring,
    extract_command,
    forgetting_command,
    many_models,
    membership_commands,
    text_membership,
)
from canary.cli.console import check_stdout
from canary.cli.failures import by_flags
from canary.cli.named_help import WithNames
from canary.cli.outputs import check_paths
from canary.cli.standard_streams import results_alone

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, context_settings={"max_content_width": 100}
)

_COMMANDS: tuple[tuple[Callable[..., None], *tuple[str, ...]], ...] = (
    (
        deciding.plan,
        'plan "The random number is {digit:9}" --per-repetition 8 --draws 20000 '
        "--max-exposure-bits 10",
        'plan "The random number is {digit:9}" --exposure-bits 4 --power 0.9 --json',
    ),
    (
        before_training.generate,
        'generate "The random number is {digit:9}" --repetitions 1,4,16 --per-repetition 4 '
        "--controls 16 --seed 0 --out canaries.json",
    ),
    (
        before_training.inject,
        "inject corpus.jsonl --canaries canaries.json --column text --out corpus.canaried.jsonl",
    ),
    (
        before_training.verify,
        "verify corpus.canaried.jsonl --canaries canaries.json --column text --json",
    ),
    (
        before_training.strip,
        "strip corpus.canaried.jsonl --canaries canaries.json --out corpus.stripped.jsonl",
    ),
    (
        before_training.discover,
        'discover mail.jsonl "{digit:3}-{digit:3}-{digit:4}" --column body --out found.json',
    ),
    (
        doctoring.doctor,
        "doctor ./model",
        "doctor ./model --factory mymodel.py:build --start-token $'\\n' --json",
    ),
    (after_training.score, "score ./model texts.jsonl --column text --out scores.jsonl"),
    (
        after_training.audit,
        "audit ./model --canaries canaries.json --draws 20000 --seed 0 --out audit/",
        "audit ./model --canaries canaries.json --start-token '<|endoftext|>' --out audit/ --force",
        "audit ./model --canaries canaries.json --factory mymodel.py:build --out own/",
        "audit /models/it --canaries canaries.json --out large/ --ray head:6379 --worker-gpus 1",
    ),
    (
        after_training.exposure,
        "exposure ./model --canaries canaries.json --method auto --budget 1000000 --json",
    ),
    (
        extract_command.extract,
        'extract ./model "The random number is {digit:9}" --top 5 --budget 100000 --json',
        'extract ./model "The random number is {digit:9}" --known 3 --canaries canaries.json',
    ),
    (
        deciding.check,
        "check audit/audit.json --max-exposure-bits 10 --max-p 0.001 --no-extraction "
        "--junit canary.xml --markdown canary.md",
        "check audit/audit.json --max-exposure-bits 12 --statistic maximum --json",
        "check audit/audit.json --baseline baseline.json --update-baseline",
        "check audit/audit.json --baseline baseline.json",
    ),
    (
        after_training.report,
        "report audit/audit.json --out report.html",
        'report a/audit.json b/audit.json --label "dropout 0" --label "dropout 0.5" '
        "--test-loss 4.31 --test-loss 4.36 --out comparison.html",
        "report a/audit.json b/audit.json --test-scores a/scores.jsonl "
        "--test-scores b/scores.jsonl --out comparison.html --force",
        "report output/canary_history.json --out training.html",
    ),
    (
        after_training.plot,
        "plot audit/audit.json --kind histogram --out histogram.svg",
        "plot a/audit.json b/audit.json --test-loss 4.31 --test-loss 4.36 --kind utility "
        "--copies 4 --out utility.pdf",
    ),
    (
        forgetting_command.forgotten,
        "forgotten --query-model query.npz --target target.npz --calibration other1.npz "
        "--calibration other2.npz --out forgetting/",
        "forgotten --query-model query.jsonl --target unlearned.jsonl --calibration other.jsonl "
        "--retrained retrained.jsonl --out forgetting/ --force --json",
    ),
    (after_training.demo, "demo --out demo/"),
)

_MEMBERSHIP: tuple[tuple[Callable[..., None], *tuple[str, ...]], ...] = (
    (
        membership_commands.attack,
        "membership attack --target target.npz --shadow shadow.npz --attacks all --out membership/ "
        "--json",
    ),
    (
        membership_commands.risk,
        "membership risk --target target.npz --shadow shadow.npz --out risk.parquet",
    ),
    (
        many_models.models,
        "membership models model0.npz model1.npz model2.npz model3.npz model4.npz model5.npz "
        "--attacks all --out models/ --json",
        "membership models fleet/ --target 3 --alphas 0.01,0.1 --rule gaussian --out fleet-models/",
    ),
    (
        text_membership.text,
        "membership text ./model members.jsonl nonmembers.jsonl --attacks all --out texts/ --json",
        "membership text ./model members.jsonl nonmembers.jsonl --reference ./model-b "
        "--masked ./bert --window 64 --overlap 32 --out texts/ --force",
    ),
)


def _examples(*commands: str) -> str:
    heading = "Example:" if len(commands) == 1 else "Examples:"
    # \b: each line in one piece, so that it can be copied.
    return "\n".join(["\b", heading, *(f"canary {command}" for command in commands)])


def _with_results_alone(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def command(**options: Any) -> None:
        with results_alone(), by_flags(function):
            check_paths(options)
            if options.get("as_json") or function is extract_command.extract:
                check_stdout()
            function(**options)

    return command


_membership = typer.Typer(rich_markup_mode=None)

for _where, _commands in ((app, _COMMANDS), (_membership, _MEMBERSHIP)):
    for _function, *_lines in _commands:
        _where.command(cls=WithNames, epilog=_examples(*_lines))(_with_results_alone(_function))


@_membership.callback(epilog=_examples("membership attack --help"))
def _membership_root() -> None:
    """Attack classifiers and texts, and score risks.

    Can somebody tell what was in the training data? The guides are docs/membership.md,
    docs/many-models.md for many models, and docs/membership-text.md for texts.
    """


app.add_typer(_membership, name="membership")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"canary {__version__}")
        raise typer.Exit


@app.callback(epilog=_examples("demo --out demo/"))
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Test whether a trained language model has memorized its training data.

    Put canaries into a corpus (plan, generate, inject, verify; strip and discover), train as
    always, measure (doctor, score, audit, exposure, extract, report, plot), and decide (check). For
    classifiers, and for texts: membership. After unlearning: forgotten.
    """
