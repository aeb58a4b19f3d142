"""The part of a token tree that leads to some of its leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from canary.tokens.arrays import LEAF, TokenTree

Ints = NDArray[np.int64]


def branches(tree: TokenTree, numbers: Ints) -> TokenTree:
    """The tree without all that leads to none of the chosen leaves.

    Parameters
    ----------
    tree : TokenTree
    numbers : array of shape (n,)
        Leaves by their numbers in `tree`, ascending, none twice, at least one; of the dtype
        of `tree.leaves`.

    Returns
    -------
    TokenTree
        With n leaves in the same order. Each state on the way stays one, even where a
        single edge is left of it: so costs are added up as in the whole tree. States
        that several paths share become one for each path.

    Notes
    -----
    O(n x depth x log degree).
    """
    state, left = np.zeros(len(numbers), np.int64), numbers
    node, nodes = np.zeros(len(numbers), np.int64), 1  # of this level
    states = 1  # of all levels so far
    place = np.arange(len(numbers))
    leaves, degrees, first_leaf, edges, targets = ([] for _ in range(5))
    while len(left):
        edge = _edge_to(tree, state, left)
        left = left - tree.first_leaf[edge]
        # Leaves below one node lie together, and so do those below one of its edges.
        begins = np.flatnonzero(np.diff(node, prepend=-1) | np.diff(edge, prepend=-1))
        opens = np.searchsorted(node, np.arange(nodes))
        leaves.append(np.diff(opens, append=len(node)))
        owners, taken = node[begins], edge[begins]
        degrees.append(np.bincount(owners, minlength=nodes))
        first_leaf.append(place[begins] - place[opens][owners])
        edges.append(taken)
        inner = tree.targets[taken] != LEAF
        below = np.cumsum(inner) - 1
        targets.append(np.where(inner, states + below, LEAF))
        nodes = int(inner.sum())
        states += nodes
        node = np.repeat(below, np.diff(begins, append=len(edge)))
        on = tree.targets[edge] != LEAF
        node, left, place = node[on], left[on], place[on]
        state = tree.targets[edge[on]].astype(np.int64)
    kept = np.concatenate(edges)
    starts = tree.forced_offsets[kept]
    counts = tree.forced_offsets[kept + 1] - starts
    offsets = np.concatenate([[0], np.cumsum(counts)])
    at = np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])
    return replace(
        tree,
        offsets=np.concatenate([[0], np.cumsum(np.concatenate(degrees))]),
        tokens=tree.tokens[kept],
        targets=np.concatenate(targets).astype(np.int32),
        forced=tree.forced[at],
        forced_offsets=offsets,
        first_leaf=np.concatenate(first_leaf),
        leaves=np.concatenate(leaves),
        texts_of=lambda rows, chosen: tree.texts_of(rows, numbers[chosen]),
    )


def _edge_to(tree: TokenTree, state: Ints, number: Ints) -> Ints:
    """The edge of each state below which the leaf with a number lies: the last not beyond it."""
    low, high = tree.offsets[state], tree.offsets[state + 1]
    while (high - low > 1).any():
        middle = (low + high) // 2
        reached = (tree.first_leaf[middle] <= number).astype(np.bool_)
        low, high = np.where(reached, middle, low), np.where(reached, high, middle)
    return low
