"""Files of scores read again: the log-perplexity of each text."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, RecordError

_CURE = "name a file that canary score wrote"


@dataclass(frozen=True, eq=False)
class Scores:
    """What ``canary score`` wrote of the texts of a file.

    Parameters
    ----------
    path : Path
    lines, tokens : int64 arrays of shape (texts,)
        The line of each text, and how many of its tokens were priced.
    px_bits : float64 array of shape (texts,)
        Total log-perplexity; infinite where the model gives a text probability 0.
    """

    path: Path
    lines: NDArray[np.int64]
    tokens: NDArray[np.int64]
    px_bits: NDArray[np.float64]


def read_scores(path: str | os.PathLike[str]) -> Scores:
    """The scores of a file that ``canary score`` wrote.

    Raises
    ------
    RecordError
        If it cannot be read, holds something else, or no score of any token.
    """
    place = Path(path)
    records = []
    try:
        with place.open("rb") as file:
            for number, raw in enumerate(file, 1):
                records.append(_record(raw, f"{place}:{number}"))
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RecordError(f"cannot be read ({reason})", cure=_CURE, where=str(place)) from error
    lines, tokens, px = zip(*records, strict=True) if records else ((), (), ())
    if not any(tokens):
        raise RecordError("holds no score of a token", cure=_CURE, where=str(place))
    return Scores(
        place, np.array(lines, np.int64), np.array(tokens, np.int64), np.array(px, np.float64)
    )


def _record(raw: bytes, where: str) -> tuple[int, int, float]:
    try:
        record: Any = json.loads(raw)
        line, tokens, px = record["line"], record["tokens"], record["px_bits"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError("is no score of a text", cure=_CURE, where=where) from error
    px = math.inf if px is None else px
    whole = all(type(n) is int and 0 <= n < 1 << 63 for n in (line, tokens))
    if (
        not whole
        or type(px) not in (int, float)
        or not px >= 0
        or (px == math.inf) != (record["px_bits"] is None)
    ):
        raise RecordError("is no score of a text", cure=_CURE, where=where)
    return line, tokens, float(px)
