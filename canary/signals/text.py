r"""Signals of a text: what a language model says of its tokens, and what else is like it.

With ``l_t`` the log-probability of token ``t`` of the ``n`` priced tokens of a text, in nats:

==============  ================================================================  ======
signal          formula                                                           member
==============  ================================================================  ======
loss            ``-sum_t l_t / n``: nats per token                                low
total-loss      ``-sum_t l_t``: nats of the whole text                            low
zlib            ``loss / Z``, ``Z`` the bytes of the text compressed by zlib      low
total-zlib      ``total-loss / (8 Z ln 2)``: bits needed by the model per bit      low
                needed by zlib
lower-case      ``loss(text) / loss(text in lower case)``                         low
reference       ``(total-loss - total-loss of the reference model) / n``          low
min-k           mean of the ``k n`` lowest ``l_t``                                high
min-k++         mean of the ``k n`` lowest ``(l_t - m_t) / s_t``, ``m_t`` and     high
                ``s_t`` mean and standard deviation of the log-probability of
                a token drawn from the model at place ``t``
neighbourhood   ``loss(text) -`` mean of ``loss`` over rewritten copies            low
==============  ================================================================  ======

Loss is the attack of Yeom et al. [1]_; zlib, lower-case and reference those of Carlini et
al. [2]_, section 5.2 (with logarithms of the perplexities, and the difference for
the reference, as is usual); min-k is that of Shi et al. [3]_, min-k++ of Zhang et al. [4]_,
neighbourhood of Mattern et al. [5]_.

``zlib`` is the published rule, which divides a mean by a total, so that long texts look
like members whatever the model says; ``total-zlib`` divides like by like. The reference
model may have another tokenizer: totals of the whole text are compared, and ``n`` counts
the tokens of the attacked model. ``k n`` is rounded down, but at least one token is taken.
``s_t`` is never taken below `ROUNDING_NATS`, which is what rounding makes of no deviation.

Where a token has probability 0, losses are infinite and min-k is minus infinity. A
difference of two infinities is 0, a ratio of two of them or of two zeros is 1: nothing
speaks for either side. The same holds where the text in lower case, or each of its copies,
has no scored token.

References
----------
.. [1] Yeom et al., Privacy Risk in Machine Learning, IEEE CSF 2018.
.. [2] Carlini et al., Extracting Training Data from Large Language Models, USENIX Security
   2021.
.. [3] Shi et al., Detecting Pretraining Data from Large Language Models, ICLR 2024.
.. [4] Zhang et al., Min-K%++: Improved Baseline for Detecting Pre-Training Data from Large
   Language Models, ICLR 2025.
.. [5] Mattern et al., Membership Inference Attacks against Language Models via
   Neighbourhood Comparison, Findings of ACL 2023.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from canary.models.facts import ROUNDING_NATS
from canary.models.language_model import FloatArray
from canary.registry import Registry

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TokenPrices:
    """What a model said of the tokens of some texts, in nats.

    Parameters
    ----------
    log_probs : array of shape (total,)
        Of all scored tokens, text by text.
    counts : int64 array of shape (texts,)
        How many of them are of each text.
    means, deviations : array of shape (total,), optional
        As in `canary.models.language_model.Moments`.
    """

    log_probs: FloatArray
    counts: NDArray[np.int64]
    means: FloatArray | None = None
    deviations: FloatArray | None = None

    def of(self, texts: NDArray[np.int64]) -> TokenPrices:
        """The prices of some of the texts, in their order."""
        chosen = np.repeat(np.isin(np.arange(len(self.counts)), texts), self.counts)
        means, deviations = (
            None if part is None else part[chosen] for part in (self.means, self.deviations)
        )
        return TokenPrices(self.log_probs[chosen], self.counts[texts], means, deviations)

    @property
    def totals(self) -> Floats:
        """Total loss of each text in nats, shape (texts,); 0 where no token is scored."""
        sums = np.zeros(len(self.counts))
        there = self.counts > 0
        if there.any():
            starts = (np.cumsum(self.counts) - self.counts)[there]
            sums[there] = -np.add.reduceat(self.log_probs.astype(np.float64), starts)
        return sums + 0.0

    @property
    def losses(self) -> Floats:
        """Loss per token of each text in nats, shape (texts,); NaN where no token is scored."""
        return np.where(self.counts > 0, self.totals / np.maximum(self.counts, 1), np.nan)


def lowest(values: FloatArray, counts: NDArray[np.int64], *, share: float) -> Floats:
    """Mean of the lowest `share` of the values of each text.

    Parameters
    ----------
    values : array of shape (total,)
        Text by text.
    counts : int64 array of shape (texts,)
        How many values each text has, at least one.
    share : float
        Of n values ``floor(share n)`` are taken, to within rounding, and one at least.

    Returns
    -------
    float64 array of shape (texts,)

    Examples
    --------
    >>> import numpy as np
    >>> from canary.signals.text import lowest
    >>> lowest(np.array([-4.0, -1.0, -2.0, -3.0]), np.array([3, 1]), share=0.7).tolist()
    [-3.0, -3.0]
    """
    starts = np.cumsum(counts) - counts
    text = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((values, text))
    taken = np.maximum(np.floor(share * counts * (1.0 + 1e-12)).astype(np.int64), 1)
    within = np.arange(len(values)) - np.repeat(starts, counts)
    chosen = np.where(within < np.repeat(taken, counts), values[order].astype(np.float64), 0.0)
    means: Floats = np.add.reduceat(chosen, starts) / taken
    return means


def standardised(prices: TokenPrices) -> Floats:
    """``(l_t - m_t) / s_t`` of each token, shape (total,)."""
    assert prices.means is not None
    assert prices.deviations is not None
    spread = np.maximum(prices.deviations.astype(np.float64), ROUNDING_NATS)
    return (prices.log_probs.astype(np.float64) - prices.means) / spread


@dataclass(frozen=True, eq=False)
class PricedTexts:
    """What models said of the texts that are kept: what signals are made of.

    Parameters
    ----------
    texts : list of str
    prices : TokenPrices
        By the model that is attacked, a token or more of each text.
    share : float
        Of the tokens that min-k and min-k++ look at.
    ask : callable
        ``ask("lower case")`` and ``ask("reference model")`` give prices of the texts.
    rewrite : callable
        Gives the loss per token of each rewritten copy of the texts, NaN for a copy without one.
    """

    texts: list[str] = field(repr=False)
    prices: TokenPrices
    share: float
    ask: Callable[[str], TokenPrices]
    rewrite: Callable[[], Sequence[Floats]]

    @cached_property
    def totals(self) -> Floats:
        """Total loss of each text in nats."""
        return self.prices.totals

    @cached_property
    def losses(self) -> Floats:
        """Loss per token of each text in nats."""
        return self.prices.losses

    @cached_property
    def compressed(self) -> Floats:
        """Bytes of each text in UTF-8, compressed by zlib at its usual level."""
        return np.array([len(zlib.compress(text.encode())) for text in self.texts], np.float64)

    @cached_property
    def lower_case(self) -> TokenPrices:
        """The prices of the texts in lower case."""
        return self.ask("lower case")

    @cached_property
    def reference(self) -> Floats:
        """Total loss of each text by the reference model, in nats."""
        return self.ask("reference model").totals

    @cached_property
    def copies(self) -> Floats:
        """Mean loss of the rewritten copies of each text that have one; NaN where none has."""
        losses = np.stack(self.rewrite())
        there = ~np.isnan(losses)
        sums = np.where(there, losses, 0.0).sum(axis=0)
        return np.where(there.any(axis=0), sums / np.maximum(there.sum(axis=0), 1), np.nan)


@dataclass(frozen=True)
class TextSignal:
    """A number per model and text.

    Parameters
    ----------
    name, help : str
        `help` says what it is, in a line.
    sign : int
        1 if it is higher for what looks like a member, -1 if it is lower.
    value : callable
        Gives it for all texts, of what the model said of them.
    needs : {"", "moments", "reference", "masked"}
        What it takes beside the model: the distribution of each token (moments); a
        reference model; a masked one.
    sees : {"", "loss", "length"}
        The loss alone, so that training makes no member look like a non-member; or also the length
        of the text, which is seen without the model.

    Examples
    --------
    >>> def hardest_token(of):
    ...     first = np.cumsum(of.prices.counts) - of.prices.counts
    ...     return np.minimum.reduceat(of.prices.log_probs, first)
    >>> mine = TextSignal("hardest-token", 1, "its least likely token", hardest_token, sees="loss")

    After ``TEXT_SIGNALS.add(mine.name, mine)`` every survey of texts can name it.
    """

    name: str
    sign: Literal[1, -1]
    help: str
    value: Callable[[PricedTexts], Floats]
    needs: Literal["", "moments", "reference", "masked"] = ""
    sees: Literal["", "loss", "length"] = ""


TEXT_SIGNALS: Registry[TextSignal] = Registry(
    "attack on texts", group="text_signals", kind=TextSignal
)
"""The signals of texts by name, each of which is an attack."""


def _difference(ours: Floats, theirs: Floats) -> Floats:
    """``ours - theirs``; 0 where both are infinite or one is not there (NaN)."""
    with np.errstate(invalid="ignore"):
        apart = ours - theirs
    return np.where(np.isnan(apart), 0.0, apart)


def _ratio(ours: Floats, theirs: Floats) -> Floats:
    """``ours / theirs``; 1 where both are infinite, or 0, or one is not there (NaN)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = ours / theirs
    return np.where(np.isnan(ratio), 1.0, ratio)


