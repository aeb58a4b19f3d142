"""The commands before training: generate, inject, verify, strip, discover."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from canary.cli.command import command
from canary.cli.console import Bars, emit, show
from canary.cli.model_options import Count, Whole
from canary.cli.options import GROUPS, groups_of, whole_numbers
from canary.cli.outputs import Result, check_name, check_outputs, listed, many_or_one, named_files
from canary.errors import CorpusError, InputError, OutputError
from canary.records.validation import AUTO, brief
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.corpus.canaries import CanarySet

_SHOWN = 80  # characters of a format
_EACH = 8
_CONTROLS_ALONE = (
    "note: the set has only controls, so no canary is in the training data and no audit can decide "
    "anything; draw a set with canaries"
)


TOKENIZER = "PATH: Of a corpus of token ids: the tokenizer that made it."
"""The help of ``--tokenizer`` where texts need none."""
WORKERS = (
    "[Options] N: Files that are worked on at once, each by a process.  [default: 1; with --ray as "
    "many as fit]"
)
RAY = (
    "ADDRESS: Work on many files on a Ray cluster, one file at a time for each worker. All its "
    "machines must have the files at the same paths or addresses. HOST:PORT of its head, "
    "ray://HOST:PORT of a client server, auto for the cluster of this machine, or local to start "
    "one here."
)


@dataclass(frozen=True)
class CorpusOptions:
    """Which texts of a corpus are read, and by whom."""

    column: list[str] | None = None
    file_format: str | None = None
    tokenizer: str | None = None
    workers: Count | None = None
    ray: str | None = None

    def reading(self) -> dict[str, Any]:
        """The arguments in Python."""
        names = self.column or ["text"]
        column = names[0] if len(names) == 1 else tuple(names)
        about = {"column": column, "file_format": self.file_format, "tokenizer": self.tokenizer}
        if self.ray is None:
            return {**about, "workers": self.workers or 1}
        from canary.workers.cluster import RayWorkers

        return {**about, "workers": RayWorkers(address=self.ray, in_flight=self.workers)}


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
    'generate "The random number is {digit:9}" --repetitions 1,4,16 --per-repetition 4 '
    "--controls 16 --seed 0 --out canaries.json",
    'generate "my PIN is {digit:6}" "my card is {digit:16}" --repetitions 1,4 --repetitions 64:4 '
    "--out pins.json",
    formats="FORMAT...: Text with holes, such as {digit:9}; the kinds of holes are digit, letter, "
    "upper, hex, alnum, base64, word, choice, open, new, text, credit_card, iban, uuid, email, "
    "phone and re. "
    "docs/guides/formats.md explains each. With --kind, files.",
    kind="What FORMAT is: text with holes; or files of prose, an empty line between two passages, "
    "of which each becomes one canary with synonyms. Copies of fuzzy ones differ, so that "
    "near-de-duplication keeps them.",
    repetitions=GROUPS,
    out="FILE: The canary set to write.",
    controls="N: Secrets of each format that are drawn in the same way and never injected.",
    words="FILE: The words for holes such as {word:4}.  [default: built in]",
    seed="N: The seed of the draws. Keep it as secret as the canaries.  [default: drawn]",
    coin_flips="Toss a fair coin for each canary: tails keeps it out, as one more control. "
    "canary check --max-epsilon needs that.",
    role="For a corpus of chats: who says the canaries.",
)
def generate(
    formats: list[str],
    *,
    out: Path,
    kind: Literal["format", "passage", "fuzzy"] = "format",
    repetitions: list[str] | None = None,
    per_repetition: Count = _EACH,
    controls: Whole = 16,
    words: Path | None = None,
    seed: Whole | None = None,
    force: bool = False,
    coin_flips: bool = False,
    role: Literal["assistant", "user", "system"] | None = None,
) -> Result:
    """Draw canaries, which are random secrets, and controls.

    Only you can read the file (mode 600), because it holds the secrets.
    """
    from canary.corpus.canaries import KIND
    from canary.corpus.canaries import generate as draw
    from canary.corpus.passage_sets import draw_passages, read_passages
    from canary.formats.format import read_words, with_words

    files = [] if kind == "format" else [Path(name) for name in formats]
    check_outputs([(out, (KIND,))], inputs=[*files, *([words] if words else [])], force=force)
    given: dict[str, Any] = {"controls": controls, "seed": seed}
    given |= {"coin_flips": coin_flips, "role": role or ""}
    if kind == "format":
        spaces: Any = formats if words is None else with_words(formats, read_words(words))
        spaces = groups_of(spaces, repetitions, per_repetition)
        canaries = draw(spaces, per_repetition=per_repetition, **given)
    elif words is not None or per_repetition != _EACH:
        raise InputError(
            "--words and --per-repetition are for formats, and these are files of passages",
            cure="leave them out; a passage has one canary",
        )
    else:
        spaces = [one for file in files for one in read_passages(file, fuzzy=kind == "fuzzy")]
        numbers = whole_numbers(",".join(repetitions or ["1,4,16,64"]), "--repetitions")
        canaries = draw_passages(spaces, repetitions=numbers, **given)
    canaries.save(out, force=force)
    coins = ""
    if any(c.tossed is not None for c in canaries):
        stay_out = sum(c.tossed is not None for c in canaries.controls)
        coins = (
            f" ({stay_out:,} of the controls are canaries whose coin kept them out; "
            f"{len(canaries.controls) - stay_out:,} had no coin)"
        )
    show(
        f"{plural(len(canaries.injected), 'canary', 'canaries')} and "
        f"{plural(len(canaries.controls), 'control')} are in {out}{coins}"
    )
    for format in canaries.formats:
        masked = format.masked if len(format.masked) <= _SHOWN else f"{format.masked[:_SHOWN]}…"
        show(f"  {masked}: one of {format.size:,} ({format.bits:.1f} bits)")
    show(
        f"{out} holds the secrets. Only you can read it (mode 600). Keep it for the audit, and "
        "share it with nobody."
    )
    if seed is not None:
        show(
            "Anyone who guesses the seed can draw the same secrets. Omit --seed where that matters."
        )
    spaces = [
        {"format": format.text, "space_size": format.size, "space_bits": format.bits}
        for format in canaries.formats
    ]
    counts = {"canaries": len(canaries.injected), "controls": len(canaries.controls)}
    return Result("canary generate", {"out": str(out), **counts, "formats": spaces})


@command(
    "inject corpus.jsonl --canaries canaries.json --column text --out corpus.canaried.jsonl",
    out="FILE: The new corpus; a folder for many files. Also an address.",
    tokenizer=TOKENIZER,
    workers=WORKERS,
    ray=RAY,
    mode="record adds each copy as its own record; splice puts it between two sentences of a text.",
    pad="TOKEN: If all rows are blocks of token ids of one length, the special token that fills up "
    "the block of a canary.",
    check="Check every record, and look for canaries that are already there.",
)
def inject(
    corpora: list[Path],
    *,
    canaries: Path,
    out: Path,
    options: PlacingOptions,
    mode: Literal["record", "splice"] = "record",
    pad: str | None = None,
    check: bool = True,
    seed: Whole = 0,
    force: bool = False,
) -> Result:
    """Write a copy of a corpus with the canaries in it.

    Each copy of a canary goes to a random place. OUT.placements.json records the places; only you
    can read it. Everyone who can read the old corpus can read the new one.

    For a folder, a pattern or several files, OUT is a folder for files of the same names. If it
    is stopped, the same command continues after the last finished file.
    """
    from canary.corpus.canaries import CanarySet
    from canary.corpus.injection import inject_file
    from canary.corpus.placements import KIND, check_not_injected, manifest_of, note_on_share
    from canary.records.addresses import place_of
    from canary.records.files import CORPORA, alone

    check_name(out)
    out = place_of(out)
    places = manifest_of(out)
    source, outputs = many_or_one(corpora, out, CORPORA, force=force)
    named = named_files(corpora)
    check_outputs([*outputs, (places, (KIND,))], inputs=[*named, canaries], force=force)
    chosen = CanarySet.load(canaries)
    for corpus in named:
        check_not_injected(corpus)
    with alone(out):  # the places, too, are of one run
        with Bars() as bars:
            placements = inject_file(
                source,
                out,
                chosen,
                **options.reading(),
                seed=seed,
                mode=mode,
                pad=pad,
                check=check,
                progress=bars.stage,
            )
        try:
            placements.save(places)
        except OutputError as error:
            raise OutputError(
                error.problem,
                cure=f"fix that and inject again: {out} is complete, and the same seed puts every "
                "copy in the same place",
                where=str(places),
            ) from error
    copies = sum(map(len, placements.lines.values()))
    files = f" in {plural(len(placements.files), 'file')}" if placements.files else ""
    now = f"now {plural(placements.total_lines, 'record')}{files}"
    show(
        f"{plural(copies, 'copy', 'copies')} of "
        f"{plural(len(placements.lines), 'canary', 'canaries')} went into {out}, "
        f"{now if mode == 'record' else f'within its texts{files}'}"
    )
    show(f"{out} holds the secrets, and everyone who can read {listed(corpora)} can read it")
    show(f"The place of each copy is in {places}, which only you can read")
    if not copies:
        show(_CONTROLS_ALONE)
    if mode == "record" and (share := note_on_share(copies, placements.total_lines)):
        show(f"note: {share}")
    if placements.empty and copies:
        read = " and ".join(map(brief, options.column or ["text"]))
        show(
            f"note: the canaries are only in {read}, and their records are empty in "
            f"{', '.join(map(brief, placements.empty[:8]))}. Training must read {read}; otherwise "
            "name the column that it reads with --column, and fill the others with --beside"
        )
    if placements.separators is not None:
        before, after = map(ascii, placements.separators)
        show(
            f"Each copy is between {before} and {after}. Give --context {before} to canary audit, "
            "and to canary verify with a tokenizer"
        )
    facts = placements.to_dict()
    body = {name: facts[name] for name in ("column", "total_lines", "mode", "separators")}
    body |= {"files": len(placements.files) or 1}
    body |= {"copies": copies, "empty_columns": list(placements.empty)}
    return Result("canary inject", {"out": str(out), "placements": str(places), **body})


@command(
    "verify corpus.canaried.jsonl --canaries canaries.json --column text --json > verified.json",
    "verify corpus.canaried.jsonl --canaries canaries.json --tokenizer ./model",
    tokenizer="PATH: The folder, hub id or tokenizer.json of the tokenizer of the training.",
    context=r"TEXT: Text before every canary, as for canary audit; \n and \t are understood.",
    workers=WORKERS,
    ray=RAY,
)
def verify(
    corpora: list[Path],
    *,
    canaries: Path,
    options: CorpusOptions,
    context: str = "",
    chat_template: str = AUTO,
    as_json: bool = False,
) -> None:
    """Count the copies of each canary in a corpus.

    A corpus that lost canaries cannot be used for an audit. With --tokenizer, each copy must also
    have the tokens with which its canary will be scored.

    Exit codes: 0 every canary has the right number of copies, 2 one has not.
    """
    from canary.corpus.verification import KIND, SCHEMA
    from canary.corpus.verification import verify as count

    chosen = _planted(canaries, corpora)
    with Bars() as bars:
        verification = count(
            corpora,
            chosen,
            **options.reading(),
            context=context,
            chat_template=chat_template,
            progress=bars.stage,
        )
    for line in verification.summary().splitlines():
        show(line)
    if not chosen.injected:
        show(_CONTROLS_ALONE)
    if as_json:
        emit(KIND, verification.to_dict(), schema=SCHEMA)
    if not verification.ok:
        causes = "".join(f" ({cause})" for cause in verification.causes)
        mend = "mend that, or " if causes else ""
        raise CorpusError(
            f"{len(verification.departures):,} of {len(verification.canaries):,} canaries and "
            f"controls have the wrong number of copies{causes}",
            cure=f"{mend}inject into a fresh corpus, and do not de-duplicate or filter it "
            "afterwards",
            where=listed(corpora),
        )


def _planted(canaries: Path, corpora: list[Path]) -> CanarySet:
    """The set, if the corpora were not made with another one."""
    from canary.corpus.canaries import CanarySet
    from canary.corpus.placements import check_same_set

    chosen = CanarySet.load(canaries)
    for corpus in named_files(corpora):
        check_same_set(corpus, chosen, canaries)
    return chosen


@command(
    "strip corpus.canaried.jsonl --canaries canaries.json --out corpus.stripped.jsonl",
    out="FILE: The corpus without canaries; a folder for many files. Also an address.",
    tokenizer=TOKENIZER,
    workers=WORKERS,
    ray=RAY,
)
def strip(
    corpora: list[Path],
    *,
    canaries: Path,
    out: Path,
    options: PlacingOptions,
    force: bool = False,
) -> Result:
    """Remove the canaries from a corpus.

    Records and spliced copies that canary inject added are removed; all other text stays as it
    was. A corpus without any canary of the set is an error.
    """
    from canary.corpus.stripping import strip_file
    from canary.records.addresses import place_of
    from canary.records.files import CORPORA

    out = place_of(out)
    source, outputs = many_or_one(corpora, out, CORPORA, force=force)
    check_outputs(outputs, inputs=[*named_files(corpora), canaries], force=force)
    chosen = _planted(canaries, corpora)
    with Bars() as bars:
        gone = strip_file(source, out, chosen, **options.reading(), progress=bars.stage)
    files = f" from {plural(gone.files, 'file')}" if gone.files > 1 else ""
    show(
        f"Removed {plural(gone.records, 'record')} and "
        f"{plural(gone.cuts, 'spliced copy', 'spliced copies')}{files}; {out} has no canary of "
        "this set"
    )
    if gone.missing:
        side = "fewer" if gone.missing > 0 else "more"
        show(
            f"note: that is {plural(abs(gone.missing), 'copy', 'copies')} {side} than the set "
            "has, so the corpus has changed since canary inject wrote it"
        )
    body = {"records": gone.records, "cuts": gone.cuts, "missing": gone.missing}
    body["files"] = gone.files
    return Result("canary strip", {"out": str(out), **body})
