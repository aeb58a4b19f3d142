"""Whatever fails beside a canary set, no traceback, report or log prints one of its secrets.

Each run of pytest holds a test for every error path of the plugin, and is searched for every
secret, in clear and as `repr` escapes it.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
from pathlib import Path

import pytest
from pytest_projects import Project
from rich.pretty import pretty_repr

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.columns import Slot

PATHS = r"""
import dataclasses
import importlib
import json
import pkgutil
import logging
import warnings

import pytest
from gate_audits import exact
from small_models import CHARACTERS, character_tokenizer, table_model

import canary
from canary.corpus.injection import inject_file
from canary.corpus.file_formats import open_corpus

CANARIES = canary.CanarySet.load("canaries.json")
ONE = canary.CanarySet.load("one.json")
MODEL = table_model()


def broken(error):
    import torch

    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Embedding(len(CHARACTERS), len(CHARACTERS))

        def forward(self, ids, state=None):
            rows = ["".join(CHARACTERS[i] for i in row) for row in ids.tolist()]
            if ids.shape[1] > 20 and error is not None:
                raise error(f"{len(rows)} rows")
            return self.layer(ids) * float("nan"), torch.zeros(1, len(ids), 1)

    return canary.load(Broken(), tokenizer=character_tokenizer())


def test_memorized():
    assert canary.check(exact({16: [15.0] * 8}), max_exposure_bits=10)


def test_undecided():
    verdict = canary.check(exact({1: [8.0, 12.0]}), max_exposure_bits=10)
    assert verdict


def test_model_that_raises(canary_audit):
    canary_audit(broken(RuntimeError), ONE, draws=50)


def test_model_out_of_memory(canary_audit):
    canary_audit(broken(MemoryError), ONE, draws=50)


def test_model_of_nan(canary_audit):
    canary_audit(broken(None), ONE, draws=50)


def test_wrong_token(canary_audit):
    canary_audit(MODEL, ONE, start_token="<nothing>", draws=50)


def test_characters_the_tokenizer_lacks(canary_audit):
    canary_audit(MODEL, canary.CanarySet.load("umlaut.json"), draws=50)


def test_missing_model(canary_audit):
    canary_audit("nowhere", ONE)


def test_missing_file():
    canary.CanarySet.load("nowhere.json")


@pytest.mark.parametrize("name", ["damaged", "twice", "elsewhere"])
def test_damaged_file(name):
    canary.CanarySet.load(f"{name}.json")


def test_missing_baseline(canary_baseline):
    canary_baseline(exact({1: [8.0, 12.0]}), "nowhere.json")


def test_unsafe_corpus(tmp_path):
    inject_file("unsafe.jsonl", tmp_path / "out.jsonl", ONE)


def test_unsafe_dataset():
    from datasets import Dataset

    with open("unsafe.jsonl") as file:
        rows = Dataset.from_list([json.loads(line) for line in file])
    canary.inject(rows, ONE, column="text", seed=0)


def test_corpus_without_the_column():
    canary.verify("unsafe.jsonl", ONE, column="body")


def test_broken_corpus():
    canary.verify("broken.jsonl", ONE, column="text")


def test_fill_of_another_format():
    canary.CanarySet.from_fills("the key is {digit:4}", [c.fill for c in CANARIES])


def test_canaries_within_canaries():
    canary.CanarySet(CANARIES.formats, CANARIES.canaries * 2, seed=0)


def test_inner_function():
    # Not exported, so only the plugin can keep its arguments out of the report.
    from canary.corpus.places import Remover

    for _, _, slots in open_corpus("unsafe.jsonl", "text").iterate():
        Remover(ONE, ("", "")).check_clean(slot.text for slot in slots)


def test_compared():
    first, second, *_ = CANARIES
    assert first == second
    assert False


def test_compared_lists():
    assert list(CANARIES) == list(reversed(CANARIES.canaries))


def test_compared_sets():
    assert CANARIES == ONE


def test_in_the_course_of_another():
    try:
        inject_file("unsafe.jsonl", "out.jsonl", ONE)
    except canary.CanaryError as error:
        raise RuntimeError("in the course of another") from error


def test_logged(caplog):
    try:
        inject_file("unsafe.jsonl", "out.jsonl", ONE)
    except canary.CanaryError:
        logging.getLogger("mine").exception("set %r, first %r", CANARIES, CANARIES.canaries[0])
    warnings.warn(f"{CANARIES} {CANARIES.canaries}")


@pytest.fixture
def failing(canary_audit):
    return canary_audit(broken(RuntimeError), ONE, draws=50)


def test_fixture(failing):
    pass
