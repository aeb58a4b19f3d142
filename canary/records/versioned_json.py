"""Versioned, strict JSON documents.

A document is an object with the fields ``kind`` (what it is) and ``schema`` (which version of
that kind), and what the kind adds. Strict means: no NaN or infinity, no duplicate keys, UTF-8
only. Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from canary.errors import RecordError
from canary.records.files import atomic_write
from canary.records.validation import brief

_SHOWN = 3

# Only an escape can bring half of a surrogate pair: there is none in UTF-8.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def render_document(kind: str, schema: int, body: Mapping[str, Any]) -> str:
    """The text of a document; a ValueError for NaN, infinities and half surrogate pairs."""
    document = {"kind": kind, "schema": schema, **body}
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    text.encode()  # here, and not when half of a file is written
    return text


def dump_document(
    path: str | os.PathLike[str],
    kind: str,
    schema: int,
    body: Mapping[str, Any],
    *,
    private: bool = False,
) -> None:
    """Write a document atomically; `private` gives it owner-only permissions.

    Only a document of the same kind is replaced.
    """
    atomic_write(path, render_document(kind, schema, body), private=private, replaces=(kind,))


class Saves:
    """A result with the file that its command writes; `canary.read` does not read it back."""

    _kind: ClassVar[str]
    _schema: ClassVar[int] = 1

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the file of the command, atomically, readable by its owner only.

        ``canary check``, ``report --annex`` and `canary.check` read it; `canary.read` does not. A
        file of the same kind is replaced; `force` is taken as elsewhere, and changes nothing.
        """
        dump_document(path, self._kind, self._schema, self.to_dict(), private=True)


def _beside(path: str | os.PathLike[str]) -> str:
    """What other documents there are in the folder of a file that is missing."""
    with contextlib.suppress(OSError, ValueError):
        if not Path(path).exists():
            there = sorted(one.name for one in Path(path).parent.glob("*.json"))[:_SHOWN]
            return f": its folder has {', '.join(there)}" if there else ""
    return ""


def load_document(path: str | os.PathLike[str], kind: str, schema: int) -> dict[str, Any]:
    """Read a document of `kind`, at most as new as `schema`; both are included.

    Raises
    ------
    RecordError
        If the file is missing, not UTF-8, not JSON (a truncated file, say), of another
        kind, or written under a newer schema than this version of canary knows.
    """

    def refused(problem: str, cure: str) -> RecordError:
        return RecordError(problem, cure=cure, where=str(path))

    other, again = f"name a {kind} file", f"write it again, or name a whole {kind} file"
    try:
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode):
            folder = ("is a folder", f"{other}, which may be in it or be another argument")
            pipe = ("is a pipe, a device or a socket", "name a file on disk")
            raise refused(*(folder if stat.S_ISDIR(mode) else pipe))
        content = Path(path).read_bytes()
    except RecordError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise refused(f"cannot be read ({reason})", f"check the path{_beside(path)}") from error
    try:
        text = content.decode()
        document = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        if _SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise refused(f"is not UTF-8 (byte {error.start})", other) from error
    except UnicodeEncodeError as error:
        problem = "holds half a surrogate pair, which is no character"
        raise refused(problem, again) from error
    except RecursionError as error:
        raise refused("is nested too deeply", other) from error
    except ValueError as error:
        if content.lstrip()[:1] == b"<":
            cure = "name the .json file that was written beside it"
            raise refused("is a page, and no file of numbers", cure) from error
        raise refused(f"is not valid JSON ({error}); it may be truncated", again) from error
    named = document.get("kind") if isinstance(document, dict) else None
    if named != kind:
        but = f" but a {brief(named)}" if isinstance(named, str) else ""
        raise refused(f"is not a {kind} document{but}", other)
    version = document.get("schema")
    if type(version) is not int or version < 1:
        problem = f"has no valid schema number (got {brief(version)})"
        raise refused(problem, "write it again with this version of canary")
    if version > schema:
        problem = f"has schema {brief(version)}; this version of canary reads up to {schema}"
        raise refused(problem, "upgrade canary: update its checkout, and pip install . there again")
    return document  # type: ignore[no-any-return]


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """The kind that a document names; None if it names no kind, which loading it explains."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    kind = document.get("kind") if isinstance(document, dict) else None
    return kind if isinstance(kind, str) else None


def digest_of(body: Mapping[str, Any]) -> str:
    """SHA-256 of a result as plain data, the same in memory and in its file.

    It does not depend on names in reports (``about``).
    """
    kept = {name: value for name, value in body.items() if name not in ("kind", "schema", "about")}
    text = json.dumps(kept, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key is there twice in one object")
    return unique
