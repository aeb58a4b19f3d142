"""Tokenizers that change what they read: do different fills stay different?"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.formats.automaton import Automaton
from canary.formats.format import Format
from canary.tokens.candidates import CandidateEncoder


def check_kept_apart(format: Format, encoder: CandidateEncoder) -> None:
    """Refuse a format two of whose fills become one when the tokenizer replaces characters.

    A tokenizer that changes case or drops accents reads some characters as one another, each
    by itself. Which ones is asked of it, a text per character of the holes; whether two
    fills then read alike is decided exactly, whatever the size of the space.

    Raises
    ------
    ModelError
        If the tokenizer takes two fills for one.

    Notes
    -----
    A tokenizer of whole words does not know their characters. It cannot be asked so, and
    what it confuses is seen only where such fills are encoded together.

    O(edges) where each character stays itself. Else also one step per pair of states of the
    format's automaton that texts which read alike lead to.
    """
    characters = sorted(set(format.automaton.chars))
    try:
        encodings = encoder.encode([f"{format.prefix}{c}{format.suffix}" for c in characters])
    except ModelError:
        return
    numbers: dict[tuple[int, ...], int] = {}
    class_of = {
        c: numbers.setdefault(e.ids, len(numbers))
        for c, e in zip(characters, encodings, strict=True)
    }
    if len(numbers) < len(characters) and _two_read_alike(format.automaton, class_of):
        raise encoder.same_tokens(format)


def _two_read_alike(automaton: Automaton, class_of: dict[str, int]) -> bool:
    """Whether two different texts are the same sequence of classes of characters."""
    classes = np.array([class_of[c] for c in automaton.chars], np.int64)
    sources = np.repeat(np.arange(len(automaton.counts)), np.diff(automaton.offsets))
    order = np.lexsort((classes, sources))
    twins = (np.diff(sources[order]) == 0) & (np.diff(classes[order]) == 0)
    # Where two such texts part for the first time, edges of one class leave one state.
    parting = np.unique(sources[order][1:][twins])
    pairs = {
        pair for state in parting.tolist() for pair in _steps(automaton, classes, state, state)
    }
    waiting = list(pairs)
    while waiting:
        one, other = waiting.pop()
        if one == other or (automaton.final[one] and automaton.final[other]):
            return True
        new = _steps(automaton, classes, one, other) - pairs
        pairs |= new
        waiting += new
    return False


def _steps(
    automaton: Automaton, classes: NDArray[np.int64], one: int, other: int
) -> set[tuple[int, int]]:
    """Pairs of targets of different edges of one class, one from each of two states."""
    edges_of: dict[int, list[int]] = defaultdict(list)
    for edge in range(int(automaton.offsets[other]), int(automaton.offsets[other + 1])):
        edges_of[int(classes[edge])].append(edge)
    return {
        (int(automaton.targets[edge]), int(automaton.targets[twin]))
        for edge in range(int(automaton.offsets[one]), int(automaton.offsets[one + 1]))
        for twin in edges_of[int(classes[edge])]
        if edge != twin
    }
