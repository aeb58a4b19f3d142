"""Why a training was measured less often than was asked for, in words."""

from __future__ import annotations

from canary.audits.history import History
from canary.plugins.share import TimeShare
from canary.statistics.numbers import plural


def why_never(history: History, time: TimeShare, *, step: int) -> str:
    """Why there are no numbers at all in a training that ended at `step`."""
    if history.moments:
        return f"{history.moments[-1].reason}"
    if not history.asked:
        return (
            f"the training ended at step {step}, before any that was asked for; "
            "give a smaller every, or steps"
        )
    return (
        f"of {plural(history.asked, 'measurement')} that were asked for none was made: getting "
        f"ready took {history.own_seconds:.2g} s and one measurement takes about "
        f"{time.cost or 0.0:.2g} s, and its share of the training is "
        f"{(time.share or 0.0) * history.training_seconds:.2g} s; give fewer draws, or a larger "
        "share (None for as long as it takes)"
    )


def why_fewer(history: History, time: TimeShare) -> str:
    """What was asked for, what was measured, and why not all of it."""
    failed = len(history.moments) - len(history.measured)
    parts = []
    if history.asked > len(history.moments) and time.share is None:
        parts.append("the others were of steps that had been measured before")
    elif history.asked > len(history.moments):
        parts.append(
            f"share={time.share:g} of the training's time allowed no more (one takes about "
            f"{time.cost or 0.0:.2g} s); give a larger share, None for as long as it takes, or "
            "a larger every"
        )
    if failed:
        last = next(m for m in reversed(history.moments) if m.reason is not None)
        parts.append(f"{failed} failed, the last at step {last.step}: {last.reason}")
    return (
        f"canary: asked for {plural(history.asked, 'measurement')}, made "
        f"{len(history.measured)}: {'; '.join(parts)}"
    )
