"""A digest of what a function, a class or a value does, the same in every process.

What lies in libraries counts by name and version. Everything else counts by what it is made of:
bytecode, constants, defaults, attributes, captured variables, base classes, and the global
variables and functions that bytecode names, followed to the end. What is made of something
that cannot be seen, such as a lock or an open file, is refused.
"""

from __future__ import annotations

import builtins
import copyreg
import functools
import hashlib
import importlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NoReturn

import numpy as np

from canary.errors import InputError
from canary.workers.bytecode import imports, variables
from canary.workers.libraries import constant_of_library, library, named_in_library
from canary.workers.wrappers import all_of_library, held_by_wrapper, library_of, opaque_context

__all__ = ["digest"]

_NOT_OF_A_CLASS = frozenset(
    [
        "__dict__",
        "__weakref__",
        "__module__",
        "__qualname__",
        "__doc__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__firstlineno__",
        "__static_attributes__",
        "__abstractmethods__",
        "_abc_impl",
        "__parameters__",
        "__orig_bases__",
        "__type_params__",
        "__dataclass_fields__",
        "__dataclass_params__",
    ]
)
"""Names in a class that change nothing, or that other names there follow from."""

_OF_A_PLACE = frozenset(
    [
        "__file__",
        "__name__",
        "__doc__",
        "__spec__",
        "__loader__",
        "__package__",
        "__path__",
        "__cached__",
    ]
)
"""Global variables that say where a module lies."""

_RANDOM = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)

_SHAPE = 0x3AC
"""Flags of code that say what kind of function it is, and not how it was compiled."""

_CURE = (
    "make it inside of the training function, or give the function what decides as options: text, "
    "numbers, lists and mappings"
)


def digest(value: Any, where: str) -> str:
    """SHA-256 over what a value does, as 64 hexadecimal digits.

    Parameters
    ----------
    value : object
        A function or a class: its own code is looked into even where it lies in a library.
    where : str
        What it is, for messages.

    Raises
    ------
    InputError
        If it is made of something that cannot be told from another of its kind; the message
        says how it is reached. If importing a module that it is made of raises.

    Notes
    -----
    File names, lines, comments, hash seeds and the order in which functions and methods are
    defined do not count; the order of a mapping does, of a set it does not. Objects count by
    their class and what `copy` would take of them. Not seen: what is reached by a name that
    is only known when the function runs (`getattr`, `import_module`), files that it reads,
    variables of the environment, annotations, and what was set in modules of libraries.
    A module of one's own that is reached as a whole counts by its code and its plain variables.

    **Modules are imported**: those of your own that a function imports when it runs are imported
    now, so that what they do at import is done in this process, whether or not the function would
    ever come there. Where that raises `ImportError` or `AttributeError` the import counts as
    absent. Functions are not called.
    """
    return _Digester(where).whole(value)


