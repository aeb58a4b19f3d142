"""How a tokenizer works, read from its description: what can be followed exactly."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from canary.formats.automaton import Automaton
from canary.tokens.added import Cut, between, find_cuts, occurs, without_head
from canary.tokens.fast import FastTokenizer, flat
from canary.tokens.pattern import OddTextError, Pattern, UnknownRuleError, parse, runs, single
from canary.tokens.scanner import Level

Spec = Mapping[str, Any]

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


@dataclass(frozen=True, eq=False)
class Rules:
    """A tokenizer for the texts over one alphabet.

    Parameters
    ----------
    head : str
        What all texts begin with, up to the last added token before they differ. It changes
        nothing that comes after it.
    texts : Automaton
        The rest of the texts.
    cuts : mapping of int to Cut
        Added tokens by the states of `texts` before them.
    normalized : mapping of str to str
        What each character of the texts becomes.
    leads : mapping of int to str
        The states at which a part begins that is tokenized alone, and what is put before it.
    levels : tuple of Level
        The pre-tokenizers.
    symbols : callable
        What a character of a piece is to the model: one symbol, or one for each byte.
    model : mapping
        The model's own description.
    first, within : mapping of symbol tuples to int
        The tokens that may begin a piece and those that may follow within it, by the
        symbols that they stand for. One that is an added token, too, is among them: where
        its text comes about only after normalizing and cutting, the model makes it.
    """

    head: str
    texts: Automaton
    cuts: Mapping[int, Cut]
    normalized: Mapping[str, str]
    leads: Mapping[int, str]
    levels: tuple[Level, ...]
    symbols: Callable[[str], tuple[str, ...]]
    model: Spec
    first: Mapping[tuple[str, ...], int]
    within: Mapping[tuple[str, ...], int]

    @property
    def why(self) -> str:
        """Why every canonical path is followed."""
        return _WHY[self.model["type"]]


def read_rules(tokenizer: FastTokenizer, texts: Automaton) -> Rules:
    """The rules by which `tokenizer` encodes the texts of an automaton.

    Raises
    ------
    UnknownRuleError
        If it has a part that cannot be followed exactly.
    ModelError
        If it cannot represent a character.
    """
    spec = tokenizer.spec
    added = spec.get("added_tokens") or ()
    if tokenizer.splits_special:
        if any(token["special"] and texts.occurs(token["content"]) for token in added):
            raise UnknownRuleError("special tokens whose names it splits")
        added = [token for token in added if not token["special"]]
    given = [token for token in added if not token.get("normalized")]
    head, texts, cuts = without_head(texts, find_cuts(given, texts, between(texts, [])))
    parts = between(texts, cuts)
    alphabet = sorted({c for a, b in parts for c in _chars(texts, a, b)})
    normalized, lead = _normalizer(spec.get("normalizer"), texts, parts, alphabet)
    leads = {start: lead for start, _ in parts}
    cuts += find_cuts(
        [token for token in added if token.get("normalized")],
        texts,
        parts,
        written=_normalizing(spec.get("normalizer")),
        spelled=normalized,
        lead=lead,
    )
    leads = {cut.stop: "" for cut in cuts} | leads
    levels, bytes_ = _levels(spec.get("pre_tokenizer"))
    model = spec["model"]
    if model.get("continuing_subword_prefix") and model["type"] == "BPE":
        raise UnknownRuleError("the continuing_subword_prefix of its BPE model")
    if model.get("end_of_word_suffix"):
        raise UnknownRuleError("the end_of_word_suffix of its BPE model")
    vocabulary, unknown = _vocabulary(model)
    symbols = _symbols(tokenizer, model, vocabulary, by_byte=bytes_)
    reached = {c for text in (*normalized.values(), lead) for c in text}
    for level in levels:
        reached = {level.replace.get(c, c) for c in reached} | set(level.prepend or "")
    spelled: dict[str, tuple[str, ...]] = {c: symbols(c) for c in sorted(reached)}
    usable = {symbol for parts in spelled.values() for symbol in parts}
    if unknown is not None and usable.union(reached).issuperset(unknown):
        raise OddTextError("an unknown token that may stand in a candidate")
    first, within = _tokens(model, vocabulary, spelled, usable)
    found = {cut.token for cut in cuts}
    if not found.isdisjoint([*first.values(), *within.values()]):
        raise UnknownRuleError("an added token that its model makes of other text, too")
    first.update({(cut_symbol(number),): number for number in found})
    by_state = {cut.start: cut for cut in cuts}
    return Rules(
        head, texts, by_state, normalized, leads, levels, spelled.__getitem__, model, first, within
    )


def cut_symbol(token: int) -> str:
    """What an added token is in place of its text: no character, and no byte of one."""
    return f"\0{token}"


def _chars(texts: Automaton, start: int, stop: int) -> tuple[str, ...]:
    """The characters between two states, as of `Cut`."""
    return texts.chars[int(texts.offsets[start]) : int(texts.offsets[stop])]


def _vocabulary(model: Spec) -> tuple[dict[str, int], str | None]:
    """Token strings of the model that may stand for text, and the one for what is unknown."""
    found = model["vocab"]
    unknown = model.get("unk_token")
    if model["type"] == "Unigram":
        found = {piece: number for number, (piece, _) in enumerate(found)}
        unknown = next((piece for piece, n in found.items() if n == model.get("unk_id")), None)
    return {token: n for token, n in found.items() if token not in ("", unknown)}, unknown


def _tokens(
    model: Spec,
    vocabulary: Mapping[str, int],
    spelled: Mapping[str, tuple[str, ...]],
    usable: set[str],
) -> tuple[dict[tuple[str, ...], int], dict[tuple[str, ...], int]]:
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
        if token.startswith(mark)
        and len(token) > len(mark)
        and chars.issuperset(token[len(mark) :])
    }
    return found, within


def _symbols(
    tokenizer: FastTokenizer, model: Spec, vocabulary: Mapping[str, int], *, by_byte: bool
) -> Callable[[str], tuple[str, ...]]:
    if by_byte:
        from tokenizers import pre_tokenizers

        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return lambda char: tuple(level.pre_tokenize_str(char)[0][0])

    def symbols(char: str) -> tuple[str, ...]:
        if char in vocabulary or model["type"] in ("WordPiece", "WordLevel"):
            return (char,)
        if model.get("byte_fallback") and model["type"] == "BPE":
            units = tuple(f"<0x{byte:02X}>" for byte in char.encode())
            if all(unit in vocabulary for unit in units):
                return units
        if model["type"] == "BPE":
            tokenizer.encode([char])  # says so if it is not known
        raise UnknownRuleError("a character that is no token by itself")

    return symbols


def _normalizer(
    spec: Spec | None, texts: Automaton, parts: Sequence[tuple[int, int]], alphabet: list[str]
) -> tuple[dict[str, str], str]:
    """What each character becomes, and what is put before the text."""
    normalized, lead = {char: char for char in alphabet}, ""
    for part in flat(spec, "normalizers"):
        kind = part["type"]
        several = _of_several(part)
        if several and not occurs(several, texts, parts, normalized, lead):
            continue
        if kind == "Prepend":
            lead = part["prepend"] + lead
            continue
        if kind == "Strip":
            _check_ends(texts, parts, normalized, lead)
            continue
        literal = (part.get("pattern") or {}).get("String")
        if kind == "Replace" and literal is not None and len(literal) == 1:
            change: Callable[[str], str] = _replacing(literal, part["content"])
        elif all(map(_STANDS_ALONE.get(kind, _never), (lead, *normalized.values()))):
            change = _normalizing(part)
        else:
            raise UnknownRuleError(f"its normalizer {kind}")
        normalized = {char: change(text) for char, text in normalized.items()}
        lead = change(lead)
    return normalized, lead


def _of_several(part: Spec) -> str:
    """A text of several characters without which a normalizer changes nothing; or none."""
    pattern = part.get("pattern") or {}
    repeated = re.fullmatch(r"([\w\s-])\{2,\}", pattern.get("Regex", ""))
    found = pattern.get("String", repeated[1] * 2 if repeated else "")
    return found if part["type"] == "Replace" and len(found) > 1 else ""


def _replacing(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


def _normalizing(part: Spec | None) -> Callable[[str], str]:
    if part is None:
        return str
    from tokenizers import Tokenizer, models

    spec = json.loads(Tokenizer(models.BPE()).to_str())
    normalizer = Tokenizer.from_str(json.dumps({**spec, "normalizer": part})).normalizer
    return lambda text: str(normalizer.normalize_str(text)) if text else ""


def _stands_alone(text: str) -> bool:
    """Whether no normal form joins the text with what stands before it, or reorders both."""
    first = unicodedata.normalize("NFKD", text)[:1]
    return not unicodedata.category(first or " ").startswith("M") and not any(
        chr(low) <= first <= chr(high) for low, high in _JAMO
    )


def _ascii(text: str) -> bool:
    # A line break of two characters is looked up as one.
    return text.isascii() and "\r" not in text


def _never(_text: str) -> bool:
    return False


# These change what each character has become by itself, as long as that holds of all.
_STANDS_ALONE: dict[str, Callable[[str], bool]] = {
    "Lowercase": _stands_alone,
    "NFC": _stands_alone,
    "NFD": _stands_alone,
    "NFKC": _stands_alone,
    "NFKD": _stands_alone,
    "StripAccents": _stands_alone,
    "BertNormalizer": _stands_alone,
    "Nmt": _stands_alone,
    "ByteLevel": _stands_alone,
    "Precompiled": _ascii,
}


def _check_ends(
    texts: Automaton,
    parts: Sequence[tuple[int, int]],
    normalized: Mapping[str, str],
    lead: str,
) -> None:
    ends = texts.final.copy()
    ends[[stop for _, stop in parts]] = True
    inside = np.zeros(len(texts.chars), np.bool_)
    for start, stop in parts:
        inside[texts.offsets[start] : texts.offsets[stop]] = True
    into = {texts.chars[edge] for edge in np.flatnonzero(inside & ends[texts.targets]).tolist()}
    begin = {c for start, _ in parts for c in _chars(texts, start, start + 1)}
    first = [lead] if lead else [normalized[c] for c in begin]
    last = [normalized[c] for c in into]
    if any(not t or t[0].isspace() for t in first) or any(not t or t[-1].isspace() for t in last):
        raise UnknownRuleError("its normalizer Strip, where a text may begin or end with a space")


def _levels(spec: Spec | None) -> tuple[tuple[Level, ...], bool]:
    """The pre-tokenizers, and whether pieces are turned into bytes at the end."""
    levels: list[Level] = []
    by_byte = False
    for part in flat(spec, "pretokenizers"):
        if by_byte:
            raise UnknownRuleError("a pre-tokenizer after ByteLevel")
        by_byte = part["type"] == "ByteLevel"
        levels.extend(_level(part))
    return tuple(levels) or (Level(),), by_byte


def _level(part: Spec) -> list[Level]:
    kind = part["type"]
    if kind == "ByteLevel":
        prepend = " " if part.get("add_prefix_space", True) else None
        pattern = parse(_GPT2) if part.get("use_regex", True) else None
        return [Level(pattern, prepend=prepend)]
    if kind == "Split":
        behavior, invert = part["behavior"], bool(part.get("invert"))
        return [Level(_split_pattern(part["pattern"]), behavior, invert)]
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
        splitter = _splitter(part)
        return [Level(runs(_joins(splitter, "a"), _joins(splitter, "-")), "Removed", invert=True)]
    if kind == "WhitespaceSplit":
        return [Level(_own_class(part), "Removed")]
    if kind == "Punctuation":
        isolated = {**part, "behavior": "Isolated"}
        return [Level(_own_class(isolated), part.get("behavior", "Isolated"))]
    if kind == "BertPreTokenizer":
        spaces = Level(_own_class({"type": "WhitespaceSplit"}), "Removed")
        return [spaces, *_level({"type": "Punctuation"})]
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
    joins = _joins(_splitter(part), "a")
    return single(lambda char: not joins(char))


def _splitter(part: Spec) -> Any:
    from tokenizers import Tokenizer, models

    spec = json.loads(Tokenizer(models.BPE()).to_str())
    return Tokenizer.from_str(json.dumps({**spec, "pre_tokenizer": part})).pre_tokenizer


def _joins(splitter: Any, before: str) -> Callable[[str], bool]:
    """Whether a character stays in one piece with the one before it."""
    return functools.cache(
        lambda char: splitter.pre_tokenize_str(before + char)[0][0] == before + char
    )
