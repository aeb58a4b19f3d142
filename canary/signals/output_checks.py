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
_FEW = 20  # rows that may sum to 1 or 100 by accident
_ROUNDED = 0.05  # how far sums of rounded numbers are from their whole, at most
_CLIPPED = 0.05  # share of the rows that have a logit at one bound, at least
_HARMLESS = 11.0  # bounds beyond it hide what is less likely than 2e-5
_NEXT, _PILE, _VALUES = 0.01, 20, 100  # see _bound


@dataclass(frozen=True, eq=False)
class Piece:
    """Some samples, as they were given.

    `outputs` have the shape (samples, classes), or (samples,) for losses; labels, members, groups
    and the caller's own names of the samples (samples,).
    """

    outputs: NDArray[Any]
    labels: NDArray[Any]
    member: NDArray[Any]
    group: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None


def checked(piece: Piece, kind: Outputs, *, first: int, where: str) -> Piece:
    """The piece with labels as int64 and members as bool, once all of it has been checked.

    `first` is the number of the first of these samples, and `where` the file, for messages.

    Raises
    ------
    InputError
        If a number, label or flag cannot be what it is said to be.
    """
    outputs, refusing = piece.outputs, _Refusing(first, where)
    if outputs.dtype.kind not in "fiub":
        problem = f"{kind} are of the type {outputs.dtype}, numbers were expected"
        raise InputError(problem, cure="save them as floating point numbers", where=where)
    shape = tuple(map(int, outputs.shape))
    if kind == "losses" and outputs.ndim != 1:
        problem = f"losses have the shape {shape}, expected one number per sample"
        raise InputError(problem, cure="do not average over samples", where=where)
    if kind != "losses" and (outputs.ndim != 2 or outputs.shape[1] < 2):
        raise InputError(
            f"{kind} have the shape {shape}, expected (samples, classes) with at least 2 classes",
            cure="give a number for each class, also where there are two",
            where=where,
        )
    if kind == "losses":
        what = "have losses that are NaN or negative"
        refusing.samples(
            ~(outputs >= 0), what, "give -log of the probability of the label, in nats"
        )
    labels = _labels(piece.labels, None if kind == "losses" else outputs.shape[1], refusing)
    if kind == "logits":
        _check_logits(outputs, refusing)
    elif kind == "probs":
        _check_probs(outputs, labels, refusing)
    given = piece.member
    member = given == 1 if given.dtype.kind in "biuf" else np.zeros(given.shape, np.bool_)
    cure = "write 1 for samples that the model was trained on and 0 for the others"
    refusing.value(~(member | (given == 0)), given, "member flag", "0 or 1", cure)
    group = piece.group
    if group is not None and group.dtype.kind in "fc":
        broken = ~(np.isfinite(group) & (group == np.floor(group.real)))
        cure = (
            "number the groups, or save them as text; give samples without one a group of their own"
        )
        refusing.value(broken, group, "group", "a whole number or a name", cure)
    ids = piece.ids
    if ids is not None and ids.dtype.kind not in "iufU":
        ids = ids.astype(str)
    return Piece(outputs, labels, np.asarray(member, np.bool_), group, ids)


def check_lengths(lengths: dict[str, int], where: str) -> int:
    """The number of samples that all arrays have; an `InputError` if they differ, or it is 0."""
    if len({*lengths.values()}) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        problem = f"the arrays differ in length: {shown}"
        flags = ": as member a flag for each, 1 or 0, and not the numbers of the members"
        cure = f"give one entry per sample in each{flags * ('member' in lengths)}"
        raise InputError(problem, cure=cure, where=where)
    size = next(iter(lengths.values()))
    if size == 0:
        raise InputError("there are no samples", cure="give at least two", where=where)
    return size


def check_members(member: NDArray[np.bool_], where: str) -> None:
    """An InputError if all samples are members, or none is."""
    if member.all() or not member.any():
        raise InputError(
            f"all {member.size} samples are {'members' if member.any() else 'non-members'}",
            cure="give samples of both kinds: some that the model was trained on (member 1) and "
            "some that it never saw (member 0)",
            where=where,
        )


