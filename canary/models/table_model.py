"""A language model that is a table: for tests, teaching and exact arithmetic.

The model is a finite automaton over tokens with a next-token distribution at each state,
which is what n-gram models and explicit trees are. Its arithmetic has no noise.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import ModelError
from canary.models.answered import not_normalised
from canary.models.decoded_tokens import decoded_tokens
from canary.models.decoding import Decoded, Scheme
from canary.models.facts import ROUNDING_NATS, ModelFacts
from canary.models.language_model import Children, Context, FloatArray, Ints, Memory, Moments, Rows
from canary.models.state_cache import NONE, SlabWalker, Slots
from canary.tokens.tokenizer import Tokenizer


class TableModel:
    """Next-token distributions at the states of an automaton over tokens.

    Parameters
    ----------
    transitions : int array of shape (states, vocabulary)
        State after each token. State 0 is the state before any token.
    log_probs : float array of shape (states, vocabulary)
        Log-probability of each next token, in nats; minus infinity is allowed. The
        probabilities of a state sum to at most 1.
    tokenizer : Tokenizer
    name : str
        What to call the model in results.
    """

    def __init__(
        self,
        transitions: ArrayLike,
        log_probs: ArrayLike,
        tokenizer: Tokenizer,
        *,
        name: str = "table",
    ) -> None:
        self._transitions, self._log_probs = _tables(transitions, log_probs)
        self.tokenizer = tokenizer
        vocabulary = self._log_probs.shape[1]
        if vocabulary < tokenizer.size:
            problem = f"the table has {vocabulary} tokens, the tokenizer {tokenizer.size}"
            raise ModelError(problem, cure="give one column for each token")
        with np.errstate(over="ignore"):
            most = float(np.exp(self._log_probs).sum(axis=1, dtype=np.float64).max())
        if most > math.exp(ROUNDING_NATS):
            raise not_normalised(name, most)
        digest = hashlib.sha256()
        for array in (self._transitions, self._log_probs):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.data)
        self.facts = ModelFacts(
            name=name,
            vocabulary=vocabulary,
            length_limit=None,
            dtype="float32",
            attention="none",
            device="cpu",
            fingerprint=digest.hexdigest(),
            noise_bits_per_token=0.0,
            capabilities=("score", "expand", "reuse"),
        )

    @classmethod
    def ngram(
        cls,
        distributions: Mapping[Sequence[int], ArrayLike],
        tokenizer: Tokenizer,
        *,
        name: str = "n-gram",
    ) -> TableModel:
        """A model that looks up the longest end of the sequence that it knows.

        Parameters
        ----------
        distributions : mapping of token sequences to arrays of shape (vocabulary,)
            Log-probabilities, in nats, after a sequence that ends so; the empty sequence
            must be there. Full prefixes as keys make an explicit tree.

        Notes
        -----
        The states are those of the Aho-Corasick automaton [1]_ of the keys.

        References
        ----------
        .. [1] Aho and Corasick, Efficient string matching, CACM 18(6), 1975.
        """
        known = {tuple(key): np.asarray(value) for key, value in distributions.items()}
        if () not in known:
            cure = "give one for the empty sequence ()"
            raise ModelError("there is no distribution for unknown contexts", cure=cure)
        prefixes = {key[:length] for key in known for length in range(len(key) + 1)}
        states = {prefix: state for state, prefix in enumerate(sorted(prefixes, key=len))}
        below: dict[tuple[int, ...], dict[int, int]] = {prefix: {} for prefix in states}
        for prefix, state in states.items():
            if prefix:
                below[prefix[:-1]][prefix[-1]] = state
        vocabulary = len(known[()])
        transitions = np.zeros((len(states), vocabulary), np.int64)
        tables = np.empty((len(states), vocabulary), np.float32)
        shorter = np.zeros(len(states), np.int64)  # state of the longest proper end that is one
        for prefix, state in states.items():  # the shorter ones first, so their rows are there
            if len(prefix) > 1:
                shorter[state] = transitions[shorter[states[prefix[:-1]]], prefix[-1]]
            transitions[state] = transitions[shorter[state]]
            tables[state] = known.get(prefix, tables[shorter[state]])
            for token, target in below[prefix].items():
                transitions[state, token] = target
        return cls(transitions, tables, tokenizer, name=name)

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats."""
        return self._log_probs[self._walked(rows)]

    def moments(self, rows: Rows) -> Moments:
        """See `canary.models.language_model.TellsMoments`; each state must sum to 1."""
        states, tokens = self._walked(rows)
        table = self._log_probs.astype(np.float64)
        probs = np.exp(table)
        finite = np.where(probs > 0.0, table, 0.0)
        mean = (probs * finite).sum(axis=1)
        deviation = np.sqrt((probs * (finite - mean[:, None]) ** 2).sum(axis=1))
        of_tokens = (column[states].astype(np.float32) for column in (mean, deviation))
        return Moments(self._log_probs[states, tokens], *of_tokens)

    def decoded(self, rows: Rows, schemes: Sequence[Scheme]) -> Decoded:
        """See `canary.models.decoding.TellsDecoding`."""
        import torch

        states, tokens = self._walked(rows)
        logits = torch.from_numpy(self._log_probs[states])
        return decoded_tokens(logits, torch.from_numpy(tokens), schemes)

    def _walked(self, rows: Rows) -> tuple[Ints, Ints]:
        """The state before each scored token, and the token, flat."""
        lengths, begin = rows.lengths, rows.offsets[:-1]
        before, state = np.empty(len(rows.ids), np.int64), np.zeros(len(rows), np.int64)
        for at in range(int(lengths.max(initial=0))):
            here = np.flatnonzero(at < lengths)
            places = begin[here] + at
            before[places] = state[here]
            state[here] = self._transitions[state[here], rows.ids[places]]
        place_in_row = np.arange(len(rows.ids)) - np.repeat(begin, lengths)
        scored = place_in_row >= np.repeat(rows.start, lengths)
        return before[scored], np.asarray(rows.ids[scored], np.int64)

    def open(self, context: Context, *, memory_bytes: int) -> TableWalker:
        """A walker below `context` that holds states within `memory_bytes`."""
        capacity = memory_bytes // self.memory().bytes_per_held_token
        return TableWalker(self._transitions, self._log_probs, context, max(capacity, 4))

    def memory(self) -> Memory:
        """A gigabyte, and the size of a state: its number."""
        return Memory(2**30, 8 + Slots.BYTES)


