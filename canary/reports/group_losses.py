"""The test losses that are given for groups of audits, and whether they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from canary.audits.audit_result import Audit
from canary.errors import InputError
from canary.records.validation import brief
from canary.reports.comparison import checked_losses
from canary.statistics.numbers import clean, plural

Losses = Mapping[str, Sequence[float]] | Sequence[float | None]
"""Test losses of groups: a list for each label, or one for each audit, group by group."""


def losses_of(
    labels: Sequence[str], groups: Sequence[Sequence[Audit]], given: Losses | None
) -> Sequence[float | None]:
    """The loss of each audit, group by group."""
    sizes = [len(some) if isinstance(some, list | tuple) else 1 for some in groups]
    if given is None:
        return [None] * sum(sizes)
    cure = "give a list for each label, with the mean loss of each of its models on the same text, "
    cure += "in nats per token"
    if isinstance(given, Mapping):
        named = {clean(str(label)).strip(): losses for label, losses in given.items()}
        if {*named} != {*labels} or any(isinstance(some, int | float) for some in named.values()):
            raise InputError(
                "the losses are not those of the groups", cure=cure, where="test_losses"
            )
        for label, size in zip(labels, sizes, strict=True):
            if len(named[label]) != size:
                raise InputError(
                    f"{plural(len(named[label]), 'loss', 'losses')} for the "
                    f"{plural(size, 'audit')} of {brief(label)}",
                    cure=cure,
                    where="test_losses",
                )
        given = [loss for label in labels for loss in named[label]]
    if None in given:
        raise InputError("a loss is missing", cure=cure, where="test_losses")
    return checked_losses(sum(sizes), given)
