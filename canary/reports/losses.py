"""Test losses out of files of scores, for comparing the utility of models."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from canary.errors import InputError
from canary.scoring.score_files import Scores, read_scores
from canary.statistics.number_checks import LN2


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
    losses, first = [], None
    for path in map(Path, paths):
        scores = read_scores(path)
        endless = np.flatnonzero(np.isinf(scores.px_bits))
        if len(endless):
            raise InputError(
                "the model gives this text probability 0, so its loss has no end",
                cure="leave the text out of all files of scores, or compare exposure only",
                where=f"{path}:{endless[0] + 1}",
            )
        first = first or (path, scores)
        if any(
            not np.array_equal(getattr(scores, name), getattr(first[1], name))
            for name in ("lines", "tokens")
        ):
            raise InputError(
                f"its scores ({_size(scores)}) and those in {first[0]} ({_size(first[1])}) are not "
                "of the same texts in the same tokens, so their losses per token do not compare",
                cure="score the same file with each model; of models with different "
                "tokenizers compare exposure only",
                where=str(path),
            )
        losses.append(math.fsum(scores.px_bits) * LN2 / int(scores.tokens.sum()))
    return losses


def _size(scores: Scores) -> str:
    return f"{len(scores.lines):,} texts, {int(scores.tokens.sum()):,} tokens"
