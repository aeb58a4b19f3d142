"""Candidates as token rows: whole strings, tokenized as training would have, or told why not."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from canary.errors import InputError, ModelError
from canary.formats.automaton import Automaton
from canary.formats.format import Format
from canary.records.validation import AUTO, named_start
from canary.tokens.fast import FastTokenizer
from canary.tokens.tokenizer import Encoding, Tokenizer

# How special tokens are written: `<|name|>`, `<s>`, `[INST]` and their like.
_SPECIAL = re.compile(
    r"<\|[^|<>\s]{1,40}\|>"
    r"|<\uff5c[^\uff5c<>]{1,40}\uff5c>"
    r"|</?(?:s|bos|eos|pad|unk|sep|cls|mask|(?:start|end)_of_(?:turn|text)|(?:im|turn)_\w{1,20})>"
    r"|\[/?(?:INST|SYS|BOS|EOS|CLS|SEP|PAD|MASK|UNK)\]"
)
_LONG, _END = 2_000, 500
"""Characters of a context from which on only its end is tokenized with each candidate."""
_NAMED = 5  # tokens or characters that a note names


@dataclass(frozen=True)
class CandidateEncoder:
    r"""Turns candidate texts into the token sequences that a model is asked about.

    Parameters
    ----------
    tokenizer : Tokenizer
    start_token : str, optional
        A token put before every text, for tokenizers that put none there themselves:
        the name of a token (``<|endoftext|>``) or a text that is one token (``\n``).
        Training must have put it there too. None and ``"none"`` for nothing.
    context : str
        Text before every candidate (Secret Sharer, appendix A.3); it is tokenized
        together with the candidate.
    """

    tokenizer: Tokenizer
    start_token: str | None = None
    context: str = ""
    _start: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        token = named_start(self.start_token)
        if token == AUTO:
            raise InputError(
                "the start token is to be chosen, and nothing is chosen here",
                cure="name the token that came before each text in training, or none",
                where="start_token",
            )
        start = () if token is None else (self._find_start(token),)
        object.__setattr__(self, "_start", start)
        if self.context:
            try:
                self.tokenizer.encode([self.context])
            except ModelError as error:
                cure = "give the text that came before each candidate in training"
                problem = error.problem + lacking(self.tokenizer, self.context)
                raise InputError(problem, cure=cure, where="context") from error

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Token ids of each text, with spans in the coordinates of the text itself.

        Tokens of the start and of the context have spans that end at or before 0.
        """
        shift = len(self.context)
        found = self._in_context(texts)
        if self._start and any(e.ids[:1] == self._start for e in found if _special_first(e)):
            raise InputError(
                f"the tokenizer itself puts the start token {self.start_token!r} before a text, "
                "and it would be there twice",
                cure="leave start_token (--start-token) away",
            )
        before = ((-shift, -shift),) * len(self._start)
        return [
            Encoding(
                self._start + e.ids,
                None if e.spans is None else before + e.spans,
            )
            for e in found
        ]

    def _in_context(self, texts: Sequence[str]) -> list[Encoding]:
        """The tokens of the context with each text, with spans in the text's coordinates.

        Of a long context only the end is tokenized again, from a word that the tokenizer splits
        off before it makes tokens. What is before that is the same for all; this is compared for
        the first and the last text.
        """
        shift = -len(self.context)

        def together(some: Sequence[str]) -> list[Encoding]:
            return [
                _moved(e, shift) for e in self.tokenizer.encode([self.context + t for t in some])
            ]

        splits = isinstance(self.tokenizer, FastTokenizer) and self.tokenizer.spec["pre_tokenizer"]
        if len(self.context) < _LONG or len(texts) < 3 or not splits:
            return together(texts)
        first, last = together([texts[0], texts[-1]])
        spans = first.spans or ()
        words = (k for k, (a, b) in enumerate(spans) if a < b and a <= -_END)
        cut = max((k for k in words if self.context[spans[k][0]] == " "), default=0)
        if not cut:
            return together(texts)
        at = spans[cut][0]
        found = []
        for end in self.tokenizer.encode([self.context[at:] + text for text in texts]):
            special = next((k for k, (a, b) in enumerate(end.spans or ()) if a < b), 0)
            behind = tuple((a + at, b + at) for a, b in (end.spans or ())[special:])
            found.append(Encoding(first.ids[:cut] + end.ids[special:], spans[:cut] + behind))
        return found if (found[0], found[-1]) == (first, last) else together(texts)

    def candidates(self, format: Format, fills: Sequence[str]) -> list[Encoding]:
        """The candidates of `format` with these fills, checked to share a first token.

        Raises
        ------
        InputError
            If the first token differs between candidates. It has no probability (there
            is nothing before it), so part of the fill would go unpriced.
        ModelError
            If the tokenizer gives different fills the same tokens.
        """
        encodings = self.filled(format, fills)
        if len({e.ids for e in encodings}) < len(set(fills)):
            raise _same_tokens(format)
        # A hole at the very beginning is unpriced even if these few fills agree in it.
        bare = not format.prefix and not self.context and not self._start
        special = all(_special_first(e) for e in encodings)
        if len({e.ids[0] for e in encodings}) > 1 or (bare and not special):
            raise self.begins_with_a_hole(format)
        return encodings

    def filled(self, format: Format, fills: Sequence[str]) -> list[Encoding]:
        """The candidates with these fills; a ModelError if the tokenizer cannot represent one.

        It names what the tokenizer lacks of the whole format, which shows no fill.
        """
        try:
            return self.encode([format.candidate(fill) for fill in fills])
        except ModelError as error:
            fixed = set(format.masked) & format.alphabet
            parts = {"the fixed text": fixed, "a hole": format.alphabet - fixed}
            for part, characters in parts.items():
                error.problem += lacking(self.tokenizer, characters, f" in {part} of the format")
            raise

    @property
    def start(self) -> tuple[int, ...]:
        """The start token before every text, if one was named."""
        return self._start

    def begins_with_a_hole(self, format: Format) -> InputError:
        """That the first token of a candidate depends on its fill."""
        problem = f"the format {format.masked!r} begins with a hole"
        if before := self.context + format.prefix:
            problem = (
                f"the first token of a candidate of {format.masked!r} depends on the fill: "
                f"the tokenizer merges {before[-20:]!r} with it"
            )
        return InputError(
            f"{problem}, and this tokenizer puts no token before a text, so the first token "
            "of the fill would have no probability",
            cure="name what came before each text in training with start_token "
            "(--start-token; for packed data usually the end-of-text token), "
            "or begin the format with fixed text",
        )

    def starts_bare(self, encodings: Sequence[Encoding]) -> bool:
        """Whether nothing comes before a text: no special token, start token or context."""
        bare = not self._start and not self.context
        return bare and not any(_special_first(e) for e in encodings)

    def context_length(self, format: Format, encoding: Encoding) -> int | None:
        """How many tokens of a candidate come before the first that overlaps its fill.

        None if the tokenizer does not say which characters a token stands for.
        """
        if encoding.spans is None:
            return None
        begin = len(format.prefix)
        return next((i for i, (a, b) in enumerate(encoding.spans) if b > begin and a < b), None)

    def _find_start(self, token: str) -> int:
        find = getattr(self.tokenizer, "token_id", None)
        named = find(token) if find else None
        if named is not None:
            return int(named)
        cure = "name one token of the tokenizer, such as its end-of-text token"
        try:
            encodings = self.tokenizer.encode([token])
        except ModelError as error:
            problem = f"the tokenizer has no token {token!r}"
            raise InputError(problem, cure=cure, where="start_token") from error
        plain = [
            i
            for e in encodings
            for i, (a, b) in zip(e.ids, e.spans or [(0, 1)] * len(e.ids), strict=True)
            if a < b
        ]
        if not plain:
            problem = f"the tokenizer has no token {token!r}"
            raise InputError(problem, cure=cure, where="start_token")
        if len(plain) != 1:
            problem = f"the start token {token!r} is {len(plain)} tokens, one was expected"
            raise InputError(problem, cure=cure, where="start_token")
        return plain[0]


