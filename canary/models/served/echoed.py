"""A served model whose server echoes prompts with their log-probabilities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from canary.models.by_scoring import RowWalker
from canary.models.language_model import Context, FloatArray, Memory, ModelFacts, Rows, Walker
from canary.models.served.verified_cache import Asking, Row
from canary.tokens.tokenizer import Tokenizer

_FREE_BYTES = 2**30


class ServedModel:
    """What all served models have in common.

    The tokenizer is the one that was named; without its special tokens where prompts are texts.
    """

    def __init__(self, asking: Asking, facts: ModelFacts, tokenizer: Tokenizer) -> None:
        self._asking, self.facts, self.tokenizer = asking, facts, tokenizer

    def expect(self, rows: int, *, at_most: int = 0) -> None:
        """See `Asking.expect`."""
        self._asking.expect(rows, at_most=at_most)

    def memory(self) -> Memory:
        """Nothing is held here."""
        return Memory(_FREE_BYTES, 1)


class EchoedModel(ServedModel):
    """Scores whole rows, each with a request of its own.

    Of rows of up to `checked` tokens the numbers are known to be in their places; `check` raises
    if they are not in a longer one.
    """

    def __init__(
        self,
        asking: Asking,
        facts: ModelFacts,
        tokenizer: Tokenizer,
        *,
        checked: int,
        check: Callable[[Row], None],
    ) -> None:
        super().__init__(asking, facts, tokenizer)
        self._checked, self._check = checked, check

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
        scored = zip(sequences, rows.scored.tolist(), strict=True)
        asked = [(ids, count) for ids, count in scored if count]
        longest = max((ids for ids, _ in asked), key=len, default=())
        if len(longest) > self._checked:
            self._check(longest)
            self._checked = len(longest)
        numbers = self._asking.ask([ids for ids, _ in asked])
        values = [numbers[ids][len(ids) - 1 - count :] for ids, count in asked]
        return np.concatenate([np.zeros(0), *values]).astype(np.float32)

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker that scores a row for each child and holds nothing."""
        return RowWalker(self, context)
