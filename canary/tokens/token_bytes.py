"""The bytes that each token writes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from canary.errors import UnsupportedError
from canary.tokens.fast import FastTokenizer, flat
from canary.tokens.tokenizer import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def token_bytes(tokenizer: Tokenizer, vocabulary: int) -> list[bytes | None]:
    """What each of the first `vocabulary` tokens writes behind other text, as UTF-8.

    None for special tokens, and numbers that are no token. The text of tokens is what they write,
    joined: behind the first token, where some decoders drop a space.

    Raises
    ------
    UnsupportedError
        If the tokenizer is none of `transformers` or `tokenizers`.
    """
    if not isinstance(tokenizer, FastTokenizer):
        raise UnsupportedError(
            f"{type(tokenizer).__name__} does not show what its tokens write",
            cure="count edits in tokens, or give a tokenizer of transformers or tokenizers",
            where="near",
        )
    added = {token["id"]: token for token in tokenizer.spec.get("added_tokens") or ()}
    names = tokenizer.names
    kinds = {part["type"] for part in flat(tokenizer.spec.get("decoder"), "decoders")}
    by_byte = dict(_byte_level()) if "ByteLevel" in kinds else None
    anchor = next((t for t, n in names.items() if t not in added and tokenizer.decode([t])), None)
    before = "" if anchor is None else tokenizer.decode([anchor])
    found = list[bytes | None]()
    for token in range(vocabulary):
        name = names.get(token)
        if name is None or anchor is None or added.get(token, {}).get("special"):
            found.append(None)
        elif token in added:
            found.append(name.encode())
        elif by_byte is not None:
            found.append(bytes(by_byte[each] for each in name if each in by_byte))
        elif "ByteFallback" in kinds and (one := _BYTE.fullmatch(name)):
            found.append(bytes([int(one[1], 16)]))
        else:
            found.append(tokenizer.decode([anchor, token]).removeprefix(before).encode())
    return found


def _byte_level() -> Iterator[tuple[str, int]]:
    """The characters that stand for bytes in byte-level vocabularies, as GPT-2 chose them."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    yield from ((chr(byte), byte) for byte in printed)
    yield from ((chr(256 + at), byte) for at, byte in enumerate(others))
