"""What models said of one set of samples: the loss of each, from tables, files or arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.scoring.score_files import Scores, read_scores
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

    Parameters
    ----------
    losses : float64 array of shape (models, samples)
        Nats; infinite where the probability is 0.
    correct : float64 array of shape (models,) or None
        Share of samples that each model classifies rightly, where that is known.
    labels : int64 array of shape (samples,) or (samples, 2), or None
        The labels, or the lines of scored texts and their numbers of tokens: models that were asked
        about the same samples have the same. None for an array of losses.
    sources : tuple of str
        Where each model's come from.
    """

    losses: NDArray[np.float64]
    correct: NDArray[np.float64] | None
    labels: NDArray[np.int64] | None
    sources: tuple[str, ...]

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.losses)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return int(self.losses.shape[1])


def answers_of(given: Said, name: str) -> Answers:
    """The losses that were given, checked; of scores of texts the mean over the tokens.

    Raises
    ------
    InputError
        If there is nothing, a loss is NaN or negative, or the models of a list were asked
        about different samples.
    """
    if isinstance(given, list | tuple) and not all(isinstance(one, int | float) for one in given):
        return _stacked([answers_of(one, f"{name} {at}") for at, one in enumerate(given, 1)], name)
    if isinstance(given, str | os.PathLike):
        if Path(given).suffix.lower() == ".jsonl":
            return _of_scores(read_scores(given))
        given = table_of_file(given, members=False)
    if isinstance(given, SignalTable):
        right = given.values.get("correctness")
        return Answers(
            given.signal("loss"),
            None if right is None else right.mean(axis=1),
            given.label,
            (given.source,) * given.models,
        )
    return _of_array(given, name)


def _of_scores(scores: Scores) -> Answers:
    if not scores.tokens.all():
        at = int(scores.tokens.argmin())
        raise InputError(
            "the text has no token that was priced, and so no loss",
            cure="leave it out of the query set, or score with a start token",
            where=f"{scores.path}:{at + 1}",
        )
    nats = scores.px_bits * LN2 / scores.tokens
    # Texts that are the same have the same lines and, under one tokenizer, as many tokens.
    same = np.stack([scores.lines, scores.tokens], axis=1)
    return Answers(nats[None, :], None, same, (str(scores.path),))


def _of_array(given: Any, name: str) -> Answers:
    try:
        array = np.asarray(given)
        if array.dtype.kind in "bcMmSUV":
            raise TypeError(f"of the type {array.dtype}")
        losses = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"expected losses, got {type(given).__name__} ({error})",
            cure="give a file of outputs, what canary.measure gave, or an array of losses",
            where=name,
        ) from error
    if losses.ndim == 1:
        losses = losses[None, :]
    if losses.ndim != 2 or not losses.size:
        raise InputError(
            f"losses of shape {np.shape(given)}, expected (samples,) or (models, samples)",
            cure="give one loss per sample; outputs go through canary.measure",
            where=name,
        )
    if not (losses >= 0).all():  # NaN is not, either
        row, at = map(int, np.argwhere(~(losses >= 0))[0])
        raise InputError(
            f"the loss of sample {at} of model {row} is {losses[row, at]}",
            cure="give -log of the probability of the label, in nats",
            where=name,
        )
    return Answers(losses, None, None, (name,) * len(losses))


def _stacked(parts: Sequence[Answers], name: str) -> Answers:
    first = parts[0]
    for at, part in enumerate(parts[1:], 2):
        check_same_samples(first, part, f"{name} {at}")
    known = [part.correct for part in parts if part.correct is not None]
    return Answers(
        np.concatenate([part.losses for part in parts]),
        np.concatenate(known) if len(known) == len(parts) else None,
        first.labels,
        tuple(source for part in parts for source in part.sources),
    )


def check_same_samples(one: Answers, other: Answers, name: str) -> None:
    """An InputError if the two cannot be of the same samples in the same order."""
    if one.samples != other.samples:
        raise InputError(
            f"losses of {other.samples:,} samples beside {one.samples:,} of others",
            cure="ask every model about the same samples, the query set, in the same order",
            where=name,
        )
    if one.labels is not None and other.labels is not None:
        if one.labels.shape != other.labels.shape:
            raise InputError(
                "scores of texts beside outputs of a classifier",
                cure="ask every model about the same samples, the query set, in the same order",
                where=name,
            )
        unlike = (one.labels != other.labels).reshape(one.samples, -1)
        differ = np.flatnonzero(unlike.any(axis=1))
        if len(differ):
            what = "labels" if one.labels.ndim == 1 else "lines or numbers of tokens"
            raise InputError(
                f"{what} differ from those of others at {len(differ):,} samples, "
                f"the first at {differ[0]:,}",
                cure="ask every model about the same samples, the query set, in the same order",
                where=name,
            )
