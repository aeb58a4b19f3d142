"""What an adapter answered, looked at before it is used: its type, shape and numbers.

An array of another shape would be taken for other tokens, so each error names the method
that gave it, the array, and the shape that was expected.
"""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError, NotFiniteError
from canary.models.decoding import Decoded
from canary.models.facts import ROUNDING_NATS
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    LanguageModel,
    Moments,
    Nodes,
    Rows,
    TellsMoments,
    Walker,
)

_CURE = "give what canary.models.language_model says; canary.models.conformance checks it"
_KINDS = {"float32": (np.float32, np.float64), "int64": (np.signedinteger,), "bool": (np.bool_,)}


def checked_scores(values: Any, rows: Rows, model: LanguageModel) -> FloatArray:
    """What `LanguageModel.score` gave for `rows`: one number for each scored token.

    Raises
    ------
    ModelError
        If it is another type or shape, NaN, or above 0.
    """
    return _log_probs(shaped_scores(values, rows, model), f"{type(model).__name__}.score", model)


def shaped_scores(values: Any, rows: Rows, model: LanguageModel) -> FloatArray:
    """The same, of which only type and shape are checked."""
    place, shape = f"{type(model).__name__}.score", (int(rows.scored.sum()),)
    _check_array(values, shape, place, "log-probabilities", "scored token")
    return cast("FloatArray", values)


def checked_moments(moments: Any, rows: Rows, model: LanguageModel) -> Moments:
    """The same for `TellsMoments.moments`."""
    place, shape = f"{type(model).__name__}.moments", (int(rows.scored.sum()),)
    for name in ("log_probs", "means", "deviations"):
        _check_array(getattr(moments, name, None), shape, place, name, "scored token")
    _log_probs(moments.log_probs, place, model)
    return Moments(moments.log_probs, moments.means, moments.deviations)


def checked_decoded(answer: Any, rows: Rows, schemes: int, model: LanguageModel) -> Decoded:
    """The same for `TellsDecoding.decoded` under a number of schemes."""
    place, tokens = f"{type(model).__name__}.decoded", int(rows.scored.sum())
    log_probs, greedy = getattr(answer, "log_probs", None), getattr(answer, "greedy", None)
    each = "scored token and scheme"
    _check_array(log_probs, (tokens, schemes), place, "log_probs", each)
    _check_array(greedy, (tokens,), place, "greedy", "scored token", kind="bool")
    return Decoded(_log_probs(answer.log_probs, place, model), answer.greedy)


def checked_expansion(answer: Any, nodes: Nodes, tokens: Children, walker: object) -> Expansion:
    """The same for what `Walker.expand` gave for `nodes`; numbers are the batcher's to check."""
    place, n = f"{type(walker).__name__}.expand", len(nodes)
    if not isinstance(answer, Expansion):
        problem = f"gave {_shown(answer)}, an Expansion was expected"
        raise ModelError(problem, cure=_CURE, where=place)
    children, each = tokens.shape(n), "node and child" if tokens.offsets is None else "child"
    _check_array(answer.path_log_probs, (n,), place, "path_log_probs", "node")
    _check_array(answer.log_probs, children, place, "log_probs", each)
    _check_array(answer.handles, (n,), place, "handles", "node", kind="int64")
    if answer.exact is not None:
        _check_array(answer.exact, children, place, "exact", each, kind="bool")
    queries = answer.queries
    if isinstance(queries, bool) or not isinstance(queries, int | np.integer) or queries < 0:
        raise ModelError(
            f"gave {_shown(queries)} for queries, the number of tokens that were computed below "
            "the context was expected",
            cure="count them as an int",
            where=place,
        )
    return answer


def _check_array(
    values: Any, shape: tuple[int, ...], place: str, what: str, each: str, *, kind: str = "float32"
) -> None:
    right = isinstance(values, np.ndarray) and values.shape == shape
    if right and any(np.issubdtype(values.dtype, allowed) for allowed in _KINDS[kind]):
        return
    raise ModelError(
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
    if not (values <= ROUNDING_NATS).all():  # NaN is not at most anything
        error = no_log_probs(model.facts.name, values)
        error.where = place
        raise error
    return values


def no_log_probs(name: str, values: NDArray[Any]) -> ModelError:
    """The error for numbers of which some are no log-probabilities."""
    highest = float(values.max(initial=-np.inf))  # NaN if one is
    if not np.isfinite(highest):
        return not_finite(name)
    return ModelError(
        f"the model {name!r} gives {highest:.3g} nats for a log-probability, which is above 0",
        cure="have its adapter give log-probabilities (a log-softmax, in nats), not logits",
    )


def not_finite(name: str) -> NotFiniteError:
    """The error for a model whose log-probabilities are NaN or infinite."""
    return NotFiniteError(
        f"the model {name!r} gives log-probabilities that are not finite numbers",
        cure="check the checkpoint (did its training diverge?), or load it with dtype float32",
    )


def not_normalised(name: str, total: float) -> ModelError:
    """The error for a model whose next tokens have a `total` probability above 1."""
    return ModelError(
        f"the model {name!r} gives next tokens that have a probability of {total:.6g} together, "
        "which is more than 1",
        cure="have its adapter normalise them: a log-softmax over the vocabulary, in float32",
    )


def under_watch(model: LanguageModel) -> LanguageModel:
    """The same model; what it answers is checked before it is given on."""
    return cast("LanguageModel", _Watched(model))


class _Watched:
    def __init__(self, model: Any) -> None:
        self._model = model
        if isinstance(model, TellsMoments):
            self.moments = self._checked_moments

    def _checked_moments(self, rows: Rows) -> Moments:
        return checked_moments(self._model.moments(rows), rows, self._model)

    def __getattr__(self, name: str) -> Any:  # tokenizer, facts, memory
        return getattr(self._model, name)

    def score(self, rows: Rows) -> FloatArray:
        return checked_scores(self._model.score(rows), rows, self._model)

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        walker = self._model.open(context, memory_bytes=memory_bytes)
        return cast("Walker", _WatchedWalker(walker, context, self._model))


class _WatchedWalker:
    def __init__(self, walker: Any, context: Context, model: LanguageModel) -> None:
        self._walker, self._context, self._model = walker, context, model

    def __getattr__(self, name: str) -> Any:  # room, release, most_queries
        return getattr(self._walker, name)

    @property
    def context_log_probs(self) -> FloatArray:
        values, place = self._walker.context_log_probs, f"{type(self._model).__name__}.open"
        each = "token of the context after its first"
        _check_array(values, (len(self._context.ids) - 1,), place, "context_log_probs", each)
        return _log_probs(values, place, self._model)

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        answer = self._walker.expand(nodes, tokens, keep=keep)
        answer = checked_expansion(answer, nodes, tokens, self._walker)
        place = f"{type(self._walker).__name__}.expand"
        _log_probs(answer.log_probs, place, self._model)
        _log_probs(answer.path_log_probs, place, self._model)
        return answer

    def __enter__(self) -> Self:
        self._walker.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._walker.__exit__(*error)
