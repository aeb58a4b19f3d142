"""The branches to some leaves are the tree with the others cut off."""

from __future__ import annotations

import numpy as np
import pytest
from trained import trained

from canary.formats.format import Format
from canary.tokens.arrays import branches
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree


@pytest.mark.parametrize(
    "text", ["is {digit:2}.", "is {re:[0-2]}-{digit:1} and", "a {choice:aa|ab|b}."]
)
@pytest.mark.parametrize("name", ["llama3", "unigram"])
def test_branches_oracle(name: str, text: str) -> None:
    tree = compile_tree(Format(text), CandidateEncoder(as_tokenizer(trained(name))))
    rng = np.random.default_rng(0)
    for count in {1, 2, min(7, tree.size), tree.size}:
        chosen = np.sort(rng.choice(tree.size, count, replace=False))
        some = branches(tree, chosen)
        rows = [some.row(number) for number in range(count)]
        assert rows == [tree.row(int(number)) for number in chosen]
        assert some.fills(np.arange(count)) == tree.fills(chosen)
        assert some.size == count
        inner = {row[:k] for row in rows for k in range(len(tree.context) + 1, len(row))}
        assert some.queries() == len(inner)
    assert branches(tree, np.arange(tree.size)).queries() == tree.queries()
