"""Which token may follow which within a piece, as a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.tokens.pattern import NotUnderstood

__all__ = ["MAX_TOKENS", "NEVER", "Machine", "by_rows"]

NEVER = -1

MAX_TOKENS = 8_192
"""Tokens of a vocabulary that a format may use: tables of pairs hold their square."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Machine:
    """States within a piece, by the tokens read so far; tokens are numbered from 0.

    Every canonical tokenization of a piece can be read.

    Parameters
    ----------
    start : int32 array of shape (tokens,)
        State after a token that begins a piece; `NEVER` where it cannot.
    follow : int32 array of shape (states, tokens)
        State after one more token of the piece; `NEVER` where it cannot follow.
    ends : bool array of shape (states,)
        Whether the piece may end.
    """

    start: NDArray[np.int32]
    follow: NDArray[np.int32]
    ends: Bools


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
        raise NotUnderstood(
            f"{tokens:,} tokens that fit into the format, more than {MAX_TOKENS:,}"
        )
