"""Models x samples -> the one table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.signals.checking import Piece, check_lengths, checked
from canary.signals.classifier import Outputs, signals_of, working
from canary.signals.files import KINDS, pieces_of
from canary.signals.table import SignalTable

__all__ = ["Classifier", "measure", "table_of_file"]

Classifier = Callable[[Any], ArrayLike] | NDArray[Any]
"""A function of a part of `x` that gives outputs, or an array of all outputs."""

_WHERE = "measure"


def measure(
    models: str | os.PathLike[str] | Classifier | Sequence[Classifier],
    x: Any = None,
    y: ArrayLike | None = None,
    *,
    member: ArrayLike | None = None,
    outputs: Outputs | None = None,
    group: ArrayLike | None = None,
    batch_size: int = 4096,
) -> SignalTable:
    """Signals of every model for every sample, in one table.

    Parameters
    ----------
    models : path-like, or one or several classifiers
        A file of outputs (see `canary.signals.files`), which says everything else as well;
        or functions that give the outputs for a part of `x`, such as the `predict_proba`
        of a scikit-learn estimator; or arrays of outputs.
    x : array_like, optional
        The samples, of which slices are taken. Not needed for arrays of outputs.
    y : array_like of int of shape (samples,)
        Their labels, from 0.
    member : array_like of bool of shape (samples,) or (models, samples)
        Whether each model was trained on each sample.
    outputs : {"logits", "probs", "losses"}
        What the models give; it is said and not guessed.
    group : array_like of shape (samples,), optional
        Any further division of the samples.
    batch_size : int
        Samples that a function is given at a time.

    Returns
    -------
    SignalTable

    Raises
    ------
    InputError
        If something is missing, does not fit, or cannot be what it is said to be: labels
        out of range, probabilities that do not sum to one, NaN, flags that are not 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> probs = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> table = measure(probs, y=[0, 0], member=[True, False], outputs="probs")
    >>> table.signal("confidence")
    array([[0.9, 0.5]])
    """
    if isinstance(models, str | os.PathLike):
        if any(given is not None for given in (x, y, member, outputs, group)):
            raise InputError(
                "a file of outputs brings its own labels and members",
                cure="give the path alone",
                where=_WHERE,
            )
        return table_of_file(models)
    if y is None or member is None or outputs not in KINDS:
        raise InputError(
            f"y, member and outputs are needed, got outputs={outputs!r}",
            cure='give labels, members, and outputs="logits", "probs" or "losses"',
            where=_WHERE,
        )
    several: list[Any] = list(models) if isinstance(models, list | tuple) else [models]
    labels, flags = np.asarray(y), np.asarray(member)
    if flags.ndim == 1:
        flags = np.broadcast_to(flags, (len(several), *flags.shape))
    if flags.ndim != 2 or len(flags) != len(several) or labels.ndim != 1:
        raise InputError(
            f"members of shape {np.shape(member)} and labels of shape {labels.shape} for "
            f"{len(several)} models",
            cure="give members of shape (samples,) or (models, samples), labels of (samples,)",
            where=_WHERE,
        )
    groups = None if group is None else np.asarray(group)
    tables = [
        _table(
            outputs,
            _pieces(model, x, labels, flags[row], group=groups, batch_size=batch_size),
            f"{_WHERE}: model {row}",
        )
        for row, model in enumerate(several)
    ]
    return _stacked(tables)


def table_of_file(path: str | os.PathLike[str], *, members: bool = True) -> SignalTable:
    """What one model said of samples, from a file of outputs.

    Parameters
    ----------
    path, members
        As `canary.signals.files.pieces_of` takes them.
    """
    kind, pieces = pieces_of(path, members=members)
    return _table(kind, pieces, str(path))


def _pieces(
    model: Any,
    x: Any,
    labels: NDArray[Any],
    member: NDArray[Any],
    *,
    group: NDArray[Any] | None,
    batch_size: int,
) -> Iterator[Piece]:
    lengths = {"labels": len(labels), "member": len(member)}
    if group is not None:
        lengths["group"] = len(group)
    asked = callable(model)
    if asked and x is None:
        raise InputError("a function needs x", cure="give the samples as x", where=_WHERE)
    if asked:
        lengths["x"] = len(x)
    else:
        model = np.asarray(model)
        lengths["outputs"] = len(model) if model.ndim else 0
    size = check_lengths(lengths, _WHERE)
    for at in range(0, size, max(batch_size, 1)):
        part = slice(at, min(at + batch_size, size))
        given = np.asarray(model(x[part])) if asked else model[part]
        if len(given) != part.stop - at:
            raise InputError(
                f"a model gave {len(given)} outputs for {part.stop - at} samples",
                cure="give a row for each sample",
                where=_WHERE,
            )
        yield Piece(given, labels[part], member[part], None if group is None else group[part])


def _table(kind: Outputs, pieces: Iterable[Piece], where: str) -> SignalTable:
    """The table of one model."""
    done: list[Piece] = []
    found: list[dict[str, NDArray[np.float64]]] = []
    first, classes = 0, 0
    with working() as worker:
        for given in pieces:
            piece = checked(given, kind, first=first, where=where)
            found.append(signals_of(piece.outputs, piece.labels, kind, worker=worker))
            if kind == "losses":
                classes = max(classes, int(piece.labels.max()) + 1)
            elif first and classes != piece.outputs.shape[1]:
                raise InputError(
                    f"outputs of {classes} and of {piece.outputs.shape[1]} classes",
                    cure="give the same classes for every sample",
                    where=where,
                )
            else:
                classes = piece.outputs.shape[1]
            # The outputs are let go.
            done.append(Piece(np.empty(0), piece.labels, piece.member, piece.group))
            first += len(piece.labels)
    groups = [piece.group for piece in done if piece.group is not None]
    return SignalTable(
        values={name: np.concatenate([v[name] for v in found])[None, :] for name in found[0]},
        member=np.concatenate([piece.member for piece in done])[None, :],
        label=np.concatenate([piece.labels for piece in done]),
        classes=classes,
        group=np.concatenate(groups) if groups else None,
        source=where,
    )


def _stacked(tables: list[SignalTable]) -> SignalTable:
    """Tables of one model each and the same samples as one."""
    first = tables[0]
    sizes = {table.classes for table in tables}
    if len(sizes) > 1:
        raise InputError(
            f"models of {' and '.join(map(str, sorted(sizes)))} classes",
            cure="compare models of the same classes",
            where=_WHERE,
        )
    return SignalTable(
        values={name: np.concatenate([t.values[name] for t in tables]) for name in first.values},
        member=np.concatenate([table.member for table in tables]),
        label=first.label,
        classes=first.classes,
        group=first.group,
        source=_WHERE,
    )
