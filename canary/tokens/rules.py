"""How a tokenizer works, read from its description: what can be followed exactly."""

from __future__ import annotations

import functools
import json
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canary.formats.automaton import Automaton
from canary.tokens.added import Cut, Searched, between, find_cuts, without_head
from canary.tokens.fast import FastTokenizer, flat
from canary.tokens.pattern import OddTextError, Pattern, UnknownRuleError, parse, runs, single
from canary.tokens.scanner import Level

Spec = Mapping[str, Any]
Symbols = tuple[str, ...]

# What ByteLevel cuts by when it is not told otherwise.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_WHY = {
    "BPE": "pieces cut as the pre-tokenizer cuts, neighbours that merges keep apart",
    "Unigram": "pieces cut as the pre-tokenizer cuts, no way across a boundary scores more",
    "WordPiece": "pieces cut as the pre-tokenizer cuts, longest match first",
    "WordLevel": "pieces cut as the pre-tokenizer cuts, each one token",
}

# Vowels and final consonants, which join the consonant before them.
_JAMO = ((0x1160, 0x11FF), (0xD7B0, 0xD7FF))

# These change what each character has become by itself, where no normal form joins it with
# what stands before it. Precompiled does so for ASCII: a line break of two is looked up as one.
_BY_CHARACTER = {
    *("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "BertNormalizer", "Nmt"),
    "ByteLevel",
}


@dataclass(frozen=True, eq=False)
class Rules:
    """A tokenizer for the texts over one alphabet.

    All texts begin with `head`, up to the last added token before they differ; it changes nothing
    that comes after it. Tokens may begin a piece (`first`) or follow within it; one that is an
    added token, too, is among them: where its text comes about only after normalizing and
    cutting, the model makes it.
    """

    head: str
    texts: Automaton  # the rest of the texts
    cuts: Mapping[int, Cut]  # added tokens by the states before them
    normalized: Mapping[str, str]  # what each character becomes
    leads: Mapping[int, str]  # where parts begin that are tokenized alone, and what is put before
    levels: tuple[Level, ...]  # the pre-tokenizers
    symbols: Mapping[str, Symbols]  # what a character is to the model: one symbol, or its bytes
    model: Spec
    first: Mapping[Symbols, int]
    within: Mapping[Symbols, int]

    @property
    def why(self) -> str:
        """Why every canonical path is followed."""
        return _WHY[self.model["type"]]


def read_rules(tokenizer: FastTokenizer, texts: Automaton) -> Rules:
    """The rules by which `tokenizer` encodes the texts of an automaton.

    An UnknownRuleError is raised if it has a part that cannot be followed exactly, a ModelError
    if it cannot represent a character.
    """
    spec = tokenizer.spec
    added = spec.get("added_tokens") or ()
    if tokenizer.splits_special:
        if any(token["special"] and texts.occurs(token["content"]) for token in added):
            raise UnknownRuleError("special tokens whose names it splits")
        added = [token for token in added if not token["special"]]
    given = [token for token in added if not token.get("normalized")]
    cuts = find_cuts(given, Searched(texts, between(texts, [])))
    head, texts, cuts = without_head(texts, cuts)
    searched = _normalized(spec.get("normalizer"), texts, between(texts, cuts))
    leads = {start: searched.lead for start, _ in searched.parts}
    changed = [token for token in added if token.get("normalized")]
    cuts += find_cuts(changed, searched, written=_normalizing(spec.get("normalizer")))
    leads = {cut.stop: "" for cut in cuts} | leads
    levels: list[Level] = []
    by_byte = False
    for part in flat(spec.get("pre_tokenizer"), "pretokenizers"):
        if by_byte:
            raise UnknownRuleError("a pre-tokenizer after ByteLevel")
        by_byte = part["type"] == "ByteLevel"
        levels += _levels(part)
    model = spec["model"]
    for unread in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(unread) and model["type"] == "BPE":
            raise UnknownRuleError(f"the {unread} of its BPE model")
    vocabulary, unknown = model["vocab"], model.get("unk_token")
    if model["type"] == "Unigram":
        vocabulary = {piece: number for number, (piece, _) in enumerate(vocabulary)}
        numbers = {number: piece for piece, number in vocabulary.items()}
        unknown = numbers.get(model.get("unk_id"))
    vocabulary = {token: n for token, n in vocabulary.items() if token not in ("", unknown)}
    assert searched.spelled is not None
    reached = {c for text in (*searched.spelled.values(), searched.lead) for c in text}
    for level in levels:
        reached = {level.replace.get(c, c) for c in reached} | set(level.prepend or "")
    symbols = _symbols(tokenizer, vocabulary, sorted(reached), by_byte=by_byte)
    usable = {symbol for parts in symbols.values() for symbol in parts}
    if unknown is not None and usable.union(reached).issuperset(unknown):
        raise OddTextError("an unknown token that may be in a candidate")
    first, within = _tokens(model, vocabulary, symbols, usable)
    found = {cut.token for cut in cuts}
    if not found.isdisjoint([*first.values(), *within.values()]):
        raise UnknownRuleError("an added token that its model makes of other text, too")
    first.update({(cut_symbol(number),): number for number in found})
    return Rules(
        head,
        texts,
        {cut.start: cut for cut in cuts},
        searched.spelled,
        leads,
        tuple(levels) or (Level(),),
        symbols,
        model,
        first,
        within,
    )


def cut_symbol(token: int) -> str:
    """What an added token is in place of its text: no character, and no byte of one."""
    return f"\0{token}"


def _tokens(
    model: Spec,
    vocabulary: Mapping[str, int],
    spelled: Mapping[str, Symbols],
    usable: set[str],
) -> tuple[dict[Symbols, int], dict[Symbols, int]]:
    """Tokens that consist of `usable` symbols, at the beginning of a piece and within."""
    byte_units = {symbol for symbol in usable if len(symbol) > 1}
    chars = usable - byte_units
    if byte_units and any(not byte_units.isdisjoint(pair) for pair in model["merges"]):
        raise UnknownRuleError("merges of bytes that stand for unknown characters")
    # A whole piece may be a token though some of its characters are none.
    parts = {char: (char,) for char in chars} | {
        char: units for char, units in spelled.items() if not byte_units.isdisjoint(units)
    }
    found = {
        tuple(symbol for char in token for symbol in parts[char]): number
        for token, number in vocabulary.items()
        if parts.keys() >= set(token)
    }
    found |= {(unit,): vocabulary[unit] for unit in byte_units}
    if model["type"] != "WordPiece":
        return found, found
    mark = model["continuing_subword_prefix"]
    within = {
        tuple(token[len(mark) :]): number
        for token, number in vocabulary.items()
        if token.startswith(mark) and token != mark and chars.issuperset(token[len(mark) :])
    }
    return found, within


def _symbols(
    tokenizer: FastTokenizer, vocabulary: Mapping[str, int], chars: Sequence[str], *, by_byte: bool
) -> dict[str, Symbols]:
    """What characters of a piece are to the model."""
    if by_byte:
        from tokenizers import pre_tokenizers

        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return {char: tuple(level.pre_tokenize_str(char)[0][0]) for char in chars}
    symbols: dict[str, Symbols] = {}
    model = tokenizer.spec["model"]
    for char in chars:
        if char in vocabulary or model["type"] in ("WordPiece", "WordLevel"):
            symbols[char] = (char,)
            continue
        if model["type"] == "BPE":
            units = tuple(f"<0x{byte:02X}>" for byte in char.encode())
            if model.get("byte_fallback") and vocabulary.keys() >= {*units}:
                symbols[char] = units
                continue
            tokenizer.encode([char])  # says so if it is not known
        raise UnknownRuleError("a character that is not a token of its own")
    return symbols


def _normalized(spec: Spec | None, texts: Automaton, parts: Sequence[tuple[int, int]]) -> Searched:
    """The texts with what each character becomes, and what is put before each part."""
    inside = [texts.chars[texts.offsets[a] : texts.offsets[b]] for a, b in parts]
    normalized, lead = {char: char for chars in inside for char in chars}, ""
    for part in flat(spec, "normalizers"):
        kind = part["type"]
        pattern = part.get("pattern") or {}
        literal = pattern.get("String")
        if kind == "Replace":  # without a text of several characters it may change nothing
            repeated = re.fullmatch(r"([\w\s-])\{2,\}", pattern.get("Regex", ""))
            several = repeated[1] * 2 if repeated else literal or ""
            searched = Searched(texts, parts, normalized, lead)
            if len(several) > 1 and not any(searched.occurs(several)):
                continue
        if kind == "Prepend":
            lead = part["prepend"] + lead
            continue
        if kind == "Strip":
            _check_ends(Searched(texts, parts, normalized, lead))
            continue
        written = [lead, *normalized.values()]
        if kind == "Replace" and literal is not None and len(literal) == 1:
            change: Callable[[str], str] = operator.methodcaller(
                "replace", literal, part["content"]
            )
        elif (kind in _BY_CHARACTER and all(map(_stands_alone, written))) or (
            kind == "Precompiled" and "\r" not in "".join(written) and "".join(written).isascii()
        ):
            change = _normalizing(part)
        else:
            raise UnknownRuleError(f"its normalizer {kind}")
        normalized = {char: change(text) for char, text in normalized.items()}
        lead = change(lead)
    return Searched(texts, parts, normalized, lead)


def _normalizing(part: Spec | None) -> Callable[[str], str]:
    """What a normalizer makes of a text."""
    if part is None:
        return str
    normalizer = _made_of("normalizer", part)
    return lambda text: str(normalizer.normalize_str(text)) if text else ""


def _made_of(kind: str, part: Spec) -> Any:
    """A normalizer or pre-tokenizer by its description."""
    from tokenizers import Tokenizer, models

    spec = json.loads(Tokenizer(models.BPE()).to_str())
    return getattr(Tokenizer.from_str(json.dumps({**spec, kind: part})), kind)


def _stands_alone(text: str) -> bool:
    """Whether no normal form joins the text with what stands before it, or reorders both."""
    first = unicodedata.normalize("NFKD", text)[:1]
    return not unicodedata.category(first or " ").startswith("M") and not any(
        chr(low) <= first <= chr(high) for low, high in _JAMO
    )


def _check_ends(searched: Searched) -> None:
    """Refuse to strip where a part may begin or end with a space."""
    texts, parts = searched.texts, searched.parts
    ends = texts.final.copy()
    ends[[stop for _, stop in parts]] = True
    first, last = set[str](), set[str]()
    for start, stop in parts:
        first.update(texts.chars[texts.offsets[start] : texts.offsets[start + 1]])
        edges = range(int(texts.offsets[start]), int(texts.offsets[stop]))
        last.update(texts.chars[edge] for edge in edges if ends[texts.targets[edge]])
    begins = [searched.lead] if searched.lead else [searched.spell(char) for char in first]
    stops = [searched.spell(char) for char in last]
    if any(not t or t[0].isspace() for t in begins) or any(not t or t[-1].isspace() for t in stops):
        raise UnknownRuleError("its normalizer Strip, where a text may begin or end with a space")


def _levels(part: Spec) -> list[Level]:
    """The levels of the scanner that a pre-tokenizer is."""
    kind = part["type"]
    if kind == "ByteLevel":
        prepend = " " if part.get("add_prefix_space", True) else None
        pattern = parse(_GPT2) if part.get("use_regex", True) else None
        return [Level(pattern, prepend=prepend)]
    if kind == "Split":
        return [Level(_split_pattern(part["pattern"]), part["behavior"], bool(part.get("invert")))]
    if kind == "Digits":
        behavior = "Isolated" if part["individual_digits"] else "Contiguous"
        return [Level(_own_class(part), behavior)]
    if kind == "Metaspace":
        mark = part["replacement"]
        scheme = part.get("prepend_scheme", "always")
        return [
            Level(
                single(mark.__eq__) if part.get("split", True) else None,
                "MergedWithNext",
                replace={" ": mark},
                prepend=None if scheme == "never" else mark,
                prepend_once=scheme == "first",
            )
        ]
    if kind == "Whitespace":
        splitter = _made_of("pre_tokenizer", part)
        return [Level(runs(_joins(splitter, "a"), _joins(splitter, "-")), "Removed", invert=True)]
    if kind == "WhitespaceSplit":
        return [Level(_own_class(part), "Removed")]
    if kind == "Punctuation":
        isolated = {**part, "behavior": "Isolated"}
        return [Level(_own_class(isolated), part.get("behavior", "Isolated"))]
    if kind == "BertPreTokenizer":
        return [*_levels({"type": "WhitespaceSplit"}), *_levels({"type": "Punctuation"})]
    raise UnknownRuleError(f"its pre-tokenizer {kind}")


def _split_pattern(pattern: Spec) -> Pattern:
    if "Regex" in pattern:
        return parse(pattern["Regex"])
    text = pattern["String"]
    if len(text) == 1:
        return single(text.__eq__)
    raise UnknownRuleError("its pre-tokenizer Split at a text of several characters")


def _own_class(part: Spec) -> Pattern:
    """The characters at which a pre-tokenizer without a pattern cuts, seen beside a letter."""
    joins = _joins(_made_of("pre_tokenizer", part), "a")
    return single(lambda char: not joins(char))


def _joins(splitter: Any, before: str) -> Callable[[str], bool]:
    """Whether a character stays in one piece with the one before it."""
    return functools.cache(
        lambda char: splitter.pre_tokenize_str(before + char)[0][0] == before + char
    )
