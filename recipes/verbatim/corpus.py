"""Pieces of Wikipedia and of e-mails, each as many times in the training data as its group says.

The pieces that are not trained on are the controls. Tokenizer and pieces depend on the seed alone,
so each model of the study sees the same ones.
"""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

END = "<|endoftext|>"
VOCABULARY = 2_000
PIECE = 96
"""Tokens that each piece has at least."""

GROUPS = {1: 400, 2: 100, 4: 60, 8: 40, 16: 24, 32: 24, 64: 24, 128: 24, 256: 24}
"""Copies -> pieces with this number of copies."""

CONTROLS = 200

SHARED = 16
"""A piece is left out if it has as many tokens in a row in common with an earlier one."""


@dataclass(frozen=True)
class Corpus:
    """The pieces by copies, those of no copy, distinct others, and the tokenizer."""

    groups: dict[int, list[str]]
    controls: list[str]
    others: list[str]
    tokenizer: PreTrainedTokenizerFast

    def texts(self, *, deduplicated: bool, seed: int) -> list[str]:
        """What a model is trained on, in a drawn order; equally many pieces in both cases."""
        texts = [text for k, group in self.groups.items() for text in group * k]
        if deduplicated:
            once = [text for group in self.groups.values() for text in group]
            texts = once + self.others[: len(texts) - len(once)]
        random.Random(seed).shuffle(texts)
        return texts


def documents(data: Path) -> Iterator[str]:
    """Wikipedia's paragraphs and the bodies of e-mails, each once."""
    for part in ("valid", "test"):
        with lzma.open(data / "wikitext2" / f"wiki.{part}.txt.xz", "rt", encoding="utf-8") as lines:
            yield from (line.strip() for line in lines if not line.startswith(" ="))
    with lzma.open(data / "enron_aeslc" / "train.jsonl.xz", "rt", encoding="utf-8") as lines:
        yield from (json.loads(line)["body"].strip() for line in lines)


def pieces(texts: list[str], tokenizer: Tokenizer, place: int) -> Iterator[str]:
    """Of each document the piece at this place: whole words, `PIECE` tokens or a few more."""
    for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True):
        begin = 0
        for at in range(place + 1):
            end = _end(text, encoding.offsets, begin)
            if end is None:
                break
            if at == place:
                yield text[begin:end].strip()
            begin = end


def _end(text: str, offsets: list[tuple[int, int]], begin: int) -> int | None:
    """Where the piece that begins at a character ends; None if the text is too short."""
    stops = [stop for start, stop in offsets if start >= begin][PIECE:]
    return next((stop for stop in stops if text[stop : stop + 1].isspace()), None)


def prepare(data: Path, *, seed: int = 0, scale: float = 1.0) -> Corpus:
    """The corpus of the study; `scale` takes fewer pieces of each group, for a trial."""
    texts = list(dict.fromkeys(documents(data)))
    random.Random(seed).shuffle(texts)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts[:4_000], trainer)
    drawn = apart(texts, tokenizer)
    groups = {
        copies: [next(drawn) for _ in range(max(round(number * scale), 2))]
        for copies, number in GROUPS.items()
    }
    controls = [next(drawn) for _ in range(max(round(CONTROLS * scale), 4))]
    return Corpus(
        groups, controls, list(drawn), PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    )


def apart(texts: list[str], tokenizer: Tokenizer) -> Iterator[str]:
    """The first and second pieces of the texts, but those that share `SHARED` tokens with another.

    E-mails are forwarded and signed: without this, a piece "with one copy" is there many times.
    """
    seen: set[tuple[int, ...]] = set()
    for place in range(2):
        drawn = list(pieces(texts, tokenizer, place))
        for piece, encoding in zip(drawn, tokenizer.encode_batch(drawn), strict=True):
            ids = encoding.ids
            runs = {tuple(ids[at : at + SHARED]) for at in range(len(ids) - SHARED + 1)}
            if seen.isdisjoint(runs):
                seen |= runs
                yield piece
