"""Results as plain data and back, strictly: one converter for every kind of result.

A result is a frozen dataclass that inherits from `Record`, or from `Document` if it has a file
of its own; its fields say what is written. Nothing missing, unknown or of another type is read.
No error repeats a value: it may be a secret in the wrong place.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    get_type_hints,
)

import numpy as np
from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationNote,
    override,
)
from cattrs.cols import homogenous_tuple_structure_factory, is_mapping, mapping_structure_factory
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from canary.errors import CanaryError, RecordError
from canary.records.sealing import sealed
from canary.records.validation import brief
from canary.records.versioned_json import dump_document, load_document

T = TypeVar("T")

_CURE = "restore the file as it was written, or generate it again"

# What checks and upgrades of data raise that are not as they expect.
_UNFIT = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)

_Names: TypeAlias = tuple[str | EllipsisType, ...]


class Record:
    """A frozen dataclass that is written as plain data and read back.

    Options of a subclass, as in ``class Thing(Record, written=(..., "total"))``:

    written : tuple of str
        Fields and properties in the order in which they are written; ``...`` is every field.
        Of what is written, the fields alone are read back.
    sparse : bool or tuple of str
        Whether a field that has its default is not written; or those of which that holds.
    """

    _written: ClassVar[_Names] = (...,)
    _sparse: ClassVar[bool | tuple[str, ...]] = False
    _cure: ClassVar[str] = _CURE

    def __init_subclass__(
        cls, *, written: _Names = (...,), sparse: bool | tuple[str, ...] = False
    ) -> None:
        super().__init_subclass__()
        cls._written, cls._sparse = written, sparse

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, ready for JSON."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    @sealed
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises
        ------
        RecordError
            If a field is missing, unknown or of another type, or if the parts do not fit
            together. It says where, and repeats no value.
        """
        try:
            return from_plain(data, cls)
        except (BaseValidationError, *_UNFIT) as error:
            raise _refusal(error, cls._cure) from None  # which names keys, perhaps secret

    @classmethod
    def _upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Data that an earlier version wrote, as this one writes it."""
        return data

    def _check(self) -> None:
        """Raise a ValueError if parts that were read do not fit together."""


class Document(Record):
    """A record with a file of its own: versioned JSON that only its owner may read.

    Options of a subclass, beside those of `Record`:

    kind : str
        What the file says that it is.
    schema : int
        The version of the kind that is written; earlier ones are read as well.
    cure : str
        What to do where a file cannot be read.

    A field ``file`` is not written: it says from where the document was read.
    """

    _kind: ClassVar[str]
    _schema: ClassVar[int]

    def __init_subclass__(
        cls, *, kind: str, schema: int = 1, cure: str = _CURE, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        cls._kind, cls._schema, cls._cure = kind, schema, cure

    @sealed
    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the result as versioned JSON, atomically, readable by its owner only.

        Only `CanarySet.save` asks for `force` to replace a file; others take it and replace.
        """
        dump_document(path, self._kind, self._schema, self.to_dict(), private=True)

    @classmethod
    @sealed
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        RecordError
            If the file is missing, damaged, of another kind or too new, or holds no such result.
        """
        document = load_document(path, cls._kind, cls._schema)
        try:
            loaded = cls.from_dict(document)
        except RecordError as error:
            where = f"{Path(path)}: {error.where}" if error.where else str(Path(path))
            raise RecordError(error.problem, cure=error.cure, where=where) from error
        return replace(loaded, file=str(path)) if hasattr(loaded, "file") else loaded  # type: ignore[type-var]


@dataclass(frozen=True)
class Infinite:
    """What is written for the infinities of an annotated float, for JSON has none."""

    up: str | None = "inf"
    down: str | None = "-inf"


Extended: TypeAlias = Annotated[float, Infinite()]
"""A float that may be infinite, written as ``"inf"`` or ``"-inf"`` then."""


_CONVERTER = Converter(
    forbid_extra_keys=True, unstruct_collection_overrides={Sequence: list, Mapping: dict}
)
_CONVERTER.register_unstructure_hook(np.ndarray, lambda array: array.tolist())
_CONVERTER.register_unstructure_hook(np.generic, lambda scalar: scalar.item())

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def to_plain(value: object) -> Any:
    """Dataclasses, mappings, sequences and arrays as plain data, ready for JSON."""
    return _CONVERTER.unstructure(value)


def from_plain(value: object, kind: type[T]) -> T:
    """What `to_plain` wrote; an error of cattrs if it is no `kind`, as in a `Record`'s reading."""
    return _CONVERTER.structure(value, kind)


