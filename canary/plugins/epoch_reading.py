"""One pass over the batches of a training: its canaries, their texts, labels and what is before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Slot
from canary.corpus.occurrences import find_canaries
from canary.corpus.surroundings import Changed
from canary.plugins.batch_rows import array_of
from canary.plugins.training_batches import IGNORED, TrainingBatches
from canary.records.progress import stage
from canary.scoring.run_options import RunOptions
from canary.tokens.candidates import CandidateEncoder, check_new_tokens
from canary.tokens.tokenizer import Tokenizer

NEARLY_ALL = 0.9
"""The share of all copies of which is said that nearly all are so."""


class EpochReading:
    """What the batches of a training, and of its evaluation, hold of a canary set.

    Attributes
    ----------
    seen : TrainingBatches
        Copies by their tokens.
    texts : Counter of str
        By canary id, how often its text is in the decoded rows, whatever its tokens are.
    changed : Changed
        Canaries whose text is there in another form: in another case, with other white space.
    places : list of int
        The batch of each copy.
    labelled, unknown : int
        Tokens with a label; and those that the tokenizer does not have.
    complete, evaluated : bool
        Whether an epoch was read to its end; and evaluation data at all.
    length : int or None
        Batches of an epoch, where that is known.
    widths : Counter of int
        How many rows have so many tokens, without those that the mask hides.
    """

    def __init__(self, canaries: CanarySet, tokenizer: Tokenizer, options: RunOptions) -> None:
        self.canaries, self.tokenizer, self.options = canaries, tokenizer, options
        self.seen = TrainingBatches(canaries, tokenizer, options, lambda said: None)
        self.texts: Counter[str] = Counter()
        self.changed = Changed(canaries, {canary.id for canary in canaries.injected})
        self.places: list[int] = []
        self.labelled, self.unknown = 0, 0
        self.complete, self.evaluated = False, False
        self.length: int | None = None
        self.widths: Counter[int] = Counter()
        self._anew = False  # positions that begin anew in a row, or are given at all
        for format in canaries.formats:
            check_new_tokens(format, CandidateEncoder(tokenizer))
        self._find = find_canaries(canaries.written, canaries.written)
        self._owners = {name: canary.id for canary in canaries for name in canaries.names(canary)}

    def read(self, batches: Iterable[Any], most: int) -> None:
        """Read at most `most` batches of the training."""
        with suppress(TypeError, NotImplementedError):  # a stream has no length
            self.length = len(batches)  # type: ignore[arg-type]
        total = min(most, self.length or most)
        advance = stage(self.options.progress, "reading the training data", total, "batches")
        left = iter(batches)
        for number, batch in enumerate(islice(left, most)):
            before = self.seen.whole.total()
            self.seen.see(batch)
            self.places += [number] * (self.seen.whole.total() - before)
            self._read_texts(batch)
            advance(1)
        self.complete = next(left, None) is None

    def _read_texts(self, batch: Any) -> None:
        named = batch if isinstance(batch, Mapping) else {"input_ids": batch}
        ids = array_of(named.get("input_ids"), None)
        if ids is None:
            return
        labels = array_of(named.get("labels"), ids.shape)
        mask = array_of(named.get("attention_mask"), ids.shape)
        self.widths.update((np.ones_like(ids) if mask is None else mask).sum(axis=1).tolist())
        self._anew = self._anew or named.get("position_ids") is not None
        self.labelled += ids.size if labels is None else int((labels != IGNORED).sum())
        known = ids < self.tokenizer.size
        self.unknown += int((~known).sum())
        for row, mine in zip(ids, known, strict=True):
            text = self.tokenizer.decode(row[mine].tolist())
            self.texts.update(self._owners[name] for _, _, name in self._find(text))
            self.changed.look([Slot(("text",), text)])

    def read_evaluation(self, batches: Iterable[Any], most: int) -> None:
        """Read at most `most` batches of the evaluation."""
        self.evaluated = True
        for batch in islice(batches, most):
            self.seen.see(batch, training=False)

    @property
    def context(self) -> str:
        """The text that nearly all copies have before them, if it is more than a start token.

        That is the whole of what is before them, or holds a special token behind its first.
        """
        lead, own = self.lead(), self.seen.own
        lead = lead[len(own) :] if own and lead[: len(own)] == own else lead
        alike = max(self.seen.leads.values(), default=0) >= NEARLY_ALL * self.seen.leads.total()
        if len(lead) < 2 or not (alike or any(map(self.seen.special, lead[1:]))):
            return ""
        decode: Any = self.tokenizer.decode
        return str(decode(lead, special=True))

    @property
    def wrapped(self) -> bool:
        """Whether texts are packed end to end, so that rows begin within one: all are as long."""
        alike = max(self.widths.values(), default=0)
        return not self._anew and 1 < alike >= NEARLY_ALL * (self.widths.total() - 1)

    def ends_with(self, lead: tuple[int, ...], run: tuple[int, ...]) -> bool:
        """Whether a lead ends with a run of tokens, or with what a packed row's cut left of it."""
        if len(lead) >= len(run):
            return lead[len(lead) - len(run) :] == run
        return self.wrapped and run[len(run) - len(lead) :] == lead

    def lead(self) -> tuple[int, ...]:
        """The longest run of tokens that nearly all copies have before them.

        Where packing cuts rows, more than half have it whole, and the others what is left of it.
        """
        total, wrapped = self.seen.leads.total(), self.wrapped
        common: tuple[int, ...] = ()
        while total:
            longer: Counter[tuple[int, ...]] = Counter()
            size = len(common)
            for lead, times in self.seen.leads.items():
                if len(lead) > size and lead[len(lead) - size :] == common:
                    longer[lead[-size - 1 :]] += times
            ((best, times),) = longer.most_common(1) or [((), 0)]
            if wrapped and 2 * times > total:
                times = sum(n for each, n in self.seen.leads.items() if self.ends_with(each, best))
            if times < NEARLY_ALL * total:
                break
            common = best
        return common
