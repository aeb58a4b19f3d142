"""Test losses out of files of scores, for comparing the utility of models."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from canary.errors import InputError
from canary.scoring.score_files import read_scores
from canary.statistics.units import LN2

__all__ = ["measured_losses"]


@dataclass(frozen=True)
class _Scores:
    path: Path
    texts: int
    tokens: int
    px_bits: float
    digest: str

    @property
    def loss_nats(self) -> float:
        return self.px_bits * LN2 / self.tokens


def measured_losses(paths: Sequence[str | os.PathLike[str]]) -> list[float]:
    """Mean loss per token of each file that ``canary score`` wrote, in nats.

    Parameters
    ----------
    paths : sequence of path-like
        Scores of the same texts by different models.

    Raises
    ------
    InputError
        If the files are not about the same lines with the same numbers of tokens: then
        texts or tokenizers differ, and a loss per token does not compare. If a model gives
        a text probability 0, which makes its loss infinite.
    RecordError
        If a file cannot be read or holds something else than scores.
    """
    found = [_read(Path(path)) for path in paths]
    for other in found[1:]:
        if other.digest != found[0].digest:
            raise InputError(
                f"its scores ({other.texts:,} texts, {other.tokens:,} tokens) and those in "
                f"{found[0].path} ({found[0].texts:,} texts, {found[0].tokens:,} tokens) are not "
                "of the same texts in the same tokens, so their losses per token do not compare",
                cure="score the same file with each model; of models with different "
                "tokenizers compare exposure only",
                where=str(other.path),
            )
    return [one.loss_nats for one in found]


def _read(path: Path) -> _Scores:
    found = read_scores(path)
    endless = np.flatnonzero(np.isinf(found.px_bits))
    if len(endless):
        raise InputError(
            "the model gives this text probability 0, so its loss has no end",
            cure="leave the text out of all files of scores, or compare exposure only",
            where=f"{path}:{endless[0] + 1}",
        )
    about = np.stack([found.lines, found.tokens]).tobytes()
    return _Scores(
        path,
        len(found.lines),
        int(found.tokens.sum()),
        math.fsum(found.px_bits),
        hashlib.sha256(about).hexdigest(),
    )
