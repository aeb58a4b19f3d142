"""Chats as training reads them: rendered by the chat template of a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from canary.errors import InputError, UnsupportedError
from canary.records.validation import AUTO, NONE, one_of

ROLES = ("assistant", "user", "system")
"""Who says a canary, in a chat."""

Messages = Sequence[Mapping[str, str]]

OTHERWISE = "name that text with --context, or leave the template out with --chat-template none"
"""A cure where a template does not serve."""


def conversation(role: str, text: str) -> list[dict[str, str]]:
    """The chat of a canary alone: its message, and empty ones that templates want beside it."""
    said = {
        "assistant": ("user", "assistant"),
        "user": ("user", "assistant"),
        "system": ROLES[::-1],
    }
    return [{"role": each, "content": text if each == role else ""} for each in said[role]]


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a tokenizer of `transformers`, given itself or by its folder."""

    owner: Any = field(repr=False)

    @classmethod
    def of(cls, tokenizer: Any) -> ChatTemplate | None:
        """That of a tokenizer, if it has one."""
        return cls(tokenizer) if getattr(tokenizer, "chat_template", None) else None

    @classmethod
    def beside(cls, folder: Path) -> ChatTemplate | None:
        """That in the folder of a tokenizer, if there is one; it is read when it is needed."""
        config = folder / "tokenizer_config.json"
        named = False
        if config.is_file():
            try:
                named = bool(json.loads(config.read_text(encoding="utf-8")).get("chat_template"))
            except (OSError, ValueError, AttributeError, RecursionError):
                named = False  # a damaged file is named where the tokenizer is read
        return cls(folder) if named or (folder / "chat_template.jinja").is_file() else None

    @cached_property
    def _tokenizer(self) -> Any:
        if not isinstance(self.owner, Path):
            return self.owner
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(str(self.owner), trust_remote_code=False)
        except Exception as error:  # a config may hold anything
            raise InputError(
                f"its chat template cannot be read ({_first(error)})",
                cure=OTHERWISE,
                where=str(self.owner),
            ) from error

    def render(self, messages: Messages) -> str:
        """A chat as the training reads it.

        Raises
        ------
        UnsupportedError
            If the template refuses it, or writes today's date, which was another in training.
        """
        template = self._tokenizer.chat_template
        if "strftime_now" in str(template):
            raise UnsupportedError(
                "the chat template writes the date, which was another one in training",
                cure=OTHERWISE,
            )
        try:
            return str(self._tokenizer.apply_chat_template(list(messages), tokenize=False))
        except Exception as error:  # a template is a program, and may raise what it likes
            roles = ", ".join(str(message.get("role")) for message in messages[:4])
            raise UnsupportedError(
                f"the chat template does not take a chat of {roles} ({_first(error)})",
                cure=OTHERWISE,
            ) from error


def role_asked(asked: str | None, own: str) -> str:
    """The role whose template is meant, of what was asked and the set's own; "" for none."""
    if asked is None or asked == NONE:
        return ""
    if asked == AUTO:
        return own
    one_of(asked, "chat_template", (AUTO, NONE, *ROLES))
    return asked


def _first(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
