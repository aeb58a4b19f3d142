"""Why copies are missing in a corpus, or are too many: what was read beside what was planned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.placements import ENDING, KIND, SCHEMA, injected_by
from canary.records.addresses import Remote
from canary.records.files import kind_there
from canary.records.versioned_json import load_document
from canary.statistics.numbers import plural

_CANARIES = 4
"""Canaries of a format that must be lost before near-de-duplication is named."""

CHANGED = (
    "train on the texts as canary inject wrote them: lower-cased letters, or a space or other text "
    "joined to their beginning, make other tokens. Put a line break between, and give what is "
    "before as context"
)
"""The cure where canaries begin with another token than their own."""

Placed = tuple[int, int, str]
"""Of a file: its records, its copies, and a digest of which copies are in which records."""


@dataclass(frozen=True)
class Found:
    """What was found in a corpus.

    Parameters
    ----------
    counts : mapping of str to int
        Copies of each canary by id.
    others : int
        Texts of the same formats that are not of the set.
    changed : mapping of str to collection of str
        Canaries in another form, by form; see `canary.corpus.surroundings.Changed`.
    records : int
    files : mapping of str to (int, int, str)
        What each file that was read holds, see `Placed`.
    shards : sequence
        What was read.
    """

    counts: Mapping[str, int]
    others: int
    changed: Mapping[str, Collection[str]]
    records: int
    files: Mapping[str, Placed] = field(default_factory=dict)
    shards: Sequence[Any] = ()


def likely_cause(canaries: CanarySet, found: Found) -> str:
    """What has probably happened to a corpus: a sentence without secrets, "" if it is not known."""
    expected = {canary.id: canary.repetitions for canary in canaries.injected}
    there = {name: found.counts.get(name, 0) for name in expected}
    if any(there[name] > number for name, number in expected.items()) and (
        twice := _twice(found.files)
    ):
        return twice
    if all(number >= expected[name] for name, number in there.items()):
        times = {there[name] / number for name, number in expected.items()}
        often = times.pop() if len(times) == 1 else 0.0
        if often < 2 or not often.is_integer():
            return _other_number(canaries, there)
        return (
            f"every canary is there {often:.0f} times as often as expected, so the set was "
            "probably injected into several files that were joined, or the corpus was repeated"
        )
    how = max(found.changed, key=lambda how: len(found.changed[how]), default="")
    if how and (number := len(found.changed[how])):
        return (
            f"{plural(number, 'canary is', 'canaries are')} there {how}: something changed the "
            "texts after inject, so the model was trained on other text than an audit would score"
        )
    own, written = _own(found.shards, canaries), [*_elsewhere(found.shards, canaries)]
    if own and (missing := _not_read(own, found.shards)):
        return missing
    if not any(there.values()):
        return _not_written(found, written)
    if any(there[name] > expected[name] for name in there):
        return ""
    if all(number == 1 for number in there.values()):
        return "each canary is there once, so the corpus was probably de-duplicated"
    if told := _merged(canaries, there) or _other_number(canaries, there):
        return told
    return _dropped(canaries, found.records, sum(there.values()), [own] if own else written)


def _dropped(canaries: CanarySet, records: int, there: int, plans: Sequence[_Plan]) -> str:
    """What else is gone where copies are lost, as far as one plan says what was there."""
    expected = sum(canary.repetitions for canary in canaries.injected)
    lost = expected - there
    copies = f"{there:,} of {plural(expected, 'copy', 'copies')} are "
    gone = plans[0].records - records if len(plans) == 1 else None
    if gone is None or gone < lost * (not plans[0].spliced):
        return (
            f"{copies}there, so the corpus was probably cut, filtered or split into several files"
        )
    of = f"of the {plans[0].records:,} records that {plans[0].manifest.name} names"
    if not gone:
        return (
            f"{copies}there, and so are all {of[7:]}: something cut or changed texts after inject"
        )
    if gone == lost and not plans[0].spliced:
        return (
            f"{copies}there, and {of} the {lost:,} with the others are gone and no more: something "
            "removed canaries and left other records, such as a filter or near-de-duplication"
        )
    return (
        f"{copies}there, and {gone:,} {of} are gone: whole records were dropped after inject, by a "
        "filter, a cut or a division"
    )


@dataclass(frozen=True)
class _Plan:
    """What a manifest of `canary inject` says: its corpus, records, copies and files."""

    manifest: Path
    records: int
    copies: int
    spliced: bool
    files: Collection[str]

    @property
    def corpus(self) -> Path:
        return self.manifest.with_name(self.manifest.name.removesuffix(ENDING))


def _plan_in(manifest: Path, canaries: CanarySet) -> _Plan | None:
    if kind_there(manifest) != KIND:
        return None
    facts = load_document(manifest, KIND, SCHEMA)
    if facts.get("fingerprint") != canaries.fingerprint:
        return None
    copies = sum(map(len, facts["lines"].values()))
    spliced = facts["mode"] == "splice"
    return _Plan(manifest, facts["total_lines"], copies, spliced, facts.get("files") or ())


def _own(shards: Sequence[Any], canaries: CanarySet) -> _Plan | None:
    """The plan of the corpus that was read, if all files are of one."""
    here = [s for s in shards if isinstance(s, Path) and not isinstance(s, Remote)]
    manifests = {injected_by(file) or _above(file) for file in here}
    (only,) = manifests if len(manifests) == 1 else (None,)
    return None if only is None else _plan_in(only, canaries)


def _above(file: Path) -> Path | None:
    """The manifest of a folder further above."""
    return next(filter(None, map(injected_by, file.parents)), None)


def _elsewhere(shards: Sequence[Any], canaries: CanarySet) -> Iterator[_Plan]:
    """The plans of corpora with canaries of this set, beside those that were read."""
    here = [s for s in shards if isinstance(s, Path) and not isinstance(s, Remote)]
    for folder in sorted({place for file in here for place in [*file.absolute().parents][:2]}):
        for manifest in sorted(folder.glob(f"*{ENDING}")):
            plan = _plan_in(manifest, canaries)
            if plan is not None and plan.corpus.exists():
                yield plan


def _not_read(own: _Plan, shards: Sequence[Any]) -> str:
    """That files of a corpus were not read; "" if all were."""
    if not own.files:
        return ""
    read = {file.resolve() for file in shards}
    missing = [name for name in own.files if (own.corpus / name).resolve() not in read]
    if not missing:
        return ""
    return (
        f"{len(missing):,} of the {plural(len(own.files), 'file')} that canary inject wrote into "
        f"{own.corpus} were not read, such as {missing[0]}: name the folder"
    )


def _not_written(found: Found, written: Sequence[_Plan]) -> str:
    """Where the canaries are if none is in a corpus."""
    if found.others:
        is_there = "is" if found.others == 1 else "are"
        return (
            f"{plural(found.others, 'text')} of the same format {is_there} there with fills that "
            "are not of this set, so this is probably the canary set of another run"
        )
    for plan in written:
        if found.records == plan.records - plan.copies * (not plan.spliced):
            return (
                f"this has as many records as the corpus that canary inject read, and "
                f"{plan.manifest.name} says that the canaries are in {plan.corpus.name}: this is "
                "probably the corpus from before inject, so verify that one and train on it; or a "
                "filter removed all canaries after inject"
            )
    if not written:
        return (
            "no copy of any canary is there, so this is probably not the file that canary inject "
            "wrote"
        )
    return (
        f"the canaries are in {written[0].corpus.name}, as {written[0].manifest.name} says, and "
        "this is another corpus"
    )


def _twice(files: Mapping[str, Placed]) -> str:
    """Which files have the same copies in the same records; "" if none have."""
    there = sorted((placed, name) for name, placed in files.items() if placed[1])
    equal = [[name for _, name in group] for _, group in groupby(there, key=lambda one: one[0])]
    equal = [names for names in equal if len(names) > 1]
    if not equal:
        return ""
    one = files[equal[0][0]]
    more = f" (and so have {plural(len(equal) - 1, 'other group')} of files)" if equal[1:] else ""
    copies = plural(one[1], "copy", "copies")
    return (
        f"{' and '.join(equal[0][:3])} have the same {copies} in the same records{more}, so a file "
        "is probably there twice"
    )


def _other_number(canaries: CanarySet, there: Mapping[str, int]) -> str:
    """Which group alone is there with another number of copies; "" if it is not just one."""
    groups: dict[int, list[int]] = {}
    for canary in canaries.injected:
        groups.setdefault(canary.repetitions, []).append(there[canary.id])
    others = {n: found for n, found in groups.items() if {*found} != {n}}
    if len(others) != 1 or len(groups) < 2:
        return ""
    ((expected, found),) = others.items()
    if len(found) < 2 or len({*found}) > 1:
        return ""
    return (
        f"each of the canaries with {plural(expected, 'copy', 'copies')} is there "
        f"{plural(found[0], 'time')}, and all others are there as expected: the corpus was "
        "probably made with another number of copies than the file of canaries says"
    )


def _merged(canaries: CanarySet, there: Mapping[str, int]) -> str:
    """That near-de-duplication took the canaries of a format for one text; "" if not."""
    lost, alone = 0, 0
    for number in range(len(canaries.formats)):
        mine = [there[canary.id] for canary in canaries.injected if canary.format == number]
        if len(mine) >= _CANARIES and sum(mine) == 1:
            lost, alone = lost + len(mine) - 1, alone + 1
    if not lost or sum(there.values()) > alone:
        return ""
    others = plural(lost, "other canary", "other canaries")
    return (
        f"of each format one copy of one canary is there, and {others} are lost: near-"
        "de-duplication (such as MinHash) took texts that differ only in the secret for copies of "
        "one text. Splice the canaries (--mode splice), inject them after that step, or draw fuzzy "
        "copies (canary generate --kind fuzzy)"
    )
