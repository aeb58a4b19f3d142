"""What a command is about to write: nothing that it reads, cannot write or was not asked for."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from canary.errors import InputError, OutputError
from canary.records.files import check_writable
from canary.records.overwrite_guard import kind_there

Output = tuple[Path, Collection[str]]
"""A file that will be written, and the kinds of which it may replace one."""

_MODELS = ("masked", "model", "reference", "tokenizer")

_OF_A_MODEL = (
    *("config.json", "generation_config.json", "*.safetensors*", "tokenizer*"),
    *("special_tokens_map.json", "vocab.*", "merges.txt"),
)


def check_paths(options: Mapping[str, Any]) -> None:
    """Refuse paths that cannot be, and what is neither a file nor a folder.

    A pipe would be waited for, and a device may never end.

    Parameters
    ----------
    options : mapping
        What a command was given. Of its text only names of models are paths.

    Raises
    ------
    InputError
    """
    for name, given in options.items():
        for value in given if isinstance(given, list | tuple) else [given]:
            if isinstance(value, Path) or (name in _MODELS and isinstance(value, str)):
                _check_path(value)


def _check_path(path: str | Path) -> None:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - of an address of a server as well
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
            return  # nothing is there, and whoever reads it says so
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"is no path ({reason})", cure="check it", where=str(path)) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(
            "is a pipe, a device or a socket",
            cure="name a file on disk (write what comes out of a pipe to one)",
            where=str(path),
        )


def check_name(output: Path) -> None:
    """Refuse a file to write that is named like a folder: ``.``, ``/``, or nothing."""
    if not output.name:
        raise OutputError(
            "is a folder, a file was expected", cure="name a file in it", where=str(output)
        )


def check_outputs(
    outputs: Sequence[Output], *, inputs: Sequence[Path], force: bool | None = False
) -> None:
    """Check all outputs of a command before the first is written.

    Parameters
    ----------
    outputs : sequence of Output
    inputs : sequence of Path
        What the command reads.
    force : bool, optional
        Whether an earlier result is replaced. None: it is if it is of the kind, for verdicts,
        which cost nothing to make again.

    Raises
    ------
    OutputError
        If one is an input (by another name, a link or a hard link as well) or another
        output, cannot be written, or would replace something.
    """
    for number, (output, _) in enumerate(outputs):
        if any(_same(output, given) for given in inputs):
            raise OutputError(
                "is read by this command, and what is read is never modified",
                cure="name another file to write",
                where=str(output),
            )
        if any(_same(output, other) for other, _ in outputs[:number]):
            raise OutputError(
                "is where another result of this command goes",
                cure="name another file to write",
                where=str(output),
            )
    for output, replaces in outputs:
        check_writable(output, replaces=replaces)
        if force or not output.is_file() or not output.stat().st_size:
            continue
        if force is None and kind_there(output) not in replaces:
            raise OutputError(
                f"holds something else than {' or '.join(replaces)}",
                cure="name another file, or remove this one yourself if you need it no more",
                where=str(output),
            )
        if force is False:
            raise OutputError(
                "exists already",
                cure="name another place, or replace it with --force",
                where=str(output),
            )


def model_files(model: str | None) -> list[Path]:
    """The files by which a model or tokenizer is read, if it is a file or folder here."""
    if model is None:
        return []
    place = Path(model)
    if not place.is_dir():
        return [place]
    return [file for pattern in _OF_A_MODEL for file in place.glob(pattern)]


def audit_in(given: Path) -> Path:
    """The audit that a path names: a file, or the folder that `canary audit --out` wrote."""
    inside = given / "audit.json"
    return inside if inside.is_file() else given


def factory_file(factory: str | None) -> list[Path]:
    """The file of ``path/to/file.py:function``."""
    place = (factory or "").rpartition(":")[0]
    return [Path(place)] if place.endswith(".py") else []


def _same(one: Path, other: Path) -> bool:
    try:
        if one.exists() and other.exists():
            return one.samefile(other)
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):  # a name too long, a NUL: nothing is there
        return False
