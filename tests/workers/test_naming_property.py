"""What the name and the digest of a function tell, and what they do not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import fleets
import pytest

from canary.errors import InputError
from canary.models.torch_training import TorchTraining
from canary.workers.naming import check_importable, described, imported


def of(source, name="f"):
    held = {"__name__": "somewhere"}
    exec(source, held)
    return described(held[name], "train")


BASE = "def f(a, b=1):\n    return [a + 2 for _ in range(b)] if a in {'x', 'y', 'z'} else 3"
SAME = {
    "comment": BASE.replace("\n", "\n    # why\n\n"),
    "place": "\n\n\n" + BASE,
    "order of a set": BASE.replace("'x', 'y', 'z'", "'z', 'x', 'y'"),
}
OTHER = {
    "constant": BASE.replace("3", "4"),
    "inner constant": BASE.replace("+ 2", "+ 5"),
    "default": BASE.replace("b=1", "b=2"),
    "called": BASE.replace("range", "list"),
    "member of a set": BASE.replace("'z'", "'w'"),
}


@pytest.mark.parametrize("case", SAME)
def test_what_changes_nothing_keeps_the_digest(case):
    assert of(SAME[case]) == of(BASE)


@pytest.mark.parametrize("case", OTHER)
def test_what_changes_something_changes_the_digest(case):
    assert of(OTHER[case])["code"] != of(BASE)["code"]


def test_other_processes_find_the_same():
    """Each has another order of sets."""
    source = "def f(kind):\n    return kind in {'one', 'two', 'three', 'four', 'five', 'six'}"
    script = (
        "from canary.workers.naming import described; held = {'__name__': 'somewhere'};"
        f"exec({source!r}, held); print(described(held['f'], ''))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in "123"
    }
    assert said == {str(of(source))}


def test_a_described_training_comes_back_equal():
    train = TorchTraining(build=fleets.small_net, epochs=3, learning_rate=0.5)
    about = described(train, "train")
    check_importable(about, "train")
    assert imported(about) == train
    assert imported(described(fleets.means, "train")) is fleets.means


@dataclass(frozen=True)
class Holding:
    inner: object


def test_what_a_field_holds_must_be_importable_too():
    with pytest.raises(InputError, match="cannot be imported elsewhere"):
        check_importable(described(Holding(lambda: None), "train"), "train")
