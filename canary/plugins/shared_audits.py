"""Audits that are computed once, whoever asks first, and shared by processes of one run."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canary.records.sealing import sealed

if TYPE_CHECKING:
    from canary.audits.audit_result import Audit
    from canary.corpus.canaries import CanarySet

_NEUTRAL = ("parts", "stage")
"""Options that change nothing in the result."""


class SharedAudits:
    """The audits of one run of tests, by what they are of.

    Parameters
    ----------
    folder : Path or None
        Where the processes of the run find each other's audits; None if there is only one.
        Readable by its owner alone: whoever has an audit and the model finds the secrets.
    key : bytes
        Random, of this run, and written nowhere: names of files follow from secrets and this
        key, so that nobody finds the secrets by trying which of them gives the name.
    """

    def __init__(self, folder: Path | None, key: bytes) -> None:
        self._folder, self._key = folder, key
        self._audits: dict[str, Audit] = {}

    @sealed
    def audit(
        self, model: Any, canaries: CanarySet, *, extractions: bool = False, **options: Any
    ) -> Audit:
        """The audit of a model, computed if it is not there yet.

        Parameters
        ----------
        model : LanguageModel, or what `canary.load` takes
            Two are the same if their files are, or else their parameters.
        canaries : CanarySet
        extractions : bool
            Look for the likeliest candidates as well, for ``check(..., no_extraction=True)``.
        **options
            Those of `canary.audit`.
        """
        if not _is_folder(model):
            from canary.models.loading import load

            model = load(model)
        name = self._name(model, canaries, {"extractions": extractions, **options})
        if name not in self._audits:
            with self._alone(name) as path:
                self._audits[name] = _audit(
                    path, model, canaries, extractions=extractions, options=options
                )
        return self._audits[name]

    def _name(self, model: Any, canaries: CanarySet, options: dict[str, Any]) -> str:
        telling = {name: value for name, value in options.items() if name not in _NEUTRAL}
        parts = [_identity(model), canaries.to_dict(), telling]
        text = json.dumps(parts, sort_keys=True, default=repr)
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    @contextmanager
    def _alone(self, name: str) -> Iterator[Path | None]:
        """Keep others that want the same audit waiting; gives the file of the audit."""
        if self._folder is None:
            yield None
            return
        with (self._folder / f"{name}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file is closed, or the process dies
            yield self._folder / f"{name}.json"


def _audit(
    path: Path | None,
    model: Any,
    canaries: CanarySet,
    *,
    extractions: bool,
    options: dict[str, Any],
) -> Audit:
    from canary.audits.audit_result import Audit
    from canary.audits.auditing import audit
    from canary.audits.extracting import with_extractions
    from canary.models.loading import load

    if path is not None and path.exists():
        return Audit.load(path)
    seam = load(model)
    found = audit(seam, canaries, **options)
    if extractions:
        found = with_extractions(found, seam, canaries)
    if path is not None:
        found.save(path)
    return found


def _is_folder(model: Any) -> bool:
    return isinstance(model, str | os.PathLike) and Path(model).is_dir()


def _identity(model: Any) -> object:
    """What tells a model from others: the content of its folder, or what it is when loaded."""
    from canary.scoring.identity import identity_of

    if not _is_folder(model):
        return identity_of(model)
    folder, found = Path(model), {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                found[str(path.relative_to(folder))] = hashlib.file_digest(
                    file, "sha256"
                ).hexdigest()
    return found
