"""Tokenizers of every kind, and formats, made at random so that rare fills meet odd rules."""

from __future__ import annotations

import json
import re

from canary.errors import FormatError
from canary.formats.format import Format

KINDS = ("pairs", "bytes", "byte fallback", "unigram", "word pieces", "words")

_USUAL = "abAB12 -'.é"
_ODD = "ÉßİſΣ①ﬁ½ﾞｶ가ㄱㅏ中\u0301\u0308\u11a8▁\n\r\t\u00a0²Åｱ\u200b"
_CUTS = ("isolated", "removed", "contiguous", "merged_with_next", "merged_with_previous")
_PATTERNS = (
    r"\d{1,3}",
    r"[ab]+1?|\s",
    r"\s+(?!\S)|\s+",
    r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+",
    r"(?i:'s|a1|bb)|\w",
    r"a(?=b)|b{2}|1",
    r"[^a]b|\d",
)


def pick(rng, some):
    return some[int(rng.integers(len(some)))]


def word(rng, alphabet, least, most):
    return "".join(pick(rng, alphabet) for _ in range(int(rng.integers(least, most + 1))))


def a_format(rng, *, least, most):
    """A prefix-free format of `least` to `most` fills; most of them are like each other."""
    while True:
        alphabet = list(dict.fromkeys(word(rng, _USUAL, 2, 5)))
        if rng.random() < 0.4:
            alphabet += list(dict.fromkeys(word(rng, _ODD, 1, 2)))
        letters = "|".join(map(re.escape, alphabet))
        parts = []
        for _ in range(int(rng.integers(1, 4))):
            low, more = int(rng.integers(1, 6)), int(rng.integers(0, 4))
            words = dict.fromkeys(word(rng, alphabet, 1, 4) for _ in range(low))
            parts.append(
                pick(
                    rng,
                    [
                        f"{{digit:{1 + low % 3}}}",
                        f"{{re:({letters}){{{low},{low + more}}}}}",
                        f"{{choice:{'|'.join(words)}}}",
                    ],
                )
            )
            if rng.random() < 0.4:
                parts.append(word(rng, [*alphabet, *" .-"], 1, 2))
        text = pick(rng, ["x ", "", "the ", "B"]) + "".join(parts) + pick(rng, ["", "!", " end"])
        try:
            format = Format(text)
            format.check_prefix_free()
        except FormatError:
            continue
        if least <= format.size <= most:
            return format


def a_normalizer(rng):
    from tokenizers import Regex
    from tokenizers import normalizers as n

    def one():
        flags = [bool(flag) for flag in rng.integers(2, size=4)]
        kinds = [
            n.Lowercase,
            n.NFC,
            n.NFD,
            n.NFKC,
            n.NFKD,
            n.StripAccents,
            n.Nmt,
            lambda: n.Replace(pick(rng, "ab -1"), pick(rng, ["", "▁", "ab", "B", " "])),
            lambda: n.Replace(pick(rng, ["ab", "--", "1é", "x"]), pick(rng, ["", "B", "a "])),
            lambda: n.Replace(Regex(pick(rng, [" {2,}", "a{2,}"])), pick(rng, ["▁", " "])),
            lambda: n.Prepend(pick(rng, ["▁", " ", "a", "B "])),
            lambda: n.BertNormalizer(flags[0], flags[1], pick(rng, [None, *flags]), flags[3]),
            lambda: n.Strip(flags[0], flags[1]),
        ]
        return pick(rng, kinds)()

    parts = [one() for _ in range(pick(rng, [0, 0, 1, 1, 2, 3]))]
    return n.Sequence(parts) if parts else None


def a_pre_tokenizer(rng, *, by_byte):
    from tokenizers import Regex
    from tokenizers import pre_tokenizers as p

    def one():
        flags = [bool(flag) for flag in rng.integers(2, size=2)]
        kinds = [
            lambda: p.Digits(flags[0]),
            lambda: p.Punctuation(pick(rng, _CUTS)),
            lambda: p.Split(Regex(pick(rng, _PATTERNS)), pick(rng, _CUTS), invert=flags[0]),
            lambda: p.Split(pick(rng, "ab -1"), pick(rng, _CUTS), invert=flags[0]),
            lambda: p.Metaspace(
                prepend_scheme=pick(rng, ["always", "never", "first"]), split=flags[1]
            ),
            p.BertPreTokenizer,
            p.Whitespace,
            p.WhitespaceSplit,
        ]
        return pick(rng, kinds)()

    parts = [one() for _ in range(pick(rng, [0, 0, 1, 1, 2, 3]))]
    if by_byte:
        space, pattern = (bool(flag) for flag in rng.integers(2, size=2))
        parts.append(p.ByteLevel(add_prefix_space=space, use_regex=pattern))
    return p.Sequence(parts) if parts else None


def pieces_of(normalizer, pre_tokenizer, text):
    """What the model gets of a text."""
    text = text if normalizer is None else normalizer.normalize_str(text)
    if pre_tokenizer is None:
        return [text] * bool(text)
    return [piece for piece, _ in pre_tokenizer.pre_tokenize_str(text) if piece]


