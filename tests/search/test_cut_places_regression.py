"""With a fixed batch size, an enumeration stopped anywhere gives the bits of one in one go."""

from __future__ import annotations

import random

import numpy as np
import pytest
from small_models import build

from canary.formats.format import Format
from canary.records.shards import open_run
from canary.scoring.batcher import Batcher
from canary.search import ranking
from canary.search.pricing import Pricer
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree

FORMAT = Format("a{digit:2}{choice:b|cd|ce}")
FILLS = ["07b", "55cd", "98ce"]
BATCH = 7


class Killed(BaseException):
    """Nothing handles it, as nothing handles a SIGKILL."""


class MortalBatcher(Batcher):
    """Ends the run at its n-th call of the model."""

    def __init__(self, model, left):
        super().__init__(model, batch_size=BATCH)
        self.left = left

    def _count(self):
        self.left -= 1
        if not self.left:
            raise Killed

    def score(self, rows):
        self._count()
        return super().score(rows)

    def expand(self, walker, nodes, tokens, *, keep=True):
        self._count()
        return super().expand(walker, nodes, tokens, keep=keep)


class Weather:
    """A pace that changes with whatever else the machine does."""

    rng = random.Random(0)

    @property
    def items(self):
        return self.rng.randrange(1, 120)

    def observe(self, items, seconds):
        pass


def ranked(model, method, batcher, shards=None):
    encoder = CandidateEncoder(model.tokenizer)
    tree = None if method == "rows" else compile_tree(FORMAT, encoder)
    with Pricer(model, FORMAT, encoder, tree, model.facts.noise_bits(8), 2**22) as pricer:
        keep = np.arange(FORMAT.size)
        return ranking.rank_all(pricer, batcher, FILLS, keep=keep, shards=shards)


def bits(found):
    census = found.census
    return (
        found.canaries.px_bits.tobytes(),
        census.kept_bits.tobytes(),
        [census.rank.tolist(), census.lower.tolist(), census.upper.tolist()],
        census.histogram.to_dict(),
        found.queries,
    )


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(ranking, "_BATCHES_PER_RANGE", 6)
    monkeypatch.setattr(ranking, "FILLS_AT_ONCE", 40)
    monkeypatch.setattr(ranking, "Pace", Weather)


@pytest.mark.parametrize("name", ["gpt2", "lstm"])
@pytest.mark.parametrize(("method", "stride"), [("tree", 21), ("rows", 3)])
def test_killed_anywhere_gives_the_same_bits(method, stride, name, small_pieces, tmp_path):
    """Kills all along the run, and ranges as long as chance has them."""
    model = build(name)
    whole = ranked(model, method, Batcher(model, batch_size=BATCH))
    assert whole.census.candidates == FORMAT.size
    kills = 0
    for left in range(2, 300, stride):
        folder = tmp_path / str(left)
        batcher = MortalBatcher(model, left)
        try:
            with open_run(folder, {}) as run:
                found = ranked(model, method, batcher, run.series("census"))
        except Killed:
            kills += 1
            with open_run(folder, {}) as run:
                found = ranked(model, method, MortalBatcher(model, 0), run.series("census"))
        assert bits(found) == bits(whole), left
        if batcher.left > 0:
            break
    assert kills > 1


def test_another_batch_size_goes_on_at_the_next_place(small_pieces, tmp_path):
    """What is finished is kept, wherever it ends; every candidate is counted once."""
    model = build("gpt2")
    with open_run(tmp_path, {}) as run:
        batcher = MortalBatcher(model, 12)
        with pytest.raises(Killed):
            ranked(model, "tree", batcher, run.series("census"))
        batcher = Batcher(model, batch_size=5)
        found = ranked(model, "tree", batcher, run.series("census"))
        ends = [shard.state["stop"] for shard in [*run.series("census")][1:]]
    assert found.census.candidates == FORMAT.size
    assert all(end % 42 == 0 or end % 30 == 0 or end == FORMAT.size for end in ends)
