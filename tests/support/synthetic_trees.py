"""Trees of random edges behind the seam, with all their costs known, and no model."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from canary.models.facts import ModelFacts
from canary.models.language_model import Children, Expansion, Memory, Nodes
from canary.tokens.arrays import LEAF, TokenTree

EDGES = {
    "normal": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "student": lambda rng, size: rng.standard_t(2, size=size),
    "cauchy": lambda rng, size: rng.standard_t(1, size=size),
    # A few choices are far likelier than the others, or far less likely.
    "pareto": lambda rng, size: rng.pareto(1, size=size),
    "pareto costs": lambda rng, size: -rng.pareto(1, size=size),
}


class SyntheticTree:
    """A complete tree of `depth` levels of `degree` choices, and a model that prices it.

    The scores of edges are independent, of the named kind and scaled so that a normal kind
    gives costs of the spread `sd_bits`; a node's are normalised over its children.
    """

    def __init__(
        self, sd_bits: float, seed: int, *, kind: str = "normal", depth: int = 6, degree: int = 10
    ) -> None:
        rng = np.random.default_rng(seed)
        scale = sd_bits * np.log(2) / np.sqrt(depth)
        self.depth, self.degree, self.edges = depth, degree, []
        for level in range(depth):
            scores = scale * EDGES[kind](rng, (degree**level, degree))
            scores -= scores.max(axis=1, keepdims=True)
            scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
            self.edges.append(scores)
        self.facts = ModelFacts("synthetic", degree, None, "float64", "none", "cpu", "0" * 64, 0.0)
        self.context_log_probs = np.zeros(0)
        self.room = 2**40

    @cached_property
    def costs(self) -> np.ndarray:
        """Costs of all leaves in their order, in nats, added as a walk adds them."""
        costs = np.zeros(1)
        for scores in self.edges:
            costs = (costs[:, None] - scores).reshape(-1)
        return costs

    @cached_property
    def tree(self) -> TokenTree:
        states, k = self.depth, self.degree
        below = k ** np.arange(states - 1, -1, -1)
        return TokenTree(
            context=np.zeros(1, np.int32),
            offsets=k * np.arange(states + 1),
            tokens=np.tile(np.arange(k, dtype=np.int32), states),
            targets=np.repeat([*range(1, states), LEAF], k),
            forced=np.zeros(0, np.int32),
            forced_offsets=np.zeros(states * k + 1, np.int64),
            first_leaf=np.tile(np.arange(k), states) * np.repeat(below, k),
            leaves=k * below,
            canonical=True,
            certificate="by construction",
            texts_of=lambda rows, _: [("".join(map(str, row[1:])),) for row in rows],
        )

    def memory(self) -> Memory:
        return Memory(2**40, 1)

    def open(self, context, *, memory_bytes):
        return self

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        length = int(nodes.lengths[0])
        at = np.zeros(len(nodes), np.int64)
        for column in range(length):
            at = self.degree * at + nodes.paths[:, column]
        path = np.zeros(len(nodes))
        handles = np.full(len(nodes), -1, np.int64)
        scores, asked = self._scores(length, at), np.arange(len(nodes))[:, None]
        if tokens.offsets is not None:
            asked = np.repeat(np.arange(len(nodes)), np.diff(tokens.offsets))
        queries = len(nodes) if length else 0
        return Expansion(path, scores[asked, tokens.tokens], handles, queries)

    def _scores(self, level: int, at: np.ndarray) -> np.ndarray:
        return self.edges[level][at]

    def release(self, handles) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class HashedTree(SyntheticTree):
    """The same of any depth: a normal edge is computed from its place when it is asked for."""

    def __init__(self, sd_bits: float, seed: int, *, depth: int = 9, degree: int = 10) -> None:
        super().__init__(sd_bits, seed, depth=1, degree=degree)
        self.depth, self._seed = depth, seed
        self._scale = sd_bits * np.log(2) / np.sqrt(depth)

    def _scores(self, level: int, at: np.ndarray) -> np.ndarray:
        from scipy.special import ndtri

        places = (at[:, None] * self.degree + np.arange(self.degree)).astype(np.uint64)
        # SplitMix64 of the seed, the level and the place.
        stream = 0x9E3779B97F4A7C15 * (64 * self._seed + level) % 2**64
        z = places + np.uint64(stream)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        z ^= z >> np.uint64(31)
        scores = self._scale * ndtri((z >> np.uint64(11)) * 2.0**-53 + 2.0**-54)
        return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
