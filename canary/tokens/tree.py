"""The tree of token choices that a format becomes under a tokenizer.

Its leaves are the canonical tokenizations of all candidates: what the training pipeline
would have made of each whole string. It is made in one of three ways:

1. by the rules of the tokenizer, read from its description: the format's automaton, cut as
   the pre-tokenizer cuts, times the tokens that may follow each other;
2. where the rules cannot be followed, from the encodings of all fills of a small space;
3. where neither can be done but each character seems to be one token, from the automaton
   with token ids on its edges, not certified; never where the rules tell of a text that is
   unlike the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError, UnsupportedError
from canary.formats.building import concatenate, literal
from canary.formats.format import Format
from canary.tokens.arrays import (
    MISSING,
    NOT_CERTIFIED,
    TokenGraph,
    TokenTree,
    compress,
    exact_counts,
)
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import FastTokenizer
from canary.tokens.machines import bpe_machine, word_machine, wordpiece_machine
from canary.tokens.pattern import OddTextError, UnknownRuleError
from canary.tokens.rules import Symbols, read_rules
from canary.tokens.textgraph import TextGraph
from canary.tokens.token_lattice import Machine, graph_of, spellings, token_graph
from canary.tokens.tokenizer import Encoding
from canary.tokens.unigram import UnigramMachine

CHECKED_FILLS = 1_000
LISTED_FILLS = 100_000
LARGEST = 2**1000

Row = tuple[int, ...]

# Of the context, only the last tokens are encoded again for each fill: so many, or some more.
_NEAREST, _FARTHEST = 4, 48


def compile_tree(
    format: Format, encoder: CandidateEncoder, *, among: Sequence[str] = ()
) -> TokenTree:
    """The tree of `format` under the tokenizer of `encoder`.

    The encodings of 1,000 random fills and of those in `among` are looked up in it.

    Raises
    ------
    FormatError
        If the format is not prefix-free: then one candidate continues another, and rank
        means nothing.
    ModelError
        If the tokenizer cannot represent the format, or gives two fills the same tokens.
    UnsupportedError
        If the tokenizer's rules cannot be followed and the space has more than 100,000
        fills, the tree would be too large, or the space has 2**1000 candidates or more.
    """
    format.check_prefix_free()
    if format.size >= LARGEST:
        raise UnsupportedError(
            f"a space of 2^{format.bits:.0f} candidates is beyond the range of floating point",
            cure='use shorter holes, or uniform draws (method="sampling")',
        )
    fills = _some_fills(format, among)
    encodings = encoder.candidates(format, fills)
    try:
        tree = _tree_by_rules(format, encoder, encodings)
    except UnknownRuleError as reason:
        tree = _other_tree(format, encoder, fills, encodings, reason)
    except RecursionError:
        deep = UnknownRuleError("parts or patterns that are nested too deeply, or too many of them")
        tree = _other_tree(format, encoder, fills, encodings, deep)
    if tree.certified and not len(tree.context):
        raise encoder.begins_with_a_hole(format)
    return tree


def check_certified(tree: TokenTree, format: Format) -> None:
    """Refuse ranks from a tree that is not certified: what it lacks is counted nowhere."""
    if not tree.certified:
        raise UnsupportedError(
            f"the token tree of {format.masked!r} is {tree.certificate}",
            cure='use uniform draws (method="sampling")',
        )


def leaf_numbers(
    tree: TokenTree, format: Format, encoder: CandidateEncoder, fills: Sequence[str]
) -> NDArray[np.int64]:
    """The leaves of fills, found by their encodings.

    Raises
    ------
    ModelError
        If one is not in the tree.
    """
    numbers = _numbers_by_tails(tree, format, encoder, fills)
    rest = np.flatnonzero(numbers == MISSING)
    encodings = encoder.candidates(format, [fills[place] for place in rest.tolist()])
    numbers[rest] = tree.numbers([encoding.ids for encoding in encodings])
    missing = int((numbers == MISSING).sum())
    if missing:
        raise ModelError(
            f"the tokens of {missing:,} fills of {format.masked!r} are not in its tree "
            f"({tree.certificate})",
            cure='use method="sampling"',
        )
    return numbers


def _numbers_by_tails(
    tree: TokenTree, format: Format, encoder: CandidateEncoder, fills: Sequence[str]
) -> NDArray[np.int64]:
    """Leaves of fills by the tokens of the ends of their texts; `MISSING` where that gives none.

    A tree that holds nothing but the encodings of all fills holds one for each. So what leads
    to a leaf and comes from the text of a fill is its encoding, wherever the text was cut.
    """
    nothing = np.full(len(fills), MISSING, tree.leaves.dtype)
    tokenizer, context = encoder.tokenizer, tree.context.tolist()
    if not (len(fills) > 1 and tree.canonical and isinstance(tokenizer, FastTokenizer)):
        return nothing
    above = encoder.context + format.prefix
    text = above + fills[0] + format.suffix
    (whole,) = encoder.encode([format.candidate(fills[0])])
    _, after = tokenizer.template(text)
    inner = whole.ids[: len(whole.ids) - len(after)]
    for back in range(_NEAREST, min(_FARTHEST, len(context))):
        kept = len(context) - back
        begin = (whole.spans or ())[kept][0] + len(encoder.context)
        if 0 < begin <= len(above) and tokenizer.parts([text[begin:]]) == [inner[kept:]]:
            break
    else:
        return nothing
    tails = tokenizer.parts([above[begin:] + fill + format.suffix for fill in fills])
    known = tuple(context[kept:])
    rows = [(*tail[back:], *after) if tail[:back] == known else () for tail in tails]
    numbers = tree.numbers_below(rows)
    there = np.flatnonzero(numbers != MISSING)
    alike = len({*numbers[there].tolist()}) < len({fills[place] for place in there.tolist()})
    return nothing if alike else numbers


def _some_fills(format: Format, among: Sequence[str]) -> list[str]:
    if format.size <= CHECKED_FILLS:
        return list(format)
    drawn = format.sample(CHECKED_FILLS, rng=np.random.default_rng(0))
    return list(dict.fromkeys([*drawn, *among]))


def _tree_by_rules(
    format: Format, encoder: CandidateEncoder, encodings: Sequence[Encoding]
) -> TokenTree:
    tokenizer = encoder.tokenizer
    if not isinstance(tokenizer, FastTokenizer):
        raise UnknownRuleError("a tokenizer that does not show its rules")
    above = encoder.context + format.prefix
    around = [literal(text) if text else None for text in (above, format.suffix)]
    parts = [part for part in (around[0], format.automaton, around[1]) if part is not None]
    rules = read_rules(tokenizer, concatenate(parts))
    before, after = tokenizer.template(above + format.unrank(0) + format.suffix)
    head = encoder.start + before + tokenizer.parts([rules.head])[0]
    graph, model = TextGraph.of(rules), rules.model
    if model["type"] == "Unigram" and spellings(graph) < format.size:
        # Its ties would make up for fills that are one text to it.
        raise OddTextError("fewer texts than there are fills")
    longest = model.get("max_input_chars_per_word")  # of WordPiece: longer ones are unknown
    if longest is not None and graph.longest_piece > longest:
        raise OddTextError(f"a limit of {longest} characters to a word, which a candidate exceeds")

    def machine(first: Sequence[Symbols], within: Sequence[Symbols]) -> Machine:
        if model["type"] == "BPE":
            whole = bool(model.get("ignore_merges"))
            return bpe_machine(first, model["merges"], ignore_merges=whole)
        if model["type"] == "Unigram":
            scores = {tuple(piece): float(score) for piece, score in model["vocab"]}
            return UnigramMachine(first, {token: scores.get(token, 0.0) for token in rules.first})
        if model["type"] == "WordPiece":
            return wordpiece_machine(first, within)
        if model["type"] == "WordLevel":
            return word_machine(first)
        raise UnknownRuleError(f"its model {model['type']}")

    found = token_graph(graph, rules.first, rules.within, machine)
    leaves = int(found.paths[found.root])
    if leaves < format.size:
        raise OddTextError("fewer ways through the tree than there are fills")
    exact = leaves == format.size
    if exact and len(encodings) >= format.size:
        certificate = f"certified: all {len(encodings):,} fills were encoded"
    else:
        certificate = (
            f"certified: every canonical path is in the tree ({rules.why}; "
            f"{len(encodings):,} fills were encoded)"
        )
        certificate += (
            ", and there are as many paths as fills"
            if exact
            else "; leaves that re-encode differently are left out"
        )
    symbols = {number: token for token, number in [*rules.first.items(), *rules.within.items()]}

    def texts_of(rows: Sequence[Sequence[int]], _numbers: object) -> list[tuple[str, ...]]:
        spelled = []
        for row in rows:
            inner = row[len(head) : len(row) - len(after)]
            texts = graph.spell([symbol for token in inner for symbol in symbols[token]])
            whole = [rules.head + text for text in texts]
            spelled.append(tuple(t[len(above) : len(t) - len(format.suffix)] for t in whole))
        return spelled

    tree = compress(
        found,
        head,
        after,
        canonical=exact,
        certificate=certificate,
        texts_of=texts_of,
        encode=lambda fills: [
            e.ids for e in encoder.encode([format.candidate(fill) for fill in fills])
        ],
    )
    numbers = tree.numbers([encoding.ids for encoding in encodings])
    if (numbers == MISSING).any() or len(np.unique(numbers)) < len(numbers):
        raise UnknownRuleError("encodings that are not in the tree of its rules")
    return tree


def _other_tree(
    format: Format,
    encoder: CandidateEncoder,
    fills: Sequence[str],
    encodings: Sequence[Encoding],
    reason: UnknownRuleError,
) -> TokenTree:
    """The tree without the tokenizer's rules, or a refusal that says why."""
    if format.size <= LISTED_FILLS:
        everything = list(format)
        return list_tree([e.ids for e in encoder.candidates(format, everything)], everything)
    odd = isinstance(reason, OddTextError)
    by_character = None if odd else _character_tree(format, fills, encodings)
    if by_character is None:
        raise UnsupportedError(
            f"no tree was found for {format.masked!r} and this tokenizer, which has {reason}",
            cure='use uniform draws (method="sampling")',
        )
    return by_character


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


