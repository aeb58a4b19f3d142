"""The tokenizer seam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Encoding:
    """One text as token ids, with those that the tokenizer itself puts around it.

    `spans` are the characters ``text[a:b]`` that each token stands for, empty for special
    tokens; None if the tokenizer does not show them.
    """

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...] | None


class Tokenizer(Protocol):
    """Turns whole strings into tokens, as the training pipeline would have."""

    @property
    def size(self) -> int:
        """Number of tokens, added and special ones included."""
        ...

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Each text as tokens, special tokens included.

        Raises
        ------
        ModelError
            If a text cannot be represented (a character becomes the unknown token).
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special tokens left out."""
        ...
