"""Writes the two pages of docs/reference that follow from the code.

    python tests/support/references.py

The command line page is what `canary COMMAND --help` says, behind an introduction that is
kept as it stands in the page. The Python page lists the exports, by room, and the classes of
what they return; mkdocstrings sets their docstrings. A test compares both with the code.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import canary

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
COMMANDS, PYTHON, PARTS = (REFERENCE / f"{page}.md" for page in ("cli", "python", "parts"))

BEHIND = "<!-- From here on written by tests/support/references.py. -->\n"
WIDTH = 100

SECTIONS = {
    "Before training": ("formats", "corpus"),
    "After training": ("models", "scoring", "search", "audits"),
    "Membership": ("signals", "fleet", "membership"),
    "Showing and deciding": ("gate", "reports"),
}
LAST = "Errors"

INTRODUCTION = """\
# Python

Everything that most people need is reached as `canary.NAME`. Names resolve on first use, so \
that `import canary` costs next to nothing. What lies below these names, room by room, is on \
[another page](parts.md).

<!-- This page is written by tests/support/references.py. -->
"""


def command_line() -> str:
    """The page of the command line, its introduction as it stands."""
    from typer.main import get_command

    from canary.cli.commands import app

    introduction = COMMANDS.read_text(encoding="utf-8").partition(BEHIND)[0]
    root: Any = get_command(app)
    parts = [introduction, BEHIND]
    for name, command in commands_of(root):
        context = command.context_class(command, info_name=f"canary {name}", terminal_width=WIDTH)
        parts.append(f"\n## canary {name}\n\n```text\n{command.get_help(context).strip()}\n```\n")
    return "".join(parts)


def commands_of(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The commands of a group and of the groups in it, by their whole names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def python() -> str:
    """The page of the exports."""
    found = [INTRODUCTION]
    for title, rooms in SECTIONS.items():
        names = [name for name in canary.__all__ if room_of(getattr(canary, name)) in rooms]
        names.sort(key=lambda name: rooms.index(room_of(getattr(canary, name))))
        found.append(section(title, [f"canary.{name}" for name in names]))
    elsewhere = documented(PARTS)
    exported = {getattr(canary, name) for name in canary.__all__}
    results = [full(c) for c in returned() if c not in exported and full(c) not in elsewhere]
    found.append(section("What they return", results))
    found.append(f"\n## {LAST}\n\n::: canary.errors\n    options:\n      heading_level: 3\n")
    found.append("      show_root_heading: false\n      show_root_toc_entry: false\n")
    return "".join(found)


def section(title: str, names: list[str]) -> str:
    """A section with the docstrings of these names; nothing if there are none."""
    entries = "".join(f"\n::: {name}\n    options:\n      heading_level: 3\n" for name in names)
    return f"\n## {title}\n{entries}" if names else ""


def documented(page: Path) -> set[str]:
    """Full names of what a page documents; of a module, its exports."""
    found = set()
    entry = re.compile(r"^::: (\S+)\n(?:    options:\n((?:      .*\n)*))?", re.MULTILINE)
    for name, options in entry.findall(page.read_text(encoding="utf-8") + "\n"):
        if name.split(".")[-1] in canary.__all__ and name.count(".") == 1:
            found |= {name, full(getattr(canary, name.split(".")[-1]))}
            continue
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            found.add(name)
            continue
        chosen = re.search(r"members: \[(.*)\]", options)
        names = chosen[1].split(", ") if chosen else public(module)
        found |= {f"{name}.{member}" for member in names}
    return found


def public(module: Any) -> list[str]:
    """The functions, classes and constants of a module whose names have no underscore in front."""
    names: list[str] = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return [name for name in names if not name.startswith("_")]


def returned() -> list[type]:
    """The classes of canary that exports return, and those in their fields, in that order."""
    found: dict[type, None] = {}
    for name in canary.__all__:
        export = getattr(canary, name)
        if inspect.isfunction(export):
            collect(returns(export), found)
        else:
            collect(export, found)
    return list(found)


def collect(hint: Any, found: dict[type, None]) -> None:
    """Add the classes of canary in a type, and in the fields of such classes."""
    for argument in typing.get_args(hint):
        collect(argument, found)
    if not inspect.isclass(hint) or not hint.__module__.startswith("canary.") or hint in found:
        return
    found[hint] = None
    for part in parts_of(hint):
        collect(part, found)


def parts_of(kind: type) -> Iterator[Any]:
    """The types of a dataclass's public fields, and of what its public properties give."""
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        yield from (hint for name, hint in hints.items() if not name.startswith("_"))
    for name, member in vars(kind).items():
        if isinstance(member, property) and not name.startswith("_") and member.fget:
            yield returns(member.fget)


def returns(function: Any) -> Any:
    """What a function says that it returns."""
    return eval(function.__annotations__["return"], {}, Names(inspect.unwrap(function)))


class Names(dict[str, Any]):
    """What names mean in a function's module; those that only type checkers see, nothing."""

    def __init__(self, function: Any) -> None:
        super().__init__({**vars(builtins), **inspect.unwrap(function).__globals__})

    def __missing__(self, name: str) -> Any:
        return Any


def full(thing: Any) -> str:
    """Where a class or function is at home."""
    return f"{thing.__module__}.{thing.__qualname__}"


def room_of(thing: Any) -> str:
    """The room in which it is at home."""
    return str(thing.__module__.split(".")[1])


if __name__ == "__main__":
    COMMANDS.write_text(command_line(), encoding="utf-8")
    PYTHON.write_text(python(), encoding="utf-8")
