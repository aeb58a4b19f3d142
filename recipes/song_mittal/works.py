"""What a WORK holds: models of one data set and one schedule; another is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data import DATASETS

from canary.errors import InputError
from canary.records.files import atomic_write

ORDINARY, PUBLISHED = "ordinary", "published"
_CURE = "name another --work, or give what this one was begun with"


def begin(work: Path, facts: Mapping[str, Any]) -> None:
    """Write down what is trained in WORK, unless that is there; refuse something else.

    Facts are plain data under names for people, what a message should name first of all first.
    """
    path = _path(work)
    if path.is_file():
        check(work, facts)
        return
    if any(work.glob("seed-*")):
        raise InputError("holds models, and does not say of what", cure=_CURE, where=str(work))
    work.mkdir(parents=True, exist_ok=True)
    atomic_write(path, (json.dumps(facts, indent=1) + "\n").encode())


def check(work: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """All that WORK says of itself, if it holds what these facts ask for."""
    path = _path(work)
    if not path.is_file():
        raise InputError("holds no models", cure="run train.py with this --work", where=str(work))
    held = json.loads(path.read_text())
    asked = json.loads(json.dumps(facts))  # tuples become lists, as they did in the file
    for name, value in asked.items():
        if held.get(name) != value:
            raise InputError(
                f"was begun with another {name}: {held.get(name)}, where {value} is asked for",
                cure=_CURE,
                where=str(work),
            )
    return held


def name_of(work: Path, name: str | None) -> str:
    """Under what name the results of WORK are written; `name` if it is of nothing else."""
    held = check(work, {})
    own = held["data set"] if held["schedule"] == ORDINARY else held["schedule"]
    if name not in (None, own) and name in (*DATASETS, PUBLISHED):
        raise InputError(
            f"{name} is asked for, and {work} holds {held['data set']} by the "
            f"{held['schedule']} schedule",
            cure=f"leave --name out ({own} is meant), or name the --work of {name}",
            where="--name",
        )
    return name or own


def _path(work: Path) -> Path:
    return work / "work.json"
