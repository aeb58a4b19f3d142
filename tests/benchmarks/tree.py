"""Compiling token trees on a vocabulary of 128,000 tokens.

    python tests/benchmarks/tree.py [--rounds 3] [--vocabulary 128000] [--formats NAME...]

One JSON line: for the pre-tokenizers of GPT-2, Llama-3 and Qwen and for several formats,
median seconds to compile, states, edges and whether it is certified. The vocabulary is made
up: all texts of up to three digits, with and without a space, so many of four and five, and
texts of letters.
"""

from __future__ import annotations

import functools
import random
import resource
from typing import Any

from figures import middle, options, show, timed

from canary.errors import UnsupportedError
from canary.formats.format import Format
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import FastTokenizer
from canary.tokens.tree import compile_tree

QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {"gpt2": None, "llama3": QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|"), "qwen": QWEN}
FORMATS = {
    "digits": "The random number is {digit:9}",
    "ssn": "My SSN is {digit:3}-{digit:2}-{digit:4}",
    "card": "The card is {credit_card}",
    "hex": "The key is {hex:8}",
    "words": "The words are {word:4}.",
}


@functools.cache
def merges(size: int) -> list[tuple[str, str]]:
    """Merges that make a vocabulary of `size`, shorter tokens first."""
    rng = random.Random(0)
    digits = "0123456789"
    found = [(a, b) for a in digits for b in digits] + [("Ġ", a) for a in digits]
    two = [a + b for a, b in found[:100]]
    found += [(a, b) for a in two for b in digits] + [("Ġ", a) for a in two]
    three = [a + b for a in two for b in digits]
    found += [("Ġ", a) for a in three]
    found += [(rng.choice(two), rng.choice(two)) for _ in range(400)]
    found += [(rng.choice(three), rng.choice(two)) for _ in range(100)]
    letters = list("abcdefghijklmnopqrstuvwxyz")
    tokens = [*letters, "Ġ", *(c.upper() for c in letters)]
    known = dict.fromkeys(found)
    while len(known) < size - 256:
        a, b = rng.choice(tokens), rng.choice(tokens)
        if len(a + b) <= 10 and "Ġ" not in b:
            known[a, b] = None
            tokens.append(a + b)
    return list(known)


def tokenizer(pattern: str | None, size: int) -> FastTokenizer:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    pairs = merges(size)
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in pairs)]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    backend = Tokenizer(
        models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=pattern == PATTERNS["llama3"])
    )
    by_byte = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    backend.pre_tokenizer = (
        by_byte
        if pattern is None
        else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), by_byte])
    )
    return FastTokenizer(backend)


def measure(encoder: CandidateEncoder, text: str, rounds: int) -> dict[str, Any]:
    seconds = []
    for _ in range(rounds):
        try:
            tree, spent = timed(lambda: compile_tree(Format(text), encoder))
        except UnsupportedError as error:
            return {"refused": error.problem}
        seconds.append(spent)
    return {
        "seconds": middle(seconds, 2),
        "states": len(tree.leaves),
        "edges": len(tree.tokens),
        "context": len(tree.context),
        "bits": round(Format(text).bits, 1),
        "certified": tree.certificate.startswith("certified"),
    }


def main() -> None:
    given = options(rounds=3, vocabulary=128_000, formats=(*FORMATS,))
    result: dict[str, Any] = {}
    for name, pattern in PATTERNS.items():
        encoder = CandidateEncoder(tokenizer(pattern, given.vocabulary))
        result["vocabulary"] = encoder.tokenizer.size
        result[name] = {
            short: measure(encoder, FORMATS[short], given.rounds) for short in given.formats
        }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    show("tree", **result, peak_mb=peak)


if __name__ == "__main__":
    main()
