"""A served model whose server echoes prompts with their log-probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.models.by_scoring import RowWalker
from canary.models.language_model import Context, FloatArray, Memory, ModelFacts, Rows, Walker
from canary.models.served.request_format import Manner
from canary.models.served.verified_cache import Asking
from canary.tokens.tokenizer import Tokenizer

__all__ = ["EchoedModel"]

_FREE_BYTES = 2**30

Row = tuple[int, ...]
Floats = NDArray[np.float64]


class EchoedModel:
    """Scores whole rows, each with a request of its own.

    Parameters
    ----------
    manner : Manner
    asking : Asking
    facts : ModelFacts
    checked : int
        Tokens of the longest row whose numbers are known to stand in their places.
    check : callable
        Finds out whether they do in a longer row, and raises if not.
    """

    def __init__(
        self,
        manner: Manner,
        asking: Asking,
        facts: ModelFacts,
        *,
        checked: int,
        check: Callable[[Row], None],
    ) -> None:
        self._manner, self._asking = manner, asking
        self._checked, self._check = checked, check
        self.facts = facts

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that was named; without its special tokens where prompts are texts."""
        return self._manner.texts.tokenizer

    def expect(self, rows: int, *, at_most: int = 0) -> None:
        """See `Asking.expect`."""
        self._asking.expect(rows, at_most=at_most)

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats.

        Raises
        ------
        ServerError
            If the server fails, refuses, or is another than at the beginning; or if it tells
            numbers in other places than their own in rows as long as these.
        UnsupportedError
            If the server takes texts only, and a row is not what it makes of its text.
        """
        sequences = [tuple(row.tolist()) for row in np.split(rows.ids, rows.offsets[1:-1])]
        scored = rows.scored.tolist()
        asked = [ids for ids, count in zip(sequences, scored, strict=True) if count]
        longest = max(asked, key=len, default=())
        if len(longest) > self._checked:
            self._check(longest)
            self._checked = len(longest)
        found = self._asking.ask(asked, self._request, self._manner.echoed)
        values = [
            found[ids][len(ids) - 1 - count :]
            for ids, count in zip(sequences, scored, strict=True)
            if count
        ]
        return np.concatenate([np.zeros(0), *values]).astype(np.float32)

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker that scores a row for each child and holds nothing."""
        return RowWalker(self, context)

    def memory(self) -> Memory:
        """Nothing is held here."""
        return Memory(_FREE_BYTES, 1)

    def _request(self, ids: Row) -> dict[str, Any]:
        return self._manner.request(ids, echo=True)
