r"""The probability that a sample comes near a suffix: a walk of the model's tree.

A sample is as many tokens as the suffix has. It is near if at most `edits` insertions, deletions
and substitutions of tokens turn it into the suffix (Levenshtein). The row of the table of edit
distances after some tokens is all that matters of them, so nodes of the model's tree from which
no continuation can be near are left out, and those below which all are near are counted whole.
Tokens that match nothing nearby have one row in common, and so one probability in sum.

Of the other nodes of a level a limited number is entered, each with a known chance, and stands for
one over the chance of its path. The estimate has no bias, whatever the chances are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from canary.models.decoding import Scheme, drawn_probabilities
from canary.models.language_model import Children, Nodes, Walker
from canary.scoring.batcher import Batcher
from canary.search.node_sampling import systematic
from canary.statistics.importance import count_deviation, weighted_interval

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_LEAST_AHEAD = 1e-3


@dataclass(frozen=True)
class NearMass:
    """An estimate of the probability that a sample is near a suffix.

    Parameters
    ----------
    mass, deviation : float
        The estimate, which has no bias, and an estimate of its standard deviation.
    least, most : float
        What is certain: the probability of what was found, and one less that of what was seen
        not to be near.
    heaviest : float
        The largest part of the estimate that one node has that might have been missed.
    queries : int
        Tokens computed below the prefix.
    """

    mass: float
    deviation: float
    least: float
    most: float
    heaviest: float
    queries: int

    def interval(self, confidence: float) -> tuple[float, float]:
        """Ends of the interval, each for half of the error."""
        if self.deviation <= 0.0 or self.mass <= 0.0:
            return self.least, self.most if self.mass <= 0.0 < self.deviation else self.least
        seen = self.mass, self.deviation
        low, high = weighted_interval(seen, self.heaviest, (1.0 - confidence) / 2.0)
        low = min(max(low, self.least), self.most)
        return low, max(min(high, self.most), low)


@dataclass(frozen=True, eq=False)
class _Level:
    """Nodes of one level: paths, states of the automaton, and how they were reached.

    `weights` are one over the chances of the paths, `masses` their probabilities, `number` is that
    of the first node among all.
    """

    paths: NDArray[np.int32]
    handles: Ints
    rows: Ints
    weights: Floats
    masses: Floats
    number: int


class Automaton:
    """Levenshtein's automaton of a suffix, for samples of its length."""

    def __init__(self, suffix: NDArray[np.int32], edits: int) -> None:
        self.suffix, self.edits = suffix, edits
        self.places = np.arange(len(suffix) + 1)
        self.start = np.minimum(self.places, edits + 1)[None]

    def after(self, rows: Ints, matches: Bools) -> Ints:
        """The rows after one more token; `matches` says of which tokens of the suffix it is one."""
        best = np.minimum(rows[:, :-1] + ~matches, rows[:, 1:] + 1)
        new = np.column_stack([rows[:, :1] + 1, best]) - self.places
        return np.minimum(np.minimum.accumulate(new, axis=1) + self.places, self.edits + 1)

    def least(self, rows: Ints, done: int) -> Ints:
        """Fewest edits that a sample can end with after `done` tokens."""
        fewest: Ints = (rows + np.abs(self.places - done)).min(axis=1)
        return fewest

    def most(self, rows: Ints, done: int) -> Ints:
        """Most edits that it can end with."""
        left = len(self.suffix) - np.minimum(self.places, done)
        largest: Ints = (rows + left).min(axis=1)
        return largest

    def known(self, rows: Ints) -> tuple[Ints, Ints]:
        """Nodes, and tokens that change their rows in another way than all others do."""
        nodes, places = np.nonzero(rows[:, :-1] <= self.edits)
        pairs = np.unique(np.column_stack([nodes, self.suffix[places]]), axis=0)
        return pairs[:, 0], pairs[:, 1]


