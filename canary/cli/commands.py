"""The command `canary`: all its commands, in the order of their modules."""

from __future__ import annotations

from typing import Annotated

import typer

from canary import __version__

# Each registers its commands.
from canary.cli import (  # noqa: F401
    before_training,
    check_command,
    checkpoints_command,
    command,
    corpus_contents,
    extract_command,
    kinds_commands,
    membership_commands,
    membership_models,
    membership_plan,
    model_commands,
    order_command,
    plan_command,
    result_commands,
    sample_command,
    verbatim_command,
)
from canary.cli.command import epilog, membership

app = command.app


@membership.callback(epilog=epilog("membership attack --help"))
def _membership_root() -> None:
    """Attack classifiers and language models: can training samples be identified?

    The guides are docs/guides/membership.md, docs/guides/many-models.md for many models, and
    docs/guides/membership-text.md for texts.
    """


app.add_typer(membership, name="membership")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"canary {__version__}")
        raise typer.Exit


@app.callback(epilog=epilog("demo --out demo/"))
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Test whether a trained model has memorized its training data.

    Put canaries into a corpus, train as usual, audit the model, and check the audit.
    canary COMMAND --help explains a command and ends with an example.

    Results go to stdout; progress and errors go to stderr. With --json, stdout has only the JSON
    document, and the result in words goes to stderr as well.
    """
