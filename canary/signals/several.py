"""Files of outputs, one of each model, about the same samples -> one table."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from canary.errors import InputError
from canary.signals.measuring import table_of_file
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import plural

__all__ = ["table_of_files"]

_KEPT = ("loss", "logit-confidence", "confidence", "correctness")
"""What attacks with many models read, and the accuracy; the rest is let go."""


def table_of_files(
    paths: Sequence[str | os.PathLike[str]],
    *,
    done: Callable[[int], object] = lambda files: None,
) -> SignalTable:
    """What several models said of the same samples, from a file of each.

    Parameters
    ----------
    paths : sequence of path-like
        As `canary.signals.output_files.pieces_of` takes them, one or more.
    done : callable
        Told of every file that was read.

    Returns
    -------
    SignalTable
        A row for each file, in order, of the signals that attacks with many models read, as far
        as all files have them.

    Raises
    ------
    InputError
        If a file cannot be used, is given twice, or is of other samples or other classes than
        the first.

    Notes
    -----
    Outputs are read in pieces and let go: memory is for four numbers of each model and sample.
    """
    places = [Path(path) for path in paths]
    known: dict[str, Path] = {}
    for place in places:
        real = os.path.realpath(place)
        if real in known:
            raise InputError(
                "is given twice" if known[real] == place else f"is {known[real]}, too",
                cure="give one file for each model",
                where=str(place),
            )
        known[real] = place
    tables: list[SignalTable] = []
    for place in places:
        table = table_of_file(place)
        if tables:
            _check_alike(table, tables[0])
        tables.append(_lean(table))
        done(1)
    names = [name for name in _KEPT if all(name in table.values for table in tables)]
    first = tables[0]
    return SignalTable(
        values={name: np.concatenate([table.values[name] for table in tables]) for name in names},
        member=np.concatenate([table.member for table in tables]),
        label=first.label,
        classes=max(table.classes for table in tables),
        source=plural(len(tables), "file"),
    )


def _lean(table: SignalTable) -> SignalTable:
    values = {name: value for name, value in table.values.items() if name in _KEPT}
    return SignalTable(values, table.member, table.label, table.classes, source=table.source)


def _check_alike(table: SignalTable, first: SignalTable) -> None:
    if table.samples != first.samples:
        raise InputError(
            f"has {plural(table.samples, 'sample')}, and {first.source} has {first.samples:,}",
            cure="ask every model for the same samples, in the same order",
            where=table.source,
        )
    other = np.flatnonzero(table.label != first.label)
    if len(other):
        raise InputError(
            f"has other labels than {first.source}: {len(other):,} of {table.samples:,} samples, "
            f"the first is sample {other[0]}",
            cure="ask every model for the same samples, in the same order",
            where=table.source,
        )
    # Of losses only the classes that occur are known.
    told = all("correctness" in one.values for one in (table, first))
    if told and table.classes != first.classes:
        raise InputError(
            f"has outputs of {table.classes} classes, and {first.source} of {first.classes}",
            cure="compare models of the same classes",
            where=table.source,
        )
