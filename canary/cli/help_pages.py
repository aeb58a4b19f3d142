"""What ``--help`` prints: a usage line, options by panel, commands by job, names of registries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import cleandoc
from textwrap import fill
from typing import Any

from typer.core import TyperCommand, TyperGroup

from canary.cli.options import PANEL_OF, PANELS

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Start here": ("demo",),
    "Before training": (
        *(
            "plan",
            "generate",
            "pool",
            "extend",
            "inject",
            "verify",
            "discover",
            "duplicates",
            "strip",
        ),
    ),
    "After training": (
        *("doctor", "audit", "exposure", "checkpoints", "extract", "verbatim", "sample", "score"),
    ),
    "Decide": ("check",),
    "Forgetting": ("forgotten",),
    "Classifiers and texts": (
        *(f"membership {name}" for name in ("attack", "risk", "models", "text", "order", "plan")),
    ),
    "Reports and figures": ("report", "plot"),
}
"""The commands by job, in the order of the help."""

Rows = list[tuple[str, str]]

_WIDEST = 26  # of the column of names
_RANGE = re.compile(r"; x>=[\d.]+(?=\])|\s*\[x>=[\d.]+\]")
_NAMED = re.compile(
    "(?:SHADOW|MODEL|TEXT)-ATTACKS|(?:AUDIT|EXPOSURE)-METHODS(?:-HELP)?|FILE-FORMATS|SEPARATORS|"
    "DECODING-OPTIONS"
)


class CommandPage(TyperCommand):
    """The help of a command.

    Its words may hold ``TEXT-ATTACKS``, ``FILE-FORMATS`` and the like, which become the names in
    the registries when the help is shown.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options, with the names in their help."""
        params: list[Any] = super().get_params(ctx)
        for option in params:
            option.help = _NAMED.sub(lambda found: _names(found[0]), option.help or "")
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments, and the options that are required."""
        params = self.get_params(ctx)
        needed = [f"{p.opts[0]} {p.metavar}" for p in params if _is_option(p) and p.required]
        named = [p for p in params if not _is_option(p)]
        words = [p.metavar if p.required else f"[{p.metavar}]" for p in named]
        return [*words, *needed, "[OPTIONS]"]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does; no name of an option is broken."""
        for paragraph in cleandoc(self.help or "").split("\n\n"):
            words = " ".join(paragraph.split())
            formatter.write(f"\n{_filled(words, formatter, '  ', '  ')}\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel."""
        _write(panels_of(self, ctx), formatter)


class GroupPage(TyperGroup):
    """The help of a group of commands: the commands by job, and then its options."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What every command line has."""
        return ["COMMAND", "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each job, and one for the options."""
        params: list[Any] = self.get_params(ctx)
        options = [param.get_help_record(ctx) for param in params]
        _write({**groups_of(self), "Options": options}, formatter)


def panels_of(command: Any, ctx: Any) -> dict[str, Rows]:
    """Arguments and options by panel: how each is written, and its help."""
    found: dict[str, Rows] = {}
    for param in command.get_params(ctx):
        panel = "Options" if _is_option(param) else "Arguments"
        if param.name == "help":
            panel = PANEL_OF[param.name]
        written, words = param.get_help_record(ctx)
        name = written if _is_option(param) else param.metavar
        row = name, _RANGE.sub("", words)
        found.setdefault(getattr(param, "rich_help_panel", None) or panel, []).append(row)
    order = ("Arguments", "Options", *PANELS, *found)
    return {title: found[title] for title in order if title in found}


def groups_of(group: Any) -> dict[str, Rows]:
    """The commands of a group by job: the name of each, and the first sentence of its help."""
    there = commands_of(group)
    if not group.name:
        return {
            title: [(name, first_sentence(there[name])) for name in names]
            for title, names in GROUPS.items()
        }
    return {"Commands": [(name, first_sentence(command)) for name, command in there.items()]}


def commands_of(group: Any, before: str = "") -> dict[str, Any]:
    """The commands of a group and of the groups in it, by their whole names."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= commands_of(command, f"{before}{name} ")
        else:
            found[f"{before}{name}"] = command
    return found


def first_sentence(command: Any) -> str:
    """What a command does."""
    return re.split(r"(?<=\.)\s", " ".join((command.help or "").split()))[0]


def _write(sections: Mapping[str, Rows], formatter: Any) -> None:
    """Write sections of names and sentences, all sentences in one column, no name broken."""
    names = [len(name) for rows in sections.values() for name, _ in rows]
    wide = max(length for length in names if length <= _WIDEST)
    margin = " " * (wide + 4)
    for title, rows in sections.items():
        formatter.write(f"\n{title}:\n")
        for name, words in rows:
            fits = len(name) <= wide
            first = f"  {name:{wide}}  " if fits else margin
            lines = _filled(words, formatter, first, margin)
            formatter.write(f"{lines}\n" if fits else f"  {name}\n{lines}\n")


def _filled(words: str, formatter: Any, first: str, others: str) -> str:
    """Words in lines of the formatter's width, which begin with `first` and `others`."""
    return fill(
        words,
        formatter.width,
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _is_option(param: Any) -> bool:
    return bool(param.param_type_name == "option")


def _names(word: str) -> str:
    """What `word` becomes in a help: names of attacks, methods, formats and other options."""
    if word == "DECODING-OPTIONS":
        from canary.models.decoding import NAMED

        return NAMED
    if "-METHODS" in word:
        from canary.audits.choosing import method_help, method_names

        audited = word.startswith("AUDIT")
        names = method_names(p_values=audited)
        sentences = word.endswith("HELP")
        return (
            method_help(p_values=audited)
            if sentences
            else f"{', '.join(names[:-1])} or {names[-1]}"
        )
    if "ATTACKS" not in word:
        from canary.corpus.file_formats import FILE_FORMATS, known_separators

        return known_separators() if word == "SEPARATORS" else ", ".join(FILE_FORMATS)
    from canary.membership.attacks import ATTACKS, with_many_models
    from canary.signals.definitions import SIGNALS
    from canary.signals.text import TEXT_SIGNALS

    if word == "TEXT-ATTACKS":
        return ", ".join(TEXT_SIGNALS)
    if word == "MODEL-ATTACKS":
        return ", ".join(name for name, attack in with_many_models().items() if not attack.own)
    return ", ".join(
        name
        for name, attack in ATTACKS.items()
        if attack.judge is None
        and attack.thresholds != "one"
        and (attack.signal not in SIGNALS or SIGNALS[attack.signal].of_outputs)
    )
