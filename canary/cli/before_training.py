"""The commands before training: generate, inject, verify, strip, discover.

Each body parses, calls, prints. What they call is imported when they run, so that the
help is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from canary.cli.console import Bars, emit, say
from canary.cli.options import (
    Beside,
    CanaryFile,
    Columns,
    ContextText,
    Corpus,
    FileFormat,
    Force,
    Json,
    Seed,
    Separators,
    TokenizerPath,
    beside_of,
    columns_of,
    decodable,
    separators_of,
    whole_numbers,
)
from canary.cli.outputs import check_name, check_outputs
from canary.errors import CorpusError, OutputError
from canary.records.fields import brief
from canary.statistics.numbers import plural

_CONTROLS_ALONE = (
    "note: the set has controls alone, so no canary is in the training data and no audit of it can "
    "decide anything: draw a set with canaries"
)


def generate(
    formats: Annotated[
        list[str],
        typer.Argument(
            metavar="FORMAT...",
            callback=decodable,
            help="Text with holes, such as {digit:9}; the kinds of holes are digit, letter, upper, "
            "hex, alnum, base64, word, choice, credit_card, iban, uuid, email, phone and re. "
            "docs/formats.md says what each gives.",
        ),
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
    force: Force = False,
    coin_flips: Annotated[
        bool,
        typer.Option(
            "--coin-flips",
            help="Toss a coin for each canary: tails, and it stays out, as one more control.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Draw random secrets, the canaries, and controls.

    The file holds the secrets and is readable by its owner only.
    """
    from canary.corpus.canaries import KIND
    from canary.corpus.canaries import generate as draw
    from canary.formats.wordlists import read_words, with_words

    numbers = whole_numbers(repetitions, "--repetitions")
    check_outputs([(out, (KIND,))], inputs=[words] if words else [], force=force)
    canaries = draw(
        formats if words is None else with_words(formats, read_words(words)),
        repetitions=numbers,
        per_repetition=per_repetition,
        controls=controls,
        seed=seed,
        coin_flips=coin_flips,
    )
    canaries.save(out, force=force)
    coins = ""
    if any(c.tossed is not None for c in canaries):
        stay_out = sum(c.tossed is not None for c in canaries.controls)
        coins = (
            f" (of the controls, {stay_out:,} lost the toss of their coin and stay out; "
            f"{len(canaries.controls) - stay_out:,} had no coin)"
        )
    say(
        f"{plural(len(canaries.injected), 'canary', 'canaries')} and "
        f"{plural(len(canaries.controls), 'control')} are in {out}{coins}"
    )
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
        spaces = [
            {"format": format.text, "space_size": format.size, "space_bits": format.bits}
            for format in canaries.formats
        ]
        counts = {"canaries": len(canaries.injected), "controls": len(canaries.controls)}
        emit("canary generate", {"out": str(out), **counts, "formats": spaces})


