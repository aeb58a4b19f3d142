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

    `before` and `after` are how many tokens the tokenizer itself puts around a text. A ModelError
    if no token is text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._pool: list[int] = []  # tokens that are printable ASCII by themselves
        for token in np.random.default_rng(0).permutation(tokenizer.size).tolist():
            text = tokenizer.decode([token])
            if text.strip() and text.isascii() and text.isprintable():
                self._pool.append(token)
            if len(self._pool) == _POOL:
                break
        if not self._pool:
            raise ModelError(
                "the tokenizer has no token that is plain text, so a server's tokens cannot be "
                "compared with its own",
                cure="give the tokenizer with which the model was trained",
            )
        # Decoders treat the first token of a text in their own way: another stands before.
        first = tokenizer.decode(self._pool[:1])
        self._length = len(first)
        self._pieces: dict[int, str] = {}
        (encoding,) = tokenizer.encode([first])
        spans = encoding.spans or ((0, 1),) * len(encoding.ids)
        inside = [place for place, (start, end) in enumerate(spans) if start < end]
        self.before = inside[0] if inside else 0
        self.after = len(spans) - 1 - inside[-1] if inside else 0

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

        Parts of characters have no text; one is taken for any other. A special token
        has no text within one; servers give no text for it, or its name.
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
        numbers: dict[str, int | None] = {}
        for token in range(self.tokenizer.size):
            piece = self.piece(token)
            numbers[piece] = None if piece in numbers else token
        return {
            piece: token
            for piece, token in numbers.items()
            if token is not None and piece and _LOST not in piece
        }

    def bare(self) -> Texts:
        """The same without the special tokens that the tokenizer puts around a text.

        An UnsupportedError if they cannot be left out.
        """
        if not self.before and not self.after:
            return self
        if not isinstance(self.tokenizer, FastTokenizer):
            raise UnsupportedError(
                "the server takes texts only, and the tokenizer puts tokens around them that "
                "cannot be left out",
                cure="give a fast tokenizer, or use a server that takes token ids (vLLM)",
            )
        from tokenizers import Tokenizer as Backend

        plain = {**self.tokenizer.spec, "post_processor": None}
        return Texts(FastTokenizer(Backend.from_str(json.dumps(plain))))
