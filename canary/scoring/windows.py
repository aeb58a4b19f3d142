"""Texts that are longer than a model takes, in windows; encodings that say which text failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from canary.errors import CorpusError, ModelError
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tokenizer import Encoding

# Of one text: its tokens take up to 350 bytes each while they are made.
_MOST_CHARACTERS = 4_000_000


def windows(
    ids: tuple[int, ...], *, limit: int, overlap: int, start: int = 1
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Parts of a row of tokens of at most `limit`, and where pricing starts in each.

    Each after the first begins with the last `overlap` tokens of the one before, which
    give context and are not priced again: each token from `start` on is priced once.
    """
    yield ids[:limit], start
    step = limit - overlap
    for begin in range(step, len(ids) - overlap, step):
        yield ids[begin : begin + limit], overlap


def encode_placed(
    encoder: CandidateEncoder, texts: Sequence[str], place: Callable[[int], str]
) -> list[Encoding]:
    """Each text as tokens; an error says by `place` which of them it is.

    Raises
    ------
    CorpusError
        If a text holds what is no character, or is too long to be held as tokens.
    ModelError
        If the tokenizer cannot represent a text.
    """
    for at, text in enumerate(texts):
        if len(text) > _MOST_CHARACTERS:
            raise CorpusError(
                f"the text has {len(text):,} characters, at most {_MOST_CHARACTERS:,} are scored "
                "as one",
                cure="split it into several texts",
                where=place(at),
            )
    try:
        return encoder.encode(texts)
    except (ModelError, UnicodeEncodeError, TypeError):
        for at, text in enumerate(texts):
            _check_alone(encoder, text, place(at))
        raise


def _check_alone(encoder: CandidateEncoder, text: str, where: str) -> None:
    try:
        text.encode()
        encoder.encode([text])
    except UnicodeEncodeError as error:
        raise CorpusError(
            "holds half a surrogate pair, which is no character",
            cure="mend the line",
            where=where,
        ) from error
    except ModelError as error:
        raise ModelError(error.problem, cure=error.cure, where=where) from error
