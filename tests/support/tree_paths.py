"""What a token tree says, read off edge by edge."""

from __future__ import annotations

from canary.tokens.arrays import LEAF


def paths(tree):
    """All token paths of a tree, context included, in the order of the leaves."""
    found = []

    def descend(state, path):
        for edge in range(tree.offsets[state], tree.offsets[state + 1]):
            forced = tree.forced[tree.forced_offsets[edge] : tree.forced_offsets[edge + 1]]
            below = [*path, int(tree.tokens[edge]), *map(int, forced)]
            if tree.targets[edge] == LEAF:
                found.append(tuple(below))
            else:
                descend(int(tree.targets[edge]), below)

    descend(0, [int(t) for t in tree.context])
    return found
