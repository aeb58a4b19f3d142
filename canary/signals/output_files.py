"""Outputs of classifiers from files, in pieces: ``.npz``, Parquet and CSV.

A file holds ``logits``, ``probs`` or ``losses`` (the first that is there), ``labels``,
``member`` and, if there are groups or names of samples, ``group`` or ``id``. In an ``.npz``
file these are arrays, logits and probabilities of shape (samples, classes); it may hold
``inputs``, too. In a table they are columns: a column of lists, or one for each class named
``logits_0``, ``logits_1`` and so on.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.signals.class_signals import Outputs
from canary.signals.output_checks import Piece, check_lengths

KINDS: tuple[Outputs, ...] = ("logits", "probs", "losses")
"""Names of outputs; of several in a file the first is read."""

BESIDE = ("group", "id")
"""Names of what else may be there."""

ENDINGS = (".npz", ".parquet", ".csv")
"""Of files of outputs."""

Names = tuple[str, ...]

_LAST_CHARACTER = 0x10FFFF
_BYTES = 1 << 25  # of the numbers of a piece, as float64
_MOST_BYTES = 1 << 30  # of what is held whole: a row, an array beside the outputs, columns
_HEADER_BYTES = 1 << 14  # numpy refuses headers of more than 10,000
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others unpack without bound


def pieces_of(
    path: str | os.PathLike[str], *, members: bool = True
) -> tuple[Outputs, Iterator[Piece]]:
    """What kind of outputs a file holds, and its samples piece by piece, not yet checked.

    Parameters
    ----------
    path : path-like
        Its ending says what it is: ``.npz``, ``.parquet`` or ``.csv``.
    members : bool
        Whether the file must have flags of members; no sample is a member without.

    Returns
    -------
    kind : {"logits", "probs", "losses"}
    pieces : iterator of Piece

    Raises
    ------
    InputError
        If it cannot be read, is damaged, lacks an array, or holds pickled objects (which
        are never loaded). Damage may show only while the pieces are read.
    """
    place = Path(path)
    reader = dict(zip(ENDINGS, (_npz, _parquet, _csv), strict=True)).get(place.suffix.lower())
    if reader is None:
        problem = "is a folder" if place.is_dir() else f"has the ending {place.suffix!r}"
        cure = "save the outputs as .npz, .parquet or .csv"
        raise InputError(problem, cure=cure, where=str(place))
    with _damage_named(place):
        kind, pieces = reader(place, ("labels", "member") if members else ("labels",))

    def guarded() -> Iterator[Piece]:
        with _damage_named(place):
            yield from pieces

    return kind, guarded()


def inputs_of(path: str | os.PathLike[str], samples: int) -> NDArray[Any] | None:
    """The array ``inputs`` of an ``.npz`` file, a row for each sample; None where there is none.

    An InputError as in `pieces_of`, or if it takes more than 1 GiB or holds no numbers.
    """
    place = Path(path)
    if place.suffix.lower() != ".npz":
        return None
    with _damage_named(place), zipfile.ZipFile(place) as archive:
        if "inputs.npy" not in archive.namelist():
            return None
        stored = _Stored.of(archive, "inputs", place, whole=False)
        check_lengths({"labels": samples, "inputs": (*stored.shape, 0)[0]}, str(place))
        size = math.prod(stored.shape) * stored.dtype.itemsize
        if stored.dtype.kind not in "biuf" or len(stored.shape) < 2 or not 0 < size <= _MOST_BYTES:
            raise InputError(
                f"inputs has the shape {stored.shape} and the type {stored.dtype}",
                cure="save a row of numbers for each sample, of 1 GiB at most, or leave inputs out",
                where=str(place),
            )
        return np.concatenate([*stored.rows(archive)])


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Whatever a parser raises of a file that somebody wrote is an InputError."""
    try:
        yield
    except InputError:
        raise
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(problem, cure="check the path", where=str(path)) from error
    except Exception as error:
        reason = str(error).partition("\n")[0]
        problem = f"is damaged or not what its ending says ({reason})"
        raise InputError(problem, cure="write it again", where=str(path)) from error


def _kind(names: set[str], path: Path, needed: Names) -> Outputs:
    kinds = [kind for kind in KINDS if kind in names]
    missing = [name for name in needed if name not in names]
    if not kinds or missing:
        lacking = " and ".join([*([] if kinds else ["logits, probs or losses"]), *missing])
        shown = ", ".join(sorted(names)[:10]) or "nothing"
        problem = f"lacks {lacking}; it holds {shown}"
        cure = f"save logits (or probs, or losses) and {' and '.join(needed)} under these names"
        raise InputError(problem, cure=cure, where=str(path))
    return kinds[0]


