"""What is looked for in the answers of a server: passages of texts, or planted secrets."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from canary.corpus.canaries import Canary, CanarySet
from canary.errors import InputError
from canary.models.served.writer import plain
from canary.passages.text_places import identified
from canary.passages.windows import in_both, too_short
from canary.records.validation import text, whole_number

_RUN = 5  # words in a row that count as repeated
_DIGIT = re.compile(r"\d")
_BETWEEN = re.compile(r"(?<=\d)[-,. _'\u066c\u2010\u2012\u2013\u2019\u2212](?=\d)")
_CODE = "[A-Za-z0-9+/_-]"
_ENCODED = re.compile(rf"(?:(?:{_CODE}{{76}}|{_CODE}{{64}}) )*{_CODE}{{8,}}")  # and full lines


@dataclass(frozen=True)
class Target:
    """What is looked for after a prompt, and where it comes from.

    `tokens` is the most that it takes, with the space before it: no usual tokenizer makes more
    than one of a byte of UTF-8, and one that knows single characters or bytes makes as many.
    `bare` is the suffix as `reformed` gives it; empty if only the suffix counts.
    """

    kind: str
    document: int
    position: int
    prompt: str = field(repr=False)
    suffix: str = field(repr=False)
    tokens: int
    name: str = ""
    copies: int = 0
    bare: str = field(default="", repr=False)
    digits: bool = False

    def reformed_in(self, form: str) -> bool:
        """Whether the suffix is in an answer of which this is the form; numbers as whole ones."""
        if not self.digits:
            return bool(self.bare) and self.bare in form
        return re.search(rf"(?<!\d){re.escape(self.bare)}(?!\d)", form) is not None


@dataclass(frozen=True, eq=False)
class Cut:
    """The targets of some documents, and which of these are too short."""

    targets: list[Target]
    documents: Sequence[str] = field(repr=False)
    short: tuple[int, ...]
    digest: str
    ids: tuple[str, ...] = ()


def passages(kind: str, given: Iterable[str] | Mapping[str, str], prefix: int, suffix: int) -> Cut:
    """The passages of texts, cut at words.

    Raises
    ------
    InputError
        If `given` are not texts, or none is as long as a passage.
    """
    if isinstance(given, CanarySet):
        raise InputError(f"{kind} must be texts, got a canary set", cure="give it as canaries=...")
    cure = "give a number of words, such as 25"
    for value, name in ((prefix, "prefix"), (suffix, "suffix")):
        whole_number(value, name, at_least=1, cure=cure)
    documents, ids = identified(given, kind)
    found: list[Target] = []
    lengths = []
    for number, each in enumerate(documents):
        text(
            each,
            f"{kind.removesuffix('s')} {number + 1}",
            cure="give texts that can be written as UTF-8",
        )
        spans = [word.span() for word in re.finditer(r"\S+", each)]
        lengths.append(len(spans))
        for first in range(0, len(spans) - prefix - suffix + 1, prefix + suffix):
            middle, last = first + prefix, first + prefix + suffix - 1
            begin = spans[first][0] if first else 0  # white space before a text is a part of it
            prompt = each[begin : spans[middle - 1][1]]
            tail = each[spans[middle - 1][1] : spans[last][1]]
            place = (kind, number, first, prompt, plain(tail), _bytes(tail))
            found.append(Target(*place, bare=reformed(place[4])))
    if not found:
        raise too_short(kind, lengths, f"{prefix + suffix} words of a passage")
    short = tuple(at for at, length in enumerate(lengths) if length < prefix + suffix)
    return Cut(found, documents, short, digest(documents), ids)


def planted(canaries: CanarySet) -> dict[str, Cut]:
    """The secrets of a set and its controls, each a document of its own.

    Raises
    ------
    InputError
        If a format has no text before its first hole, or no secret was injected.
    """
    for space in canaries.formats:
        if not space.prefix.strip():
            raise InputError(
                f"the format {space.masked!r} has no text before its first hole",
                cure="only secrets behind a text can be asked for in this way",
                where="canaries",
            )
    if not canaries.injected:
        raise InputError(
            "no canary of the set was injected", cure="give a set with copies", where="canaries"
        )
    kinds: Mapping[str, Sequence[Canary]] = {
        "texts": canaries.injected,
        "controls": canaries.controls,
    }
    masks: dict[int, set[str]] = {}
    for one in canaries:
        masks.setdefault(one.format, set()).add(_DIGIT.sub(_zero, canaries.text(one)))
    found = {}
    for kind, secrets in kinds.items():
        targets = []
        for number, one in enumerate(secrets):
            space = canaries.formats[one.format]
            whole, prompt = canaries.text(one), space.prefix.rstrip()
            tail = whole[len(prompt) : len(whole) - len(space.suffix)]
            suffix, form = plain(tail), reformed(plain(tail))
            # Two secrets must not have one form: the p-value takes each place for one guess.
            one_mask = len(masks[one.format]) == 1
            alike = one_mask or (suffix.isdecimal() and suffix.isascii())
            usual = form == (_DIGIT.sub(_usual, suffix) if one_mask else suffix)
            digits = usual and alike and _DIGIT.search(suffix) is not None
            bare = reformed(suffix, digits=digits) if usual else ""
            place = (kind, number, 0, prompt, suffix, _bytes(tail))
            targets.append(Target(*place, one.id, one.repetitions, bare, digits))
        if targets:
            made = digest([[target.prompt, target.suffix] for target in targets])
            found[kind] = Cut(targets, [target.suffix for target in targets], (), made)
    return found


def refuse_overlap(cuts: Mapping[str, Cut]) -> None:
    """Refuse controls that share a passage of either kind with the texts, wherever it begins.

    Costs one look-up for each word of both.
    """
    for kind, other in (("controls", "texts"), ("texts", "controls")) if len(cuts) > 1 else ():
        known = {(*t.prompt.split(), *t.suffix.split()): t.document for t in cuts[kind].targets}
        width = len(next(iter(known)))
        for number, each in enumerate(cuts[other].documents):
            words = each.split()
            for at in range(len(words) - width + 1):
                found = known.get(tuple(words[at : at + width]))
                if found is not None:
                    place = {kind: found + 1, other: number + 1}
                    raise in_both(
                        f"a passage of control {place['controls']} is in text {place['texts']}, too"
                    )


def repeated(words: Sequence[str], suffix: Sequence[str]) -> list[str]:
    """The words of a suffix that are in runs of at least 5 words of an answer, in order.

    Of a shorter suffix all words must be there.

    Examples
    --------
    >>> repeated("so it goes on and on for ever".split(), "it goes on and on then stops".split())
    ['it', 'goes', 'on', 'and', 'on']
    """
    least = min(_RUN, len(suffix))
    blocks = SequenceMatcher(None, words, suffix, autojunk=False).get_matching_blocks()
    runs = [suffix[of.b : of.b + of.size] for of in blocks if of.size >= least]
    return [word for run in runs for word in run]


def reformed(text: str, *, digits: bool = False) -> str:
    r"""A text without what a server may do to its characters, and to its numbers if `digits`.

    Characters of other widths and digits of other scripts are the usual ones, those that nobody
    sees are left out, and so are single separators between digits.

    Examples
    --------
    >>> reformed("755-574 or \uff17\uff15\u200b 5,574 or \u096d55574", digits=True)
    '755574 or 755574 or 755574'
    """
    usual = _DIGIT.sub(_usual, unicodedata.normalize("NFKC", text))
    seen = plain("".join(char for char in usual if unicodedata.category(char) != "Cf"))
    return _BETWEEN.sub("", seen) if digits else seen


def disguised(text: str) -> Iterator[str]:
    """What an answer may have been before a server wrote it backwards or in base64.

    No longer together than twice the answer.

    Examples
    --------
    >>> [*disguised("IDc1NTU3NA")]
    ['AN3UTN1cDI', '755574']
    """
    yield text[::-1]
    for run in _ENCODED.findall(text):
        coded = run.translate({ord("-"): "+", ord("_"): "/", ord(" "): None})
        coded = coded[: len(coded) - (len(coded) % 4 == 1)]
        yield plain(b64decode(coded + "=" * (-len(coded) % 4)).decode(errors="replace"))


def _usual(digit: re.Match[str]) -> str:
    """A digit of any script as 0 to 9."""
    return str(unicodedata.decimal(digit[0]))


def _zero(digit: re.Match[str]) -> str:
    """The zero of the script of a digit."""
    return chr(ord(digit[0]) - unicodedata.decimal(digit[0]))


def _bytes(tail: str) -> int:
    return len(tail.encode())


def characters(words: Sequence[str]) -> int:
    """How many they have, without white space."""
    return sum(map(len, words))


def digest(value: Any) -> str:
    """SHA-256 of plain JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
