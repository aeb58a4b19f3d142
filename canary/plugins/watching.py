"""The checkpoints of a training that runs, each once it is whole."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from canary.errors import InputError, ModelError
from canary.models.pretrained import check_weights

_CHECKPOINT = re.compile(r".*?(\d+)\D*")
_STATE = "trainer_state.json"  # what the Trainer of transformers writes behind the weights


def watched(
    folder: str | os.PathLike[str], *, until: int | None = None, every: float = 10.0
) -> Iterator[str]:
    """The subfolders with a number in their name, by that number, as a training fills them.

    One is given when two looks, `every` seconds apart, find the same files, and all of its weights
    are there to the last byte. It ends after `until` checkpoints, behind the last step of a
    Trainer, or on Ctrl-C between two looks.

    Raises
    ------
    InputError
        If there is no such folder.
    ModelError
        If a Trainer has written a whole checkpoint, and its weights cannot be read.
    """
    home, given = Path(folder), [-1]
    before: dict[Path, list[tuple[str, int, int]]] = {}
    if not home.is_dir():
        cure = "start the training first, or name its output folder"
        raise InputError("there is no such folder", cure=cure, where=str(home))
    while True:
        steps = {path: _CHECKPOINT.fullmatch(path.name) for path in home.iterdir()}
        found = {path: int(step[1]) for path, step in steps.items() if step and path.is_dir()}
        now = {path: _files(path) for path in found}
        for path in sorted(found, key=lambda path: found[path]):
            same = bool(now[path]) and before.get(path) == now[path]
            if found[path] > given[-1] and same and _is_whole(path):
                given.append(found[path])
                yield str(path)
                if len(given) - 1 == until:
                    return
        if any(step == given[-1] and _is_last(path) for path, step in found.items()):
            return
        before = now
        try:
            time.sleep(every)
        except KeyboardInterrupt:
            return


def _files(folder: Path) -> list[tuple[str, int, int]]:
    """What is in a folder, with sizes and times; nothing of one that is just removed."""
    try:
        about = [(path.name, path.stat()) for path in sorted(folder.iterdir())]
    except OSError:
        return []
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in about]


def _is_whole(folder: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        check_weights(str(folder))
        for path in folder.glob("*.safetensors"):
            with safe_open(path, framework="numpy"):
                pass  # it compares the header with the length of the file
    except ModelError:
        if (folder / _STATE).is_file():
            raise
        return False
    except (SafetensorError, OSError):
        return False
    return True


def _is_last(folder: Path) -> bool:
    """Whether a Trainer says that this is its last step."""
    try:
        state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        return bool(state["global_step"] >= state["max_steps"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
