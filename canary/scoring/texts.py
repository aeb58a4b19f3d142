"""Log-perplexity of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import Rows
from canary.models.loading import load
from canary.records.sealing import sealed
from canary.records.validation import check_running, function, some, text
from canary.scoring.batcher import Batcher, Progress, row_sums
from canary.scoring.requests import announce
from canary.statistics.units import LN2
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tokenizer import Encoding


@sealed
def score(
    model: Any,
    texts: Iterable[str],
    *,
    start_token: str | None = None,
    context: str = "",
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Log-perplexity Px of each text: total, in bits.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    texts : iterable of str
    start_token : str, optional
        A token put before each text, if the tokenizer puts none there. Without one the
        first token of a text has no probability and is not counted.
    context : str
        Text before each text; its tokens count.
    batch_size, progress
        See `canary.scoring.batcher.Batcher`.

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
    batch_size = check_running(start_token=start_token, context=context, batch_size=batch_size)
    function(progress, "progress")
    given = some(texts, "texts", cure="give a list of texts, such as [text] for one")
    for one in given:
        text(one, "each of texts", cure="give texts that can be written as UTF-8")
    seam = load(model)
    encoder = CandidateEncoder(seam.tokenizer, start_token, context)
    batcher = Batcher(seam, batch_size=batch_size, progress=progress)
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
