"""How far a call is: a bar on a terminal and in a notebook, nothing elsewhere."""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, ParamSpec, Self, TypeVar

from canary.records.validation import function

Advance = Callable[[int], object]
"""Called with the number of tokens (texts, bytes, …) that were just done."""

Progress = Callable[[str, int, str], Advance] | bool | None
"""Whether and how a call says how far it is: the keyword ``progress`` of every long call.

None draws bars on a terminal and in a notebook, True everywhere, False nowhere. A function is
called at the beginning of each stage with its name, its total and its unit, and gives an
`Advance`. The total is the most that a stage may take: a search may end before. It is 0 where
it is not known. The unit is a plural, such as ``tokens``; bytes are ``B``.
"""

_P = ParamSpec("_P")
_R = TypeVar("_R")

DELAY = 1.0
"""Seconds that a stage takes before functions of `canary` draw its bar."""

_PHASES: ContextVar[Callable[[str], object] | None] = ContextVar("phases", default=None)
_NAME_WIDTH = 48
_USUAL_WIDTH, _USUAL_ROWS = 80, 24


def stage(progress: Progress, name: str, total: int, unit: str = "tokens") -> Advance:
    """Begin a stage; silent unless `progress` is a function."""
    return progress(name, total, unit) if callable(progress) else lambda done: None


def phase(name: str) -> None:
    """Name what begins now and cannot say how far it is, to the `Bars` or `Timed` around it."""
    if (listener := _PHASES.get()) is not None:
        listener(name)


class _Listener:
    """Within a ``with``, what hears of phases."""

    _token: Token[Callable[[str], object] | None]

    def __enter__(self) -> Self:
        self._token = _PHASES.set(self.phase)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        _PHASES.reset(self._token)

    def phase(self, name: str) -> None:
        """Something that takes its time, and does not say how far it is."""
        raise NotImplementedError


class Timed(_Listener):
    """Stages and phases with the seconds that each takes: until the next one, or the end.

    Parameters
    ----------
    progress : Progress
        What hears of the stages as well.
    """

    def __init__(self, progress: Progress) -> None:
        self.seconds: dict[str, float] = {}
        self._progress, self._outer = progress, _PHASES.get()
        self._name, self._began = "", 0.0
        self.say = getattr(getattr(progress, "__self__", None), "say", None)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        super().__exit__(kind, *error)
        self._begin("")

    def stage(self, name: str, total: int, unit: str = "tokens") -> Advance:
        """As `stage`."""
        self._begin(name)
        return stage(self._progress, name, total, unit)

    def phase(self, name: str) -> None:
        """As `phase`."""
        self._begin(name)
        if self._outer is not None:
            self._outer(name)

    def _begin(self, name: str) -> None:
        now = time.perf_counter()
        if self._name:
            taken = self.seconds.get(self._name, 0.0) + now - self._began
            self.seconds[self._name] = taken
        self._name, self._began = name, now


def remark(progress: Progress, text: str = "") -> bool:
    """Say a line where progress is shown, if that is a place for lines; gives whether it is.

    A function that is a method of an object with a method `say` has such a place.
    """
    say = getattr(getattr(progress, "__self__", None), "say", None)
    if say is not None and text:
        say(text)
    return say is not None


def note(progress: Progress, text: str) -> None:
    """Say what a caller must know: a line where progress is shown, or a warning."""
    if not remark(progress, text):
        warnings.warn(text, stacklevel=2)


def shows_progress(function_of_canary: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, whose keyword ``progress`` may be a switch as well as a function.

    None shows bars on a terminal and in a notebook, True everywhere, False nowhere.
    """

    @functools.wraps(function_of_canary)
    def call(*args: _P.args, **options: _P.kwargs) -> _R:
        asked: Any = options.get("progress")
        if asked is not None and not isinstance(asked, bool):
            function(asked, "progress")
            return function_of_canary(*args, **options)
        shown = asked if asked is not None else watched()
        with Bars(shown=shown, delay=DELAY) as bars:
            options["progress"] = bars.stage if shown else None
            return function_of_canary(*args, **options)

    return call


def watched() -> bool:
    """Whether somebody sees bars: stderr is a terminal, or the cell of a notebook."""
    shell = sys.modules.get("IPython")
    session = shell.get_ipython() if shell is not None else None
    return getattr(session, "kernel", None) is not None or _terminal()


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


class Bars(_Listener):
    """Bars on stderr, one at a time; what is soon over has none.

    Parameters
    ----------
    shown : bool
        Whether bars are drawn; stages are counted in any case.
    delay : float
        Seconds after which a bar is drawn.
    """

    def __init__(self, *, shown: bool = True, delay: float = 0.0) -> None:
        self._shown, self._delay = shown, delay
        self._bar: Any = None

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        super().__exit__(kind, *error)
        self._close()

    def phase(self, name: str) -> None:
        """As `phase`."""
        self._open(name, None, "s", bar_format="{desc}: {elapsed}")

    def stage(self, name: str, total: int, unit: str = "tokens") -> Advance:
        """A bar over a stage; see `Progress`."""
        advance: Advance = self._open(name, total, unit).update
        return advance

    def say(self, text: str) -> None:
        """One line for people, in the place of the bar."""
        self._close()
        if self._shown and sys.stderr is not None:
            sys.stderr.write(f"{shown_name(text, most=1_000)}\n")

    def _open(self, name: str, total: int | None, unit: str, **options: Any) -> Any:
        from tqdm import tqdm

        self._close()
        shape = {"unit_scale": True, "unit_divisor": 1024 if unit == "B" else 1000, **options}
        self._bar = tqdm(
            desc=shown_name(name),
            total=total or None,
            unit=unit if unit == "B" else f" {unit}",
            file=sys.stderr,
            disable=not self._shown,
            delay=self._delay,
            leave=False,
            **_width(),
            **shape,
        )
        return self._bar

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def shown_name(name: str, most: int = _NAME_WIDTH) -> str:
    """A stage's name as a bar shows it: in one line, without what moves the cursor."""
    return "".join(filter(str.isprintable, name))[:most]


def _width() -> dict[str, Any]:
    """How wide a bar is: as the terminal, now and later; some say that they have no size."""
    try:
        unknown = 0 in os.get_terminal_size(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):
        unknown = True
    # Without rows there would be no place for a bar, and none would be drawn.
    return {"ncols": _USUAL_WIDTH, "nrows": _USUAL_ROWS} if unknown else {"dynamic_ncols": True}
