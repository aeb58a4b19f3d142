# ruff: noqa: T201
"""What `make check` keeps of the package's shape: sizes, names and signatures.

``python tests/support/budgets.py`` prints each package's lines beside its budget, and fails where

- a package has more lines than ``[tool.budgets]`` of `pyproject.toml` allows,
- a module has more than 400,
- a function has more than seven parameters and is not one of the public front,
- two modules have one name,
- the start token is a parameter of more functions than the table allows.

A new ability raises a budget by the files that it adds and the lines that register them, a mended
defect by the lines of its check, and nothing else does.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "canary"
MOST_LINES, MOST_PARAMETERS = 400, 7


def lines_of(path):
    return len(path.read_text(encoding="utf-8").splitlines())


def functions_of(path):
    """(name, parameters) of all functions and methods; self and cls do not count."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            names = [p.arg for p in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            yield node.name, [name for name in names if name not in ("self", "cls")]


def sources():
    """The package's files that somebody has to read: modules and templates."""
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".j2", ".css") and "__pycache__" not in path.parts:
            yield path, path.relative_to(PACKAGE)


def of_modules(allowed):
    """Modules that are too long or have a name twice, functions with too many parameters."""
    modules, starts = defaultdict(list), []
    for path, where in sources():
        if path.suffix != ".py" or path.name == "__init__.py":
            continue
        modules[path.name].append(str(where))
        most = allowed["long"].get(str(where), MOST_LINES)
        if lines_of(path) > most:
            yield f"{where}: {lines_of(path)} lines, at most {most}"
        for name, parameters in functions_of(path):
            public = f"{where}:{name}" in allowed["front"] or where.parts[0] == "cli"
            if len(parameters) > MOST_PARAMETERS and not public:
                yield f"{where}: {name} has {len(parameters)} parameters"
            if {"start_token", "context"} <= {*parameters}:
                starts.append(f"{where}:{name}")
    for name, paths in modules.items():
        if len(paths) > 1:
            yield f"{name} is the name of {', '.join(paths)}"
    if len(starts) > allowed["starts"]:
        yield f"start_token and context are parameters of {', '.join(starts)}"


def of_packages(allowed):
    """Packages that are larger than their budget; prints all of them."""
    lines = defaultdict(int)
    for path, where in sources():
        lines[where.parts[0] if len(where.parts) > 1 else "alone"] += lines_of(path)
    for room, count in sorted(lines.items()):
        budget = allowed["lines"].get(room, 0)
        print(f"{room:12} {count:6,} of {budget:6,}")
        if count > budget:
            yield f"canary/{room} has {count} lines, its budget is {budget}"
    print(f"{'in all':12} {sum(lines.values()):6,} of {sum(allowed['lines'].values()):6,}")


if __name__ == "__main__":
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    allowed = table["tool"]["budgets"]
    complaints = [*of_packages(allowed), *of_modules(allowed)]
    print(*complaints, sep="\n")
    sys.exit(bool(complaints))
