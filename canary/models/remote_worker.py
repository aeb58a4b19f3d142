"""A model as a worker keeps it: loaded once, asked and answering in plain data."""

from __future__ import annotations

import os
import platform
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from canary.models.language_model import (
    Children,
    Context,
    LanguageModel,
    Nodes,
    Rows,
    TellsMoments,
    TellsQueries,
    Walker,
    most_queries,
)
from canary.records.versions import versions

__all__ = ["KeptModel"]


@dataclass(frozen=True, eq=False)
class _Open:
    """A walker and the name of this opening of it: handles of another are not its own."""

    walker: Walker
    incarnation: str


class KeptModel:
    """Answers for one model.

    Parameters
    ----------
    model : LanguageModel
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._open: dict[int, _Open] = {}

    def about(self) -> dict[str, Any]:
        """Facts of the model, versions of the software, and what of a machine it shares."""
        facts = self._model.facts
        of_it = "" if facts.device == "cpu" else os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return {
            "facts": facts.to_dict(),
            "versions": versions(),
            "moments": isinstance(self._model, TellsMoments),
            "hardware": f"{platform.node()}/{facts.device}/{of_it}",
        }

    def memory(self) -> tuple[int, int]:
        """Free bytes, and bytes per held token."""
        memory = self._model.memory()
        return memory.free_bytes, memory.bytes_per_held_token

    def score(self, **rows: Any) -> Any:
        """`LanguageModel.score`."""
        return self._model.score(Rows(**_own(rows)))

    def moments(self, **rows: Any) -> tuple[Any, Any, Any]:
        """`TellsMoments.moments`, in three arrays."""
        assert isinstance(self._model, TellsMoments)
        found = self._model.moments(Rows(**_own(rows)))
        return found.log_probs, found.means, found.deviations

    def open(self, *, walker: int, incarnation: str, **opening: Any) -> dict[str, Any]:
        """Have the walker of this number open, and tell what its owner must know of it."""
        at = self._at(walker, incarnation, opening)
        return {
            "incarnation": at.incarnation,
            "room": at.walker.room,
            "context_log_probs": at.walker.context_log_probs,
            "tells": isinstance(at.walker, TellsQueries),
        }

    def expand(
        self,
        *,
        walker: int,
        incarnation: str,
        opening: dict[str, Any],
        released: Any,
        nodes: dict[str, Any],
        tokens: dict[str, Any],
        keep: bool,
    ) -> dict[str, Any]:
        """`Walker.expand`, after states were let go.

        In a new incarnation no state is held, so that all handles are stale, and the states below
        the nodes are computed again.
        """
        at = self._at(walker, incarnation, opening)
        at.walker.release(np.array(released))
        found = at.walker.expand(Nodes(**_own(nodes)), Children(**_own(tokens)), keep=keep)
        return {
            "incarnation": at.incarnation,
            "room": at.walker.room,
            "path_log_probs": found.path_log_probs,
            "log_probs": found.log_probs,
            "handles": found.handles,
            "queries": found.queries,
        }

    def release(self, *, walker: int, incarnation: str, released: Any) -> dict[str, Any] | None:
        """`Walker.release`, and the room after it; None where the walker is another."""
        at = self._open.get(walker)
        if at is None or at.incarnation != incarnation:
            return None
        at.walker.release(np.array(released))
        return {"room": at.walker.room}

    def most_queries(
        self,
        *,
        walker: int,
        incarnation: str,
        opening: dict[str, Any],
        nodes: Any,
        held: Any,
        degrees: Any,
    ) -> Any:
        """`TellsQueries.most_queries`."""
        at = self._at(walker, incarnation, opening)
        return most_queries(at.walker, Nodes(**_own(nodes)), np.array(held), np.array(degrees))

    def close(self, *, walker: int) -> None:
        """Close the walker of this number, if it is open."""
        at = self._open.pop(walker, None)
        if at is not None:
            at.walker.__exit__(None, None, None)

    def _at(self, walker: int, incarnation: str, opening: dict[str, Any]) -> _Open:
        """The walker in this incarnation; in a new one if it has none, or another."""
        at = self._open.get(walker)
        if at is not None and at.incarnation == incarnation:
            return at
        self.close(walker=walker)
        context = Context(**_own(opening["context"]))
        opened = self._model.open(context, memory_bytes=opening["memory_bytes"])
        at = self._open[walker] = _Open(opened.__enter__(), secrets.token_hex(8))
        return at


def _own(arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays that may be written to: those out of Ray's store may not."""
    return {name: None if one is None else np.array(one) for name, one in arrays.items()}
