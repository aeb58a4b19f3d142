"""Which token may follow which within a piece, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from canary.tokens.pattern import UnknownRuleError

__all__ = ["MAX_TOKENS", "NEVER", "Machine", "Table", "by_rows", "check_size"]

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


def by_rows(valid: Bools, used: Bools) -> tuple[NDArray[np.int32], Bools]:
    """Tokens after which the same ones may follow, as one class.

    Parameters
    ----------
    valid : bool array of shape (tokens, tokens)
        Whether the second may follow the first.
    used : bool array of shape (tokens,)
        Which tokens occur at all.

    Returns
    -------
    classes : int32 array of shape (tokens,)
    rows : bool array of shape (classes, tokens)
    """
    valid &= used[:, None] & used[None, :]
    packed = np.packbits(valid, axis=1)
    keys = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))[:, 0]
    _, first, classes = np.unique(keys, return_index=True, return_inverse=True)
    return classes.astype(np.int32).reshape(-1), valid[first]


def check_size(tokens: int) -> None:
    """Refuse more tokens than a table of pairs can hold."""
    if tokens > MAX_TOKENS:
        raise UnknownRuleError(
            f"{tokens:,} tokens that fit into the format, more than {MAX_TOKENS:,}"
        )
