"""What is around copies of canaries, with which tokens, and in which other forms they are there."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Slot
from canary.corpus.discovery import Search
from canary.corpus.occurrences import Copies, find_canaries
from canary.errors import UnsupportedError
from canary.statistics.numbers import plural
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.chat_context import rendered
from canary.tokens.fast import as_tokenizer
from canary.tokens.tokenizer import Encoding

MOST_OTHERS = 1000
"""Texts of the formats that are not of the set: no more are looked for."""

_FIXED = 3
"""Characters of fixed text that a format needs, so that what looks like it is no accident."""
_MOST = 1_000
"""Characters before a copy that are looked at."""
_SAME = 0.9
"""Share of the copies that something must precede, or it may be a person's text."""
_CANARIES = 4
"""Canaries that must be there before more than `_SHORT` characters are shown."""
_SHORT = 2


class Surroundings:
    """Counts copies of canaries, and keeps what comes before them.

    With a tokenizer also the copies that have the tokens which their canary has by itself, behind
    the `context` of an audit. With `chats` the chat template of the tokenizer renders what holds
    copies, as in training; those have their tokens only if nothing but the context is before them.
    """

    def __init__(
        self, canaries: CanarySet, tokenizer: Any = None, context: str = "", *, chats: bool = False
    ) -> None:
        self.longer: Counter[str] = Counter()
        self._copies = Copies(canaries)
        self._expected = {canary.id for canary in canaries.injected}
        self._before: Counter[tuple[str, str]] = Counter()
        self._seen: set[str] = set()
        self._tokenizer = None if tokenizer is None else as_tokenizer(tokenizer)
        self._context, self._chats = context, chats
        if self._tokenizer is not None:
            texts = [canaries.text(canary) for canary in canaries]
            encodings = CandidateEncoder(self._tokenizer, context=context).encode(texts)
            self._own = {
                canary.id: _tokens(encoding, 0, len(text))
                for canary, text, encoding in zip(canaries, texts, encodings, strict=True)
            }

    @property
    def _known(self) -> bool:
        return len(self._seen) >= _CANARIES

    def may_be_in(self, slots: Iterable[Slot]) -> bool:
        """Whether a look at `slots` pays; nearly always not, and it costs next to nothing."""
        return any(self._copies.may_be_in(slot.text) for slot in slots)

    def count(self, slots: Sequence[Slot]) -> Counter[tuple[str, str]]:
        """The copies in `slots` by name and kind, ``"found"`` or ``"intact"``.

        `longer` and what comes before go on counting.
        """
        counts: Counter[tuple[str, str]] = Counter()
        for slot in slots:
            hits, longer = self._copies.hits(slot.text)
            self.longer.update(longer)
            if hits and self._chats and slot.role:
                counts.update((name, "found") for _, _, name in hits)
                continue
            if hits and self._tokenizer is not None and slot.ids is not None:
                for name in {name for *_, name in hits}:
                    own = self._own[name]
                    counts[name, "intact"] += min(
                        _runs(slot.ids, own), sum(hit[2] == name for hit in hits)
                    )
            elif hits and self._tokenizer is not None:
                (encoding,) = self._tokenizer.encode([slot.text])
                for start, stop, name in hits:
                    counts[name, "intact"] += _tokens(encoding, start, stop) == self._own[name]
            for start, _, name in hits:
                counts[name, "found"] += 1
                if name in self._expected:
                    self._seen.add(name)
                    whole = "message" if len(slot.path) > 1 else "text"
                    place = whole if start <= _MOST else ""
                    self._before[place, slot.text[max(start - _MOST, 0) : start]] += 1
        if counts and self._chats:
            self._read_chats(slots, counts)
        return counts

    def _read_chats(self, slots: Sequence[Slot], counts: Counter[tuple[str, str]]) -> None:
        """Count the copies in rendered chats that have their tokens, and keep what is before."""
        assert self._tokenizer is not None
        for column in dict.fromkeys(slot.path[0] for slot in slots if slot.role):
            mine = [slot for slot in slots if slot.path[0] == column]
            messages = [{"role": slot.role, "content": slot.text} for slot in mine]
            whole = rendered(self._tokenizer, messages)
            hits, _ = self._copies.hits(whole)
            (encoding,) = self._tokenizer.encode([whole]) if hits else (None,)
            for start, stop, name in hits:
                assert encoding is not None
                lead = whole[:start]
                own = lead == self._context and _tokens(encoding, start, stop) == self._own[name]
                counts[name, "intact"] += own
                if name in self._expected:
                    self._seen.add(name)
                    self._before["text", lead] += 1

    def counted(self) -> tuple[Counter[str], Counter[tuple[str, str]], set[str]]:
        """What was counted so far, for `add`."""
        return self.longer, self._before, self._seen

    def add(self, more: tuple[Counter[str], Counter[tuple[str, str]], set[str]]) -> None:
        """Add what was counted in another part of the corpus, which follows this one."""
        self.longer.update(more[0])
        self._before.update(more[1])
        self._seen |= more[2]

    def beginning(self) -> str:
        """What nearly all copies have before them at the beginning of their text, or nothing."""
        for (place, text), most in self._before.most_common(1):
            if place == "text" and most >= _SAME * self._before.total() and self._known:
                return text
        return ""

    def in_messages(self) -> bool:
        """Whether nearly all copies begin a chat message, before which a template puts its text."""
        begun = sum(number for (place, _), number in self._before.items() if place == "message")
        return 0 < begun >= _SAME * self._before.total()

    def preceded(self, context: str) -> str:
        """What comes before the copies, as far as that is no person's text; one sentence.

        `context` is what the audit will get as its context.
        """
        copies = self._before.total()
        if not copies:
            return ""
        (place, text), most = self._before.most_common(1)[0]
        its, verb = ("their", "") if copies > 1 else ("its", "s")
        position = f"at the beginning of {its} {place}"
        if most < _SAME * copies or not place or (len(text) > _SHORT and not self._known):
            text, most = self._shared_end(copies)
            text = text if self._known else text[-_SHORT:]
            place, position = "", "within longer texts"
        share = "all " if most == copies > 1 else f"{most:,} of " * (most < copies)
        who = share + plural(copies, "copy", "copies")
        if text:
            sentence = f"{who} follow{verb} {text!r} {position}"
        elif place:
            sentence = f"{who} begin{verb} {its} {place}"
        else:
            return f"{plural(copies, 'copy', 'copies')} follow{verb} texts with no common end"
        if context and place == "message":
            return f"{sentence}: the chat template puts {context!r} before it, as you say"
        if context:
            fits = text.endswith(context)
            but = f", but the context is {context!r}: after it an audit scores other text"
            return sentence if fits else sentence + but
        if text:
            return f"{sentence}: give it as --context (in Python context) to audit"
        if place == "message":
            return f"{sentence}: give what the chat template puts before it as --context to audit"
        return sentence

    def _shared_end(self, copies: int) -> tuple[str, int]:
        """The longest text that comes right before nearly all copies, and before how many."""
        end, before = "", copies
        for length in range(1, _MOST + 1):
            ends = Counter[str]()
            for (_, text), number in self._before.items():
                if len(text) >= length:
                    ends[text[-length:]] += number
            longer, number = max(ends.items(), key=lambda item: item[1], default=("", 0))
            if number < _SAME * copies:
                break
            end, before = longer, number
        return end, before


