"""Automata of alphabets, lists of texts and checksums, and how they are put together.

Registered kinds of holes are built of them, too. Where a text can be read in several ways, as
in patterns and at some seams of holes, `Nfa` and `determinize` resolve it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.errors import FormatError
from canary.formats.automaton import (
    MAX_ALL_EDGES,
    MAX_EDGES,
    Automaton,
    Meter,
    check_size,
    minimal,
    too_large,
)
from canary.formats.syntax import SURROGATE
from canary.records.validation import brief

S = TypeVar("S", bound=Hashable)


def repeated(alphabet: str, count: int) -> Automaton:
    """The texts of `count` characters of `alphabet`.

    Parameters
    ----------
    alphabet : str
    count : int

    Raises
    ------
    FormatError
        If that takes more than 500,000 edges or makes more than 2^4096 texts.

    Examples
    --------
    >>> from canary.formats.building import repeated
    >>> repeated("ACGT", 12).size
    16777216
    """
    chars = set(alphabet)
    if len(chars) * count > MAX_EDGES:
        raise too_large()
    check_size(len(chars) ** count)
    return minimal(
        (left, left == 0, [(char, left - 1) for char in chars] if left else [])
        for left in range(count + 1)
    )


def literal(text: str) -> Automaton:
    """One text alone.

    Examples
    --------
    >>> from canary.formats.building import concatenate, literal, repeated
    >>> concatenate([literal("A-"), repeated("0123456789", 2)]).unrank(7)
    'A-07'
    """
    last = len(text)
    return minimal(
        (at, at == last, [(text[at], at + 1)] if at < last else []) for at in range(last, -1, -1)
    )


def from_texts(texts: Iterable[str]) -> Automaton:
    """The texts of a list.

    Parameters
    ----------
    texts : iterable of str
        Different texts, in any order.

    Raises
    ------
    FormatError
        If there is none, one cannot be written as UTF-8, is empty or repeated, or if the
        automaton has more than 8,000,000 edges.

    Notes
    -----
    The automaton is built minimal from the sorted list [1]_: 2 seconds for 267,735 words.

    References
    ----------
    .. [1] Daciuk, Mihov, Watson and Watson, Incremental construction of minimal acyclic
       finite-state automata, Computational Linguistics 26(1), 2000.
    """
    ordered = sorted(_check_texts(texts))
    # Of each state on the path of the last text: whether it is final, and its edges, of
    # which the last still waits for its target.
    path: list[tuple[bool, list[tuple[str, int]]]] = [(False, [])]
    register: dict[tuple[bool, tuple[tuple[str, int], ...]], int] = {}
    states: list[tuple[int, bool, tuple[tuple[str, int], ...]]] = []
    previous, edges = "", 0

    def close(length: int) -> None:
        nonlocal edges
        for depth in range(len(path) - 1, length, -1):
            final, row = path.pop()
            key = (final, tuple(row))
            state = register.setdefault(key, len(register))
            if state == len(states):
                states.append((state, *key))
                edges += len(row)
                if edges > MAX_ALL_EDGES:
                    raise too_large(MAX_ALL_EDGES)
            path[-1][1].append((previous[depth - 1], state))

    for text in ordered:
        common = next((i for i, c in enumerate(previous) if text[i : i + 1] != c), len(previous))
        close(common)
        path.extend((False, []) for _ in text[common:])
        path[-1] = (True, path[-1][1])
        previous = text
    close(0)
    final, row = path[0]
    return minimal([*states, (len(states), final, row)])


def concatenate(parts: Sequence[Automaton]) -> Automaton:
    """The texts that are one text of each part, one after the other.

    Parameters
    ----------
    parts : sequence of Automaton

    Raises
    ------
    FormatError
        If that takes more than 8,000,000 edges, or more than 500,000 where it
        cannot be seen from the next character whether a part has ended, or if there are
        more than 2^4096 texts.
    """
    if not parts:
        return literal("")
    if len(parts) == 1:
        return parts[0]
    # Halves first: as many copies of each part as the logarithm of their number.
    middle = len(parts) // 2
    first, second = concatenate(parts[:middle]), concatenate(parts[middle:])
    inner = first.final & (np.diff(first.offsets) > 0)
    leaving = first.codes[np.repeat(inner, np.diff(first.offsets))]
    if np.isin(second.codes[: second.offsets[1]], leaving).any():
        nfa = Nfa()
        end = nfa.graft(nfa.graft(0, first), second)
        return determinize(nfa, end)
    return _splice(first, second, np.flatnonzero(inner))


def any_of(parts: Sequence[Automaton]) -> Automaton:
    """The texts of all parts.

    Parameters
    ----------
    parts : sequence of Automaton
        A text that several of them have counts once.

    Raises
    ------
    FormatError
        If that takes more than 500,000 edges.

    Examples
    --------
    >>> from canary.formats.building import any_of, literal, repeated
    >>> any_of([literal("none"), repeated("01", 4)]).size
    17
    """
    nfa = Nfa()
    end = nfa.join([nfa.graft(0, part) for part in parts])
    return determinize(nfa, end)


def checked(
    automaton: Automaton,
    start: S,
    step: Callable[[S, str], S | None],
    accept: Callable[[S], bool],
) -> Automaton:
    """The texts whose checksum holds.

    Parameters
    ----------
    automaton : Automaton
        Its texts are read character by character.
    start : hashable
        The state before the first character.
    step : callable
        From a state and a character to the next state; None if no such text is kept.
    accept : callable
        Whether a text that ends in a state is kept.

    Raises
    ------
    FormatError
        If it takes more than a million steps, or no text is kept.

    Examples
    --------
    Three digits whose sum is a multiple of ten:

    >>> from canary.formats.building import checked, repeated
    >>> digits = repeated("0123456789", 3)
    >>> sums = checked(digits, 0, lambda total, c: (total + int(c)) % 10, lambda t: t == 0)
    >>> sums.size, sums.unrank(1)
    (100, '019')
    """
    found: dict[tuple[int, S], list[tuple[str, tuple[int, S]]]] = {}
    pending = [(0, start)]
    meter = Meter()
    while pending:
        name = pending.pop()
        if name in found:
            continue
        state, sums = name
        begin, stop = automaton.offsets[state : state + 2].tolist()
        meter.spend(stop - begin)
        edges = found[name] = []
        targets = automaton.targets[begin:stop].tolist()
        for char, target in zip(automaton.chars[begin:stop], targets, strict=True):
            following = step(sums, char)
            if following is not None:
                edges.append((char, (target, following)))
                pending.append((target, following))
    return minimal(
        (name, bool(automaton.final[name[0]]) and accept(name[1]), found[name])
        for name in sorted(found, key=lambda name: -name[0])
    )


def _splice(first: Automaton, second: Automaton, inner: NDArray[np.int64]) -> Automaton:
    """`second` after `first`, where the next character tells whether `first` has ended.

    The result is minimal if both are. Two states of `first` do not become equal: take the
    longest text that one accepts and the other does not, and the longest of `second`
    after it; the other state could only read both by a longer text of `first`, so that a
    final state would go on with a character that begins a text of `second`.

    `inner` are the final states of `first` that have edges; they take on those of the start of
    `second`. The last state of `first`, which has none, becomes that start.
    """
    check_size(first.size * second.size)
    shift = len(first.counts) - 1
    opening = int(second.offsets[1])
    edges = len(first.chars) + len(inner) * opening + len(second.chars)
    if edges > MAX_ALL_EDGES:
        raise too_large(MAX_ALL_EDGES)
    sources = np.concatenate(
        [np.repeat(np.arange(shift + 1), np.diff(first.offsets)), np.repeat(inner, opening)]
    )
    codes = np.concatenate([first.codes, np.tile(second.codes[:opening], len(inner))])
    targets = np.concatenate([first.targets, np.tile(second.targets[:opening] + shift, len(inner))])
    order = np.lexsort((codes, sources))
    degrees = np.bincount(sources, minlength=shift)[:shift]
    final = first.final[:shift].copy()
    final[inner] = second.final[0]
    return Automaton(
        offsets=np.cumsum(np.concatenate([[0], degrees, np.diff(second.offsets)]), dtype=np.int64),
        chars=(*map(chr, codes[order].tolist()), *second.chars),
        targets=np.concatenate([targets[order], second.targets + shift]).astype(np.int32),
        final=np.concatenate([final, second.final]),
        counts=(*(count * second.size for count in first.counts[:shift]), *second.counts),
    )


def _check_texts(texts: Iterable[str]) -> set[str]:
    if isinstance(texts, str):
        raise FormatError("a list of texts is one text", cure="give them in a list")
    seen: set[str] = set()
    for number, text in enumerate(texts, start=1):
        problem = cure = ""
        if not isinstance(text, str):
            problem, cure = f"is of type {type(text).__name__}", "give text only"
        elif not text:
            problem, cure = "is empty", "give each at least one character"
        elif SURROGATE.search(text):
            problem = "holds half a surrogate pair, which is no character"
            cure = "write the whole character"
        if problem:
            raise FormatError(f"text {number} of the list {problem}", cure=cure)
        if text in seen:
            raise FormatError(f"{brief(text)} is listed twice", cure="name each once")
        seen.add(text)
    if not seen:
        raise FormatError("a list of texts is empty", cure="give at least one")
    return seen


class Nfa:
    """An acyclic nondeterministic automaton under construction; state 0 is the start.

    Every edge leads to a state that is added later than its source, so there can be no
    cycle. A FormatError comes once there are more than `MAX_EDGES` edges.

    Attributes
    ----------
    edges : list of list of (str, int)
        Of each state: the characters that may be read, and the state they lead to.
    skips : list of list of int
        Of each state: the states that are reached without reading.
    """

    def __init__(self) -> None:
        self.edges: list[list[tuple[str, int]]] = [[]]
        self.skips: list[list[int]] = [[]]
        self._meter = Meter(MAX_EDGES)

    def step(self, source: int, chars: str) -> int:
        """Add the state that is reached from `source` by any one of `chars`."""
        self._meter.spend(max(1, len(chars)))
        target = self._add()
        self.edges[source].append((chars, target))
        return target

    def join(self, sources: Sequence[int]) -> int:
        """Add one state in which all `sources` end without reading further."""
        self._meter.spend(len(sources))
        target = self._add()
        for source in sources:
            self.skips[source].append(target)
        return target

    def graft(self, source: int, automaton: Automaton) -> int:
        """Add a deterministic automaton after `source`, and return the state of its ends."""
        self._meter.spend(len(automaton.chars))
        base = len(self.edges)
        for _ in automaton.counts:
            self._add()
        self.skips[source].append(base)
        offsets, targets = automaton.offsets.tolist(), automaton.targets.tolist()
        for state in range(len(automaton.counts)):
            self.edges[base + state] = [
                (automaton.chars[edge], base + targets[edge])
                for edge in range(offsets[state], offsets[state + 1])
            ]
        return self.join([base + int(state) for state in automaton.final.nonzero()[0]])

    def _add(self) -> int:
        self.edges.append([])
        self.skips.append([])
        return len(self.edges) - 1


def determinize(nfa: Nfa, end: int) -> Automaton:
    """The minimal deterministic automaton of the texts that lead from state 0 to `end`.

    A text that `nfa` can read in several ways is one text here.

    Raises
    ------
    FormatError
        If it takes more than a million steps, if there are more than 2^4096 texts, or none.
    """
    meter = Meter()
    # Which characters lead from which set of states to which.
    moves: dict[frozenset[int], dict[str, frozenset[int]]] = {}
    pending = [_closure(nfa, end, frozenset({0}), meter)]
    while pending:
        subset = pending.pop()
        if subset in moves:
            continue
        reached: dict[str, set[int]] = {}
        for state in subset:
            for chars, target in nfa.edges[state]:
                meter.spend(len(chars))
                for char in chars:
                    reached.setdefault(char, set()).add(target)
        # Characters that lead to the same states need their closure once.
        following = {char: frozenset(targets) for char, targets in reached.items()}
        closures = {some: _closure(nfa, end, some, meter) for some in {*following.values()}}
        moves[subset] = {c: closures[some] for c, some in following.items() if closures[some]}
        pending.extend(filter(None, closures.values()))
    # An edge leads to a subset with a greater minimum, so this order sees targets first.
    return minimal(
        (subset, end in subset, moves[subset].items())
        for subset in sorted(moves, key=min, reverse=True)
    )


def _closure(nfa: Nfa, end: int, states: frozenset[int], meter: Meter) -> frozenset[int]:
    """`states` and what they reach without reading, as far as it matters what comes next."""
    found = set(states)
    pending = list(states)
    while pending:
        for target in nfa.skips[pending.pop()]:
            if target not in found:
                found.add(target)
                pending.append(target)
    meter.spend(len(found))
    return frozenset(state for state in found if nfa.edges[state] or state == end)
