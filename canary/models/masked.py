"""Masked language models of `transformers`, which rewrite texts a word here and there."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from canary.errors import ModelError, OutOfMemory
from canary.models.pretrained import folder_of, read_module, tokenizer_of
from canary.models.torch_support import fingerprint, free_bytes, inference, input_device
from canary.tokens.fast import FastTokenizer

_TOKENS = 4096
_BYTES_PER_LOGIT = 12
_MARKS = ("Ġ", "▁")  # what comes before the first piece of a word
_INSIDE = "##"  # what comes before every other


@dataclass(frozen=True)
class _Word:
    """A word that is one token: its place among the tokens of a text, and its characters."""

    at: int
    token: int
    start: int
    stop: int


_Row = tuple[list[int], list[tuple[int, int, _Word]]]
"""The tokens of a part of a text, some masked; of each the text, the place and the word."""


class MaskedModel:
    """A masked language model that replaces words of a text by others that fit.

    Parameters
    ----------
    module : transformers.PreTrainedModel
        With a head over the vocabulary.
    tokenizer : transformers.PreTrainedTokenizerFast
    name : str

    Raises
    ------
    ModelError
        If the tokenizer has no mask token, or no tokens that are whole words.
    """

    def __init__(self, module: Any, tokenizer: Any, *, name: str = "masked") -> None:
        from tokenizers import Tokenizer

        self._module = module
        self._device = input_device(module)
        self._backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._backend.no_truncation()
        self._backend.no_padding()
        if tokenizer.mask_token_id is None:
            problem = "the tokenizer has no mask token; this is no masked language model"
            raise ModelError(problem, cure="name a model such as BERT or RoBERTa", where=name)
        self._mask = int(tokenizer.mask_token_id)
        self._before, self._after = FastTokenizer(self._backend).template("a")
        vocabulary = int(module.config.vocab_size)
        self._surfaces = _whole_words(self._backend, set(tokenizer.all_special_ids), vocabulary)
        if len(self._surfaces) < 2:
            problem = "the tokenizer has no tokens that are whole words, so none can be replaced"
            cure = "name a masked language model of words or pieces of words"
            raise ModelError(problem, cure=cure, where=name)
        self._allowed = torch.tensor(sorted(self._surfaces), device=self._device)
        longest = min(tokenizer.model_max_length, module.config.max_position_embeddings)
        self._limit = max(int(longest) - len(self._before + self._after), 1)
        most = free_bytes(self._device) // (_BYTES_PER_LOGIT * vocabulary)
        self._tokens = max(min(_TOKENS, most), 1)
        self.facts = {"name": name, "fingerprint": fingerprint(module)}

    def rewrite(self, texts: Sequence[str], *, share: float, rng: np.random.Generator) -> list[str]:
        """Each text with some of its words replaced by others, drawn from the model.

        Parameters
        ----------
        texts : sequence of str
        share : float
            Of the words that are one token of this model; at least one is replaced, if
            there is one.
        rng : numpy.random.Generator

        Returns
        -------
        list of str
            All other characters are as they were. A word that was capitalised or in
            capitals is replaced by one that is, too.

        Notes
        -----
        All chosen words of a text are masked at once and drawn independently, from the
        model's distribution over whole words other than the one that was there. Texts
        that are longer than the model takes are cut into parts. Probabilities stay where
        they are computed: one number per masked word comes out.
        """
        rows = [row for k, text in enumerate(texts) for row in self._rows(k, text, share, rng)]
        rows = sorted((row for row in rows if row[1]), key=lambda row: -len(row[0]))
        uniform = [rng.random(len(words)) for _, words in rows]
        replaced: list[list[tuple[_Word, int]]] = [[] for _ in texts]
        done, size = 0, self._tokens
        while done < len(rows):
            part = rows[done : done + max(size // len(rows[done][0]), 1)]
            try:
                tokens = self._drawn(part, np.concatenate(uniform[done : done + len(part)]))
            except OutOfMemory:
                if len(part) == 1:
                    raise
                size = max(size // 2, 1)
                continue
            masked = [word for _, words in part for word in words]
            for (text, _, word), token in zip(masked, tokens.tolist(), strict=True):
                replaced[text].append((word, token))
            done += len(part)
        return [self._spliced(text, new) for text, new in zip(texts, replaced, strict=True)]

    def _rows(self, number: int, text: str, share: float, rng: np.random.Generator) -> list[_Row]:
        """The parts of a text, with the words of a random choice masked."""
        encoding = self._backend.encode(text, add_special_tokens=False)
        words = [w for w in _words_of(text, encoding) if w.token in self._surfaces]
        wanted = max(round(share * len(words)), 1)
        chosen = sorted(rng.permutation(len(words))[:wanted].tolist()) if words else []
        rows: list[_Row] = [
            ([*self._before, *encoding.ids[begin : begin + self._limit], *self._after], [])
            for begin in range(0, len(encoding.ids), self._limit)
        ]
        for word in (words[k] for k in chosen):
            ids, masked = rows[word.at // self._limit]
            place = len(self._before) + word.at % self._limit
            ids[place] = self._mask
            masked.append((number, place, word))
        return rows

    def _drawn(self, rows: list[_Row], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """A token for each masked word of some rows."""
        table, there = np.zeros((2, len(rows), max(len(ids) for ids, _ in rows)), np.int64)
        for number, (ids, _) in enumerate(rows):
            table[number, : len(ids)], there[number, : len(ids)] = ids, 1
        masked = [(n, at, word.token) for n, (_, words) in enumerate(rows) for _, at, word in words]
        row_of, place_of, old = np.array(masked).T
        with inference(self._module):
            logits = self._module(
                input_ids=torch.from_numpy(table).to(self._device),
                attention_mask=torch.from_numpy(there).to(self._device),
            ).logits
            asked = logits[row_of, place_of][:, self._allowed].double()
            same = self._allowed[None, :] == torch.from_numpy(old).to(self._device)[:, None]
            asked[same] = -math.inf
            picked = draw(asked, torch.from_numpy(uniform).to(self._device))
            return self._allowed[picked].cpu().numpy()

    def _spliced(self, text: str, new: list[tuple[_Word, int]]) -> str:
        """A text with new tokens for words of it, written as those were."""
        parts, end = [], 0
        for word, token in sorted(new, key=lambda item: item[0].start):
            old, written = text[word.start : word.stop], self._surfaces[token]
            if old.isupper() and len(old) > 1:
                written = written.upper()
            elif old[0].isupper():
                written = written[0].upper() + written[1:]
            parts += [text[end : word.start], written]
            end = word.stop
        return "".join([*parts, text[end:]])


def draw(logits: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """A column of each row of `logits`, drawn from its softmax by a number from 0 to below 1.

    Both are float64, of shapes (n, k) and (n,). Minus infinity is never drawn.
    """
    heights = logits.softmax(-1).cumsum(-1)
    picked = torch.searchsorted(heights, (uniform * heights[:, -1])[:, None], right=True)
    return picked.squeeze(1).clamp(max=logits.shape[1] - 1)


def load_masked(
    source: str | os.PathLike[str], *, dtype: str | None = None, device: str | None = None
) -> MaskedModel:
    """A masked language model from a folder that `save_pretrained` wrote, or a hub id.

    Weights come from safetensors alone; no remote code is run.

    Raises
    ------
    ModelError
        If it cannot be loaded, or is no masked language model.
    """
    from transformers import AutoModelForMaskedLM

    name = os.fspath(source)
    folder = folder_of(name)
    tokenizer = tokenizer_of(folder)
    module = read_module(folder, dtype, device, kind=AutoModelForMaskedLM)
    return MaskedModel(module, tokenizer, name=Path(name).name or name)


def _whole_words(backend: Any, special: set[int], vocabulary: int) -> dict[int, str]:
    """The tokens that are whole words of letters, and how each is written."""
    pieces = {
        number: piece
        for piece, number in backend.get_vocab(with_added_tokens=True).items()
        if number not in special and number < vocabulary
    }
    if not any(piece.startswith(_INSIDE) for piece in pieces.values()):
        for mark in _MARKS:
            marked = {n: piece for n, piece in pieces.items() if piece.startswith(mark)}
            if len(marked) * 10 >= len(pieces):
                pieces = marked
                break
    whole = [number for number, piece in pieces.items() if not piece.startswith(_INSIDE)]
    written = {number: backend.decode([number]).strip() for number in whole}
    return {number: word for number, word in written.items() if word.isalpha()}


def _words_of(text: str, encoding: Any) -> list[_Word]:
    """The tokens that are whole words of a text; spaces that belong to them left out."""
    words = []
    for at, (token, (start, stop)) in enumerate(zip(encoding.ids, encoding.offsets, strict=True)):
        inner = text[start:stop]
        begin = start + len(inner) - len(inner.lstrip())
        end = start + len(inner.rstrip())
        alone = not (text[begin - 1 : begin].isalnum() or text[end : end + 1].isalnum())
        if alone and text[begin:end].isalpha():
            words.append(_Word(at, token, begin, end))
    return words
