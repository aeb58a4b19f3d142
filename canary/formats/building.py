"""Automata of alphabets, lists of texts and checksums, and how they are put together.

What registered kinds of holes are built of, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.errors import FormatError
from canary.formats.automaton import Automaton, minimal
from canary.formats.limits import MAX_ALL_EDGES, MAX_EDGES, Meter, check_size, too_large
from canary.formats.nfa import Nfa, determinize

_SURROGATE = re.compile("[\ud800-\udfff]")

S = TypeVar("S", bound=Hashable)


def repeated(alphabet: str, count: int) -> Automaton:
    """The texts of `count` characters of `alphabet`.

    Raises
    ------
    FormatError
        If that takes more than 500,000 edges or makes more than 2^4096 texts.
    """
    chars = sorted(set(alphabet))
    width = len(chars)
    if width * count > MAX_EDGES:
        raise too_large()
    check_size(width**count)
    return Automaton(
        offsets=np.append(np.arange(count + 1) * width, width * count).astype(np.int64),
        chars=tuple(chars) * count,
        targets=np.repeat(np.arange(1, count + 1), width).astype(np.int32),
        final=np.arange(count + 1) == count,
        counts=tuple(width**left for left in range(count, -1, -1)),
    )


def literal(text: str) -> Automaton:
    """One text alone."""
    states = np.arange(len(text) + 1)
    return Automaton(
        offsets=np.append(states, len(text)).astype(np.int64),
        chars=tuple(text),
        targets=states[1:].astype(np.int32),
        final=states == len(text),
        counts=(1,) * len(states),
    )


def from_texts(texts: Iterable[str]) -> Automaton:
    """The texts of a list.

    Parameters
    ----------
    texts : iterable of str
        At least one, none of them empty.

    Raises
    ------
    FormatError
        If one is no text that can be written as UTF-8, is empty or stands twice, or if the
        automaton has more than 8,000,000 edges.

    Notes
    -----
    The automaton is built minimal from the sorted list, one text after the other [1]_:
    some 2 seconds and no more than the result's memory for 267,735 words.

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
            state = register.get(key)
            if state is None:
                state = register[key] = len(register)
                states.append((state, *key))
                edges += len(row)
                if edges > MAX_ALL_EDGES:
                    raise too_large(MAX_ALL_EDGES)
            path[-1][1].append((previous[depth - 1], state))

    for text in ordered:
        common = 0
        for a, b in zip(previous, text, strict=False):
            if a != b:
                break
            common += 1
        close(common)
        path.extend((False, []) for _ in text[common:])
        path[-1] = (True, path[-1][1])
        previous = text
    close(0)
    final, row = path[0]
    return minimal([*states, (len(states), final, row)])


def concatenate(parts: Sequence[Automaton]) -> Automaton:
    """The texts that are one text of each part, one after the other.

    Raises
    ------
    FormatError
        If that takes more than 8,000,000 edges, or more than 500,000 where it
        cannot be told from the next character whether a part has ended, or if there are
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

    Raises
    ------
    FormatError
        If that takes more than 500,000 edges.
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

    A checksum is just more states: a text is read character by character from `start`, and
    is kept if it ends in a state that `accept` accepts.

    Parameters
    ----------
    automaton : Automaton
        The texts without the checksum.
    start : hashable
        The state of the checksum before the first character.
    step : callable
        ``step(state, char)`` is the state after `char`, None if no such text is kept.
    accept : callable
        ``accept(state)`` says whether a text may end there.

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
        a, b = automaton.offsets[state : state + 2]
        meter.spend(int(b - a))
        edges = found[name] = []
        for char, target in zip(automaton.chars[a:b], automaton.targets[a:b].tolist(), strict=True):
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

    Parameters
    ----------
    inner : int64 array
        The final states of `first` that have edges; they take on those of the start of
        `second`. Its last state, which has none, becomes that start.
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
        if not isinstance(text, str):
            raise FormatError(
                f"text {number} of the list is of type {type(text).__name__}",
                cure="give text only",
            )
        if not text:
            raise FormatError(
                f"text {number} of the list is empty", cure="give each at least one character"
            )
        if _SURROGATE.search(text):
            raise FormatError(
                f"text {number} of the list holds half a surrogate pair, which is no character",
                cure="write the whole character",
            )
        if text in seen:
            shown = repr(text if len(text) <= 20 else text[:19] + "…")
            raise FormatError(f"{shown} stands twice in the list", cure="name each text once")
        seen.add(text)
    if not seen:
        raise FormatError("a list of texts is empty", cure="give at least one")
    return seen
