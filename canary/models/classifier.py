"""The seam to classifiers, and the adapter of scikit-learn's: each class gets a log-probability.

numpy crosses it. Adapters take torch modules and scikit-learn's estimators; arrays of outputs
need none (`canary.measure` reads them as they are). Whether a module gives logits or
probabilities is said by the caller and never guessed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, ModelError


@runtime_checkable
class Classifier(Protocol):
    """Anything that gives each class of a sample a log-probability."""

    @property
    def name(self) -> str:
        """What it is, for messages."""

    @property
    def device(self) -> str:
        """Where it computes."""

    @property
    def fingerprint(self) -> str | None:
        """A hash of its parameters; None where they cannot be read."""

    def log_probs(self, inputs: Any) -> NDArray[Any]:
        """Log-probability of each class in nats, of shape (samples, classes), floating.

        Raises
        ------
        OutOfMemory
            If the samples do not fit; the batching engine then gives fewer.
        """


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


class EstimatorClassifier:
    """An estimator with scikit-learn's interface: `predict_proba` and `classes_`.

    `predict_log_proba` is used where there is one: some estimators lose less there.

    Parameters
    ----------
    estimator : object
        Fitted, with the classes 0, 1 and so on without a gap.

    Raises
    ------
    ModelError
        If it is not fitted, or numbers its classes otherwise.
    """

    device = "cpu"

    def __init__(self, estimator: Any) -> None:
        self.name = type(estimator).__name__
        self._estimator = estimator
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            raise ModelError(
                "the estimator has no classes_", cure="fit it as a classifier", where=self.name
            )
        if not np.array_equal(np.asarray(classes), np.arange(len(classes))):
            shown = ", ".join(map(repr, list(classes)[:3]))
            raise ModelError(
                f"the estimator's classes are {shown} and so on, expected 0, 1, 2 without a gap",
                cure="fit it with np.searchsorted(np.unique(y), y) as labels, and give the same",
                where=self.name,
            )

    @cached_property
    def fingerprint(self) -> str | None:
        """SHA-1 by joblib, which scikit-learn brings, over everything that was fitted.

        None where joblib is absent or cannot hash the estimator.
        """
        try:
            return str(import_module("joblib").hash(self._estimator, hash_name="sha1"))
        except Exception:  # it pickles, where objects may raise anything
            return None

    def log_probs(self, inputs: Any) -> NDArray[Any]:
        """Log-probabilities as the estimator gives them, of shape (samples, classes)."""
        with np.errstate(divide="ignore"):
            if hasattr(self._estimator, "predict_log_proba"):
                return np.asarray(self._estimator.predict_log_proba(inputs))
            return np.asarray(np.log(self._estimator.predict_proba(inputs)))


def as_classifier(model: Any, outputs: str | None) -> Classifier | None:
    """The adapter of a torch module or an estimator; None for functions and arrays.

    Parameters
    ----------
    model : object
        A `Classifier` is returned as it is.
    outputs : {"logits", "probs"}
        What a module gives. Estimators give probabilities.

    Raises
    ------
    InputError
        If it is not said what a module gives, or it is said to give losses.
    """
    # No module can be at hand while torch is not imported, and it is not imported for others.
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from canary.models.torch_classifier import TorchClassifier

        return TorchClassifier(model, outputs)
    if isinstance(model, Classifier):
        return model
    if hasattr(model, "predict_proba"):
        if outputs not in {None, "probs"}:
            problem = f"outputs={outputs!r} for an estimator, which gives probabilities"
            raise InputError(problem, cure='leave outputs out, or say "probs"', where="classifier")
        return EstimatorClassifier(model)
    return None
