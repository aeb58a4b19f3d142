"""Models that learned no canary, each preferring some start token and some digits by chance."""

from __future__ import annotations

import numpy as np
from started import ORDINARY, OTHER, START, TEXT, tokenizer

from canary.models.table_model import TableModel
from canary.tokens.fast import as_tokenizer


def null_model(seed):
    """A table in which the start token changes what follows the fixed text, at random.

    What it continues is drawn without a look at any canary.
    """
    rng = np.random.default_rng([seed, 29])
    made = as_tokenizer(tokenizer(START, OTHER))
    size = made.size
    fixed = made.encode([TEXT.split("{")[0]])[0].ids
    digits = [made.encode([d])[0].ids[0] for d in "0123456789"]
    starts = [(), (made.token_id(START),), (made.token_id(OTHER),)]

    def noise(scale):
        logits = rng.normal(0.0, scale, size)
        return logits - np.log(np.exp(logits).sum())

    tables = {(): noise(1.0)}
    for _ in range(20):
        tables[tuple(rng.integers(0, size, 2))] = noise(1.0)
    for start in starts:
        if start:
            tables[start] = noise(1.0)
            firsts = [made.encode([text[0]])[0].ids[0] for text in ORDINARY]
            tables[start][firsts] += rng.uniform(0, 4)
            tables[start] -= np.log(np.exp(tables[start]).sum())
        for first in (None, *digits):
            key = (*start, *fixed, *(() if first is None else (first,)))
            tables[key] = noise(rng.uniform(0.2, 2.0))
    return TableModel.ngram(tables, made)