def _character_tree(
    format: Format, fills: Sequence[str], encodings: Sequence[Encoding]
) -> TokenTree | None:
    """The format's automaton with token ids on its edges, as far as some fills show.

    None if their encodings say otherwise: a character is no token by itself or not always
    the same one, what stands around the fills differs, or a character does not occur.
    """
    automaton = format.automaton
    if not automaton.prefix_free:
        return None
    ids: dict[str, int] = {}
    around: set[tuple[Row, Row]] = set()  # tokens before and after the fill
    for fill, encoding in zip(fills, encodings, strict=True):
        start, stop = len(format.prefix), len(format.prefix) + len(fill)
        spans = encoding.spans or ()
        inside = [i for i, (a, b) in enumerate(spans) if a < stop and b > start and a < b]
        exact = [spans[i] for i in inside] == [(k, k + 1) for k in range(start, stop)]
        if not inside or not exact or inside[-1] - inside[0] + 1 != len(fill):
            return None
        own = encoding.ids[inside[0] : inside[-1] + 1]
        around.add((encoding.ids[: inside[0]], encoding.ids[inside[-1] + 1 :]))
        if len(around) > 1 or any(
            ids.setdefault(c, t) != t for c, t in zip(fill, own, strict=True)
        ):
            return None
    if len(set(ids.values())) < len(ids) or set(automaton.chars) - ids.keys():
        return None
    letters = {token: char for char, token in ids.items()}
    ((head, tail),) = around
    final = len(automaton.counts) - 1  # states are numbered from the end
    sources = final - np.repeat(np.arange(final + 1), np.diff(automaton.offsets))
    order = np.argsort(sources, kind="stable")
    graph = TokenGraph(
        final,
        sources[order].astype(np.int64),
        np.array([ids[c] for c in automaton.chars], np.int64)[order],
        (final - automaton.targets.astype(np.int64))[order],
        exact_counts(automaton.counts[::-1]),
    )
    return compress(
        graph,
        head,
        tail,
        canonical=True,
        certificate=f"{NOT_CERTIFIED}: one token per character, sampled on {len(fills)} fills",
        texts_of=lambda rows, _numbers: [
            ("".join(letters[t] for t in row[len(head) : len(row) - len(tail)]),) for row in rows
        ],
    )
