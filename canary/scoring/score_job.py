"""A file of texts to a file of log-perplexities: streamed, in order, resumable; and read again."""

from __future__ import annotations

import functools
import json
import math
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from canary.corpus.line_formats import JsonLines
from canary.errors import CorpusError, InputError, ModelError, OutputError, RecordError
from canary.models.language_model import LanguageModel, Rows
from canary.models.loading import load
from canary.records.files import JSON_LINES, check_writable
from canary.records.progress import Advance, Progress, shows_progress, stage
from canary.records.sealing import sealed
from canary.records.shards import open_run
from canary.records.validation import built, whole_number
from canary.scoring.batcher import Batcher, row_sums
from canary.scoring.run_options import ScoreOptions, Scoring, identity_of
from canary.scoring.served_requests import announce
from canary.scoring.texts import Block, encode_placed, file_digest, read_blocks, windows
from canary.statistics.number_checks import LN2

_SHARD_BYTES = 2**24
_SHARD_SECONDS = 2.0
_TOKENS = 2**20  # of windows at once
_CURE = "name a file that canary score wrote"

_Window = tuple[int, tuple[int, ...], int]
"""To which text of a block it belongs, its tokens, and where pricing starts."""


@dataclass(frozen=True)
class ScoredFile:
    """What `score_file` wrote.

    Parameters
    ----------
    path : Path
    texts : int
        Records in it, one per text.
    tokens : int
        Tokens that were scored.
    px_bits : float or None
        Sum over all texts; None if some text has probability 0.
    resumed : int
        Texts that an earlier run, stopped before its end, had finished.
    """

    path: Path
    texts: int
    tokens: int
    px_bits: float | None
    resumed: int

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain data."""
        figures = dict(vars(self))
        return {"out": str(figures.pop("path")), **figures}


@sealed
@shows_progress
def score_file(
    model: Any,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    column: str = "text",
    overlap: int | None = None,
    progress: Progress = None,
    **options: Unpack[Scoring],
) -> ScoredFile:
    """Log-perplexity of every text of a JSONL file, as a JSONL file in the same order.

    A record is ``{"line": 7, "px_bits": 93.25, "tokens": 31}``: the line of the text
    from 1 (blank lines hold none), its total in bits, and how many tokens were scored.
    ``px_bits`` is null where the model gives a text probability 0.

    Finished pieces go to ``TARGET.parts/``, so that a run which was killed goes on when
    it is started again in the same way. At the end one file is left, and the parts are
    removed. An earlier file at `target` is replaced.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    source : path-like
        One JSON object on each line.
    target : path-like
    column : str
        The column of the texts.
    overlap : int, optional
        Score texts that are longer than the model takes in windows; each after the first
        begins with this many tokens of the one before, which give context and are not
        priced again. Without it such a text is refused.
    progress : callable or bool, optional
        Called with the bytes of `source` that are left; see `canary.records.progress.Progress`.
    **options
        `start_token`, `context` and `batch_size`, as in
        `canary.scoring.run_options.ScoreOptions`. With a `batch_size` the numbers are the same
        to the last bit whether or not a run was interrupted; else within the model's noise.

    Returns
    -------
    ScoredFile
        How many texts and tokens were scored, and their total.

    Raises
    ------
    CorpusError
        If a line is not a JSON object in UTF-8 with text in `column`, if there is no
        record, or if the file changes meanwhile; it names file and line.
    ModelError
        If a text is longer than the model takes, or its tokenizer cannot represent it.
    RecordError
        If an unfinished run in the parts was begun with another model, input or settings.
    OutputError
        If the disk is full; what is finished is kept.

    Notes
    -----
    Memory holds a block of about 260,000 characters (or one longer text, up to 4,000,000) and
    its tokens, and up to 16 MiB of records. A kill costs the work of about 2 seconds, or one
    block. The disk must hold the result twice for a moment.

    Examples
    --------
    >>> from canary.scoring.score_job import score_file  # doctest: +SKIP
    >>> score_file("./model", "texts.jsonl", "scores.jsonl").texts  # doctest: +SKIP
    2000
    """
    asked = built(ScoreOptions, options, "score_file")
    if overlap is not None:
        overlap = whole_number(overlap, "overlap", at_least=0)
    source, target = Path(source), Path(target)
    corpus = JsonLines(source)
    size = corpus.stamp[0]
    check_writable(target, replaces=(JSON_LINES,))
    if target.exists() and target.samefile(source):
        problem = "is the file of the texts itself"
        raise OutputError(problem, cure="name another file", where=str(target))
    seam = load(model)
    limit = seam.facts.length_limit
    if overlap is not None and not 1 <= overlap < (limit or overlap + 1):
        most = f" and less than {limit}; half of it is usual" if limit else ""
        problem = f"overlap={overlap} does not fit windows of {limit} tokens"
        raise InputError(problem, cure=f"give at least 1{most}", where="overlap")
    scorer = _Scorer(seam, asked, source, overlap)
    identity = {
        "task": "score",
        "input": file_digest(source),
        **identity_of(seam),
        "column": column,
        "start token": asked.start_token,
        "context": asked.context,
        "overlap": overlap,
    }
    corpus.check_unchanged()
    with open_run(parts_of(target), identity, layout=1) as run:
        series = run.series("scores")
        done = functools.reduce(_joined, (shard.state for shard in series), _NOTHING)
        resumed = done["texts"]
        scorer.begin(done["offset"], stage(progress, source.name, size - done["offset"], "B"))
        announce(seam, lambda: _lines(source, done["offset"]), what="texts")
        for state, body in _shards(
            scorer, read_blocks(source, column, done["offset"], done["line"])
        ):
            corpus.check_unchanged()
            series.append(state, body)
            done = _joined(done, state)
        if not done["texts"]:
            raise CorpusError(
                "holds no record", cure="name a file with at least one", where=str(source)
            )
        run.merge(series, target, replaces=(JSON_LINES,))
        run.discard()
    return ScoredFile(target, done["texts"], done["tokens"], done["px_bits"], resumed)


def parts_of(target: Path) -> Path:
    """Where the finished pieces of a run are until its result is written to `target`."""
    return target.with_name(f"{target.name}.parts")


def _lines(source: Path, offset: int) -> int:
    """How many lines follow an offset."""
    with source.open("rb") as file:
        file.seek(offset)
        return sum(part.count(b"\n") for part in iter(lambda: file.read(2**20), b""))


# What the blocks of a shard, or shards, hold together, and where they end.
_NOTHING: dict[str, Any] = {"offset": 0, "line": 0, "texts": 0, "tokens": 0, "px_bits": 0.0}


def _joined(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """Both of two that follow each other."""
    sums = {name: first[name] + then[name] for name in ("texts", "tokens")}
    both = first["px_bits"], then["px_bits"]
    return {**then, **sums, "px_bits": None if None in both else sum(both)}


def _shards(scorer: _Scorer, blocks: Iterable[Block]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Blocks joined to shards that took a few seconds each, with their states."""
    body, state, began = bytearray(), _NOTHING, time.monotonic()
    for block in blocks:
        more, records = scorer.score(block)
        state = _joined(state, more)
        body += records
        if time.monotonic() - began >= _SHARD_SECONDS or len(body) >= _SHARD_BYTES:
            yield state, bytes(body)
            body, state, began = bytearray(), _NOTHING, time.monotonic()
    if body:
        yield state, bytes(body)


