"""How a model is asked: built once from what the user gave, and handed down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from canary.models.language_model import LanguageModel
from canary.records.validation import AUTO, check_running, function, some, text, whole_number
from canary.records.versions import versions
from canary.scoring.batcher import Progress, Stage
from canary.tokens.candidates import CandidateEncoder


class Running(TypedDict, total=False):
    """The fields of `RunOptions` as keyword arguments."""

    start_token: str | None
    start_texts: Sequence[str] | None
    context: str
    batch_size: int | None
    stage: Stage | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What comes before the candidates, and how the model is run on them.

    Parameters
    ----------
    start_token : str, optional
        What came before each text in training, where the tokenizer puts nothing there: the
        name of a token, or None (or ``"none"``) for nothing. ``"auto"`` takes the token after
        which text without secrets is most likely.
    start_texts : sequence of str, optional
        Training texts without a canary, for ``"auto"`` to choose by.
    context : str
        Text before every candidate; see `canary.tokens.candidates.CandidateEncoder`.
    batch_size : int, optional
        Found by trial unless given; changes results within the model's noise only.
    stage : callable, optional
        For progress, in tokens; see `canary.scoring.batcher.Stage`.
    seed : int
        Of random draws.

    Raises
    ------
    InputError
        If a value has the wrong type or is out of range.
    """

    start_token: str | None = AUTO
    start_texts: Sequence[str] | None = None
    context: str = ""
    batch_size: int | None = None
    stage: Stage | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        size = check_running(
            start_token=self.start_token, context=self.context, batch_size=self.batch_size
        )
        object.__setattr__(self, "batch_size", size)
        self._whole("seed", 0)
        function(self.stage, "stage")
        if self.start_texts is not None:
            cure = "give a list of texts of the training corpus"
            texts = tuple(some(self.start_texts, "start_texts", cure=cure))
            for each in texts:
                text(each, "each of start_texts", cure="give texts that can be written as UTF-8")
            object.__setattr__(self, "start_texts", texts)

    def _whole(self, name: str, at_least: int) -> None:
        value = whole_number(getattr(self, name), name, at_least=at_least, below=None)
        object.__setattr__(self, name, value)

    def encoder(self, model: LanguageModel) -> CandidateEncoder:
        """What puts the start token and the context before each candidate."""
        return CandidateEncoder(model.tokenizer, self.start_token, self.context)

    def progress(self, name: str, tokens: int) -> Progress:
        """Begin a stage of at most this many tokens."""
        return (lambda _done: None) if self.stage is None else self.stage(name, tokens)


@dataclass(frozen=True, kw_only=True)
class AuditOptions(RunOptions):
    """How exposure is measured; besides, the fields of `RunOptions`.

    Parameters
    ----------
    method : str
        Its name, or ``"auto"`` for the first that the budget allows.
    budget : int
        Queries that a search may take for each format.
    draws : int
        Candidates drawn uniformly from each format.
    """

    method: str = "auto"
    budget: int = 1_000_000
    draws: int = 20_000

    def __post_init__(self) -> None:
        self._whole("budget", 1)
        self._whole("draws", 1)
        super().__post_init__()

    def asked(self) -> dict[str, Any]:
        """What two runs must have in common to give the same numbers, as plain data."""
        names = ("method", "budget", "draws", "seed", "start_token", "context")
        return {name: getattr(self, name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """The options as plain data, with the versions of what computes."""
        return {**self.asked(), "batch_size": self.batch_size, "versions": versions()}


assert {field.name for field in fields(RunOptions)} == Running.__annotations__.keys()
