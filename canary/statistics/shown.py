"""Results as a reader meets them in a session or a notebook: a line, some lines, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from canary.statistics.numbers import clean

_MOST_CHARACTERS = 100
_MOST_ROWS = 20


class Shown:
    """What every result has: a short ``repr``, a table, and a view for notebooks.

    A result gives `summary` and `_table`; neither holds a secret.
    """

    def summary(self) -> str:
        """A few lines for a terminal."""
        raise NotImplementedError

    def _table(self) -> Sequence[Mapping[str, Any]] | Mapping[str, Any]:
        """The numbers, as rows or as columns."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """The numbers as a `pandas.DataFrame`; no secret is in it."""
        import pandas as pd

        return pd.DataFrame(self._table())

    def __repr__(self) -> str:
        line = clean(self.summary().strip().partition("\n")[0])
        short = line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
        return f"<{type(self).__name__}: {short}>"

    def _repr_html_(self) -> str:
        lines = "<br>".join(escape(clean(line)) for line in self.summary().splitlines())
        frame = self.to_frame().to_html(max_rows=_MOST_ROWS, border=0)
        return f"<p>{lines}</p>\n{frame}"


def picked(thing: object, *names: str) -> dict[str, Any]:
    """Some fields of a thing, by name."""
    return {name: getattr(thing, name) for name in names}
