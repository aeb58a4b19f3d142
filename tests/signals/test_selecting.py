"""Parts of a table: some models, some samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from canary.errors import InputError
from canary.signals.signal_table import Origin, SignalTable


@pytest.fixture
def table():
    return SignalTable(
        {"loss": np.arange(12.0).reshape(3, 4), "confidence": np.zeros((3, 4))},
        np.eye(3, 4) == 1,
        np.array([0, 1, 2, 1]),
        3,
        group=np.array(["a", "b", "a", "b"]),
        source="here",
        missing={7: "NaN"},
        origin=Origin("data", ("x", "y", "z")),
    )


def test_rows_and_columns_golden(table):
    part = table.select(models=[2, 0], samples=[True, False, False, True])
    assert part.signal("loss").tolist() == [[8, 11], [0, 3]]
    assert part.signal("confidence").shape == (2, 2)
    assert part.member.tolist() == [[False, False], [True, False]]
    assert (part.label.tolist(), part.group.tolist()) == ([0, 1], ["a", "b"])
    assert (part.classes, part.source, part.missing) == (3, "here", {7: "NaN"})
    assert part.origin.models == ("z", "x")
    assert part.numbers == (2, 0)
    part.values["loss"][:] = -1
    assert table.signal("loss").min() == 0


def test_rows_keep_their_numbers_in_the_fleet(table):
    some = replace(table, missing={1: "NaN", 2: "died"}, numbers=())
    assert some.numbers == (0, 3, 4)
    assert some.select(models=[1]).numbers == some.select(models=[1]).select().numbers == (3,)
    with pytest.raises(InputError, match="2 numbers of 3 models; give the number of each row"):
        replace(some, numbers=(0, 3))
    with pytest.raises(InputError, match="model 3 has a row, and is missing; omit it by sel"):
        replace(some, missing={3: "died"})
    assert some.select(models=[0, 2]).numbers == (0, 4)


@pytest.mark.parametrize("given", [[3], [-1], [], [0.5], [[0]], [True, False], np.zeros(3, bool)])
def test_what_is_no_row_input(table, given):
    with pytest.raises(InputError, match="here: models .* of a table that has 3; give positions"):
        table.select(models=given)
