"""Writes the pages of docs/reference, which follow from the code.

    python tests/support/references.py

The command line page is what `canary COMMAND --help` says, as tables. What is before and
behind them in the page is kept. The Python page shows the exports and the classes of what they
return, and the page of packages what `parts_shown.py` lists, with signatures and docstrings, as
plain Markdown. A test compares all three with the code.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from docstrings import entry, signature
from parts_shown import PACKAGES
from typer.main import get_command

import canary
from canary.cli.commands import app
from canary.cli.help_pages import commands_of, groups_of, panels_of

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
COMMANDS, PYTHON, PARTS = (REFERENCE / f"{page}.md" for page in ("cli", "python", "parts"))

PARTS_INTRODUCTION = """\
# Python, package by package

What is below the names of [`canary`](python.md), for those who build on one of the packages. \
What is not here may change at any time.

<!-- This page is written by tests/support/references.py. -->
"""

BEHIND = "<!-- From here on written by tests/support/references.py. -->\n"
UP_TO = "\n<!-- Up to here written by tests/support/references.py. -->\n"
WIDTH = 100

SECTIONS = {
    "Before training": ("formats", "corpus", "plugins"),
    "After training": ("models", "scoring", "search", "audits"),
    "Membership": ("signals", "fleet", "membership", "passages"),
    "Showing and deciding": ("gate", "reports"),
}
INTRODUCTION = """\
# Python

Everything that most people need is `canary.NAME`. A name is loaded on first use, so \
`import canary` is fast. [Another page](parts.md) shows the packages below these names.

Every result has `summary()` (text), `to_frame()` (a pandas table), \
`metrics()` (numbers for an experiment tracker) and a view in notebooks. \
`result.report("page.html")` and `result.plot("figure.png")` call `canary.report` and \
`canary.plot` (exposures only as those of an audit). \
`print(result)` shows five lines at most. \
Log-perplexities and exposures are in bits, losses in nats. The cost of a call is in queries: \
tokens that the model computes below the context. Long calls take `progress=`: None shows bars \
on a terminal and in a notebook, False shows none.

<!-- This page is written by tests/support/references.py. -->
"""


def command_line() -> str:
    """The page of the command line, its introduction as it stands."""
    root: Any = get_command(app)
    introduction, _, rest = COMMANDS.read_text(encoding="utf-8").partition(BEHIND)
    parts = [introduction, BEHIND, "\n## Commands\n\n| for | command | what it does |\n"]
    parts.append("| --- | --- | --- |\n")
    for job, rows in groups_of(root).items():
        for number, (name, sentence) in enumerate(rows):
            link = f"[`canary {name}`](#canary-{name.replace(' ', '-')})"
            parts.append(f"| {'' if number else job} | {link} | {marked(sentence)} |\n")
    commands = commands_of(root)
    for rows in groups_of(root).values():
        parts += [page_of(name, commands[name]) for name, _ in rows]
    return "".join([*parts, UP_TO, rest.partition(UP_TO)[2]])


def page_of(name: str, command: Any) -> str:
    """What a command says of itself: what it does, its usage, a table for each panel, examples."""
    context = command.context_class(command, info_name=f"canary {name}", terminal_width=WIDTH)
    does = "\n\n".join(" ".join(p.split()) for p in inspect.cleandoc(command.help).split("\n\n"))
    usage = " ".join([f"canary {name}", *command.collect_usage_pieces(context)])
    parts = [f"\n## canary {name}\n\n{marked(does)}\n\n```text\n{usage}\n```\n"]
    for panel, rows in panels_of(command, context).items():
        parts.append(f"\n| {panel} | what it is | default |\n| --- | --- | --- |\n")
        for written, words in rows:
            sentences, default = re.fullmatch(
                r"(.*?)(?:\s+\[(?:default: )?(.*)\])?", words
            ).groups()
            option = written.replace("|", "\\|")
            parts.append(f"| `{option}` | {marked(sentences)} | {marked(default or '')} |\n")
    heading, *examples = command.epilog.strip("\b\n").split("\n")
    return "".join([*parts, f"\n{heading}\n\n```sh\n", *(f"{e}\n" for e in examples), "```\n"])


def marked(text: str) -> str:
    """A sentence of a help in Markdown: code as code, pages as links."""
    text = re.sub(r"docs/(\w+/[\w-]+)\.md", r"[\1.md](../\1.md)", text)
    code = r"(?<![\w`/-])(--[a-z][a-z-]*|\{\w+:\w+\}|\\[nt]|\w+://[\w:/]+)"
    return re.sub(code, r"`\1`", text).replace("|", "\\|")


def python() -> str:
    """The page of the exports: a table of all, then each by itself."""
    found = [INTRODUCTION]
    things = {title: list(group) for title, group in in_python()}
    for title, group in things.items():
        rows = (f"| [`{name}`](#{anchor(name)}) | {first_line(thing)} |\n" for name, thing in group)
        found.append(f"\n**{title}**\n\n| Name | |\n| --- | --- |\n{''.join(rows)}")
    for title, group in things.items():
        found.append(f"\n## {title}\n")
        for name, thing in group:
            text = entry(name, thing)
            if not name.startswith("canary."):  # where a result is at home
                head, _, rest = text.partition("\n")
                text = f"{head}\n\nIt is `{full(thing)}`.\n{rest}"
            found.append(f"\n{text}")
            if inspect.isclass(thing) and not issubclass(thing, BaseException):
                found.append(members(name, thing))
    return re.sub(r"\n{3,}", "\n\n", "".join(found)).rstrip() + "\n"


def in_python() -> Iterator[tuple[str, Iterator[tuple[str, Any]]]]:
    """What the page of the exports shows, section by section: names, and what they are."""
    for title, packages in SECTIONS.items():
        names = [name for name in canary.__all__ if room_of(getattr(canary, name)) in packages]
        names.sort(key=lambda name: packages.index(room_of(getattr(canary, name))))
        yield title, ((f"canary.{name}", getattr(canary, name)) for name in names)
    elsewhere = {name for name, _ in in_parts()}
    exported = {getattr(canary, name) for name in canary.__all__}
    results = [
        kind
        for kind in returned()
        if kind not in exported
        and full(kind) not in elsewhere
        and not issubclass(kind, BaseException)
    ]
    names = [kind.__name__ for kind in results]
    longer = (".".join(full(kind).split(".")[-2:]) for kind in results)
    each = (two if names.count(one) > 1 else one for one, two in zip(names, longer, strict=True))
    yield "What they return", zip(each, results, strict=True)
    names = public(canary.errors)
    places = {name: "canary" if name in canary.__all__ else "canary.errors" for name in names}
    yield "Errors", ((f"{at}.{name}", getattr(canary.errors, name)) for name, at in places.items())


def parts() -> str:
    """The page of the packages: for each a table of what is shown, then each by itself."""
    found = [PARTS_INTRODUCTION]
    for package, (guide, *lines) in PACKAGES.items():
        rows, entries = [], []
        for name, thing in things_of(lines):
            said = about(name, thing)
            rows.append(f"| [`{name}`](#{anchor(name)}) | {said.partition(chr(10))[0]} |\n")
            entries.append(part(name, thing, said))
        found.append(f"\n## {package}\n\n{guide}\n\n| Name | |\n| --- | --- |\n{''.join(rows)}")
        found += entries
    return re.sub(r"\n{3,}", "\n\n", "".join(found)).rstrip() + "\n"


def part(name: str, thing: Any, said: str) -> str:
    """An entry of the page of packages; of a constant, how it is defined where that is short."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        defined = f"```py\n{definition(name)[0]}\n```\n\n" if definition(name)[0] else ""
        return f"\n### {name}\n\n{defined}{said}\n"
    return f"\n{entry(name, thing)}" + (members(name, thing) if inspect.isclass(thing) else "")


