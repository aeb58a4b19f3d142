"""What models said of one set of samples: losses from tables, files or arrays; shared samples."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.scoring.score_job import Scores, read_scores
from canary.signals.measuring import table_of_file
from canary.signals.signal_table import SignalTable
from canary.statistics.number_checks import LN2

Said = Any
"""A path of a file of outputs or (``.jsonl``) of scores that ``canary score`` wrote, a
`SignalTable`, an array of losses of shape (samples,) or (models, samples), or a list of
these."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The losses of one or several models on the same samples.

    `losses` of shape (models, samples) are in nats, infinite where the probability is 0. `correct`
    of shape (models,) is the share of samples that each model classifies rightly, where that is
    known. `labels` are of shape (samples,), or (samples, 2) for the lines of scored texts and their
    numbers of tokens: models that were asked about the same samples have the same. `classes` is 0
    where it is not known. `members` of shape (models,) are the samples that are flagged as members
    of each model.
    """

    losses: NDArray[np.float64]
    correct: NDArray[np.float64] | None
    labels: NDArray[np.int64] | None
    sources: tuple[str, ...]
    classes: int = 0
    members: tuple[int, ...] = ()

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.losses)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return int(self.losses.shape[1])


def answers_of(given: Said, name: str) -> Answers:
    """The losses that were given, checked; of scores of texts the mean over the tokens."""
    if isinstance(given, list | tuple) and not all(isinstance(part, int | float) for part in given):
        parts = [answers_of(part, f"{name} {number}") for number, part in enumerate(given, 1)]
        for number, part in enumerate(parts[1:], 2):
            check_same_samples(parts[0], part, f"{name} {number}")
        known = [part.correct for part in parts if part.correct is not None]
        return Answers(
            np.concatenate([part.losses for part in parts]),
            np.concatenate(known) if len(known) == len(parts) else None,
            parts[0].labels,
            tuple(source for part in parts for source in part.sources),
            parts[0].classes,
            tuple(number for part in parts for number in part.members),
        )
    if isinstance(given, str | os.PathLike):
        if Path(given).suffix.lower() == ".jsonl":
            return _of_scores(read_scores(given))
        given = table_of_file(given, members=False)
    if isinstance(given, SignalTable):
        right = given.values.get("correctness")
        correct = None if right is None else right.mean(axis=1)
        sources = (given.source,) * given.models
        members = tuple(map(int, given.member.sum(axis=1)))
        return Answers(given.signal("loss"), correct, given.label, sources, given.classes, members)
    return _of_array(given, name)


def _of_scores(scores: Scores) -> Answers:
    if not scores.tokens.all():
        text = int(scores.tokens.argmin())
        problem = "the text has no token that was scored, and so no loss"
        cure = "leave it out of the query set, or score with a start token"
        raise InputError(problem, cure=cure, where=f"{scores.path}:{text + 1}")
    nats = scores.px_bits * LN2 / scores.tokens
    # Texts that are the same have the same lines and, under one tokenizer, as many tokens.
    same = np.stack([scores.lines, scores.tokens], axis=1)
    return Answers(nats[None, :], None, same, (str(scores.path),), members=(0,))


def _of_array(given: Any, name: str) -> Answers:
    try:
        array = np.asarray(given)
        if array.dtype.kind in "bcMmSUV":
            raise TypeError(f"of the type {array.dtype}")
        losses = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        problem = f"expected losses, got {type(given).__name__} ({error})"
        cure = "give a file of outputs, what canary.measure gave, or an array of losses"
        raise InputError(problem, cure=cure, where=name) from error
    if losses.ndim == 1:
        losses = losses[None, :]
    if losses.ndim != 2 or not losses.size:
        problem = f"losses of shape {np.shape(given)}, expected (samples,) or (models, samples)"
        cure = "give one loss per sample; outputs go through canary.measure"
        raise InputError(problem, cure=cure, where=name)
    if not (losses >= 0).all():  # NaN is not, either
        row, sample = map(int, np.argwhere(~(losses >= 0))[0])
        problem = f"the loss of sample {sample} of model {row} is {losses[row, sample]}"
        cure = "give -log of the probability of the label, in nats"
        raise InputError(problem, cure=cure, where=name)
    return Answers(losses, None, None, (name,) * len(losses), members=(0,) * len(losses))


def check_same_samples(mine: Answers, other: Answers, name: str) -> None:
    """An InputError if the two cannot be of the same samples in the same order."""
    if mine.samples != other.samples:
        problem = f"losses of {other.samples:,} samples beside {mine.samples:,} of others"
    elif mine.labels is None or other.labels is None:
        return
    elif mine.labels.shape != other.labels.shape:
        problem = "scores of texts beside outputs of a classifier"
    else:
        unlike = (mine.labels != other.labels).reshape(mine.samples, -1)
        differ = np.flatnonzero(unlike.any(axis=1))
        if not len(differ):
            return
        what = "labels" if mine.labels.ndim == 1 else "lines or numbers of tokens"
        problem = (
            f"{what} differ from those of others at {len(differ):,} samples, "
            f"the first at {differ[0]:,}"
        )
    cure = "ask every model about the same samples, the query set, in the same order"
    raise InputError(problem, cure=cure, where=name)


def shared_samples(first: Iterable[Any], second: Iterable[Any]) -> NDArray[np.int64]:
    """Positions in `first` of the samples that are in `second` too, by their hashes.

    Samples are texts, or the entries of an array_like of shape (samples, ...). Equal means equal
    to the last bit and of one type: an image as uint8 and the same image as float differ, and so
    do texts with another line end.
    """
    known = {_digest(sample) for sample in second}
    places = [place for place, sample in enumerate(first) if _digest(sample) in known]
    return np.array(places, np.int64)


def _digest(sample: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(sample, str):
        digest.update(b"text" + sample.encode("utf-8", "surrogatepass"))
    else:
        array = np.ascontiguousarray(sample)
        digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return digest.digest()
