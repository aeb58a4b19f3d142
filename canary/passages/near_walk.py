r"""The probability that a sample comes near a suffix: a walk of the model's tree.

A sample is as many tokens as the suffix has. It is near if at most `edits` insertions, deletions
and substitutions of tokens turn it into the suffix (Levenshtein). The row of the table of edit
distances after some tokens is all that matters of them, so nodes of the model's tree from which
no continuation can be near are left out, and those below which all are near are counted whole.
Tokens that match nothing nearby have one row in common, and so one probability in sum.
`canary.passages.text_edits` has another automaton, of the text that tokens write.

Of the other nodes of a level a limited number is entered, each with a known chance, and stands for
one over the chance of its path. The estimate has no bias, whatever the chances are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from canary.models.decoding import Scheme, drawn_probabilities
from canary.models.language_model import Children, Nodes, Walker
from canary.passages.edits import Edits, Moves
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
        The largest part of the estimate that one node has, or that one might have that was missed,
        by what the guide of the draws promises.
    queries : int
        Tokens computed below the prefix.
    exact : bool
        Whether all that might be near was entered.
    """

    mass: float
    deviation: float
    least: float
    most: float
    heaviest: float
    queries: int
    exact: bool

    def interval(self, confidence: float) -> tuple[float, float]:
        """Ends of the interval, each for half of the error; what is certain if no draw hit."""
        if self.exact or self.deviation <= 0.0 or self.mass <= 0.0:
            return self.least, self.least if self.exact else self.most
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

    def chosen(self, places: Ints) -> _Level:
        """Some of its nodes, with the number of the level."""
        return _Level(
            self.paths[places],
            self.handles[places],
            self.rows[places],
            self.weights[places],
            self.masses[places],
            self.number,
        )


