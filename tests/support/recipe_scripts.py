"""Recipes' scripts in this process: no interpreter and no torch is started for each."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from pathlib import Path


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
