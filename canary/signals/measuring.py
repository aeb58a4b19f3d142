"""Models x samples -> the one table."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.models.classifier import as_classifier
from canary.records.progress import Progress, shows_progress, stage
from canary.records.validation import file_path
from canary.scoring.samples import class_log_probs
from canary.signals.class_signals import Outputs, Values, log_probs_of, signals_of, working
from canary.signals.gradients import gradient_features
from canary.signals.output_checks import Piece, check_lengths, checked
from canary.signals.output_files import BESIDE, KINDS, inputs_of, pieces_of
from canary.signals.signal_table import SignalTable, check_tied
from canary.statistics.numbers import plural

Measurable = Any
"""A torch module, an estimator, a `Classifier`, a function of a part of `x`, or an array."""

_WHERE = "measure"
_BATCH = 4096


HELD = 1 << 30
"""Bytes of a file whose outputs of all classes are held though no named attack reads them."""


TableOrPath = SignalTable | str | os.PathLike[str]


def table_of(given: TableOrPath, name: str) -> SignalTable:
    """A table, measured if it is a path; outputs of all classes are kept of files up to `HELD`."""
    if isinstance(given, SignalTable):
        return given
    path = file_path(given, name, cure="give a table of measure(...), or the path of a file")
    return measure(path, keep_outputs=path.is_file() and path.stat().st_size <= HELD)


@shows_progress
def measure(
    models: str | os.PathLike[str] | Measurable | Sequence[Measurable],
    x: Any = None,
    y: ArrayLike | None = None,
    *,
    member: ArrayLike | None = None,
    outputs: Outputs | None = None,
    group: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    batch_size: int | None = None,
    gradients: bool = False,
    keep_outputs: bool = False,
    progress: Progress = None,
) -> SignalTable:
    """Signals of every model for every sample, in one table.

    Parameters
    ----------
    models : path-like, or one classifier, or a list of several
        A file of outputs (see `canary.signals.output_files`), which says everything else as well;
        or torch modules, estimators with the interface of scikit-learn, anything else that is
        a `canary.models.classifier.Classifier`; or functions that give the outputs for a part
        of `x`; or arrays of outputs.
    x, y : array_like, and array_like of int of shape (samples,)
        The samples, of which slices are taken (not needed for arrays of outputs); and their
        labels, from 0. Where `x` is an array of numbers, the table keeps it, uncopied, as `inputs`.
    member : array_like of bool of shape (samples,) or (models, samples)
        Whether each model was trained on each sample.
    outputs : {"logits", "probs", "losses"}
        What the models give; it is never guessed. Estimators give probabilities and do not
        need it.
    group : array_like of shape (samples,), optional
        Any further division of the samples.
    ids : array_like of shape (samples,), optional
        Your names of the samples, for tables and lists of risk scores; ``id`` in a file.
    batch_size : int, optional
        Samples that a model gets at a time. By default the fastest number for modules and
        estimators, and 4,096 for functions. It is halved for modules if memory runs out.
    gradients : bool
        Also measure the norm of the gradient of each sample's loss; torch modules only.
    keep_outputs : bool
        Keep the log-probabilities of all classes in the table: the neural attacks read them.
    progress : callable or bool, optional
        Called with the number of samples of each model; see `canary.records.progress.Progress`.

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
        if any(given is not None for given in (x, y, member, outputs, group, ids)):
            problem = "a file of outputs brings its own labels and members"
            raise InputError(problem, cure="give the path alone", where=_WHERE)
        return table_of_file(models, keep_outputs=keep_outputs)
    several: list[Any] = list(models) if isinstance(models, list | tuple) else [models]
    adapted = [as_classifier(model, outputs) for model in several]
    needed = outputs is not None or any(adapter is None for adapter in adapted)
    if y is None or member is None or (needed and outputs not in KINDS):
        wrong = needed and outputs not in KINDS
        missing = {
            "y": y is None and "the labels as y",
            "member": member is None and "member, which is 1 for the training samples",
            f"outputs (got {outputs!r})": wrong and 'outputs="logits", "probs" or "losses"',
        }
        names = [name for name, cure in missing.items() if cure]
        raise InputError(
            f"missing: {', '.join(names)}",
            cure=f"give {'; '.join(cure for cure in missing.values() if cure)}",
            where=_WHERE,
        )
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
    beside = [None if some is None else np.asarray(some) for some in (group, ids)]
    tables = []
    for row, (model, adapter, mine) in enumerate(zip(several, adapted, flags, strict=True)):
        where = f"{_WHERE}: model {row}"
        asked = adapter is not None or callable(model)
        if x is None and asked:
            raise InputError("a model needs x", cure="give the samples as x", where=where)
        parts = {"labels": labels, "member": mine, "x": x if asked else None}
        parts |= dict(zip(BESIDE, beside, strict=True))
        check_lengths({n: len(part) for n, part in parts.items() if part is not None}, _WHERE)
        if adapter is None:
            given = _given(model, x, len(labels), batch_size or _BATCH)
        else:
            advance = stage(progress, f"model {row}", len(labels), "samples")
            given = class_log_probs(adapter, x, batch_size=batch_size, progress=advance)
        # Log-probabilities are logits.
        kind: Outputs = "logits" if adapter is not None or outputs is None else outputs
        pieces = (
            Piece(said, labels[part], mine[part], *(s if s is None else s[part] for s in beside))
            for part, said in given
        )
        table = _table(kind, pieces, where, keep=keep_outputs)
        if gradients:
            norm = gradient_features(model, x, table.label, outputs=outputs).norm
            table = replace(table, values={**table.values, "gradient-norm": norm[None, :]})
        tables.append(table)
        _check_alike(table, tables[0])
    return replace(_stacked(tables, _WHERE), inputs=_inputs(x, len(labels)))


