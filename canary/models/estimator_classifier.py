"""The adapters of classifiers: of scikit-learn's estimators, and of torch modules elsewhere."""

from __future__ import annotations

import sys
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, ModelError
from canary.models.classifier import Classifier


class EstimatorClassifier:
    """An estimator with scikit-learn's interface: `predict_proba` and `classes_`.

    Parameters
    ----------
    estimator : object
        Fitted, with the classes 0, 1 and so on without a gap.

    Raises
    ------
    ModelError
        If it is not fitted, or numbers its classes otherwise.

    Notes
    -----
    `predict_log_proba` is used where there is one: some estimators lose less there.
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
            joblib = import_module("joblib")
        except ImportError:
            return None
        try:
            return str(joblib.hash(self._estimator, hash_name="sha1"))
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
            raise InputError(
                f"outputs={outputs!r} for an estimator, which gives probabilities",
                cure='leave outputs out, or say "probs"',
                where="classifier",
            )
        return EstimatorClassifier(model)
    return None
