"""A model as a worker keeps it: loaded once, asked and answering in plain data."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Callable
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
from canary.records.validation import versions


class KeptModel:
    """Answers for one model behind the seam."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        # By number, with the name of this opening: handles of another are not its own.
        self._open: dict[int, tuple[Walker, str]] = {}

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
        moments = self._model.moments(Rows(**_own(rows)))
        return moments.log_probs, moments.means, moments.deviations

    def open(self, *, at: dict[str, Any]) -> dict[str, Any]:
        """Open the walker, and return what its owner must know of it."""
        walker, state = self._at(**at)
        told = {"context_log_probs": walker.context_log_probs}
        return {**state(), **told, "tells": isinstance(walker, TellsQueries)}

    def expand(
        self, *, at: dict[str, Any], nodes: dict[str, Any], tokens: dict[str, Any], keep: bool
    ) -> dict[str, Any]:
        """`Walker.expand`.

        In a new incarnation no state is held, so that all handles are stale, and the states below
        the nodes are computed again.
        """
        walker, state = self._at(**at)
        expansion = walker.expand(Nodes(**_own(nodes)), Children(**_own(tokens)), keep=keep)
        return {**state(), **vars(expansion)}

    def most_queries(
        self, *, at: dict[str, Any], nodes: dict[str, Any], held: Any, degrees: Any
    ) -> dict[str, Any]:
        """`TellsQueries.most_queries`."""
        walker, state = self._at(**at)
        most = most_queries(walker, Nodes(**_own(nodes)), np.array(held), np.array(degrees))
        return {**state(), "most": most}

    def close(self, *, walker: int) -> None:
        """Close the walker of this number, if it is open."""
        if walker in self._open:
            self._open.pop(walker)[0].__exit__(None, None, None)

    def _at(
        self, *, walker: int, incarnation: str, opening: dict[str, Any], released: Any
    ) -> tuple[Walker, Callable[[], dict[str, Any]]]:
        """The walker of this number without what was released, and what its owner is told.

        A new one if it is another.
        """
        if walker in self._open and self._open[walker][1] == incarnation:
            self._open[walker][0].release(np.array(released))
        else:
            self.close(walker=walker)
            context = Context(**_own(opening["context"]))
            made = self._model.open(context, memory_bytes=opening["memory_bytes"])
            self._open[walker] = made.__enter__(), secrets.token_hex(8)
        now, name = self._open[walker]
        return now, lambda: {"incarnation": name, "room": now.room}


def _own(arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays that may be written to: those out of Ray's store may not."""
    return {name: None if one is None else np.array(one) for name, one in arrays.items()}