def a_tokenizer(rng, format, kind, context=""):
    """One whose vocabulary comes from the texts of a format; None if those leave nothing."""
    from tokenizers import Tokenizer

    normalizer = a_normalizer(rng)
    pre_tokenizer = a_pre_tokenizer(rng, by_byte=kind == "bytes")
    fills = format.sample(min(format.size, 2_000 if kind == "words" else 300), rng=rng)
    pieces = [
        piece
        for fill in fills
        for piece in pieces_of(normalizer, pre_tokenizer, context + format.candidate(fill))
    ]
    if not pieces:
        return None

    def part():
        text = pick(rng, pieces)
        begin = int(rng.integers(len(text)))
        return text[begin : begin + int(rng.integers(1, 7))]

    parts = [part() for _ in range(int(rng.integers(0, 60)))]
    backend = Tokenizer(_a_model(rng, kind, pieces, parts))
    if normalizer is not None:
        backend.normalizer = normalizer
    if pre_tokenizer is not None:
        backend.pre_tokenizer = pre_tokenizer
    for _ in range(pick(rng, [0, 0, 0, 1, 2])):
        raw = format.candidate(pick(rng, fills))
        content = raw[int(rng.integers(len(raw))) :][: int(rng.integers(2, 9))]
        _add(rng, backend, pick(rng, [content, content.upper(), part(), "<pad>"]))
    return backend


def _add(rng, backend, content, often=0.5):
    from tokenizers import AddedToken

    if backend.normalizer is not None and not backend.normalizer.normalize_str(content):
        return  # refused as a token
    names = ("normalized", "single_word", "lstrip", "rstrip", "special")
    flags = dict(zip(names, (rng.random(5) < often).tolist(), strict=True))
    backend.add_tokens([AddedToken(content, **flags)])


def _a_model(rng, kind, pieces, parts):
    from tokenizers import models

    letters = sorted({char for piece in pieces for char in piece})
    if kind == "unigram":
        texts = list(dict.fromkeys([*letters, *parts]))
        scores = -rng.uniform(1, 4, len(texts)) - [0.6 * len(text) for text in texts]
        rounded = scores.round(int(pick(rng, [0, 9]))).tolist()
        scored = list(zip(texts, rounded, strict=True))
        if rng.random() < 0.5:
            return models.Unigram([("<unk>", 0.0), *scored], 0)
        return models.Unigram(scored, None)
    if kind == "word pieces":
        marked = [f"##{text}" for text in [*letters, *parts[::2]]]
        return models.WordPiece(
            vocab=_numbered(["[UNK]", *letters, *parts, *marked]),
            unk_token="[UNK]",
            max_input_chars_per_word=int(pick(rng, [100, 8, 5])),
        )
    if kind == "words":
        return models.WordLevel(_numbered(["<unk>", *letters, *pieces]), unk_token="<unk>")
    return _byte_pairs(rng, kind, letters, pieces, parts)


def _byte_pairs(rng, kind, letters, pieces, parts):
    from tokenizers import Tokenizer, models, trainers

    vocabulary, merges = _numbered(letters), []
    if kind == "byte fallback":
        kept = [char for char in letters if rng.random() < 0.7]
        vocabulary = _numbered([*kept, *(f"<0x{byte:02X}>" for byte in range(256))])
    elif rng.random() < 0.5:
        trainer = trainers.BpeTrainer(
            vocab_size=len(letters) + len(parts), initial_alphabet=letters, show_progress=False
        )
        trained = Tokenizer(models.BPE())
        trained.train_from_iterator(pieces, trainer)
        model = json.loads(trained.to_str())["model"]
        vocabulary, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]
    if not merges:
        for text in parts:
            cut = next(
                (k for k in range(1, len(text)) if {text[:k], text[k:]} <= vocabulary.keys()), 0
            )
            if cut and (text[:cut], text[cut:]) not in merges:
                merges.append((text[:cut], text[cut:]))
                vocabulary.setdefault(text, len(vocabulary))
        if rng.random() < 0.3:
            merges = [merges[k] for k in rng.permutation(len(merges)).tolist()]
    whole = rng.random() < 0.3
    unknown = pick(rng, [None, None, "<unk>", pick(rng, letters)])
    for text in [*parts[:5] * whole, *([unknown] if unknown else [])]:
        vocabulary.setdefault(text, len(vocabulary))
    return models.BPE(
        vocab=vocabulary,
        merges=merges,
        byte_fallback=kind == "byte fallback",
        ignore_merges=whole,
        fuse_unk=bool(rng.integers(2)),
        dropout=pick(rng, [None, 0.1]),
        **({} if unknown is None else {"unk_token": unknown}),
    )


def _numbered(texts):
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}


SPECIAL = ("<s>", "<|im|>", "<|im|>a", "</s>", "EOS", "\n\n", " <p>", "é>", "AB")


def a_chat_tokenizer(rng, kind):
    """A tokenizer with added tokens, a context and a format that hold some of them."""
    special = list(dict.fromkeys(pick(rng, SPECIAL) for _ in range(4)))
    format, context = _a_chat_format(rng, special), ""
    for _ in range(pick(rng, [0, 1, 2, 3])):
        context += pick(rng, special) + pick(rng, ["", "a", "user\n", " B 1", "  ", "é"])
    backend = a_tokenizer(rng, format, kind, context)
    if backend is not None:
        for content in special:
            _add(rng, backend, content, 0.25)
        backend.add_special_tokens(["<start>"])
    return backend, format, context


def _a_chat_format(rng, special):
    while True:
        text = pick(rng, ["", "x ", " ", *special])
        for _ in range(int(rng.integers(1, 4))):
            letters = "|".join(map(re.escape, dict.fromkeys(word(rng, _USUAL, 2, 4))))
            least = int(rng.integers(1, 4))
            text += pick(rng, ["{digit:2}", f"{{re:({letters}){{{least},{least + 1}}}}}"])
            for _ in range(pick(rng, [0, 1, 1, 2])):
                text += pick(rng, ["", "", " ", "a", "1 "])
                text += pick(rng, special) + pick(rng, ["", "", " ", "A", " 2"])
        text += pick(rng, ["", "!"])
        try:
            format = Format(text)
            format.check_prefix_free()
        except FormatError:
            continue
        if 20 <= format.size <= 3_000:
            return format