def near_mass(
    walker: Walker,
    batcher: Batcher,
    automaton: Automaton,
    *,
    scheme: Scheme,
    log_probs: Floats,
    width: int,
    rng: np.random.Generator,
) -> NearMass:
    """The probability that a sample below the walker's context is near a suffix.

    Parameters
    ----------
    walker, batcher
        A model below the prefix, and what asks it.
    automaton : Automaton
        Of the suffix, m tokens, and of the edits that make a sample near.
    scheme : Scheme
        How the sample is drawn.
    log_probs : float64 array of shape (m,)
        Of the suffix's tokens under the scheme, each after the true ones; they only guide the
        draws.
    width : int
        Nodes of a level that are entered, about.
    rng : numpy.random.Generator

    Notes
    -----
    At most about ``m * width`` queries, each with a row of probabilities over the vocabulary.

    A child with the weight w of its parent and the probability m of its path is entered with a
    chance proportional to ``w * m * sqrt(a)``, where a guesses the probability of being near in
    the end: as if each further token of the suffix was missed independently, with the
    probability that it is missed after the true ones. Tokens that match nothing are drawn from
    the model itself. The suffix is always entered.
    """
    suffix, edits, length = automaton.suffix, automaton.edits, len(automaton.suffix)
    ahead = _ahead(log_probs, edits)
    vocabulary = Children(np.arange(batcher.model.facts.vocabulary, dtype=np.int32))
    level = _Level(
        np.zeros((1, 0), np.int32), np.full(1, -1), automaton.start, np.ones(1), np.ones(1), 0
    )
    above, counts = [np.zeros(1, np.int64)], list[Floats]()
    weights, levels, queries, dead = [level.weights], list[int](), 0, 0.0
    held = np.zeros(0, np.int64)
    for done in range(1, length + 1):
        size = len(level.weights)
        levels.append(size)
        lengths = np.full(size, done - 1)
        nodes = Nodes(level.paths, lengths, lengths, level.handles)
        found = batcher.expand(walker, nodes, vocabulary, keep=done < length)
        queries += found.queries
        walker.release(held)
        held = found.handles[found.handles >= 0]
        chances = drawn_probabilities(found.log_probs, scheme)
        children = _children_of(level, chances, automaton)
        least = automaton.least(children.rows, done)
        near = automaton.most(children.rows, done) <= edits
        counts.append(
            np.bincount(children.above[near], children.masses[near], size).astype(np.float64)
        )
        dead += float(children.masses[least > edits].sum())
        here = (least <= edits) & ~near & (children.masses > 0.0)
        if not here.any():
            break
        children = children.chosen(here)
        guess = np.sqrt(np.maximum(ahead[done, edits - least[here]], _LEAST_AHEAD))
        true = children.choices == suffix[done - 1]
        true &= (level.paths[children.above] == suffix[: done - 1]).all(axis=1)
        worth = level.weights[children.above] * children.masses * guess
        copies = _copies(worth, children.choices >= 0, true, width)
        chances[automaton.known(level.rows)] = 0.0
        entered = _entered(copies, children, chances, rng)
        above.append(level.number + children.above[entered.children])
        weights.append(level.weights[children.above[entered.children]] / entered.chances)
        level = _below(level, found.handles, children, entered, chances)
        kept = np.intersect1d(held, level.handles)
        walker.release(np.setdiff1d(held, kept))
        held = kept
    walker.release(held)
    each, together = np.concatenate(counts), np.concatenate(weights[: len(counts)])
    parts = together * each
    return NearMass(
        mass=float(parts.sum()),
        deviation=count_deviation(each, together, np.concatenate(above[: len(counts)]), levels),
        least=float(each.sum()),
        most=max(1.0 - dead, float(each.sum())),
        heaviest=float(parts[together > 1.0].max(initial=0.0)),
        queries=queries,
    )


class _Children(NamedTuple):
    """Children of a level: one for each token that is known to its node, and one for all others.

    Positions of the nodes above, tokens (-1 for all others), rows, and probabilities of the paths.
    """

    above: Ints
    choices: Ints
    rows: Ints
    masses: Floats

    def chosen(self, which: Bools) -> _Children:
        return _Children(
            self.above[which], self.choices[which], self.rows[which], self.masses[which]
        )


