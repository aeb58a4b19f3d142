"""Log-probabilities that were cut off or rounded on their way: many of them are the same.

The logits of a network in float32 hardly tie. In 16 bits most do, but the lowest and the highest
do not: at the ends there are few tokens. A cut gives many tokens the lowest or highest value, and
which ones changes with the text. Tokens that tie after every text count as one: reserved tokens
that were initialised alike, or words that a table of counts never saw.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.experiments import Finding, cheap, fine, noted, refused, unchecked
from canary.models.language_model import Children, LanguageModel
from canary.models.noise import EPSILON, nodes_of, opened, random_rows, rounding

_PLACES, _TOKENS, _SAMPLE = 3, 3, 512
_AT_AN_END = 2  # tokens that may share the lowest or highest value, or one of so many:
_OF = 4096
_MOSTLY = 0.5
_FEWEST_STEPS, _ON_THE_GRID, _OFF_IT = 8, 0.95, 0.1

_CUT = "give the logits as the model computes them: leave out clamp, clip and top-k filters"
_ROUNDED = (
    "give them unrounded; if the model computes in 16 bits, say so in its facts (dtype), or load "
    "it in float32"
)


def ties(model: LanguageModel) -> Finding:
    """Whether next tokens after three texts have prices of their own.

    A cut or a rounding that the dtype does not explain is refused; other ties are noted.
    """
    size = min(model.facts.vocabulary, model.tokenizer.size)
    rows = random_rows(model, _PLACES, _TOKENS, seed=17)
    if size < 2 * _FEWEST_STEPS or rows.shape[1] < 2:
        return unchecked(f"it has {size} tokens and takes {rows.shape[1]}")
    number = size if cheap(model, 0) else min(size, _SAMPLE)
    asked = np.linspace(0, size - 1, number).astype(np.int32)
    with opened(model, rows[0, :1]) as walker:
        nodes = nodes_of(rows[:, 1:].tolist())
        found = walker.expand(nodes, Children(asked), keep=False).log_probs.astype(np.float64)
    table = found[:, np.isfinite(found).all(axis=0)]
    table = table[:, np.lexsort(table)]
    new = np.diff(table, prepend=np.inf).any(axis=0)
    table = table[:, new]
    dtype = model.facts.dtype
    together = tied(table)
    if together < _MOSTLY or EPSILON.get(dtype, 0.0) > EPSILON["float32"]:
        low, high = piled(table)
        if max(low, high) > max(_AT_AN_END, table.shape[1] // _OF):
            figure = f"cut off: {low} tokens share the lowest value, {high} the highest"
            return refused(figure, _CUT)
    step = step_of(table)
    if step > rounding(model.facts):
        return refused(f"rounded to multiples of {step:.2g} nats, in {dtype}", _ROUNDED)
    figure = f"{together:.1%} of {number:,} tokens share their value with another"
    if together < _MOSTLY:
        return fine(figure)
    cure = "ranks are known up to such ties: compute in float32. A table of counts may be right"
    return noted(f"{figure}, as in 16 bits or in a table of counts", cure)


def refuse_ties(model: LanguageModel) -> None:
    """Raise a ModelError for a module whose logits were cut off or rounded."""
    found = ties(model)
    if found.verdict == "refused":
        problem = f"the model {model.facts.name!r} does not give its logits as they are"
        raise ModelError(f"{problem}: {found.figure}", cure=found.cure)


def tied(table: NDArray[np.float64]) -> float:
    """Share of the values, of shape (places, tokens), that another of the same place equals.

    The lowest and highest of a place do not count, so that a cut does not hide that the rest is
    smooth.
    """
    inner = [row[(row > row.min()) & (row < row.max())] for row in table if row.size]
    alone = sum(int((np.unique(row, return_counts=True)[1] == 1).sum()) for row in inner)
    total = sum(len(row) for row in inner)
    return 1.0 - alone / total if total else 1.0


def piled(table: NDArray[np.float64]) -> tuple[int, int]:
    """Most values of a place that equal its lowest, and its highest, up to float32's rounding."""
    if not table.size:
        return 0, 0
    near = 4 * EPSILON["float32"] * np.abs(table).max()
    low = (table <= table.min(axis=1, keepdims=True) + near).sum(axis=1)
    high = (table >= table.max(axis=1, keepdims=True) - near).sum(axis=1)
    return int(low.max()), int(high.max())


def step_of(table: NDArray[np.float64]) -> float:
    """The step of which all differences within a place are multiples; 0 where there is none."""
    steps = []
    for row in table:
        gaps = np.diff(np.unique(row))
        gaps = gaps[gaps > 4 * EPSILON["float32"] * np.abs(row).max()]
        if len(gaps) < _FEWEST_STEPS:
            return 0.0
        times = gaps / gaps.min()
        if (np.abs(times - np.round(times)) < _OFF_IT).mean() < _ON_THE_GRID:
            return 0.0
        steps.append(float(gaps.min()))
    return min(steps, default=0.0)
