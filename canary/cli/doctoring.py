"""The command doctor: whether a model's numbers can be believed, check by check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from canary.cli.console import emit, say, show_table
from canary.cli.model_options import ModelOptions, takes_model_options
from canary.cli.options import Json, Model
from canary.errors import ModelError

if TYPE_CHECKING:
    from canary.models.doctor import Examination

_REFUSED = 2


Tokens = Annotated[
    int | None,
    typer.Option(
        "--tokens",
        min=1,
        help="Of the longest rows: as many as the longest candidate, its context included.  "
        "[default: 256, or what the model takes]",
    ),
]


@takes_model_options
def doctor(
    model: Model, *, options: ModelOptions, tokens: Tokens = None, as_json: Json = False
) -> None:
    """Say whether a model's numbers can be believed, check by check.

    Each line is a check, its result and what was measured. Exit code 0: no check refused the
    model; 2: one did, and its numbers must not be used.
    """
    from canary.models.doctor import examine, unloadable
    from canary.models.whole_reading import TOKENS_BY_DEFAULT

    try:
        loaded = options.load(model)
    except ModelError as error:
        found = unloadable(model, error)
    else:
        length = tokens or TOKENS_BY_DEFAULT
        found = examine(loaded, start_token=options.start_token, tokens=length)
    _show(found)
    if as_json:
        emit("canary doctor", found.to_dict())
    if not found.sound:
        raise typer.Exit(_REFUSED)


def _show(found: Examination) -> None:
    show_table(
        ("check", "result", "measured"),
        ((f.check, f.verdict, f.figure) for f in found.findings),
    )
    for finding in found.findings:
        if finding.verdict != "fine" and finding.cure:
            check = "" if finding.verdict == "not loaded" else f"{finding.check}: "
            say(f"{finding.verdict}: {check}{finding.cure}")
    told = "The model is refused; do not use its numbers"
    if found.sound:
        told = (
            "No check refused the model's numbers. Whether it memorized anything, and which start "
            "token training used, is not checked here"
        )
    elif not found.loaded:
        told = "The model could not be loaded; nothing was checked"
    say(told)
