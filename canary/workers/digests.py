"""A digest of what a training does, the same in every process.

Code and values of your own count by what they are made of, libraries by name and version. Code
counts by its bytecode: a file may have changed since it was imported, and a function of a session
has none. Values count by what `pickle` takes of them.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import io
import pickle
import random
import re
import sys
import sysconfig
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType
from types import ModuleType as Module
from typing import Any, NoReturn

import numpy as np

from canary.errors import InputError

_OF_A_PLACE = re.compile("__(file|name|doc|spec|loader|package|path|cached|builtins)__")
"""Global variables that say where a module lies."""

_OF_A_CLASS = re.compile(
    "__(dict|weakref|module|qualname|doc|annot.*|firstlineno|static_attributes|abstractmethods|"
    "parameters|orig_bases|type_params|dataclass_.*|match_args)__|_abc_impl"
)
"""Names in a class that change nothing, or that other names there follow from."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None), list, tuple, dict)
_RANDOM = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_WEAK = (weakref.ref, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
_KIND = 0x3AC
"""Flags of code that say what kind of function it is, and not how it was compiled."""

_UNPACKED: Mapping[type, Callable[[Any], object]] = {
    MappingProxyType: dict,
    staticmethod: lambda value: value.__func__,
    classmethod: lambda value: value.__func__,
    property: lambda value: (value.fget, value.fset, value.fdel),
    functools.cached_property: lambda value: value.func,
    functools._lru_cache_wrapper: lambda value: value.__wrapped__,
    CellType: lambda cell: cell.cell_contents,
}
"""Kinds that pickle does not take, and what decides what they do."""

_CURE = (
    "make it inside of the training function, or give the function what decides as options: text, "
    "numbers, lists and mappings"
)


def digest(value: Any, where: str, *, known: Mapping[int, str] = MappingProxyType({})) -> str:
    """SHA-256 over what a function, class or value does, as 64 hexadecimal digits.

    Functions count with the global variables, functions and modules of your own that they name,
    followed to the end. File names, comments, annotations, and the order in which functions are
    defined do not count. Not seen is what is reached by a name that is only known when the
    function runs, and what it reads from files and the environment.

    **Modules are imported**: those of your own that a function imports when it runs are imported
    now. Functions are not called.

    Parameters
    ----------
    value : object
    where : str
        What it is, for messages.
    known : mapping of int to str
        Objects (by `id`) that count by a name alone.

    Raises
    ------
    InputError
        If it is made of something that cannot be distinguished from another of its kind, such as
        a lock; the message says how it is reached. If importing a module that it is made of raises.
    """
    digester = _Digester(where, known)
    root = digester.of(value)
    while digester.waiting:  # and not by recursion: calls may go deep
        name, digester.path, referred = digester.waiting.pop()
        digester.named[name] = digester.of(digester.parts(referred))
    return hashlib.sha256(repr((root, sorted(digester.named.items()))).encode()).hexdigest()


class _Digester:
    """One digest in the making.

    What can be imported is referred to by its name, and digested once; so functions may
    call each other in circles.
    """

    def __init__(self, where: str, known: Mapping[int, str]) -> None:
        self.path = [where]
        self.named: dict[str, str] = {}
        self.waiting: list[tuple[str, list[str], FunctionType | type]] = []
        self._known = known
        self._open: list[int] = []

    def of(self, value: Any, label: str = "") -> str:
        """The digest of a value, whose place is called `label` in messages."""
        stream = io.BytesIO()
        with self._within(label):
            try:
                _Pickler(stream, self).dump(value)
            except InputError:
                raise
            except Exception as error:  # objects may raise anything
                self._refuse(f"something that no fingerprint can be made of ({error})", _CURE)
        return hashlib.sha256(stream.getvalue()).hexdigest()

    def stand_in(self, value: Any) -> Any:
        """What counts in the place of a value; None where pickle knows it."""
        kind = type(value)
        if kind in _PLAIN:
            return None
        if id(value) in self._known:
            return "known", self._known[id(value)]
        if kind in (set, frozenset):  # their order is by chance
            return kind.__name__, sorted(map(self.of, value))
        if kind in _UNPACKED:
            try:
                return kind.__name__, _UNPACKED[kind](value)
            except ValueError:  # an empty cell
                return kind.__name__, ()
        if isinstance(value, FunctionType | BuiltinFunctionType | type):
            return self._reference(value)
        if isinstance(value, Module):
            return _of_module(value)
        if isinstance(value, _WEAK):
            return "weak", kind.__name__
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            held = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            return str(value.dtype), tuple(value.shape), value.requires_grad, held.tobytes()
        if known := library(kind.__module__):  # which may hold it by a name, as scipy.stats.norm
            parts = list(vars(sys.modules.get(kind.__module__, builtins)).items())
            if name := next((name for name, part in parts if part is value), None):
                return "constant", f"{known} {kind.__module__}:{name}"
        if isinstance(value, _RANDOM) or (torch is not None and isinstance(value, torch.Generator)):
            self._refuse(
                "a random generator that all models share, so that each would depend on those "
                "before it",
                "make one inside of the training function, from task.seed",
            )
        return None

    def _reference(self, value: Any) -> Any:
        name, known = f"{value.__module__}:{value.__qualname__}", library(str(value.__module__))
        if isinstance(value, BuiltinFunctionType):
            return ("library", known, name) if known and value.__module__ else None
        named: Any = sys.modules.get(str(value.__module__))
        for part in value.__qualname__.split("."):
            named = getattr(named, part, None)
        if known and (named is value or isinstance(value, type)):
            return "library", known, name
        if named is value:
            if name not in self.named:
                self.named[name] = ""
                self.waiting.append((name, [*self.path], value))
            return "see", name
        if id(value) in self._open:
            return "here", f"within {len(self._open) - self._open.index(id(value))}"
        self._open.append(id(value))
        try:
            return "here", self.of(self.parts(value))
        finally:
            self._open.pop()

    def parts(self, value: FunctionType | type) -> Any:
        """What a function or class is made of."""
        with self._within(value.__qualname__.rpartition("<locals>.")[2]):
            if isinstance(value, FunctionType):
                return self._of_function(value)
            parts: list[object] = [type(value)]
            for base in value.__mro__:
                if known := library(base.__module__):
                    parts.append((known, base.__qualname__))
                    continue
                members = sorted(vars(base).items())
                held = {n: self.of(part, n) for n, part in members if not _OF_A_CLASS.fullmatch(n)}
                parts.append((base.__qualname__, held))
            return parts

    def _of_function(self, value: FunctionType) -> Any:
        code, space = value.__code__, value.__globals__
        cells = dict(zip(code.co_freevars, value.__closure__ or (), strict=True))
        if known := library(str(space.get("__name__"))):
            # What a decorator of a library made of a function of your own.
            held = {"__wrapped__": getattr(value, "__wrapped__", None)}
            if not known.startswith("torch") or "_dynamo" not in str(space.get("__name__")):
                held |= cells
            return known, code.co_qualname, {name: self._lenient(p) for name, p in held.items()}
        names, loaded, imports = _read(code)
        package = str(space.get("__package__") or "")
        return (
            _plain_code(code, value.__doc__),
            [self.of(part, "a default") for part in (value.__defaults__, value.__kwdefaults__)],
            self.of(sorted(vars(value).items()), "its attributes"),
            {name: self.of(cell, f"the captured {name}") for name, cell in cells.items()},
            [
                (name, self.of(part, "" if isinstance(part, FunctionType) else name))
                for variable in sorted(loaded)
                if not _OF_A_PLACE.fullmatch(variable)
                for name, part in _reached(variable, space.get(variable), names)
            ],
            [self._import(wanted, package, names) for wanted in imports],
        )

    def _lenient(self, value: Any) -> str:
        """A digest, or the kind of what has none: a library's own lock or the like."""
        try:
            return self.of(value)
        except InputError:
            held = value.cell_contents if isinstance(value, CellType) else value
            return type(held).__qualname__

    def _import(
        self, wanted: tuple[str, int, tuple[str, ...]], package: str, names: set[str]
    ) -> Any:
        """What a function imports when it runs."""
        name, level, parts = wanted
        try:
            name = importlib.util.resolve_name("." * level + name, package)
            if known := library(name):
                return known, name, parts
            module = importlib.import_module(name)
            for part in parts:
                if not hasattr(module, part):
                    importlib.import_module(f"{name}.{part}")
            whole = name.partition(".")[0]
            imported = {part: getattr(module, part) for part in parts} or {
                whole: sys.modules[whole]
            }
        except (ImportError, AttributeError):
            return name, parts, "absent"
        except (Exception, SystemExit) as error:
            self._refuse(
                f"made of {name}, a module that cannot be imported here "
                f"({type(error).__name__}: {error})",
                "mend it, and keep what it shall do as a program below "
                "`if __name__ == '__main__':`; the digest imports what the function would",
            )
        reached = [
            way for part in sorted(imported) for way in _reached(part, imported[part], names)
        ]
        return name, [(way, self.of(value, way)) for way, value in reached]

    @contextmanager
    def _within(self, label: str) -> Iterator[None]:
        self.path.append(label)
        try:
            yield
        finally:
            self.path.pop()

    def _refuse(self, what: str, cure: str) -> NoReturn:
        place, *inner = self.path
        way = " -> ".join(dict.fromkeys(part for part in inner if part))
        raise InputError(f"{way or 'it'} is {what}", cure=cure, where=place)


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, digester: _Digester) -> None:
        self._digester = digester
        super().__init__(stream, protocol=4)
        self.fast = True  # equal objects count the same, whether or not they are one

    def persistent_id(self, value: Any) -> Any:
        return self._digester.stand_in(value)


