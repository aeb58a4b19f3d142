"""A part of a canary set: the canaries that were named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from canary.corpus.canaries import CanarySet
from canary.errors import InputError
from canary.registry import name_cure


def only(canaries: CanarySet, names: Sequence[str]) -> CanarySet:
    """The set with these canaries alone, by their ids, and their formats.

    Raises
    ------
    InputError
        If the set has no canary of a name.
    """
    there = [canary.id for canary in canaries]
    for name in names:
        if name not in there:
            raise InputError(
                f"the canary set has no canary {name!r}",
                cure=name_cure(name, there, written=[*there[:8], *(["…"] * (len(there) > 8))]),
                where="canary",
            )
    mine = [canary for canary in canaries if canary.id in names]
    formats = sorted({canary.format for canary in mine})
    return replace(
        canaries,
        formats=tuple(canaries.formats[at] for at in formats),
        canaries=tuple(replace(canary, format=formats.index(canary.format)) for canary in mine),
    )
