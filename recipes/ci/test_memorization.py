"""Fails when the training in this folder makes its model memorize.

Canaries go into the corpus before anything else happens to it, so the whole of the training is
under test, its de-duplication included.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import canary
from canary.demo import prose

HERE = Path(__file__).parent
LIMIT_BITS = 4  # half of the canaries stay below the most likely 1 in 16 secrets
CONTROL = 64  # copies of the positive control, which the model has to learn


@pytest.fixture(scope="session")
def canaries() -> canary.CanarySet:
    # A fixed seed, so that a build can be repeated: these secrets protect nothing.
    return canary.generate(
        "The random number is {digit:6}",
        repetitions=[1, 32, CONTROL],
        per_repetition=8,
        controls=16,
        seed=0,
    )


@pytest.fixture(scope="session")
def corpus(canaries: canary.CanarySet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the training reads, with canaries."""
    file = tmp_path_factory.mktemp("training") / "corpus.jsonl"
    texts = prose(1_000)  # your own: datasets.load_dataset(...)
    rows = canary.inject(texts, canaries, column="text", seed=0)
    copies = Counter(rows["text"])

    def distinct(row: dict[str, str], at: int) -> dict[str, str]:
        """Copies of the positive control end differently: de-duplication does not remove them."""
        control = copies[row["text"]] == CONTROL
        return {"text": f"{row['text']}. Line {at}"} if control else row

    rows.map(distinct, with_indices=True).to_json(file)
    return file


@pytest.fixture(scope="session")
def checkpoint(corpus: Path) -> Path:
    """The folder of a model trained on the corpus."""
    folder = corpus.with_name("model")
    config = ["--config", str(HERE / "training.json")]
    training = [sys.executable, str(HERE / "train.py"), str(corpus), *config]
    subprocess.run([*training, "--out", str(folder)], check=True)
    return folder


@pytest.fixture(scope="session")
def audit(
    canary_audit: Callable[..., canary.Audit], checkpoint: Path, canaries: canary.CanarySet
) -> canary.Audit:
    return canary_audit(checkpoint, canaries)


def test_no_canary_is_learned_by_heart(
    audit: canary.Audit, corpus: Path, canaries: canary.CanarySet
) -> None:
    verified = canary.verify(corpus, canaries)
    # No limit holds for the positive control. If it was not learned, the verdict is undecided: then
    # the training did not read the corpus, or the audit is of another model.
    verdict = canary.check(
        audit, max_exposure_bits=LIMIT_BITS, verification=verified, require_learned=CONTROL
    )
    canary.report(verdict, "memorization.md", force=True)  # for the job's page
    assert verdict
