"""Small tokenizers of every kind, trained here by the published rules: `trained(name)`."""

from __future__ import annotations

import functools
import json

import numpy as np

GPT2 = None  # the pattern that is built into ByteLevel
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


@functools.cache
def corpus() -> tuple[str, ...]:
    """Sentences with numbers, names, codes and letters beyond ASCII."""
    rng = np.random.default_rng(0)
    words = "code number secret random mail Zürich Straße naïve café you're we'll it's"
    words = words.split()
    lines = ["ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz !?.,:;-'«»"] * 3
    lines += [*lines[0].replace(" ", "")] * 3
    for _ in range(1_500):
        some = " ".join(rng.choice(words, 4))
        digits = "".join(rng.choice(list("0123456789"), int(rng.integers(1, 12))))
        short = rng.integers(0, 1000)
        hexa = "".join(rng.choice(list("0123456789abcdef"), 6))
        alnum = "".join(rng.choice(list("abcXYZ0123456789"), 5))
        lines.append(f"The {some} is {digits}, {short}-{short % 100}  {hexa} {alnum}. «{some}»\n")
        lines.append(f"north east south west {short} red green blue  привет мир {short}")
    return tuple(lines)


def _byte_level(pattern, *, size=700, normalizer=None, prefix_space=False, bos=False):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    by_byte = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=pattern is None)
    patterns = [] if pattern is None else [pattern] if isinstance(pattern, str) else pattern
    splits = [pre_tokenizers.Split(Regex(one), "isolated") for one in patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, by_byte]) if splits else by_byte
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "<unused0>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return _with_start(tokenizer) if bos else tokenizer


def _with_start(tokenizer):
    from tokenizers import processors

    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return tokenizer


def ignoring_merges(tokenizer, more=()):
    """The same with `ignore_merges`, and with tokens that no merges lead to."""
    from tokenizers import Tokenizer

    spec = json.loads(tokenizer.to_str())
    model = spec["model"]
    model["ignore_merges"] = True
    for token in more:
        model["vocab"].setdefault(token, len(model["vocab"]))
    return Tokenizer.from_str(json.dumps(spec))


def _sentence_piece(kind, *, split_digits, prepend="always"):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(byte_fallback=True) if kind == "bpe" else models.Unigram())
    space = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if split_digits else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([space, *digits])
    tokenizer.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    if kind == "bpe":
        bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = trainers.BpeTrainer(
            vocab_size=900,
            special_tokens=special + bytes_,
            limit_alphabet=60,
            show_progress=False,
        )
    else:
        trainer = trainers.UnigramTrainer(
            vocab_size=400, special_tokens=special, unk_token="<unk>", show_progress=False
        )
    tokenizer.train_from_iterator(corpus(), trainer)
    if kind == "bpe":  # the bytes stand for text
        spec = json.loads(tokenizer.to_str())
        spec["added_tokens"] = [
            t for t in spec["added_tokens"] if not t["content"].startswith("<0x")
        ]
        tokenizer = Tokenizer.from_str(json.dumps(spec))
    return _with_start(tokenizer)


def _llama2():
    """As converted from SentencePiece: normalizers instead of a pre-tokenizer."""
    from tokenizers import Tokenizer, normalizers

    spec = json.loads(_sentence_piece("bpe", split_digits=False).to_str())
    spec["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return tokenizer


def _word_piece(*, lowercase):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=700, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    ids = [(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ids
    )
    return tokenizer


def _word_level():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [f"{n:0{k}}" for k in (1, 2, 3, 4) for n in range(10**k)]
    more = "The code number is mail a b x y secret red green blue - . ! end café"
    words += more.split()
    vocabulary = {word: k for k, word in enumerate(["<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def _characters():
    from small_models import character_tokenizer

    return character_tokenizer()


def _qwen():
    from tokenizers import normalizers

    return _byte_level(QWEN, normalizer=normalizers.NFC())


def _llama3():
    digits = [str(n) for n in range(1000)] + [f"{n:0{k}}" for k in (2, 3) for n in range(10**k)]
    return _with_start(ignoring_merges(_byte_level(LLAMA3), digits))


KINDS = {
    "gpt2": lambda: _byte_level(GPT2),
    "gpt2, many numbers": lambda: _byte_level(GPT2, size=2_000),
    "roberta": lambda: _byte_level(GPT2, prefix_space=True, bos=True),
    "llama3": _llama3,
    "llama3 with merges": lambda: _byte_level(LLAMA3),
    "qwen": _qwen,
    "deepseek": lambda: _byte_level([r"\p{N}{1,3}", r"[a-z]+|\s+(?!\S)|\s+", QWEN], size=900),
    "llama2": _llama2,
    "sentencepiece bpe": lambda: _sentence_piece("bpe", split_digits=False),
    "sentencepiece bpe, digits": lambda: _sentence_piece("bpe", split_digits=True, prepend="first"),
    "unigram": lambda: _sentence_piece("unigram", split_digits=False),
    "unigram, digits": lambda: _sentence_piece("unigram", split_digits=True, prepend="never"),
    "wordpiece": lambda: _word_piece(lowercase=False),
    "wordpiece, lower case": lambda: _word_piece(lowercase=True),
    "words": _word_level,
    "characters": _characters,
}


@functools.cache
def trained(name: str):
    return KINDS[name]()
