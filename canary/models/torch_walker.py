"""The slab walker of torch models: their distributions stay on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.models.distributions import Distributions
from canary.models.language_model import Children, FloatArray
from canary.models.state_cache import SlabWalker
from canary.models.torch_support import computing

__all__ = ["TorchWalker"]


class TorchWalker(SlabWalker):
    """Reads log-probabilities off `Distributions`; an adapter adds the step and its slab."""

    def _gather(
        self, distributions: Distributions, rows: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> Any:
        with computing():
            return distributions.gather(rows, tokens)

    def _children(
        self, distributions: Distributions, rows: NDArray[np.int64] | None, tokens: Children
    ) -> FloatArray:
        with computing():
            return distributions.children(rows, tokens)
