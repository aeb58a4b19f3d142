"""The tree of a tokenizer that seems to give each character of a fill a token of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from canary.formats.format import Format
from canary.tokens.arrays import NOT_CERTIFIED, TokenTree, compress
from canary.tokens.readers import CharacterReader
from canary.tokens.token_graph import TokenGraph, exact_counts
from canary.tokens.tokenizer import Encoding

__all__ = ["character_tree"]

Row = tuple[int, ...]


def character_tree(
    format: Format, fills: Sequence[str], encodings: Sequence[Encoding]
) -> TokenTree | None:
    """The format's automaton with token ids on its edges, as far as some fills tell.

    None if their encodings say otherwise: a character is no token by itself or not always
    the same one, what stands around the fills differs, or a character does not occur.
    """
    if not format.automaton.prefix_free:
        return None
    parts = [_split(format, f, e) for f, e in zip(fills, encodings, strict=True)]
    head: Row = ()
    tail: Row = ()
    ids: dict[str, int] = {}
    for fill, part in zip(fills, parts, strict=True):
        if part is None or len(part[1]) != len(fill):
            return None
        if not ids:
            head, tail = part[0], part[2]
        if (part[0], part[2]) != (head, tail):
            return None
        if any(ids.setdefault(c, t) != t for c, t in zip(fill, part[1], strict=True)):
            return None
    if len(set(ids.values())) < len(ids) or set(format.automaton.chars) - ids.keys():
        return None
    return compress(
        _graph(format, ids),
        head,
        tail,
        canonical=True,
        certificate=f"{NOT_CERTIFIED}: one token per character, sampled on {len(fills)} fills",
        reader=CharacterReader({t: c for c, t in ids.items()}, len(head), len(tail)),
    )


def _split(format: Format, fill: str, encoding: Encoding) -> tuple[Row, Row, Row] | None:
    """Tokens before the fill, of the fill and after it, if each of its characters is one."""
    if encoding.spans is None:
        return None
    start, stop = len(format.prefix), len(format.prefix) + len(fill)
    inside = [i for i, (a, b) in enumerate(encoding.spans) if a < stop and b > start and a < b]
    exact = [encoding.spans[i] for i in inside] == [(k, k + 1) for k in range(start, stop)]
    if not exact or inside != list(range(inside[0], inside[0] + len(inside))):
        return None
    ids = encoding.ids
    return ids[: inside[0]], ids[inside[0] : inside[-1] + 1], ids[inside[-1] + 1 :]


def _graph(format: Format, ids: dict[str, int]) -> TokenGraph:
    """The automaton's edges by token; its states are numbered from the end."""
    automaton = format.automaton
    last = len(automaton.counts) - 1
    sources = last - np.repeat(np.arange(last + 1), np.diff(automaton.offsets))
    order = np.argsort(sources, kind="stable")
    tokens = np.array([ids[c] for c in automaton.chars], np.int64)
    return TokenGraph(
        last,
        sources[order].astype(np.int64),
        tokens[order],
        (last - automaton.targets.astype(np.int64))[order],
        exact_counts(automaton.counts[::-1]),
    )
