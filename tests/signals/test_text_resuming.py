"""Attacks on texts that were stopped go on, and come out as if they had not been."""

from __future__ import annotations

import numpy as np
import pytest
from texts_and_models import letters_model

from canary.errors import RecordError
from canary.models.table_model import TableModel
from canary.signals import text_pricing
from canary.signals.text_measuring import measure_texts

MODEL = letters_model(1 / 2, 1 / 4, 1 / 8, 1 / 8)
OTHER = letters_model(1 / 4, 1 / 4, 1 / 4, 1 / 4)
TEXTS = ["".join(np.random.default_rng(at).choice(list("abAB"), 3 + at % 7)) for at in range(30)]
MEMBER = np.arange(30) < 15
BLOCK = 20


class Swap:
    """Rewrites a text by its letters in another order; counts how often it is asked."""

    facts = {"name": "swap", "fingerprint": "0"}  # noqa: RUF012

    def __init__(self):
        self.asked = 0

    def rewrite(self, texts, *, share, rng):
        self.asked += 1
        return ["".join(rng.permutation(list(text))) for text in texts]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(text_pricing, "_BLOCK", BLOCK)


class Meter:
    """Counts the tokens that a model prices, and stops it after so many calls."""

    def __init__(self, monkeypatch):
        self.tokens, self.calls, self.last = 0, 0, None
        for name in ("score", "moments"):
            monkeypatch.setattr(TableModel, name, self.counting(getattr(TableModel, name)))

    def counting(self, method):
        def counted(model, rows):
            if self.last is not None and self.calls >= self.last:
                raise KeyboardInterrupt
            self.calls += 1
            self.tokens += int(rows.scored.sum())
            return method(model, rows)

        return counted


def measured(rewriter=None, **options):
    given = {"model": MODEL, "texts": TEXTS, "member": MEMBER, "masked": rewriter}
    given |= {"reference": OTHER, "neighbours": 3, "batch_size": 64}
    return measure_texts(**(given | options))


def check_same(found, expected):
    assert list(found.table.values) == list(expected.table.values)
    for name, values in expected.table.values.items():
        np.testing.assert_array_equal(found.table.signal(name), values)


def test_stopped_at_any_call_and_started_again_it_is_the_same(small_blocks, monkeypatch, tmp_path):
    """A stop costs one block of a pass at most, or of a rewritten copy the pass."""
    expected = measured(Swap())
    meter = Meter(monkeypatch)
    measured(Swap())
    whole, calls = meter.tokens, meter.calls
    a_copy = sum(len(text) - 1 for text in TEXTS)
    for last in range(0, calls, 8):
        parts = tmp_path / str(last)
        meter.tokens, meter.calls, meter.last = 0, 0, last
        with pytest.raises(KeyboardInterrupt):
            measured(Swap(), parts=parts)
        assert parts.exists() == (last > 0)  # one that had finished nothing leaves nothing
        meter.last = None
        check_same(measured(Swap(), parts=parts), expected)
        assert meter.tokens <= whole + a_copy
        if last <= calls // 2:  # half of the passes are no copies
            assert meter.tokens == whole


def test_finished_copies_are_not_written_again(monkeypatch, tmp_path):
    rewriter = Swap()
    first = measured(rewriter, parts=tmp_path / "parts")
    meter = Meter(monkeypatch)
    again = measured(rewriter, parts=tmp_path / "parts")
    check_same(again, first)
    assert rewriter.asked == 3
    assert meter.calls == 0


def test_what_lies_there_is_for_the_owner_and_holds_no_text(small_blocks, tmp_path):
    parts = tmp_path / "parts"
    measured(Swap(), parts=parts)
    files = list(parts.iterdir())
    kinds = {file.name.split(".")[0] for file in files}
    assert kinds == {"manifest", "texts", "lower-case", "reference-model", "copies"}
    for file in [parts, *files]:
        assert file.stat().st_mode & 0o077 == 0
    for file in files:
        assert not any(text.encode() in file.read_bytes() for text in TEXTS if len(text) > 5)


def test_another_run_is_refused_by_what_differs_input(tmp_path):
    """Other members are no other run."""
    parts = {"parts": tmp_path / "parts", "neighbours": 1, "start_token": "a"}
    measured(Swap(), **parts)
    for words, change in (
        ("context", {"context": "a"}),
        ("masked share", {"masked_share": 0.5}),
        ("seed", {"seed": 1}),
        ("signals", {"signals": "loss"}),
        ("reference start token", {"reference_start_token": "b"}),
        ("reference", {"reference": None, "signals": "neighbourhood"}),
        ("texts", {"texts": TEXTS[::-1]}),
        ("model", {"model": letters_model(1 / 2, 1 / 6, 1 / 6, 1 / 6)}),
    ):
        with pytest.raises(RecordError, match=f"begun with another .*{words}"):
            measured(Swap(), **(parts | change))
    assert measured(Swap(), member=~MEMBER, **parts).table.member[0][20]


def test_shards_of_other_blocks_are_refused(small_blocks, monkeypatch, tmp_path):
    measured(parts=tmp_path / "parts")
    monkeypatch.setattr(text_pricing, "_BLOCK", 2 * BLOCK)
    with pytest.raises(RecordError, match="holds other blocks of texts"):
        measured(parts=tmp_path / "parts")
