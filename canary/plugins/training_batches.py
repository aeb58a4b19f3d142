"""What the batches of a training hold of a canary set: how often, after what, with what label.

A batch is token ids, with a mask, labels and positions if there are such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from canary.audits.history import MOST_COUNTED
from canary.corpus.canaries import CanarySet
from canary.corpus.causes import CHANGED
from canary.models.language_model import LanguageModel
from canary.plugins.batch_rows import Ids, array_of, begin_of, ends_of, pair_key
from canary.plugins.live import Listener, several
from canary.records.validation import AUTO, named_start
from canary.scoring.run_options import RunOptions
from canary.scoring.start_choice import choose_start
from canary.statistics.numbers import count, plural
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.starts import possible_starts, shown_start
from canary.tokens.tokenizer import Encoding, Tokenizer

IGNORED = -100
"""The label of a token that the loss leaves out, in torch and `transformers`."""

_ROUNDING = 1e-6  # of an epoch

WITHIN = "other text"
"""Before a canary, in `TrainingBatches.after`: a token that is no start."""


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

    @classmethod
    def of(cls, name: str, encoding: Encoding, begin: int, end: int) -> _Needle:
        """Of a text whose secret is its characters from `begin` to `end`."""
        ids, spans = encoding.ids, encoding.spans
        if spans is None:
            return cls(name, ids[1:], ids[0], len(ids) // 2, 0)
        own = [i for i, (left, right) in enumerate(spans) if left != right]
        secret = [i for i in own if spans[i][0] < end and spans[i][1] > begin]
        first, behind = own[0], secret[-1] + 1
        if first in secret:
            return cls(name, ids[first:behind], None, 0, 0)
        fixed = secret[0] - first - 1
        return cls(name, ids[first + 1 : behind], ids[first], fixed, fixed)


def _context_of(tokenizer: Tokenizer, context: str) -> tuple[int, ...]:
    """The tokens of a context, without those that the tokenizer puts around a text."""
    if not context:
        return ()
    (encoding,) = CandidateEncoder(tokenizer).encode([context])
    spans = encoding.spans or [(0, 1)] * len(encoding.ids)
    return tuple(
        token for token, (left, right) in zip(encoding.ids, spans, strict=True) if left < right
    )


class TrainingBatches:
    """Finds canaries in the batches of a training, counts them, and reads the start token off.

    `say` is told what a user must hear at once, by kind. While `busy` is up, forwards of the
    module that `listener` hears are the monitor's own, and not read.

    Attributes
    ----------
    batches : int
        Batches with gradients that were read.
    whole, unlabelled, masked, evaluated : Counter of str
        By canary id, how often it was seen whole; how often so without a label on a token
        of its secret; how often of these with one on its text before the secret; and how often in
        a batch without gradients, as an evaluation has them.
    cut, begun : Counter of int
        By the tokens of its row, or of its part of a packed row: canaries that end with it before
        their secret does, and before their secret begins. Other text may begin like a canary.
    before : Counter of (int or None)
        The token before each canary that was seen whole, or before the context if that comes
        before it; None where its row began, the mask hid what came before, or its position was 0.
    leads : Counter of tuple of int
        What came before it in its row or, in packed rows with positions, in its own part.
    own : tuple of int
        The tokens that the tokenizer itself puts before a text.
    """

    def __init__(
        self,
        canaries: CanarySet,
        tokenizer: Tokenizer,
        options: RunOptions,
        say: Callable[[Mapping[str, str]], None],
    ) -> None:
        self._options, self._say, self._formats = options, say, canaries.formats
        starts = possible_starts(tokenizer, 2**31)
        self._names = {ids[0]: token for token, ids in starts.items() if ids}
        self._chosen = options.start_token == AUTO
        self._token = None if self._chosen else named_start(options.start_token)
        if self._token is not None:
            (given,) = CandidateEncoder(tokenizer, self._token).start
            self._names[given] = self._token
        self.listener = Listener(self._hear)
        self.busy = False
        whole, canaries = canaries, canaries.written
        texts = [canaries.text(canary) for canary in canaries]
        names = [canary.id for canary in whole for _ in whole.names(canary)]
        encodings = CandidateEncoder(tokenizer).encode(texts)
        spans = encodings[0].spans or ()
        length = next((i for i, (left, right) in enumerate(spans) if left != right), 0)
        self.own = encodings[0].ids[:length]
        self._context = _context_of(tokenizer, options.context)
        self._needles: dict[tuple[int, ...], list[_Needle]] = {}
        self._injected: set[str] = set()
        self._missing: Counter[str] = Counter()  # copies of an epoch that were not yet seen
        self._earlier, self._within, self._first_epoch = 0, False, -1
        for canary, name, text, encoding in zip(canaries, names, texts, encodings, strict=True):
            format = canaries.formats[canary.format]
            end = len(text) - len(format.suffix)
            needle = _Needle.of(name, encoding, len(format.prefix), end)
            if len(needle.core) > 1:
                self._needles.setdefault(needle.core[:2], []).append(needle)
                self._injected |= {name} if canary.repetitions else set()
                self._missing[name] += canary.repetitions
        self._anchors = np.array(sorted(pair_key(a, b) for a, b in self._needles), np.int64)
        self.batches = 0
        self.cut: Counter[int] = Counter()
        self.begun: Counter[int] = Counter()
        self.whole: Counter[str] = Counter()
        self.unlabelled: Counter[str] = Counter()
        self.masked: Counter[str] = Counter()
        self.shifted = self.odd = 0  # with labels of the next tokens, or of other ones
        self._twice = 0  # shifted ones that were given to a loss that shifts them again
        self.evaluated: Counter[str] = Counter()
        self.before: Counter[int | None] = Counter()
        self.leads: Counter[tuple[int, ...]] = Counter()

    def special(self, token: int) -> bool:
        """Whether a token is one that the tokenizer names as special."""
        return len(self._names.get(token) or "") > 1

    @property
    def findable(self) -> bool:
        """Whether any injected canary has enough tokens to be found."""
        return bool(self._injected)

    @property
    def injected(self) -> bool:
        """Whether an injected canary was seen whole."""
        return not self._injected.isdisjoint(self.whole)

    def _hear(self, batch: dict[str, Any], training: bool) -> None:  # noqa: FBT001
        enough = several() or not self._missing.total()  # one of several reads a part of them
        if self.busy or (enough and self.whole.total() >= MOST_COUNTED):
            return
        before = self.shifted
        try:
            self.see(batch, training=training)
            if self.listener.shifts and batch.get("shift_labels") is None:
                self._twice += self.shifted - before
        except Exception as error:
            self._say({"unread": f"a batch could not be read ({type(error).__name__})"})

    def see(self, batch: Any, *, training: bool = True) -> None:
        """Read a batch; `training` says whether it is trained on.

        It is an array or tensor of int of shape (rows, tokens), or a mapping with such as
        ``input_ids``, which may hold ``attention_mask``, ``labels`` and ``position_ids`` of the
        same shape. What else there is is not read.
        """
        named = batch if isinstance(batch, Mapping) else {"input_ids": batch}
        ids = array_of(named.get("input_ids"), None)
        if ids is None:
            return
        self.batches += training
        mask = array_of(named.get("attention_mask"), ids.shape)
        labels = array_of(named.get("labels"), ids.shape)
        positions = array_of(named.get("position_ids"), ids.shape)
        attended = np.ones(ids.shape, bool) if mask is None else mask != 0
        ends = ends_of(attended, positions)
        for row, at, needle in self._found(ids, ends):
            left = int(ends[row, at]) - at
            if left < len(needle.core):
                cut = self.cut if left > needle.fixed else self.begun
                cut[at + left - begin_of(attended, positions, row, at)] += training
                continue
            if not training:
                self.evaluated[needle.name] += 1
                continue
            self.whole[needle.name] += 1
            self._missing[needle.name] -= self._missing[needle.name] > 0
            secret = slice(at + needle.secret, at + len(needle.core))
            if labels is not None:
                bare, known = labels[row, secret] == IGNORED, needle.secret or needle.first is None
                own = self._compare(labels[row, secret], ids[row, secret.start : secret.stop + 1])
                if bare.all() or (own and known and bare.any()):
                    self.unlabelled[needle.name] += 1
                    counted = (labels[row, at : secret.start] != IGNORED).any()
                    self.masked[needle.name] += int(counted)
            begin = at if needle.first is None else at - 1
            if begin < 0:  # its first token was cut off: nothing can be said of what came before
                continue
            if needle.first is not None and ids[row, begin] != needle.first:
                self.before[int(ids[row, begin])] += 1  # merged with the text before
                continue
            lead = ids[row, begin_of(attended, positions, row, begin) : begin].tolist()
            self.leads[tuple(lead)] += 1
            given = len(self._context)
            if given and tuple(lead[-given:]) == self._context:
                lead = lead[:-given]  # the start token comes before the context
            self.before[lead[-1] if lead else None] += 1

    def _compare(self, labels: Ids, tokens: Ids) -> bool:
        """Whether labels on a secret are its `tokens`, of which one more may be there.

        Others are counted.
        """
        own, following = tokens[: len(labels)], tokens[1:]
        if ((labels == own) | (labels == IGNORED)).all():
            return True
        near = labels[: len(following)]
        shifted = ((near == following) | (near == IGNORED)).all()
        self.shifted += bool(shifted)
        self.odd += not shifted
        return False

    def _found(self, ids: Ids, ends: Ids) -> Iterator[tuple[int, int, _Needle]]:
        """Row, place and needle of each canary, also of those that end with their row too early."""
        if ids.shape[1] < 2 or not len(self._anchors):
            return
        pairs = pair_key(ids[:, :-1], ids[:, 1:])
        for row, at in np.argwhere(np.isin(pairs, self._anchors)).tolist():
            rest = tuple(ids[row, at : ends[row, at]].tolist())
            needles = self._needles.get(rest[:2], [])
            alike = [n for n in needles if rest[: len(n.core)] == n.core[: len(rest)]]
            if alike:  # one that is there whole, or of which most is there
                yield row, at, min(alike, key=lambda n: (len(n.core) > len(rest), n.fixed))

    def now(self, model: LanguageModel) -> tuple[str | None, tuple[str | None, ...]]:
        """The start token for a measurement of the model as it is.

        Beside it, others that training may have used, under which a limit is checked too.
        """
        common = next(iter(self.after()), WITHIN)
        seen = common != WITHIN
        names = {shown_start(token): token for token in self._names.values()}
        if not self._chosen:
            differs = seen and common != shown_start(self._token)
            return self._token, (names.get(common),) if differs else ()
        if seen:
            self._token = names.get(common)
            return self._token, ()
        choice = choose_start(model, self._formats, self._options)
        self._token = choice.token
        others = [tried.token for tried in choice.tried if tried.contender]
        if not choice.own and all(format.prefix for format in self._formats):
            others.append(None)
        return self._token, tuple(token for token in dict.fromkeys(others) if token != self._token)

    def after(self) -> dict[str, int]:
        """How many canaries were seen after each start, as messages name it; most first."""
        counts: Counter[str] = Counter()
        for token, times in self.before.items():
            name = shown_start(self._names[token]) if token in self._names else WITHIN
            if token is None or token in self.own[-1:]:
                name = shown_start(None)
            counts[name] += times
        return dict(counts.most_common())

    @property
    def findings(self) -> dict[str, str]:
        """What a user must hear of the batches, a sentence for each kind that is wrong."""
        sentences = {}
        seen = plural(self.batches, "batch", "batches")
        if self.batches and self.findable and not self.injected:
            sentences["unseen"] = (
                f"no injected canary was seen in {seen} of the training: they may be missing, cut "
                "off by a length limit, or in another form: canary.preflight says which"
            )
        if cut := self.cut.total():
            sentences["cut"] = (
                f"{plural(cut, 'canary', 'canaries')} in {seen} ended with the row before "
                "the secret did: a length limit or packing cuts canaries"
            )
        if bare := self.unlabelled.total():
            total = plural(self.whole.total(), "canary", "canaries")
            sentences["labels"] = (
                f"{count(bare)} of {total} in {seen} had no label on their secret ({IGNORED}), "
                "or on a part of it, so the model is not trained on them"
            )
        if self.odd:
            sentences["odd labels"] = (
                f"{plural(self.odd, 'canary', 'canaries')} in {seen} had labels on the secret that "
                "are other tokens, so the model learns something else"
            )
        if self._twice:
            sentences["labels shifted"] = (
                f"the labels of {plural(self._twice, 'canary', 'canaries')} in {seen} were shifted "
                "by one, and transformers shifts them itself: give the input_ids as labels"
            )
        if controls := sorted(self.whole.keys() - self._injected):
            sentences["controls"] = (
                f"{controls[0]} was seen in a batch of the training, and a control must never "
                "be there: make the training data with canary inject and this set"
            )
        if self.evaluated:
            sentences["evaluation"] = (
                f"{plural(len(self.evaluated), 'canary', 'canaries')} appeared in batches "
                "without gradients: evaluation data that holds canaries measures memorization"
            )
        if not self.batches:
            sentences["no batch"] = (
                "no batch of the training was seen: no forward of the model that was given to "
                "start or step computed gradients. If that is the model that is trained, show "
                "its batches with see(batch); the start token cannot be read off them"
            )
        if start := self._start_finding():
            sentences["start"] = start
        own, found = self._context, self.whole.total()
        alike = sum(n for lead, n in self.leads.items() if lead[-len(own) :] == own)
        if own and 2 * alike < found:
            sentences["context"] = (
                f"{count(alike)} of {plural(found, 'canary', 'canaries')} in {seen} followed the "
                "context: apply the chat template, or give the text that is before them as context"
            )
        return sentences

    def _start_finding(self) -> str | None:
        """What is wrong with what comes before the canaries."""
        after, priced = self.after(), shown_start(self._token)
        words = ", ".join(f"{name} before {count(n)}" for name, n in list(after.items())[:4])
        common = next(iter(after), None)
        if common is None:
            if not self._chosen or not self.batches:
                return None
            return (
                "no canary was seen in any batch, so the start token was chosen by text "
                f"without secrets: {priced}"
            )
        if not self._chosen and common != priced:
            total = plural(sum(after.values()), "canary", "canaries")
            return (
                f"start_token={priced} was given, and of {total} in the batches there was {words}: "
                "exposure may be too low; leave start_token out"
            )
        if common == WITHIN:
            cure = "give the text before them as context" if self.leads else CHANGED
            changed = "begin with another token than their own, or " * (not self.leads)
            return (
                f"most canaries {changed}were seen within other text ({words}); candidates are "
                f"scored after {priced}, so exposure may be too low: {cure}"
            )
        if len(after) > 1:
            return (
                f"canaries were seen after different starts ({words}); candidates are scored "
                "after the most common one"
            )
        return None

    def at_epoch(self, epoch: float | None) -> None:
        """Note how many copies were counted in the first epoch, when it is over."""
        if epoch is not None and epoch < 1.0 - _ROUNDING:
            self._within = True
        elif epoch is not None and self._within and self._first_epoch < 0:
            self._first_epoch = self._earlier + self.whole.total()

    def resume(self, seen: Mapping[str, Any]) -> None:
        """Count on from what a history says of the batches before a checkpoint."""
        if "missing" in seen:
            self._earlier, self._missing = int(seen["canaries"]), Counter(seen["missing"])
            self._first_epoch = int(seen.get("first_epoch", -1))

    def to_dict(self) -> dict[str, Any]:
        """What was seen, as plain data for a history."""
        seen = {
            "read": self.batches,
            "canaries": self._earlier + self.whole.total(),
            "after": self.after(),
            "findings": list(self.findings.values()),
        }
        if several():
            return seen
        seen["missing"] = {name: n for name, n in self._missing.items() if n}
        return seen | ({"first_epoch": self._first_epoch} if self._first_epoch >= 0 else {})
