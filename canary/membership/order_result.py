"""What the order test of a test set found, as a file that is read back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from canary.records.about import About, Named
from canary.records.record import Document, Record
from canary.statistics.numbers import Shown, count, plural, probability

KIND, SCHEMA = "canary membership order", 1

LEVEL = 0.01
"""p-values up to this say that the model prefers the order of the file."""

ALARM = 0.025
"""The level of all alarms together that need no look at the model."""

RANDOM = "give a test set whose order was drawn at random"
"""The cure of an order that is special without the model."""

Outcome = Literal["seen", "undecided", "void"]


@dataclass(frozen=True)
class Preference(Record):
    """How much more probable the order of the file is than shuffled orders.

    Parameters
    ----------
    gain : float
        Mean over the places where one text follows another, less that of all orders: in nats, or
        in the unit of what was compared.
    spread : float
        Standard deviation of that number over the shuffles.
    p : float
        The share of orders, this one and the shuffled ones, whose sum is as large or larger.
    shuffles : int
    by_shard : tuple of float
        The gain of each shard; shuffles have 0 in the mean.
    """

    gain: float
    spread: float
    p: float
    shuffles: int
    by_shard: tuple[float, ...] = field(repr=False)

    def _check(self) -> None:
        if not 0.0 < self.p <= 1.0 or self.spread < 0.0 or self.shuffles < 1 or not self.by_shard:
            raise ValueError("is no result of a permutation test")


@dataclass(frozen=True, kw_only=True, repr=False)
class Order(Shown, Named, Document, kind=KIND, schema=SCHEMA):
    """Whether a model prefers the order of a file; see `canary.membership.order.order`.

    Parameters
    ----------
    texts, left_out : int
        Texts that were compared, and empty or last ones that were not.
    shard : int
        Texts that are shuffled among themselves.
    before, after : int
        Tokens of a text that come before the next, and of the next that are scored, at most.
    tokens : int
        That the model computed.
    preference : Preference
        Of the model.
    reference : Preference or None
        Of a model that never saw the file.
    without_model : dict of str to float
        p-values of the same test by what is seen without a model: common words, and whether the
        file is sorted.
    digest : str
        SHA-256 of the texts in their order.
    model, settings : dict
    backward : float or None
        p-value of the same test of the reverse order; None in files of earlier versions.
    """

    texts: int
    left_out: int
    shard: int
    before: int
    after: int
    tokens: int
    preference: Preference
    reference: Preference | None
    without_model: dict[str, float]
    digest: str
    model: dict[str, Any] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    about: About = field(default_factory=About.today)
    file: str = ""
    backward: float | None = None

    def _check(self) -> None:
        if self.backward is not None and not 0.0 < self.backward <= 1.0:
            raise ValueError("has no p-value of the reverse order")
        if self.texts < 2 or self.shard < 2 or not self.without_model:
            raise ValueError("has no two texts, or no alarm")

    @property
    def alarms(self) -> tuple[str, ...]:
        """Why the order of the file may be special for any model; empty if nothing shows it."""
        level = ALARM / len(self.without_model)
        said = [
            f"the order of the file is not random: neighbours are close in {name} (p = "
            f"{probability(p)}, without any model), and any model may prefer such an order"
            for name, p in self.without_model.items()
            if p <= level
        ]
        if self.reference is not None and self.reference.p <= ALARM:
            said.append(
                "the reference model prefers the order of the file as well (p = "
                f"{probability(self.reference.p)}): it is not random, or that model saw it, too"
            )
        return tuple(said)

    @property
    def outcome(self) -> Outcome:
        """Whether the model saw the file in this order; *void* if the order itself is special.

        It is never that the model did not see it: one that saw the texts in another order, or
        forgot the order, looks like this.
        """
        if self.alarms:
            return "void"
        return "undecided" if self.preference.p > LEVEL else "seen"

    @property
    def disorder(self) -> str | None:
        """What looks wrong with the order where the model does not prefer it; None if nothing."""
        if self.outcome != "undecided" or not self.preference.spread:
            return None
        if self.backward is not None and self.backward <= LEVEL:
            return (
                f"The model prefers the reverse of the file's order (p = "
                f"{probability(self.backward)}): the file looks reversed against the training's "
                "order. This is no all-clear: reverse the file and test it again"
            )
        if self.preference.p < 1.0 - LEVEL:
            return None
        return (
            "The model finds nearly every shuffled order more probable than that of the file (p = "
            f"{probability(self.preference.p)}): it looks as if the training had another order. "
            "This is no all-clear: give the file as it was published"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the numbers must know."""
        notes = [f"{one[:1].upper()}{one[1:]}; {RANDOM}" for one in self.alarms]
        if self.disorder is not None:
            notes.insert(0, self.disorder)
        if self.left_out:
            notes.append(f"{plural(self.left_out, 'text')} had no neighbour or no token")
        return tuple(notes)

    def summary(self) -> str:
        """A few lines for a terminal."""
        found, told = self.preference, {
            "seen": "The model prefers the order of the file: it was trained on these texts",
            "void": "Nothing is decided: the order of the file is not random",
            "undecided": "Nothing shows that the model was trained on these texts in this order",
        }  # fmt: skip
        lines = [
            f"{told[self.outcome]} (p = {probability(found.p)})",
            f"{count(self.texts)} texts; each is {found.gain:+.3f} nats more probable after the "
            f"one before it than in shuffled orders (chance: ±{found.spread:.3f})",
        ]
        return "\n".join([*lines, *self.notes])

    def _table(self) -> list[dict[str, Any]]:
        named = {"model": self.preference, "reference": self.reference}
        return [{"by": name, **one.to_dict()} for name, one in named.items() if one is not None]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        yield "order/p", self.preference.p
        yield "order/gain_nats", self.preference.gain
