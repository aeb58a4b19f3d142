"""The tree of a tokenizer's rules is that of all encodings, or none is made."""

from __future__ import annotations

import numpy as np
from fuzzing import attempt, cases, failed
from hypothesis import example, given
from hypothesis import strategies as st
from random_tokenizers import KINDS, a_chat_tokenizer, a_format, a_tokenizer, pick

from canary.tokens import tree as trees
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.pattern import UnknownRuleError
from canary.tokens.tree import MISSING

LARGEST = 30_000
CHUNK = 2_000


def by_rules(format, encoder):
    """The tree by rules alone: one fill is encoded before, so that no sample helps."""
    for fill in format.sample(min(format.size, 20), rng=np.random.default_rng(0)):
        one = attempt(encoder.candidates, format, [fill])
        if not failed(one):
            break
    else:
        return None
    try:
        tree = attempt(trees._tree_by_rules, format, encoder, one)
    except UnknownRuleError:
        return None
    return None if failed(tree) else tree


def check(format, encoder, tree):
    """Each fill's encoding is a leaf of its own, and no other leaf is read as a fill."""
    fills, found = list(format), []
    for begin in range(0, len(fills), CHUNK):
        some = fills[begin : begin + CHUNK]
        encodings = encoder.encode([format.candidate(fill) for fill in some])
        numbers = tree.numbers([encoding.ids for encoding in encodings])
        assert (numbers != MISSING).all()
        assert tree.fills(numbers[:50]) == some[:50]
        found.append(numbers)
    numbers = np.unique(np.concatenate(found))
    assert len(numbers) == len(fills)
    if tree.canonical:
        assert tree.size == len(fills)
    else:
        others = np.setdiff1d(np.arange(tree.size), numbers)[:200]
        assert set(tree.fills(others)) <= {None}


@cases(3_000, default=12)
@given(seed=st.integers(0, 2**63))
def test_trees_by_rules(seed):
    rng = np.random.default_rng(seed)
    format = a_format(rng, least=200, most=LARGEST)
    backend = a_tokenizer(rng, format, pick(rng, KINDS))
    if backend is None:
        return
    backend.add_special_tokens(["<s>"])
    context = pick(rng, ["", "", "a ", "b1"])
    encoder = attempt(CandidateEncoder, as_tokenizer(backend), "<s>", context)
    if failed(encoder):  # characters of the context that it does not know
        return
    tree = by_rules(format, encoder)
    if tree is not None:
        check(format, encoder, tree)


def below_added_tokens(seed):
    """The tree of a format that holds added tokens, or that comes after some; None without."""
    rng = np.random.default_rng(seed)
    backend, format, context = a_chat_tokenizer(rng, pick(rng, KINDS))
    if backend is None:
        return None
    encoder = attempt(CandidateEncoder, as_tokenizer(backend), "<start>", context)
    if failed(encoder):
        return None
    tree = by_rules(format, encoder)
    if tree is not None:
        check(format, encoder, tree)
        added = {token["id"] for token in encoder.tokenizer.spec["added_tokens"]}
        return not added.isdisjoint(tree.row(0)[1:])
    return None


@cases(3_000, default=12)
@given(seed=st.integers(0, 2**63))
@example(seed=4468524328577296407)  # no text can be read: cuts fall where pieces cannot end
def test_trees_below_added_tokens(seed):
    below_added_tokens(seed)


def test_trees_below_added_tokens_are_made():
    assert sum(below_added_tokens(seed) is True for seed in range(50)) >= 10
