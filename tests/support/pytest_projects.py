"""Small projects whose tests run in a pytest of their own, as their users' would."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def entry_points(folder: Path) -> Path:
    """A folder in which Python finds the project's entry points, installed or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / "canary_lm-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: canary-lm\nVersion: 0\n")
    found = project["entry-points"]["pytest11"].items()
    lines = ["[pytest11]", *(f"{name} = {target}" for name, target in found)]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


class Project:
    """A folder of tests.

    Parameters
    ----------
    folder : Path
    **files
        What `NAME.py` holds.
    """

    def __init__(self, folder: Path, **files: str) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        (self.folder / "pytest.toml").write_text("[pytest]\nstrict = true\n")
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        paths = [entry_points(folder / "installed"), ROOT, ROOT / "tests" / "support"]
        # Nothing of the run that this one is part of.
        outer = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        path = os.pathsep.join([*map(str, paths), outer.get("PYTHONPATH", "")])
        self.env = {**outer, "PYTHONPATH": path, "COLUMNS": "300"}

    def pytest(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run its tests, warnings as errors."""
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-W", "error", *options],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=200,
        )

    def inside(self, *options: str) -> tuple[int, str]:
        """Run its tests in this process, where all is imported: the exit code, and what is said.

        Of plugins there are pytest's own and canary's.
        """
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setenv("COLUMNS", "300")
            patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
            own = ("no:cacheprovider", "no:faulthandler", "canary.plugins.pytest_plugin")
            words = ["-W", "error", *(word for name in own for word in ("-p", name)), *options]
            with redirect_stdout(said), redirect_stderr(said):
                code = pytest.main(words)
        for name, module in [*sys.modules.items()]:
            if str(getattr(module, "__file__", None)).startswith(str(self.folder)):
                del sys.modules[name]
        return code, said.getvalue()
