"""The commands on what a corpus has already: secrets, and how often it has each text."""

from __future__ import annotations

from pathlib import Path

from canary.cli.before_training import RAY, TOKENIZER, WORKERS, CorpusOptions
from canary.cli.command import command
from canary.cli.console import Bars, show
from canary.cli.outputs import Result, check_outputs, named_files, texts_in
from canary.errors import InputError


@command(
    "duplicates train-00.jsonl train-01.jsonl --out copies.json",
    "duplicates train-00.jsonl train-01.jsonl --texts sample.jsonl --out sample-copies.json",
    texts="FILE: Count the copies of these texts: a JSON Lines file, with the text in --column.",
    out="FILE: Where the counts go; canary verbatim --copies reads them.",
    tokenizer=TOKENIZER,
    workers=WORKERS,
    ray=RAY,
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

    reading = options.reading()
    if texts is not None and not isinstance(reading["column"], str):
        raise InputError("--texts takes one --column", cure="name the one that has the texts")
    inputs = [*named_files(corpora), *([] if texts is None else [texts])]
    check_outputs([(out, (KIND,))], inputs=inputs, force=force)
    asked = texts_in({"texts": texts}, reading["column"]).get("texts")
    with Bars() as bars:
        found = count(*corpora, texts=asked, **reading, progress=bars.stage)
    found.save(out)
    for line in found.summary().splitlines():
        show(line)
    show(f"The counts are in {out}")
    return Result(KIND, found.to_dict(), SCHEMA)


@command(
    'discover mail.jsonl "{digit:3}-{digit:3}-{digit:4}" --column body --out found.json',
    formats="FORMAT...: Text with holes, such as {digit:3}-{digit:4}.",
    out="FILE: The canary set to write.",
    tokenizer=TOKENIZER,
    workers=WORKERS,
    ray=RAY,
)
def discover(
    corpus: Path,
    formats: list[str],
    *,
    out: Path,
    options: CorpusOptions,
    force: bool = False,
) -> Result:
    """Find natural secrets in a corpus and count them.

    Only you can read the file, which holds the secrets. An audit measures their exposure but has
    no p-values for them, because they were not drawn at random.
    """
    from canary.corpus.canaries import KIND, CanarySet
    from canary.corpus.discovery import discover as find
    from canary.corpus.placements import injected_by
    from canary.records.versioned_json import kind_of

    check_outputs([(out, (KIND,))], inputs=(named := named_files([corpus])), force=force)
    # What was found can be found again; what was drawn is gone.
    again = force and (kind_of(out) != KIND or CanarySet.load(out).natural)
    with Bars() as bars:
        natural = find(corpus, formats, **options.reading(), progress=bars.stage)
    natural.save(out, force=again)
    rows = []
    for number, format in enumerate(natural.formats):
        copies = [c.repetitions for c in natural if c.format == number]
        rows.append({"format": format.text, "secrets": len(copies), "copies": sum(copies)})
        show(f"{format.text}: {len(copies):,} different secrets, {sum(copies):,} in all")
    show(f"They are in {out}, which only you can read (mode 600)")
    if manifest := next(filter(None, map(injected_by, named)), None):
        show(
            f"note: canaries were injected into {corpus} ({manifest}), so those of "
            "these formats are among the secrets; search the corpus before canary inject instead"
        )
    return Result("canary discover", {"out": str(out), "formats": rows})
