"""What the processes of `long_runs` do: small pieces, a little slowly."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path

import scipy.stats  # noqa: F401 - imported once here, not in every process
from small_models import table_model

from canary.audits.auditing import audit as measure
from canary.corpus.canaries import CanarySet
from canary.passages import verbatim as passages
from canary.records import shards
from canary.scoring import batcher, score_job, texts
from canary.search import ranking

NAP = 0.002
SMALL_PIECES = [
    (texts, "_TEXTS", 16),
    (passages, "_BLOCK", 200),
    (score_job, "_SHARD_SECONDS", 0.0),
    (ranking, "FILLS_AT_ONCE", 100),
    (ranking, "FILLS_AT_ONCE", 100),
    (ranking, "_BATCHES_PER_RANGE", 2),
]
for module, name, value in SMALL_PIECES:
    assert hasattr(module, name), name  # one that is set in vain leaves a single piece
    setattr(module, name, value)
MODELS = {"table": table_model, "other": partial(table_model, seed=6)}


class Weather(shards.Pace):
    """Ranges of any size, another one in each process: nothing that is found depends on it."""

    def observe(self, items, seconds):
        self.items = random.Random(time.monotonic_ns()).randrange(100, 400)


ranking.Pace = partial(Weather, first=300)


def slowly(method):
    def slow(self, *args, **options):
        time.sleep(NAP)
        return method(self, *args, **options)

    return slow


batcher.Batcher.decoded = slowly(batcher.Batcher.decoded)
batcher.Batcher.score = slowly(batcher.Batcher.score)
batcher.Batcher.expand = slowly(batcher.Batcher.expand)


def score(source, target, model="table", **options):
    score_job.score_file(MODELS[model](), source, target, batch_size=8, **options)


def audit(canaries, out, model="table", **options):
    """As the command does it."""
    folder = Path(out)
    folder.mkdir(exist_ok=True)
    found = measure(
        MODELS[model](),
        CanarySet.load(canaries),
        parts=folder / "parts",
        **{"batch_size": 64, **options},
    )
    shards.publish(folder / "parts", folder / "audit.json", found.save, replaces=("canary audit",))
    shards.discard_run(folder / "parts")


def verbatim(given, out, model="table", **options):
    """As the command does it."""
    folder = Path(out)
    folder.mkdir(exist_ok=True)
    found = passages.verbatim(MODELS[model](), given, parts=folder / "parts", **options)
    place = folder / "verbatim.json"
    shards.publish(folder / "parts", place, found.save, replaces=("canary verbatim",))
    shards.discard_run(folder / "parts")
