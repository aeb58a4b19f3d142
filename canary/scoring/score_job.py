"""A file of texts to a file of log-perplexities: streamed, in order, resumable."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from canary.corpus.lines import Progress as ByteProgress
from canary.corpus.lines import regular_size
from canary.errors import CorpusError, InputError, ModelError, OutputError
from canary.models.language_model import Rows
from canary.models.loading import load
from canary.records.files import JSON_LINES
from canary.records.sealing import sealed
from canary.records.shards import open_run
from canary.records.validation import function, whole_number
from canary.scoring.batcher import Batcher, row_sums
from canary.scoring.blocks import Block, Meter, Watch, read_blocks
from canary.scoring.identity import identity_of
from canary.scoring.requests import announce
from canary.scoring.run_options import ScoreOptions, Scoring
from canary.scoring.windows import encode_placed, windows
from canary.statistics.number_checks import LN2
from canary.tokens.candidates import CandidateEncoder

_SERIES = "scores"
_SHARD_BYTES = 2**24
_SHARD_SECONDS = 2.0
_TOKENS = 2**20  # of windows at once


@dataclass(frozen=True)
class ScoredFile:
    """What `score_file` wrote.

    Parameters
    ----------
    path : Path
    texts : int
        Records in it, one per text.
    tokens : int
        Tokens that were priced.
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
        return {
            "out": str(self.path),
            "texts": self.texts,
            "tokens": self.tokens,
            "px_bits": self.px_bits,
            "resumed": self.resumed,
        }


@sealed
def score_file(
    model: Any,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    column: str = "text",
    overlap: int | None = None,
    progress: ByteProgress | None = None,
    **options: Unpack[Scoring],
) -> ScoredFile:
    """Log-perplexity of every text of a JSONL file, as a JSONL file in the same order.

    A record is ``{"line": 7, "px_bits": 93.25, "tokens": 31}``: the line of the text
    from 1 (blank lines hold none), its total in bits, and how many tokens were priced.
    ``px_bits`` is null where the model gives a text probability 0.

    Finished pieces go to ``TARGET.parts/``, so that a run which was killed goes on when
    it is started again in the same way. At the end one file stands, and the parts are
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
    progress : callable, optional
        ``progress(done_bytes, total_bytes)``.
    **options
        `start_token`, `context` and `batch_size`, as in
        `canary.scoring.run_options.ScoreOptions`. With a `batch_size` the numbers are the same
        to the last bit whether or not a run was interrupted; else within the model's noise.

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
        If there is no room; what is finished is kept.

    Notes
    -----
    Memory holds a block of about 260,000 characters (or one longer text, up to 4,000,000) and
    its tokens, and up to 16 MiB of records. A kill costs the work of about 2 seconds, or one
    block.
    The disk must hold the result twice for a moment.
    """
    asked = ScoreOptions(**options)
    if overlap is not None:
        overlap = whole_number(overlap, "overlap", at_least=0)
    function(progress, "progress")
    source, target = Path(source), Path(target)
    size = regular_size(source)
    _check_target(target, source)
    seam = load(model)
    limit = seam.facts.length_limit
    if overlap is not None and not 1 <= overlap < (limit or overlap + 1):
        raise InputError(
            f"overlap={overlap} does not fit windows of {limit} tokens",
            cure=f"give at least 1 and less than {limit}; half of it is usual"
            if limit
            else "give at least 1",
            where="overlap",
        )
    encoder = asked.encoder(seam)
    meter = Meter(progress or (lambda done, total: None), size)
    batcher = Batcher(seam, batch_size=asked.batch_size, progress=meter.add)
    scorer = _Scorer(encoder, batcher, meter, source, limit, overlap)
    watch = Watch.of(source)
    identity = {
        "task": "score",
        "input": watch.digest(),
        **identity_of(seam),
        "column": column,
        "start token": asked.start_token,
        "context": asked.context,
        "overlap": overlap,
    }
    with open_run(parts_of(target), identity) as run:
        series = run.series(_SERIES)
        tally = _Tally()
        for shard in series:
            tally.add(shard.state)
        resumed = tally.texts
        meter.reach(tally.offset)
        announce(seam, lambda: _lines(source, tally.offset))
        for state, body in _shards(scorer, read_blocks(source, column, tally.offset, tally.line)):
            watch.check()
            series.append(state, body)
            tally.add(state)
        if not tally.texts:
            raise CorpusError(
                "holds no record", cure="name a file with at least one", where=str(source)
            )
        run.merge(series, target, replaces=(JSON_LINES,))
        run.discard()
    return ScoredFile(target, tally.texts, tally.tokens, tally.px_bits, resumed)


def _lines(source: Path, offset: int) -> int:
    """How many lines follow an offset."""
    with source.open("rb") as file:
        file.seek(offset)
        return sum(part.count(b"\n") for part in iter(lambda: file.read(2**20), b""))


