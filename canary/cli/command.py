"""How a function becomes a command: its positional parameters are arguments, the others options.

The words that describe them come from the call of `command` and from `options.HELP`. A command
parses, calls and prints; what it calls it imports when it runs, so that the help is quick.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from canary.cli.console import emit
from canary.cli.dry_run import run_counted
from canary.cli.help_pages import CommandPage, GroupPage
from canary.cli.options import CALLBACKS, HELP, PANEL_OF, SHARES, decodable, share
from canary.cli.outputs import Result, check_paths
from canary.cli.standard_streams import check_stdout, results_alone
from canary.errors import CanaryError

app = typer.Typer(
    cls=GroupPage,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"max_content_width": 100},
)
membership = typer.Typer(cls=GroupPage, rich_markup_mode=None)

_WORDS = re.compile(r"(?:\[([^\]]+)\] )?(?:([A-Z][A-Z .,:=]*): )?(.*)", re.DOTALL)

_LED = re.compile(r"(?:[a-z ]+: )?((?:each of )?)(\w+)(?= must be )")
"""How `canary.records.validation` begins a message: with an argument in Python."""

_CALLED_OTHERWISE = {
    "attack_epsilon": "--coin-flips",
    "correct_guesses": "--guesses",
    "epsilon_lower_bound": "--delta",
    "labels": "--label",
    "survey": "--coin-flips",
    "test_losses": "--test-loss",
    "tpr_at_fpr": "--fpr",
}
"""Options by places of errors that are called by no argument of their command."""


def command(
    *examples: str,
    failed: Callable[[Exception, Mapping[str, Any]], None] | None = None,
    **words: str,
) -> Callable[[Callable[..., Result | None]], Callable[..., None]]:
    """Make a command of a function that parses, calls, prints, and gives a `Result`.

    A parameter that is a dataclass becomes an option for each of its fields, those of its bases
    last.
    ``--json`` is an option of every command; one that has a parameter `as_json` prints its own.

    Parameters
    ----------
    examples : str
        Command lines for the help, without ``canary``; the first word may be that of a group.
    failed : function, optional
        Called with an error that ends the command, and with the values of its options.
    words : str
        The help of each parameter, ``"METAVAR: what it is"``; in place of `HELP` where both have
        one. With ``"[Panel] "`` in front, the option is in that panel of this command.
    """

    def decorated(function: Callable[..., Result | None]) -> Callable[..., None]:
        hints = get_type_hints(function)
        del hints["return"]
        groups: dict[str, Any] = {n: hint for n, hint in hints.items() if is_dataclass(hint)}
        parameters = _parameters(function, groups)
        prints = parameters[-1].name == "as_json"
        if not prints:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter("as_json", kind, annotation=bool, default=False))
        for group in groups.values():
            hints |= get_type_hints(group)
        shown = [
            _shown(one, hints.get(one.name, bool), words.get(one.name) or HELP[one.name])
            for one in parameters
        ]
        options = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        flags = {name: flag_of(name) for name in options}

        @functools.wraps(function)
        def run(**values: Any) -> None:
            with (
                results_alone(as_json=values["as_json"]),
                _told(failed, {**values}),
                _named_by_flags(flags),
            ):
                check_paths(values)
                check_stdout()
                as_json = values["as_json"] if prints else values.pop("as_json")
                for name, made in groups.items():
                    values[name] = made(**{one.name: values.pop(one.name) for one in fields(made)})
                result = run_counted(function, values)
                if result is None:
                    return
                if as_json:
                    emit(result.kind, result.body, schema=result.schema)
                if result.code:
                    raise typer.Exit(result.code)

        run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        parent = membership if examples[0].startswith("membership ") else app
        parent.command(cls=CommandPage, epilog=epilog(*examples))(run)
        return run

    return decorated


def epilog(*examples: str) -> str:
    """The end of a help: command lines, each in one piece, so that it can be copied."""
    heading = "Example:" if len(examples) == 1 else "Examples:"
    return "\n".join(["\b", heading, *(f"canary {example}" for example in examples)])


def _parameters(function: Callable[..., Any], groups: Mapping[str, Any]) -> list[inspect.Parameter]:
    """What a command takes, groups of options field by field."""
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            parameters.append(parameter)
            continue
        hints = get_type_hints(group, include_extras=True)
        names = [name for kind in group.__mro__ for name in vars(kind).get("__annotations__", ())]
        for name in dict.fromkeys(names):
            default = getattr(group(), name)
            parameters.append(parameter.replace(name=name, annotation=hints[name], default=default))
    return parameters


def _shown(parameter: inspect.Parameter, kind: Any, words: str) -> inspect.Parameter:
    """A parameter of a plain type as typer reads it."""
    name, hint = parameter.name, parameter.annotation
    panel, metavar, sentences = _WORDS.fullmatch(words).groups()  # type: ignore[union-attr]
    about: dict[str, Any] = {
        "metavar": metavar,
        "help": sentences,
        "callback": CALLBACKS.get(name, decodable if _holds_text(kind) else None),
        "parser": share if name in SHARES and not _holds_text(kind) else None,
    }
    for part in (hint, *get_args(hint)):
        if get_origin(part) is Annotated:
            about["min"] = part.__metadata__[0]
    if parameter.kind is not parameter.KEYWORD_ONLY:
        described: Any = typer.Argument(**about)
    else:
        both = f"/--no-{name.replace('_', '-')}" if parameter.default is True else ""
        about["rich_help_panel"] = panel or PANEL_OF.get(name)
        described = typer.Option(f"{flag_of(name)}{both}", **about)
    return parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=Annotated[kind, described])


def flag_of(name: str) -> str:
    """The option of a parameter."""
    return "--json" if name == "as_json" else f"--{name.replace('_', '-')}"


def _holds_text(hint: Any) -> bool:
    return hint is str or any(map(_holds_text, get_args(hint)))


@contextmanager
def _told(
    failed: Callable[[Exception, Mapping[str, Any]], None] | None, values: Mapping[str, Any]
) -> Iterator[None]:
    """Call `failed` with what the block raises, unless it is an exit code or a closed pipe."""
    try:
        yield
    except (typer.Exit, BrokenPipeError):
        raise
    except Exception as error:
        if failed is not None:
            failed(error, values)
        raise


@contextmanager
def _named_by_flags(flags: Mapping[str, str]) -> Iterator[None]:
    """Have errors of the block name options of a command, not arguments in Python."""
    try:
        yield
    except CanaryError as error:
        place = error.where.rpartition(": ")[2]  # "plan: repetitions"
        option = _CALLED_OTHERWISE.get(place, "")
        error.where = flags.get(place, option if option in flags.values() else error.where)
        led = _LED.match(error.problem)
        if led and (flag := flags.get(led[2])):
            error.problem = f"{led[1]}{flag}{error.problem[led.end() :]}"
        # Words that are English as well are options only where "=" follows.
        if named := [name if "_" in name else rf"{name}(?==True|=\.\.\.)" for name in flags]:
            # "file_format (--file-format)" names the option already.
            argument = re.compile(
                rf"(?<![-\w.])({'|'.join(named)})(?![-\w])(?: \(--[-a-z]+\)|=True|=\.\.\.)?"
            )
            error.problem = argument.sub(lambda m: flags[m[1]], error.problem)
            cure = re.sub(r", in Python \w+| \(in Python \w+(, \w+)*\)", "", error.cure)
            value = re.compile(rf'\b({"|".join(flags)})="(\w+)"(?: or "(\w+)")?')
            cure = value.sub(
                lambda m: " or ".join([f"{flags[m[1]]} {m[2]}", *filter(None, m.groups()[2:])]),
                cure,
            )
            number = re.compile(
                rf"\b({'|'.join(flags)})=(?:\{{([\d.]+): ([\d.]+)\}}|(\d[\d.]*\d|\d))"
            )
            cure = number.sub(
                lambda m: f"{flags[m[1]]} {m[4] or f'{m[2]}={m[3]}'}",
                cure,
            )
            error.cure = argument.sub(lambda m: flags[m[1]], cure)
        error.args = (error.problem,)
        raise