def lacking(tokenizer: Tokenizer, characters: Iterable[str], where: str = "") -> str:
    """The characters that a tokenizer does not know, for the end of a message; empty if none."""
    found = []
    for character in sorted(set(characters)):
        try:
            tokenizer.encode([character])
        except (ValueError, TypeError):  # a ModelError, or half a surrogate pair
            found.append(repr(character))
    more = ", …" * (len(found) > _NAMED)
    return f"; it lacks {', '.join(found[:_NAMED])}{more}{where}" if found else ""


def _moved(encoding: Encoding, by: int) -> Encoding:
    """With spans in coordinates that begin elsewhere."""
    if encoding.spans is None:
        return encoding
    return Encoding(encoding.ids, tuple((a + by, b + by) for a, b in encoding.spans))


def _special_first(encoding: Encoding) -> bool:
    """Whether the first token stands for no character of the text."""
    start, stop = encoding.spans[0] if encoding.spans else (0, 1)
    return start == stop


def _same_tokens(format: Format) -> ModelError:
    return ModelError(
        f"the tokenizer gives different fills of {format.masked!r} the same tokens "
        "(it changes case or replaces characters), so no model can distinguish them",
        cure="use holes whose characters this tokenizer keeps apart",
    )


def check_kept_apart(format: Format, encoder: CandidateEncoder) -> None:
    """Refuse a format two of whose fills become one when the tokenizer replaces characters.

    A tokenizer that changes case or drops accents reads some characters as one another, each
    by itself. Which ones is asked of it, a text per character of the holes; whether two
    fills then read alike is decided exactly, whatever the size of the space. A tokenizer of
    whole words cannot be asked so: what it confuses is seen only where such fills are encoded
    together. O(edges), and where characters read alike one step per pair of states that texts
    which do lead to.

    Raises
    ------
    ModelError
        If the tokenizer takes two fills for one, or has no new tokens for a format that asks them.
    """
    check_new_tokens(format, encoder)
    characters = sorted(set(format.automaton.chars))
    try:
        encodings = encoder.encode([f"{format.prefix}{c}{format.suffix}" for c in characters])
    except ModelError:
        return
    numbers: dict[tuple[int, ...], int] = {}
    class_of = {
        c: numbers.setdefault(e.ids, len(numbers))
        for c, e in zip(characters, encodings, strict=True)
    }
    if len(numbers) < len(characters) and _two_read_alike(format.automaton, class_of):
        raise _same_tokens(format)


