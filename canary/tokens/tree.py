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

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError, UnsupportedError
from canary.formats.automaton import Automaton
from canary.formats.building import concatenate, literal
from canary.formats.format import Format
from canary.tokens.arrays import LEAF, MISSING, TokenTree, compress
from canary.tokens.bpe import bpe_machine
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import FastTokenizer
from canary.tokens.machine import Machine
from canary.tokens.observed_trees import character_tree, list_tree
from canary.tokens.pattern import OddTextError, UnknownRuleError
from canary.tokens.rules import Rules, read_rules
from canary.tokens.textgraph import TextGraph
from canary.tokens.token_lattice import Symbols, spellings, token_graph
from canary.tokens.tokenizer import Encoding
from canary.tokens.unigram import UnigramMachine
from canary.tokens.wordpiece import word_machine, wordpiece_machine

__all__ = ["LEAF", "MISSING", "TokenTree", "check_certified", "compile_tree", "leaf_numbers"]

CHECKED_FILLS = 1_000
LISTED_FILLS = 100_000
LARGEST = 2**1000

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
        If the tokenizer cannot represent the format, or cannot tell its fills apart.
    UnsupportedError
        If the tokenizer's rules cannot be followed and the space has more than 100,000
        fills, the tree would be too large, or the space has 2**1000 candidates or more.
    """
    format.check_prefix_free()
    if format.size >= LARGEST:
        raise UnsupportedError(
            f"a space of 2^{format.bits:.0f} candidates is beyond the range of floating point",
            cure="use shorter holes, or uniform draws (--method sampling)",
        )
    fills = _some_fills(format, among)
    encodings = encoder.candidates(format, fills)
    try:
        tree = _tree_by_rules(format, encoder, encodings)
    except UnknownRuleError as reason:
        return _other_tree(format, encoder, fills, encodings, reason)
    except RecursionError:
        deep = UnknownRuleError("parts or patterns that are nested too deeply, or too many of them")
        return _other_tree(format, encoder, fills, encodings, deep)
    if not len(tree.context):
        raise encoder.begins_with_a_hole(format)
    return tree


def check_certified(tree: TokenTree, format: Format) -> None:
    """Refuse ranks from a tree that is not certified: what it lacks is counted nowhere."""
    if not tree.certified:
        raise UnsupportedError(
            f"the token tree of {format.masked!r} is {tree.certificate}",
            cure="use uniform draws (--method sampling)",
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
    encodings = encoder.candidates(format, [fills[at] for at in rest.tolist()])
    numbers[rest] = tree.numbers([encoding.ids for encoding in encodings])
    missing = int((numbers == MISSING).sum())
    if missing:
        raise ModelError(
            f"the tokens of {missing:,} fills of {format.masked!r} are not in its tree "
            f"({tree.certificate})",
            cure="use --method sampling",
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
        if 0 < begin <= len(above) and tokenizer.part(text[begin:]) == inner[kept:]:
            break
    else:
        return nothing
    tails = tokenizer.parts([above[begin:] + fill + format.suffix for fill in fills])
    known = tuple(context[kept:])
    rows = [(*tail[back:], *after) if tail[:back] == known else () for tail in tails]
    numbers = tree.numbers_below(rows)
    there = np.flatnonzero(numbers != MISSING)
    alike = len({*numbers[there].tolist()}) < len({fills[at] for at in there.tolist()})
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
        raise UnknownRuleError("a tokenizer that does not tell its rules")
    rules = read_rules(tokenizer, _texts(format, encoder.context))
    text = encoder.context + format.prefix + format.unrank(0) + format.suffix
    before, after = tokenizer.template(text)
    head = encoder.start + before + tokenizer.part(rules.head)
    graph = TextGraph.of(rules)
    if rules.model["type"] == "Unigram" and spellings(graph) < format.size:
        # Its ties would make up for fills that are one text to it.
        raise OddTextError("fewer texts than there are fills")
    longest = rules.model.get("max_input_chars_per_word")  # of WordPiece: longer ones are unknown
    if longest is not None and graph.longest_piece > longest:
        raise OddTextError(f"a limit of {longest} characters to a word, which a candidate exceeds")
    found = token_graph(graph, rules.first, rules.within, lambda *tokens: _machine(rules, *tokens))
    leaves = int(found.paths[found.root])
    if leaves < format.size:
        raise OddTextError("fewer ways through the tree than there are fills")
    exact = leaves == format.size
    symbols = {number: token for token, number in rules.first.items()}
    symbols |= {number: token for token, number in rules.within.items()}
    start = len(encoder.context) + len(format.prefix)

    def texts_of(rows: Sequence[Sequence[int]], _numbers: object) -> list[tuple[str, ...]]:
        spelled = []
        for row in rows:
            inner = row[len(head) : len(row) - len(after)]
            texts = graph.spell([symbol for token in inner for symbol in symbols[token]])
            whole = (rules.head + text for text in texts)
            spelled.append(tuple(text[start : len(text) - len(format.suffix)] for text in whole))
        return spelled

    tree = compress(
        found,
        head,
        after,
        canonical=exact,
        certificate=_certificate(format, rules, len(encodings), exact=exact),
        texts_of=texts_of,
        encode=lambda fills: [
            e.ids for e in encoder.encode([format.candidate(fill) for fill in fills])
        ],
    )
    numbers = tree.numbers([encoding.ids for encoding in encodings])
    if (numbers == MISSING).any() or len(np.unique(numbers)) < len(numbers):
        raise UnknownRuleError("encodings that are not in the tree of its rules")
    return tree


def _texts(format: Format, context: str) -> Automaton:
    """The whole texts that are encoded: context and candidate."""
    before = context + format.prefix
    parts = [format.automaton]
    if before:
        parts.insert(0, literal(before))
    if format.suffix:
        parts.append(literal(format.suffix))
    return concatenate(parts)


def _machine(rules: Rules, first: Sequence[Symbols], within: Sequence[Symbols]) -> Machine:
    kind = rules.model["type"]
    if kind == "BPE":
        return bpe_machine(
            first, rules.model["merges"], ignore_merges=bool(rules.model.get("ignore_merges"))
        )
    if kind == "Unigram":
        scores = {tuple(piece): float(score) for piece, score in rules.model["vocab"]}
        return UnigramMachine(first, {token: scores.get(token, 0.0) for token in rules.first})
    if kind == "WordPiece":
        return wordpiece_machine(first, within)
    if kind == "WordLevel":
        return word_machine(first)
    raise UnknownRuleError(f"its model {kind}")


def _certificate(format: Format, rules: Rules, checked: int, *, exact: bool) -> str:
    if exact and checked >= format.size:
        return f"certified: all {checked:,} fills were encoded"
    by = (
        f"certified: every canonical path is in the tree ({rules.why}; "
        f"{checked:,} fills were encoded)"
    )
    if exact:
        return f"{by}, and there are as many paths as fills"
    return f"{by}; leaves that re-encode differently are left out"


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
        rows = [encoding.ids for encoding in encoder.candidates(format, everything)]
        tree = list_tree(rows, everything)
        if not len(tree.context):
            raise encoder.begins_with_a_hole(format)
        return tree
    odd = isinstance(reason, OddTextError)
    by_character = None if odd else character_tree(format, fills, encodings)
    if by_character is not None:
        return by_character
    raise UnsupportedError(
        f"no tree was found for {format.masked!r} and this tokenizer, which has {reason}",
        cure="use uniform draws (--method sampling)",
    )
