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
from canary.records.validation import versions


@dataclass(frozen=True, eq=False)
class _Open:
    """A walker and the name of this opening of it: handles of another are not its own."""

    walker: Walker
    incarnation: str

    def state(self) -> dict[str, Any]:
        """What its owner is told each time."""
        return {"incarnation": self.incarnation, "room": self.walker.room}


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
        moments = self._model.moments(Rows(**_own(rows)))
        return moments.log_probs, moments.means, moments.deviations

    def open(self, *, at: dict[str, Any]) -> dict[str, Any]:
        """Have the walker open, and tell what its owner must know of it."""
        opened = self._at(**at)
        walker = opened.walker
        told = {"context_log_probs": walker.context_log_probs}
        return {**opened.state(), **told, "tells": isinstance(walker, TellsQueries)}

    def expand(
        self, *, at: dict[str, Any], nodes: dict[str, Any], tokens: dict[str, Any], keep: bool
    ) -> dict[str, Any]:
        """`Walker.expand`.

        In a new incarnation no state is held, so that all handles are stale, and the states below
        the nodes are computed again.
        """
        opened = self._at(**at)
        expansion = opened.walker.expand(Nodes(**_own(nodes)), Children(**_own(tokens)), keep=keep)
        return {**opened.state(), **vars(expansion)}

    def most_queries(
        self, *, at: dict[str, Any], nodes: dict[str, Any], held: Any, degrees: Any
    ) -> dict[str, Any]:
        """`TellsQueries.most_queries`."""
        opened, given = self._at(**at), Nodes(**_own(nodes))
        most = most_queries(opened.walker, given, np.array(held), np.array(degrees))
        return {**opened.state(), "most": most}

    def close(self, *, walker: int) -> None:
        """Close the walker of this number, if it is open."""
        opened = self._open.pop(walker, None)
        if opened is not None:
            opened.walker.__exit__(None, None, None)

    def _at(
        self, *, walker: int, incarnation: str, opening: dict[str, Any], released: Any
    ) -> _Open:
        """The walker of this number without what was released; a new one if it is another."""
        opened = self._open.get(walker)
        if opened is not None and opened.incarnation == incarnation:
            opened.walker.release(np.array(released))
            return opened
        self.close(walker=walker)
        context = Context(**_own(opening["context"]))
        made = self._model.open(context, memory_bytes=opening["memory_bytes"])
        opened = self._open[walker] = _Open(made.__enter__(), secrets.token_hex(8))
        return opened


def _own(arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays that may be written to: those out of Ray's store may not."""
    return {name: None if one is None else np.array(one) for name, one in arrays.items()}