@dataclass(frozen=True)
class _Refusing:
    """Names samples that are refused, by their numbers from `first` on."""

    first: int
    where: str

    def samples(self, bad: NDArray[np.bool_], what: str, cure: str) -> None:
        """An InputError that names the first samples, if any is bad."""
        samples = self.first + np.flatnonzero(bad)
        if len(samples):
            shown = ", ".join(map(str, samples[:_SHOWN]))
            more = f" and {len(samples) - _SHOWN} more" if len(samples) > _SHOWN else ""
            plural = "s" if len(samples) > 1 else ""
            raise InputError(f"sample{plural} {shown}{more} {what}", cure=cure, where=self.where)

    def value(
        self, bad: NDArray[np.bool_], values: NDArray[Any], name: str, expected: str, cure: str
    ) -> None:
        """An InputError that shows the first bad value."""
        if bad.any():
            place = int(bad.argmax())
            shown = brief(values[place : place + 1].tolist()[0])  # of texts and dates, too
            problem = f"sample {self.first + place} has the {name} {shown}, expected {expected}"
            raise InputError(problem, cure=cure, where=self.where)


def _labels(given: NDArray[Any], classes: int | None, refusing: _Refusing) -> NDArray[np.int64]:
    if given.dtype.kind == "b" and classes is not None and classes > 2:
        raise InputError(
            f"labels are true or false beside outputs of {classes} classes",
            cure="give the number of each sample's class, from 0; whether the model was right is "
            "worked out from it",
            where=refusing.where,
        )
    unlike = f"of the type {given.dtype}" if given.dtype.kind not in "iubf" else ""
    if given.dtype.kind == "f" and (np.floor(given) != given).any():
        place = int((np.floor(given) != given).argmax())
        value = brief(given[place].item())
        unlike = f"decimals (sample {refusing.first + place} has {value})"
    if unlike:
        problem = f"labels are {unlike}, whole numbers were expected"
        cure = "number the classes from 0, and give one number for each sample"
        raise InputError(problem, cure=cure, where=refusing.where)
    with np.errstate(invalid="ignore"):  # beyond int64 they are out of any range
        labels = given.astype(np.int64)
    bad = labels < 0 if classes is None else (labels < 0) | (labels >= classes)
    expected = "0" if classes is None else f"0 to {classes - 1}"
    cure = "number the classes from 0, in the order of the outputs"
    refusing.value(bad, labels, "label", expected, cure)
    return labels


def _check_logits(logits: NDArray[Any], refusing: _Refusing) -> None:
    half = " (float16 holds nothing above 65,504)" if logits.dtype == np.float16 else ""
    # A maximum is NaN if any number is, and finite if one is and none is infinite.
    refusing.samples(
        ~np.isfinite(logits.max(axis=1)),
        f"have NaN or infinite logits{half}",
        "look for a diverged model, or save logits as float32; a class may have minus "
        "infinity, not all",
    )
    refusing.samples(
        np.full(len(logits), softmaxed(logits)),
        "have logits that are probabilities: all are within 0 and 1, and each row sums to 1",
        'give them the name probs (outputs="probs"), or take the softmax out',
    )
    with np.errstate(invalid="ignore", over="ignore"):
        length = np.linalg.norm(logits.astype(np.float64), axis=1)
    refusing.samples(
        np.full(len(logits), len(logits) >= _FEW and bool((np.abs(length - 1.0) < 2e-3).all())),
        "have logits of length 1 (the squares of each row sum to 1)",
        "save them before they are normalized: that hides how sure the model is",
    )
    if (found := _bound(logits)) is not None:
        name, bound = found
        refusing.samples(
            (logits == bound).any(axis=1),
            f"have logits of exactly {bound:g}, the {name} of all, as after a clip or a ReLU",
            "save them as the last layer gives them: a cut hides what attacks look for. If it is "
            "part of the model, save the loss of each sample (losses)",
        )
    if (unit := _rounded(logits)) is not None:
        refusing.samples(
            np.ones(len(logits), np.bool_),
            f"have logits that look like rounded {unit}: none is negative, and each row sums to "
            f"about {100 if unit == 'percentages' else 1}",
            "save the logits, or probabilities as float32 with all digits "
            '(outputs="probs"): rounding hides what attacks look for',
        )


