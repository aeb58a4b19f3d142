"""Candidates as token rows: whole strings, tokenized as training would have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from canary.errors import InputError, ModelError
from canary.formats.format import Format
from canary.records.validation import AUTO, named_start
from canary.tokens.tokenizer import Encoding, Tokenizer


@dataclass(frozen=True)
class CandidateEncoder:
    r"""Turns candidate texts into the token sequences that a model is asked about.

    Parameters
    ----------
    tokenizer : Tokenizer
    start_token : str, optional
        A token put before every text, for tokenizers that put none there themselves:
        the name of a token (``<|endoftext|>``) or a text that is one token (``\n``).
        Training must have put it there too. None and ``"none"`` for nothing.
    context : str
        Text before every candidate (Secret Sharer, appendix A.3); it is tokenized
        together with the candidate.
    """

    tokenizer: Tokenizer
    start_token: str | None = None
    context: str = ""
    _start: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        token = named_start(self.start_token)
        if token == AUTO:
            raise InputError(
                "the start token is to be chosen, and nothing is chosen here",
                cure="name the token that stood before each text in training, or none",
                where="start_token",
            )
        start = () if token is None else (self._find_start(token),)
        object.__setattr__(self, "_start", start)
        if self.context:
            try:
                self.tokenizer.encode([self.context])
            except ModelError as error:
                cure = "give the text that came before each candidate in training"
                raise InputError(error.problem, cure=cure, where="context") from error

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Token ids of each text, with spans in the coordinates of the text itself.

        Tokens of the start and of the context have spans that end at or before 0.
        """
        shift = len(self.context)
        found = self.tokenizer.encode([self.context + text for text in texts])
        if self._start and any(e.ids[:1] == self._start for e in found if _special_first(e)):
            raise InputError(
                f"the tokenizer itself puts the start token {self.start_token!r} before a text, "
                "and it would stand there twice",
                cure="leave start_token (--start-token) away",
            )
        return [
            Encoding(
                self._start + e.ids,
                None
                if e.spans is None
                else ((-shift, -shift),) * len(self._start)
                + tuple((a - shift, b - shift) for a, b in e.spans),
            )
            for e in found
        ]

    def candidates(self, format: Format, fills: Sequence[str]) -> list[Encoding]:
        """The candidates of `format` with these fills, checked to share a first token.

        Raises
        ------
        InputError
            If the first token differs between candidates. It has no probability (there
            is nothing before it), so part of the fill would go unpriced.
        ModelError
            If the tokenizer gives different fills the same tokens.
        """
        encodings = self.encode([format.candidate(fill) for fill in fills])
        if len({e.ids for e in encodings}) < len(set(fills)):
            raise self.same_tokens(format)
        # A hole at the very beginning is unpriced even if these few fills agree in it.
        bare = not format.prefix and not self.context and not self._start
        special = all(_special_first(e) for e in encodings)
        if len({e.ids[0] for e in encodings}) > 1 or (bare and not special):
            raise self.begins_with_a_hole(format)
        return encodings

    @property
    def start(self) -> tuple[int, ...]:
        """The start token before every text, if one was named."""
        return self._start

    @staticmethod
    def same_tokens(format: Format) -> ModelError:
        """That different fills are the same tokens."""
        return ModelError(
            f"the tokenizer gives different fills of {format.masked!r} the same tokens "
            "(it changes case or replaces characters), so no model can tell them apart",
            cure="use holes whose characters this tokenizer keeps apart",
        )

    def begins_with_a_hole(self, format: Format) -> InputError:
        """That the first token of a candidate depends on its fill."""
        problem = f"the format {format.masked!r} begins with a hole"
        if before := self.context + format.prefix:
            problem = (
                f"the first token of a candidate of {format.masked!r} depends on the fill: "
                f"the tokenizer merges {before[-20:]!r} with it"
            )
        return InputError(
            f"{problem}, and this tokenizer puts no token before a text, so the first token "
            "of the fill would have no probability",
            cure="name what stood before each text in training with start_token "
            "(--start-token; for packed data usually the end-of-text token), "
            "or begin the format with fixed text",
        )

    def starts_bare(self, encodings: Sequence[Encoding]) -> bool:
        """Whether nothing stands before a text: no special token, start token or context."""
        bare = not self._start and not self.context
        return bare and not any(_special_first(e) for e in encodings)

    def context_length(self, format: Format, encoding: Encoding) -> int | None:
        """How many tokens of a candidate stand before the first that overlaps its fill.

        None if the tokenizer cannot tell which characters a token stands for.
        """
        if encoding.spans is None:
            return None
        begin = len(format.prefix)
        return next((i for i, (a, b) in enumerate(encoding.spans) if b > begin and a < b), None)

    def _find_start(self, token: str) -> int:
        find = getattr(self.tokenizer, "token_id", None)
        named = find(token) if find else None
        if named is not None:
            return int(named)
        cure = "name one token of the tokenizer, such as its end-of-text token"
        try:
            encodings = self.tokenizer.encode([token])
        except ModelError as error:
            raise InputError(
                f"the tokenizer has no token {token!r}", cure=cure, where="start_token"
            ) from error
        plain = [
            i
            for e in encodings
            for i, (a, b) in zip(e.ids, e.spans or [(0, 1)] * len(e.ids), strict=True)
            if a < b
        ]
        if len(plain) != 1:
            raise InputError(
                f"the start token {token!r} is {len(plain)} tokens, one was expected",
                cure=cure,
                where="start_token",
            )
        return plain[0]


def _special_first(encoding: Encoding) -> bool:
    """Whether the first token stands for no character of the text."""
    if not encoding.spans:
        return False
    start, stop = encoding.spans[0]
    return start == stop
