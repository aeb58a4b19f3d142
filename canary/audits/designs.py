"""How an audit was made: what two of them must have in common to be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from canary.audits.audit_result import Audit
from canary.records.validation import NONE, brief
from canary.statistics.numbers import count, plural


@dataclass(frozen=True)
class Space:
    """One format, and how its candidates were scored; the fields are those of `FormatResult`."""

    format: str
    space_size: int
    method: str
    draws: int | None


@dataclass(frozen=True)
class Design:
    """What was measured of a model, and how; the other fields are those of `Audit`.

    `sizes` are numbers of canaries by format and copies, 0 for controls; `context` is the text
    before every candidate, and `start_token` the token before that: "none" for nothing, and
    empty where an earlier version did not keep it.
    """

    spaces: tuple[Space, ...]
    sizes: Mapping[tuple[int, int], int]
    context: str
    natural: bool
    canaries_in_corpus: bool
    start_token: str

    @classmethod
    def of(cls, audit: Audit) -> Design:
        """The design of an audit."""
        start = audit.settings.get("start_token", "")
        return cls(
            spaces=tuple(Space(f.format, f.space_size, f.method, f.draws) for f in audit.formats),
            sizes=Counter((c.format, c.repetitions) for c in audit.canaries),
            context=str(audit.settings.get("context") or ""),
            natural=audit.natural,
            canaries_in_corpus=audit.canaries_in_corpus,
            start_token=str(start or NONE) if start != "" else "",
        )


def differences(one: Design, other: Design, *, sizes: bool = True) -> Iterator[str]:
    """What keeps an audit from being compared with the other, as clauses about the first.

    Without `sizes`, groups of canaries may differ in size, if none is missing.
    """
    if one.natural != other.natural:
        yield "secrets that were found in a corpus do not compare with drawn ones"
    if one.canaries_in_corpus != other.canaries_in_corpus:
        yield "of one the canaries were put into the corpus, of the other they were left out"
    if len(one.spaces) != len(other.spaces):
        yield f"{plural(len(one.spaces), 'format')}, not {count(len(other.spaces))}"
        return
    told: list[str] = []
    for mine, theirs in zip(one.spaces, other.spaces, strict=True):
        if mine.format != theirs.format:
            told.append(f"the format is {brief(mine.format, 80)}, not {brief(theirs.format, 80)}")
        elif mine.space_size != theirs.space_size:
            told.append(
                f"the space has {plural(mine.space_size, 'candidate')}, not "
                f"{count(theirs.space_size)}"
            )
        if mine.method != theirs.method:
            told.append(f"the method was {brief(mine.method)}, not {brief(theirs.method)}")
        elif mine.draws != theirs.draws:
            draws = count(theirs.draws or 0)
            told.append(f"there were {plural(mine.draws or 0, 'draw')}, not {draws}")
    yield from dict.fromkeys(told)
    for key in sorted(one.sizes.keys() | other.sizes.keys()):
        here, there = one.sizes.get(key, 0), other.sizes.get(key, 0)
        if here != there and (sizes or not (here and there)):
            copies = plural(key[1], "copy", "copies")
            what = f"canaries of {copies}" if key[1] else "controls"
            yield f"the number of {what} is {count(here)}, not {count(there)}"
            break  # one says enough
    if one.context != other.context:
        yield (
            f"before each candidate was the text {brief(one.context)}, not {brief(other.context)}"
        )
    if one.start_token and other.start_token and one.start_token != other.start_token:
        yield f"the start token is {brief(one.start_token)}, not {brief(other.start_token)}"
