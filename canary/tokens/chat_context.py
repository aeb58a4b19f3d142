"""What a chat template puts before a message, found by rendering a chat that holds a candidate."""

from __future__ import annotations

from collections.abc import Sequence

from canary.errors import UnsupportedError
from canary.formats.format import Format
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.chats import OTHERWISE, Messages, conversation
from canary.tokens.fast import FastTokenizer
from canary.tokens.tokenizer import Tokenizer


def rendered(tokenizer: Tokenizer, messages: Messages) -> str:
    """A chat as the training reads it, without the token that the tokenizer puts before a text.

    Raises
    ------
    UnsupportedError
        If the tokenizer has no chat template, the template does not take the chat, or the
        tokenizer puts a token before each text that the template does not.
    """
    if not isinstance(tokenizer, FastTokenizer) or tokenizer.chat is None:
        raise UnsupportedError(
            "the canaries are chat messages, and the tokenizer has no chat template",
            cure=f"give the tokenizer of the training (--tokenizer), {OTHERWISE}",
        )
    whole, (before, _) = tokenizer.chat.render(messages), tokenizer.template("a")
    if not before:
        return whole
    (found,) = tokenizer.bare([whole])
    if found.ids[: len(before)] != before or found.spans is None:
        raise UnsupportedError(
            "the tokenizer puts a token before each text, and its chat template puts none there, "
            "so the audit would score other tokens than the training has",
            cure="give a tokenizer that puts none there (add_bos_token=False) with --tokenizer",
        )
    return whole[found.spans[len(before) - 1][1] :]


def context_before(tokenizer: Tokenizer, formats: Sequence[Format], role: str) -> str:
    """What the chat template puts before a canary of any of the formats, in a message of a role.

    It is seen on the first and the last candidate of each format, with all their tokens.

    Raises
    ------
    UnsupportedError
        As `rendered`; if the template changes or joins the text of a candidate, or what comes
        before it depends on it.
    """
    found: set[str] = set()
    for format in formats:
        for fill in (format.unrank(0), format.unrank(format.size - 1)):
            text = format.candidate(fill)
            whole = rendered(tokenizer, conversation(role, text))
            lead, there, _ = whole.partition(text)
            if not there:
                raise UnsupportedError(
                    f"the chat template changes the text of {format.masked!r}",
                    cure="begin and end the format without white space, or name the text before "
                    "the canaries with --context",
                )
            found.add(lead)
            end = len(text) - len(format.suffix)
            alone = CandidateEncoder(tokenizer, None, lead)
            priced, trained = (alone.encode([part])[0] for part in (text, whole[len(lead) :]))
            last = sum(a < end for a, _ in priced.spans or ())
            if priced.ids[:last] != trained.ids[:last]:
                raise UnsupportedError(
                    f"the tokenizer joins {format.masked!r} with what the chat template puts "
                    "behind it, so the audit would score other tokens than the training has",
                    cure="end the format with fixed text, such as a full stop",
                )
    if len(found) > 1:
        raise UnsupportedError(
            "what the chat template puts before a canary depends on the canary", cure=OTHERWISE
        )
    return found.pop()
