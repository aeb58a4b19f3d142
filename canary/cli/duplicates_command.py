"""The command on copies: how often the training data have each text."""

from __future__ import annotations

from pathlib import Path

from canary.cli.before_training import CorpusOptions
from canary.cli.command import command
from canary.cli.console import Bars, show
from canary.cli.outputs import Result, check_outputs
from canary.errors import InputError


@command(
    "duplicates train-00.jsonl train-01.jsonl --out copies.json",
    "duplicates train-00.jsonl train-01.jsonl --texts sample.jsonl --out sample-copies.json",
    texts="FILE: Count the copies of these texts: a JSON Lines file, with the text in --column.",
    out="FILE: Where the counts go; canary verbatim --copies reads them.",
)
def duplicates(
    corpora: list[Path],
    *,
    texts: Path | None = None,
    out: Path,
    options: CorpusOptions,
    force: bool = False,
) -> Result:
    """Count how often the training data have each text.

    Texts are equal if they agree in every character. Give all shards: copies may be in different
    ones. The file has numbers, places and digests, and no text. Without --texts it lists the texts
    with two copies or more.
    """
    from canary.corpus.duplicates import KIND, SCHEMA
    from canary.corpus.duplicates import duplicates as count
    from canary.signals.text_files import read_rows

    reading = options.reading()
    if texts is not None and not isinstance(reading["column"], str):
        raise InputError("--texts takes one --column", cure="name the one that has the texts")
    inputs = [*corpora, *([] if texts is None else [texts])]
    check_outputs([(out, (KIND,))], inputs=inputs, force=force)
    asked = None
    if texts is not None:
        asked = [text for text, _ in read_rows(texts, reading["column"])[0]]
    with Bars() as bars:
        found = count(*corpora, texts=asked, **reading, progress=bars.stage)
    found.save(out)
    for line in found.summary().splitlines():
        show(line)
    show(f"The counts are in {out}")
    return Result(KIND, found.to_dict(), SCHEMA)
