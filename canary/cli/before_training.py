"""The commands before training: generate, inject, verify.

Each body parses, calls, prints. What they call is imported when they run, so that the
help is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from canary.cli.console import Bars, emit, say
from canary.cli.options import CanaryFile, Column, Corpus, Json, Seed, whole_numbers
from canary.errors import CorpusError

__all__ = ["generate", "inject", "verify"]


def generate(
    formats: Annotated[
        list[str],
        typer.Argument(metavar="FORMAT...", help="Text with holes, such as {digit:9}."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The canary set to write.")],
    repetitions: Annotated[
        str, typer.Option("--repetitions", metavar="N,N,...", help="Numbers of copies.")
    ] = "1,4,16,64",
    per_repetition: Annotated[
        int, typer.Option("--per-repetition", min=1, help="Canaries of each number of copies.")
    ] = 8,
    controls: Annotated[
        int, typer.Option("--controls", min=0, help="Drawn alike and never injected.")
    ] = 16,
    words: Annotated[
        Path | None,
        typer.Option("--words", metavar="FILE", help="Words for {word:4}.  [default: built in]"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="As secret as the canaries.  [default: drawn]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw random secrets, the canaries, and controls.

    The file holds the secrets and is readable by its owner only.
    """
    from canary.corpus.canaries import generate as draw
    from canary.formats.wordlists import read_words, with_words

    canaries = draw(
        formats if words is None else with_words(formats, read_words(words)),
        repetitions=whole_numbers(repetitions, "--repetitions"),
        per_repetition=per_repetition,
        controls=controls,
        seed=seed,
    )
    canaries.save(out)
    say(f"{len(canaries.injected):,} canaries and {len(canaries.controls):,} controls are in {out}")
    for format in canaries.formats:
        say(f"  {format.masked}: one of {format.size:,} ({format.bits:.1f} bits)")
    say(
        f"{out} holds the secrets: it is readable by you alone (mode 600). Keep it for the "
        "audit, and away from everybody else."
    )
    if seed is not None:
        say(
            "Whoever guesses the seed can draw the same secrets; where that matters, leave "
            "--seed out"
        )
    if as_json:
        emit(
            "canary generate",
            {
                "out": str(out),
                "canaries": len(canaries.injected),
                "controls": len(canaries.controls),
                "formats": [
                    {"format": format.text, "space_size": format.size, "space_bits": format.bits}
                    for format in canaries.formats
                ],
            },
        )


def inject(
    corpus: Corpus,
    canaries: CanaryFile,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new corpus.")],
    column: Column = "text",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Put the canaries into a corpus.

    Each copy becomes a line of its own at a random place; the corpus itself is not
    changed. Where each copy went is written to OUT.placements.json, readable by its
    owner only.
    """
    from canary.corpus.canaries import CanarySet
    from canary.corpus.injection import inject_file

    chosen = CanarySet.load(canaries)
    with Bars() as bars:
        placements = inject_file(
            corpus, out, chosen, column=column, seed=seed, progress=bars.file(corpus.name)
        )
    places = out.with_name(f"{out.name}.placements.json")
    placements.save(places)
    copies = sum(map(len, placements.lines.values()))
    say(
        f"{copies:,} copies of {len(placements.lines):,} canaries went into {out}, now "
        f"{placements.total_lines:,} lines"
    )
    say(f"Where each copy went is in {places}, readable by you alone")
    if as_json:
        emit(
            "canary inject",
            {
                "out": str(out),
                "placements": str(places),
                "column": column,
                "copies": copies,
                "total_lines": placements.total_lines,
            },
        )


def verify(
    corpus: Corpus, canaries: CanaryFile, column: Column = "text", as_json: Json = False
) -> None:
    """Count the copies of each canary in a corpus.

    Exit code 0 if each is there as often as it should be, 2 if not: a corpus that lost
    its canaries cannot be audited with them.
    """
    from canary.corpus.canaries import CanarySet
    from canary.corpus.verification import verify as count

    chosen = CanarySet.load(canaries)
    with Bars() as bars:
        found = count(corpus, chosen, column=column, progress=bars.file(corpus.name))
    for line in found.summary().splitlines():
        say(line)
    if as_json:
        emit("canary verify", found.to_dict())
    if not found.ok:
        raise CorpusError(
            f"{len(found.departures):,} of {len(found.canaries):,} canaries and controls do "
            "not stand in it as often as they should",
            cure="inject into a fresh corpus, and keep de-duplication and filters away from it",
            where=str(corpus),
        )