def _bound(logits: NDArray[Any]) -> tuple[str, float] | None:
    """``lowest`` or ``highest`` and its value, if the logits were cut off there.

    Smooth numbers come close to a cut, and many are at it: in 1 of 20 rows, and 20 times as often
    as at any other value. A fill value is apart from the others, and so are the steps of roundings
    and votes. Classes with one logit for all samples do not count, nor does a highest logit of 0,
    as of log-probabilities and distances, nor one 0 in each row, as of logits from the lowest on.
    """
    if logits.dtype.kind != "f":
        return None
    finite = np.isfinite(logits)
    low = float(logits.min(initial=np.inf, where=finite))
    high = float(logits.max(initial=-np.inf, where=finite))
    for name, bound in (("lowest", low), ("highest", high)):
        there = logits == bound
        there &= ~there.all(axis=0)
        rows = int(there.any(axis=1).sum())
        if rows < max(_FEW, _CLIPPED * len(logits)) or abs(bound) >= _HARMLESS:
            continue
        inner = logits[finite & (logits > low) & (logits < high)]
        values, often = np.unique(inner, return_counts=True)
        shifted = bound == 0 and (bound == high or (there.sum(axis=1) == 1).all())
        if shifted or len(values) < _VALUES or there.sum() < _PILE * often.max():
            continue
        smooth = values.dtype == np.float16 or 2 * (often == 1).sum() > len(values)
        nearest = float(np.abs(values.astype(np.float64) - bound).min())
        if smooth and nearest <= _NEXT * (high - low):
            return name, bound
    return None


def _rounded(logits: NDArray[Any]) -> str | None:
    """``percentages`` or ``probabilities``, if all rows are such, rounded to few digits."""
    if logits.dtype.kind not in "fiu" or len(logits) < _FEW or not (logits >= 0).all():
        return None
    total = logits.sum(axis=1, dtype=np.float64)
    for unit, whole in (("percentages", 100.0), ("probabilities", 1.0)):
        off = np.abs(total / whole - 1.0)
        # Exact probabilities have an error of their own.
        if off.max() <= _ROUNDED and logits.max() <= whole and (whole > 1.0 or np.median(off) > 0):
            return unit
    return None


def _cure_of_sums(probs: NDArray[Any], total: NDArray[np.float64]) -> str:
    """What to do about rows that do not sum to one, by what they look like."""
    if (np.abs(total - 100.0) <= 100 * _SUM_TOLERANCE).all():
        return "divide them by 100: they are percentages"
    if not ((probs >= 0) & (probs <= 1)).all():
        return "give them the name logits if they are"
    if (np.abs(total - 1.0) <= _ROUNDED).all():
        return "give them with all digits, if they are rounded; or save the loss of each sample"
    if (total <= 1.0 + _SUM_TOLERANCE).all():
        return (
            "if only the largest are there, share what is missing evenly among the other classes: "
            "that tests what users see; to test the model, save logits or the loss of each sample"
        )
    return (
        "if each class has a sigmoid, save as logits what is before it, or log(p / (1 - p)) with p "
        "of at most 1 - 1e-7; then test again with losses, the sum of each sample's binary "
        "cross-entropies, which may find more"
    )


def _check_probs(probs: NDArray[Any], labels: NDArray[np.int64], refusing: _Refusing) -> None:
    with np.errstate(invalid="ignore"):
        total = probs.sum(axis=1, dtype=np.float64)
    refusing.samples(np.isnan(total), "have NaN probabilities", "look for a diverged model")
    # NaN and the infinities are out by here or by the next two.
    bad = ~(np.abs(total - 1.0) <= _SUM_TOLERANCE)
    refusing.samples(
        bad,
        f"have probabilities that do not sum to one (the first to {total[bad.argmax()]:.6g})",
        _cure_of_sums(probs, total) if bad.any() else "",
    )
    refusing.samples(probs.min(axis=1) < 0, "have negative probabilities", "apply the softmax")
    if probs.dtype == np.float16:
        refusing.samples(
            probs[np.arange(len(labels)), labels] == 0,
            "have the probability 0 for their own label, in float16, which holds nothing "
            "below 3e-8: their loss is lost",
            "save logits, or probabilities as float32",
        )
