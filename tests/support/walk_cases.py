"""Random tables and formats for walks over trees, with every candidate priced by brute force."""

from __future__ import annotations

import functools
import itertools

import numpy as np
from small_models import CHARACTERS, character_tokenizer

from canary.formats.format import Format
from canary.models.language_model import Context, Rows
from canary.models.table_model import TableModel
from canary.scoring.batcher import row_sums
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree

FORMATS = [
    "a{digit:2}",
    "a{digit:1}-{digit:1}.",
    "b {choice:aa|ab|ba} end",
    "x{choice:ax|b|cyz}{digit:1}:{choice:p|q}..",
    "only {choice:one} fill",
    "a{digit:1}{choice:b|cd|ce}",
    "a{hex:1}{choice:1|2|3|4}.",
]


def random_model(seed):
    """A table of random states: flat or steep, a third with ties, a fifth with zeros."""
    rng = np.random.default_rng(seed)
    states, vocabulary = int(rng.integers(1, 30)), len(CHARACTERS)
    transitions = rng.integers(0, states, (states, vocabulary))
    if seed % 3 == 0:  # few different values that are powers of two: sums are exact
        logs = np.log(2.0 ** -rng.integers(1, 4, (states, vocabulary)) / vocabulary)
    else:
        logits = rng.normal(0, rng.choice([0.1, 1, 3]), (states, vocabulary))
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    if seed % 5 == 0:
        logs[rng.random(logs.shape) < 0.2] = -np.inf
    return TableModel(transitions, logs, as_tokenizer(character_tokenizer()))


class Case:
    """A model and a format, with the cost of every candidate by brute force."""

    def __init__(self, model, text, start=None):
        self.model, self.format = model, Format(text)
        self.encoder = CandidateEncoder(model.tokenizer, start)
        self.tree = compile_tree(self.format, self.encoder)
        encodings = self.encoder.candidates(self.format, list(self.format))
        rows = Rows.of([encoding.ids for encoding in encodings])
        self.costs = -row_sums(model.score(rows), rows)
        self.tokens = int(rows.lengths.max())
        self.noise = model.facts.noise_bits(self.tokens) * np.log(2)

    def open(self, memory_bytes=2**22):
        return self.model.open(Context(self.tree.context), memory_bytes=memory_bytes)

    def states(self, count):
        """The memory in which a walk holds so many states."""
        return count * self.model.memory().bytes_per_held_token


def cases(count):
    for seed in range(count):
        yield seed, _case(seed)


@functools.cache
def _case(seed):
    return Case(random_model(seed), FORMATS[seed % len(FORMATS)])


def told(method, tell):
    """A method that tells first what it is given."""

    def telling(*given, **options):
        tell(*given, **options)
        return method(*given, **options)

    return telling


def ctrl_c(after):
    """What interrupts the call after so many."""
    left = itertools.count(after, -1)

    def stop(*_given, **_options):
        if next(left) <= 0:
            raise KeyboardInterrupt

    return stop


def count_tokens(walker):
    """What the model computes, counted below the walker's own count: one number per call.

    A call that did not fit into memory, and is made again in halves, does not count.
    """
    computed, now, expand = [], [], walker.expand

    def counting_expand(*arguments, **options):
        now.clear()
        expansion = expand(*arguments, **options)
        computed.append(sum(now))
        return expansion

    walker.expand = counting_expand
    walker._step = told(walker._step, lambda parents, depth, tokens, into: now.append(len(tokens)))
    return computed


def tied_tokenizer():
    """`ab` scores as much as `a` and `b`: trees hold both ways, one of them is canonical."""
    from tokenizers import Tokenizer
    from tokenizers.models import Unigram

    pieces = [("<s>", 0.0), ("a", -1.0), ("b", -2.0), ("ab", -3.0), ("!", -1.0)]
    return as_tokenizer(Tokenizer(Unigram(pieces, 0)))
