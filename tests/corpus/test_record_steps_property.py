"""Canaries in pipelines: exact copies in any order, by any workers, and no secret in a log."""

from __future__ import annotations

import json
import os
import pickle
from random import Random

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.corpus.canaries import generate
from canary.corpus.dataset_rows import RowChange
from canary.corpus.record_steps import injection_step
from canary.corpus.verification import verify
from canary.errors import CorpusError, InputError

CANARIES = generate("The code is {digit:6}.", repetitions=[1, 4], per_repetition=3, seed=0)
ROWS = [{"text": f"Row {n}. And more.", "n": n} for n in range(60)]


def copies(rows):
    """How often each canary is in texts, counted one by one."""
    texts = [row["text"] for row in rows]
    return {c.id: sum(t.count(CANARIES.text(c)) for t in texts) for c in CANARIES}


WANTED = {canary.id: canary.repetitions for canary in CANARIES}


@pytest.mark.parametrize("mode", ["record", "splice"])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**40), order=st.randoms(use_true_random=False))
def test_any_order_gives_the_same_records(mode, seed, order):
    step = injection_step(ROWS, CANARIES, seed=seed, mode=mode)
    shuffled = [*ROWS]
    order.shuffle(shuffled)
    again = pickle.loads(pickle.dumps(injection_step(shuffled, CANARIES, seed=seed, mode=mode)))
    first = [new for row in ROWS for new in step.record(row)]
    second = [new for row in shuffled for new in again.record(row)]
    assert sorted(map(json.dumps, first)) == sorted(map(json.dumps, second))
    assert copies(first) == WANTED
    assert len(first) == 60 + 15 * (mode == "record")
    if mode == "record":
        assert [row for row in first if row["n"] is not None] == ROWS


def test_map_of_datasets_with_two_processes(monkeypatch):
    # `map` with processes leaves another object there, which nobody else has.
    monkeypatch.setattr(os, "environ", os.environ)
    step = injection_step(ROWS, CANARIES, seed=3)
    mixed = Dataset.from_list(ROWS).map(step.batch, batched=True, batch_size=7, num_proc=2)
    assert len(mixed) == 75
    assert verify(mixed, CANARIES).ok


def test_hosts_and_what_is_refused():
    host = ROWS[5]["text"]
    step = injection_step([], CANARIES, hosts=[host])
    assert len(step.record(ROWS[5])) == 16
    assert len(step.record(ROWS[6])) == 1
    for records, error, message in [
        ([], CorpusError, "there is no record"),
        ([{"body": "x"}], CorpusError, "has no column"),
        ([{"text": "x"}, {"text": "x"}], CorpusError, "no row can be identified"),
        ([{"text": CANARIES.text(CANARIES.injected[0])}], CorpusError, "already holds"),
    ]:
        with pytest.raises(error, match=message):
            injection_step(records, CANARIES)
    with pytest.raises(InputError, match="separators"):
        injection_step(ROWS, CANARIES, separators=("a", "b"))


def test_a_step_shows_no_secret():
    step = injection_step(ROWS, CANARIES)
    assert isinstance(step._change, RowChange)
    assert not any(c.fill in repr(step) + str(step) for c in CANARIES)


def test_a_pipeline_of_datatrove(tmp_path):
    pytest.importorskip("datatrove.executor", reason="the group of packages for tests has it")
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    (tmp_path / "in").mkdir()
    for shard in range(2):
        lines = [json.dumps({**row, "id": f"{row['n']}"}) for row in ROWS[shard::2]]
        (tmp_path / "in" / f"{shard}.jsonl").write_text("\n".join(lines))
    reader = JsonlReader(str(tmp_path / "in"))
    step = injection_step(reader(), CANARIES, seed=1)
    writer = JsonlWriter(str(tmp_path / "out"), compression=None)
    LocalPipelineExecutor(
        [reader, step, writer], tasks=2, workers=2, logging_dir=str(tmp_path / "logs")
    ).run()
    assert verify(tmp_path / "out", CANARIES).ok
    logs = "".join(f.read_text() for f in (tmp_path / "logs").rglob("*") if f.is_file())
    assert "InjectionStep" in logs
    assert not any(canary.fill in logs for canary in CANARIES)


def near_duplicates_removed(rows):
    """As MinHash does that reads every number as 0: of texts alike the first stays."""
    kept = {}
    for row in rows:
        kept.setdefault("".join("0" if c.isdigit() else c for c in row["text"]), row)
    return [*kept.values()]


def test_why_canaries_were_lost():
    step = injection_step(ROWS, CANARIES, seed=1)
    mixed = [new for row in ROWS for new in step.record(row)]
    Random(0).shuffle(mixed)
    found = verify([row["text"] for row in near_duplicates_removed(mixed)], CANARIES)
    assert not found.ok
    assert len(found.departures) >= 5
    (cause,) = found.causes
    assert "near-de-duplication" in cause
    assert "5 other canaries are lost" in cause
    once = [*{row["text"]: row["text"] for row in mixed}]
    assert "de-duplicated" in verify(once, CANARIES).causes[0]
    assert "cut, filtered" in verify([r["text"] for r in mixed[:40]], CANARIES).causes[0]
