"""The seam to classifiers: whatever gives each class of a sample a log-probability.

numpy crosses it. Adapters take torch modules and scikit-learn's estimators; arrays of outputs
need none (`canary.measure` reads them as they are). Whether a module gives logits or
probabilities is said by the caller and never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Classifier(Protocol):
    """Anything that gives each class of a sample a log-probability."""

    @property
    def name(self) -> str:
        """What it is, for messages."""
        ...

    @property
    def device(self) -> str:
        """Where it computes."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """A hash of its parameters; None where they cannot be told."""
        ...

    def log_probs(self, inputs: Any) -> NDArray[Any]:
        """Log-probability of each class in nats, of shape (samples, classes), floating.

        Raises
        ------
        OutOfMemory
            If the samples do not fit; the batching engine then gives fewer.
        """
        ...


@dataclass(frozen=True, eq=False)
class GradientFeatures:
    """What the gradient of the loss of each sample comes to, by the model's parameters.

    Parameters
    ----------
    names : tuple of str
        Of the parameter tensors.
    norms : ndarray of float64 of shape (samples, tensors)
        Euclidean norm of the gradient by each tensor.
    losses : ndarray of float64 of shape (samples,)
        In nats.
    rows : ndarray of float32 of shape (samples, classes)
        Norm of each class's row in the gradient by the last weight matrix.
    label_rows : ndarray of float32 of shape (samples, width)
        The row of the sample's own class.
    """

    names: tuple[str, ...]
    norms: NDArray[np.float64]
    losses: NDArray[np.float64]
    rows: NDArray[np.float32]
    label_rows: NDArray[np.float32]

    @property
    def norm(self) -> NDArray[np.float64]:
        """The signal ``gradient-norm``: norm of the whole gradient, of shape (samples,)."""
        norm: NDArray[np.float64] = np.sqrt((self.norms**2).sum(axis=1))
        return norm