"""


def _sets(folder: Path) -> set[str]:
    """Writes the files that the tests read; returns every secret, as it is and as escaped."""
    formats = ["The key is {digit:9}", "my key:\n{re:[a-z]{5}['\"\\\\\n][0-9]{5}}"]
    canaries = generate(formats, repetitions=[1], per_repetition=4, controls=4, seed=1)
    one = generate(formats[0].lower(), repetitions=[1, 4], per_repetition=4, controls=4, seed=2)
    other = generate("über {digit:9}", repetitions=[1], per_repetition=1, controls=4, seed=3)
    for name, made in (("canaries", canaries), ("one", one), ("umlaut", other)):
        made.save(folder / f"{name}.json")
    document = json.loads((folder / "one.json").read_text())
    first, second = document["canaries"][:2]
    texts = [one.text(c) for c in one]
    for name, rows in {
        "damaged": [{**first, "copies": 3}],
        "twice": [first, {**second, "fill": first["fill"]}],
        "elsewhere": [first, {**second, "fill": f"{second['fill']}0"}],
    }.items():
        (folder / f"{name}.json").write_text(json.dumps({**document, "canaries": rows}))
    lines = [json.dumps({"text": f"before. {text} after."}) for text in texts]
    (folder / "unsafe.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "broken.jsonl").write_text("\n".join([*lines, lines[0][:-3]]) + "\n")
    fills = [c.fill for made in (canaries, one, other) for c in made]
    return {
        form
        for fill in fills
        for form in (fill, repr(fill)[1:-1], repr(repr(fill))[1:-1], json.dumps(fill)[1:-1])
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("leaks"), test_paths=PATHS)
    return project, _sets(project.folder)


def _leaks(said: str, secrets: set[str]) -> list[str]:
    # Terminals and XML may break or escape a line, but not the digits of a secret.
    return [line for line in said.splitlines() if any(secret in line for secret in secrets)]


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ("--tb=native", "25 failed, 1 error"),
        ("--tb=long -vv -rA", "25 failed, 1 error"),
        ("--full-trace -k corpus", "3 failed, 23 deselected"),
    ],
)
def test_no_style_of_report_prints_a_secret(project, options, counts):
    """Each way to format a traceback; those without locals print nothing that others do not."""
    project, secrets = project
    words = [*options.split(), "--showlocals", "--junitxml", "junit.xml"]
    _, said = project.inside(*words)
    assert counts in said, said[-3000:]
    assert not _leaks(said, secrets)
    junit = (project.folder / "junit.xml").read_text()
    assert "<failure" in junit
    assert not _leaks(junit, secrets)


def _outside(folder: Path, name: str) -> None:
    """What a user's script does; none of its own variables holds a secret."""
    import torch
    from small_models import CHARACTERS, character_tokenizer

    import canary
    from canary.corpus.injection import inject_file
    from canary.plugins.monitor import ExposureMonitor

    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Embedding(len(CHARACTERS), len(CHARACTERS))

        def forward(self, ids, state=None):
            rows = ["".join(CHARACTERS[i] for i in row) for row in ids.tolist()]
            if ids.shape[1] > 15:
                raise RuntimeError(f"{len(rows)} rows")
            return self.layer(ids), torch.zeros(1, len(ids), 1)

    canaries = canary.CanarySet.load(folder / "one.json")
    if name == "corpus":
        inject_file(folder / "unsafe.jsonl", folder / "out.jsonl", canaries)
    elif name == "set":
        canary.CanarySet.load(folder / "twice.json")
    elif name == "model":
        canary.audit(Broken(), canaries, tokenizer=character_tokenizer())
    elif name == "training":
        monitor = ExposureMonitor(canaries, tokenizer=character_tokenizer(), draws=50, every=1)
        monitor.step(Broken())


@pytest.mark.parametrize("name", ["corpus", "set", "model", "training"])
def test_tracebacks_with_variables_print_no_secret(project, name):
    from io import StringIO

    from rich.console import Console
    from rich.traceback import Traceback

    project, secrets = project
    ultratb = pytest.importorskip("IPython.core.ultratb", reason="IPython is not installed")
    try:
        _outside(project.folder, name)
    except Exception as error:
        told = StringIO()
        own = error.__traceback__.tb_next  # without this frame, which knows the secrets
        shown = Traceback.from_exception(type(error), error, own, show_locals=True)
        Console(file=told, width=300).print(shown)
        verbose = ultratb.VerboseTB(theme_name="nocolor")
        told.write(verbose.text(type(error), error, own))
        said = told.getvalue()
    assert "CanarySet of" in said  # the variables are shown
    assert not _leaks(said, secrets)


def test_what_holds_texts_hides_them_from_its_repr():
    """Every dataclass and named tuple of the package, by the names of its fields."""
    import canary

    hidden = {"fill", "fills", "secrets", "texts", "listed", "new", "tokens"}
    found, seen = [], 0
    for module in pkgutil.walk_packages(canary.__path__, "canary."):
        for made in vars(importlib.import_module(module.name)).values():
            if not isinstance(made, type) or made.__module__ != module.name:
                continue
            if issubclass(made, tuple) and hasattr(made, "_fields"):
                found += [f"{made.__qualname__}.{n}" for n in hidden & {*made._fields}]
            if not dataclasses.is_dataclass(made) or ("__repr__" in vars(made) and not _made(made)):
                continue
            for field in dataclasses.fields(made):
                if field.name in hidden and "str" in str(field.type):
                    seen += 1
                    found += [f"{made.__qualname__}.{field.name}"] * field.repr
    assert not found
    assert seen >= 8
    slot = Slot(("text",), "the key is 987654321")
    one = CanarySet.from_fills("the key is {digit:9}", ["987654321"])
    drawn = generate("the key is {digit:9}", repetitions=[1], seed=987654321)  # draws them again
    said = [show(thing) for thing in (slot, [*one], drawn) for show in (repr, pretty_repr)]
    assert not _leaks("\n".join(said), {"987654321"})


def _made(kind: type) -> bool:
    """Whether its repr is the one that `dataclass` makes."""
    return hasattr(kind.__repr__, "__wrapped__")
