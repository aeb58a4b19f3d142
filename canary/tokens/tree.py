"""The tree of token choices that a format becomes under a tokenizer.

This version compiles the tokenizers that give each character of the fill a token of its
own: character-level ones, and those that split digits. There the tree is the format's
character automaton with token ids on its edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.errors import FormatError, UnsupportedError
from canary.formats.format import Format
from canary.tokens.base import Encoding
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import FastTokenizer

__all__ = ["LEAF", "TokenTree", "compile_tree"]

LEAF = -1
"""Target of an edge below which there is nothing more to choose or to price."""

CHECKED_FILLS = 1_000


@dataclass(frozen=True, eq=False)
class TokenTree:
    """Branching states, and edges between them, in compressed arrays.

    An edge is one token choice, followed by the tokens that are then forced. An edge to
    `LEAF` has no forced tokens: a fixed end is priced below a state of its own.

    Parameters
    ----------
    context : int32 array of shape (p,)
        Tokens before the first one that depends on the fill.
    offsets : int64 array of shape (states + 1,)
        State ``s`` has the edges ``offsets[s]:offsets[s + 1]``; state 0 is the root.
    tokens : int32 array of shape (edges,)
    targets : int32 array of shape (edges,)
        The state below, or `LEAF`.
    forced : int32 array
        Forced tokens of all edges, end to end.
    forced_offsets : int64 array of shape (edges + 1,)
    first_leaf : int64 array of shape (edges,)
        Leaves below the state's earlier edges: a leaf's index in the format is the sum
        of this along its path.
    leaves : int64 array of shape (states,)
        Leaves below each state.
    certificate : str
        How it is known that the leaves are the canonical tokenizations of all fills,
        each once.
    """

    context: NDArray[np.int32]
    offsets: NDArray[np.int64]
    tokens: NDArray[np.int32]
    targets: NDArray[np.int32]
    forced: NDArray[np.int32]
    forced_offsets: NDArray[np.int64]
    first_leaf: NDArray[np.int64]
    leaves: NDArray[np.int64]
    certificate: str

    @property
    def size(self) -> int:
        """Number of leaves."""
        return int(self.leaves[0])

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of edges of each state."""
        return np.diff(self.offsets)

    def queries(self) -> int:
        """Tokens that a model must compute below the context to price every leaf.

        One per inner node and forced token; the root costs nothing.
        """
        below = [0] * len(self.leaves)
        # Every state but the root and the fixed ends branches, so leaves grow strictly
        # from a target to its source.
        for state in (*np.argsort(self.leaves[1:], kind="stable") + 1, 0):
            for edge in range(int(self.offsets[state]), int(self.offsets[state + 1])):
                target = int(self.targets[edge])
                if target != LEAF:
                    forced = int(self.forced_offsets[edge + 1] - self.forced_offsets[edge])
                    below[state] += 1 + forced + below[target]
        return below[0]


def compile_tree(
    format: Format, encoder: CandidateEncoder, *, among: Sequence[str] = ()
) -> TokenTree:
    """The tree of `format` under the tokenizer of `encoder`.

    Where not every fill is encoded, those in `among` are checked besides random ones.

    Raises
    ------
    FormatError
        If the format is not prefix-free: then one candidate continues another, and rank
        means nothing.
    UnsupportedError
        If the tokenizer joins or splits characters of the fill, or the space has 2^63
        candidates or more.
    """
    if not format.prefix_free:
        raise FormatError(
            f"{format.masked!r} is not prefix-free: some candidates continue others",
            cure="put fixed text that no fill can contain after the last hole",
        )
    if not format.automaton.prefix_free:
        raise UnsupportedError(
            f"the fills of {format.masked!r} vary in length and continue each other, which "
            "only the text after the last hole tells apart",
            cure="use uniform draws (--method sampling)",
        )
    if format.size >= 2**63:
        raise UnsupportedError(
            f"a space of 2^{format.bits:.0f} candidates cannot be walked leaf by leaf",
            cure="use uniform draws (--method sampling)",
        )
    head, tail, ids = _character_tokens(format, encoder, among)
    return _compress(format, head, tail, ids, _certificate(format, encoder))


