"""Copies of canaries in texts: whether alone, what comes before, and with which tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Slot
from canary.corpus.occurrences import find_canaries
from canary.errors import UnsupportedError
from canary.statistics.numbers import plural
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tokenizer import Encoding

_MOST = 1_000
"""Characters before a copy that are looked at."""
_SAME = 0.9
"""Share of the copies that something must precede, or it may be a person's text."""
_CANARIES = 4
"""Canaries that must be there before more than `_SHORT` characters are shown."""
_SHORT = 2


class Copies:
    """Finds the copies of canaries that stand alone, and keeps what comes before them.

    A candidate that ends in a hole is no copy where the text goes on with a letter or digit
    that the hole could hold: 1234 is not in 12345. Likewise at its beginning.
    """

    def __init__(self, canaries: CanarySet) -> None:
        self._find = find_canaries(canaries, canaries)
        edges = []
        for space in canaries.formats:
            chars = {char for char in space.automaton.chars if char.isalnum()}
            edges.append((set() if space.prefix else chars, set() if space.suffix else chars))
        self._edges = {canary.id: edges[canary.format] for canary in canaries}
        self._expected = {canary.id for canary in canaries.injected}
        self._before: Counter[tuple[str, str]] = Counter()
        self._seen: set[str] = set()
        self.longer: Counter[str] = Counter()

    def hits(self, text: str) -> tuple[list[tuple[int, int, str]], list[str]]:
        """Start, stop and name of each copy in `text`; and the names within longer runs."""
        alone, longer = [], []
        for start, stop, name in self._find(text):
            before, after = self._edges[name]
            if (text[stop : stop + 1] in after and text[stop - 1].isalnum()) or (
                start > 0 and text[start - 1] in before and text[start].isalnum()
            ):
                longer.append(name)
            else:
                alone.append((start, stop, name))
        return alone, longer

    def count(self, slots: Sequence[Slot]) -> Counter[str]:
        """The copies in `slots`, by name; `longer` and what comes before go on counting."""
        found: Counter[str] = Counter()
        for slot in slots:
            if not self._find(slot.text):  # nearly always
                continue
            alone, longer = self.hits(slot.text)
            self.longer.update(longer)
            for start, _, name in alone:
                found[name] += 1
                if name in self._expected:
                    self._seen.add(name)
                    whole = "message" if len(slot.path) > 1 else "text"
                    place = whole if start <= _MOST else ""
                    self._before[place, slot.text[max(start - _MOST, 0) : start]] += 1
        return found

    def beginning(self) -> str:
        """What nearly all copies have before them at the beginning of their text, or nothing."""
        (place, text), most = (self._before.most_common(1) or [(("", ""), 0)])[0]
        same = most >= _SAME * sum(self._before.values()) and len(self._seen) >= _CANARIES
        return text if place == "text" and same else ""

    def preceded(self, context: str) -> str:
        """What comes before the copies, as far as that is no person's text; one sentence.

        `context` is what an audit will be told that it is.
        """
        copies = sum(self._before.values())
        if not copies:
            return ""
        (place, text), most = self._before.most_common(1)[0]
        known = len(self._seen) >= _CANARIES
        one = copies == 1
        at = f"at the beginning of {'its' if one else 'their'} {place}"
        if most < _SAME * copies or not place or (len(text) > _SHORT and not known):
            text, most = self._shared_end(copies)
            text = text if known else text[-_SHORT:]
            place, at = "", "within longer texts"
        who = f"{'all ' if most == copies > 1 else f'{most:,} of ' * (most < copies)}"
        who += plural(copies, "copy", "copies")
        if text:
            told = f"{who} follow{'s' * one} {text!r} {at}"
        elif place:
            told = f"{who} begin{'s' * one} {'its' if one else 'their'} {place}"
        else:
            return f"{plural(copies, 'copy', 'copies')} follow{'s' * one} texts with no common end"
        if context and text.endswith(context):
            return told
        if context:
            return f"{told}, but the context is {context!r}: after it an audit prices other text"
        if text:
            return f"{told}: give it as --context (in Python context) to audit"
        if place == "message":
            return f"{told}: give what the chat template puts before it as --context to audit"
        return told

    def _shared_end(self, copies: int) -> tuple[str, int]:
        """The longest text that comes right before nearly all copies, and before how many."""
        left, end = Counter[str](), ""
        for (_, text), number in self._before.items():
            left[text] += number
        while len(end) < _MOST:
            chars = Counter[str]()
            for text, number in left.items():
                if len(text) > len(end):
                    chars[text[-len(end) - 1]] += number
            if not chars or chars.most_common(1)[0][1] < _SAME * copies:
                break
            end = chars.most_common(1)[0][0] + end
            left = Counter({text: n for text, n in left.items() if text.endswith(end)})
        return end, sum(left.values())


class OwnTokens:
    """Compares the tokens of copies, in the text around them, with those of the canaries.

    `context` is what an audit will be told to put before every candidate.
    """

    def __init__(self, canaries: CanarySet, tokenizer: Any, context: str) -> None:
        self._tokenizer = as_tokenizer(tokenizer)
        texts = {canary.id: canaries.text(canary) for canary in canaries}
        self._copies = Copies(canaries)
        encoder = CandidateEncoder(self._tokenizer, context=context)
        own = encoder.encode(list(texts.values()))
        self._own = {
            name: _tokens(encoding, 0, len(text))
            for (name, text), encoding in zip(texts.items(), own, strict=True)
        }

    def count(self, slots: Sequence[Slot]) -> Counter[str]:
        """For each canary, its copies in `slots` that have its own tokens."""
        found: Counter[str] = Counter()
        for slot in slots:
            hits, _ = self._copies.hits(slot.text)
            if not hits:
                continue
            (encoding,) = self._tokenizer.encode([slot.text])
            for start, stop, name in hits:
                found[name] += _tokens(encoding, start, stop) == self._own[name]
        return +found


def _tokens(encoding: Encoding, start: int, stop: int) -> list[int]:
    """The tokens that stand for any of the characters from `start` to `stop`."""
    if encoding.spans is None:
        raise UnsupportedError(
            "this tokenizer cannot tell which characters a token stands for",
            cure="use a fast tokenizer, or verify without one",
        )
    return [
        token
        for token, (a, b) in zip(encoding.ids, encoding.spans, strict=True)
        if a < stop and b > start and a < b
    ]