def _inputs(x: Any, samples: int) -> NDArray[Any] | None:
    """What was asked as an array of numbers, where it is one with a row for each sample."""
    try:
        array = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    except (TypeError, ValueError):
        return None
    numbers = array.dtype.kind in "biuf" and array.ndim > 1 and len(array) == samples
    return array if numbers and array.size else None


def table_of_file(
    path: str | os.PathLike[str], *, members: bool = True, keep_outputs: bool = False
) -> SignalTable:
    """What one model said of samples, from a file of outputs as `pieces_of` takes it."""
    kind, pieces = pieces_of(path, members=members)
    table = _table(kind, pieces, str(path), keep=keep_outputs)
    return replace(table, inputs=inputs_of(path, table.samples))


def _given(
    model: Any, x: Any, samples: int, batch_size: int
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """What a function or an array gives, in slices."""
    asked = callable(model)
    if not asked:
        model = np.asarray(model)
        size = len(model) if model.ndim else 0
        check_lengths({"labels": samples, "outputs": size}, _WHERE)
    for begin in range(0, samples, max(batch_size, 1)):
        part = slice(begin, min(begin + batch_size, samples))
        outputs = np.asarray(model(x[part])) if asked else model[part]
        if len(outputs) != part.stop - begin:
            problem = f"a model gave {len(outputs)} outputs for {part.stop - begin} samples"
            raise InputError(problem, cure="give a row for each sample", where=_WHERE)
        yield part, outputs


def _table(kind: Outputs, pieces: Iterable[Piece], where: str, *, keep: bool) -> SignalTable:
    """The table of one model; outputs are let go, piece by piece."""
    kept: list[NDArray[np.float32]] = []
    done: list[Piece] = []
    signals: list[Values] = []
    samples, classes = 0, 0
    with working() as worker:
        for given in pieces:
            piece = checked(given, kind, first=samples, where=where)
            signals.append(signals_of(piece.outputs, piece.labels, kind, worker=worker))
            if kind == "losses":
                classes = max(classes, int(piece.labels.max()) + 1)
            elif samples and classes != piece.outputs.shape[1]:
                problem = f"outputs of {classes} and of {piece.outputs.shape[1]} classes"
                cure = "give the same classes for every sample"
                raise InputError(problem, cure=cure, where=where)
            else:
                classes = piece.outputs.shape[1]
                kept += [log_probs_of(piece.outputs, kind)] if keep else []
            done.append(replace(piece, outputs=np.empty(0)))
            samples += len(piece.labels)
    groups, ids = (
        [value for piece in done if (value := getattr(piece, name)) is not None]
        for name in ("group", "ids")
    )
    return SignalTable(
        values={n: np.concatenate([values[n] for values in signals])[None, :] for n in signals[0]},
        member=np.concatenate([piece.member for piece in done])[None, :],
        label=np.concatenate([piece.labels for piece in done]),
        classes=classes,
        group=np.concatenate(groups) if groups else None,
        ids=np.concatenate(ids) if ids else None,
        source=where,
        outputs=np.concatenate(kept)[None, :] if kept else None,
    )


def table_of_files(
    paths: Sequence[str | os.PathLike[str]],
    *,
    signals: Collection[str] | None = None,
    done: Callable[[int], object] = lambda files: None,
) -> SignalTable:
    """What several models said about the same samples, from one file per model.

    The table has a row for each file, in order, with the signals that all files have.

    Parameters
    ----------
    paths : sequence of path-like
        As `canary.signals.output_files.pieces_of` takes them, one or more.
    signals : collection of str, optional
        Those to keep, and ``outputs`` to keep these, too; all signals unless given.
    done : callable
        Called for every file that was read.

    Raises
    ------
    InputError
        If a file cannot be used, is given twice, or is of other samples or classes.
    """
    places = [Path(path) for path in paths]
    known: dict[str, Path] = {}
    for place in places:
        other = known.setdefault(os.path.realpath(place), place)
        if other is not place:
            problem = "is given twice" if other == place else f"is {other}, too"
            raise InputError(problem, cure="give one file for each model", where=str(place))
    tables: list[SignalTable] = []
    for place in places:
        table = table_of_file(place, keep_outputs="outputs" in (signals or ()))
        values = {n: v for n, v in table.values.items() if signals is None or n in signals}
        inputs = None if tables else table.inputs
        tables.append(replace(table, values=values, inputs=inputs))
        _check_alike(table, tables[0])
        done(1)
    return _stacked(tables, plural(len(tables), "file"))


def joined(first: SignalTable, second: SignalTable) -> SignalTable:
    """The models of two tables of the same samples in one, with the signals that both have.

    Models of `second` are numbered after those of `first`. An InputError if samples or classes
    differ, or by their fingerprints the tables are of other data.
    """
    _check_alike(second, first)
    for row in range(first.models):
        check_tied(second, first, row=row)
    after = max([*first.numbers, *first.missing]) + 1
    both = _stacked([first, second], f"{first.source} and {second.source}")
    return replace(
        both,
        numbers=(*first.numbers, *(after + number for number in second.numbers)),
        missing={**first.missing, **{after + n: why for n, why in second.missing.items()}},
        of_texts=first.of_texts,
    )


def _check_alike(table: SignalTable, first: SignalTable) -> None:
    if table.samples != first.samples:
        problem = f"has {plural(table.samples, 'sample')}, and {first.source} has {first.samples:,}"
    elif (table.label != first.label).any():
        other = np.flatnonzero(table.label != first.label)
        problem = (
            f"has other labels than {first.source}: {len(other):,} of {table.samples:,} samples, "
            f"the first is sample {other[0]}"
        )
    # Of losses only the classes that occur are known.
    elif table.classes != first.classes and all("correctness" in t.values for t in (table, first)):
        problem = f"has outputs of {table.classes} classes, and {first.source} of {first.classes}"
    elif _differ(table.ids, first.ids):
        problem = f"has other ids of samples than {first.source}"
    elif _differ(table.group, first.group):
        problem = f"has other groups of samples than {first.source}"
    else:
        return
    cure = "ask every model for the same samples, in the same order, and of the same classes"
    raise InputError(problem, cure=cure, where=table.source)


def _differ(ours: NDArray[Any] | None, theirs: NDArray[Any] | None) -> bool:
    """Whether both are given, and are not equal."""
    return ours is not None and theirs is not None and not np.array_equal(ours, theirs)


def _stacked(tables: list[SignalTable], source: str) -> SignalTable:
    """Tables of the same samples as one, of the signals that all have."""
    first = tables[0]
    names = [name for name in first.values if all(name in table.values for table in tables)]
    outputs = [table.outputs for table in tables if table.outputs is not None]
    return SignalTable(
        values={name: np.concatenate([table.values[name] for table in tables]) for name in names},
        member=np.concatenate([table.member for table in tables]),
        label=first.label,
        classes=max(table.classes for table in tables),
        group=next((table.group for table in tables if table.group is not None), None),
        ids=next((table.ids for table in tables if table.ids is not None), None),
        source=source,
        outputs=np.concatenate(outputs) if len(outputs) == len(tables) else None,
        inputs=first.inputs,
    )
