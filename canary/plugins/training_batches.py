"""What the batches of a training hold of a canary set: how often, after what, and with what label.

Nothing here knows a training loop: a batch is token ids, with a mask, labels and positions if
there are such. A check of batches before a training reads them in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.corpus.canaries import CanarySet
from canary.statistics.numbers import count, plural
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tokenizer import Encoding, Tokenizer

IGNORED = -100
"""The label of a token that the loss leaves out, in torch and `transformers`."""

_ENOUGH = 512  # canaries seen, after which nothing more is read

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class _Needle:
    """The tokens of a canary that no text beside it can change, and the one before them.

    A first token without a part of the secret may merge with what comes before, and tokens
    behind the secret with what comes after.
    """

    name: str
    core: tuple[int, ...] = field(repr=False)
    first: int | None = field(repr=False)
    fixed: int  # tokens of the core before the secret
    secret: int  # where the secret begins in the core; 0, for all of it, if that is unknown


class BatchReader:
    """Finds canaries in batches of tokens, and counts.

    Parameters
    ----------
    canaries : CanarySet
    tokenizer : Tokenizer
        That of the training.

    Attributes
    ----------
    batches : int
        Batches with gradients that were read.
    whole, unlabelled, evaluated : Counter of str
        By canary id, how often it was seen whole; how often so without a label on any token
        of its secret; and how often in a batch without gradients, as an evaluation has them.
    cut : int
        Canaries that end with their row before their secret does.
    before : Counter of (int or None)
        The token before each canary that was seen whole; None where its row began, the mask
        hid what came before, or its position was 0.
    """

    def __init__(self, canaries: CanarySet, tokenizer: Tokenizer) -> None:
        texts = [canaries.text(c) for c in canaries]
        encodings = CandidateEncoder(tokenizer).encode(texts)
        self.own = _own(encodings[0])
        self._needles: dict[tuple[int, ...], list[_Needle]] = {}
        for canary, text, encoding in zip(canaries, texts, encodings, strict=True):
            format = canaries.formats[canary.format]
            after = len(text) - len(format.suffix)
            needle = _needle(canary.id, encoding, len(format.prefix), after)
            if len(needle.core) > 1:
                self._needles.setdefault(needle.core[:2], []).append(needle)
        found = {needle.name for needles in self._needles.values() for needle in needles}
        self._injected = {c.id for c in canaries.injected} & found
        self._anchors = np.array(sorted(_key(a, b) for a, b in self._needles), np.int64)
        self.batches = 0
        self.whole: Counter[str] = Counter()
        self.unlabelled: Counter[str] = Counter()
        self.evaluated: Counter[str] = Counter()
        self.before: Counter[int | None] = Counter()
        self.cut = 0

    @property
    def enough(self) -> bool:
        """Whether so many canaries were seen that more would say nothing new."""
        return self.whole.total() >= _ENOUGH

    @property
    def findable(self) -> bool:
        """Whether any injected canary has enough tokens to be found."""
        return bool(self._injected)

    @property
    def injected(self) -> bool:
        """Whether an injected canary was seen whole."""
        return not self._injected.isdisjoint(self.whole)

    def see(self, batch: Any, *, training: bool = True) -> None:
        """Read a batch.

        Parameters
        ----------
        batch : Mapping, or array or tensor of int of shape (rows, tokens)
            A mapping holds such as ``input_ids``, and may hold ``attention_mask``, ``labels``
            and ``position_ids`` of the same shape. What else there is is not read.
        training : bool
            Whether the batch is trained on.
        """
        named = batch if isinstance(batch, Mapping) else {"input_ids": batch}
        ids = _array(named.get("input_ids"), None)
        if ids is None:
            return
        self.batches += training
        mask = _array(named.get("attention_mask"), ids.shape)
        labels = _array(named.get("labels"), ids.shape)
        positions = _array(named.get("position_ids"), ids.shape)
        attended = np.ones(ids.shape, bool) if mask is None else mask != 0
        ends = np.where(attended, np.arange(1, ids.shape[1] + 1), 0).max(axis=1, initial=0)
        for row, at, needle in self._found(ids, ends):
            if needle is None:
                self.cut += training
                continue
            if not training:
                self.evaluated[needle.name] += 1
                continue
            self.whole[needle.name] += 1
            place = slice(at + needle.secret, at + len(needle.core))
            if labels is not None and (labels[row, place] == IGNORED).all():
                self.unlabelled[needle.name] += 1
            begin = at if needle.first is None else at - 1
            if begin < 0:  # its first token was cut off: nothing can be said of what came before
                continue
            if needle.first is not None and ids[row, begin] != needle.first:
                self.before[int(ids[row, begin])] += 1  # merged with the text before
                continue
            bare = begin == 0 or not attended[row, begin - 1]
            bare = bare or (positions is not None and positions[row, begin] == 0)
            self.before[None if bare else int(ids[row, begin - 1])] += 1

    @property
    def findings(self) -> dict[str, str]:
        """What is wrong with the batches, a sentence for each kind; empty where nothing is."""
        found = {}
        seen = plural(self.batches, "batch", "batches")
        total = self.whole.total()
        bare = self.unlabelled.total()
        if self.batches and self.findable and not self.injected:
            found["unseen"] = (
                f"no injected canary was seen in {seen} of the training: they may be missing "
                "from its data, cut off by a length limit, or tokenized in another way"
            )
        if self.cut:
            found["cut"] = (
                f"{plural(self.cut, 'canary', 'canaries')} in {seen} ended with the row before "
                "the secret did: a length limit or packing cuts canaries"
            )
        if bare:
            found["labels"] = (
                f"{count(bare)} of {plural(total, 'canary', 'canaries')} in {seen} had no label "
                f"on their secret ({IGNORED}), so the model is not trained on them"
            )
        if controls := sorted(self.whole.keys() - self._injected):
            found["controls"] = (
                f"{controls[0]} was seen in a batch of the training, and a control must never "
                "be there: make the training data with canary inject and this set"
            )
        if self.evaluated:
            found["evaluation"] = (
                f"{plural(len(self.evaluated), 'canary', 'canaries')} appeared in batches "
                "without gradients: evaluation data that holds canaries measures memorization"
            )
        return found

    def _found(self, ids: Ids, ends: Ids) -> Iterator[tuple[int, int, _Needle | None]]:
        """Row, place and needle of each canary; None for one that its row cuts off."""
        if ids.shape[1] < 2 or not len(self._anchors):
            return
        pairs = _key(ids[:, :-1], ids[:, 1:])
        for row, at in np.argwhere(np.isin(pairs, self._anchors)).tolist():
            rest = tuple(ids[row, at : int(ends[row])].tolist())
            needles = self._needles.get(rest[:2], [])
            whole = next((n for n in needles if rest[: len(n.core)] == n.core), None)
            if whole is not None:
                yield row, at, whole
            elif any(n.core[: len(rest)] == rest and len(rest) > n.fixed for n in needles):
                yield row, at, None


def _key(first: Any, second: Any) -> Any:
    return first * 2**31 + second


def _own(encoding: Encoding) -> tuple[int, ...]:
    """The tokens that the tokenizer itself puts before a text."""
    spans = encoding.spans or ()
    length = next((i for i, (a, b) in enumerate(spans) if a != b), 0)
    return encoding.ids[:length]


def _needle(name: str, encoding: Encoding, before: int, after: int) -> _Needle:
    """Of a text whose secret begins at character `before` and ends at `after`."""
    ids, spans = encoding.ids, encoding.spans
    if spans is None:
        return _Needle(name, ids[1:], ids[0], len(ids) // 2, 0)
    own = [i for i, (a, b) in enumerate(spans) if a != b]
    secret = [i for i in own if spans[i][0] < after and spans[i][1] > before]
    first = own[0]
    if first in secret:
        return _Needle(name, ids[first : secret[-1] + 1], None, 0, 0)
    core = ids[first + 1 : secret[-1] + 1]
    fixed = secret[0] - first - 1
    return _Needle(name, core, ids[first], fixed, fixed)


def _array(value: Any, shape: tuple[int, ...] | None) -> Ids | None:
    """Whole numbers of two dimensions, of this shape if one is given; else None."""
    if value is None:
        return None
    if hasattr(value, "detach"):
        value = value.detach().to("cpu").numpy()
    array = np.asarray(value)
    if array.ndim != 2 or array.dtype.kind not in "iub" or (shape and array.shape != shape):
        return None
    return array.astype(np.int64)
