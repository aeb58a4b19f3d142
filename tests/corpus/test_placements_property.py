"""Placements are kept privately, as plain data."""

from __future__ import annotations

import json
import stat
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.places import Homes
from canary.errors import CorpusError


@settings(max_examples=50)
@given(homes=st.lists(st.booleans(), min_size=1), copies=st.integers(1, 9), seed=st.integers(0, 99))
def test_copies_are_spread_over_their_homes(homes, copies, seed):
    pool = Homes(None, seed, [copies, 2])
    for at, fits in enumerate(homes):
        if fits:
            pool.offer(at)
    if not any(homes):
        with pytest.raises(CorpusError, match="no record can take"):
            pool.guests()
        return
    guests = pool.guests()
    assert list(guests) == sorted(guests)
    assert all(homes[at] for at in guests)
    found = Counter(who for mine in guests.values() for who, _ in mine)
    assert found == {0: copies, 1: 2}
    rounds, rest = divmod(copies + 2, sum(homes))
    sizes = Counter(len(mine) for mine in guests.values())
    assert sizes == +Counter(
        {rounds: sum(homes) * bool(rounds) - rest * bool(rounds), rounds + 1: rest}
    )


def test_saved_placements_point_at_the_copies(tmp_path):
    source, target, kept = (tmp_path / name for name in ("in.jsonl", "out.jsonl", "where.json"))
    source.write_text('{"id": 1, "text": "a"}\n' * 50)
    canaries = generate("{digit:9}", repetitions=[1, 3], per_repetition=2, seed=0)
    inject_file(source, target, canaries, seed=9).save(kept)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    data = json.loads(kept.read_text())
    assert (data["kind"], data["schema"]) == ("canary placements", 1)
    assert (data["column"], data["seed"], data["total_lines"]) == ("text", 9, 58)
    lines = target.read_text().splitlines()
    assert list(data["lines"]) == [canary.id for canary in canaries.injected]
    for canary in canaries.injected:
        assert len(data["lines"][canary.id]) == canary.repetitions
        for number in data["lines"][canary.id]:
            assert json.loads(lines[number - 1]) == {"id": None, "text": canaries.text(canary)}
    assert not any(canary.fill in kept.read_text() for canary in canaries)
