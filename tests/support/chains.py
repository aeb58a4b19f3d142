"""Table models that have memorized one text more or less, and the exact mass near it."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np
from tokenizers import Tokenizer
from tokenizers import models as backends

from canary.models.decoding import Scheme, drawn_probabilities
from canary.models.table_model import TableModel
from canary.tokens.fast import as_tokenizer


def chain_model(rng, *, length, vocabulary=30, states=40, sure=0.8, back=0.5):
    """A model, and a suffix of `length` tokens behind the token 0 that it has memorized.

    After each token of the suffix the next one has a probability around `sure`. Other tokens lead
    back into the suffix a place further, or two, with the chance `back`, and elsewhere else.
    """
    suffix = rng.integers(0, vocabulary, length).astype(np.int32)
    count = 1 + length + states
    logits = rng.normal(0, 1.5, (count, vocabulary))
    shares = np.exp(logits)
    shares /= shares.sum(axis=1, keepdims=True)
    transitions = rng.integers(1 + length, count, (count, vocabulary))
    for at in range(length):
        here = at + 1 if at else 1
        q = rng.beta(6 * sure, 6 * (1 - sure))
        others = shares[here].copy()
        others[suffix[at]] = 0.0
        shares[here] = (1 - q) * others / others.sum()
        shares[here, suffix[at]] = q
        returns = rng.random(vocabulary) < back
        ahead = np.minimum(here + rng.integers(0, 3, vocabulary), length)
        transitions[here] = np.where(returns, ahead, transitions[here])
        transitions[here, suffix[at]] = min(here + 1, length)
    transitions[0, :] = 1  # the token of the context
    strings = {chr(0x100 + n): n for n in range(vocabulary)}
    tokenizer = Tokenizer(backends.WordLevel(strings, unk_token=chr(0x100)))
    model = TableModel(transitions, np.log(shares), as_tokenizer(tokenizer))
    return model, suffix


@cache
def distance(one, other):
    """Levenshtein's distance, from its definition."""
    if not one or not other:
        return len(one) + len(other)
    return min(
        distance(one[1:], other) + 1,
        distance(one, other[1:]) + 1,
        distance(one[1:], other[1:]) + (one[0] != other[0]),
    )


def exact_mass(model, suffix, edits, scheme=Scheme()):  # noqa: B008 - frozen
    """The probability that a sample of its length is within some edits of the suffix.

    It goes through all states of the model and all rows of the table of edit distances.
    """
    transitions = model._transitions
    shares = drawn_probabilities(model._log_probs, scheme)
    length, cap = len(suffix), edits + 1
    masses = {(1, tuple(min(j, cap) for j in range(length + 1))): 1.0}
    for _ in range(length):
        after = defaultdict(float)
        for (state, row), mass in masses.items():
            for token, share in enumerate(shares[state]):
                if share == 0.0:
                    continue
                new = [min(row[0] + 1, cap)]
                for j in range(1, length + 1):
                    other = int(token != suffix[j - 1])
                    new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + other, cap))
                if min(new) <= edits:
                    after[int(transitions[state, token]), tuple(new)] += mass * share
        masses = after
    return sum(mass for (_, row), mass in masses.items() if row[-1] <= edits)


def exact_text_mass(model, suffix, edits, written, scheme=Scheme()):  # noqa: B008 - frozen
    """The probability that the text of a sample begins within some edits of the suffix's text.

    A sample is as many tokens as the suffix has, and `edits` more; it ends at a token of which
    nothing is `written`. It goes through all states of the model and all rows of the table.
    """
    transitions, shares = model._transitions, drawn_probabilities(model._log_probs, scheme)
    text, cap = b"".join(written[token] for token in suffix), edits + 1

    @cache
    def after(row, token):
        """The row after a token, or none if nothing below is near; and whether all is near."""
        for byte in written[token] or b"":
            new = [min(row[0] + 1, cap)]
            for j in range(1, len(text) + 1):
                other = row[j - 1] + (byte != text[j - 1])
                new.append(min(row[j] + 1, new[-1] + 1, other, cap))
            row = tuple(new)
            if row[-1] <= edits:
                return None, True
        return row if written[token] and min(row) <= edits else None, False

    masses, near = {(1, tuple(min(j, cap) for j in range(len(text) + 1))): 1.0}, 0.0
    for _ in range(len(suffix) + edits):
        below = defaultdict(float)
        for (state, row), mass in masses.items():
            for token, share in enumerate(shares[state]):
                new, done = after(row, token)
                near += mass * share * done
                if new:
                    below[int(transitions[state, token]), new] += mass * share
        masses = below
    return near
