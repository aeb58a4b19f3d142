"""The shadows of a target: which models they are, and what their samples teach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.association import associated, check_shadow
from canary.membership.repeats import check_references
from canary.signals.signal_table import SignalTable

Samples = tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]


def shadow_samples(
    table: SignalTable, signal: str, *, shadow: SignalTable | None, target: int
) -> Samples:
    """Signal, member and label of all samples of all shadow models, behind each other."""
    source, rows, _ = shadow_rows(table, shadow=shadow, target=target)
    return samples_of(source, rows, signal, table.classes)


def samples_of(source: SignalTable, rows: list[int], signal: str, classes: int) -> Samples:
    """The same of some rows of a table, as far as the target has their classes."""
    label, member = np.tile(source.label, len(rows)), source.member[rows].ravel()
    kept = label < classes  # of losses, which do not tell their classes
    return source.signal(signal)[rows].ravel()[kept], member[kept], label[kept]


def shadow_rows(
    table: SignalTable, *, shadow: SignalTable | None, target: int
) -> tuple[SignalTable, list[int], tuple[str, ...]]:
    """The table of the shadows, which of its models they are, and what to say of them."""
    source = table if shadow is None else shadow
    if source.of_texts != table.of_texts:
        raise InputError(
            "one of target and shadow is a table of texts, the other of a classifier's samples",
            cure="measure both alike",
            where=source.source,
        )
    if source.classes != table.classes and "entropy" in source.values:
        raise InputError(
            f"the target has {table.classes} classes and the shadow {source.classes}",
            cure="train the shadow on the target's classes, numbered alike",
            where=source.source,
        )
    if shadow is not None:
        return shadow, list(range(shadow.models)), check_shadow(table, shadow, row=target)
    rows = [row for row in range(table.models) if row != target]
    if not rows:
        raise InputError(
            "there is no shadow: the table has one model",
            cure="give a table of shadow models by shadow=",
            where=table.source,
        )
    together = associated(table, None, row=target)
    notes: tuple[str, ...] = () if together is None else (together.note(),)
    if "loss" in table.values:
        notes += check_references(table, np.array([target]), None, np.array(rows))
    return table, rows, notes
