"""Answers of a served model on disk, so that nothing is asked twice.

There is a folder for each model of each server, with the pieces of
`canary.records.shards`, that only its owner may read. An answer is found by the SHA-256 of the
model and of what was asked; its text is not kept. Yet whoever reads the folder and guesses a text
can see whether it was asked for, so it is to be kept like the canaries themselves.
"""

from __future__ import annotations

import hashlib
import json
import re
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from canary.errors import RecordError
from canary.models.served.request_format import Floats
from canary.records.files import make_folder
from canary.records.shards import Series, open_run

_KEY_BYTES, _COUNT_BYTES = 32, 4
_NUMBER = np.dtype("<f8")
_NAME_LENGTH = 40
_ANSWERS = "answers"

_OPEN: weakref.WeakValueDictionary[Path, Answers] = weakref.WeakValueDictionary()


class Known:
    """The answers of earlier runs, as they are when this is made; nothing is written or locked.

    `identity` says in plain JSON which model of which server it is, and how it is asked.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self._identity = json.dumps(identity, sort_keys=True)
        self._known: dict[bytes, Floats] = {}
        for shard in self._kept(identity):
            self._read(shard.body)

    def _kept(self, identity: Mapping[str, Any]) -> Series:
        """The pieces of earlier runs."""
        return Series(self.folder, _ANSWERS)

    def __len__(self) -> int:
        return len(self._known)

    def key(self, request: Mapping[str, Any]) -> bytes:
        """Under what an answer to `request` is kept."""
        asked = json.dumps(request, sort_keys=True)
        return hashlib.sha256(f"{self._identity}\n{asked}".encode()).digest()

    def get(self, key: bytes) -> Floats | None:
        """What was answered, if it is known."""
        return self._known.get(key)

    def _read(self, body: bytes) -> None:
        start = 0
        while start < len(body):
            count, head = start + _KEY_BYTES, start + _KEY_BYTES + _COUNT_BYTES
            end = head + _NUMBER.itemsize * int.from_bytes(body[count:head], "little")
            if end > len(body):
                raise RecordError(
                    "holds an answer that is not whole",
                    cure="remove the folder: everything is asked again",
                    where=str(self.folder),
                )
            self._known[body[start:count]] = np.frombuffer(body[head:end], _NUMBER)
            start = end


class Answers(Known):
    """The answers of one model of one server, those of earlier runs included.

    `folder` is locked against other processes as long as this object lives.
    """

    def _kept(self, identity: Mapping[str, Any]) -> Series:
        make_folder(self.folder.parent)
        stack = ExitStack()
        run = stack.enter_context(open_run(self.folder, identity))
        self._release = weakref.finalize(self, stack.close)
        self._series, self._first = run.series(_ANSWERS), run.series("first")
        return self._series

    def add(self, answers: Sequence[tuple[bytes, Floats]]) -> None:
        """Keep some answers. When this returns, no kill undoes it; an OutputError without room."""
        if answers:
            body = b"".join(
                key + len(values).to_bytes(_COUNT_BYTES, "little") + _bytes(values)
                for key, values in answers
            )
            self._series.append({"answers": len(answers)}, body)
            self._known.update(answers)

    def first(self, numbers: Floats) -> Floats:
        """Numbers that were given first of all, here or in an earlier run."""
        if not len(self._first):
            self._first.append({}, _bytes(numbers))
        return np.frombuffer(self._first[0].body, _NUMBER)


def open_answers(root: Path, name: str, identity: Mapping[str, Any]) -> Answers:
    """The answers of a model in its own folder below `root`.

    Raises
    ------
    OutputError
        If another process is at work in it, or it cannot be written to.
    RecordError
        If it is damaged.
    """
    folder = _folder(root, name, identity)
    answers = _OPEN.get(folder)
    if answers is None:
        answers = _OPEN[folder] = Answers(folder, identity)
    return answers


def known_answers(root: Path, name: str, identity: Mapping[str, Any]) -> Known:
    """What `open_answers` would find there, without a trace."""
    return Known(_folder(root, name, identity), identity)


def _folder(root: Path, name: str, identity: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    plain = re.sub("[^A-Za-z0-9]+", "-", name).strip("-")[-_NAME_LENGTH:]
    return root.absolute() / f"{plain}-{digest[:12]}"


def _bytes(values: Floats) -> bytes:
    return bytes(values.astype(_NUMBER).tobytes())
