"""Every leaf of a tree, depth first in batches, in memory that does not grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import Walker
from canary.scoring.batcher import Batcher
from canary.search.step import (
    MOST_CHILDREN,
    Frontier,
    Step,
    at_once,
    expand,
    joined,
    root_frontier,
)
from canary.tokens.arrays import TokenTree, branches

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Leaves:
    """A batch of priced leaves.

    Parameters
    ----------
    costs : float64 array of shape (m,)
        Nats, of the whole candidate.
    step : Step
        Where they were found.
    which : int64 array of shape (m,), or a slice
        Which children of the step they are.
    """

    costs: NDArray[np.float64]
    step: Step
    which: Ints | slice

    def index(self) -> Ints:
        """Number of each leaf in the tree, shape (m,)."""
        return self.step.first_leaf[self.which]

    def bounds(self) -> tuple[int, int]:
        """All numbers are in this half-open range; cheaper than `index`."""
        first, below = self.step.frontier.first_leaf, self.step.tree.leaves
        return int(first.min()), int((first + below[self.step.frontier.states]).max())


class _Depth:
    """Open nodes of one depth, first come first served, and the states that they stand on."""

    def __init__(self, tree: TokenTree) -> None:
        self.open = self.children = 0
        self._degrees = tree.degrees
        self._parts: deque[tuple[Frontier, Ints]] = deque()
        self._taken = 0  # of the first part

    def add(self, frontier: Frontier, parents: Ints) -> None:
        """Nodes, and handles that are held until the last of them was expanded."""
        self._parts.append((frontier, parents))
        self.open += len(frontier)
        self.children += int(self._degrees[frontier.states].sum())

    def states(self, count: int) -> Ints:
        """States in the token tree of the first `count` nodes."""
        parts, skipped = [], self._taken
        for frontier, _ in self._parts:
            parts.append(frontier.states[skipped : skipped + count])
            count, skipped = count - len(parts[-1]), 0
            if not count:
                break
        return np.concatenate(parts)

    def take(self, count: int) -> tuple[Frontier, list[Ints]]:
        """At most this many nodes, and the handles that nothing needs after them."""
        taken: list[Frontier] = []
        done: list[Ints] = []
        while count and self._parts:
            frontier, parents = self._parts[0]
            part = frontier[self._taken : self._taken + count]
            taken.append(part)
            self._taken += len(part)
            self.open -= len(part)
            self.children -= int(self._degrees[part.states].sum())
            count -= len(part)
            if self._taken < len(frontier):
                break
            done.append(parents)
            self._parts.popleft()
            self._taken = 0
        return taken[0] if len(taken) == 1 else joined(taken), done


def enumerate_leaves(
    tree: TokenTree,
    walker: Walker,
    batcher: Batcher,
    *,
    start: int = 0,
    stop: int | None = None,
    bounds: bool = False,
) -> Iterator[tuple[Leaves, int]]:
    """Price the canonical leaves of `tree`, each once.

    Parameters
    ----------
    tree : TokenTree
    walker : Walker
        Below `tree.context`.
    batcher : Batcher
    start, stop : int
        Only the leaves with a number in this half-open range; all unless given. Ranges side
        by side cost what one walk costs and the nodes above their ends once more.
    bounds : bool
        Whether a model may give bounds for some tokens: costs are then the least that each
        leaf can cost, and `Step.exact` says which do. Else such a model is refused.

    Yields
    ------
    (Leaves, int)
        A batch of leaves (possibly empty), and the queries that the step took.

    Notes
    -----
    Queries: one per inner node and forced token, `tree.queries()` in all, and more only
    where the walker could not hold all states. Open nodes: at most a batch and one batch's
    children per level. A batch is taken from the deepest level that fills it, so that where
    paths end at many depths, few batches are small.

    Examples
    --------
    A model that finds each digit twice as likely as the next larger one:

    >>> import numpy as np
    >>> from tokenizers import Tokenizer
    >>> from tokenizers.models import BPE
    >>> import canary
    >>> from canary.models.language_model import Context
    >>> from canary.models.table_model import TableModel
    >>> from canary.scoring.batcher import Batcher
    >>> from canary.search.enumerate import enumerate_leaves
    >>> from canary.tokens.candidates import CandidateEncoder
    >>> from canary.tokens.fast import as_tokenizer
    >>> from canary.tokens.tree import compile_tree
    >>> vocabulary = {c: i for i, c in enumerate("0123456789#")}
    >>> tokenizer = as_tokenizer(Tokenizer(BPE(vocab=vocabulary, merges=[])))
    >>> tree = compile_tree(canary.Format("#{digit:3}"), CandidateEncoder(tokenizer))
    >>> weights = np.array([2.0**-digit for digit in range(10)] + [1e-3])
    >>> model = TableModel.ngram({(): np.log(weights / weights.sum())}, tokenizer)
    >>> costs = np.empty(tree.size)
    >>> with model.open(Context(tree.context), memory_bytes=2**20) as walker:
    ...     for leaves, _ in enumerate_leaves(tree, walker, Batcher(model)):
    ...         costs[leaves.index()] = leaves.costs
    >>> tree.fills([costs.argmin()])
    ['000']
    """
    stop = tree.size if stop is None else stop
    whole = start <= 0 and stop >= tree.size
    levels = [_Depth(tree)]
    levels[0].add(root_frontier(batcher, walker, tree), np.zeros(0, np.int64))
    while waiting := [depth for depth, level in enumerate(levels) if level.open]:
        size = batcher.node_batch(walker)
        # The deepest level with a full batch, or the highest one, which fills those below it.
        depth = waiting[0]
        for deeper in waiting:
            if levels[deeper].open >= size or levels[deeper].children >= MOST_CHILDREN:
                depth = deeper
        some = at_once(batcher, walker, tree, levels[depth].states(size))
        frontier, done = levels[depth].take(some)
        step = expand(batcher, walker, tree, frontier, bounds=bounds)
        for handles in done:
            walker.release(handles)
        leaves = step.leaves
        inside = np.ones(len(leaves), np.bool_)
        if not whole:
            first = step.first_leaf
            below = np.where(leaves, 1, tree.leaves[tree.targets[step.edges]])
            inside = (first < stop) & (first + below > start)
        if tree.canonical and inside.all() and leaves.all():
            yield Leaves(step.costs, step, slice(None)), step.queries
            continue
        which = np.flatnonzero(leaves & inside)
        which = which[step.canonical(which)]
        yield Leaves(step.costs[which], step, which), step.queries
        inner = np.flatnonzero(~leaves & inside)
        needed = np.zeros(len(frontier), np.bool_)
        needed[step.parents[inner]] = True
        walker.release(step.handles[~needed])
        if not len(inner):
            continue
        if depth + 1 == len(levels):
            levels.append(_Depth(tree))
        levels[depth + 1].add(step.open_nodes(inner), step.handles[needed])


def leaf_costs(
    tree: TokenTree, walker: Walker, batcher: Batcher, index: Ints, *, bounds: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """Costs of some leaves, read off the walk's own arithmetic along their paths.

    Parameters
    ----------
    index : int64 array of shape (n,)
        Leaves by their number in the tree; repeats are allowed.
    bounds : bool
        Whether a model may give bounds for some tokens.

    Returns
    -------
    costs : float64 array of shape (n,)
        Nats, of the whole candidate: the least that it can cost.
    exact : bool array of shape (n,)
        Whether it does cost that.
    queries : int
        One per distinct inner node above the leaves, and forced token.
    """
    if not len(index):
        return np.zeros(0), np.zeros(0, np.bool_), 0
    chosen, place = np.unique(np.asarray(index, tree.leaves.dtype), return_inverse=True)
    # Whether they are canonical is not asked.
    some = replace(branches(tree, chosen), canonical=True)
    costs, exact = np.empty(len(chosen)), np.empty(len(chosen), np.bool_)
    queries = 0
    for leaves, spent in enumerate_leaves(some, walker, batcher, bounds=bounds):
        number = leaves.index()
        costs[number], exact[number] = leaves.costs, leaves.step.exact[leaves.which]
        queries += spent
    return costs[place], exact[place], queries