def _of_module(value: Module) -> Any:
    """A module that is handed on: by its source alone."""
    if known := library(value.__name__):
        return "library", known, value.__name__
    try:
        return "module", value.__name__, ast.dump(ast.parse(inspect.getsource(value)))
    except (OSError, TypeError):
        return "module", value.__name__


def _plain_code(code: CodeType, said: str | None = None) -> tuple[object, ...]:
    """Bytecode without file names, lines and docstring."""
    consts = list(code.co_consts)
    if consts and said is not None and consts[0] == said:
        consts[0] = None
    return (
        (code.co_code, code.co_exceptiontable, code.co_flags & _KIND),
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        [_plain_code(part) if isinstance(part, CodeType) else part for part in consts],
    )


def _read(code: CodeType) -> tuple[set[str], set[str], list[tuple[str, int, tuple[str, ...]]]]:
    """All names in bytecode, the global variables, and what is imported of which module."""
    names, loaded, imports = {*code.co_names}, set(), []
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for number, step in enumerate(steps):
        if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
            loaded.add(str(step.argval))
        elif step.opname == "IMPORT_NAME":
            level, parts = (before.argval for before in steps[number - 2 : number])
            imports.append((str(step.argval), int(level), tuple(parts or ())))
    for part in code.co_consts:
        if isinstance(part, CodeType):
            inner = _read(part)
            names |= inner[0]
            loaded |= inner[1]
            imports += inner[2]
    return names, loaded, imports