def write_as(kind: type[T], write: Callable[[T], Any], read: Callable[[Any], T]) -> None:
    """Let fields of `kind` be written as what `write` gives, which may be a dataclass."""
    _CONVERTER.register_unstructure_hook(kind, lambda value: to_plain(write(value)))
    _CONVERTER.register_structure_hook(kind, lambda value, _: read(value))


def _primitive(value: Any, kind: type[Any]) -> Any:
    """`value`, if it is of this very type; a whole number serves as a float that can hold it."""
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise TypeError(f"is not {_NAMES[kind]}")
    if kind is float and not abs(value) <= sys.float_info.max:
        raise ValueError("is not finite")
    return value


for _kind in _NAMES:
    _CONVERTER.register_structure_hook(_kind, _primitive)


def _only_from(
    expected: tuple[type, ...], problem: str, inner: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    def read(value: Any, kind: Any) -> Any:
        if not isinstance(value, expected):
            raise TypeError(problem)
        return inner(value, kind)

    return read


@_CONVERTER.register_structure_hook_factory(
    lambda kind: getattr(kind, "__origin__", None) is Literal
)
def _read_literal(kind: Any) -> Callable[[Any, Any], Any]:
    def read(value: Any, _: Any) -> Any:
        if not isinstance(value, str) or value not in get_args(kind):
            raise ValueError(f"is none of {', '.join(get_args(kind))}")
        return value

    return read


@_CONVERTER.register_structure_hook_factory(lambda kind: get_args(kind)[1:] == (...,))
def _read_tuple(kind: Any) -> Callable[[Any, Any], Any]:
    read = homogenous_tuple_structure_factory(kind, _CONVERTER)
    return _only_from((list, tuple), "is not a list", read)


@_CONVERTER.register_structure_hook_factory(lambda kind: kind == str | tuple[str, ...])
def _read_text_or_texts(kind: Any) -> Callable[[Any, Any], Any]:
    several = _CONVERTER.get_structure_hook(tuple[str, ...])
    return lambda value, _: value if isinstance(value, str) else several(value, kind)


@_CONVERTER.register_structure_hook_factory(is_mapping)
def _read_mapping(kind: Any) -> Callable[[Any, Any], Any]:
    read = mapping_structure_factory(kind, _CONVERTER, structure_to=dict)
    return _only_from((Mapping,), "is not an object", read)


def _infinities(kind: Any) -> dict[float, str | None]:
    """What is written for the infinities of an annotated float; nothing of another kind."""
    words = [n for n in getattr(kind, "__metadata__", ()) if isinstance(n, Infinite)]
    return {math.inf: words[0].up, -math.inf: words[0].down} if words else {}


@_CONVERTER.register_structure_hook_factory(lambda kind: bool(_infinities(kind)))
def _read_infinite(kind: Any) -> Callable[[Any, Any], Any]:
    values = {word: value for value, word in _infinities(kind).items()}

    def read(value: Any, _: Any) -> Any:
        named = value is None or isinstance(value, str)
        return values[value] if named and value in values else _primitive(value, float)

    return read


@_CONVERTER.register_unstructure_hook_factory(lambda kind: bool(_infinities(kind)))
def _write_infinite(kind: Any) -> Callable[[float], Any]:
    words = _infinities(kind)
    return lambda value: words.get(value, value)


def _is_dataclass(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


def _overrides(kind: Any) -> tuple[dict[str, Any], _Names]:
    """What is special about fields: those that are not written, and annotated ones; and the order.

    The order names fields and properties.
    """
    special = {}
    written: _Names = kind._written if issubclass(kind, Record) else (...,)
    names = [field.name for field in fields(kind)]
    hints, plain = get_type_hints(kind, include_extras=True), get_type_hints(kind)
    for name in names:
        of_file = name == "file" and issubclass(kind, Document)
        if name not in written and (... not in written or of_file):
            special[name] = override(omit=True)
        elif issubclass(kind, Record) and isinstance(kind._sparse, tuple) and name in kind._sparse:
            special[name] = override(omit_if_default=True)
        elif hints[name] != plain[name]:  # cattrs reads dataclasses without extras
            special[name] = override(
                struct_hook=_CONVERTER.get_structure_hook(hints[name]),
                unstruct_hook=_CONVERTER.get_unstructure_hook(hints[name]),
            )
    return special, written


@_CONVERTER.register_structure_hook_factory(_is_dataclass)
def _read_dataclass(kind: Any) -> Callable[[Any, Any], Any]:
    special, written = _overrides(kind)
    inner = make_dict_structure_fn(kind, _CONVERTER, **special)
    if not issubclass(kind, Record):
        return _only_from((Mapping,), "is not an object", inner)
    dropped = {*written} - {field.name for field in fields(kind)}
    dropped |= {"kind", "schema"} if issubclass(kind, Document) else set()

    def read(data: Any, _: Any) -> Any:
        record = inner(kind._upgraded({n: data[n] for n in data if n not in dropped}), kind)
        record._check()
        return record

    return _only_from((Mapping,), "is not an object", read)


@_CONVERTER.register_unstructure_hook_factory(_is_dataclass)
def _write_dataclass(kind: Any) -> Callable[[Any], dict[str, Any]]:
    special, written = _overrides(kind)
    sparse = issubclass(kind, Record) and kind._sparse is True
    write = make_dict_unstructure_fn(kind, _CONVERTER, _cattrs_omit_if_default=sparse, **special)
    if written == (...,):
        return write
    known = [field.name for field in fields(kind)]
    order: list[str] = []
    for name in written:
        order += [name] if isinstance(name, str) else [n for n in known if n not in written]

    def ordered(record: Any) -> dict[str, Any]:
        plain = write(record)
        for name in order:
            if name not in known:
                hint = get_type_hints(getattr(kind, name).fget, include_extras=True)["return"]
                plain[name] = _CONVERTER.unstructure(getattr(record, name), hint)
        return {name: plain[name] for name in order if name in plain}

    return ordered


def _refusal(error: Exception, cure: str) -> RecordError:
    """The first problem that was found, with the path to it."""
    path = ""
    while True:
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, AttributeValidationNote) and not isinstance(error, KeyError):
                path += f".{note.name}"
            elif isinstance(note, IterableValidationNote):
                path += f"[{brief(note.index)}]"
        if not isinstance(error, BaseValidationError):
            break
        error = error.exceptions[0]
    where = path.removeprefix(".")
    if isinstance(error, CanaryError):
        return RecordError(error.problem, cure=error.cure or cure, where=error.where or where)
    if isinstance(error, KeyError):
        return RecordError(f"the field {brief(error.args[0])} is missing", cure=cure, where=where)
    if isinstance(error, ForbiddenExtraKeysError):
        known = ", ".join(field.name for field in fields(error.cl))
        problem = f"has {len(error.extra_fields)} unknown fields"
        return RecordError(problem, cure=f"keep to {known}", where=where)
    return RecordError(str(error), cure=cure, where=where)
