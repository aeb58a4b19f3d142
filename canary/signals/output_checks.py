"""What classifiers gave, checked before it is used: outputs, labels, members, groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.records.validation import brief
from canary.signals.class_signals import Outputs
from canary.statistics.number_checks import softmaxed

_SUM_TOLERANCE = 1e-3
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Piece:
    """Some samples, as they were given.

    Parameters
    ----------
    outputs : ndarray of shape (samples, classes), or (samples,) for losses
    labels, member : ndarray of shape (samples,)
    group : ndarray of shape (samples,) or None
    """

    outputs: NDArray[Any]
    labels: NDArray[Any]
    member: NDArray[Any]
    group: NDArray[Any] | None = None


def checked(piece: Piece, kind: Outputs, *, first: int, where: str) -> Piece:
    """The piece with labels as int64 and members as bool, once all of it has been checked.

    `first` is the number of the first of these samples, and `where` the file, for messages.

    Raises
    ------
    InputError
        If a number, label or flag cannot be what it is said to be.
    """
    outputs = piece.outputs
    if outputs.dtype.kind not in "fiub":
        raise InputError(
            f"{kind} are of the type {outputs.dtype}, numbers were expected",
            cure="save them as floating point numbers",
            where=where,
        )
    if kind == "losses":
        classes = None
        _check_losses(outputs, first, where)
    else:
        if outputs.ndim != 2 or outputs.shape[1] < 2:
            raise InputError(
                f"{kind} have the shape {_shape(outputs)}, expected (samples, classes) with at "
                "least 2 classes",
                cure="give a number for each class, also where there are two",
                where=where,
            )
        classes = outputs.shape[1]
    labels = _labels(piece.labels, classes, first, where)
    if kind == "logits":
        _check_logits(outputs, first, where)
    elif kind == "probs":
        _check_probs(outputs, labels, first, where)
    return Piece(
        outputs, labels, _flags(piece.member, first, where), _groups(piece.group, first, where)
    )


def check_lengths(lengths: dict[str, int], where: str) -> int:
    """The number of samples that all arrays have.

    Raises
    ------
    InputError
        If they differ, or there is none.
    """
    if len({*lengths.values()}) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(
            f"the arrays differ in length: {shown}",
            cure="give one entry per sample in each",
            where=where,
        )
    size = next(iter(lengths.values()))
    if size == 0:
        raise InputError("there are no samples", cure="give at least two", where=where)
    return size


def check_members(member: NDArray[np.bool_], where: str) -> None:
    """An InputError if all samples are members, or none is."""
    if member.all() or not member.any():
        raise InputError(
            f"all {member.size} samples are {'members' if member.any() else 'nonmembers'}",
            cure="give samples of both kinds: some that the model was trained on (member 1) and "
            "some that it never saw (member 0)",
            where=where,
        )


def _groups(given: NDArray[Any] | None, first: int, where: str) -> NDArray[Any] | None:
    """The groups as they are, or an InputError if they are numbers of no group."""
    if given is None or given.dtype.kind not in "fc":
        return given
    bad = ~(np.isfinite(given) & (given == np.floor(given.real)))
    if bad.any():
        at = int(bad.argmax())
        raise InputError(
            f"sample {first + at} has the group {brief(given[at].item())}, expected a whole number "
            "or a name",
            cure="number the groups, or save them as text; give samples without one a group of "
            "their own",
            where=where,
        )
    return given


def _labels(given: NDArray[Any], classes: int | None, first: int, where: str) -> NDArray[np.int64]:
    if given.dtype.kind == "b" and classes is not None and classes > 2:
        raise InputError(
            f"labels are true or false beside outputs of {classes} classes",
            cure="give the number of each sample's class, from 0; whether the model was right is "
            "worked out from it",
            where=where,
        )
    whole = given.dtype.kind in "iub" or (
        given.dtype.kind == "f" and bool((np.floor(given) == given).all())
    )
    if not whole:
        raise InputError(
            f"labels are {_unlike_labels(given, first)}, whole numbers were expected",
            cure="number the classes from 0, and give one number for each sample",
            where=where,
        )
    with np.errstate(invalid="ignore"):  # beyond int64 they are out of any range
        labels = given.astype(np.int64)
    bad = labels < 0 if classes is None else (labels < 0) | (labels >= classes)
    if bad.any():
        at = int(bad.argmax())
        most = "" if classes is None else f" to {classes - 1}"
        raise InputError(
            f"sample {first + at} has the label {labels[at]}, expected 0{most}",
            cure="number the classes from 0, in the order of the outputs",
            where=where,
        )
    return labels


def _unlike_labels(given: NDArray[Any], first: int) -> str:
    """What labels are that are no whole numbers."""
    if given.dtype.kind != "f":
        return f"of the type {given.dtype}"
    at = int((np.floor(given) != given).argmax())
    return f"decimals (sample {first + at} has {brief(given[at].item())})"


def _flags(given: NDArray[Any], first: int, where: str) -> NDArray[np.bool_]:
    member = given == 1 if given.dtype.kind in "biuf" else np.zeros(given.shape, np.bool_)
    bad = ~(member | (given == 0))
    if bad.any():
        at = int(bad.argmax())
        flag = given[at : at + 1].tolist()[0]  # of texts and dates, too
        raise InputError(
            f"sample {first + at} has the member flag {brief(flag)}, expected 0 or 1",
            cure="write 1 for samples that the model was trained on and 0 for the others",
            where=where,
        )
    return np.asarray(member, np.bool_)


def _check_logits(logits: NDArray[Any], first: int, where: str) -> None:
    half = " (float16 holds nothing above 65,504)" if logits.dtype == np.float16 else ""
    # A maximum is NaN if any number is, and finite if one is and none is infinite.
    _refuse(
        ~np.isfinite(logits.max(axis=1)),
        f"have NaN or infinite logits{half}",
        "look for a diverged model, or save logits as float32; a class may have minus "
        "infinity, not all",
        first,
        where,
    )
    _refuse(
        np.full(len(logits), softmaxed(logits)),
        "have logits that are probabilities: all are within 0 and 1, and each row sums to 1",
        'give them the name probs (outputs="probs"), or take the softmax out',
        first,
        where,
    )


def _check_probs(probs: NDArray[Any], labels: NDArray[np.int64], first: int, where: str) -> None:
    with np.errstate(invalid="ignore"):
        total = probs.sum(axis=1, dtype=np.float64)
    percent = bool((np.abs(total - 100.0) <= 100 * _SUM_TOLERANCE).all())
    _refuse(np.isnan(total), "have NaN probabilities", "look for a diverged model", first, where)
    # NaN and the infinities are out by here or by the next two.
    bad = ~(np.abs(total - 1.0) <= _SUM_TOLERANCE)
    _refuse(
        bad,
        f"have probabilities that do not sum to one (the first to {total[bad.argmax()]:.6g})",
        "divide them by 100: they are percentages"
        if percent
        else "give them the name logits if they are, or apply the softmax",
        first,
        where,
    )
    negative = probs.min(axis=1) < 0
    _refuse(negative, "have negative probabilities", "apply the softmax", first, where)
    if probs.dtype == np.float16:
        _refuse(
            probs[np.arange(len(labels)), labels] == 0,
            "have the probability 0 for their own label, in float16, which holds nothing "
            "below 3e-8: their loss is lost",
            "save logits, or probabilities as float32",
            first,
            where,
        )


def _check_losses(losses: NDArray[Any], first: int, where: str) -> None:
    if losses.ndim != 1:
        raise InputError(
            f"losses have the shape {_shape(losses)}, expected one number per sample",
            cure="do not average over samples",
            where=where,
        )
    _refuse(
        ~(losses >= 0),
        "have losses that are NaN or negative",
        "give -log of the probability of the label, in nats",
        first,
        where,
    )


def _refuse(bad: NDArray[np.bool_], what: str, cure: str, first: int, where: str) -> None:
    """An InputError that names samples, if any is bad."""
    samples = first + np.flatnonzero(bad)
    if not len(samples):
        return
    shown = ", ".join(map(str, samples[:_SHOWN]))
    more = f" and {len(samples) - _SHOWN} more" if len(samples) > _SHOWN else ""
    plural = "s" if len(samples) > 1 else ""
    raise InputError(f"sample{plural} {shown}{more} {what}", cure=cure, where=where)


def _shape(array: NDArray[Any]) -> str:
    return str(tuple(map(int, array.shape)))