class _Entered(NamedTuple):
    """Positions among the children, tokens, and the chances of having been entered."""

    children: Ints
    choices: Ints
    chances: Floats


def _children_of(level: _Level, chances: Floats, automaton: Automaton) -> _Children:
    nodes, tokens = automaton.known(level.rows)
    size = len(level.weights)
    shares = chances[nodes, tokens]
    rest = np.maximum(1.0 - np.bincount(nodes, shares, size), 0.0)
    none = np.zeros((size, len(automaton.suffix)), np.bool_)
    rows = automaton.after(level.rows[nodes], automaton.suffix == tokens[:, None])
    above = np.concatenate([nodes, np.arange(size)])
    return _Children(
        above,
        np.concatenate([tokens, np.full(size, -1)]),
        np.concatenate([rows, automaton.after(level.rows, none)]),
        level.masses[above] * np.concatenate([shares, rest]),
    )


def _below(
    level: _Level, handles: Ints, children: _Children, entered: _Entered, others: Floats
) -> _Level:
    """The next level; `others` are the probabilities of tokens that are not known to a node."""
    chosen = entered.children
    at = children.above[chosen]
    drawn = level.masses[at] * others[at, entered.choices]
    return _Level(
        paths=np.column_stack([level.paths[at], entered.choices.astype(np.int32)]),
        handles=handles[at],
        rows=children.rows[chosen],
        weights=level.weights[at] / entered.chances,
        masses=np.where(children.choices[chosen] >= 0, children.masses[chosen], drawn),
        number=level.number + len(level.weights),
    )


def _ahead(log_probs: Floats, edits: int) -> Floats:
    """The chance of at most r misses from each place on, of shape (m + 1, edits + 1)."""
    table = np.ones((len(log_probs) + 1, edits + 1))
    for at in range(len(log_probs) - 1, -1, -1):
        hit = math.exp(min(log_probs[at], 0.0))
        table[at] = hit * table[at + 1]
        table[at, 1:] += (1.0 - hit) * table[at + 1, :-1]
    return table


def _copies(worth: Floats, single: Bools, certain: Bools, width: int) -> Floats:
    """How many nodes each child is to give, `width` in sum; one token gives one at most."""
    copies = np.zeros(len(worth))
    full = certain.copy()
    while True:
        left = width - np.count_nonzero(full)
        total = float(worth[~full].sum())
        scale = left / total if left > 0 and total > 0.0 else 0.0
        copies = np.where(full, 1.0, scale * worth)
        more = ~full & single & (copies >= 1.0)
        if not more.any():
            return copies
        full |= more


def _entered(
    copies: Floats, children: _Children, others: Floats, rng: np.random.Generator
) -> _Entered:
    """The children that are entered.

    One without a token of its own stands for the `others` of its node, of which as many are drawn
    as it is to give.
    """
    several = (children.choices < 0) & (copies > 1.0)
    once = np.flatnonzero(~several & (copies > 0.0))
    once = once[systematic(np.minimum(copies[once], 1.0), rng)]
    single = once[children.choices[once] >= 0]
    found = [_Entered(single, children.choices[single], np.minimum(copies[single], 1.0))]
    together = np.concatenate([once[children.choices[once] < 0], np.flatnonzero(several)])
    for child in together.tolist():
        shares = others[children.above[child]]
        total = float(shares.sum())
        if total <= 0.0:  # what seemed to be left is rounding
            continue
        chances = np.minimum(copies[child] * shares / total, 1.0)
        if several[child]:
            picked = np.flatnonzero(systematic(chances, rng))
        else:
            picked = np.array([int(rng.choice(len(shares), p=shares / total))])
        found.append(_Entered(np.full(len(picked), child), picked, chances[picked]))
    return _Entered(*map(np.concatenate, zip(*found, strict=True)))
