"""Somebody who listens to the progress of a call."""

from __future__ import annotations


class Listening:
    """A `progress`: the stages that began, and how far each was, as (done, total), every time.

    `then` is called with the same two numbers.
    """

    def __init__(self, then=lambda done, total: None):
        self.stages, self.reached, self._then = [], [], then

    def __call__(self, name, total, unit):
        self.stages.append((name, total, unit))
        done = 0

        def advance(more):
            nonlocal done
            done += more
            self.reached.append((done, total))
            self._then(done, total)

        return advance
