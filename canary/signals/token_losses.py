"""Many models and texts -> the loss of each token, which some attacks look at one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.models.language_model import FloatArray
from canary.models.loading import load
from canary.records.progress import Progress, shows_progress
from canary.records.validation import built
from canary.scoring.run_options import ScoreOptions, Scoring
from canary.scoring.texts import encode_placed
from canary.signals.signal_table import SignalTable
from canary.signals.text_pricing import Pricer


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """The losses of the tokens of some texts by several models.

    Parameters
    ----------
    losses : array of shape (models, total)
        In nats, text by text.
    counts : int64 array of shape (texts,)
        How many of them are of each text, at least one.
    """

    losses: FloatArray
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        total = int(self.counts.sum())
        if self.losses.ndim != 2 or self.losses.shape[1] != total or (self.counts < 1).any():
            raise InputError(
                f"losses of shape {self.losses.shape} for texts of {total} tokens",
                cure="give one loss for each model and token, and texts with at least one",
                where="token_losses",
            )
        bad = np.isnan(self.losses).any(axis=1)
        if bad.any():
            raise InputError(
                f"losses of model {int(bad.argmax())} are NaN",
                cure="leave that model out, and say so",
                where="token_losses",
            )

    def table(self, member: ArrayLike) -> SignalTable:
        """The loss per token of each text, for attacks that take one number.

        `member` has the shape (models, texts): whether each model was trained on each text.
        """
        starts = np.cumsum(self.counts) - self.counts
        sums = np.add.reduceat(self.losses.astype(np.float64), starts, axis=1)
        return SignalTable(
            values={"loss": sums / self.counts},
            member=np.asarray(member, np.bool_),
            label=np.zeros(len(self.counts), np.int64),
            classes=1,
            source="token losses",
            of_texts=True,
        )


@shows_progress
def token_losses(
    models: Iterable[Any],
    texts: Sequence[str],
    *,
    window: int | None = None,
    overlap: int | None = None,
    progress: Progress = None,
    **options: Unpack[Scoring],
) -> TokenLosses:
    """The loss of each token of some texts, by each of several models of one tokenizer.

    Parameters
    ----------
    models : iterable of LanguageModel, or of what `canary.load` takes
        Loaded one after the other.
    texts : sequence of str
    window, overlap : int, optional
        As in `canary.signals.text_measuring.measure_texts`.
    **options
        `start_token`, `context` and `batch_size`, as there.

    Raises
    ------
    InputError
        If a text has no scored token, or a model other tokens than the first.
    """
    scoring = built(ScoreOptions, options, "token_losses")
    rows: list[NDArray[np.float32]] = []
    tokens, counts = None, np.zeros(0, np.int64)
    for number, model in enumerate(models):
        pricer = Pricer(load(model), scoring, window=window, overlap=overlap)
        encodings = encode_placed(pricer.encoder, texts, lambda at: f"text {at}")
        mine = [encoding.ids for encoding in encodings]
        tokens = mine if tokens is None else tokens
        if mine != tokens:
            raise InputError(
                f"model {number} reads other tokens than model 0",
                cure="give models of one tokenizer",
                where="token_losses",
            )
        prices, _ = pricer.price(encodings, progress=progress, name=f"model {number}")
        counts = prices.counts
        rows.append(-prices.log_probs.astype(np.float32))
    if not rows:
        raise InputError("there is no model", cure="give several", where="token_losses")
    return TokenLosses(np.stack(rows), counts)
