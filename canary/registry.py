"""Things that have names: kinds of holes, signals, attacks, methods, formats of corpora."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from itertools import chain
from typing import Generic, TypeVar

from canary.errors import CanaryError, InputError

Thing = TypeVar("Thing")


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
        Raised where a name is not there, or is there already.

    Examples
    --------
    >>> planets = Registry("planet", group="planets")
    >>> planets.add("mars", 4)
    4
    >>> planets["marz"]
    Traceback (most recent call last):
        ...
    canary.errors.InputError: there is no planet 'marz'; did you mean mars? There is: mars
    """

    _modules: Sequence[str] = ()  # whose `BUILT_IN` comes first

    def __init__(self, what: str, *, group: str, error: type[CanaryError] = InputError) -> None:
        self._what, self._group, self._error = what, group, error
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
        near = get_close_matches(name, self._things, n=3)
        meant = f"did you mean {', '.join(near)}? " if near else ""
        raise self._error(
            f"there is no {self._what} {name[:40]!r}",
            cure=f"{meant}There is: {', '.join(self._things)}",
        )

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
        if not self._complete:
            self._complete = True
            for thing in chain(*(import_module(module).BUILT_IN for module in self._modules)):
                self.add(thing.name, thing)
            for point in entry_points(group=f"canary.{self._group}"):
                self.add(point.name, point.load())
