"""From a canary's copies to the training steps that saw them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.corpus.canaries import CanarySet
from canary.corpus.file_formats import open_corpus
from canary.corpus.megatron import MegatronRows
from canary.corpus.occurrences import Copies
from canary.corpus.placements import Placements
from canary.errors import CorpusError, InputError
from canary.records.sealing import sealed
from canary.records.validation import whole_number

Steps = dict[str, tuple[int, ...]]
"""By canary: the steps, from 1, that saw a copy."""


def steps_in_order(placements: Placements, order: Iterable[int], batch_size: int) -> Steps:
    """The steps whose batches have a canary's records, for a sampler that gives row numbers.

    Parameters
    ----------
    placements : Placements
        Of a corpus in which each record is one sample of the training.
    order : iterable of int
        The rows (from 0) as the sampler gives them, epoch after epoch, such as
        ``torch.randperm(rows, generator=…)`` of the seed of each epoch.
    batch_size : int
        Rows for each step, over all devices and accumulated batches.

    Examples
    --------
    >>> from canary.corpus.placements import Placements
    >>> steps_in_order(Placements({"a": (2,)}, "text", 0, 4), [3, 1, 0, 2, 1, 0, 3, 2], 2)
    {'a': (1, 3)}
    """
    size = whole_number(batch_size, "batch_size", at_least=1)
    owners: dict[int, set[str]] = {}
    for name, lines in placements.lines.items():
        for line in lines:
            owners.setdefault(line - 1, set()).add(name)
    found: dict[str, list[int]] = {name: [] for name in placements.lines}
    rows, step = iter(order), 0
    while batch := [*islice(rows, size)]:
        step += 1
        for name in {name for row in batch for name in owners.get(int(row), ())}:
            found[name].append(step)
    return {name: tuple(steps) for name, steps in found.items()}


@sealed
def megatron_steps(
    corpus: str | PathLike[str],
    canaries: CanarySet,
    *,
    tokenizer: Any,
    indices: tuple[Any, Any, Any],
    batch_size: int,
) -> Steps:
    """The iterations of a Megatron training that predicted tokens of each canary.

    Parameters
    ----------
    corpus : path-like
        The ``.bin`` that was trained on; copies are looked for in it.
    canaries : CanarySet
    tokenizer : tokenizer or path
    indices : (document index, sample index, shuffle index)
        What `GPTDataset` keeps as ``….npy`` in its cache: files or arrays.
    batch_size : int
        The global batch size, in samples; without a ramp.

    Raises
    ------
    CorpusError, InputError
        As `verify`; or the indices are not those of such a corpus.
    """
    size = whole_number(batch_size, "batch_size", at_least=1)
    documents, samples, shuffle = (_array(one) for one in indices)
    opened = open_corpus(corpus, "text", file_format="megatron", tokenizer=tokenizer)
    assert isinstance(opened, MegatronRows)
    fits = documents.ndim == shuffle.ndim == 1 and samples.ndim == 2 and samples.shape[1:] == (2,)
    if not fits or len(shuffle) > len(samples) - 1 or not len(documents):
        raise _not_indices("their shapes are not those of a document, sample and shuffle index")
    if not 0 <= int(documents.min()) <= int(documents.max()) < len(opened.index.lengths):
        raise _not_indices("the document index names sequences that the corpus does not have")
    starts = (samples[:, 0].astype(np.int64) << 32) + samples[:, 1].astype(np.int64)
    if (np.diff(starts) <= 0).any() or int(samples[-1, 0]) >= len(documents):
        raise _not_indices("the sample index is not in order")
    there: dict[str, set[int]] = {canary.id: set() for canary in canaries.written.injected}
    for name, sequence, first, last in _copies(opened, canaries.written):
        for at in np.flatnonzero(documents == sequence).tolist():
            ends = np.array([(at << 32) + first, (at << 32) + last - 1])
            # A sample predicts what is after its start, up to the start of the next.
            begin, end = np.searchsorted(starts, ends, "left") - 1
            there[name] |= {*range(max(int(begin), 0), min(int(end), len(starts) - 2) + 1)}
    positions = np.full(len(starts), -1, np.int64)
    positions[np.asarray(shuffle, np.int64)] = np.arange(len(shuffle))
    return {
        name: tuple(sorted({int(positions[s]) // size + 1 for s in mine if positions[s] >= 0}))
        for name, mine in there.items()
    }


def _copies(corpus: MegatronRows, canaries: CanarySet) -> Iterator[tuple[str, int, int, int]]:
    """Name, sequence, first token and the one after the last, of each copy."""
    copies = Copies(canaries)
    wanted = {canary.id for canary in canaries.injected}
    for at, _, slots in corpus.iterate():
        if not any(copies.hits(slot.text)[0] for slot in slots):
            continue
        for sequence, text, (begin, end) in corpus.parts(int(at)):
            hits = [hit for hit in copies.hits(text)[0] if hit[2] in wanted]
            spans = corpus.tokens.spans(text) if hits else []
            if hits and len(spans) != end - begin:
                raise CorpusError(
                    "has other tokens than this tokenizer makes of its text",
                    cure="name the tokenizer that made the corpus",
                    where=corpus.place(int(at) + 1),
                )
            for start, stop, name in hits:
                mine = [n for n, (a, b) in enumerate(spans) if a < stop and b > start]
                yield name, sequence, begin + mine[0], begin + mine[-1] + 1


def _array(given: Any) -> NDArray[Any]:
    if not isinstance(given, str | PathLike):
        return np.asarray(given)
    try:
        return np.asarray(np.load(Path(given), mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"cannot be read as an array ({error})",
            cure="name the .npy files that GPTDataset keeps in its cache",
            where=str(given),
        ) from error


def _not_indices(problem: str) -> InputError:
    return InputError(
        f"indices do not belong to this corpus: {problem}",
        cure="give document, sample and shuffle index, in this order, of the training on it",
        where="indices",
    )