def check_new_tokens(format: Format, encoder: CandidateEncoder) -> None:
    """Refuse a format of new tokens that the tokenizer reads as ordinary text.

    Raises
    ------
    ModelError
        If a fill is not a token of its own.
    """
    if not format.new_tokens:
        return
    fills = list(format)
    lengths = {len(e.ids) for e in encoder.encode([format.candidate(fill) for fill in fills])}
    own = [len(encoding.ids) for encoding in CandidateEncoder(encoder.tokenizer).encode(fills)]
    (bare,) = CandidateEncoder(encoder.tokenizer).encode([""])
    if len(lengths) > 1 or max(own) > len(bare.ids) + 1:
        raise ModelError(
            f"the tokenizer has no tokens for {format.masked!r}: it reads them as ordinary text",
            cure="add them to tokenizer and model before training (canary extend), and audit with "
            "that tokenizer",
        )


def _two_read_alike(automaton: Automaton, class_of: dict[str, int]) -> bool:
    """Whether two different texts are the same sequence of classes of characters."""
    classes = np.array([class_of[c] for c in automaton.chars], np.int64)
    sources = np.repeat(np.arange(len(automaton.counts)), np.diff(automaton.offsets))

    def steps(one: int, other: int) -> set[tuple[int, int]]:
        """Pairs of targets of different edges of one class, one from each of two states."""
        edges_of: dict[int, list[int]] = defaultdict(list)
        for edge in range(int(automaton.offsets[other]), int(automaton.offsets[other + 1])):
            edges_of[int(classes[edge])].append(edge)
        return {
            (int(automaton.targets[edge]), int(automaton.targets[twin]))
            for edge in range(int(automaton.offsets[one]), int(automaton.offsets[one + 1]))
            for twin in edges_of[int(classes[edge])]
            if edge != twin
        }

    order = np.lexsort((classes, sources))
    twins = (np.diff(sources[order]) == 0) & (np.diff(classes[order]) == 0)
    # Where two such texts part for the first time, edges of one class leave one state.
    parting = np.unique(sources[order][1:][twins])
    pairs = {pair for state in parting.tolist() for pair in steps(state, state)}
    waiting = list(pairs)
    while waiting:
        one, other = waiting.pop()
        if one == other or (automaton.final[one] and automaton.final[other]):
            return True
        new = steps(one, other) - pairs
        pairs |= new
        waiting += new
    return False