@dataclass(frozen=True, eq=False)
class _AfterStates:
    """Rows of the table; see `canary.models.state_cache.NextTokens`."""

    log_probs: NDArray[np.float32]
    states: Ints

    def gather(self, rows: Ints, tokens: Ints) -> NDArray[np.float64]:
        return self.log_probs[self.states[rows], tokens].astype(np.float64)

    def children(self, rows: Ints | None, children: Children) -> FloatArray:
        return self.log_probs[children.index(self.states if rows is None else self.states[rows])]


class TableWalker(SlabWalker):
    """Holds the numbers of states."""

    def __init__(
        self, transitions: Ints, log_probs: NDArray[np.float32], context: Context, capacity: int
    ) -> None:
        self._transitions, self._log_probs = transitions, log_probs
        states = [0]
        for token in context.ids:
            states.append(int(transitions[states[-1], token]))
        self._root_state = states[-1]
        self._slabs = [np.zeros(capacity, np.int64)]
        super().__init__(
            capacity,
            chained=False,
            context_log_probs=log_probs[states[1:-1], context.ids[1:]],
            root=_AfterStates(log_probs, np.array([self._root_state])),
        )

    def _step(self, parents: Ints, depth: int, tokens: Ints, into: Ints) -> _AfterStates:
        (held,) = self._slabs
        before = np.where(parents == NONE, self._root_state, held[parents])
        states: Ints = self._transitions[before, tokens]
        held[into] = states[: len(into)]
        return _AfterStates(self._log_probs, states)


def _tables(transitions: ArrayLike, log_probs: ArrayLike) -> tuple[Ints, NDArray[np.float32]]:
    try:
        moves, table = np.asarray(transitions), np.asarray(log_probs)
        if moves.dtype.kind not in "iuf" or table.dtype.kind not in "iuf":
            raise TypeError(f"got the types {moves.dtype} and {table.dtype}")
        if not (np.isfinite(moves) & (moves == np.floor(moves))).all():
            raise ValueError("some transitions are no whole numbers")
        if moves.ndim != 2 or moves.shape != table.shape or not table.size:
            raise ValueError(f"got the shapes {moves.shape} and {table.shape}")
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(table, np.float32)
        if np.isnan(values).any() or (values == np.inf).any():
            raise ValueError("some log-probabilities are NaN or +infinity")
    except (TypeError, ValueError) as error:
        problem = f"a table model is integers and real numbers ({error})"
        raise ModelError(problem, cure="give both with the shape (states, vocabulary)") from error
    if ((moves < 0) | (moves >= len(moves))).any():
        raise ModelError("a transition leads to a state that is not there")
    return np.ascontiguousarray(moves, np.int64), values