def near_mass(
    walker: Walker,
    batcher: Batcher,
    automaton: Edits,
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
    automaton : TokenAutomaton or TextAutomaton
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
    the end, on the high side: as if each further token of the suffix was missed independently,
    with the probability that it is missed after the true ones, for one edit. Tokens that match
    nothing are drawn from the model itself. The suffix is always entered. A child that may be
    missed would add ``w * m * a`` over its chance, of which the interval allows for the largest.
    """
    guide = automaton.guide(log_probs)
    vocabulary = Children(np.arange(batcher.model.facts.vocabulary, dtype=np.int32))
    level = _Level(
        np.zeros((1, 0), np.int32), np.full(1, -1), automaton.start, np.ones(1), np.ones(1), 0
    )
    above, counts = [np.zeros(1, np.int64)], list[Floats]()
    weights, levels, queries = [level.weights], list[int](), 0
    dead, heaviest, exact = 0.0, 0.0, True
    held = np.zeros(0, np.int64)
    for done in range(1, automaton.levels + 2):
        levels.append(len(level.weights))
        # What was drawn unseen may turn out to be near, or not to come near any more.
        near = automaton.near(level.rows, done - 1)
        counts.append(np.where(near, level.masses, 0.0))
        far = automaton.least(level.rows, done - 1) > automaton.edits
        dead += float(level.masses[far & ~near].sum())
        places = np.flatnonzero(~near & ~far)
        if not len(places):
            break
        level, size = level.chosen(places), len(places)
        lengths = np.full(size, done - 1)
        nodes = Nodes(level.paths, lengths, lengths, level.handles)
        found = batcher.expand(walker, nodes, vocabulary, keep=done < automaton.levels)
        queries += found.queries
        walker.release(held)
        held = found.handles[found.handles >= 0]
        chances = drawn_probabilities(found.log_probs, scheme)
        moves = automaton.moves(level.rows, done)
        masses = level.masses[moves.above] * _shares(moves, chances)
        counts[-1][places] = np.bincount(moves.above[moves.near], masses[moves.near], size)
        dead += float(masses[moves.least > automaton.edits].sum())
        here = (moves.least <= automaton.edits) & ~moves.near & (masses > 0.0)
        if not here.any():
            break
        moves, masses = moves.chosen(here), masses[here]
        promise = np.maximum(automaton.guess(guide, moves, done), _LEAST_AHEAD)
        worth = level.weights[moves.above] * masses
        sure = _true(level, moves, automaton.suffix, done)
        copies = _copies(worth * np.sqrt(promise), moves.choices >= 0, sure, width)
        heaviest = max(heaviest, _missed(worth * promise, copies, moves))
        entered = _entered(copies, moves, chances, rng)
        exact &= entered.all
        above.append(level.number + places[moves.above[entered.children]])
        weights.append(level.weights[moves.above[entered.children]] / entered.chances)
        level = replace(level, handles=found.handles, number=level.number + levels[-1])
        level = _below(level, moves, (masses, chances), entered, automaton)
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
        heaviest=max(heaviest, float(parts[together > 1.0].max(initial=0.0))),
        queries=queries,
        exact=exact,
    )


class _Entered(NamedTuple):
    """Positions among the moves, tokens, the chances of having been entered, and if all were."""

    children: Ints
    choices: Ints
    chances: Floats
    all: bool


def _shares(moves: Moves, chances: Floats) -> Floats:
    """The probability of each move below its node; those of known tokens become 0 in `chances`."""
    single = moves.choices >= 0
    known = moves.above[single], moves.choices[single]
    shares = np.empty(len(single))
    shares[single] = chances[known]
    chances[known] = 0.0
    shares[~single] = chances[moves.above[~single]].sum(axis=1)
    return shares


def _true(level: _Level, moves: Moves, suffix: NDArray[np.int32], done: int) -> Bools:
    """Which move is that of the suffix itself."""
    if done > len(suffix):
        return np.zeros(len(moves.choices), np.bool_)
    same = (level.paths == suffix[: done - 1]).all(axis=1)
    found: Bools = (moves.choices == suffix[done - 1]) & same[moves.above]
    return found


def _below(
    level: _Level,
    moves: Moves,
    known: tuple[Floats, Floats],
    entered: _Entered,
    automaton: Edits,
) -> _Level:
    """The next level, with the number of this one.

    `known` are the probabilities of the moves, and those of the other tokens of each node.
    """
    masses, others = known
    chosen = entered.children
    at, rows, drawn = moves.above[chosen], moves.rows[chosen], moves.choices[chosen] < 0
    rows[drawn] = automaton.entered(level.rows[at[drawn]], entered.choices[drawn], rows[drawn])
    unseen = level.masses[at] * others[at, entered.choices]
    return _Level(
        paths=np.column_stack([level.paths[at], entered.choices.astype(np.int32)]),
        handles=level.handles[at],
        rows=rows,
        weights=level.weights[at] / entered.chances,
        masses=np.where(drawn, unseen, masses[chosen]),
        number=level.number,
    )


def _copies(worth: Floats, single: Bools, certain: Bools, width: float) -> Floats:
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


def _missed(mass: Floats, copies: Floats, moves: Moves) -> float:
    """The most that a child which may be missed adds, if those that are sure add `mass`."""
    drawn = (copies > 0.0) & ((copies < 1.0) | (moves.choices < 0))
    return float((mass[drawn] / copies[drawn]).max(initial=0.0))


def _entered(copies: Floats, moves: Moves, others: Floats, rng: np.random.Generator) -> _Entered:
    """The moves that are entered.

    One without a token of its own stands for the `others` of its node, of which as many are drawn
    as it is to give.
    """
    several = (moves.choices < 0) & (copies > 1.0)
    once = np.flatnonzero(~several & (copies > 0.0))
    once = once[systematic(np.minimum(copies[once], 1.0), rng)]
    single = once[moves.choices[once] >= 0]
    found = [(single, moves.choices[single], np.minimum(copies[single], 1.0))]
    whole = len(single) == np.count_nonzero(moves.choices >= 0)
    together = np.concatenate([once[moves.choices[once] < 0], np.flatnonzero(several)])
    whole &= len(together) == np.count_nonzero(moves.choices < 0)
    for child in together.tolist():
        shares = others[moves.above[child]]
        total = float(shares.sum())
        if total <= 0.0:  # what seemed to be left is rounding
            continue
        if several[child]:
            chances = _copies(shares, shares > 0.0, shares < 0.0, copies[child])
            picked = np.flatnonzero(systematic(chances, rng))
        else:
            chances = copies[child] * shares / total
            picked = np.array([int(rng.choice(len(shares), p=shares / total))])
        found.append((np.full(len(picked), child), picked, chances[picked]))
        whole &= bool((chances[shares > 0.0] >= 1.0).all())
    children, choices, entered = map(np.concatenate, zip(*found, strict=True))
    return _Entered(children, choices, entered, whole and bool((entered >= 1.0).all()))
