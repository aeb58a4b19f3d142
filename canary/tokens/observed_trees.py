"""Trees from encodings alone, whatever the tokenizer: of a list, or of one token a character."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from canary.errors import UnsupportedError
from canary.formats.format import Format
from canary.tokens.arrays import NOT_CERTIFIED, TokenTree, compress
from canary.tokens.token_graph import TokenGraph, exact_counts, graph_of
from canary.tokens.tokenizer import Encoding

Row = tuple[int, ...]


def list_tree(rows: Sequence[Sequence[int]], fills: Sequence[str]) -> TokenTree:
    """The tree whose leaves are the encodings `rows` of all `fills`.

    Raises
    ------
    UnsupportedError
        If one row continues another.
    """
    order = sorted(range(len(rows)), key=lambda k: tuple(rows[k]))
    ordered = [rows[k] for k in order]
    if any(tuple(b[: len(a)]) == tuple(a) for a, b in pairwise(ordered)):
        raise UnsupportedError(
            "the tokens of some candidates continue those of others",
            cure="put fixed text that no fill can contain after the last hole",
        )
    # What the first and the last share, all share: the rows ascend.
    first, last = ordered[0], ordered[-1]
    head = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)

    def moves(part: tuple[int, int, int]) -> dict[int, tuple[int, int, int]]:
        """By each next token of the rows ``low:high``: those with it, one token further."""
        low, high, depth = part
        found: dict[int, tuple[int, int, int]] = {}
        while low < high and depth < len(ordered[low]):
            token = ordered[low][depth]
            stop = bisect_right(ordered, token, low, high, key=lambda row: row[depth])
            found[token] = (low, stop, depth + 1)
            low = stop
        return found

    listed = [fills[k] for k in order]
    return compress(
        graph_of((0, len(rows), head), moves),
        first[:head],
        (),
        canonical=True,
        certificate=f"certified: all {len(rows):,} fills were encoded",
        texts_of=lambda _rows, numbers: [(listed[number],) for number in numbers.tolist()],
    )


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
    letters, before, after = {t: c for c, t in ids.items()}, len(head), len(tail)
    return compress(
        _graph(format, ids),
        head,
        tail,
        canonical=True,
        certificate=f"{NOT_CERTIFIED}: one token per character, sampled on {len(fills)} fills",
        texts_of=lambda rows, _numbers: [
            ("".join(letters[t] for t in row[before : len(row) - after]),) for row in rows
        ],
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
