"""Whether a copy still has the tokens under which its canary will be scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Slot
from canary.corpus.surroundings import Copies
from canary.errors import UnsupportedError
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tokenizer import Encoding

__all__ = ["OwnTokens"]


class OwnTokens:
    """Compares the tokens of copies, in the text around them, with those of the canaries.

    Parameters
    ----------
    canaries : CanarySet
    tokenizer : what `canary.tokens.fast.as_tokenizer` takes
        That of the training.
    context : str
        What an audit will be told to put before every candidate.
    """

    def __init__(self, canaries: CanarySet, tokenizer: Any, context: str) -> None:
        self._tokenizer = as_tokenizer(tokenizer)
        texts = {canary.id: canaries.text(canary) for canary in canaries}
        self._copies = Copies(canaries)
        encoder = CandidateEncoder(self._tokenizer, context=context)
        own = encoder.encode(list(texts.values()))
        self._own = {
            name: _tokens(encoding, 0, len(text))
            for (name, text), encoding in zip(texts.items(), own, strict=True)
        }

    def count(self, slots: Sequence[Slot]) -> Counter[str]:
        """For each canary, its copies in `slots` that have its own tokens.

        Raises
        ------
        ModelError
            If the text around a copy cannot be tokenized.
        UnsupportedError
            If the tokenizer cannot tell which characters a token stands for.
        """
        found: Counter[str] = Counter()
        for slot in slots:
            hits, _ = self._copies.hits(slot.text)
            if not hits:
                continue
            (encoding,) = self._tokenizer.encode([slot.text])
            for start, stop, name in hits:
                found[name] += _tokens(encoding, start, stop) == self._own[name]
        return +found


def _tokens(encoding: Encoding, start: int, stop: int) -> list[int]:
    """The tokens that stand for any of the characters from `start` to `stop`."""
    if encoding.spans is None:
        raise UnsupportedError(
            "this tokenizer cannot tell which characters a token stands for",
            cure="use a fast tokenizer, or verify without one",
        )
    return [
        token
        for token, (a, b) in zip(encoding.ids, encoding.spans, strict=True)
        if a < stop and b > start and a < b
    ]
