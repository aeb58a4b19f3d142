"""The texts: the Penn Treebank, or the standard library's prose for a quick run."""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

SPLITS = ("train", "valid", "test")


def penn_treebank(folder: Path) -> dict[str, list[str]]:
    """Lines of ``ptb/ptb.{train,valid,test}.txt`` under `folder`, plain or ``.xz``."""
    texts = {}
    for split in SPLITS:
        plain = folder / "ptb" / f"ptb.{split}.txt"
        packed = plain.with_suffix(".txt.xz")
        if plain.exists():
            text = plain.read_text(encoding="utf-8")
        elif packed.exists():
            text = lzma.decompress(packed.read_bytes()).decode()
        else:
            raise SystemExit(f"{plain}: no such file, nor {packed.name}; see README.md")
        texts[split] = text.removesuffix("\n").split("\n")
    return texts


def prose() -> dict[str, list[str]]:
    """Lines of the help texts that ship inside Python, in three parts."""
    lines = [line for text in topics.values() for line in text.split("\n") if line.strip()]
    return {split: lines[i :: len(SPLITS)] for i, split in enumerate(SPLITS)}


def digest(lines: Iterable[str]) -> str:
    """A fingerprint of a text, from which nobody reads the text."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def refuse_other(where: Path, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Exit if what is kept there was made otherwise than is asked for now.

    What an earlier version did not keep is not compared.
    """
    now = json.loads(json.dumps(given))
    if other := [name for name, value in now.items() if kept.get(name, value) != value]:
        sys.exit(f"{where}: made with other {' and '.join(other)}; give another --work folder")


def written(path: Path, content: Any) -> None:
    """Write text, or else JSON, beside its place and move it there whole."""
    text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


def shortened(texts: Mapping[str, Sequence[str]], lines: int) -> dict[str, list[str]]:
    """The first `lines` lines to train on, and a tenth of it to hold out."""
    share = {"train": lines, "valid": lines // 10, "test": lines // 10}
    return {split: list(texts[split][: share[split]]) for split in SPLITS}


def character_tokenizer(texts: Mapping[str, Sequence[str]], also: Iterable[str]) -> Tokenizer:
    """One token per character: those of the corpus and those `also` needed, together.

    A format's characters must be known even where the corpus lacks them: the Penn
    Treebank is lower case, and its only capital is the N that stands for a number.
    """
    characters = set("\n").union(also, *(line for lines in texts.values() for line in lines))
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(sorted(characters))}, []))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def word_tokenizer(texts: Mapping[str, Sequence[str]], also: Iterable[str]) -> Tokenizer:
    """One token per word between spaces, one for a newline, one for each of `also`."""
    words = {word for lines in texts.values() for line in lines for word in line.split()}
    names = {name: i for i, name in enumerate(sorted(words.union("\n", also) - {" "}))}
    tokenizer = Tokenizer(models.WordLevel(names, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "removed"),
            pre_tokenizers.Split(Regex("\n"), "isolated"),
        ]
    )
    return tokenizer
