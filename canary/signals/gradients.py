"""Gradients of the loss of single samples: what an attacker sees who holds the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from canary.errors import UnsupportedError
from canary.models.classifier import GradientFeatures, as_classifier
from canary.records.progress import Progress, shows_progress, stage
from canary.scoring.samples import in_batches
from canary.signals.output_checks import check_lengths

_WHERE = "gradient_features"


@shows_progress
def gradient_features(
    model: Any,
    x: Any,
    y: ArrayLike,
    *,
    outputs: str | None,
    batch_size: int | None = None,
    progress: Progress = None,
) -> GradientFeatures:
    """The gradient of each sample's loss, by `torch.func`, in batches that fit.

    Parameters
    ----------
    model : torch.nn.Module
        Its mode is restored, and its parameters keep their own gradients.
    x, y : array_like of shape (samples, ...), and of int of shape (samples,)
        The samples, and their labels from 0 to classes - 1.
    outputs : {"logits", "probs"}
        What it gives.
    batch_size : int, optional
        Samples at a time. Unless given, as many as fit: half where memory runs out.
    progress : callable or bool, optional
        Called with samples; see `canary.records.progress.Progress`.

    Raises
    ------
    UnsupportedError
        If `model` is no torch module.
    ModelError
        If it cannot take the samples, or has no weight matrix with a row for each class.
    """
    adapter: Any = as_classifier(model, outputs)
    if not hasattr(adapter, "gradients"):
        raise UnsupportedError(
            f"{type(model).__name__} has no gradients", cure="give a torch module", where=_WHERE
        )
    labels = np.asarray(y, np.int64)
    size = check_lengths({"x": len(x), "y": len(labels)}, _WHERE)
    done = in_batches(
        lambda part: adapter.gradients(x[part], labels[part]),
        size,
        batch_size=batch_size or adapter.gradient_batch,
        device=adapter.device,
        progress=stage(progress, "gradients", size, "samples"),
    )
    columns = zip(*(arrays for _, arrays in done), strict=True)
    return GradientFeatures(adapter.parameters, *map(np.concatenate, columns))
