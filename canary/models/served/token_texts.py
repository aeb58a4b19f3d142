"""Tokens and texts between us and a server that has a tokenizer of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from canary.errors import ModelError, UnsupportedError
from canary.models.served.wire import token_number
from canary.tokens.fast import FastTokenizer
from canary.tokens.tokenizer import Tokenizer

_PROBES, _PROBE_TOKENS, _TRIES = 4, 12, 200
_POOL = 256
_LOST = "\N{REPLACEMENT CHARACTER}"


class Texts:
    """What the tokens of a tokenizer are as text, and which tokens a text becomes.

    Parameters
    ----------
    tokenizer : Tokenizer

    Attributes
    ----------
    before, after : int
        How many tokens the tokenizer itself puts around a text.

    Raises
    ------
    ModelError
        If no token is text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._pool = _plain_tokens(tokenizer)
        self.before, self.after = _around(tokenizer, tokenizer.decode(self._pool[:1]))
        # Decoders treat the first token of a text in their own way: another stands before.
        self._length = len(tokenizer.decode(self._pool[:1]))
        self._pieces: dict[int, str] = {}

    def ids(self, text: str) -> list[int]:
        """The tokens of a text itself, without those around it; [] if it has none."""
        try:
            (encoding,) = self.tokenizer.encode([text])
        except ModelError:
            return []
        return list(encoding.ids[self.before : len(encoding.ids) - self.after])

    def text(self, ids: Sequence[int]) -> str:
        """The text of which a server must make these tokens, if the tokenizer does."""
        if not self.comes_back(ids):
            raise UnsupportedError(
                "the server takes texts only, and no text becomes the tokens that it should be "
                "asked for (a special token, or a beginning that continues in another way)",
                cure="use a server that takes token ids (vLLM)",
            )
        return self.tokenizer.decode(ids)

    def comes_back(self, ids: Sequence[int]) -> bool:
        """Whether the tokenizer makes these tokens of their own text."""
        return self.ids(self.tokenizer.decode(ids)) == list(ids)

    def piece(self, token: int) -> str:
        """The text of a token within a text."""
        if token not in self._pieces:
            text = self.tokenizer.decode([self._pool[0], token])
            self._pieces[token] = text[self._length :]
        return self._pieces[token]

    def is_token(self, said: str, token: int) -> bool:
        """Whether a server can mean `token` by what it says.

        Parts of characters are told by no text; one is taken for any other. A special token
        has no text within one; servers tell it by none, or by its name.
        """
        number = token_number(said)
        if number is not None:
            return number == token
        piece = self.piece(token)
        if not piece or _LOST in piece:
            known = not said or _LOST in said or said.startswith("bytes:")
            return known or self._named(said) == token
        return said in {piece, piece.lstrip(" ")} or said.replace("▁", " ") == piece

    def number(self, said: str) -> int | None:
        """The one token that a server can mean by what it says, or None."""
        number = token_number(said)
        if number is not None:
            return number if number < self.tokenizer.size else None
        number = self._numbers.get(said)
        return self._named(said) if number is None else number

    def _named(self, said: str) -> int | None:
        """The special token, or other token without text, of this name."""
        token_id = getattr(self.tokenizer, "token_id", None)
        token: int | None = None if token_id is None else token_id(said)
        return None if token is None or self.piece(token) else token

    def probes(self) -> list[list[int]]:
        """A few rows of tokens, the same each time.

        Each is what its own text becomes, unless the tokenizer does not give texts back.
        """
        rng = np.random.default_rng(0)
        rows: list[list[int]] = []
        for _ in range(_TRIES):
            text = self.tokenizer.decode(rng.choice(self._pool, _PROBE_TOKENS).tolist())
            ids = self.ids(text)
            if len(ids) >= _PROBE_TOKENS // 2 and self.tokenizer.decode(ids) == text:
                rows.append(ids)
            if len(rows) == _PROBES:
                return rows
        return [rng.choice(self._pool, _PROBE_TOKENS).tolist() for _ in range(_PROBES)]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The token of each text that is that of one alone."""
        tokens_of: dict[str, list[int]] = {}
        for token in range(self.tokenizer.size):
            tokens_of.setdefault(self.piece(token), []).append(token)
        return {
            piece: tokens[0]
            for piece, tokens in tokens_of.items()
            if len(tokens) == 1 and piece and _LOST not in piece
        }


def bare(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer without the special tokens that it puts around a text.

    Raises
    ------
    UnsupportedError
        If they cannot be left out.
    """
    texts = Texts(tokenizer)
    if not texts.before and not texts.after:
        return tokenizer
    if not isinstance(tokenizer, FastTokenizer):
        raise UnsupportedError(
            "the server takes texts only, and the tokenizer puts tokens around them that cannot "
            "be left out",
            cure="give a fast tokenizer, or use a server that takes token ids (vLLM)",
        )
    from tokenizers import Tokenizer as Backend

    return FastTokenizer(Backend.from_str(json.dumps({**tokenizer.spec, "post_processor": None})))


def _plain_tokens(tokenizer: Tokenizer) -> list[int]:
    """Some tokens that are printable ASCII by themselves, the same each time."""
    plain: list[int] = []
    for token in np.random.default_rng(0).permutation(tokenizer.size).tolist():
        text = tokenizer.decode([token])
        if text.strip() and text.isascii() and text.isprintable():
            plain.append(token)
        if len(plain) == _POOL:
            break
    if not plain:
        raise ModelError(
            "the tokenizer has no token that is plain text, so a server's tokens cannot be "
            "compared with its own",
            cure="give the tokenizer with which the model was trained",
        )
    return plain


def _around(tokenizer: Tokenizer, text: str) -> tuple[int, int]:
    """How many tokens the tokenizer puts before a text and after it."""
    (encoding,) = tokenizer.encode([text])
    spans = encoding.spans or ((0, 1),) * len(encoding.ids)
    inside = [place for place, (a, b) in enumerate(spans) if a < b]
    return (inside[0], len(spans) - 1 - inside[-1]) if inside else (0, 0)