def in_parts() -> Iterator[tuple[str, Any]]:
    """What the page of packages shows: full names, and what they are."""
    return (found for _, *lines in PACKAGES.values() for found in things_of(lines))


def things_of(lines: list[str]) -> Iterator[tuple[str, Any]]:
    """Full names and things of lines such as ``formats.kinds: register``."""
    for line in lines:
        module, _, names = line.partition(": ")
        for name in names.split():
            yield f"canary.{module}.{name}", pkgutil.resolve_name(f"canary.{module}:{name}")


def about(name: str, thing: Any) -> str:
    """The docstring of a class or function, or what is written below a constant."""
    if inspect.isclass(thing) or inspect.isroutine(thing):
        return inspect.getdoc(thing) or ""
    return definition(name)[1]


def definition(name: str) -> tuple[str, str]:
    """How a constant is defined, if in a line or two, and the text below it."""
    module, _, constant = name.rpartition(".")
    source = inspect.getsource(importlib.import_module(module))
    body = ast.parse(source).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if any(isinstance(t, ast.Name) and t.id == constant for t in targets):
            written = ast.get_source_segment(source, node) or ""
            text = below.value.value if isinstance(below, ast.Expr) else ""  # type: ignore[attr-defined]
            return written if written.count("\n") < 3 else "", inspect.cleandoc(text)
    return "", ""


def members(name: str, kind: type) -> str:
    """The public methods and properties of a class: long ones as entries, others in a list."""
    short, long = [], []
    for member, found in inspect.getmembers_static(kind):
        home = next(each for each in kind.__mro__ if member in vars(each))
        if member.startswith("_") or not home.__module__.startswith("canary."):
            continue
        if isinstance(found, property | cached_property):
            short.append(f"- `{member}`: {first_line(found)}\n")
        elif inspect.isroutine(found):
            method = getattr(kind, member)
            called = signature(member, method)
            if home is kind and "\n---" in (inspect.getdoc(method) or ""):
                long.append("\n" + entry(f"{name}.{member}", method, level=4))
            else:
                called = called if "\n" not in called else f"{member}(...)"
                short.append(f"- `{called}`: {first_line(method)}\n")
    listed = f"\n**Methods and properties**\n\n{''.join(short)}" if short else ""
    return listed + "".join(long)


def first_line(thing: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def anchor(name: str) -> str:
    """What a heading is called in an address."""
    return name.lower().replace(".", "")


def documented(page: Path) -> set[str]:
    """Full names of what a page documents."""
    found: set[str] = set()
    if page == PYTHON:
        for _, group in in_python():
            for name, thing in group:
                found |= {full(thing), *([name] if name.startswith("canary.") else [])}
        return found
    for name, thing in in_parts():
        found |= {name, full(thing)} if hasattr(thing, "__qualname__") else {name}
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
    PARTS.write_text(parts(), encoding="utf-8")
