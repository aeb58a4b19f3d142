"""Test losses out of files of scores."""

from __future__ import annotations

import json
import math

import pytest

from canary.errors import InputError
from canary.reports.comparison import measured_losses

ROWS = [{"line": 1, "px_bits": 10.0, "tokens": 4}, {"line": 3, "px_bits": 5.5, "tokens": 1}]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_loss_golden(tmp_path):
    # 15.5 bits over 5 tokens: 3.1 bits, times ln 2.
    one = write(tmp_path / "a.jsonl", ROWS)
    other = write(tmp_path / "b.jsonl", [{**row, "px_bits": 2.0} for row in ROWS])
    assert measured_losses([one, other]) == pytest.approx([3.1 * math.log(2), 0.8 * math.log(2)])


@pytest.mark.parametrize(
    "rows", [ROWS[:1], [{**ROWS[0], "tokens": 5}, ROWS[1]], [ROWS[0], {**ROWS[1], "line": 2}]]
)
def test_scores_of_other_texts_or_tokens_do_not_compare_input(tmp_path, rows):
    one = write(tmp_path / "a.jsonl", ROWS)
    other = write(tmp_path / "b.jsonl", rows)
    with pytest.raises(InputError, match=r"b\.jsonl: its scores .* do not compare; score the same"):
        measured_losses([one, other])


def test_probability_0_has_no_loss_input(tmp_path):
    path = write(tmp_path / "a.jsonl", [ROWS[0], {**ROWS[1], "px_bits": None}])
    with pytest.raises(InputError, match=r"a\.jsonl:2: the model gives this text probability 0"):
        measured_losses([path])
