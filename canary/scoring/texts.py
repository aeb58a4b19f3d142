"""Texts: their log-perplexity, files of them in blocks, and long ones in windows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from canary.corpus.line_formats import JsonLines
from canary.corpus.lines import place, unreadable
from canary.errors import CorpusError, ModelError
from canary.models.loading import load
from canary.records.progress import Progress, shows_progress, stage
from canary.records.sealing import sealed
from canary.records.validation import built, some, text
from canary.scoring.batcher import Batcher, encoding_bits
from canary.scoring.run_options import ScoreOptions, Scoring
from canary.scoring.served_requests import announce
from canary.statistics.numbers import count, plural
from canary.tokens.candidates import CandidateEncoder, lacking
from canary.tokens.tokenizer import Encoding

_CHARACTERS, _TEXTS = 2**18, 2**12  # of a block
_LINE_BYTES = 2**26
_NAMED = 4  # texts in an error
# Of one text: its tokens take up to 350 bytes each while they are made.
_MOST_CHARACTERS = 4_000_000


@sealed
@shows_progress
def score(
    model: Any,
    texts: Iterable[str],
    *,
    progress: Progress = None,
    **options: Unpack[Scoring],
) -> NDArray[np.float64]:
    """Log-perplexity Px of each text: total, in bits.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    texts : iterable of str
    progress : callable or bool, optional
        Called with tokens; see `canary.records.progress.Progress`.
    **options
        `start_token`, `context` and `batch_size`, as in
        `canary.scoring.run_options.ScoreOptions`. Tokens of the context count.

    Returns
    -------
    float64 array of shape (n,), in the order of `texts`

    Raises
    ------
    InputError
        If an option or a text is not what it should be.
    ModelError
        If a text is longer than the model takes, or its tokenizer cannot represent it.

    Examples
    --------
    >>> canary.score("./model", ["one text", "another"])  # doctest: +SKIP
    array([23.1, 19.8])
    """
    asked = built(ScoreOptions, options, "score")
    given = some(texts, "texts", cure="give a list of texts, such as [text] for one")
    for each in given:
        text(each, "each of texts", cure="give texts that can be written as UTF-8")
    seam = load(model)
    encodings = encode_placed(asked.encoder(seam), given, "texts[{}]".format)
    announce(seam, lambda: len(encodings), what="texts")
    advance = stage(progress, "texts", sum(max(len(each.ids) - 1, 0) for each in encodings))
    batcher = Batcher(seam, batch_size=asked.batch_size, progress=advance)
    return encoding_bits(batcher, encodings, alike=True)


@dataclass
class Block:
    """Texts of a file that are scored together, their lines, and where in the file they end."""

    offset: int
    line: int
    lines: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list, repr=False)


def read_blocks(source: Path, column: str, offset: int = 0, line: int = 0) -> Iterator[Block]:
    """The texts of a JSONL file from a byte offset on; the same blocks from the end of any block.

    A CorpusError if a line is too long, or not a JSON object in UTF-8 with text in `column`.
    """
    block, characters = Block(offset, line), 0
    lines = JsonLines(source)
    with source.open("rb") as file:
        file.seek(offset)
        for raw in iter(lambda: file.readline(_LINE_BYTES + 1), b""):
            block.offset += len(raw)
            block.line += 1
            if len(raw) > _LINE_BYTES:
                problem = f"the line has more than {_LINE_BYTES / 1e6:,.0f} MB"
                cure = "split its text into several lines"
                raise CorpusError(problem, cure=cure, where=place(source, block.line))
            record = lines.read(raw, block.line, (column,))
            if record is None:
                continue
            slots = record[1]
            if [slot.path for slot in slots] != [(column,)]:
                problem = f"column {column!r} is a chat, not text"
                cure = (
                    "write each chat as the text that training read, with "
                    "tokenizer.apply_chat_template(messages, tokenize=False), and give "
                    "--start-token '' if that begins with it"
                )
                raise CorpusError(problem, cure=cure, where=place(source, block.line))
            block.lines.append(block.line)
            block.texts.append(slots[0].text)
            characters += len(slots[0].text)
            if characters >= _CHARACTERS or len(block.texts) >= _TEXTS:
                yield block
                block, characters = Block(block.offset, block.line), 0
    if block.texts:
        yield block


def file_digest(path: Path) -> str:
    """SHA-256 of a file; a CorpusError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error


def windows(
    ids: tuple[int, ...], *, limit: int, overlap: int, start: int = 1
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Parts of a row of tokens of at most `limit`, and where pricing starts in each.

    Each after the first begins with the last `overlap` tokens of the one before, which
    give context and are not scored again: each token from `start` on is scored once.
    """
    yield ids[:limit], start
    step = limit - overlap
    for begin in range(step, len(ids) - overlap, step):
        yield ids[begin : begin + limit], overlap


def encode_placed(
    encoder: CandidateEncoder, texts: Sequence[str], where: Callable[[int], str]
) -> list[Encoding]:
    """Each text as tokens.

    A text that holds what is no character, that is too long to be held as tokens, or that the
    tokenizer cannot represent is an error, whose place is what `where` says of its number.
    """
    for at, each in enumerate(texts):
        if len(each) > _MOST_CHARACTERS:
            raise CorpusError(
                f"the text has {len(each):,} characters, at most {_MOST_CHARACTERS:,} are scored "
                "as one",
                cure="split it into several texts",
                where=where(at),
            )
    try:
        return encoder.encode(texts)
    except (ModelError, UnicodeEncodeError, TypeError):
        unknown: list[tuple[int, ModelError]] = []
        for at, each in enumerate(texts):  # which of them is it?
            try:
                each.encode()
                encoder.encode([each])
            except UnicodeEncodeError as error:
                problem = "holds half a surrogate pair, which is no character"
                raise CorpusError(problem, cure="mend the line", where=where(at)) from error
            except ModelError as error:
                unknown.append((at, error))
        if unknown:
            raise _unknown(encoder, texts, where, unknown) from unknown[0][1]
        raise


def _unknown(
    encoder: CandidateEncoder,
    texts: Sequence[str],
    where: Callable[[int], str],
    found: Sequence[tuple[int, ModelError]],
) -> ModelError:
    """The error for the first text that a tokenizer cannot represent, with how many there are."""
    (first, error), *others = found
    problem = error.problem + lacking(encoder.tokenizer, "".join(texts[at] for at, _ in found))
    cure = "give the model's own tokenizer, or leave the text out"
    if others:
        named = [where(at) for at, _ in others[:_NAMED]]
        more = ", …" * (len(others) > _NAMED)
        problem += f"; {plural(len(others), 'more text')} of {count(len(texts))} cannot be "
        problem += f"represented either ({', '.join(named)}{more})"
        cure = "give the model's own tokenizer, or leave these texts out and say so: what is "
        cure += "measured then holds for texts without such characters only"
    return ModelError(problem, cure=cure, where=where(first))
