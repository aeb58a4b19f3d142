"""What comes out from where: a strip for each document, with a dot for each passage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from canary.passages.text_places import Places
from canary.reports.document import Axis, Figure, Mark, Panel, Table, sentence
from canary.reports.palette import dots
from canary.statistics.numbers import count

MOST_DOCUMENTS = 20
_LONGEST_TICK = 24  # characters
_SIZES = {"wide": 22, "narrow": 9}  # of dots: rows are shorter on a phone
_MARKERS = "osD"  # what comes out in one way or another, for eyes that see no colours


def strips(
    kind: Places,
    levels: Sequence[tuple[str, NDArray[np.bool_], str]],
    words: str,
    caption: str,
    *,
    columns: Mapping[str, Callable[[NDArray[np.bool_]], str]] | None = None,
    unit: str = "token",
) -> Figure:
    """A strip for each of the documents of which most comes out, with a dot for each window.

    `levels` are names, windows and colours: what comes out in one way or another, and last what
    does not. `columns` of the table say something of the windows of a document.
    """
    document, position = np.asarray(kind.document), np.asarray(kind.position)
    order, documents = worst(kind, ~levels[-1][1]), len(set(kind.document))
    marks: list[Mark] = []
    for at, (name, chosen, colour) in enumerate(levels):
        x, y = [], []
        for row, number in enumerate(order):
            places = position[chosen & (document == number)]
            x += places.tolist()
            y += [row] * len(places)
        if x:
            hollow = at == len(levels) - 1
            style = {"marker": "o" if hollow else _MARKERS[at], "label": name}
            for only, size in _SIZES.items():
                drawn = dots(x, y, size, colour, hollow=hollow, **style)
                marks.append(drawn._replace(only=only))
    ticks = {float(row): _short(kind.called(number)) for row, number in enumerate(order)}
    shown = (
        columns
        or {
            name.capitalize(): lambda mine, hit=hit: count(int(hit[mine].sum()))  # type: ignore[misc]
            for name, hit, _ in levels[:-1]
        }
    )
    cells = []
    for number in order:
        mine = document == number
        made = [column(mine) for column in shown.values()]
        cells.append((cell_of(kind, number), count(int(mine.sum())), *made))
    return Figure(
        "passages",
        words,
        [
            Panel(
                marks,
                Axis(f"where in the text the passage begins ({unit})", ticks=_whole(position)),
                Axis(limits=(len(order) - 0.4, -0.6), ticks=ticks),
                grid="x",
                legend="above",
            )
        ],
        sentence(caption, shown=len(order), texts=documents, all=len(order) == documents),
        Table("Texts of which most comes out", ("Text", "Passages", *shown), cells),
    )


def cell_of(kind: Places, document: int) -> str:
    """What a row of a table calls a document."""
    name = kind.called(document)
    return name if kind.ids else name.capitalize()


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_TICK else f"{name[: _LONGEST_TICK - 1]}…"


def _whole(position: NDArray[np.int64]) -> dict[int, str]:
    """Ticks at whole numbers, about six of them and the same distance apart."""
    from matplotlib.ticker import MaxNLocator

    places = MaxNLocator(nbins=6, integer=True).tick_values(0, max(int(position.max()), 1))
    return {int(at): count(int(at)) for at in places if 0 <= at <= max(int(position.max()), 1)}


def worst(kind: Places, out: NDArray[np.bool_]) -> list[int]:
    """Numbers of the documents of which the largest share comes out."""
    names, place = np.unique(kind.document, return_inverse=True)
    shares = np.bincount(place, weights=out) / np.bincount(place)
    order = np.argsort(-shares, kind="stable")[:MOST_DOCUMENTS]
    return [int(number) for number in names[order]]