def _read(names: set[str], needed: Names) -> Names:
    """What is needed, and flags of members that are there without."""
    return tuple(dict.fromkeys([*needed, *names & {"member"}]))


# --- npz ------------------------------------------------------------------------------


def _npz(path: Path, needed: Names) -> tuple[Outputs, Iterator[Piece]]:
    with zipfile.ZipFile(path) as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
        kind, needed = _kind(names, path, needed), _read(names, needed)
        beside = [*needed, *(name for name in BESIDE if name in names)]
        outputs = _Stored.of(archive, kind, path, whole=False)
        columns = [_Stored.of(archive, name, path, whole=True) for name in beside]
    stored = [outputs, *columns]
    check_lengths({array.name: (*array.shape, 0)[0] for array in stored}, str(path))

    def pieces() -> Iterator[Piece]:
        with zipfile.ZipFile(path) as archive:
            held = {array.name: array.whole(archive) for array in columns}
            labels = held["labels"]
            member = held.get("member", np.zeros(len(labels)))
            begin = 0
            for rows in outputs.rows(archive):
                part = slice(begin, begin + len(rows))
                begin = part.stop
                more = (held[name][part] if name in held else None for name in BESIDE)
                yield Piece(rows, labels[part], member[part], *more)

    return kind, pieces()


@dataclass(frozen=True)
class _Stored:
    """An array of an archive, by its header."""

    name: str
    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]
    begin: int

    @classmethod
    def of(cls, archive: zipfile.ZipFile, name: str, path: Path, *, whole: bool) -> _Stored:
        """Its header, checked: it holds as many bytes as these come to.

        What has to be held `whole`, or is by columns, is refused where it is too large, before
        any of it is unpacked.
        """
        info = archive.getinfo(f"{name}.npy")
        if info.compress_type not in _PACKED:
            raise ValueError(f"{name} is compressed as numpy does not compress")
        with archive.open(info) as file:
            head = io.BytesIO(file.read(_HEADER_BYTES))
        if np.lib.format.read_magic(head) == (1, 0):
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
        if dtype.kind == "V":
            problem, cure = f"{name} is of the type {dtype}", "save an array of numbers or names"
            raise InputError(problem, cure=cure, where=str(path))
        if any(length < 0 for length in shape):
            raise ValueError(f"{name} has the shape {shape}")
        size, there = math.prod(shape) * dtype.itemsize, info.file_size - head.tell()
        if there != size:
            raise InputError(
                f"{name} holds {there:,} bytes, and its header (shape {shape}, type {dtype}) "
                f"says {size:,}",
                cure="write it again with numpy.savez",
                where=str(path),
            )
        by_columns = fortran and len(shape) > 1
        held = size if whole or by_columns else size // max((*shape, 1)[0], 1)
        if held > _MOST_BYTES:
            raise InputError(
                f"{name} takes {held / 1e9:,.1f} GB, at most {_MOST_BYTES / 1e9:.1f} GB can be "
                f"held{' of outputs by columns' if by_columns else ''}",
                cure="save it by rows (numpy.ascontiguousarray), which are read in pieces"
                if by_columns
                else "split the file, or write it again",
                where=str(path),
            )
        if whole and len(shape) != 1:
            raise InputError(
                f"{name} has the shape {shape}, expected one entry per sample",
                cure="save the number of each sample's class, as argmax(axis=1) of one-hot labels"
                if name == "labels"
                else "save it as an array of one dimension",
                where=str(path),
            )
        return cls(name, shape, by_columns, dtype, head.tell())

    def rows(self, archive: zipfile.ZipFile) -> Iterator[NDArray[Any]]:
        """Some rows at a time."""
        samples, step = self.shape[0], _rows_of(self.shape)
        with archive.open(f"{self.name}.npy") as file:
            file.read(self.begin)
            if self.by_columns:  # rows are scattered over the whole of it
                whole = self._numbers(file, samples).reshape(self.shape, order="F")
                yield from (whole[begin : begin + step] for begin in range(0, samples, step))
                return
            for begin in range(0, samples, step):
                count = min(step, samples - begin)
                yield self._numbers(file, count).reshape(count, *self.shape[1:])

    def whole(self, archive: zipfile.ZipFile) -> NDArray[Any]:
        """All of an array of one dimension."""
        with archive.open(f"{self.name}.npy") as file:
            file.read(self.begin)
            array = self._numbers(file, self.shape[0])
        if self.dtype.kind == "U":  # numpy takes any number for a character, and fails later
            points = array.view(np.dtype("u4").newbyteorder(self.dtype.byteorder))
            if ((points > _LAST_CHARACTER) | ((points >= 0xD800) & (points < 0xE000))).any():
                raise ValueError(f"{self.name} holds what is no text")
        return array

    def _numbers(self, file: IO[bytes], samples: int) -> NDArray[Any]:
        size = samples * math.prod(self.shape[1:]) * self.dtype.itemsize
        content = file.read(size)
        if len(content) < size:
            raise EOFError(f"{self.name} ends too early")
        return np.frombuffer(content, self.dtype)