def _character_tokens(
    format: Format, encoder: CandidateEncoder, among: Sequence[str]
) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]:
    """Tokens before the fill, after it, and of each character within it.

    Read off the encodings of fills that together show every character at every place
    where random fills put it, and checked on all of them.
    """
    rng = np.random.default_rng(0)
    if format.size <= CHECKED_FILLS:
        fills = list(format)
    else:
        fills = [*format.sample(CHECKED_FILLS, rng=rng), *among]
    parts = [
        _split(format, fill, encoding)
        for fill, encoding in zip(fills, encoder.candidates(format, fills), strict=True)
    ]
    head, _, tail = parts[0]
    ids: dict[str, int] = {}
    for fill, (this_head, middle, this_tail) in zip(fills, parts, strict=True):
        agree = this_head == head and this_tail == tail and len(middle) == len(fill)
        if not agree or any(ids.setdefault(c, t) != t for c, t in zip(fill, middle, strict=True)):
            raise _not_by_character(format)
    if len(set(ids.values())) < len(ids) or set(format.automaton.chars) - ids.keys():
        raise _not_by_character(format)
    return head, tail, ids


def _split(
    format: Format, fill: str, encoding: Encoding
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    if encoding.spans is None:
        raise UnsupportedError(
            "this tokenizer cannot tell which characters a token stands for",
            cure="use a fast tokenizer, or uniform draws (--method sampling)",
        )
    start, stop = len(format.prefix), len(format.prefix) + len(fill)
    inside = [i for i, (a, b) in enumerate(encoding.spans) if a < stop and b > start and a < b]
    exact = [encoding.spans[i] for i in inside] == [(k, k + 1) for k in range(start, stop)]
    if not exact or inside != list(range(inside[0], inside[0] + len(inside))):
        raise _not_by_character(format)
    ids = encoding.ids
    return ids[: inside[0]], ids[inside[0] : inside[-1] + 1], ids[inside[-1] + 1 :]


def _not_by_character(format: Format) -> UnsupportedError:
    return UnsupportedError(
        f"this tokenizer does not give each character of the fill of {format.masked!r} "
        "a token of its own, so its candidates cannot be enumerated as a tree",
        cure="use uniform draws (--method sampling)",
    )


def _certificate(format: Format, encoder: CandidateEncoder) -> str:
    tokenizer = encoder.tokenizer
    if isinstance(tokenizer, FastTokenizer) and tokenizer.single_characters(
        format.alphabet | set(encoder.context)
    ):
        return "certified: one token per character by construction of the tokenizer"
    if format.size <= CHECKED_FILLS:
        return f"certified: all {format.size} fills were encoded"
    return f"not certified: one token per character, sampled on {CHECKED_FILLS} fills"


def _compress(
    format: Format,
    head: tuple[int, ...],
    tail: tuple[int, ...],
    ids: dict[str, int],
    certificate: str,
) -> TokenTree:
    automaton = format.automaton
    token_of = [ids[c] for c in automaton.chars]
    numbers = {0: 0}  # automaton state -> tree state, in order of discovery
    ends: dict[int, int] = {}  # last fixed token -> the state that prices it
    queue: list[tuple[str, int]] = [("inner", 0)]
    offsets, tokens, targets, first_leaf, below = [0], [], [], [], []
    forced: list[int] = []
    forced_offsets = [0]

    def number(kind: str, key: int) -> int:
        known = numbers if kind == "inner" else ends
        if key not in known:
            known[key] = len(queue)
            queue.append((kind, key))
        return known[key]

    for kind, key in queue:  # grows while it is read
        if kind == "end":
            tokens.append(key)
            targets.append(LEAF)
            first_leaf.append(0)
            forced_offsets.append(len(forced))
            offsets.append(len(tokens))
            below.append(1)
            continue
        leaves = 0
        for edge in range(int(automaton.offsets[key]), int(automaton.offsets[key + 1])):
            state = int(automaton.targets[edge])
            chain = []
            while not automaton.final[state] and _degree(automaton.offsets, state) == 1:
                only = int(automaton.offsets[state])
                chain.append(token_of[only])
                state = int(automaton.targets[only])
            tokens.append(token_of[edge])
            first_leaf.append(leaves)
            leaves += automaton.counts[state]
            if automaton.final[state]:
                chain.extend(tail)
                targets.append(number("end", chain.pop()) if chain else LEAF)
            else:
                targets.append(number("inner", state))
            forced.extend(chain)
            forced_offsets.append(len(forced))
        offsets.append(len(tokens))
        below.append(leaves)
    return TokenTree(
        context=np.array(head, np.int32),
        offsets=np.array(offsets, np.int64),
        tokens=np.array(tokens, np.int32),
        targets=np.array(targets, np.int32),
        forced=np.array(forced, np.int32),
        forced_offsets=np.array(forced_offsets, np.int64),
        first_leaf=np.array(first_leaf, np.int64),
        leaves=np.array(below, np.int64),
        certificate=certificate,
    )


def _degree(offsets: NDArray[np.int64], state: int) -> int:
    return int(offsets[state + 1] - offsets[state])
