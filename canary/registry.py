"""Things that have names: kinds of holes, signals, attacks, methods, formats of corpora."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from itertools import chain
from typing import Any, Generic, TypeVar

from canary.errors import CanaryError, InputError

Thing = TypeVar("Thing")

_NEAR = 3


def near_names(asked: object, names: Iterable[str]) -> list[str]:
    """The names that somebody may have meant: at most three, the nearest first.

    Case does not matter, and a part of a name of three letters or more is near it.

    Examples
    --------
    >>> near_names("LiRA", ["loss", "lira-offline", "lira-online"])
    ['lira-online', 'lira-offline']
    >>> near_names("entropi", ["loss", "entropy"])
    ['entropy']
    """
    spelled: dict[str, list[str]] = {}
    for name in names:
        spelled.setdefault(name.lower(), []).append(name)
    word = str(asked).lower()
    parts = sorted((name for name in spelled if len(word) >= _NEAR and word in name), key=len)
    near = [word, *parts, *get_close_matches(word, spelled, n=_NEAR)]
    return [name for low in dict.fromkeys(near) for name in spelled.get(low, ())][:_NEAR]


def name_cure(asked: object, names: Iterable[str], *, written: Iterable[str] = ()) -> str:
    """The cure of an error about an unknown name: near names, then all, as they are written."""
    known = list(names)
    every = f"one of {', '.join(written or known)}"
    *others, last = near_names(asked, known) or [""]
    if not last:
        return f"use {every}"
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}? Use {every}"


def called(
    what: str, function: Callable[..., Any], *given: Any, shape: tuple[int, ...] = (), **named: Any
) -> Any:
    """What a function gives; where it is another package's, an error in it names whose it is.

    Parameters
    ----------
    what : str
        ``attack 'mine'``.
    shape : tuple of int
        Of the array of numbers that such a function gives; () if it gives none.

    Raises
    ------
    InputError
        If a function of another package fails, or gives something else.
    """
    if str(getattr(function, "__module__", "")).startswith("canary."):
        return function(*given, **named)
    import numpy as np

    cure = "correct its function; canary only calls it"
    try:
        result = function(*given, **named)
        sound = not shape or np.asarray(result, np.float64).shape == shape
    except CanaryError:
        raise
    except Exception as error:
        problem = f"the {what} failed ({type(error).__name__}: {error})"
        raise InputError(problem, cure=cure) from error
    if not sound:
        problem = f"the {what} gave an array of shape {np.shape(result)}, not {shape}"
        raise InputError(problem, cure=cure)
    return np.asarray(result, np.float64) if shape else result


class Registry(Mapping[str, Thing], Generic[Thing]):
    """Things by name, in the order in which they were added.

    Another package adds its own by an entry point in the group ``canary.<group>``, whose value
    is the thing. Entry points are loaded when a name is not found, or when all are listed.

    Parameters
    ----------
    what : str
        What one of them is called in messages: ``attack``.
    group : str
        The last part of the entry points' group: ``attacks``.
    error : type
        Raised where a name is not there, or is there already, or an entry point has no such thing.
    kind : type, optional
        The class of the things, by which what entry points load is checked.

    Examples
    --------
    >>> planets = Registry("planet", group="planets")
    >>> planets.add("mars", 4)
    4
    >>> planets["marz"]
    Traceback (most recent call last):
        ...
    canary.errors.InputError: unknown planet 'marz'; did you mean mars? Use one of mars
    """

    _modules: Sequence[str] = ()  # whose `BUILT_IN` comes first

    def __init__(
        self,
        what: str,
        *,
        group: str,
        error: type[CanaryError] = InputError,
        kind: type | None = None,
    ) -> None:
        self._what, self._group, self._error, self._kind = what, group, error, kind
        self._things: dict[str, Thing] = {}
        self._complete = False

    def add(self, name: str, thing: Thing) -> Thing:
        """Add a thing, and return it.

        Raises
        ------
        InputError
            Or what the registry raises, if the name is another thing's.
        """
        if self._modules:
            self._load()
        if self._things.get(name, thing) != thing:
            raise self._error(f"there is another {self._what} {name!r}", cure="use another name")
        self._things[name] = thing
        return thing

    def __getitem__(self, name: str) -> Thing:
        if name not in self._things:
            self._load()
        if name in self._things:
            return self._things[name]
        raise self._error(f"unknown {self._what} {name[:40]!r}", cure=name_cure(name, self._things))

    def names(self, asked: str, *, where: str) -> list[str]:
        """The names in a list with commas, each once.

        Raises
        ------
        InputError
            Or what the registry raises, if one of them is not there.
        """
        names = list(dict.fromkeys(name.strip() for name in asked.split(",")))
        try:
            for name in names:
                self[name]
        except self._error as error:
            error.where = where
            raise
        return names

    def __contains__(self, name: object) -> bool:
        return name in self._things or name in [*self]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._things)

    def __len__(self) -> int:
        self._load()
        return len(self._things)

    def _load(self) -> None:
        if self._complete:
            return
        self._complete = True
        try:
            for thing in chain(*(import_module(module).BUILT_IN for module in self._modules)):
                self.add(thing.name, thing)
            for point in entry_points(group=f"canary.{self._group}"):
                self.add(point.name, self._loaded(point))
        except BaseException:
            self._complete = False  # what did not load is missing, and is not to be forgotten
            raise

    def _loaded(self, point: Any) -> Thing:
        """What an entry point names, which another package wrote."""

        def wrong(problem: str, cure: str) -> CanaryError:
            named = f"the {self._what} {point.name!r} (entry point {point.value})"
            return self._error(f"{named} {problem}", cure=cure)

        try:
            thing: Thing = point.load()
        except Exception as error:
            cure = f"repair or uninstall the package with this entry point in canary.{self._group}"
            raise wrong(f"cannot be loaded ({type(error).__name__}: {error})", cure) from error
        if self._kind is not None and not isinstance(thing, self._kind):
            cure = f"have it name an object of the class {self._kind.__name__}"
            raise wrong(f"is of the type {type(thing).__name__}", cure)
        if self._kind is not None and (own := getattr(thing, "name", "")) != point.name:
            raise wrong(f"calls itself {own!r}", "use one name in both places")
        return thing