def _reached(
    name: str, value: Any, names: set[str], seen: tuple[Any, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """A value; of a module of your own what is named of it, where anything is."""
    if isinstance(value, Module) and not library(value.__name__):
        inside = sorted(n for n in names & vars(value).keys() if not _OF_A_PLACE.fullmatch(n))
        if inside and value not in seen:
            for part in inside:
                yield from _reached(f"{name}.{part}", vars(value)[part], names, (*seen, value))
            return
        if seen:
            return
    yield name, value


_STANDARD = sysconfig.get_path("stdlib")
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_distributions = functools.cache(importlib.metadata.packages_distributions)


@functools.cache
def library(module: str) -> str:
    """The library that a module is part of, with its version; "" for anybody's own code.

    Installed packages are libraries; those that are installed in place, as by ``pip install
    --editable``, change without their version and are somebody's own, but for canary.
    """
    top = module.partition(".")[0]
    if top == "canary":
        return "canary"  # its version and that of Python are in the configuration of a fleet
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # the running script, or a module made by hand
        return ""
    if spec is None:
        return ""
    origin = [spec.origin] if spec.has_location else []
    places = [Path(place) for place in origin or spec.submodule_search_locations or () if place]
    if not any(_INSTALLED.intersection(place.parts) for place in places):
        standard = all(place.is_relative_to(_STANDARD) for place in places)
        return "python" if standard and top in sys.stdlib_module_names else ""
    try:
        return f"{top} {importlib.metadata.version(top)}"
    except importlib.metadata.PackageNotFoundError:
        names = sorted(set(_distributions().get(top, ())))
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
