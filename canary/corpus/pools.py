"""Pools of texts that a model made: canaries by coins, and the others as their controls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.consistency import check_texts
from canary.errors import InputError
from canary.formats.format import Format
from canary.formats.passages import as_literal
from canary.records.record import Document
from canary.records.sealing import sealed
from canary.statistics.numbers import Shown, plural

KIND = "canary pool"


@dataclass(frozen=True, repr=False)
class Pool(Shown, Document, kind=KIND, cure="sample it again with sample_pool"):
    """Texts that were sampled from one model in one way; it holds what will be secrets.

    Parameters
    ----------
    texts : tuple of str
        All different, none within another. Each follows `prompt` and was made after it.
    bits : tuple of float
        Of each text, under the model and at temperature 1: bits per token.
    band : (float, float)
        Within which `bits` are.
    temperature, tokens : float, int
        How the texts were sampled, and the tokens of each.
    prompt, start_token : str, str or None
        What was before each text. The prompt is the fixed text of the canaries' format.
    model, fingerprint : str
        The model's name, and the SHA-256 of its parameters.
    seed : int

    Raises
    ------
    InputError
        If a text is there twice or within another, or its bits are not in the band.
    """

    texts: tuple[str, ...]
    bits: tuple[float, ...]
    band: tuple[float, float]
    temperature: float
    tokens: int
    prompt: str
    start_token: str | None
    model: str
    fingerprint: str
    seed: int

    @sealed
    def __post_init__(self) -> None:
        if len(set(self.texts)) < len(self.texts):
            raise InputError(
                f"{plural(len(self.texts) - len(set(self.texts)), 'text')} of the pool are there "
                "twice, so a control could be a canary",
                cure="remove them, or sample the pool again",
                where="pool",
            )
        check_texts([(f"text {number}", text) for number, text in enumerate(self.texts, start=1)])
        low, high = self.band
        if len(self.bits) != len(self.texts) or not all(low <= b <= high for b in self.bits):
            raise InputError(
                f"texts of the pool are not between {low:g} and {high:g} bits per token, so they "
                "were not sampled as the others, and are no controls of theirs",
                cure="sample the pool again",
                where="pool",
            )

    def __repr__(self) -> str:
        return f"<Pool of {plural(len(self.texts), 'text')} of {self.tokens} tokens>"

    def summary(self) -> str:
        """How many texts, and how they were sampled; no text."""
        low, high = min(self.bits, default=0.0), max(self.bits, default=0.0)
        return (
            f"{plural(len(self.texts), 'text')} of {self.tokens} tokens, sampled from {self.model} "
            f"at temperature {self.temperature:g}, {low:.2f} to {high:.2f} bits per token"
        )

    def _table(self) -> list[dict[str, Any]]:
        return [{"text": n, "bits": b} for n, b in enumerate(self.bits, start=1)]

    @sealed
    def canaries(
        self,
        *,
        repetitions: Sequence[int] = (1, 4, 16),
        per_repetition: int = 8,
        seed: int | None = None,
        coin_flips: bool = True,
        role: str = "",
    ) -> CanarySet:
        """A set of all texts of the pool: some are drawn as canaries, all others are controls.

        With coins, each of those drawn goes in or stays out by a fair coin. Whether it is a
        canary has nothing to do with a text, so the controls are exchangeable with the canaries,
        and a canary's place among them has an exact p-value, whatever the model.

        Parameters
        ----------
        repetitions, per_repetition, seed, coin_flips, role
            As for `canary.generate`.

        Raises
        ------
        InputError
            If less than half of the pool would be left as controls.
        FormatError
            If a text of the pool begins another.
        """
        wanted = len(set(repetitions)) * per_repetition
        check_pool(len(self.texts), wanted)
        return generate(
            Format(f"{as_literal(self.prompt)}{{text}}", words=self.texts),
            repetitions=repetitions,
            per_repetition=per_repetition,
            controls=len(self.texts) - wanted,
            seed=seed,
            coin_flips=coin_flips,
            role=role,
        )


def check_pool(texts: int, wanted: int) -> None:
    """Refuse to draw so many canaries from a pool that less than half of it would be controls."""
    if 2 * wanted > texts:
        raise InputError(
            f"{wanted} canaries from a pool of {plural(texts, 'text')} leave too few controls",
            cure=f"sample {2 * wanted} texts or more; for p = 0.01, 100 must be controls",
            where="per_repetition",
        )


def joined(pools: Iterable[Pool]) -> Pool:
    """One pool of several that were sampled in the same way, with other seeds.

    An InputError if they differ in the model, the temperature or anything else: their texts would
    not be exchangeable. Texts that are in several are there once.
    """
    first, *others = pools
    alike = replace(first, texts=(), bits=())
    texts = dict(zip(first.texts, first.bits, strict=True))
    for other in others:
        for name, value in vars(replace(other, texts=(), bits=())).items():
            if name != "seed" and value != getattr(alike, name):
                raise InputError(
                    f"the pools differ in their {name}, so their texts are not exchangeable: a "
                    "rank among them would show how they were sampled",
                    cure="join pools of one model, temperature, band, prompt and length",
                    where="pool",
                )
        texts |= zip(other.texts, other.bits, strict=True)
    return replace(first, texts=tuple(texts), bits=tuple(texts.values()))
