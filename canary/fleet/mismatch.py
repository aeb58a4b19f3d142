"""What is said of a folder that keeps models of another configuration: what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from canary.records.differences import Difference

__all__ = ["refusal"]

_SHOWN = 60
_CODE = "its code or what it captures"


def refusal(found: Sequence[Difference]) -> tuple[str, str]:
    """Problem and cure, where what a fleet says of itself is not what its folder says."""
    # Another function has other code, which need not be said.
    others = {(*one.path[:-1], "code") for one in found if one.path[-1] == "name"}
    told = [_told(one) for one in found if one.path not in others]
    return (
        f"it keeps models of another configuration: {'; '.join(told)}",
        "name another folder, or give what these models were trained with (they stay as they are)",
    )


def _told(one: Difference) -> str:
    match one.path:
        case ("training", "name"):
            return f"training function {_both(one)}"
        case ("training", "code"):
            return f"the training function ({_CODE}) changed"
        case ("training", "fields", *names):
            # Beneath a field: a value under "is", or under "call" what is called.
            inside = ".".join(name for name in names if name not in {"is", "call", "fields"})
            if names[-1] == "code":
                return f"{inside.removesuffix('.code')} of the training ({_CODE}) changed"
            return f"{inside.removesuffix('.name')} of the training {_both(one)}"
        case ("options", *names):
            return f"option {'.'.join(names)} {_both(one)}"
        case ("data",):
            return "data: other samples or labels"
        case names:
            return f"{'.'.join(names)} {_both(one)}"


def _both(one: Difference) -> str:
    return f"({_shown(one.before)} then, {_shown(one.now)} now)"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
