"""Outputs of classifiers from files, in pieces: ``.npz``, Parquet and CSV.

A file holds ``logits``, ``probs`` or ``losses`` (the first that is there), ``labels``,
``member`` and, if there are groups, ``group``. In an ``.npz`` file these are arrays, logits
and probabilities of shape (samples, classes). In a table they are columns: a column of
lists, or one for each class named ``logits_0``, ``logits_1`` and so on.
"""

from __future__ import annotations

import io
import lzma
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.signals.class_signals import Outputs
from canary.signals.output_checks import Piece, check_lengths

KINDS: tuple[Outputs, ...] = ("logits", "probs", "losses")
"""Names of outputs; of several in a file the first is read."""

Names = tuple[str, ...]

_BROKEN = (
    *(OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    # What zipfile and numpy's parser of headers raise besides: of encryption and unknown
    # compression, and of headers that are no Python or tell of more than there can be.
    *(RuntimeError, TypeError, SyntaxError, LookupError, tokenize.TokenError),
    *(OverflowError, MemoryError, AttributeError),
)

_LAST_CHARACTER = 0x10FFFF

_BYTES = 1 << 25
"""Of the numbers of a piece, as float64."""

_MOST_BYTES = 1 << 30
"""Of what has to be held whole: a row, an array beside the outputs, outputs by columns."""

_HEADER_BYTES = 1 << 14  # numpy refuses headers of more than 10,000
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others unpack without bound


def pieces_of(
    path: str | os.PathLike[str], *, members: bool = True
) -> tuple[Outputs, Iterator[Piece]]:
    """What kind of outputs a file holds, and its samples piece by piece, not yet checked.

    The ending says what it is: ``.npz``, ``.parquet`` or ``.csv``. Without `members`, what the file
    says of them is left alone, and none is one.

    Raises
    ------
    InputError
        If it cannot be read, is damaged, lacks an array, or holds pickled objects (which
        are never loaded). Damage may show only while the pieces are read.
    """
    place = Path(path)
    readers = {".npz": _npz, ".parquet": _parquet, ".csv": _csv}
    reader = readers.get(place.suffix.lower())
    if reader is None:
        raise InputError(
            "is a folder" if place.is_dir() else f"has the ending {place.suffix!r}",
            cure="save the outputs as .npz, .parquet or .csv",
            where=str(place),
        )
    kind, pieces = reader(place, ("labels", "member") if members else ("labels",))
    return kind, _guarded(pieces, place)


def _guarded(pieces: Iterator[Piece], path: Path) -> Iterator[Piece]:
    """The pieces; what goes wrong while they are read is an InputError."""
    try:
        yield from pieces
    except InputError:
        raise
    except _BROKEN as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
        return InputError(
            f"cannot be read ({error.strerror})", cure="check the path", where=str(path)
        )
    reason = str(error).partition("\n")[0]
    return InputError(
        f"is damaged or not what its ending says ({reason})",
        cure="write it again",
        where=str(path),
    )


def _kind(names: set[str], path: Path, needed: Names) -> Outputs:
    found = [kind for kind in KINDS if kind in names]
    missing = [name for name in needed if name not in names]
    if not found or missing:
        lacking = " and ".join([*([] if found else ["logits, probs or losses"]), *missing])
        shown = ", ".join(sorted(names)[:10]) or "nothing"
        raise InputError(
            f"lacks {lacking}; it holds {shown}",
            cure=f"save logits (or probs, or losses) and {' and '.join(needed)} under these names",
            where=str(path),
        )
    return found[0]


# --- npz ------------------------------------------------------------------------------


def _npz(path: Path, needed: Names) -> tuple[Outputs, Iterator[Piece]]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            kind = _kind(names, path, needed)
            beside = [*needed, *(["group"] if "group" in names else [])]
            lengths = {}
            for name in (kind, *beside):
                with _array(archive, name, path, whole=name in beside) as (shape, _, _, _):
                    pass
                lengths[name] = shape[0] if shape else 0
    except InputError:
        raise
    except _BROKEN as error:
        raise _damaged(path, error) from error
    check_lengths(lengths, str(path))
    return kind, _npz_pieces(path, kind, beside)


def _npz_pieces(path: Path, kind: Outputs, beside: list[str]) -> Iterator[Piece]:
    with zipfile.ZipFile(path) as archive:
        held = {name: _whole(archive, name, path) for name in beside}
        labels = held["labels"]
        member, group = held.get("member", np.zeros(len(labels))), held.get("group")
        at = 0
        for outputs in _rows(archive, kind, path):
            part = slice(at, at + len(outputs))
            at += len(outputs)
            yield Piece(outputs, labels[part], member[part], None if group is None else group[part])


@contextmanager
def _array(
    archive: zipfile.ZipFile, name: str, path: Path, *, whole: bool
) -> Iterator[tuple[tuple[int, ...], bool, np.dtype[Any], IO[bytes]]]:
    """Shape, whether columns come first, and dtype of an array; and its numbers, to be read.

    The member holds as many bytes as these come to. What has to be held `whole`, or is by
    columns, is refused where it is too large, before any of it is unpacked.
    """
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type not in _PACKED:
        raise ValueError(f"{name} is compressed as numpy does not compress")
    with archive.open(info) as file:
        head = io.BytesIO(file.read(_HEADER_BYTES))
        shape, fortran, dtype = _header(head, name, path)
        size = math.prod(shape) * dtype.itemsize
        found = info.file_size - head.tell()
        if found != size:
            raise InputError(
                f"{name} holds {found:,} bytes, and its header (shape {shape}, type {dtype}) "
                f"says {size:,}",
                cure="write it again with numpy.savez",
                where=str(path),
            )
        by_columns = fortran and len(shape) > 1
        held = size if whole or by_columns else size // max(shape[0] if shape else 1, 1)
        if held > _MOST_BYTES:
            raise InputError(
                f"{name} takes {held / 1e9:,.1f} GB, at most {_MOST_BYTES / 1e9:.1f} GB can be "
                f"held{' of outputs by columns' if by_columns else ''}",
                cure="save it by rows (numpy.ascontiguousarray), which are read in pieces"
                if by_columns
                else "split the file, or write it again",
                where=str(path),
            )
    with archive.open(info) as file:
        file.read(head.tell())
        yield shape, fortran, dtype, file


def _header(head: io.BytesIO, name: str, path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(head)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(head)
    if dtype.hasobject:
        raise InputError(
            f"holds pickled objects in {name}, which are never loaded: to unpickle is to run "
            "what somebody wrote",
            cure="save arrays of numbers, of one length for all rows",
            where=str(path),
        )
    if any(length < 0 for length in shape):
        raise ValueError(f"{name} has the shape {shape}")
    return shape, fortran, dtype


def _whole(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    with _array(archive, name, path, whole=True) as (shape, _, dtype, file):
        if len(shape) != 1:
            raise InputError(
                f"{name} has the shape {shape}, expected one entry per sample",
                cure="save the number of each sample's class, as argmax(axis=1) of one-hot labels"
                if name == "labels"
                else "save it as an array of one dimension",
                where=str(path),
            )
        array = np.frombuffer(file.read(shape[0] * dtype.itemsize), dtype)
    if len(array) != shape[0]:
        raise EOFError(f"{name} holds {len(array)} of {shape[0]} entries")
    if dtype.kind == "U":  # numpy takes any number for a character, and fails later
        points = array.view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if ((points > _LAST_CHARACTER) | ((points >= 0xD800) & (points < 0xE000))).any():
            raise ValueError(f"{name} holds what is no text")
    return array


def _rows(archive: zipfile.ZipFile, name: str, path: Path) -> Iterator[NDArray[Any]]:
    with _array(archive, name, path, whole=False) as (shape, fortran, dtype, file):
        if fortran and len(shape) > 1:  # rows are scattered over the whole of it
            content = file.read(math.prod(shape) * dtype.itemsize)
            whole = np.frombuffer(content, dtype).reshape(shape, order="F")
            step = _rows_of(shape)
            yield from (whole[at : at + step] for at in range(0, len(whole), step))
            return
        width = math.prod(shape[1:])
        left, step = shape[0], _rows_of(shape)
        while left:
            count = min(step, left)
            content = file.read(count * width * dtype.itemsize)
            if len(content) < count * width * dtype.itemsize:
                raise EOFError(f"{name} ends too early")
            yield np.frombuffer(content, dtype).reshape(count, *shape[1:])
            left -= count


def _rows_of(shape: tuple[int, ...]) -> int:
    return max(_BYTES // (8 * max(math.prod(shape[1:]), 1)), 1)


# --- tables ---------------------------------------------------------------------------


def _parquet(path: Path, needed: Names) -> tuple[Outputs, Iterator[Piece]]:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    columns = file.schema_arrow.names
    kind, chosen = _chosen(columns, path, needed)
    width = sum(1 for name in chosen if name.startswith(kind))
    rows = _rows_of((1, width)) if width > 1 else 1 << 14
    read = [*chosen, *needed, *(["group"] if "group" in columns else [])]
    batches = file.iter_batches(batch_size=rows, columns=read)
    return kind, _table_pieces(batches, kind, chosen, path, needed)


def _csv(path: Path, needed: Names) -> tuple[Outputs, Iterator[Piece]]:
    import pyarrow.csv

    try:
        batches = pyarrow.csv.open_csv(path)
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    kind, chosen = _chosen(batches.schema.names, path, needed)
    return kind, _table_pieces(batches, kind, chosen, path, needed)


def _chosen(columns: list[str], path: Path, needed: Names) -> tuple[Outputs, list[str]]:
    """The kind of outputs, and the columns that hold it."""
    numbered: dict[str, list[str]] = {}
    for kind in KINDS:
        found = [name for name in columns if name.startswith(f"{kind}_")]
        ends = {name.removeprefix(f"{kind}_") for name in found}
        if found and ends == {str(number) for number in range(len(found))}:
            numbered[kind] = [f"{kind}_{number}" for number in range(len(found))]
        elif found and kind not in columns:
            raise InputError(
                f"has {len(found)} columns of {kind} that are not numbered from 0 without a gap",
                cure=f"name them {kind}_0, {kind}_1 and so on",
                where=str(path),
            )
    kind = _kind({*columns, *numbered}, path, needed)
    return kind, [kind] if kind in columns else numbered[kind]


def _table_pieces(
    batches: Any, kind: Outputs, chosen: list[str], path: Path, needed: Names
) -> Iterator[Piece]:
    empty = True
    for batch in batches:
        if not batch.num_rows:
            continue
        empty = False
        held = {name: batch.column(name) for name in batch.schema.names}
        nulls = [name for name in (*chosen, *needed) if held[name].null_count]
        if nulls:
            raise InputError(
                f"the column {nulls[0]} has empty cells", cure="fill each", where=str(path)
            )
        if chosen == [kind]:
            outputs = _lists(held[kind], kind, path)
        else:
            outputs = np.column_stack([_numbers(held[name]) for name in chosen])
        labels = _numbers(held["labels"])
        member = _numbers(held["member"]) if "member" in needed else np.zeros(len(labels))
        group = _named(held["group"]) if "group" in held else None
        yield Piece(outputs, labels, member, group)
    if empty:
        check_lengths({"labels": 0}, str(path))


def _named(column: Any) -> NDArray[Any]:
    """Groups: numbers that may not be whole as they are, to be checked, and others as text."""
    import pyarrow.types as kinds

    if kinds.is_floating(column.type) or (kinds.is_integer(column.type) and column.null_count):
        return _numbers(column)
    return np.asarray(column.to_pylist(), object).astype(str)


def _numbers(column: Any) -> NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _lists(column: Any, kind: Outputs, path: Path) -> NDArray[Any]:
    """A column of numbers, or of equally long lists of numbers."""
    import pyarrow as pa

    if not hasattr(column, "flatten") or not isinstance(
        column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray
    ):
        return _numbers(column)
    flat = _numbers(column.flatten())
    if len(flat) % len(column) or not _even(column, len(flat) // len(column)):
        raise InputError(
            f"the lists of {kind} differ in length",
            cure="give a number for each class to every sample",
            where=str(path),
        )
    return flat.reshape(len(column), -1)


def _even(column: Any, width: int) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.equal(pc.list_value_length(column), width)).as_py())