def _check_target(target: Path, source: Path) -> None:
    if target.is_dir():
        raise OutputError(
            "is a folder, a file was expected", cure="name a file in it", where=str(target)
        )
    if not target.parent.is_dir():
        raise OutputError(
            "there is no such folder", cure="make it, or name another", where=str(target.parent)
        )
    if target.exists() and target.samefile(source):
        raise OutputError(
            "is the file of the texts itself", cure="name another file", where=str(target)
        )


def parts_of(target: Path) -> Path:
    """Where the finished pieces of a run lie until its result is written to `target`."""
    return target.with_name(f"{target.name}.parts")


@dataclass
class _Tally:
    """Where the finished shards end, and what they hold together."""

    offset: int = 0
    line: int = 0
    texts: int = 0
    tokens: int = 0
    px_bits: float | None = 0.0

    def add(self, state: dict[str, Any]) -> None:
        self.offset, self.line = state["offset"], state["line"]
        self.texts += state["texts"]
        self.tokens += state["tokens"]
        if self.px_bits is not None:
            self.px_bits = None if state["px_bits"] is None else self.px_bits + state["px_bits"]


def _shards(scorer: _Scorer, blocks: Iterable[Block]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Blocks joined to shards that took a few seconds each, with their states."""
    body, part = bytearray(), _Tally()
    began = time.monotonic()
    for block in blocks:
        bits, tokens = scorer.score(block)
        body += _records(block.lines, bits, tokens)
        total = float(bits.sum())
        part.add(
            {
                "offset": block.offset,
                "line": block.line,
                "texts": len(block.texts),
                "tokens": int(tokens.sum()),
                "px_bits": total if np.isfinite(total) else None,
            }
        )
        if time.monotonic() - began >= _SHARD_SECONDS or len(body) >= _SHARD_BYTES:
            yield vars(part), bytes(body)
            body, part = bytearray(), _Tally()
            began = time.monotonic()
    if body:
        yield vars(part), bytes(body)


def _records(lines: list[int], bits: NDArray[np.float64], tokens: NDArray[np.int64]) -> bytes:
    records = (
        json.dumps({"line": line, "px_bits": px if px < float("inf") else None, "tokens": count})
        for line, px, count in zip(lines, bits.tolist(), tokens.tolist(), strict=True)
    )
    return "".join(f"{record}\n" for record in records).encode()


@dataclass(frozen=True)
class _Scorer:
    """Texts to bits, long ones in windows where an overlap is given."""

    encoder: CandidateEncoder
    batcher: Batcher
    meter: Meter
    source: Path
    limit: int | None
    overlap: int | None

    def score(self, block: Block) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Bits and number of priced tokens of each text of a block."""
        encoded = [
            encoding.ids
            for encoding in encode_placed(
                self.encoder, block.texts, lambda at: self._place(block.lines[at])
            )
        ]
        bits, tokens = np.zeros(len(encoded)), np.zeros(len(encoded), np.int64)
        self.meter.begin(block.offset, sum(max(len(ids) - 1, 0) for ids in encoded))
        for part in self._some(block.lines, encoded):
            owners, parts, starts = zip(*part, strict=True)
            rows = Rows.of(parts, starts)
            # Minus 0.0 is what a text without a priced token would get, but for the sum.
            np.add.at(bits, [*owners], -row_sums(self.batcher.score(rows), rows) / LN2)
            np.add.at(tokens, [*owners], rows.scored)
        self.meter.reach(block.offset)
        return bits, tokens

    def _some(
        self, lines: list[int], encoded: list[tuple[int, ...]]
    ) -> Iterator[list[tuple[int, tuple[int, ...], int]]]:
        """The windows of some texts at a time: to which text each belongs, and where it starts.

        All at once they are longer than the texts: by the window, where all of it but a token
        overlaps.
        """
        some: list[tuple[int, tuple[int, ...], int]] = []
        tokens = 0
        for at, (line, ids) in enumerate(zip(lines, encoded, strict=True)):
            for part, start in self._windows(ids, line):
                some.append((at, part, start))
                tokens += len(part)
                if tokens >= _TOKENS:
                    yield some
                    some, tokens = [], 0
        if some:
            yield some

    def _windows(self, ids: tuple[int, ...], line: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Parts of a text that the model takes, and where pricing starts in each."""
        if self.limit is None or len(ids) <= self.limit:
            yield ids, 1
            return
        if self.overlap is None:
            raise ModelError(
                f"the text has {len(ids):,} tokens, the model takes {self.limit:,}",
                cure="give an overlap (--overlap) to score long texts in windows, or leave it out",
                where=self._place(line),
            )
        yield from windows(ids, limit=self.limit, overlap=self.overlap)

    def _place(self, line: int) -> str:
        return f"{self.source}:{line}"
