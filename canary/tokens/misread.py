"""What a tokenizer makes of a context and a format that may not be what is meant."""

from __future__ import annotations

import difflib
import re

from canary.formats.format import Format
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import FastTokenizer
from canary.tokens.tokenizer import Encoding

# How special tokens are written: `<|name|>`, `<s>`, `[INST]` and their like.
_SPECIAL = re.compile(
    r"<\|[^|<>\s]{1,40}\|>"
    r"|<\uff5c[^\uff5c<>]{1,40}\uff5c>"
    r"|</?(?:s|bos|eos|pad|unk|sep|cls|mask|(?:start|end)_of_(?:turn|text)|(?:im|turn)_\w{1,20})>"
    r"|\[/?(?:INST|SYS|BOS|EOS|CLS|SEP|PAD|MASK|UNK)\]"
)
_NAMED = 5  # special tokens that a note names


def misread(encoder: CandidateEncoder, format: Format) -> tuple[str, ...]:
    """Notes on text that the tokenizer may not read as it is meant.

    Text that looks like a special token and is none, a first token that is there twice, and
    a token that covers the end of the context and the beginning of the candidate.
    """
    text = format.candidate(format.unrank(0))
    (encoding,) = encoder.encode([text])
    if encoding.spans is None:
        return ()
    spans = [(a, b) for a, b in encoding.spans if a < b]
    # Not the text between holes: a match could show what fills one.
    alike: dict[str, str] = {}
    for where, found, begin in (
        ("context", encoder.context, -len(encoder.context)),
        ("format", format.prefix, 0),
        ("format", format.suffix, len(text) - len(format.suffix)),
    ):
        for match in _SPECIAL.finditer(found):
            start, stop = begin + match.start(), begin + match.end()
            if not any(a <= start and stop <= b for a, b in spans):
                alike.setdefault(match.group(), where)
    notes = [_ordinary(encoder, name, where) for name, where in alike.items()]
    if doubled := _doubled(encoder, encoding):
        notes.append(doubled)
    if encoder.context and any(a < 0 < b for a, b in spans):
        notes.append(
            "One token covers the end of the context and the beginning of the candidate. That "
            "is right if training tokenized them as one text. If it tokenized prompt and answer "
            "separately, end the context without the space that the token takes along."
        )
    return tuple(notes)


def _ordinary(encoder: CandidateEncoder, name: str, where: str) -> str:
    """That a text that looks like a special token is none."""
    special: list[str] = []
    if isinstance(encoder.tokenizer, FastTokenizer):
        added = encoder.tokenizer.spec.get("added_tokens") or ()
        special = [token["content"] for token in added]
        if encoder.tokenizer.splits_special and name in special:
            return (
                f"The {where} holds {name}, which this tokenizer splits as ordinary text "
                "(split_special_tokens). If training had a special token there, set that to False."
            )
    near = difflib.get_close_matches(name, special, _NAMED, cutoff=0.0)
    named = f"its special tokens are {', '.join(near)}" if near else "it has no special tokens"
    if len(special) > len(near):
        named += f" and {len(special) - len(near):,} more"
    return (
        f"The {where} holds {name}, which is ordinary text to this tokenizer; {named}. If "
        "training had a special token there, write its name as the tokenizer has it, or give "
        "the tokenizer of the training."
    )


def _doubled(encoder: CandidateEncoder, encoding: Encoding) -> str | None:
    """That the token which is put before a text is also what the text begins with."""
    assert encoding.spans is not None
    first = next((k for k, (a, b) in enumerate(encoding.spans) if a < b), 0)
    if not first or encoding.ids[first - 1] != encoding.ids[first]:
        return None
    before = "start token" if len(encoder.start) == first else "tokenizer"
    where = "context" if encoder.context else "format"
    return (
        f"The {before} already puts the first token of the {where} before each text, so the "
        f"model reads it twice. Omit it from the {where}, unless training had it twice, too."
    )
