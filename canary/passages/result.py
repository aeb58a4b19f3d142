"""What a verbatim test returns: numbers and positions of windows, and no text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.models.decoding import Scheme
from canary.passages.extractable import (
    WITHOUT_CONTROLS,
    Extractable,
    Repeated,
    Way,
    share_of,
)
from canary.passages.likeness import Likeness
from canary.passages.misfits import (
    doubts_of,
    known_but_not_repeated,
    likeness_notes,
    measured_how,
    no_better_known,
)
from canary.passages.text_places import Places
from canary.passages.tries import comes_out, tries_for
from canary.records.about import About, Named
from canary.records.record import Document, Extended, Record
from canary.records.validation import brief
from canary.scoring.start_notes import StartChoice
from canary.statistics.clustered import ClusteredShare, clustered_share
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import count, plural

KIND, SCHEMA = "canary verbatim", 1

TRIES = (1, 100, 1_000, 10_000, 1_000_000)
"""Numbers of samples of which all reports say what comes out, and the chance with which."""
CHANCE = 0.5
SHOWN_TRIES = 1_000
"""Of those, the number with which reports say which passages come out."""
_CLOSEST = 5  # texts that are named, and of which fewer come out
_FAR = 1_000 * SHOWN_TRIES

SWAPPED = (
    "The controls come out more often than the texts, as if they were the training data: see "
    "whether texts and controls are swapped"
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Passages(Places):
    """The windows of some documents, and what the model makes of their suffixes.

    Parameters
    ----------
    documents, short, digest, document, position, first_short, ids
        As in `Places`, in tokens.
    suffix : int
        Tokens of a suffix.
    log_probs : tuple of tuple of float
        For each window the log-probability of its suffix under each scheme, in nats.
    leading, longest, trailing : tuple of int
        Tokens of the suffix that are the most probable ones after the true tokens before them:
        from its beginning, of the longest run, and up to its end.
    near : tuple of tuple of float
        For each window the probability that a sample under the first scheme is near its suffix,
        and the ends of its interval; empty if that was not asked.
    copies : tuple of int
        How often the training data have each document that has a window; empty if once.
    repeated : int
        Documents that repeat an earlier one, and are measured once.
    weights : tuple of float
        How many texts of the training data each document that has a window stands for; empty if
        each stands for as many.
    bits_per_token : float, optional
        What a token of a suffix costs the model itself: the median over windows of their means.
    """

    suffix: int
    log_probs: tuple[tuple[Extended, ...], ...] = field(repr=False)
    leading: tuple[int, ...] = field(repr=False)
    longest: tuple[int, ...] = field(repr=False)
    trailing: tuple[int, ...] = field(repr=False)
    near: tuple[tuple[float, float, float], ...] = field(default=(), repr=False)
    copies: tuple[int, ...] = field(default=(), repr=False)
    repeated: int = 0
    weights: tuple[float, ...] = field(default=(), repr=False)
    bits_per_token: Extended | None = None

    def _check(self) -> None:
        super()._check()
        columns = (self.log_probs, self.leading, self.longest, self.trailing, self.near or self)
        if any(len(column) != len(self) for column in columns):
            raise ValueError("has no windows, or not all numbers of each")
        if self.copies and (len(self.copies) != len(set(self.document)) or min(self.copies) < 1):
            raise ValueError("has not the copies of each document")
        if self.weights and (
            len(self.weights) != len(set(self.document)) or min(self.weights) <= 0
        ):
            raise ValueError("has not the weights of each document")
        if any(not 0.0 <= low <= high for _, low, high in self.near):
            raise ValueError("has an interval that is not in order")

    @property
    def greedy(self) -> NDArray[np.bool_]:
        """Whether greedy decoding of each prefix gives the suffix, of shape (windows,).

        The tokens before a place are the true ones here, and in decoding those that it gave. If
        the true token is the most probable one at each place, decoding gives the first of them,
        then sees the same tokens before the second, and so on. If it is not at some place, decoding
        gives another token at the first such place. So both agree, without decoding.
        """
        return np.asarray(np.asarray(self.leading) == self.suffix)

    @property
    def strength(self) -> Floats:
        """Extraction strength of each window: the share of the suffix that need not be given.

        That is the part up to the end that greedy decoding gives once the part before it is given.
        """
        return np.asarray(self.trailing) / self.suffix

    def log_prob(self, scheme: int) -> Floats:
        """Log-probability of each suffix under the scheme of this number, in nats."""
        return np.array([row[scheme] for row in self.log_probs], np.float64)

    @property
    def best(self) -> Floats:
        """Log-probability of each suffix under the scheme that gives it most often, in nats."""
        best: Floats = np.array(self.log_probs, np.float64).max(axis=1)
        return best

    def out(self, tries: int, chance: float) -> NDArray[np.bool_]:
        """Whether each suffix comes out in any way that was measured."""
        found = self.greedy | comes_out(self.best, tries, chance)
        return found | comes_out(self.near_log_prob, tries, chance) if self.near else found

    @property
    def near_log_prob(self) -> Floats:
        """Estimated log-probability that a sample is near each suffix, in nats."""
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(np.minimum([mass for mass, *_ in self.near], 1.0))
        return logs


@dataclass(frozen=True)
class AfterPrefix(Record):
    """The suffixes of a `Verbatim` after another prefix, of `prefix` tokens."""

    prefix: int
    texts: Passages
    controls: Passages | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Verbatim(Repeated, Named, Document, kind=KIND, schema=SCHEMA):
    """What a model repeats of texts; see `canary.passages.verbatim.verbatim`.

    Parameters
    ----------
    texts, controls : Passages, Passages or None
    schemes : tuple of Scheme
        In the order of `Passages.log_probs`.
    confidence : float
        Of all intervals, each over documents.
    model, settings : dict
        The model's facts, and what is needed to measure again.
    others : tuple of AfterPrefix
        The same suffixes after other prefixes, if several were asked for.
    start : StartChoice or None
        What comes before each window, and why; None where it was named.
    likeness : Likeness
        How the texts compare with the controls.
    """

    texts: Passages
    controls: Passages | None
    schemes: tuple[Scheme, ...]
    confidence: float
    model: dict[str, Any] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    others: tuple[AfterPrefix, ...] = field(default=(), repr=False)
    start: StartChoice | None = field(default=None, repr=False)
    likeness: Likeness = field(default=Likeness(), repr=False)
    about: About = field(default_factory=About.today)
    file: str = ""

    _series = "verbatim"

    def _check(self) -> None:
        check_confidence(self.confidence, "verbatim")
        kinds = [self.texts, self.controls]
        kinds += [kind for one in self.others for kind in (one.texts, one.controls)]
        for kind in filter(None, kinds):
            if not self.schemes or any(len(row) != len(self.schemes) for row in kind.log_probs):
                raise ValueError("has not one log-probability for each scheme")

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the numbers must know."""
        notes = [] if self.controls else [WITHOUT_CONTROLS]
        passage = "a passage with the longest prefix" if self.others else "a passage"
        for name, kind in (("texts", self.texts), ("controls", self.controls)):
            if kind:
                notes += kind.left_out(name, kind.repeated, passage)
        if weights := self.texts.weights:
            notes.append(
                f"shares of texts are weighted: the {plural(len(weights), 'text')} measured stand "
                f"for {sum(weights):,.0f} of the training data, each for its weight"
            )
        notes += likeness_notes(self.likeness)
        if self.half_known[0]:
            notes.append(": ".join(self.half_known))
        notes += measured_how(self.settings, self.start, inside=any(self.texts.position))
        return (*notes, *(f"{problem}: {cure}" for problem, cure in self.doubts))

    @property
    def half_known(self) -> tuple[str, str]:
        """Why passages of texts that the model knows may not come out, and the cure; else empty."""
        greedy = float(np.mean(self.texts.greedy)) if len(self.texts) else 0.0
        return known_but_not_repeated(*self._bits, greedy)

    @property
    def _bits(self) -> tuple[float | None, float | None]:
        controls = self.controls
        return self.texts.bits_per_token, controls.bits_per_token if controls else None

    @property
    def no_better_known(self) -> str:
        """What shows that the model may never have read the texts; empty if nothing does."""
        return no_better_known(*self._bits)

    @property
    def doubts(self) -> tuple[tuple[str, str], ...]:
        """Why passages may not come out although the model memorized them, each with its cure."""
        return doubts_of(self.texts.bits_per_token, self.model, self.start, self.likeness)

    def summary(self) -> str:
        """A few lines for a terminal."""
        kind, near = self.texts, self.closest()
        named = ", ".join(f"{kind.called(kind.document[at])} ({t} tries)" for at, t in near.items())
        line = [f"closest to coming out ({100 * CHANCE:g} % chance): {named}"] if near else []
        return self._summary("come out word for word by greedy decoding", line)

    def closest(self) -> dict[int, str]:
        """The nearest passage of each text that is closest to coming out; none if enough do.

        By the place of the passage in `texts`, how many samples of the best scheme give it with
        the chance `CHANCE`. Only texts count of which nothing comes out in `SHOWN_TRIES` samples.
        """
        best, document, found = self.texts.best, np.asarray(self.texts.document), dict[int, str]()
        done = set(document[self.texts.out(SHOWN_TRIES, CHANCE)].tolist())
        most = _CLOSEST if len(done) < _CLOSEST else 0
        order = np.lexsort((-np.asarray(self.texts.longest), -best))
        _, first = np.unique(document[order], return_index=True)
        for at in order[np.sort(first)].tolist():
            if document[at] not in done and len(found) < most:
                tries = float(tries_for(best[at], CHANCE))
                found[at] = count(int(tries)) if tries <= _FAR else f"more than {count(_FAR)}"
        return found

    @cached_property
    def _ways(self) -> Sequence[Way]:
        """By greedy decoding, and within numbers of samples word for word and, if asked, near."""
        found = [Way("greedy decoding", "first try", "greedy", self.greedy_rate())]

        def asked(how: str, metric: str, rate: Callable[..., Extractable]) -> None:
            for tries in TRIES:
                when = f"asked {plural(tries, 'time')}"
                found.append(Way(how, when, f"{metric}_{tries}", rate(tries=tries, chance=CHANCE)))

        for scheme in self.schemes:
            asked(str(scheme), f"asked {scheme}", partial(self.rate, scheme))
        if self.texts.near:
            asked(f"{self.schemes[0]}, within {self.near_edits}", "near", self.near_rate)
        return found

    def _table(self) -> list[dict[str, Any]]:
        """A row for each window after each prefix."""
        measured = [self, *(self.after(one.prefix) for one in self.others)]
        return [
            {
                "kind": name,
                "prefix": one.settings["prefix"],
                "text": kind.ids[kind.document[at]] if kind.ids else kind.document[at] + 1,
                "position": kind.position[at],
                **{f"nats {s}": v for s, v in zip(self.schemes, kind.log_probs[at], strict=True)},
                **{run: getattr(kind, run)[at] for run in ("leading", "longest", "trailing")},
                **dict(zip(("near", "near lower", "near upper"), row, strict=True)),
            }
            for one in measured
            for name, kind in (("texts", one.texts), ("controls", one.controls))
            if kind is not None
            for at, row in enumerate(kind.near or [(None,) * 3] * len(kind))
        ]

    def after(self, prefix: int) -> Verbatim:
        """The result for the same suffixes after another prefix, one of those asked for."""
        known = {one.prefix: one for one in self.others}
        if prefix == self.settings["prefix"]:
            return self
        if prefix not in known:
            asked = ", ".join(map(str, sorted([*known, self.settings["prefix"]])))
            problem = f"a prefix of {brief(prefix)} tokens was not measured"
            raise InputError(problem, cure=f"name one of {asked}", where="prefix")
        one = known[prefix]
        settings = {**self.settings, "prefix": prefix}
        return replace(self, texts=one.texts, controls=one.controls, others=(), settings=settings)

    def by_prefix(self) -> dict[int, Extractable]:
        """`greedy_rate` by the length of the prefix, of which each has the same suffixes."""
        lengths = sorted([self.settings["prefix"], *(one.prefix for one in self.others)])
        return {length: self.after(length).greedy_rate() for length in lengths}

    def by_copies(self) -> dict[tuple[int, int], ClusteredShare]:
        """The share of windows of texts that greedy decoding gives, by the copies of the text.

        Each key is the least and the most copies of a group: 1, 2 to 3, 4 to 7 and so on.
        """
        hits, sizes = self.texts.counted(self.texts.greedy)
        copies = np.array(self.texts.copies or (1,) * len(sizes))
        weights = np.array(self.texts.weights or (1.0,) * len(sizes))
        group = np.frexp(copies)[1]  # 1 for 1, 2 for 2 and 3, ...
        return {
            (int(copies[mine].min()), int(copies[mine].max())): clustered_share(
                hits[mine], sizes[mine], weights[mine], confidence=self.confidence
            )
            for mine in (group == one for one in np.unique(group))
        }

    def greedy_rate(self) -> Extractable:
        """The share of windows whose suffix greedy decoding gives: the first try, and no other."""
        return self._share(lambda kind: kind.greedy)

    def rate(
        self, scheme: Scheme | None = None, *, tries: int = 1, chance: float = 0.5
    ) -> Extractable:
        """The share of windows that come out in `tries` samples of one scheme with this chance.

        `scheme` is one of `schemes`, the first unless given. An InputError if it was not asked for,
        or another value is out of range.
        """
        at = 0
        if scheme is not None:
            if scheme not in self.schemes:
                asked = "; ".join(map(str, self.schemes))
                problem = f"the scheme {scheme} was not measured"
                raise InputError(problem, cure=f"name one of {asked}", where="scheme")
            at = self.schemes.index(scheme)
        return self._share(lambda kind: comes_out(kind.log_prob(at), tries, chance))

    def near_rate(self, *, tries: int = 1, chance: float = 0.5) -> Extractable:
        """The share of windows near which `tries` samples come with at least this chance.

        Under the first scheme, by the estimate of each window. An InputError if `near` was not
        asked for, or a value is out of range.
        """
        if not self.texts.near:
            cure = "measure again with near, such as near=5"
            raise InputError("near passages were not measured", cure=cure, where="near")
        return self._share(lambda kind: comes_out(kind.near_log_prob, tries, chance))

    def near_at(self, end: int) -> Verbatim:
        """The result with this end (1 or 2) of the interval of each near probability as estimate.

        Controls have the other end.
        """

        def moved(kind: Passages, at: int) -> Passages:
            return replace(kind, near=tuple((row[at],) * 3 for row in kind.near))

        controls = self.controls and moved(self.controls, 3 - end)
        return replace(self, texts=moved(self.texts, end), controls=controls)

    @property
    def near_edits(self) -> str:
        """How far from a suffix a near sample may be, in words."""
        edits = plural(int(self.settings["near"]), "edit")
        return edits + " of characters" * ("near_unit" in self.settings)

    def extractable(self, *, tries: int, chance: float = 0.5) -> Extractable:
        """The share of windows that come out in any way: the number that `canary.check` limits.

        That is by greedy decoding or as in `rate` by any scheme. Where near passages were
        measured, what comes near counts too, as in `near_rate`.
        """
        return self._share(lambda kind: kind.out(tries, chance))

    def _share(self, hits: Callable[[Passages], ArrayLike]) -> Extractable:
        kinds = [kind for kind in (self.texts, self.controls) if kind is not None]
        counted = [(*kind.counted(hits(kind)), kind.weights or None) for kind in kinds]
        return share_of(counted, self.confidence)
