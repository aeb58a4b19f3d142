"""The commands before training: plan, generate, inject, verify, strip, discover."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import typer

from canary.cli.command import command
from canary.cli.console import Bars, emit, say
from canary.cli.options import Count, Whole, whole_numbers
from canary.cli.outputs import Result, check_name, check_outputs
from canary.errors import CorpusError, OutputError
from canary.records.validation import brief
from canary.statistics.numbers import plural

_CONTROLS_ALONE = (
    "note: the set has controls alone, so no canary is in the training data and no audit of it can "
    "decide anything: draw a set with canaries"
)


@dataclass(frozen=True)
class CorpusOptions:
    """Which texts of a corpus are read."""

    column: list[str] | None = None
    file_format: str | None = None

    def reading(self) -> dict[str, Any]:
        """The arguments in Python."""
        names = self.column or ["text"]
        column = names[0] if len(names) == 1 else tuple(names)
        return {"column": column, "file_format": self.file_format}


@dataclass(frozen=True)
class PlacingOptions(CorpusOptions):
    """How canaries are put into a corpus, and taken out."""

    separators: tuple[str, str] | None = None
    beside: list[str] | None = None

    def reading(self) -> dict[str, Any]:
        """The arguments in Python; texts by column, from ``COLUMN=TEXT``."""
        texts = {}
        for item in self.beside or []:
            name, equals, text = item.partition("=")
            if not name or not equals or name in texts:
                raise typer.BadParameter(
                    f"{item[:40]!r} is not COLUMN=TEXT, each column once", param_hint="'--beside'"
                )
            texts[name] = text
        return {**super().reading(), "separators": self.separators, "beside": texts}


@command(
    'plan "The random number is {digit:9}" --per-repetition 8 --draws 20000 --max-exposure-bits 10',
    'plan "The random number is {digit:9}" --exposure-bits 4 --power 0.9 --json',
    format="FORMAT: Text with holes, as for generate.",
    draws="Candidates drawn to compare with.  [default: exact ranks]",
    max_p="P: Level of the test of evidence.",
    max_exposure_bits="BITS: A limit on the median.",
    exposure_bits="BITS: A median exposure of which to say how likely it is seen, and how many "
    "canaries that takes.",
    confidence="Of a verdict on the limit.",
    power="The wanted chance of seeing what is there.",
)
def plan(
    format: str,
    *,
    repetitions: str = "1,4,16,64",
    per_repetition: Count = 8,
    draws: Count | None = None,
    max_p: float = 0.001,
    max_exposure_bits: float | None = None,
    exposure_bits: float | None = None,
    confidence: float = 0.9,
    power: float = 0.9,
) -> Result:
    """Say what so many canaries could show, and how many it takes.

    Nothing is trained or loaded for it.
    """
    from canary.gate.planning import plan as planned

    planning = planned(
        format,
        repetitions=whole_numbers(repetitions, "--repetitions"),
        per_repetition=per_repetition,
        draws=draws,
        max_p=max_p,
        max_exposure_bits=max_exposure_bits,
        exposure_bits=exposure_bits,
        confidence=confidence,
        power=power,
    )
    for line in planning.summary().splitlines():
        say(line)
    return Result("canary plan", planning.to_dict())


@command(
    'generate "The random number is {digit:9}" --repetitions 1,4,16 --per-repetition 4 '
    "--controls 16 --seed 0 --out canaries.json",
    formats="FORMAT...: Text with holes, such as {digit:9}; the kinds of holes are digit, letter, "
    "upper, hex, alnum, base64, word, choice, credit_card, iban, uuid, email, phone and re. "
    "docs/guides/formats.md says what each gives.",
    out="FILE: The canary set to write.",
    controls="Drawn alike and never injected.",
    words="FILE: Words for {word:4}.  [default: built in]",
    seed="As secret as the canaries.  [default: drawn]",
    coin_flips="Toss a coin for each canary: tails, and it stays out, as one more control.",
)
def generate(
    formats: list[str],
    *,
    out: Path,
    repetitions: str = "1,4,16,64",
    per_repetition: Count = 8,
    controls: Whole = 16,
    words: Path | None = None,
    seed: Whole | None = None,
    force: bool = False,
    coin_flips: bool = False,
) -> Result:
    """Draw random secrets, the canaries, and controls.

    The file holds the secrets and is readable by its owner only.
    """
    from canary.corpus.canaries import KIND
    from canary.corpus.canaries import generate as draw
    from canary.formats.format import read_words, with_words

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
    spaces = [
        {"format": format.text, "space_size": format.size, "space_bits": format.bits}
        for format in canaries.formats
    ]
    counts = {"canaries": len(canaries.injected), "controls": len(canaries.controls)}
    return Result("canary generate", {"out": str(out), **counts, "formats": spaces})


@command(
    "inject corpus.jsonl --canaries canaries.json --column text --out corpus.canaried.jsonl",
    out="FILE: The new corpus.",
    mode="Records of their own, or within texts, between two sentences.",
    check="Check every record, and look for canaries that are there already.",
)
def inject(
    corpus: Path,
    *,
    canaries: Path,
    out: Path,
    options: PlacingOptions,
    mode: Literal["record", "splice"] = "record",
    check: bool = True,
    seed: Whole = 0,
    force: bool = False,
) -> Result:
    """Put the canaries into a corpus.

    Each copy goes to a random place; the corpus itself is not changed. Where each copy
    went is written to OUT.placements.json, readable by its owner only. The new corpus
    may be read by whoever may read the old one.
    """
    from canary.corpus.canaries import CanarySet
    from canary.corpus.injection import inject_file
    from canary.corpus.placements import KIND, check_not_injected, manifest_of
    from canary.records.files import CORPORA, alone

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
                **options.reading(),
                seed=seed,
                mode=mode,
                check=check,
                progress=bars.stage,
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
        read = " and ".join(map(brief, options.column or ["text"]))
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
    facts = placements.to_dict()
    body = {name: facts[name] for name in ("column", "total_lines", "mode", "separators")}
    body |= {"copies": copies, "empty_columns": list(placements.empty)}
    return Result("canary inject", {"out": str(out), "placements": str(places), **body})


@command(
    "verify corpus.canaried.jsonl --canaries canaries.json --column text --json > verified.json",
)
def verify(
    corpus: Path,
    *,
    canaries: Path,
    options: CorpusOptions,
    tokenizer: str | None = None,
    context: str = "",
    as_json: bool = False,
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
        verification = count(
            corpus,
            chosen,
            **options.reading(),
            tokenizer=tokenizer,
            context=context,
            progress=bars.stage,
        )
    for line in verification.summary().splitlines():
        say(line)
    if not chosen.injected:
        say(_CONTROLS_ALONE)
    if as_json:
        emit(KIND, verification.to_dict(), schema=SCHEMA)
    if not verification.ok:
        causes = "".join(f" ({cause})" for cause in verification.causes)
        raise CorpusError(
            f"{len(verification.departures):,} of {len(verification.canaries):,} canaries and "
            f"controls are not in it as they should be{causes}",
            cure="inject into a fresh corpus, and keep de-duplication and filters away from it",
            where=str(corpus),
        )


@command(
    "strip corpus.canaried.jsonl --canaries canaries.json --out corpus.stripped.jsonl",
    out="FILE: The corpus without canaries.",
)
def strip(
    corpus: Path,
    *,
    canaries: Path,
    out: Path,
    options: PlacingOptions,
    force: bool = False,
) -> Result:
    """Take the canaries out of a corpus again.

    What inject put in goes, records and spliced copies alike; the rest comes through as
    it was. A corpus that holds none of the set's canaries is an error.
    """
    from canary.corpus.canaries import CanarySet
    from canary.corpus.placements import check_same_set
    from canary.corpus.stripping import strip_file
    from canary.records.files import CORPORA

    check_outputs([(out, CORPORA)], inputs=[corpus, canaries], force=force)
    chosen = CanarySet.load(canaries)
    check_same_set(corpus, chosen, canaries)
    with Bars() as bars:
        gone = strip_file(corpus, out, chosen, **options.reading(), progress=bars.stage)
    say(
        f"{plural(gone.records, 'record')} went and {plural(gone.cuts, 'copy', 'copies')} "
        f"{'was' if gone.cuts == 1 else 'were'} cut out of others; "
        f"{out} holds none of this set"
    )
    if gone.missing:
        side = "fewer" if gone.missing > 0 else "more"
        say(
            f"note: that is {plural(abs(gone.missing), 'copy', 'copies')} {side} than the set "
            "has: this is not the corpus as inject wrote it"
        )
    body = {"records": gone.records, "cuts": gone.cuts, "missing": gone.missing}
    return Result("canary strip", {"out": str(out), **body})


@command(
    'discover mail.jsonl "{digit:3}-{digit:3}-{digit:4}" --column body --out found.json',
    formats="FORMAT...: Text with holes, such as {digit:3}-{digit:4}.",
    out="FILE: The canary set to write.",
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
        natural = find(corpus, formats, **options.reading(), progress=bars.stage)
    natural.save(out, force=again)
    rows = []
    for number, format in enumerate(natural.formats):
        copies = [c.repetitions for c in natural if c.format == number]
        rows.append({"format": format.text, "secrets": len(copies), "copies": sum(copies)})
        say(f"{format.text}: {len(copies):,} different secrets, {sum(copies):,} in all")
    say(f"They are in {out}, readable by you alone (mode 600)")
    if is_injected(corpus):
        say(
            f"note: canaries were injected into {corpus} ({manifest_of(corpus)}), and those of "
            "these formats count as found: discover in the corpus without them"
        )
    return Result("canary discover", {"out": str(out), "formats": rows})
