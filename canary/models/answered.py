"""What an adapter answered, looked at before it is used: its type, shape and numbers.

An array of another shape would be taken for other tokens without a word, so each error names
the method that gave it, the array, and the shape that was expected.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.language_model import (
    ROUNDING_NATS,
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    LanguageModel,
    Memory,
    Moments,
    Nodes,
    Rows,
    TellsMoments,
    TellsQueries,
    Walker,
)
from canary.models.noise import no_log_probs

__all__ = [
    "checked_context",
    "checked_expansion",
    "checked_moments",
    "checked_scores",
    "under_watch",
]

_CURE = "see canary.models.language_model for what a model gives: numpy arrays, in nats"


def checked_scores(values: Any, rows: Rows, model: LanguageModel) -> FloatArray:
    """What `LanguageModel.score` gave for `rows`, if it is one number for each scored token.

    Raises
    ------
    ModelError
        If it is another type or shape, NaN, or above 0.
    """
    place = f"{_name(model)}.score"
    found = _floats(values, (int(rows.scored.sum()),), place, "log-probabilities", "scored token")
    return _log_probs(found, place, model)


def checked_moments(found: Any, rows: Rows, model: LanguageModel) -> Moments:
    """The same for `TellsMoments.moments`."""
    place, shape = f"{_name(model)}.moments", (int(rows.scored.sum()),)
    for name in ("log_probs", "means", "deviations"):
        _floats(getattr(found, name, None), shape, place, name, "scored token")
    _log_probs(found.log_probs, place, model)
    return Moments(found.log_probs, found.means, found.deviations)


def checked_context(values: Any, context: Context, model: LanguageModel) -> FloatArray:
    """The same for `Walker.context_log_probs` below `context`."""
    place, shape = f"{_name(model)}.open", (len(context.ids) - 1,)
    each = "token of the context after its first"
    found = _floats(values, shape, place, "context_log_probs", each)
    return _log_probs(found, place, model)


def checked_expansion(found: Any, nodes: Nodes, tokens: Children, walker: object) -> Expansion:
    """The same for what `Walker.expand` gave for `nodes`; numbers are the batcher's to check."""
    place, n = f"{type(walker).__name__}.expand", len(nodes)
    if not isinstance(found, Expansion):
        raise ModelError(
            f"gave {_shown(found)}, an Expansion was expected", cure=_CURE, where=place
        )
    if tokens.offsets is None:
        shape: tuple[int, ...] = (n, len(tokens.tokens))
        each = "node and child"
    else:
        shape, each = (len(tokens.tokens),), "child"
    _floats(found.path_log_probs, (n,), place, "path_log_probs", "node")
    _floats(found.log_probs, shape, place, "log_probs", each)
    handles = found.handles
    if not isinstance(handles, np.ndarray) or handles.shape != (n,) or handles.dtype.kind != "i":
        raise _misfit(handles, (n,), place, "handles", each="node", kind="int64")
    exact = found.exact
    if exact is not None and not (
        isinstance(exact, np.ndarray) and exact.shape == shape and exact.dtype == np.bool_
    ):
        raise _misfit(exact, shape, place, "exact", each=each, kind="bool")
    queries = found.queries
    if isinstance(queries, bool) or not isinstance(queries, int | np.integer) or queries < 0:
        raise ModelError(
            f"gave {_shown(queries)} for queries, the number of tokens that were computed below "
            "the context was expected",
            cure="count them as an int",
            where=place,
        )
    return found


def _floats(values: Any, shape: tuple[int, ...], place: str, what: str, each: str) -> FloatArray:
    if (
        not isinstance(values, np.ndarray)
        or values.shape != shape
        or values.dtype not in (np.float32, np.float64)
    ):
        raise _misfit(values, shape, place, what, each=each, kind="float32")
    return values


def _misfit(
    values: Any, shape: tuple[int, ...], place: str, what: str, *, each: str, kind: str
) -> ModelError:
    return ModelError(
        f"gave {_shown(values)} for {what}, a numpy array of {kind} and shape {shape} was "
        f"expected, one number for each {each}",
        cure=_CURE,
        where=place,
    )


def _shown(values: Any) -> str:
    if values is None:
        return "None"
    kind = type(values).__name__
    if not hasattr(values, "shape"):
        return f"a {kind} of length {len(values)}" if hasattr(values, "__len__") else f"a {kind}"
    kind = "numpy array" if isinstance(values, np.ndarray) else f"{type(values).__module__}.{kind}"
    dtype = str(getattr(values, "dtype", "")).removeprefix("torch.")
    return f"a {kind} of {dtype} and shape {tuple(values.shape)}"


def _log_probs(values: FloatArray, place: str, model: LanguageModel) -> FloatArray:
    # NaN is not at most anything, so one look finds both.
    if not (values <= ROUNDING_NATS).all():
        error = no_log_probs(model.facts.name, values)
        error.where = place
        raise error
    return values


def _name(model: object) -> str:
    return type(model).__name__


def under_watch(model: LanguageModel) -> LanguageModel:
    """The same model; what it answers is checked before it is given on."""
    return _WatchedMoments(model) if isinstance(model, TellsMoments) else _Watched(model)


class _Watched:
    def __init__(self, model: Any) -> None:
        self._model = model
        self.tokenizer, self.facts = model.tokenizer, model.facts

    def score(self, rows: Rows) -> FloatArray:
        return checked_scores(self._model.score(rows), rows, self._model)

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        walker = self._model.open(context, memory_bytes=memory_bytes)
        watched = _WatchedTelling if isinstance(walker, TellsQueries) else _WatchedWalker
        return watched(walker, context, self._model)

    def memory(self) -> Memory:
        memory: Memory = self._model.memory()
        return memory


class _WatchedMoments(_Watched):
    def moments(self, rows: Rows) -> Moments:
        return checked_moments(self._model.moments(rows), rows, self._model)


class _WatchedWalker:
    def __init__(self, walker: Any, context: Context, model: LanguageModel) -> None:
        self._walker, self._context, self._model = walker, context, model

    @property
    def context_log_probs(self) -> FloatArray:
        return checked_context(self._walker.context_log_probs, self._context, self._model)

    @property
    def room(self) -> int:
        return int(self._walker.room)

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        found = self._walker.expand(nodes, tokens, keep=keep)
        found = checked_expansion(found, nodes, tokens, self._walker)
        place = f"{type(self._walker).__name__}.expand"
        _log_probs(found.log_probs, place, self._model)
        _log_probs(found.path_log_probs, place, self._model)
        return found

    def release(self, handles: IntArray) -> None:
        self._walker.release(handles)

    def __enter__(self) -> Self:
        self._walker.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._walker.__exit__(kind, error, trace)


class _WatchedTelling(_WatchedWalker):
    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._walker.most_queries(nodes, held, degrees)
        return found
