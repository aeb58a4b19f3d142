"""The signals of classifiers by name: what each says, and which way it points.

A new signal is one object with its `value`, added to `SIGNALS`, or in the `BUILT_IN` of a module of
its own. Attacks by it, the help of the command and messages follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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
        (samples, classes), read-only. Without it `canary.signals.class_signals` measures it.
    """

    name: str
    sign: Literal[1, -1]
    help: str
    of_losses: bool = False
    of_outputs: bool = True
    value: Callable[[NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]] | None = None


class _Signals(Registry[Signal]):
    _modules = ("canary.signals.class_signals",)


SIGNALS: Registry[Signal] = _Signals("signal", group="signals", kind=Signal)
"""The signals of classifiers by name: `BUILT_IN` of the modules, then all others."""