class _Digester:
    """One digest in the making.

    What can be imported is referred to by its name, and digested once; so functions may
    call each other in circles. The rest is digested where it stands.
    """

    def __init__(self, where: str) -> None:
        self._path = [where]
        self._named: dict[str, str] = {}
        self._waiting: list[tuple[str, list[str], Callable[[], str]]] = []
        self._open: list[int] = []

    def whole(self, value: Any) -> str:
        if isinstance(value, type):
            root = self._class_parts(value, own=True)
        else:
            root = self._function_parts(value, own=True)
        while self._waiting:  # and not by recursion: calls may go deep
            name, self._path, parts = self._waiting.pop()
            self._named[name] = parts()
        return _mark("whole", root, *sorted(self._named.items()))

    def of(self, value: Any) -> str:
        kind = type(value)
        if kind in (bool, int, str, bytes, type(None), type(...), type(NotImplemented)):
            return _mark(kind.__name__, repr(value))
        if kind is float:
            return _mark("float", value.hex())  # tells -0.0, and knows nan
        if kind is complex:
            return _mark("complex", value.real.hex(), value.imag.hex())
        if id(value) in self._open:
            return _mark("within", len(self._open) - self._open.index(id(value)))
        self._open.append(id(value))
        try:
            return self._compound(value)
        finally:
            self._open.pop()

    def _compound(self, value: Any) -> str:
        kind = type(value)
        for kinds, way in _WAYS:
            if kind in kinds:
                return way(self, value)
        if isinstance(value, type):
            return self._class(value)
        if constant := constant_of_library(value):
            return _mark("constant", constant)
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._tensor(value, torch)
        if isinstance(value, _RANDOM) or (torch is not None and isinstance(value, torch.Generator)):
            self._refuse(
                "a random generator that all models share, so that each would depend on those "
                "before it",
                "make one inside of the training function, from task.seed",
            )
        return self._reduced(value)

    def _ordered(self, value: Any) -> str:
        return _mark(type(value).__name__, *map(self.of, value))

    def _unordered(self, value: Any) -> str:
        return _mark(type(value).__name__, *sorted(map(self.of, value)))

    def _mapping(self, value: Mapping[Any, Any]) -> str:
        found = []
        for name, part in value.items():
            with self._within(f"[{name!r}]" if isinstance(name, str) else "[...]"):
                found.append((self.of(name), self.of(part)))
        return _mark("dict", *found)

    def _array(self, value: np.ndarray[Any, Any]) -> str:
        if value.dtype.hasobject:
            return _mark("array of objects", value.shape, *map(self.of, value.reshape(-1)))
        dtype = np.lib.format.dtype_to_descr(value.dtype)
        plain = np.ascontiguousarray(value).reshape(-1)
        held = plain.view(np.uint8).data if plain.nbytes else b""
        return _mark("array", repr(dtype), value.shape, hashlib.sha256(held).digest())

    def _tensor(self, value: Any, torch: Any) -> str:
        try:
            plain = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        except (RuntimeError, NotImplementedError):
            self._refuse("a tensor without plain memory", _CURE)
        about = (str(value.dtype), tuple(value.shape), value.requires_grad, type(value).__name__)
        return _mark("tensor", *about, hashlib.sha256(plain.data).digest())

    def _builtin(self, value: Any) -> str:
        owner = value.__self__
        if owner is None or isinstance(owner, ModuleType):
            known = library(str(value.__module__)) or named_in_library(value, value.__qualname__)
            if not known:
                self._refuse(f"{_name(value)}, of which no code can be seen", _CURE)
            return _mark("builtin", known, _name(value))
        return _mark("builtin of", value.__qualname__, self.of(owner))

    def _method(self, value: MethodType) -> str:
        return _mark("method", self.of(value.__func__), self.of(value.__self__))

    def _property(self, value: property) -> str:
        return _mark("property", *map(self.of, (value.fget, value.fset, value.fdel)))

    def _unwrapped(self, value: Any) -> str:
        return _mark(type(value).__name__, self.of(value.__func__))

    def _cached(self, value: Any) -> str:
        return _mark("cached_property", self.of(value.func))

    def _cell(self, value: CellType) -> str:
        try:
            held = value.cell_contents
        except ValueError:
            return _mark("empty")
        return self.of(held)

    def _reduced(self, value: Any) -> str:
        """An object by what `copy` takes of it: how it is made, and its state."""
        kind = type(value)
        reducer: Any = copyreg.dispatch_table.get(kind)
        try:
            parts = reducer(value) if reducer else value.__reduce_ex__(2)
        except Exception:
            self._refuse(f"a {kind.__qualname__}, of which no fingerprint can be made", _CURE)
        if isinstance(parts, str):
            inner = getattr(value, "__wrapped__", None)
            if inner is not None:  # lru_cache
                return _mark("wrapped", _name(kind), self.of(inner))
            known = named_in_library(value, parts)
            if not known:
                self._refuse(f"a {kind.__qualname__} that is told by its name alone", _CURE)
            return _mark("named", known, _name(kind), parts)
        call, given, *rest = parts
        state, listed, keyed = (*rest, None, None, None)[:3]
        return _mark(
            "object",
            self.of(call),
            self.of(given),
            self.of(state),
            self.of(list(listed or ())),
            self.of(list(keyed or ())),
        )

    def _module(self, value: ModuleType) -> str:
        """A module as a whole: by the code that makes it, and its plain variables as they are."""
        if known := library(value.__name__):
            return _mark("library", known, value.__name__)
        return self._referred(value.__name__, lambda: self._module_parts(value))

    def _module_parts(self, value: ModuleType) -> str:
        spec = value.__spec__
        if spec is not None and spec.loader is None:  # a folder without code of its own
            return _mark("namespace")
        try:
            code = spec.loader.get_code(value.__name__)  # type: ignore[union-attr]
        except (AttributeError, ImportError):
            code = None
        if code is None:
            self._refuse(f"the module {value.__name__} as a whole", "name what you need of it")
        found = [
            (name, self._inside(name, part))
            for name, part in sorted(vars(value).items())
            if name not in _OF_A_PLACE and name != "__builtins__" and _plain(part)
        ]
        return _mark("module", self._code(code, None, str(value.__package__ or "")), *found)

    def _class(self, value: type) -> str:
        if known := library(value.__module__):
            return _mark("class", known, _name(value))
        if _importable(value):
            return self._referred(_name(value), lambda: self._class_parts(value))
        return self._class_parts(value)

    def _class_parts(self, value: type, *, own: bool = False) -> str:
        found: list[object] = [self.of(type(value))]
        for base in value.__mro__:
            known = library(base.__module__)
            if known and not (own and base is value):
                found.append((known, _name(base)))
            else:
                found.append((base.__qualname__, *self._members(base)))
        return _mark("class", *found)

    def _members(self, value: type) -> Iterator[tuple[str, str]]:
        if issubclass(value, Enum):
            for name, member in value.__members__.items():
                yield name, self.of(member.value)
        for name, part in sorted(vars(value).items()):
            if name in _NOT_OF_A_CLASS or (issubclass(value, Enum) and not _of_user(part)):
                continue
            with self._within(f"{value.__qualname__}.{name}"):
                if isinstance(part, GetSetDescriptorType | MemberDescriptorType):
                    yield name, "slot"
                else:
                    yield name, self.of(part)

    def _function(self, value: FunctionType) -> str:
        if not _importable(value):
            return self._function_parts(value)
        if all_of_library(value):
            return _mark("function", library_of(value), _name(value))
        return self._referred(_name(value), lambda: self._function_parts(value))

    def _function_parts(self, value: FunctionType, *, own: bool = False) -> str:
        known = library_of(value)
        space = None if known else value.__globals__
        label = value.__qualname__.rpartition("<locals>.")[2]
        with self._within("" if own else label):
            if known and (held := held_by_wrapper(value)) is not None:
                return _mark("wrapper", known, value.__code__.co_qualname, self._unordered(held))
            return _mark(
                "function",
                known,
                self._code(value.__code__, space, str(value.__globals__.get("__package__") or "")),
                self._inside("a default", value.__defaults__),
                self._inside("a default", value.__kwdefaults__),
                self._inside("its attributes", dict(sorted(vars(value).items()))),
                *(
                    (name, self._inside(f"the captured {name}", opaque_context(cell) or cell))
                    for name, cell in zip(
                        value.__code__.co_freevars, value.__closure__ or (), strict=True
                    )
                ),
            )

    def _code(self, code: CodeType, space: dict[str, Any] | None, package: str) -> str:
        """Bytecode with what it names; neither file names nor lines.

        Names are looked up in `space`, the global variables, and not at all without it.
        """
        found: list[object] = [
            code.co_code,
            code.co_exceptiontable,
            code.co_flags & _SHAPE,
            (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
            (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        ]
        for part in code.co_consts:
            inner = isinstance(part, CodeType)
            found.append(self._code(part, space, package) if inner else self.of(part))
        if space is not None:
            found += [self._variable(path, space) for path in sorted(set(variables(code)))]
        try:
            named = [*imports(code, package)]
        except ImportError:
            with self._within(f"an import of {code.co_name}"):
                self._refuse("relative, and of no package", "import it by its whole name")
        for name, parts in named:
            if known := library(name):
                found.append((known, name, parts))
            else:
                found += [self._import(name, part) for part in parts]
        return _mark("code", *found)

    def _variable(self, path: tuple[str, ...], space: dict[str, Any]) -> tuple[str, str]:
        name, *rest = path
        if name in _OF_A_PLACE:
            return name, "place"
        if name not in space:
            return name, "builtin" if hasattr(builtins, name) else "unbound"
        value = space[name]
        while isinstance(value, ModuleType) and not library(value.__name__) and rest:
            if not hasattr(value, rest[0]):
                return ".".join(path), "unbound"
            name, value = f"{name}.{rest[0]}", getattr(value, rest.pop(0))
        with self._within("" if isinstance(value, FunctionType) else name):
            return name, self.of(value)

    def _import(self, name: str, part: str) -> tuple[str, str, str]:
        """What a function imports when it runs: a part of a module, or all of it."""
        try:
            value: Any = importlib.import_module(name)
            if part:
                if not hasattr(value, part):
                    importlib.import_module(f"{name}.{part}")
                value = getattr(value, part)
        except (ImportError, AttributeError):
            return name, part, "absent"
        except (Exception, SystemExit) as error:
            with self._within(name):
                self._refuse(
                    f"a module that cannot be imported here ({type(error).__name__}: {error})",
                    "mend it, and keep what it shall do as a program below "
                    "`if __name__ == '__main__':`; the digest imports what the function would",
                )
        with self._within(f"{name}.{part}".rstrip(".")):
            return name, part, self.of(value)

    def _referred(self, name: str, parts: Callable[[], str]) -> str:
        if name not in self._named:
            self._named[name] = ""
            self._waiting.append((name, [*self._path], parts))
        return _mark("see", name)

    def _inside(self, label: str, value: Any) -> str:
        with self._within(label):
            return self.of(value)

    @contextmanager
    def _within(self, label: str) -> Iterator[None]:
        self._path.append(label)
        yield
        self._path.pop()

    def _refuse(self, what: str, cure: str) -> NoReturn:
        place, *inner = self._path
        way = " -> ".join(dict.fromkeys(part for part in inner if part))
        raise InputError(f"{way or 'it'} is {what}", cure=cure, where=place)


_WAYS: tuple[tuple[tuple[type, ...], Callable[[_Digester, Any], str]], ...] = (
    ((tuple, list), _Digester._ordered),
    ((set, frozenset), _Digester._unordered),
    ((dict, MappingProxyType), _Digester._mapping),
    ((np.ndarray,), _Digester._array),
    ((FunctionType,), _Digester._function),
    ((MethodType,), _Digester._method),
    ((BuiltinFunctionType,), _Digester._builtin),
    ((ModuleType,), _Digester._module),
    ((staticmethod, classmethod), _Digester._unwrapped),
    ((property,), _Digester._property),
    ((functools.cached_property,), _Digester._cached),
    ((CellType,), _Digester._cell),
)


def _of_user(part: object) -> bool:
    """Whether something in an enum is there beside its members and what they bring."""
    if isinstance(part, FunctionType):
        return not all_of_library(part)
    return isinstance(part, property | staticmethod | classmethod | functools.cached_property)


def _plain(value: Any, deep: int = 8) -> bool:
    """Whether a value is numbers, text, arrays, or containers of these."""
    torch: Any = sys.modules.get("torch")
    if type(value) in (bool, int, float, complex, str, bytes, type(None)):
        return True
    if type(value) is np.ndarray or isinstance(value, np.generic):
        return not value.dtype.hasobject
    if torch is not None and type(value) is torch.Tensor:
        return bool(value.layout is torch.strided and not value.is_meta)
    if type(value) not in (list, tuple, set, frozenset, dict) or not deep:
        return False
    held = [*value, *value.values()] if isinstance(value, dict) else value
    return all(_plain(part, deep - 1) for part in held)


def _importable(value: Any) -> bool:
    """Whether its name leads to it."""
    found: Any = sys.modules.get(str(value.__module__))
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _name(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _mark(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
