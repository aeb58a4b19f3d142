"""What the candidates of a format are under a tokenizer, and what that does to the numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from canary.corpus.canaries import Canary
from canary.formats.format import Format
from canary.search.bounds import tokens_below
from canary.statistics.pvalues import fisher
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.misread import misread
from canary.tokens.tree import TokenTree

__all__ = ["deepest", "longest", "notes_on"]

# Keeps what is drawn here apart from the canaries of the same seed, and from other draws.
_NOTES_STREAM = 0x6E6F7465

_TOO_SHORT = 1e-3  # chance of the note where the tokenizer never saw the canaries


def longest(encoder: CandidateEncoder, format: Format, fills: Sequence[str]) -> tuple[int, int]:
    """Most tokens of a candidate, and below its context, among the canaries and 256 others.

    For want of a token tree: `deepest` has the most of all.
    """
    some = [*fills, *format.sample(min(format.size, 256), rng=np.random.default_rng(0))]
    encodings = encoder.candidates(format, some)
    below = (len(e.ids) - (encoder.context_length(format, e) or 1) for e in encodings)
    return max(len(e.ids) for e in encodings), max(below)


def deepest(tree: TokenTree) -> int:
    """Most tokens of a candidate of a tree, its context included."""
    return len(tree.context) + tokens_below(tree)


def notes_on(
    encoder: CandidateEncoder, format: Format, canaries: Sequence[Canary], seed: int
) -> tuple[str, ...]:
    """What may make the numbers say something else than they seem to."""
    notes = list(misread(encoder, format))
    rng = np.random.default_rng([_NOTES_STREAM, seed])
    others = encoder.candidates(format, format.sample(min(format.size, 1_000), rng=rng))
    known = _known_to_the_tokenizer(encoder, format, canaries, [len(e.ids) for e in others])
    if known:
        copies = " or ".join(f"{count:,}" for count in known)
        notes.append(
            f"The canaries that stood {copies} times in the corpus are fewer tokens than nearly "
            "all other candidates: the tokenizer was trained on them. What is measured is what "
            "tokenizer and model learned together; even an untrained model would prefer these "
            "canaries."
        )
    return tuple(notes)


def _known_to_the_tokenizer(
    encoder: CandidateEncoder, format: Format, canaries: Sequence[Canary], lengths: Sequence[int]
) -> list[int]:
    """Numbers of copies whose canaries are shorter in tokens than luck makes them.

    The share of candidates that are as short is a p-value of each canary. `lengths` are
    those of others, drawn uniformly.
    """
    ordered, known = np.sort(lengths), []
    for copies in sorted({c.repetitions for c in canaries if c.repetitions}):
        mine = encoder.candidates(format, [c.fill for c in canaries if c.repetitions == copies])
        as_short = np.searchsorted(ordered, [len(e.ids) for e in mine], side="right")
        shares = (1 + as_short) / (1 + len(ordered))
        if fisher(shares, shared_draws=len(ordered)).p_value < _TOO_SHORT:
            known.append(copies)
    return known
