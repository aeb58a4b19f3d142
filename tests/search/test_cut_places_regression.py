"""With a fixed batch size, an enumeration stopped anywhere gives the bits of one in one go."""

from __future__ import annotations

import random

import numpy as np
import pytest
from small_models import build
from walk_cases import told

from canary.formats.format import Format
from canary.records.shards import open_run
from canary.scoring.batcher import Batcher
from canary.search import ranking
from canary.search.pricing import Pricer
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree

FORMAT = Format("a{digit:2}{choice:b|cd|ce}")
BATCH = 7


class Killed(BaseException):
    """Nothing handles it, as nothing handles a SIGKILL."""


def mortal(model, calls, batch_size=BATCH):
    """A batcher that ends the run at that call of the model."""
    batcher, left = Batcher(model, batch_size=batch_size), iter(range(1, calls))

    def count(*_given, **_options):
        if next(left, None) is None:
            raise Killed

    batcher.score, batcher.expand = told(batcher.score, count), told(batcher.expand, count)
    return batcher


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
        fills, keep = ["07b", "55cd", "98ce"], np.arange(FORMAT.size)
        return ranking.rank_all(pricer, batcher, fills, keep=keep, shards=shards)


def bits(found):
    census = found.census
    return (
        found.canaries.px_bits.tobytes(),
        census.kept_bits.tobytes(),
        [census.rank.tolist(), census.lower.tolist(), census.upper.tolist()],
        census.histogram.to_dict(),
        found.queries,
    )


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(ranking, "_BATCHES_PER_RANGE", 6)
    monkeypatch.setattr(ranking, "FILLS_AT_ONCE", 40)
    monkeypatch.setattr(ranking, "Pace", Weather)


@pytest.mark.parametrize(
    ("name", "method", "stride"), [("gpt2", "tree", 29), ("lstm", "tree", 29), ("lstm", "rows", 5)]
)
def test_killed_anywhere_gives_the_same_bits(method, stride, name, tmp_path):
    """Kills all along the run, and ranges as long as chance has them."""
    model = build(name)
    whole = ranked(model, method, Batcher(model, batch_size=BATCH))
    assert whole.census.candidates == FORMAT.size
    kills, ended = 0, False
    while not ended:
        folder = tmp_path / str(kills)
        try:
            with open_run(folder, {}) as run:
                batcher = mortal(model, 2 + kills * stride)
                found = ranked(model, method, batcher, run.series("census"))
                ended = True
        except Killed:
            kills += 1
            with open_run(folder, {}) as run:
                batcher = Batcher(model, batch_size=BATCH)
                found = ranked(model, method, batcher, run.series("census"))
        assert bits(found) == bits(whole), kills
    assert kills > 1


def test_another_batch_size_goes_on_at_the_next_place(tmp_path):
    """What is finished is kept, wherever it ends; every candidate is counted once."""
    model = build("gpt2")
    with open_run(tmp_path, {}) as run:
        with pytest.raises(Killed):
            ranked(model, "tree", mortal(model, 12), run.series("census"))
        found = ranked(model, "tree", Batcher(model, batch_size=5), run.series("census"))
        ends = [shard.state["stop"] for shard in [*run.series("census")][1:]]
    assert found.census.candidates == FORMAT.size
    assert all(end % 42 == 0 or end % 30 == 0 or end == FORMAT.size for end in ends)
