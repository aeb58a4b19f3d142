"""What one experiment on a model's numbers showed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from canary.errors import ModelError, OutOfMemory, ServerError
from canary.models.language_model import LanguageModel

__all__ = ["Experiment", "Finding", "Verdict", "found"]

Verdict = Literal["fine", "noted", "refused", "not checked", "not loaded"]


@dataclass(frozen=True)
class Finding:
    """What one experiment showed.

    Parameters
    ----------
    check : str
        What ought to hold, as a sentence.
    verdict : {"fine", "noted", "refused", "not checked", "not loaded"}
    figure : str
        What was measured, with its unit; why it was refused or not checked.
    cure : str
        What to do where it was refused or noted.
    error : ModelError, optional
        What was raised, where that was it.
    """

    check: str
    verdict: Verdict
    figure: str
    cure: str = ""
    error: ModelError | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, str]:
        """The finding as plain data."""
        return {name: getattr(self, name) for name in ("check", "verdict", "figure", "cure")}


Experiment = Callable[[LanguageModel], Finding]


def found(check: str, experiment: Experiment, model: LanguageModel) -> Finding:
    """What an experiment shows of `check`; what the adapter raises is a refusal."""
    try:
        return replace(experiment(model), check=check)
    except OutOfMemory:
        return Finding(check, "not checked", "memory ran out")
    except ServerError:
        raise
    except ModelError as error:
        place = f"{error.where}: " if error.where else ""
        return Finding(check, "refused", f"{place}{error.problem}", error.cure, error)
    except Exception as error:  # the adapter is the caller's own code
        reason = (str(error).strip().splitlines() or [""])[0]
        return Finding(
            check, "refused", f"it raised {type(error).__name__}: {reason}", "mend the adapter"
        )
