"""What all tests share: one thread each, no network, data and slow tests by choice."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

# Read when torch, tokenizers and huggingface_hub are first imported. Each worker of
# pytest-xdist has a core of its own; more threads than cores only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["MPLBACKEND"] = "agg"

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, and no test that fails because the machine is busy.
settings.register_profile(
    "canary",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fuzz", settings.get_profile("canary"), derandomize=False)
settings.load_profile("canary")

NO_DATA = "set CANARY_DATA to the folder that holds the real data sets"

NO_CLUSTER = (
    "starts a Ray cluster; pip install '.[distributed]', then pytest -n 0 tests/workers --cluster"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes, too")
    parser.addoption(
        "--cluster", action="store_true", help="run the tests that start a Ray cluster here"
    )
    parser.addoption(
        "--fuzz", action="store_true", help="run tests/fuzz with 100,000 new cases in all"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fuzz"):
        settings.load_profile("fuzz")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if config.getoption("--fuzz") and "fuzz" in item.path.parts:
            item.add_marker(pytest.mark.timeout(3600))
        if "slow" in item.keywords and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; run it with --slow"))
        if "cluster" in item.keywords and not config.getoption("--cluster"):
            item.add_marker(pytest.mark.skip(reason=NO_CLUSTER))
        if "gpu" in item.keywords and not _gpu():
            item.add_marker(pytest.mark.skip(reason="needs a GPU that torch sees"))
        if "data" in item.keywords and not os.environ.get("CANARY_DATA"):
            item.add_marker(pytest.mark.skip(reason=NO_DATA))


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(autouse=True)
def _forgotten_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the modules that a test wrote and imported: another test's may have their names."""
    before, path = set(sys.modules), list(sys.path)
    yield
    written = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(written):
            del sys.modules[name]
    sys.path[:] = path


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the real data sets; a test that asks for it carries the marker `data`."""
    folder = os.environ.get("CANARY_DATA")
    if not folder:
        pytest.skip(NO_DATA)
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"CANARY_DATA={folder} is not a folder")
    return path