def _rows_of(shape: tuple[int, ...]) -> int:
    return max(_BYTES // (8 * max(math.prod(shape[1:]), 1)), 1)


# --- tables ---------------------------------------------------------------------------


def _parquet(path: Path, needed: Names) -> tuple[Outputs, Iterator[Piece]]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    columns = file.schema_arrow.names
    kind, chosen = _chosen(columns, path, needed)
    needed = _read({*columns}, needed)
    rows = _rows_of((1, len(chosen))) if len(chosen) > 1 else 1 << 14
    read = [*chosen, *needed, *(name for name in BESIDE if name in columns)]
    batches = file.iter_batches(batch_size=rows, columns=read)
    return kind, _table_pieces(batches, kind, chosen, path, needed)


def _csv(path: Path, needed: Names) -> tuple[Outputs, Iterator[Piece]]:
    import pyarrow.csv

    batches = pyarrow.csv.open_csv(path)
    kind, chosen = _chosen(batches.schema.names, path, needed)
    needed = _read({*batches.schema.names}, needed)
    return kind, _table_pieces(batches, kind, chosen, path, needed)


def _chosen(columns: list[str], path: Path, needed: Names) -> tuple[Outputs, list[str]]:
    """The kind of outputs, and the columns that hold it."""
    numbered: dict[str, list[str]] = {}
    for kind in KINDS:
        there = {name for name in columns if name.startswith(f"{kind}_")}
        wanted = [f"{kind}_{number}" for number in range(len(there))]
        if there and there == {*wanted}:
            numbered[kind] = wanted
        elif there and kind not in columns:
            raise InputError(
                f"has {len(there)} columns of {kind} that are not numbered from 0 without a gap",
                cure=f"name them {kind}_0, {kind}_1 and so on",
                where=str(path),
            )
    kind = _kind({*columns, *numbered}, path, needed)
    return kind, [kind] if kind in columns else numbered[kind]


def _table_pieces(
    batches: Any, kind: Outputs, chosen: list[str], path: Path, needed: Names
) -> Iterator[Piece]:
    import pyarrow.types as kinds

    rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        rows += batch.num_rows
        held = {name: batch.column(name) for name in batch.schema.names}
        nulls = [
            name for name in (*chosen, *needed, *held.keys() & {"id"}) if held[name].null_count
        ]
        if nulls:
            raise InputError(
                f"the column {nulls[0]} has empty cells", cure="fill each", where=str(path)
            )
        for name in ("labels", "member", *BESIDE):
            if name in held and kinds.is_nested(held[name].type):
                problem = f"the column {name} is of the type {held[name].type}"
                raise InputError(problem, cure="give one entry per sample", where=str(path))
        if chosen == [kind]:
            outputs = _lists(held[kind], kind, path)
        else:
            outputs = np.column_stack([_numbers(held[name]) for name in chosen])
        labels = _numbers(held["labels"])
        member = _numbers(held["member"]) if "member" in needed else np.zeros(len(labels))
        beside: list[NDArray[Any] | None] = []
        for column in map(held.get, BESIDE):
            if column is None:
                beside.append(None)
                continue
            # Numbers that may not be whole as they are, to be checked, and others as text.
            lacking = kinds.is_integer(column.type) and column.null_count > 0
            if lacking or kinds.is_floating(column.type):
                beside.append(_numbers(column))
            else:
                beside.append(np.asarray(column.to_pylist(), object).astype(str))
        yield Piece(outputs, labels, member, *beside)
    check_lengths({"labels": rows}, str(path))


def _numbers(column: Any) -> NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _lists(column: Any, kind: Outputs, path: Path) -> NDArray[Any]:
    """A column of numbers, or of equally long lists of numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        return _numbers(column)
    if len(pc.unique(pc.list_value_length(column))) > 1:
        problem = f"the lists of {kind} differ in length"
        cure = "give a number for each class to every sample"
        raise InputError(problem, cure=cure, where=str(path))
    return _numbers(column.flatten()).reshape(len(column), -1)
