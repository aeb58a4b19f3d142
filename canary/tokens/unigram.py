"""Unigram models: the segmentation of a piece with the greatest sum of scores.

A token belongs to the best segmentation iff no way through tokens that lie across its
boundaries is better. So the state keeps, for each text before the last boundary with which
a longer token could begin, how good the best way to its beginning is, against the way that
was taken. Only those are kept with which some token could still win: else the way through
the boundary is as good. After most tokens few are left, and the states are hardly more than
the tokens.

Sums are compared with a margin far above their rounding, and a way is given up only if it
loses by more: of near ties all ways stay in, and leaves must be encoded again. So they must
be if there are too many states: further ones then forget what came before the last token,
and give up less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from canary.tokens.machines import NEVER, check_size

Ints = NDArray[np.int64]
Symbols = tuple[str, ...]
Rivals = frozenset[tuple[Symbols, float]]
"""Texts before the boundary, and how much better the best way to their beginning is."""

_MARGIN = 1e-6  # of scores; far above the rounding of a sum of a thousand
_DIGITS = 9  # to which scores of states are told apart
_MOST_STATES = 4_000


class UnigramMachine:
    """The best segmentations into `tokens`, and those within a margin of them.

    `tokens` are all that fit somewhere, each symbol of a text among them; `scores` are their
    log-probabilities. States are made when they are reached.
    """

    def __init__(self, tokens: Sequence[Symbols], scores: Mapping[Symbols, float]) -> None:
        check_size(len(tokens))
        self._tokens, self._scores = tokens, scores
        self._number = {token: k for k, token in enumerate(tokens)}
        self._longer: dict[Symbols, list[tuple[Symbols, float]]] = defaultdict(list)
        self._beginning: dict[Symbols, list[int]] = defaultdict(list)
        for k, token in enumerate(tokens):
            for end in range(1, len(token)):
                self._longer[token[:end]].append((token[end:], scores[token]))
            for end in range(1, len(token) + 1):
                self._beginning[token[:end]].append(k)
        self._best: dict[Symbols, float] = {}
        self._states: dict[Rivals, int] = {}
        self._queue: list[Rivals] = []
        self._rows: dict[int, NDArray[np.int32]] = {}
        self._usual: list[int] = []  # in place of new states, once there are too many
        for token in tokens:
            self._usual.append(self._after(token, {}, ()))
        self.start = np.array(self._usual, np.int32)

    def rows(self, states: Ints) -> tuple[NDArray[np.int32], Ints]:
        """See `canary.tokens.machines.Table`."""
        wanted, place = np.unique(states, return_inverse=True)
        for state in wanted.tolist():
            if state not in self._rows:
                self._rows[state] = self._row(self._queue[state])
        return np.stack([self._rows[state] for state in wanted.tolist()]), place.reshape(-1)

    def ends(self, states: Ints) -> NDArray[np.bool_]:
        """See `canary.tokens.machines.Table`."""
        return np.ones(len(states), np.bool_)

    def _row(self, rivals: Rivals) -> NDArray[np.int32]:
        """The states after each token; rivals change those that they reach into."""
        row = self.start.copy()
        reached: dict[int, dict[int, float]] = defaultdict(dict)
        beyond: dict[int, list[tuple[Symbols, float]]] = defaultdict(list)
        for text, ahead in rivals:
            for rest, score in self._winning(text, ahead):
                for number in self._beginning.get(rest, ()):
                    way = reached[number].get(len(rest), -np.inf)
                    reached[number][len(rest)] = max(way, ahead + score)
                for end in range(1, len(rest)):
                    number = self._number.get(rest[:end], NEVER)
                    if number != NEVER:
                        beyond[number].append((text + rest[:end], ahead))
        for number in reached.keys() | beyond.keys():
            if self._usual[number] != NEVER:
                token = self._tokens[number]
                row[number] = self._after(token, reached.get(number, {}), beyond.get(number, ()))
        return row

    def _after(
        self,
        token: Symbols,
        reached: Mapping[int, float],
        beyond: Iterable[tuple[Symbols, float]],
    ) -> int:
        """The state after `token`, or `NEVER` if another way to its end is better.

        `reached` are ways of rivals to places within it, `beyond` rivals that reach over all of it.
        """
        own, best = self._scores[token], self._ways(token, reached)
        if best[-1] > own + _MARGIN:
            return NEVER
        ahead: dict[Symbols, float] = {token[k:]: best[k] - own for k in range(len(token))}
        ahead |= {text: way - own for text, way in beyond}
        rivals = frozenset(
            (text, round(way, _DIGITS)) for text, way in ahead.items() if self._winning(text, way)
        )
        if rivals not in self._states:
            if len(self._queue) >= _MOST_STATES and len(self._usual) == len(self._tokens):
                return self._usual[self._number[token]]
            self._states[rivals] = len(self._queue)
            self._queue.append(rivals)
        return self._states[rivals]

    def _winning(self, text: Symbols, ahead: float) -> list[tuple[Symbols, float]]:
        """What would complete a token that begins with `text`, if that could be the best."""
        return [
            (rest, score)
            for rest, score in self._longer.get(text, ())
            if ahead + score >= self._best_alone(rest) - _MARGIN
        ]

    def _best_alone(self, text: Symbols) -> float:
        """The score of the best segmentation of `text` alone."""
        if text not in self._best:
            self._best[text] = self._ways(text, {})[-1]
        return self._best[text]

    def _ways(self, text: Symbols, reached: Mapping[int, float]) -> list[float]:
        """The best score up to each place of a text; some places are `reached` otherwise."""
        best = [0.0]
        for end in range(1, len(text) + 1):
            whole = (k for k in range(end) if text[k:end] in self._number)
            ways = [best[k] + self._scores[text[k:end]] for k in whole]
            best.append(max([reached.get(end, -np.inf), *ways]))
        return best
