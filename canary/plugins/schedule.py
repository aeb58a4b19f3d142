"""At which steps of a training a measurement is asked for."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from typing import Literal, SupportsFloat

from canary.errors import InputError
from canary.records.fields import brief
from canary.records.validation import real_number, some, whole_number

Every = int | Literal["epoch"]
"""Steps between two measurements, or the end of each epoch."""


class Schedule:
    """Counts steps and epochs.

    Parameters
    ----------
    every : int or "epoch"
    steps : collection of int
        More steps to measure at.
    """

    def __init__(self, every: Every, steps: Collection[int]) -> None:
        if not isinstance(every, str) or every != "epoch":
            cure = "give a number of steps, or 'epoch'"
            every = whole_number(every, "every", at_least=1, cure=cure)
        self.every, self.steps = every, steps_of(steps, "steps")
        self.step, self.epoch = 0, 0.0

    def check(self, step: int | None, epoch: float | None) -> tuple[int, float | None]:
        """The next step and its epoch as plain numbers; nothing is counted yet.

        Raises
        ------
        InputError
            If one is no number, or every epoch was asked for and the epoch is not given.
        """
        if step is not None:
            step = whole_number(step, "step", at_least=0, cure="give the steps done, or leave out")
        if epoch is not None:
            epoch = real_number(epoch, "epoch", cure="give the epochs done, or leave it out")
        elif self.every == "epoch":
            raise InputError(
                "every epoch was asked for, and the epoch is not known",
                cure="give it with each step (epoch=), or ask for every so many steps",
            )
        return self.step + 1 if step is None else step, epoch

    def advance(self, step: int, epoch: float | None) -> bool:
        """Count a step; whether a measurement is asked for at it."""
        self.step = step
        named = step in self.steps
        if self.every != "epoch":
            return named or step % self.every == 0
        before, self.epoch = math.floor(self.epoch + 1e-6), epoch or 0.0
        return named or math.floor(self.epoch + 1e-6) > before


def loss_of(loss: object) -> float:
    """A loss as a float, NaN where the training diverged; a tensor of one number is welcome."""
    if isinstance(loss, SupportsFloat) and not isinstance(loss, bool):
        with suppress(TypeError, ValueError, RuntimeError, OverflowError):
            return float(loss)
    raise InputError(
        f"loss must be a number, got {brief(loss)}",
        cure="give the loss of this step, or leave it out",
    )


def steps_of(given: Collection[int], name: str) -> list[int]:
    """Numbers of steps, ascending."""
    steps = some(given, name, cure="give a list of steps, such as [100, 200]")
    return sorted(whole_number(step, f"each of {name}", at_least=0) for step in steps)
