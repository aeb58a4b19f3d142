"""Rows and nodes, looked at before a model is: an adapter trusts their shapes and tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from canary.errors import InputError
from canary.models.language_model import Children, Nodes, Rows


def check_rows(rows: Rows, vocabulary: int) -> None:
    """Refuse rows whose arrays do not fit together, or that hold no token of the model.

    Raises
    ------
    InputError
        It names the array. Costs a look at each number.
    """
    _whole(rows.ids, "rows.ids")
    _whole(rows.start, "rows.start")
    _spans(rows.offsets, len(rows.start), len(rows.ids), "rows.offsets")
    _between(rows.start, 1, None, "rows.start")
    _between(rows.ids, 0, vocabulary - 1, "rows.ids")


def check_nodes(nodes: Nodes, children: Children, vocabulary: int) -> None:
    """The same for nodes and the children asked for below them."""
    _whole(nodes.paths, "nodes.paths", dimensions=2)
    count, depth = nodes.paths.shape
    for name in ("lengths", "priced", "handles"):
        _whole(getattr(nodes, name), f"nodes.{name}")
        if len(getattr(nodes, name)) != count:
            raise _misfit(f"nodes.{name}", f"has {len(getattr(nodes, name))} numbers for {count}")
    _between(nodes.paths, 0, vocabulary - 1, "nodes.paths")
    _between(nodes.lengths, 0, depth, "nodes.lengths")
    _between(nodes.priced, 0, None, "nodes.priced")
    if (nodes.priced > nodes.lengths).any():
        raise _misfit("nodes.priced", "is beyond nodes.lengths")
    _whole(children.tokens, "children.tokens")
    _between(children.tokens, 0, vocabulary - 1, "children.tokens")
    if children.offsets is not None:
        _spans(children.offsets, count, len(children.tokens), "children.offsets")


def _whole(array: Any, name: str, dimensions: int = 1) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
        raise _misfit(name, f"is {getattr(array, 'dtype', type(array).__name__)}, not integers")
    if array.ndim != dimensions:
        raise _misfit(name, f"has the shape {array.shape}, not {dimensions} dimensions")


def _spans(offsets: Any, count: int, total: int, name: str) -> None:
    _whole(offsets, name)
    if len(offsets) != count + 1 or offsets[0] != 0 or offsets[-1] != total:
        raise _misfit(name, f"does not part {total} tokens into {count}")
    if (offsets[1:] < offsets[:-1]).any():
        raise _misfit(name, "descends")


def _between(array: Any, low: int, high: int | None, name: str) -> None:
    if not array.size:
        return
    least, most = int(array.min()), int(array.max())
    if least < low or (high is not None and most > high):
        expected = f"{low} or more" if high is None else f"{low} to {high}"
        raise _misfit(name, f"holds {least if least < low else most}, expected {expected}")


def _misfit(name: str, problem: str) -> InputError:
    return InputError(
        f"{name} {problem}",
        cure="see canary.models.language_model for what rows, nodes and children are",
    )
