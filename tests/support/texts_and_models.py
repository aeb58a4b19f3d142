"""Small language models and texts of known membership, for attacks on texts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

LETTERS = "abAB"


def letters_tokenizer(start: str | None = None, pair: str | None = None):
    """A token for each of four letters, and perhaps one for a pair of them.

    With `start` a special token stands before every text.
    """
    from tokenizers import Tokenizer, decoders, processors
    from tokenizers.models import BPE

    from canary.tokens.fast import as_tokenizer

    pieces = [*LETTERS, pair] if pair else [*LETTERS]
    merges = [(pair[0], pair[1])] if pair else []
    tokenizer = Tokenizer(BPE(vocab={c: i for i, c in enumerate(pieces)}, merges=merges))
    tokenizer.decoder = decoders.Fuse()
    if start is not None:
        tokenizer.add_special_tokens([start])
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{start} $A", special_tokens=[(start, len(pieces))]
        )
    return as_tokenizer(tokenizer)


def letters_model(*probs, start: str | None = None, pair: str | None = None, after=None):
    """The next letter whatever came before, or by the letter before: ``after={"a": probs}``.

    With a `pair` its probability is the fifth.
    """
    from canary.models.table_model import TableModel

    def row(shares):
        with np.errstate(divide="ignore"):
            logs = np.log(np.array(shares, np.float64))
        return np.append(logs, [-np.inf]) if start is not None else logs

    tables = {(): row(probs)}
    for letter, shares in (after or {}).items():
        tables[LETTERS.index(letter),] = row(shares)
    return TableModel.ngram(tables, letters_tokenizer(start, pair))


def write_texts(path, texts, column="text"):
    Path(path).write_text("".join(json.dumps({column: text}) + "\n" for text in texts))


def random_words(rng, count, *, words=12, vocabulary=300):
    """Made-up texts of one source, of different lengths."""
    names = np.array(["".join(rng.choice(list("abcdefghij"), 5)) for _ in range(vocabulary)])
    return [
        " ".join(rng.choice(names, int(rng.integers(words // 2, words * 2)))) for _ in range(count)
    ]


def trained_on(texts, *, order=4, start="\n"):
    """A model of characters that counts what follows what in some texts: it memorizes."""
    from small_models import CHARACTERS, character_tokenizer

    from canary.models.table_model import TableModel
    from canary.tokens.fast import as_tokenizer

    index = {character: number for number, character in enumerate(CHARACTERS)}
    counts: dict[tuple[int, ...], np.ndarray] = {(): np.ones(len(CHARACTERS))}
    for text in texts:
        ids = [index[character] for character in start + text]
        for at in range(1, len(ids)):
            for length in range(min(order, at) + 1):
                key = tuple(ids[at - length : at])
                row = counts.setdefault(key, np.full(len(CHARACTERS), 0.02))
                row[ids[at]] += 1
    tables = {key: np.log(row / row.sum()) for key, row in counts.items()}
    return TableModel.ngram(tables, as_tokenizer(character_tokenizer()), name="counted")