def inject(
    corpus: Corpus,
    canaries: CanaryFile,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new corpus.")],
    column: Columns = None,
    file_format: FileFormat = None,
    mode: Annotated[
        Literal["record", "splice"],
        typer.Option(
            "--mode", help="Records of their own, or within texts, between two sentences."
        ),
    ] = "record",
    separators: Separators = None,
    beside: Beside = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Check every record, and look for canaries that are there already.",
        ),
    ] = True,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Put the canaries into a corpus.

    Each copy goes to a random place; the corpus itself is not changed. Where each copy
    went is written to OUT.placements.json, readable by its owner only. The new corpus
    may be read by whoever may read the old one.
    """
    from canary.corpus.canaries import CanarySet
    from canary.corpus.injection import inject_file
    from canary.corpus.placements import KIND, check_not_injected, manifest_of
    from canary.records.files import alone
    from canary.records.overwrite_guard import CORPORA

    check_name(out)
    places = manifest_of(out)
    outputs = [(out, CORPORA), (places, (KIND,))]
    check_outputs(outputs, inputs=[corpus, canaries], force=force)
    chosen = CanarySet.load(canaries)
    check_not_injected(corpus)
    with alone(out):  # the places, too, are of one run
        with Bars() as bars:
            placements = inject_file(
                corpus,
                out,
                chosen,
                column=columns_of(column),
                seed=seed,
                file_format=file_format,
                mode=mode,
                separators=separators_of(separators),
                beside=beside_of(beside),
                check=check,
                progress=bars.file(corpus.name),
            )
        try:
            placements.save(places)
        except OutputError as error:
            raise OutputError(
                error.problem,
                cure=f"mend that and inject again: {out} is whole, and the same seed puts every "
                "copy at the same place",
                where=str(places),
            ) from error
    copies = sum(map(len, placements.lines.values()))
    now = f"now {plural(placements.total_lines, 'record')}" if mode == "record" else ""
    say(
        f"{plural(copies, 'copy', 'copies')} of "
        f"{plural(len(placements.lines), 'canary', 'canaries')} went into {out}, "
        f"{now or 'within its texts'}"
    )
    say(f"{out} holds the secrets; whoever may read {corpus} may read it")
    say(f"Where each copy went is in {places}, readable by you alone")
    if not copies:
        say(_CONTROLS_ALONE)
    if placements.empty and copies:
        read = " and ".join(map(brief, column or ["text"]))
        say(
            f"note: the canaries are in {read} alone, and their records are empty in "
            f"{', '.join(map(brief, placements.empty[:8]))}: training must read {read}, or name "
            "with --column what it reads, and with --beside what stands beside"
        )
    if placements.separators is not None:
        before, after = map(ascii, placements.separators)
        say(
            f"They stand between {before} and {after}: give --context {before} to verify with a "
            "tokenizer and to audit"
        )
    if as_json:
        facts = placements.to_dict()
        body = {name: facts[name] for name in ("column", "total_lines", "mode", "separators")}
        body |= {"copies": copies, "empty_columns": list(placements.empty)}
        emit("canary inject", {"out": str(out), "placements": str(places), **body})


def verify(
    corpus: Corpus,
    canaries: CanaryFile,
    column: Columns = None,
    file_format: FileFormat = None,
    tokenizer: TokenizerPath = None,
    context: ContextText = "",
    as_json: Json = False,
) -> None:
    """Count the copies of each canary in a corpus.

    Exit code 0 if each is there as often as it should be, 2 if not: a corpus that lost
    its canaries cannot be audited with them. With a tokenizer each copy must also have
    the tokens under which its canary will be scored.
    """
    from canary.corpus.canaries import CanarySet
    from canary.corpus.placements import check_same_set
    from canary.corpus.verification import KIND, SCHEMA
    from canary.corpus.verification import verify as count

    chosen = CanarySet.load(canaries)
    check_same_set(corpus, chosen, canaries)
    with Bars() as bars:
        found = count(
            corpus,
            chosen,
            column=columns_of(column),
            file_format=file_format,
            tokenizer=tokenizer,
            context=context,
            progress=bars.file(corpus.name),
        )
    for line in found.summary().splitlines():
        say(line)
    if not chosen.injected:
        say(_CONTROLS_ALONE)
    if as_json:
        emit(KIND, found.to_dict(), schema=SCHEMA)
    if not found.ok:
        raise CorpusError(
            f"{len(found.departures):,} of {len(found.canaries):,} canaries and controls are "
            f"not in it as they should be{''.join(f' ({cause})' for cause in found.causes)}",
            cure="inject into a fresh corpus, and keep de-duplication and filters away from it",
            where=str(corpus),
        )


def strip(
    corpus: Corpus,
    canaries: CanaryFile,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The corpus without canaries.")
    ],
    column: Columns = None,
    file_format: FileFormat = None,
    separators: Separators = None,
    beside: Beside = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Take the canaries out of a corpus again.

    What inject put in goes, records and spliced copies alike; the rest comes through as
    it was. A corpus that holds none of the set's canaries is an error.
    """
    from canary.corpus.canaries import CanarySet
    from canary.corpus.placements import check_same_set
    from canary.corpus.stripping import strip_file
    from canary.records.overwrite_guard import CORPORA

    check_outputs([(out, CORPORA)], inputs=[corpus, canaries], force=force)
    chosen = CanarySet.load(canaries)
    check_same_set(corpus, chosen, canaries)
    with Bars() as bars:
        found = strip_file(
            corpus,
            out,
            chosen,
            column=columns_of(column),
            file_format=file_format,
            separators=separators_of(separators),
            beside=beside_of(beside),
            progress=bars.file(corpus.name),
        )
    say(
        f"{plural(found.records, 'record')} went and {plural(found.cuts, 'copy', 'copies')} "
        f"{'was' if found.cuts == 1 else 'were'} cut out of others; "
        f"{out} holds none of this set"
    )
    if found.missing:
        side = "fewer" if found.missing > 0 else "more"
        say(
            f"note: that is {plural(abs(found.missing), 'copy', 'copies')} {side} than the set "
            "has: this is not the corpus as inject wrote it"
        )
    if as_json:
        body = {"records": found.records, "cuts": found.cuts, "missing": found.missing}
        emit("canary strip", {"out": str(out), **body})


def discover(
    corpus: Corpus,
    formats: Annotated[
        list[str],
        typer.Argument(metavar="FORMAT...", help="Text with holes, such as {digit:3}-{digit:4}."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The canary set to write.")],
    column: Columns = None,
    file_format: FileFormat = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find natural secrets in a corpus and count them.

    The file holds them and is readable by its owner only; nothing else shows them. An
    audit measures their exposure, without p-values: they were not drawn.
    """
    from canary.corpus.canaries import KIND, CanarySet
    from canary.corpus.discovery import discover as find
    from canary.corpus.placements import is_injected, manifest_of
    from canary.records.versioned_json import kind_of

    check_outputs([(out, (KIND,))], inputs=[corpus], force=force)
    # What was found can be found again; what was drawn is gone.
    again = force and (kind_of(out) != KIND or CanarySet.load(out).natural)
    with Bars() as bars:
        found = find(
            corpus,
            formats,
            column=columns_of(column),
            file_format=file_format,
            progress=bars.file(corpus.name),
        )
    found.save(out, force=again)
    rows = [
        {
            "format": format.text,
            "secrets": sum(1 for c in found if c.format == number),
            "copies": sum(c.repetitions for c in found if c.format == number),
        }
        for number, format in enumerate(found.formats)
    ]
    for row in rows:
        say(f"{row['format']}: {row['secrets']:,} different secrets, {row['copies']:,} in all")
    say(f"They are in {out}, readable by you alone (mode 600)")
    if is_injected(corpus):
        say(
            f"note: canaries were injected into {corpus} ({manifest_of(corpus)}), and those of "
            "these formats count as found: discover in the corpus without them"
        )
    if as_json:
        emit("canary discover", {"out": str(out), "formats": rows})
