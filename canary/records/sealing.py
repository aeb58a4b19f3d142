"""Errors without the values of the frames they passed.

Reports of tests, consoles and services print the arguments and locals of every frame of a
traceback. The frames below a function that is given secrets hold secrets in clear.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from canary.errors import CanaryError, InputError
from canary.registry import near_names

_P = ParamSpec("_P")
_R = TypeVar("_R")

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_OF_LOADING = ("device", "dtype", "factory", "source_text", "tokenizer", "workers")
_OF_SERVERS = (
    *("model", "key_env", "answers", "max_requests", "budget", "total_requests", "in_flight"),
    *("timeout", "patience", "attempts", "top_k"),
)
_HEAD = "Frames without their values, which may be secret (most recent call last):\n"


def near_keywords(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, whose error of an unknown keyword says which are near, or where it belongs."""

    @functools.wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> _R:
        try:
            return function(*args, **options)
        except TypeError as error:
            if name := _of_endpoint(function, options):
                problem = f"{name} is an option of an Endpoint, not of {function.__name__}"
                cure = f"give Endpoint(url, {name}=...) of canary.models.served.endpoint in place "
                raise InputError(problem, cure=f"{cure}of the address") from None
            if cure := _cure(function, options):
                error.args = (f"{error}; {cure}",)
            raise

    return call


def sealed(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, with errors whose traceback ends at its caller.

    The lines of code that were passed are kept as a note of the error, unless the error is a
    `CanaryError`, which says what is wrong and what to do. Of an unknown keyword, the error is that
    of `near_keywords`.
    """
    named = near_keywords(function)

    @functools.wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> _R:
        outside = sys.exception()
        try:
            return named(*args, **options)
        except BaseException as error:
            for link in _chain(error, outside):
                _hide(link, link.__traceback__)
                link.__traceback__ = None
            raise  # without this frame: what a bare raise restores is the traceback just removed

    return call


def _of_endpoint(function: Callable[..., object], options: Iterable[str]) -> str:
    """The first keyword that a function does not have, and `Endpoint` does; empty if none is."""
    from inspect import signature

    known = signature(function).parameters
    asks = not {"model", "source", "server"}.isdisjoint(known)
    return next((name for name in options if asks and name in {*_OF_SERVERS} - {*known}), "")


def _cure(function: Callable[..., object], options: Iterable[str]) -> str:
    """What to give in place of the first keyword that a function does not have."""
    from inspect import signature

    known = [name for name, p in signature(function).parameters.items() if p.kind != p.VAR_KEYWORD]
    open_ended = len(known) < len(signature(function).parameters)
    unknown = [] if open_ended else [name for name in options if name not in known]
    if unknown and unknown[0] in _OF_LOADING and "model" in known:
        return f"give canary.load(model, {unknown[0]}=...) in place of the model"
    near = near_names(unknown[0], known) if unknown else []
    return f"did you mean {' or '.join(near)}?" if near else ""


def cut_frames(error: BaseException) -> None:
    """Remove the package's frames, and all below them, from an error and those that led to it."""
    ours = []
    errors = list(_chain(error, None))
    for link in errors:
        last, entry = None, link.__traceback__
        while entry is not None and not entry.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            last, entry = entry, entry.tb_next
        ours += [frame for frame, _ in traceback.walk_tb(entry)]
        _hide(link, entry)
        if last is not None:
            last.tb_next = None
        elif entry is not None:
            link.__traceback__ = None
    for link in errors:  # caught and raised anew below a frame of ours
        if link.__traceback__ is not None and link.__traceback__.tb_frame in ours:
            _hide(link, link.__traceback__)
            link.__traceback__ = None


def _chain(error: BaseException, outside: BaseException | None) -> Iterator[BaseException]:
    """An error and all that led to it, except what was being handled before."""
    seen: set[int] = {id(outside)}
    left: list[BaseException | None] = [error]
    while left:
        link = left.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        left += [link.__cause__, link.__context__]
        left += link.exceptions if isinstance(link, BaseExceptionGroup) else ()


def _hide(error: BaseException, entry: TracebackType | None) -> None:
    """Keep as a note where an error passed; one that names its cure needs none."""
    if entry is None or isinstance(error, CanaryError):
        return
    places = [place for place in traceback.extract_tb(entry) if place.filename != __file__]
    text = "".join(traceback.format_list(places))
    for note in list(getattr(error, "__notes__", ())):
        if note.startswith(_HEAD):  # of the part below, sealed before
            error.__notes__.remove(note)
            text += note.removeprefix(_HEAD)
    if text:  # not of a call with keywords that there are not
        error.add_note(_HEAD + text)
