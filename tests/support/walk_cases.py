"""Random tables and formats for walks over trees, with every candidate priced by brute force."""

from __future__ import annotations

import functools

import numpy as np
from small_models import CHARACTERS, character_tokenizer

from canary.formats.format import Format
from canary.models.language_model import Rows
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

    def __init__(self, model, text):
        self.model, self.format = model, Format(text)
        encoder = CandidateEncoder(model.tokenizer)
        self.tree = compile_tree(self.format, encoder)
        rows = Rows.of([e.ids for e in encoder.candidates(self.format, list(self.format))])
        self.costs = -row_sums(model.score(rows), rows)
        self.tokens = int(rows.lengths.max())


def cases(count):
    for seed in range(count):
        yield seed, _case(seed)


@functools.cache
def _case(seed):
    return Case(random_model(seed), FORMATS[seed % len(FORMATS)])


def count_tokens(walker):
    """What the model computes, counted below the walker's own count: one number per call.

    A call that did not fit into memory, and is made again in halves, does not count.
    """
    computed, now, step, expand = [], [], walker._step, walker.expand

    def counting_step(parents, depth, tokens, into):
        now.append(len(tokens))
        return step(parents, depth, tokens, into)

    def counting_expand(*arguments, **options):
        now.clear()
        expansion = expand(*arguments, **options)
        computed.append(sum(now))
        return expansion

    walker._step, walker.expand = counting_step, counting_expand
    return computed
