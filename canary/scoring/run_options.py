"""How a model is asked: built once from what the user gave, and handed down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypedDict

from canary.errors import InputError
from canary.formats.format import Format
from canary.models.language_model import LanguageModel
from canary.records.progress import Advance, Progress, stage
from canary.records.validation import AUTO, function, some, text, versions, whole_number
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.chat_context import context_before
from canary.tokens.chats import role_asked
from canary.tokens.tokenizer import Tokenizer


class Scoring(TypedDict, total=False):
    """The fields of `ScoreOptions` as keyword arguments."""

    start_token: str | None
    context: str | None
    batch_size: int | None


class Running(Scoring, total=False):
    """The fields of `RunOptions` as keyword arguments."""

    start_texts: Sequence[str] | None
    progress: Progress
    seed: int
    chat_template: str | None


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """What comes before each text, and how many are scored at once.

    Parameters
    ----------
    start_token : str, optional
        A token put before each text, if the tokenizer puts none there: its name, or None (or
        ``"none"``) for nothing. Without one the first token of a text has no probability and
        is not counted.
    context : str, optional
        Text before each text; see `canary.tokens.candidates.CandidateEncoder`. None for no text.
    batch_size : int, optional
        Found by trial unless given; changes results within the model's noise only.

    Raises
    ------
    InputError
        If a value has the wrong type or is out of range.
    """

    start_token: str | None = None
    context: str = ""
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.start_token is not None:
            cure = "give the name of a token, or leave it out"
            text(self.start_token, "start_token", cure=cure)
        cure = "give the text before a candidate, or None for none"
        context = "" if self.context is None else text(self.context, "context", cure=cure)
        object.__setattr__(self, "context", context)
        if self.batch_size is not None:
            self._whole("batch_size", 1, below=2**63, cure="leave it out")

    def _whole(self, name: str, at_least: int, **limits: Any) -> None:
        limits = {"below": None, **limits}
        value = whole_number(getattr(self, name), name, at_least=at_least, **limits)
        object.__setattr__(self, name, value)

    def encoder(self, model: LanguageModel) -> CandidateEncoder:
        """What puts the start token and the context before each candidate."""
        return CandidateEncoder(model.tokenizer, self.start_token, self.context)


@dataclass(frozen=True, kw_only=True)
class RunOptions(ScoreOptions):
    """How candidates are scored; besides, the fields of `ScoreOptions`.

    Parameters
    ----------
    start_token : str, optional
        What came before each text in training, where the tokenizer puts nothing there.
        ``"auto"`` takes the token after which text without secrets is most likely.
    start_texts : sequence of str, optional
        Training texts without a canary, for ``"auto"`` to choose by. A model that knows them may
        know no English.
    progress : callable or bool, optional
        Called with each stage and its tokens; see `canary.records.progress.Progress`. Functions of
        `canary` show bars on a terminal and in a notebook unless this is False.
    seed : int
        Of random draws.
    chat_template : str, optional
        The role of the chat message that holds a candidate: `context` becomes what the tokenizer's
        chat template puts before it. ``"auto"`` takes the role of the canary set where no context
        is given; None (or ``"none"``) renders nothing.
    """

    start_token: str | None = AUTO
    start_texts: Sequence[str] | None = None
    progress: Progress = None
    seed: int = 0
    chat_template: str | None = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("seed", 0)
        role_asked(self.chat_template, "")
        if not isinstance(self.progress, bool):
            function(self.progress, "progress")
        if self.start_texts is not None:
            cure = "give a list of texts of the training corpus"
            texts = tuple(some(self.start_texts, "start_texts", cure=cure))
            for each in texts:
                text(each, "each of start_texts", cure="give texts that can be written as UTF-8")
            object.__setattr__(self, "start_texts", texts)

    def in_chat(self, tokenizer: Tokenizer, formats: Sequence[Format], role: str) -> Self:
        """The options after the chat template: with what it puts before a message as context.

        `role` is that of the canary set. Nothing else comes before a chat unless a start token
        was named.

        Raises
        ------
        InputError
            If a context was given besides a role.
        UnsupportedError
            As `canary.tokens.chat_context.context_before`.
        """
        role = role_asked(self.chat_template, "" if self.context else role)
        if not role:
            return replace(self, chat_template=None)
        if self.context:
            raise InputError(
                "a context and a chat template were given, and both say what comes before",
                cure="leave one of context and chat_template out",
            )
        start = None if self.start_token == AUTO else self.start_token
        context = context_before(tokenizer, formats, role)
        return replace(self, context=context, start_token=start, chat_template=None)

    def begin(self, name: str, tokens: int, model: LanguageModel, *, requests: int = 0) -> Advance:
        """Begin a stage of at most this many tokens, or requests to a served model."""
        client = getattr(model, "client", None)
        if client is None:
            return stage(self.progress, name, tokens)
        before, most = client.sent, client.most
        left = requests if most is None else min(requests, max(most - before, 0))
        advance = stage(self.progress, name, left, "requests")

        def sent(_: int) -> None:
            nonlocal before
            done, before = client.sent - before, client.sent
            advance(done)

        return sent


def identity_of(model: LanguageModel) -> dict[str, Any]:
    """What must be the same of a model for numbers of two runs to belong together.

    Its parameters, how it computes, its tokenizer, and the versions of the software, under
    names for people; not its place, and not the batch size, which moves numbers within the
    noise only.
    """
    facts = model.facts
    return {
        "model": facts.fingerprint,
        "dtype": facts.dtype,
        "attention": facts.attention,
        "device": facts.device,
        "tokenizer": getattr(model.tokenizer, "fingerprint", model.tokenizer.size),
        **{f"version of {name}": number for name, number in versions().items()},
    }
