"""The signals of classifiers: what each is called, and which way it points."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SIGNALS", "Signal"]


@dataclass(frozen=True)
class Signal:
    """A number per model and sample.

    Parameters
    ----------
    name : str
    sign : int
        1 if it is higher for what looks like a member, -1 if it is lower.
    of_losses : bool
        Whether it follows from the loss alone.
    """

    name: str
    sign: int
    of_losses: bool


SIGNALS: dict[str, Signal] = {
    signal.name: signal
    for signal in (
        Signal("correctness", 1, of_losses=False),
        Signal("confidence", 1, of_losses=True),
        Signal("loss", -1, of_losses=True),
        Signal("logit-confidence", 1, of_losses=True),
        Signal("entropy", -1, of_losses=False),
        Signal("modified-entropy", -1, of_losses=False),
        Signal("gradient-norm", -1, of_losses=False),
    )
}
"""The signals by name; `canary.signals.class_signals` has their formulas."""