class _Scorer:
    """Texts to records, long ones in windows where an overlap is given.

    `begin` names whom to tell of the bytes of the file that are done: within a block by its share
    of the tokens.
    """

    def __init__(
        self,
        model: LanguageModel,
        asked: ScoreOptions,
        source: Path,
        overlap: int | None,
    ) -> None:
        self._encoder = asked.encoder(model)
        self._batcher = Batcher(model, batch_size=asked.batch_size, progress=self._add)
        self._source, self._limit = source, model.facts.length_limit
        self._overlap = overlap
        self._advance: Advance = lambda done: None
        self._at = self._end = 0  # bytes before the block that is being done, and up to its end
        self._reported = 0  # bytes
        self._done, self._to_do = 0, 1  # tokens of it

    def begin(self, offset: int, advance: Advance) -> None:
        """Go on after these bytes, and report those after them."""
        self._at = self._reported = offset
        self._advance = advance

    def _add(self, tokens: int) -> None:
        self._done += tokens
        self._reach(self._at + (self._end - self._at) * self._done // self._to_do)

    def _reach(self, offset: int) -> None:
        self._advance(offset - self._reported)
        self._reported = offset

    def score(self, block: Block) -> tuple[dict[str, Any], bytes]:
        """The state of a block, and a record of each of its texts."""
        places = [f"{self._source}:{line}" for line in block.lines]
        encodings = encode_placed(self._encoder, block.texts, places.__getitem__)
        bits, tokens = np.zeros(len(encodings)), np.zeros(len(encodings), np.int64)
        to_do = sum(max(len(each.ids) - 1, 0) for each in encodings)
        self._end, self._done, self._to_do = block.offset, 0, max(to_do, 1)
        cut = (
            (text, ids, start)
            for text, (encoding, where) in enumerate(zip(encodings, places, strict=True))
            for ids, start in self._windows(encoding.ids, where)
        )
        for some in _some_at_a_time(cut):
            texts, parts, starts = zip(*some, strict=True)
            rows = Rows.of(parts, starts)
            # Minus 0.0 is what a text without a scored token would get, but for the sum.
            np.add.at(bits, [*texts], -row_sums(self._batcher.score(rows), rows) / LN2)
            np.add.at(tokens, [*texts], rows.scored)
        self._at = block.offset
        self._reach(block.offset)
        total = float(bits.sum())
        state = {
            "offset": block.offset,
            "line": block.line,
            "texts": len(block.texts),
            "tokens": int(tokens.sum()),
            "px_bits": total if math.isfinite(total) else None,
        }
        numbers = zip(block.lines, bits.tolist(), tokens.tolist(), strict=True)
        records = (
            {"line": line, "px_bits": px if px < math.inf else None, "tokens": count}
            for line, px, count in numbers
        )
        return state, "".join(f"{json.dumps(record)}\n" for record in records).encode()

    def _windows(self, ids: tuple[int, ...], where: str) -> Iterable[tuple[tuple[int, ...], int]]:
        """Parts of a text that the model takes, and where pricing starts in each."""
        if self._limit is None or len(ids) <= self._limit:
            return [(ids, 1)]
        if self._overlap is None:
            problem = f"the text has {len(ids):,} tokens, the model takes {self._limit:,}"
            cure = "give an overlap (--overlap) to score long texts in windows, or leave it out"
            raise ModelError(problem, cure=cure, where=where)
        return windows(ids, limit=self._limit, overlap=self._overlap)


def _some_at_a_time(cut: Iterable[_Window]) -> Iterator[list[_Window]]:
    """All windows at once are longer than the texts, where all but a token of each overlaps."""
    some: list[_Window] = []
    tokens = 0
    for window in cut:
        some.append(window)
        tokens += len(window[1])
        if tokens >= _TOKENS:
            yield some
            some, tokens = [], 0
    if some:
        yield some


@dataclass(frozen=True, eq=False)
class Scores:
    """What ``canary score`` wrote of the texts of a file.

    Parameters
    ----------
    path : Path
    lines, tokens : int64 arrays of shape (texts,)
        The line of each text, and how many of its tokens were scored.
    px_bits : float64 array of shape (texts,)
        Total log-perplexity; infinite where the model gives a text probability 0.
    """

    path: Path
    lines: NDArray[np.int64]
    tokens: NDArray[np.int64]
    px_bits: NDArray[np.float64]


def read_scores(path: str | os.PathLike[str]) -> Scores:
    """The scores of a file that ``canary score`` wrote.

    Raises
    ------
    RecordError
        If it cannot be read, holds something else, or no score of any token.
    """
    place = Path(path)
    try:
        with place.open("rb") as file:
            records = [_score_on(raw, f"{place}:{number}") for number, raw in enumerate(file, 1)]
    except (OSError, ValueError) as error:
        if isinstance(error, RecordError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise RecordError(f"cannot be read ({reason})", cure=_CURE, where=str(place)) from error
    lines, tokens, px = zip(*records, strict=True) if records else ((), (), ())
    if not any(tokens):
        raise RecordError("holds no score of a token", cure=_CURE, where=str(place))
    return Scores(
        place, np.array(lines, np.int64), np.array(tokens, np.int64), np.array(px, np.float64)
    )


def _score_on(raw: bytes, where: str) -> tuple[int, int, float]:
    try:
        record: Any = json.loads(raw)
        line, tokens, given = record["line"], record["tokens"], record["px_bits"]
        whole = all(type(number) is int and 0 <= number < 1 << 63 for number in (line, tokens))
        real = type(given) in (int, float) and 0 <= given < math.inf
        if not whole or not (real or given is None):
            raise ValueError("numbers of another kind")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError("is no score of a text", cure=_CURE, where=where) from error
    return line, tokens, math.inf if given is None else float(given)
