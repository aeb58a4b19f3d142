"""Test losses out of files of scores, for comparing the utility of models."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canary.errors import InputError, RecordError
from canary.statistics.units import LN2

__all__ = ["measured_losses"]

_CURE = "name a file that canary score wrote"


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
    texts, tokens, bits = 0, 0, []
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                line, priced, px = _record(raw, f"{path}:{number}")
                digest.update(b"%d %d\n" % (line, priced))
                texts, tokens = texts + 1, tokens + priced
                bits.append(px)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RecordError(f"cannot be read ({reason})", cure=_CURE, where=str(path)) from error
    if not tokens:
        raise RecordError("holds no score of a token", cure=_CURE, where=str(path))
    return _Scores(path, texts, tokens, math.fsum(bits), digest.hexdigest())


def _record(raw: bytes, where: str) -> tuple[int, int, float]:
    try:
        record: Any = json.loads(raw)
        line, tokens, px = record["line"], record["tokens"], record["px_bits"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError("is no score of a text", cure=_CURE, where=where) from error
    if px is None:
        raise InputError(
            "the model gives this text probability 0, so its loss has no end",
            cure="leave the text out of all files of scores, or compare exposure only",
            where=where,
        )
    whole = type(line) is int and type(tokens) is int and tokens >= 0
    if not whole or type(px) not in (int, float) or not 0 <= px < math.inf:
        raise RecordError("is no score of a text", cure=_CURE, where=where)
    return line, tokens, float(px)
