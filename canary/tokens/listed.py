"""The tree of a list of token sequences: for small spaces, whatever the tokenizer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from canary.errors import UnsupportedError
from canary.tokens.arrays import TokenTree, compress
from canary.tokens.readers import ListReader
from canary.tokens.token_graph import graph_of

__all__ = ["list_tree"]


def list_tree(rows: Sequence[Sequence[int]], fills: Sequence[str]) -> TokenTree:
    """The tree whose leaves are the encodings `rows` of all `fills`.

    Raises
    ------
    UnsupportedError
        If one row continues another.
    """
    order = sorted(range(len(rows)), key=lambda k: tuple(rows[k]))
    ordered = [rows[k] for k in order]
    if any(tuple(b[: len(a)]) == tuple(a) for a, b in pairwise(ordered)):
        raise UnsupportedError(
            "the tokens of some candidates continue those of others",
            cure="put fixed text that no fill can contain after the last hole",
        )
    # What the first and the last share, all share: the rows ascend.
    first, last = ordered[0], ordered[-1]
    head = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)

    def moves(part: tuple[int, int, int]) -> dict[int, tuple[int, int, int]]:
        """By each next token of the rows ``low:high``: those with it, one token further."""
        low, high, depth = part
        found: dict[int, tuple[int, int, int]] = {}
        while low < high and depth < len(ordered[low]):
            token = ordered[low][depth]
            stop = bisect_right(ordered, token, low, high, key=lambda row: row[depth])
            found[token] = (low, stop, depth + 1)
            low = stop
        return found

    return compress(
        graph_of((0, len(rows), head), moves),
        first[:head],
        (),
        canonical=True,
        certificate=f"certified: all {len(rows):,} fills were encoded",
        reader=ListReader(tuple(fills[k] for k in order)),
    )
