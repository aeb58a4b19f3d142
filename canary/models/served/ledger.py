"""All requests that a server was sent, whatever became of the runs: beside the answers kept."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from canary.errors import OutputError, RecordError
from canary.records.files import make_folder
from canary.statistics.numbers import plural

_FILE = "requests.jsonl"
_PIECE = 64
"""Requests after which a line is written, at the latest: a killed run without limit loses fewer."""


class Ledger:
    """Counts the requests to one server: of this object, and of all runs with one folder.

    Each line of the file is a part of a run. Runs that were refused or stopped are counted, and so
    are the questions which models the server has. Requests that were throttled are not. Where the
    total is limited, each request is written before it is sent, so that no kill loses it.

    Parameters
    ----------
    folder : Path
        Where the answers of all runs are kept.
    server : str
        The address; others are counted apart in the same file. The names that a machine has for
        itself are one.
    strict : bool
        Whether a folder that cannot be written to is an OutputError; else nothing is kept.
    most : int, optional
        What the total is limited to.
    """

    def __init__(self, folder: Path, server: str, *, strict: bool, most: int | None = None) -> None:
        self.server, self._path, self._strict = _one_name(server), folder.absolute() / _FILE, strict
        self._lock, self._unwritten, self._open = threading.Lock(), [0, 0], False
        self._quiet, self._piece, self._most = False, _PIECE if most is None else 1, most
        self.sent = self.carried = 0
        """Requests counted here, and those of them that were carried over."""
        self.tokens = 0
        """Tokens of their prompts, as far as they were answered."""

    @property
    def name(self) -> str:
        """A digest of the server and the place of the folder."""
        return hashlib.sha256(f"{self.server} {self._path}".encode()).hexdigest()[:8]

    def told(self) -> dict[str, Any]:
        """What all runs sent, as settings of a result; nothing where it is not kept."""
        total = self.total
        if total is None:
            return {}
        allowed = {} if self._most is None else {"requests_allowed": self._most}
        return {"requests_in_all_runs": total, **allowed, "answers_in": self.name}

    def on_record(self) -> str:
        """How many of the requests that are allowed all runs have sent, and where that is kept."""
        sent = f"{self.total or 0:,} of {plural(self._most or 0, 'request')} to {self.server}"
        return f"{sent} are on record in {self._path.parent}"

    def begin(self) -> None:
        """Make the folder before the first request.

        Raises
        ------
        OutputError
            If it cannot be written to.
        """
        if self._open or self._quiet:
            return
        try:
            make_folder(self._path.parent)
        except OutputError:
            if self._strict:
                raise
            return
        self._open = True

    def leave_no_trace(self) -> None:
        """Write nothing: what is counted is for `carry` of another one."""
        self._quiet = True

    def leave_trace(self) -> None:
        """Write what was counted after all: no other one carries it."""
        self._quiet = False
        self.begin()
        self.flush()

    def carry(self, requests: int) -> None:
        """Count requests of this run that were sent before this object was made."""
        self.carried = requests
        self.sent += requests
        self._unwritten[0] += requests

    @property
    def before(self) -> int:
        """Requests of all runs without those carried over to this one."""
        return (self.total or 0) - self.carried

    @property
    def counted(self) -> int:
        """Requests of all runs, this one included, as the next run finds them."""
        return (self.total or 0) + (self.sent if self._quiet else 0)

    def add(self, requests: int, tokens: int = 0) -> None:
        """Count requests, or take one back that the server throttled."""
        with self._lock:
            self.sent, self.tokens = self.sent + requests, self.tokens + tokens
            self._unwritten = [self._unwritten[0] + requests, self._unwritten[1] + tokens]
            if self._unwritten[0] >= self._piece:
                self._write()

    def flush(self) -> None:
        """Write what was counted since the last line."""
        with self._lock:
            if any(self._unwritten):
                self._write()

    def _write(self) -> None:
        if self._open:
            requests, tokens = self._unwritten
            now = datetime.now(UTC).isoformat(timespec="seconds")
            line = {"server": self.server, "requests": requests, "prompt_tokens": tokens}
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            try:
                handle = os.open(self._path, flags, 0o600)
                # One write: other processes may append to the file at the same time.
                with os.fdopen(handle, "ab", buffering=0) as file:
                    file.write(json.dumps({**line, "until": now}).encode() + b"\n")
            except OSError as error:
                if self._strict:
                    raise OutputError(
                        f"cannot be written: {error.strerror}, so requests would go uncounted",
                        cure="free the place, or give another --answers folder",
                        where=str(self._path),
                    ) from error
                self._open = False
            self._unwritten = [0, 0]

    @property
    def total(self) -> int | None:
        """Requests of all runs with this folder; None where none can be kept there.

        Raises
        ------
        RecordError
            If the file is damaged, or cannot be read.
        """
        self.flush()
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return 0 if self._open or self._strict or self._quiet else None
        except (OSError, UnicodeDecodeError) as error:
            if not self._strict:
                return None
            raise RecordError(
                "cannot be read, so it is unknown how many requests were sent",
                cure="make it readable, or remove it if its requests are to be forgotten",
                where=str(self._path),
            ) from error
        total = 0
        for number, line in enumerate(lines, 1):
            try:
                told = json.loads(line)
                total += int(told["requests"]) if _one_name(told["server"]) == self.server else 0
            except (ValueError, KeyError, TypeError) as error:
                raise RecordError(
                    "cannot be read, so it is unknown how many requests were sent",
                    cure="repair or remove the line: each is a JSON object with server and "
                    "requests",
                    where=f"{self._path}: line {number}",
                ) from error
        return total


def _one_name(server: str) -> str:
    """An address, with one name for this machine."""
    return re.sub(
        r"(?<=://)(localhost|\[::1\])(?=[:/]|$)", "127.0.0.1", server, flags=re.IGNORECASE
    )
