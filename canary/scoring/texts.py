"""Log-perplexity of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import Rows
from canary.models.loading import load
from canary.records.sealing import sealed
from canary.records.validation import function, some, text
from canary.scoring.batcher import Batcher, Progress, row_sums
from canary.scoring.requests import announce
from canary.scoring.run_options import ScoreOptions, Scoring
from canary.statistics.number_checks import LN2
from canary.tokens.tokenizer import Encoding


@sealed
def score(
    model: Any,
    texts: Iterable[str],
    *,
    progress: Progress | None = None,
    **options: Unpack[Scoring],
) -> NDArray[np.float64]:
    """Log-perplexity Px of each text: total, in bits.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    texts : iterable of str
    progress : callable, optional
        See `canary.scoring.batcher.Progress`.
    **options
        `start_token`, `context` and `batch_size`, as in
        `canary.scoring.run_options.ScoreOptions`. Tokens of the context count.

    Returns
    -------
    float64 array of shape (n,), in the order of `texts`

    Raises
    ------
    InputError
        If an option or a text is not what it should be.
    ModelError
        If a text is longer than the model takes, or its tokenizer cannot represent it.

    Examples
    --------
    ``canary.score("./checkpoint", ["one text", "another"])`` gives an array of two
    numbers of bits.
    """
    asked = ScoreOptions(**options)
    function(progress, "progress")
    given = some(texts, "texts", cure="give a list of texts, such as [text] for one")
    for one in given:
        text(one, "each of texts", cure="give texts that can be written as UTF-8")
    seam = load(model)
    encoder = asked.encoder(seam)
    batcher = Batcher(seam, batch_size=asked.batch_size, progress=progress)
    encodings = encoder.encode(given)
    announce(seam, lambda: len(encodings))
    log_probs, rows = score_encodings(batcher, encodings)
    bits: NDArray[np.float64] = -row_sums(log_probs, rows) / LN2
    return bits


def score_encodings(
    batcher: Batcher, encodings: Sequence[Encoding]
) -> tuple[NDArray[np.float32], Rows]:
    """Log-probabilities of all tokens but the first of each encoding, and their rows."""
    rows = Rows.of([e.ids for e in encodings])
    return batcher.score(rows), rows
