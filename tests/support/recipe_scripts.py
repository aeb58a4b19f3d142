"""Recipes' scripts and modules in this process: no interpreter, no torch is started for each.

And what their tests have in common: made-up data sets, and tables on pages.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from canary.cli.main import run

RECIPES = Path(__file__).parents[2] / "recipes"


class ScriptError(AssertionError):
    """A script ended with something other than success."""


def run_script(script: Path, *words: object) -> str:
    """What ``python SCRIPT WORDS`` prints.

    Modules beside the script are imported anew and forgotten at its end: several recipes
    have a `model`, a `train` and a `run`.

    Raises
    ------
    ScriptError
        With what it said on standard error, and what it gave to `sys.exit`.
    """
    before, argv, folder = set(sys.modules), sys.argv, str(script.parent)
    said, complained = io.StringIO(), io.StringIO()
    sys.argv = [str(script), *map(str, words)]
    sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise ScriptError(f"{complained.getvalue()}{end.code}") from None
    finally:
        sys.argv = argv
        sys.path.remove(folder)
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
                del sys.modules[name]
    return said.getvalue()


@contextlib.contextmanager
def modules(recipe: Path) -> Iterator[dict[str, ModuleType]]:
    """The modules of a recipe by name, as beside each other, which nobody else sees."""
    names = [path.stem for path in recipe.glob("*.py")]
    held = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(recipe))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(recipe))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(held)


def canary(*words: object) -> None:
    """The command, which must succeed; pytest shows what it said where it does not."""
    assert run([str(word) for word in words]) == 0


def canaries_in(corpus: str, pattern: str, copies: str) -> None:
    """The README's first commands: a canary set, and the corpus with it."""
    canary(
        *("generate", pattern, "--repetitions", copies, "--per-repetition", 2, "--controls", 4),
        *("--seed", 0, "--out", "canaries.json"),
    )
    target = corpus.replace(".jsonl", ".canaried.jsonl")
    canary("inject", corpus, "--canaries", "canaries.json", "--out", target)


def has_table(page: str, text: str) -> bool:
    """Whether a page has this table, rows or text that ends with one, and no further row below."""
    return re.search(rf"^{re.escape(text.strip())}$(?!\n\|)", page, re.MULTILINE) is not None


def write_idx(folder: Path, images: np.ndarray, labels: np.ndarray, part: str = "train") -> None:
    """Both gzipped IDX files of a part of MNIST."""
    for name, magic, held in (("images-idx3", 2051, images), ("labels-idx1", 2049, labels)):
        header = np.array([magic, *held.shape], ">u4").tobytes()
        packed = gzip.compress(header + held.astype(np.uint8).tobytes())
        (folder / f"{part}-{name}-ubyte.gz").write_bytes(packed)
