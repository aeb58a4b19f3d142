"""One check of a model's numbers, and what it showed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from canary.errors import ModelError, OutOfMemory, ServerError
from canary.models.language_model import LanguageModel
from canary.records.record import Record

Verdict = Literal["fine", "noted", "refused", "not checked", "not loaded"]


@dataclass(frozen=True)
class Finding(Record, written=("check", "verdict", "figure", "cure")):
    """What one check showed.

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


def fine(figure: str) -> Finding:
    """It holds; `Check.of` puts in what."""
    return Finding("", "fine", figure)


def noted(figure: str, cure: str = "") -> Finding:
    """The reader must judge whether it holds."""
    return Finding("", "noted", figure, cure)


def refused(figure: str, cure: str) -> Finding:
    """It does not hold."""
    return Finding("", "refused", figure, cure)


def unchecked(reason: str) -> Finding:
    """It cannot be said whether it holds."""
    return Finding("", "not checked", reason)


@dataclass(frozen=True)
class Check:
    """Something that ought to hold of a model, and the experiment that shows whether it does.

    Parameters
    ----------
    says : str
    experiment : callable
        From a model to a finding that does not name the check.
    """

    says: str
    experiment: Callable[[LanguageModel], Finding]

    def of(self, model: LanguageModel) -> Finding:
        """What the experiment shows; what the adapter raises is a refusal."""
        try:
            finding = self.experiment(model)
        except OutOfMemory:
            finding = unchecked("memory ran out")
        except ServerError:
            raise
        except ModelError as error:
            place = f"{error.where}: " if error.where else ""
            finding = replace(refused(f"{place}{error.problem}", error.cure), error=error)
        except Exception as error:  # the adapter is the caller's own code
            reason = (str(error).strip().splitlines() or [""])[0]
            finding = refused(f"it raised {type(error).__name__}: {reason}", "mend the adapter")
        return replace(finding, check=self.says)
