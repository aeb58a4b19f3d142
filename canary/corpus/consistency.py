"""Canaries, and what must hold of those of a set and of what is asked of one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from canary.errors import FormatError, InputError
from canary.formats.format import Format
from canary.formats.syntax import place
from canary.records.record import Record
from canary.records.validation import whole_number

MAX_COPIES = 10_000_000
"""Copies that a set may ask for in all."""

REPETITIONS = (1, 4, 16, 64)
"""The numbers of copies where none are given."""

Groups = Sequence[int] | Mapping[int, int]
"""Numbers of copies, or by each its number of canaries."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Canary(Record, sparse=True):
    """One secret of a canary set; `CanarySet.text` gives its whole text.

    Parameters
    ----------
    id : str
        Ordinal id such as ``canary-1`` or ``control-1``; it says nothing of the secret.
    format : int
        Position of its format in `CanarySet.formats`.
    fill : str
        The secret; not shown by `repr`.
    repetitions : int
        Copies to inject; 0 makes it a control, which is never injected. Of a natural
        secret: how often it was found.
    tossed : int, optional
        The copies for which a fair coin was tossed: `repetitions` is that number or 0,
        each with probability 1/2. None if no coin was tossed.
    """

    id: str
    format: int
    fill: str = field(repr=False)
    repetitions: int
    tossed: int | None = None

    @property
    def control(self) -> bool:
        """Whether it is never injected."""
        return self.repetitions == 0


def check_not_empty(space: Format) -> None:
    """A FormatError if a candidate is empty: it is everywhere, and says nothing."""
    if not space.prefix and not space.suffix and "" in space:
        raise FormatError(
            "a candidate of this format is empty",
            cure="add fixed text, or let the holes have at least one character",
            where=place(space.text),
        )


def check_parts(formats: tuple[Format, ...], canaries: tuple[Canary, ...]) -> None:
    """Check that formats differ, and each canary against the others and against its format."""
    for where, problem, cure in _faults(formats, canaries):
        raise InputError(problem, cure=cure, where=where)


def _faults(
    formats: tuple[Format, ...], canaries: tuple[Canary, ...]
) -> Iterator[tuple[str, str, str]]:
    """What is wrong: where, problem and cure."""
    if not formats:
        yield "formats", "there is no format", "give at least one"
    for i, space in enumerate(formats):
        if space in formats[:i]:
            yield f"formats[{i}]", "the same format is listed twice", "give it once"
        check_not_empty(space)
    if not canaries:
        yield "canaries", "there is no canary", "give at least one"
    again = "restore the set as it was generated, or generate it again"
    seen: set[str] = set()
    for i, canary in enumerate(canaries):
        where, tossed = f"canaries[{i}].", canary.tossed
        if not _ID.fullmatch(canary.id):
            problem = "the id is not 1 to 64 letters, digits, dots, dashes or underscores"
            yield where + "id", problem, 'use ordinal ids such as "canary-1"'
        if canary.id in seen:
            yield where + "id", f"the id {canary.id} is listed twice", "make ids unique"
        seen.add(canary.id)
        if not 0 <= canary.format < len(formats):
            cure = f"formats are numbered from 0 to {len(formats) - 1}"
            yield where + "format", f"{canary.id} names a format that does not exist", cure
        if canary.fill not in formats[canary.format]:
            problem = f"the fill of {canary.id} is not in the space of its format"
            yield where + "fill", problem, again
        if tossed is not None and (
            not 1 <= tossed <= MAX_COPIES or canary.repetitions not in (0, tossed)
        ):
            problem = f"the coin of {canary.id} was tossed for something else than its repetitions"
            yield where + "tossed", problem, again
        if not 0 <= canary.repetitions <= MAX_COPIES:
            problem = f"the repetitions of {canary.id} are out of range"
            yield where + "repetitions", problem, f"use 0 (a control) to {MAX_COPIES:,}"
    if sum(canary.repetitions for canary in canaries) > MAX_COPIES:
        problem = f"the set asks for more than {MAX_COPIES:,} copies in all"
        yield "canaries", problem, "use fewer canaries or fewer repetitions"


def check_texts(named: list[tuple[str, str]]) -> None:
    """Check that no text occurs within another, equal ones included.

    A window of each length that occurs is slid over every text: nothing is slid where
    all candidates have one length, the usual case.
    """
    owners = {text: name for name, text in named}
    lengths = sorted({len(text) for text in owners})
    for outer, text in named:
        windows = (
            text[start : start + length]
            for length in takewhile(len(text).__ge__, lengths)
            for start in range(len(text) - length + 1)
        )
        inner = next((owners[w] for w in windows if owners.get(w, outer) != outer), None)
        if inner is not None:
            raise InputError(
                f"the text of {inner} occurs within that of {outer}, so their copies cannot be "
                "separated",
                cure="begin and end each format with fixed text of its own, or draw with another "
                "seed",
                where=inner,
            )


def asked_of(
    formats: Format | str | Sequence[Format | str] | Mapping[Format | str, Groups],
    repetitions: Groups,
    per_repetition: int,
    controls: int,
) -> list[tuple[Format, list[int]]]:
    """Each format, and the number of copies of each of its canaries as `check_counts` gives it.

    A mapping has the numbers of each format; otherwise all have `repetitions`. An InputError if
    both are given.
    """
    spaces = Format.several(formats)
    each: Iterable[Groups] = [repetitions] * len(spaces)
    if isinstance(formats, Mapping):
        if repetitions is not REPETITIONS:
            problem = "repetitions were given twice: in the mapping, and beside it"
            raise InputError(problem, cure="leave repetitions=... out", where="repetitions")
        each = formats.values()
    counts = [check_counts(one, per_repetition, controls) for one in each]
    return list(zip(spaces, counts, strict=True))


def check_counts(repetitions: Groups, per_repetition: int, controls: int) -> list[int]:
    """The number of copies of each canary of a format, controls last; an InputError if none."""
    if not isinstance(repetitions, Iterable):
        raise InputError(
            f"repetitions is a list of numbers, got {repetitions!r}",
            cure=f"write [{repetitions!r}]",
        )
    copies = [whole_number(number, "each of repetitions", at_least=1) for number in repetitions]
    if not copies:
        raise InputError(
            "no number of copies, so all secrets would be controls, and nothing could be decided",
            cure="give at least one, such as [1, 4, 16]",
            where="repetitions",
        )
    if len(set(copies)) < len(copies):
        raise InputError(
            f"a number is listed twice in repetitions {copies}",
            cure="name each number once; per_repetition says how many canaries get it",
        )
    sizes = repetitions.values() if isinstance(repetitions, Mapping) else [per_repetition]
    sizes = [whole_number(each, "per_repetition", at_least=1) for each in sizes]
    sizes = sizes if isinstance(repetitions, Mapping) else sizes * len(copies)
    controls = whole_number(controls, "controls", at_least=0)
    total = sum(sizes) + controls
    if total == 0 or total > MAX_COPIES:
        raise InputError(
            f"{total:,} canaries were asked for",
            cure=f"ask for 1 to {MAX_COPIES:,} canaries and controls",
        )
    groups = zip(copies, sizes, strict=True)
    return [number for number, size in groups for _ in range(size)] + [0] * controls