def misread(encoder: CandidateEncoder, format: Format) -> tuple[str, ...]:
    """Notes on text that the tokenizer may not read as it is meant.

    Text that looks like a special token but is not one, a first token that is there twice, and
    a token that covers the end of the context and the beginning of the candidate.
    """
    text = format.candidate(format.unrank(0))
    (encoding,) = encoder.encode([text])
    if encoding.spans is None:
        return ()
    spans = [(a, b) for a, b in encoding.spans if a < b]
    # Not the text between holes: a match could show what fills one.
    alike: dict[str, str] = {}
    for where, fixed, begin in (
        ("context", encoder.context, -len(encoder.context)),
        ("format", format.prefix, 0),
        ("format", format.suffix, len(text) - len(format.suffix)),
    ):
        for match in _SPECIAL.finditer(fixed):
            start, stop = begin + match.start(), begin + match.end()
            if not any(a <= start and stop <= b for a, b in spans):
                alike.setdefault(match.group(), where)
    notes = [_ordinary(encoder.tokenizer, name, where) for name, where in alike.items()]
    first = next((k for k, (a, b) in enumerate(encoding.spans) if a < b), 0)
    if first and encoding.ids[first - 1] == encoding.ids[first]:
        before = "start token" if len(encoder.start) == first else "tokenizer"
        where = "context" if encoder.context else "format"
        notes.append(
            f"The {before} already puts the first token of the {where} before each text, so the "
            f"model reads it twice. Omit it from the {where}, unless training had it twice, too."
        )
    if encoder.context and any(a < 0 < b for a, b in spans):
        notes.append(
            "One token covers the end of the context and the beginning of the candidate. That "
            "is right if training tokenized them as one text. If it tokenized prompt and answer "
            "separately, end the context without the space that the token takes along."
        )
    return tuple(notes)


def _ordinary(tokenizer: Tokenizer, name: str, where: str) -> str:
    """That a text that looks like a special token is none."""
    special: list[str] = []
    if isinstance(tokenizer, FastTokenizer):
        special = [token["content"] for token in tokenizer.spec.get("added_tokens") or ()]
        if tokenizer.splits_special and name in special:
            return (
                f"The {where} holds {name}, which this tokenizer splits as ordinary text "
                "(split_special_tokens). If training had a special token there, set that to False."
            )
    near = difflib.get_close_matches(name, special, _NAMED, cutoff=0.0)
    named = f"its special tokens are {', '.join(near)}" if near else "it has no special tokens"
    if len(special) > len(near):
        named += f" and {len(special) - len(near):,} more"
    return (
        f"The {where} holds {name}, which is ordinary text to this tokenizer; {named}. If "
        "training had a special token there, write its name as the tokenizer has it, or give "
        "the tokenizer of the training."
    )
