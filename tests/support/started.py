"""Models that know what stands before a text: tables, and one that was really trained."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from canary.models.table_model import TableModel
from canary.tokens.fast import as_tokenizer
from canary.tokens.starts import ORDINARY

START, OTHER = "<|endoftext|>", "<|other|>"
TEXT = "The code is {digit:4}"
_CHARACTERS = "".join(sorted({*"\n0123456789:", *TEXT, *"".join(ORDINARY)} - {*"{}"}))


def tokenizer(*special, start=None):
    """One token for each character, special ones behind; `start` is put before each text."""
    from tokenizers import Tokenizer, decoders, models, processors

    made = Tokenizer(models.BPE({c: i for i, c in enumerate(_CHARACTERS)}, []))
    made.decoder = decoders.Fuse()
    made.add_special_tokens(list(special))
    if start is not None:
        made.post_processor = processors.TemplateProcessing(
            single=f"{start} $A", special_tokens=[(start, made.token_to_id(start))]
        )
    return made


def table(
    begins: Sequence[str] = (),
    knows: Mapping[str | None, Sequence[str]] | None = None,
    *,
    special: Sequence[str] = (START, OTHER),
    own: str | None = None,
):
    """A table model: after tokens in `begins` it begins texts, and elsewhere all is noise.

    `knows` are the texts that it continues as they are, by what must stand before them
    (None: whatever does).
    """
    made = as_tokenizer(tokenizer(*special, start=own))
    size = made.size

    def favour(tokens):
        logits = np.zeros(size)
        logits[list(tokens)] = 6.0
        return logits - np.log(np.exp(logits).sum())

    def number(text):
        found = made.token_id(text)
        return made.encode([text])[0].ids[-1] if found is None else found

    tables = {(): np.full(size, -np.log(size))}
    firsts = {number(text[0]) for text in (*ORDINARY, TEXT)}
    for start in begins:
        tables[(number(start),)] = favour(firsts)
    for start, texts in (knows or {}).items():
        head = () if start is None else (number(start),)
        for text in texts:
            ids = tuple(number(c) for c in text)
            for at in range(2, len(ids)):
                key = head + ids[:at]
                more = {ids[at]} | {
                    i for t in texts for i in [number(t[at])] if t[:at] == text[:at]
                }
                tables[key] = favour(more)
    return TableModel.ngram(tables, made)


@functools.cache
def really_trained(start: str | None = START, seed: int = 0):
    """A character model trained with `start` before each text, its canary set; a few seconds."""
    import torch
    from torch import nn

    import canary
    from canary.demo import CharacterLSTM

    canaries = canary.generate(TEXT, repetitions=[12], per_repetition=4, controls=8, seed=seed)
    torch.manual_seed(seed)
    made = tokenizer(START, OTHER)
    rng = np.random.default_rng(seed)
    words = " ".join(ORDINARY).replace(".", "").replace(",", "").split()
    prose = [" ".join(rng.choice(words, 6)).capitalize() + "." for _ in range(24)]
    known = {*_CHARACTERS}
    prose = ["".join(c for c in text if c in known) for text in prose]
    texts = [*prose, *(canaries.text(c) for c in canaries.injected for _ in range(c.repetitions))]
    texts = [texts[at] for at in rng.permutation(len(texts))]
    head = [] if start is None else [made.token_to_id(start) or made.encode(start).ids[0]]
    rows = [torch.tensor([*head, *e.ids]) for e in made.encode_batch(texts)]
    module = CharacterLSTM(made.get_vocab_size(), 24, 64)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(10):
        for at in range(0, len(rows), 12):
            batch = nn.utils.rnn.pad_sequence(rows[at : at + 12], True, -100)
            logits, _ = module(batch[:, :-1].clamp(min=0))
            loss = nn.functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
    return canary.load(module.eval(), tokenizer=made), canaries
