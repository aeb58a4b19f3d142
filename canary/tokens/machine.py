"""Which token may follow which within a piece, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from canary.tokens.pattern import UnknownRuleError

NEVER = -1

MAX_TOKENS = 8_192
"""Tokens of a vocabulary that a format may use: tables of pairs hold their square."""

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Machine(Protocol):
    """States within a piece, by the tokens read so far; tokens are numbered from 0.

    Every canonical tokenization of a piece can be read.
    """

    @property
    def start(self) -> NDArray[np.int32]:
        """State after a token that begins a piece, `NEVER` where it cannot; shape (tokens,)."""
        ...

    def rows(self, states: Ints) -> tuple[NDArray[np.int32], Ints]:
        """The states after one more token: a table, and the row of each of `states`.

        `NEVER` where the token cannot follow.
        """
        ...

    def ends(self, states: Ints) -> Bools:
        """Whether the piece may end, for each of `states`."""
        ...


@dataclass(frozen=True, eq=False)
class Table:
    """A machine whose states are all known.

    Parameters
    ----------
    start : int32 array of shape (tokens,)
    follow : int32 array of shape (states, tokens)
    final : bool array of shape (states,)
    """

    start: NDArray[np.int32]
    follow: NDArray[np.int32]
    final: Bools

    def rows(self, states: Ints) -> tuple[NDArray[np.int32], Ints]:
        """See `Machine`."""
        return self.follow, states

    def ends(self, states: Ints) -> Bools:
        """See `Machine`."""
        return self.final[states]


def check_size(tokens: int) -> None:
    """Refuse more tokens than a table of pairs can hold."""
    if tokens > MAX_TOKENS:
        raise UnknownRuleError(
            f"{tokens:,} tokens that fit into the format, more than {MAX_TOKENS:,}"
        )
