"""Further passes over texts: in lower case, by a reference model, and over rewritten copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from canary.records.shards import Run
from canary.scoring.batcher import Stage
from canary.signals.text import TokenPrices
from canary.signals.text_pricing import Pricer

REWRITING = "rewriting"
"""With what the names of stages begin that count texts, and not tokens."""

_FLOATS = np.dtype("<f8")


class Rewriter(Protocol):
    """What replaces words of texts by others that fit, such as a masked language model."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Its name and its fingerprint."""
        ...

    def rewrite(self, texts: Sequence[str], *, share: float, rng: np.random.Generator) -> list[str]:
        """Each text with `share` of its words replaced; one that has none is as it was."""
        ...


@dataclass(frozen=True, eq=False)
class Passes:
    """Further passes over the texts that are kept."""

    texts: list[str] = field(repr=False)
    place: Callable[[int], str]
    stage: Stage
    run: Run | None
    pricer: Pricer
    theirs: Pricer | None
    rewriter: Rewriter | None
    settings: Mapping[str, Any]

    def ask(self, name: str) -> TokenPrices:
        """The prices of the texts in lower case, or by the reference model."""
        if name == "lower case":
            return self._price([text.lower() for text in self.texts], self.pricer, name)
        assert self.theirs is not None
        return self._price(self.texts, self.theirs, name)

    def rewrite(self) -> list[NDArray[np.float64]]:
        """The losses of the rewritten copies of each text.

        They are kept pass by pass: a copy that is rewritten again need not be the same to the
        last word on every device, and no text is kept.
        """
        assert self.rewriter is not None
        shards = None if self.run is None else self.run.series("copies")
        losses = [np.frombuffer(one.body, _FLOATS) for one in shards or ()]
        for number in range(len(losses), self.settings["neighbours"]):
            done = self.stage(f"{REWRITING} {number + 1}", len(self.texts))
            rng = np.random.default_rng((self.settings["seed"], number))
            share = self.settings["masked_share"]
            copies = self.rewriter.rewrite(self.texts, share=share, rng=rng)
            done(len(self.texts))
            name = f"copies {number + 1}"
            losses.append(self._price(copies, self.pricer, name, keep=False).losses)
            if shards is not None:
                shards.append({"copies": number + 1}, losses[-1].astype(_FLOATS).tobytes())
        return losses

    def _price(
        self, versions: list[str], by: Pricer, name: str, *, keep: bool = True
    ) -> TokenPrices:
        shards = self.run.series(name.replace(" ", "-")) if keep and self.run else None
        encodings = by.encode(versions, self.place)
        return by.price(encodings, stage=self.stage, name=name, shards=shards).prices