for _signal in (
    TextSignal("loss", -1, "nats per token", lambda of: of.losses, sees="loss"),
    TextSignal("total-loss", -1, "nats of the whole text", lambda of: of.totals, sees="length"),
    TextSignal(
        "zlib", -1, "loss per byte under zlib", lambda of: of.losses / of.compressed, sees="length"
    ),
    TextSignal(
        "total-zlib",
        -1,
        "bits by the model per bit by zlib",
        lambda of: of.totals / (8.0 * math.log(2) * of.compressed),
        sees="length",
    ),
    TextSignal(
        "lower-case",
        -1,
        "loss, per loss in lower case",
        lambda of: _ratio(of.losses, of.lower_case.losses),
    ),
    TextSignal(
        "reference",
        -1,
        "loss less that of a reference model",
        lambda of: _difference(of.totals, of.reference) / of.prices.counts,
        needs="reference",
        sees="loss",
    ),
    TextSignal(
        "min-k",
        1,
        "mean of the lowest log-probabilities",
        lambda of: lowest(of.prices.log_probs, of.prices.counts, share=of.share),
        sees="loss",
    ),
    TextSignal(
        "min-k++",
        1,
        "the same, standardised at each place",
        lambda of: lowest(standardised(of.prices), of.prices.counts, share=of.share),
        needs="moments",
        sees="loss",
    ),
    TextSignal(
        "neighbourhood",
        -1,
        "loss less that of rewritten copies",
        lambda of: _difference(of.losses, of.copies),
        needs="masked",
    ),
):
    TEXT_SIGNALS.add(_signal.name, _signal)
