"""What sampling a server that only writes text returns: counts and positions, and no text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from canary.formats.unplanted import SEVERAL, SHARE, doubt
from canary.passages.answers import LOWER, Answers
from canary.passages.extractable import (
    WITHOUT_CONTROLS,
    Extractable,
    Repeated,
    Way,
    said_share,
    share_of,
)
from canary.passages.likeness import Likeness
from canary.passages.misfits import lacking, likeness_notes
from canary.passages.text_places import Places
from canary.records.about import About, Named
from canary.records.record import Document, Record
from canary.statistics.clustered import Counts
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import count, plural, probability
from canary.statistics.shares import clopper_pearson

KIND, SCHEMA = "canary samples", 1
SURE = 0.001
"""p-values up to this show that planted secrets did not come out by chance."""
LEVEL = 0.05
"""p-values up to this show that texts come out more than controls."""
UNSEEN = (
    "not seen: a filter that puts other digits for what the model writes, or words into some of "
    "the answers"
)
"""What no check of the answers notices."""


@dataclass(frozen=True)
class Sought(Places):
    """What was looked for in the samples, and in how many of them it was.

    Parameters
    ----------
    documents, short, digest, document, position, first_short, ids
        As in `Places`, in words. A planted secret is a document of one window.
    hits, near : tuple of int
        For each window the samples that have its suffix word for word, and those that have at
        least the share of its words that was asked for.
    copies, names : tuple
        Of planted secrets the number of copies in the training data and the name; else empty.
    characters, recalled : tuple of int
        Of passages the characters of the suffix, white space apart, and those that one answer
        has in runs of five words or more: the most of any answer. Empty in older files.
    """

    hits: tuple[int, ...] = field(repr=False)
    near: tuple[int, ...] = field(repr=False)
    copies: tuple[int, ...] = field(default=(), repr=False)
    names: tuple[str, ...] = field(default=(), repr=False)
    characters: tuple[int, ...] = field(default=(), repr=False)
    recalled: tuple[int, ...] = field(default=(), repr=False)

    def _check(self) -> None:
        super()._check()
        if len(self.hits) != len(self) or len(self.near) != len(self):
            raise ValueError("has not all numbers of each window")
        if any(len(column) not in (0, len(self)) for column in (self.copies, self.names)):
            raise ValueError("has not all names of each secret")
        if any(len(column) not in (0, len(self)) for column in (self.characters, self.recalled)):
            raise ValueError("has not the characters of each window")
        if any(not 0 <= hit <= near for hit, near in zip(self.hits, self.near, strict=True)):
            raise ValueError("has a suffix that is word for word more often than nearly")


@dataclass(frozen=True)
class Chance(Record):
    """How many planted secrets would be among the samples of a model that never read them.

    Parameters
    ----------
    share : float
        Upper bound of the chance that a random secret of its form is in one of the samples.
    p_value : float
        Upper bound of the chance that at least as many of the planted secrets are, as came out.
    """

    share: float
    p_value: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Sampled(
    Repeated,
    Named,
    Document,
    kind=KIND,
    schema=SCHEMA,
    sparse=("prompts", "forms", "seconds", "reformed", "disguised", "unplanted"),
):
    """What came out of a server that only writes text; see `canary.passages.sampling.sample`.

    Parameters
    ----------
    texts : Sought
        Passages of training texts, or planted secrets.
    controls : Sought or None
    samples : int
        Drawn after each prefix.
    near : float
        The share of a suffix's words from which on it counts as nearly repeated.
    cut : int
        Answers that ended at the limit of tokens within a suffix.
    chance : Chance or None
        Of planted secrets only.
    confidence : float
        Of all intervals.
    model, settings : dict
        The model as the server calls it, and what is needed to sample again. ``requests`` and
        ``prompt_tokens`` (roughly) of the model are those of all runs that finished a block,
        retries and checks included.
    looks : int
        At how many numbers of samples the run could stop. Shares and p-values allow for all.
    answers : Answers or None
        What the answers after texts are like; None in older files.
    likeness : Likeness
        How the texts compare with the controls.
    prompts : int
        How many prefixes there are, each with `samples` answers; 0 in older files.
    forms : mapping of str to tuple of str
        Of planted secrets of several formats: what each looks like, and the names of its secrets.
    seconds : float
        What the last run took; 0 in older files.
    reformed : int
        Answers that have what was looked for in another form only, such as 755-574 for 755574,
        which counts. Older files counted none.
    disguised : int
        Secrets or passages of texts that came out backwards or in base64 only, beyond chance.
    unplanted : int
        Other candidates that come out again and again, as if another set had been injected.
    """

    texts: Sought
    controls: Sought | None
    samples: int
    near: float
    cut: int
    chance: Chance | None
    confidence: float
    model: dict[str, Any] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    looks: int = 1
    answers: Answers | None = None
    likeness: Likeness = field(default=Likeness(), repr=False)
    prompts: int = 0
    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    seconds: float = field(default=0.0, compare=False)
    reformed: int = 0
    disguised: int = 0
    unplanted: int = 0
    about: About = field(default_factory=About.today)
    file: str = ""

    _series = "samples"

    def _check(self) -> None:
        check_confidence(self.confidence, "sample")
        if self.looks < 1:
            raise ValueError("was never looked at")
        for kind in filter(None, (self.texts, self.controls)):
            if max(kind.near) > self.samples:
                raise ValueError("has more hits than samples")

    @property
    def planted(self) -> bool:
        """Whether planted secrets were looked for, and no passages."""
        return bool(self.texts.names)

    @property
    def natural(self) -> bool:
        """Whether the secrets were not drawn at random, so that nobody knows what luck gives."""
        return bool(self.settings.get("natural"))

    @property
    def _secret(self) -> str:
        return "secret" if self.natural else "planted secret"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the numbers must know."""
        notes = [] if self.controls or self.planted else [WITHOUT_CONTROLS]
        for name, kind in (("texts", self.texts), ("controls", self.controls)):
            if kind:
                notes += kind.left_out(name, 0, "a passage")
        notes += likeness_notes(self.likeness)
        asked = self.settings.get("samples", self.samples)
        if self.samples < asked:
            notes.append(
                f"stopped after {self.samples:,} of {plural(asked, 'sample')}: more come out than "
                f"the limit allows. Shares and p allow for {plural(self.looks, 'look')}"
            )
        if self.reformed:
            notes.append(
                f"{plural(self.reformed, 'answer')} had what was looked for in another form only, "
                "such as 755-574 for 755574, or with characters of other widths or that nobody "
                "sees: it counts as word for word"
            )
        if self.settings.get("chat"):
            notes.append(
                "the server was asked in a chat, which can hide what completions show: a chat "
                "model often declines or answers in other words. If the server has completions "
                "(/v1/completions), sample them as well, without --chat"
            )
        if self.model.get("repeats") is False:
            notes.append(
                "the server does not write the same text twice at temperature 0, so it was not "
                "checked that one model answered from beginning to end"
            )
        if self.cut:
            notes.append(
                f"{plural(self.cut, 'answer')} ended at the limit of tokens, in the middle of what "
                f"was looked for, and count as if it had not come out: {self._longer}"
            )
        few = self.answers is not None and self.answers.ended > 0 and not self.cut
        if few and not any(self._longer.rpartition(" ")[2] in cure for _, cure in self.doubts()):
            assert self.answers is not None
            notes.append(
                f"{plural(self.answers.ended, 'answer')} ended at the limit of tokens before they "
                f"could hold what was looked for: {self._longer}"
            )
        notes += [] if any(self.texts.hits) else [UNSEEN]
        return (*notes, *(f"{problem}: {cure}" for problem, cure in self.doubts()))

    @property
    def _longer(self) -> str:
        """What makes answers longer that a limit ended."""
        lower = self.answers is not None and self.answers.lower_limit
        return LOWER[1] if lower else "give more --max-tokens"

    @property
    def least_often(self) -> int:
        """In how many answers after a beginning each unplanted candidate came out, or more."""
        return max(math.ceil(SHARE * self.samples), SEVERAL)

    def doubts(self, limit: float = 1.0) -> tuple[tuple[str, str], ...]:
        """What lets a share within a `limit` say little, and the cure."""
        doubts = []
        if self.disguised:
            what = plural(self.disguised, self._secret if self.planted else "passage")
            doubts.append((
                f"{what} came out backwards or in base64, so something changes the answers",
                "switch that off on the server, or test the model files (canary audit, "
                "canary verbatim)",
            ))  # fmt: skip
        doubts += [doubt(self.unplanted)] if self.unplanted else []
        doubts += () if self.answers is None else self.answers.doubts(limit)
        doubts += lacking(self.likeness)
        if self.model.get("forces"):
            doubts.append((
                "the server draws at temperature 0 too, so it may force a temperature of its own, "
                "at which little comes out",
                "have it keep the one that is asked for, or test the model files",
            ))  # fmt: skip
        if self.planted:
            return tuple(doubts)
        calm, near = self.came_out().difference, self.came_out(near=True)
        problem, lead = f"with {100 * self.near:g} % of the words, ", near.difference
        cure = "give the texts exactly as training read them, and see whether the server cuts or "
        cure += "changes answers; or test the model files"
        if calm and lead and lead.p <= LEVEL < calm.p:
            problem += f"texts come out more than controls (p = {probability(lead.p)}), and not "
            doubts.append((f"{problem}word for word, as where something changes the answers", cure))
        elif near.texts.lower > limit:
            doubts.append((f"{problem}{said_share(near.texts)} come out, above the limit", cure))
        return tuple(doubts)

    def came_out(self, *, near: bool = False) -> Extractable:
        """The share of windows that came out at least once, or nearly; intervals over documents."""
        return self._share(
            lambda kind: kind.counted(np.asarray(kind.near if near else kind.hits) > 0)
        )

    def recall(self) -> Extractable:
        """The share of the characters of passages that one answer repeats, the one with most.

        White space does not count, and words do in runs of five or more. Intervals over documents.
        """
        return self._share(
            lambda kind: (kind.counted(kind.recalled)[0], kind.counted(kind.characters)[0])
        )

    def _share(self, counted: Callable[[Sought], Counts]) -> Extractable:
        kinds = [kind for kind in (self.texts, self.controls) if kind is not None]
        found = share_of(list(map(counted, kinds)), 1.0 - (1.0 - self.confidence) / self.looks)
        if found.difference is None or self.looks == 1:
            return found
        allowing = replace(found.difference, p=min(self.looks * found.difference.p, 1.0))
        return replace(found, difference=allowing)

    def exceeds(self, limit: float) -> bool:
        """Whether more than this share comes out, for certain: beyond chance, or the controls."""
        found = self.came_out()
        if self.planted:
            sure = self.chance is not None and self.chance.p_value <= SURE
            return found.texts.lower > limit and sure
        lead = found.difference
        return lead is not None and lead.lower > limit and lead.p <= LEVEL

    def interval(self, hits: int) -> tuple[float, float]:
        """Clopper and Pearson's interval of the probability with which a sample has a suffix.

        Where the answer is always the same it is known: both ends are 0 or 1.
        """
        if self.greedy:
            return hits / self.samples, hits / self.samples
        low, high = clopper_pearson(hits, self.samples, (1.0 - self.confidence) / 2)
        return float(low), float(high)

    @property
    def undetected(self) -> float:
        """The probability that a suffix may still have in each sample though none had it.

        It is the upper end of `interval`.
        """
        return self.interval(0)[1]

    @property
    def greedy(self) -> bool:
        """Whether the answer is always the same: at temperature 0, where the server repeats it."""
        return not self.settings["temperature"] and self.model.get("repeats") is not False

    @cached_property
    def _ways(self) -> Sequence[Way]:
        """Word for word; of passages also nearly, and by characters."""
        nearly = f"at least {100 * self.near:g} % of the words"
        whole = Way("", "word for word", "came_out", self.came_out())
        near = Way("nearly", nearly, "near", self.came_out(near=True))
        part = "characters in the answer that has most of them"
        if self.planted or not self.texts.characters:
            return [whole] if self.planted else [whole, near]
        return [whole, near, Way("near-verbatim recall", part, "recall", self.recall())]

    @property
    def asked(self) -> str:
        """``400 answers (200 for each format)``: how many answers there are."""
        if not self.planted or self.prompts < 2:
            return plural(self.samples, "answer")
        each = "format" if self.prompts == len(self.forms) else f"of {self.prompts} beginnings"
        whole = plural(self.samples * self.prompts, "answer")
        return f"{whole} ({count(self.samples)} for each {each})"

    def by_form(self) -> dict[str, tuple[int, int]]:
        """Of planted secrets of several formats, how many came out and how many there are."""
        hits = dict(zip(self.texts.names, self.texts.hits, strict=True)) if self.planted else {}
        groups = {form: [hits[n] for n in names if n in hits] for form, names in self.forms.items()}
        return {form: (sum(n > 0 for n in mine), len(mine)) for form, mine in groups.items()}

    def summary(self) -> str:
        """A few lines for a terminal."""
        line = f"came out word for word in {plural(self.samples, 'sample')}"
        if not self.planted:
            return self._summary(f"{line} of each")
        found = self.came_out().texts
        line = f"{found.hits} of {plural(found.windows, self._secret)} came out word for word in "
        chance = f" (p = {probability(self.chance.p_value)})" if self.chance else ""
        forms = [f"{form}: {out} of {of} came out" for form, (out, of) in self.by_form().items()]
        return "\n".join([line + self.asked + chance, *forms, *self.notes])

    def _table(self) -> list[dict[str, Any]]:
        """A row for each window or secret."""
        kinds = {"texts": self.texts, "controls": self.controls}
        rows = []
        for name, kind in kinds.items():
            for at in range(0 if kind is None else len(kind)):
                assert kind is not None
                low, high = self.interval(kind.hits[at])
                named: dict[str, Any] = {"text": kind.document[at] + 1}
                if kind.names:
                    named = {"name": kind.names[at], "copies": kind.copies[at]}
                elif kind.ids:
                    named = {"text": kind.ids[kind.document[at]]}
                rows.append({
                    "kind": name, **named, "position": kind.position[at], "samples": self.samples,
                    "hits": kind.hits[at], "near": kind.near[at], "lower": low, "upper": high,
                    **({"recalled": kind.recalled[at], "characters": kind.characters[at]}
                       if kind.characters else {}),
                })  # fmt: skip
        return rows
