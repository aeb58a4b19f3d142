"""Several results that a command compares or draws together."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canary.cli.outputs import audit_in
from canary.errors import InputError
from canary.records.validation import brief


@dataclass(frozen=True)
class Compared:
    """What several results are called, and how well their models do."""

    label: list[str] | None = None
    test_loss: list[float] | None = None
    test_scores: list[Path] | None = None
    group: list[str] | None = None

    def read(self, audit_files: list[Path]) -> list[Path]:
        """The files that a command with these options reads."""
        if bool(audit_files) == bool(self.group):
            raise InputError(
                "audits are given as files and by --group" if self.group else "there is no audit",
                cure="give files such as audit/audit.json, or groups by --group NAME=FILES",
            )
        grouped = [place for places in self.groups().values() for place in places]
        return [*map(audit_in, _opened(audit_files)), *grouped, *(self.test_scores or [])]

    def groups(self) -> dict[str, list[Path]]:
        """The audits of each ``--group NAME=PATH,PATH``; paths may be folders and patterns."""
        found: dict[str, list[Path]] = {}
        for words in self.group or []:
            name, equals, paths = words.partition("=")
            places = [place for path in paths.split(",") for place in _audits_at(path.strip())]
            if not (name.strip() and equals and places):
                raise InputError(
                    f"{brief(words)} names no audits" if equals else f"{brief(words)} has no =",
                    cure="give NAME=FILE,FILE or NAME=FOLDER, where canary audit wrote "
                    "audit.json; folders with audits elsewhere need a quoted pattern",
                    where="--group",
                )
            known = found.setdefault(name.strip(), [])
            known += places
            if twice := next((place for place in known if known.count(place) > 1), None):
                raise InputError(
                    "an audit is given twice", cure="name each audit once", where=str(twice)
                )
        return found

    def results(self, files: list[Path], *, drawn: bool = False) -> tuple[Any, dict[str, Any]]:
        """The audits in some files, or what a single one holds; what to call it.

        Of groups the audits of each by its name. Several histories can only be `drawn`.

        Membership tests are compared by their files.

        Without labels they are the files' names where the models do not distinguish the audits.
        """
        from canary.audits.audit_result import Audit
        from canary.audits.history import KIND, History
        from canary.gate.reading import REPORTED, read
        from canary.gate.subjects import are_surveys, only_audits
        from canary.records.versioned_json import kind_of
        from canary.reports.comparison import measured_losses

        if self.test_loss and self.test_scores:
            raise InputError(
                "--test-loss and --test-scores are both given", cure="give one of them"
            )
        losses = measured_losses(self.test_scores) if self.test_scores else self.test_loss or None
        if self.group:
            if self.label:
                raise InputError("--label is not for groups", cure="name them by --group NAME=")
            groups = self.groups()
            if drawn and all(kind_of(one) == KIND for some in groups.values() for one in some):
                if losses:
                    raise InputError("test losses are for audits", cure="omit them")
                return {n: [History.load(one) for one in some] for n, some in groups.items()}, {}
            only_audits(place for places in groups.values() for place in places)
            grouped = {n: [Audit.load(place) for place in some] for n, some in groups.items()}
            return grouped, {"test_losses": losses}
        files = _opened(files)
        places = [audit_in(file) for file in files]
        histories = [place for place in places if kind_of(place) == KIND]
        if drawn and len(histories) == len(files) > 1:
            names = self.label or [str(file) for file in files]
            return [History.load(place) for place in places], {"labels": names}
        if histories and len(files) > 1:
            raise InputError(
                "is the history of a training, which cannot be compared",
                cure="give it as the only file, or draw several histories with canary plot",
                where=str(histories[0]),
            )
        if histories:
            return History.load(histories[0]), {"labels": self.label, "test_losses": losses}
        if len(places) == 1 and kind_of(places[0]) in REPORTED:
            return read(places[0]), {"labels": self.label, "test_losses": losses}
        if len(places) > 1 and are_surveys(places):
            return places, {"labels": self.label, "test_losses": losses}
        only_audits(places)
        audits = [Audit.load(place) for place in places]
        models = {str(audit.model.get("name")) for audit in audits}
        names = _apart(files)
        unclear = len(models) < len(audits) and len(set(names)) == len(names)
        labels = self.label or (names if unclear else None)
        return audits, {"labels": labels, "test_losses": losses}


def size_of(words: str) -> tuple[float, float]:
    """``3.3,2.6`` as two numbers; what is none is refused with the sizes that are too small."""
    try:
        width, height = map(float, words.split(","))
    except ValueError:
        return 0.0, 0.0
    return width, height


def _opened(files: Sequence[Path]) -> list[Path]:
    """Files and folders; in place of a folder of folders with audits, these audits."""
    inside = [(file, audit_in(file).is_dir() and _audits_at(str(file))) for file in files]
    return [one for file, found in inside for one in found or [file]]


def _audits_at(path: str) -> list[Path]:
    """The audits that a path names: a file, a pattern, or a folder with folders of audits."""
    if not path:
        return []
    matched = sorted(glob.glob(path)) if glob.has_magic(path) else [path]  # noqa: PTH207
    found: list[Path] = []
    for one in map(Path, matched):
        home = audit_in(one)
        levels = ("*/audit.json", "*/audit/audit.json") if home.is_dir() else ()
        inside = sorted(file for level in levels for file in one.glob(level))
        found += inside or ([] if home.is_dir() else [home])
    return found


def _apart(files: Sequence[Path]) -> list[str]:
    """The files by what sets them apart: without folders and last names that all share."""
    parts = [file.parts for file in files]
    most = min(map(len, parts)) - 1
    differ = (len(set(names)) > 1 for names in zip(*parts, strict=False))
    heads = next((at for at, other in enumerate(differ) if other), most)
    heads = min(heads, most)
    ends = (len({part[-1 - at] for part in parts}) > 1 for at in range(most - heads))
    tails = next((at for at, other in enumerate(ends) if other), most - heads)
    return ["/".join(part[heads : len(part) - tails]) for part in parts]
