"""The signals of classifiers by name: what each says, and which way it points.

A new signal is one object with its `value`, added to `SIGNALS`. Attacks by it, the help of the
command and messages follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from canary.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Signal:
    """A number per model and sample of a classifier.

    Parameters
    ----------
    name, help : str
        `help` says what it is, in a line.
    sign : int
        1 if it is higher for what looks like a member, -1 if it is lower.
    of_losses, of_outputs : bool
        Whether it follows from the loss alone; or from the outputs, without the model.
    value : callable, optional
        ``value(log_probs, labels)`` gives it for some samples, of log-probabilities of shape
        (samples, classes). Those without are measured by `canary.signals.class_signals`.
    """

    name: str
    sign: Literal[1, -1]
    help: str
    of_losses: bool = False
    of_outputs: bool = True
    value: Callable[[NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]] | None = None


SIGNALS: Registry[Signal] = Registry("signal", group="signals")
"""The signals of classifiers by name; `canary.signals.class_signals` has their formulas."""

_BUILT_IN: tuple[tuple[str, Any, str, bool], ...] = (
    ("correctness", 1, "whether the label is the most likely class", False),
    ("confidence", 1, "the probability of the label", True),
    ("loss", -1, "minus the logarithm of the confidence", True),
    ("logit-confidence", 1, "the log-odds of the label", True),
    ("entropy", -1, "of all probabilities", False),
    ("modified-entropy", -1, "the entropy with the label taken into account", False),
    ("gradient-norm", -1, "how far a step of training on the sample would go", False),
)
for _name, _sign, _help, _of_losses in _BUILT_IN:
    SIGNALS.add(_name, Signal(_name, _sign, _help, _of_losses, _name != "gradient-norm"))