def _tokens(encoding: Encoding, start: int, stop: int) -> list[int]:
    """The tokens of any of the characters from `start` to `stop`."""
    if encoding.spans is None:
        raise UnsupportedError(
            "this tokenizer does not say which characters a token stands for",
            cure="use a fast tokenizer, or verify without one",
        )
    return [
        token
        for token, (a, b) in zip(encoding.ids, encoding.spans, strict=True)
        if a < stop and b > start and a < b
    ]


def _runs(ids: Any, own: Sequence[int]) -> int:
    """How often some tokens are there, one after another."""
    if not own or len(ids) < len(own):
        return 0
    return int((np.lib.stride_tricks.sliding_window_view(ids, len(own)) == own).all(axis=1).sum())


class Others:
    """The texts of the formats of a set that are not of the set: `texts`, filled by `look`."""

    def __init__(self, canaries: CanarySet) -> None:
        self.texts: set[str] = set()
        self._known = {canaries.text(canary) for canary in canaries}
        self._searches = [
            (space.prefix, space, Search(space))
            for space in canaries.formats
            if len(space.prefix.strip()) + len(space.suffix.strip()) >= _FIXED
        ]

    def look(self, slots: Iterable[Slot]) -> None:
        """Search a record."""
        for slot in slots:
            for prefix, space, search in self._searches:
                if prefix in slot.text and len(self.texts) < MOST_OTHERS:
                    texts = {space.candidate(fill) for fill in search(slot.text)} - self._known
                    self.texts.update(sorted(texts)[: MOST_OTHERS - len(self.texts)])


def _any_form(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _any_space(text: str) -> str:
    return " ".join(text.split())


_ALL = "with several changes of case, Unicode form and white space"
_FOLDS: Mapping[str, Callable[[str], str]] = {
    "in another case": str.casefold,
    "in another Unicode form": _any_form,
    "with other white space": _any_space,
    _ALL: lambda text: _any_space(_any_form(_any_form(text).casefold())),
}
"""What cleaning does to texts, the simplest first, and the function that undoes the difference."""


class Changed:
    """Finds canaries in another form than their own: `found` has their ids by form.

    Undoing all differences takes several times as long as reading a corpus. So a text of ASCII,
    which has one Unicode form, is first searched for the longest word of what the canaries share.
    """

    def __init__(self, canaries: CanarySet, lost: Collection[str]) -> None:
        chosen = [canary for canary in canaries.injected if canary.id in lost]
        self.found: dict[str, set[str]] = {how: set() for how in _FOLDS}
        self._exact = find_canaries(canaries, chosen)
        self._finders = {how: find_canaries(canaries, chosen, fold=f) for how, f in _FOLDS.items()}
        stems = self._finders[_ALL].stems
        self._words = [max(stem.split(), key=len, default="") for stem in stems]

    def look(self, slots: Iterable[Slot]) -> None:
        """Search a record."""
        for slot in slots:
            text = slot.text
            if text.isascii():
                small = text.lower()
                if not any(word in small for word in self._words):
                    continue
            plain = self._exact.count([text])
            for how, fold in _FOLDS.items():
                self.found[how].update(self._finders[how].count([fold(text)]) - plain)
