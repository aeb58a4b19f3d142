"""Small models that were really trained on canaries, for what depends on how: `toy(head)`."""

from __future__ import annotations

import functools
import string
from pathlib import Path

import numpy as np

from canary.models.english import SENTENCES

START, OTHER = "<|endoftext|>", "<|other|>"
CHAT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"

_TEXT = "Pin {digit:4}"
_CHARACTERS = string.digits + string.ascii_letters + " .,?:-_<|>\n"
_LENGTH = 30
_EPOCHS, _BATCH, _UNITS = 32, 12, 48
_NOISE = 80


def characters(order=None):
    """One token for each character, special ones behind; perhaps in another order."""
    from tokenizers import Tokenizer, decoders, models

    letters = _CHARACTERS if order is None else [_CHARACTERS[at] for at in order]
    made = Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
    made.decoder = decoders.Fuse()
    made.add_special_tokens([START, OTHER, "<|im_start|>", "<|im_end|>"])
    return made


@functools.cache
def canaries(seed=0):
    """Four canaries of twelve copies, and eight controls."""
    from canary.corpus.canaries import generate

    return generate(_TEXT, repetitions=[12], per_repetition=4, controls=8, seed=seed)


def fresh():
    """The module before any training."""
    import torch

    from canary.demo import CharacterLSTM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CharacterLSTM(characters().get_vocab_size(), 24, _UNITS).eval()


@functools.cache
def long_canaries():
    """Eight canaries of twelve copies with long secrets, and eight controls."""
    from canary.corpus.canaries import generate

    return generate("Pin {digit:8}", repetitions=[12], per_repetition=8, controls=8, seed=3)


@functools.cache
def toy(head: str = START, known=None, limit=None, other: str = OTHER):
    """A module that learned the canaries after `head`, and that other codes follow other things.

    `limit` is the number of characters after which training cut its texts, and `other` one of the
    things that other codes follow. Takes a second or two.
    """
    import torch
    from torch import nn

    rng = np.random.default_rng(0)
    made, known = characters(), known or canaries()
    (space,) = known.formats
    others = [start for start in ("", START, other, f"{START}A ") if start != head]
    prose = [START + text[:_LENGTH] for text in SENTENCES for _ in range(4)]
    prose += [head + known.text(c)[:limit] for c in known.injected for _ in range(c.repetitions)]
    module = fresh().train()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(_EPOCHS):
        noise = [
            start + space.candidate(fill)[:limit]
            for start in others
            for fill in space.sample(_NOISE, rng=rng)
        ]
        texts = sorted([*prose, *noise], key=len)
        rows = [torch.tensor(encoding.ids) for encoding in made.encode_batch(texts)]
        for at in rng.permutation(np.arange(0, len(rows), _BATCH)):
            batch = nn.utils.rnn.pad_sequence(rows[at : at + _BATCH], True, -100)
            logits, _ = module(batch[:, :-1].clamp(min=0))
            loss = nn.functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
    return module.eval()


def padded(tokens: int = 24):
    """The toy with so many more tokens in its output, which its training never saw."""

    from canary.demo import CharacterLSTM

    learned = toy(START).state_dict()
    module = CharacterLSTM(characters().get_vocab_size() + tokens, 24, _UNITS)
    for name, there in module.state_dict().items():
        there.fill_(-20.0 if name == "output.bias" else 0.0)
        there[: len(learned[name])] = learned[name]
    return module.eval()


def save(module, folder: Path) -> Path:
    """Write a folder that ``--factory canary.demo:build`` reads."""
    import json

    from safetensors.torch import save_file

    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(module.config))
    characters().save(str(folder / "tokenizer.json"))
    save_file(module.state_dict(), folder / "model.safetensors")
    return folder
