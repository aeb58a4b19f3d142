"""Tables against a dictionary look-up of the longest known end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import CHARACTERS, character_tokenizer

from canary.errors import ModelError
from canary.models.language_model import Rows
from canary.models.table_model import TableModel
from canary.tokens.fast import as_tokenizer

TOKENIZER = as_tokenizer(character_tokenizer())
SIZE = len(CHARACTERS)


@settings(max_examples=60)
@given(
    keys=st.sets(st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple), max_size=8),
    row=st.lists(st.integers(0, 2), min_size=2, max_size=12),
)
def test_ngram_oracle(keys, row) -> None:
    """Keys over three tokens, so that they overlap in every way."""
    rng = np.random.default_rng(len(keys))
    logs = {key: rng.normal(size=SIZE) - 10.0 for key in [(), *sorted(keys)]}
    tables = {key: row.astype(np.float32) for key, row in logs.items()}
    found = TableModel.ngram(tables, TOKENIZER).score(Rows.of([row]))
    wanted = []
    for at in range(1, len(row)):
        ends = (tuple(row[k:at]) for k in range(at + 1))  # longest first
        wanted.append(tables[next(end for end in ends if end in tables)][row[at]])
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


def test_table_input() -> None:
    flat = np.full((2, SIZE), -np.log(SIZE))
    with pytest.raises(ModelError, match="unknown contexts"):
        TableModel.ngram({(1,): flat[0]}, TOKENIZER)
    for states, logs, message in (
        (np.full((2, SIZE), 2), flat, "a state that is not there"),
        (np.zeros((2, SIZE)), flat + np.array([[0.0], [0.0009]]), "of 1.0009 together.*normalise"),
        (np.zeros((1, SIZE)), flat, "shape"),
        (np.zeros((2, 3)), np.zeros((2, 3)), "the tokenizer 45"),
    ):
        with pytest.raises(ModelError, match=message):
            TableModel(states, logs, TOKENIZER)
