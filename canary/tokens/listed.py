"""The tree of a list of token sequences: for small spaces, whatever the tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from canary.errors import UnsupportedError
from canary.tokens.arrays import TokenTree, compress
from canary.tokens.readers import ListReader
from canary.tokens.token_lattice import END, TokenGraph

__all__ = ["list_tree"]


def list_tree(rows: Sequence[Sequence[int]], fills: Sequence[str]) -> TokenTree:
    """The tree whose leaves are the encodings `rows` of all `fills`.

    Raises
    ------
    UnsupportedError
        If one row continues another.
    """
    order = sorted(range(len(rows)), key=lambda k: tuple(rows[k]))
    first, last = rows[order[0]], rows[order[-1]]  # what they share, all share: the rows ascend
    differ = (k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    head = first[: next(differ, min(len(first), len(last)))]
    ordered = [rows[k][len(head) :] for k in order]
    if any(tuple(b[: len(a)]) == tuple(a) for a, b in pairwise(ordered)):
        raise UnsupportedError(
            "the tokens of some candidates continue those of others",
            cure="put fixed text that no fill can contain after the last hole",
        )
    # Backwards through the sorted rows, so that targets come before their sources: equal
    # ends are one state, as `merged` knows.
    merged: dict[tuple[tuple[int, int], ...], int] = {(): END}
    paths = [1]
    sources: list[int] = []
    edges: list[tuple[int, int]] = []

    def close(row: list[tuple[int, int]]) -> int:
        key = tuple(row)
        if key not in merged:
            number = merged[key] = len(paths)
            paths.append(sum(paths[target] for _, target in key))
            sources.extend([number] * len(key))
            edges.extend(key)
        return merged[key]

    # The open states are those along the last row; what lies behind it is closed.
    path: list[list[tuple[int, int]]] = [[]]
    tokens: list[int] = []
    for row in [*ordered, ()]:
        shared = next(
            (k for k, (a, b) in enumerate(zip(tokens, row, strict=False)) if a != b),
            min(len(tokens), len(row)),
        )
        while len(path) > shared + 1:
            state = close(path.pop())
            path[-1].append((tokens.pop(), state))
        for token in row[shared:]:
            tokens.append(token)
            path.append([])
    root = close(path[0])
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    graph = TokenGraph(
        root, np.array(sources, np.int64), pairs[:, 0], pairs[:, 1], np.array(paths, np.int64)
    )
    return compress(
        graph,
        head,
        (),
        canonical=True,
        certificate=f"certified: all {len(rows):,} fills were encoded",
        reader=ListReader(tuple(fills[k] for k in order)),
    )
