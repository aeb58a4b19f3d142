"""Where two identities of a run differ, in words."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SHOWN = 40


@dataclass(frozen=True)
class Difference:
    """Where two identities differ.

    Parameters
    ----------
    path : tuple of str
        Names that lead to it, from the outermost in.
    before, now : object
        Plain JSON; None where there is nothing.
    """

    path: tuple[str, ...]
    before: object
    now: object

    def __str__(self) -> str:
        name = ".".join(self.path)
        then, now = _shown(self.before), _shown(self.now)
        if then is None or now is None or then == now:
            return name
        return f"{name} ({then} then, {now} now)"


def _shown(value: object) -> str | None:
    if value is None:
        return "none"
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        return f"{value[:12]}…"
    short = isinstance(value, str | int | float) and len(repr(value)) <= _SHOWN
    return repr(value) if short else None


def differences(before: object, now: object, path: tuple[str, ...] = ()) -> list[Difference]:
    """Where two pieces of plain JSON differ; mappings are looked into, lists are not."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            difference
            for name in {**before, **now}
            for difference in differences(before.get(name), now.get(name), (*path, name))
        ]
    return [] if before == now else [Difference(path, before, now)]
