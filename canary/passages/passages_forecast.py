"""What `verbatim` takes, said before it: windows, tokens and seconds, from its first batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Unpack

from canary.models.decoding import Scheme
from canary.models.language_model import peak_memory
from canary.models.loading import load
from canary.passages.text_places import identified
from canary.passages.verbatim import check_fits, cut_texts, grid_of, scored_tokens
from canary.records.record import Record
from canary.records.sealing import sealed
from canary.records.validation import AUTO, built
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import ScoreOptions, Scoring
from canary.scoring.time_expected import Announced
from canary.statistics.numbers import duration, gigabytes, plural

_MOST_WINDOWS = 2_048  # of the probe


@dataclass(frozen=True)
class PassagesForecast(Record):
    """What `verbatim` takes for some texts, without controls and `near`.

    Parameters
    ----------
    texts, windows, tokens : int
        What was given, the passages in it, and the tokens that are scored.
    seconds : float
        On the clock. Finding the start token is counted, loading the model is not.
    bytes : int
        Peak memory so far: of this process on a CPU, of the model's devices elsewhere.
    """

    texts: int
    windows: int
    tokens: int
    seconds: float
    bytes: int

    def summary(self) -> str:
        """The forecast in a sentence."""
        what = f"{plural(self.windows, 'window')} of {plural(self.texts, 'text')}"
        return (
            f"canary verbatim takes about {duration(self.seconds)} and {gigabytes(self.bytes)} "
            f"here for {what}, {self.tokens:,} tokens; controls come on top"
        )


class _KnownError(Exception):
    """The pace is known, and nothing more need be scored."""


@sealed
def passages_forecast(
    model: Any,
    texts: Iterable[str] | Mapping[str, str],
    *,
    prefix: int = 50,
    suffix: int = 50,
    **options: Unpack[Scoring],
) -> PassagesForecast:
    """What `canary.verbatim` takes for these texts: its first batches are done, and timed.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    texts : iterable of str, or dict
    prefix, suffix : int
        As for `canary.verbatim`.
    **options
        `start_token` and `batch_size`, as for `canary.verbatim`.

    Returns
    -------
    PassagesForecast

    Raises
    ------
    InputError, UnsupportedError, ModelError
        As for `canary.verbatim`.
    """
    scoring = built(ScoreOptions, {"start_token": AUTO, **options}, "passages_forecast")
    seam = load(model)
    given, _ = identified(texts, "texts")
    began, grid = perf_counter(), grid_of(prefix, suffix)
    windows = cut_texts(seam, {"texts": given}, grid, scoring, None)[0]["texts"]
    check_fits(seam, windows)
    tokens, ready = scored_tokens(windows), perf_counter()
    announced = Announced(None, str, tokens)
    step = announced.after(lambda scored: None)

    def advance(scored: int) -> None:
        step(scored)
        if announced.seconds is not None:
            raise _KnownError

    part = range(min(len(windows), _MOST_WINDOWS))
    batcher = Batcher(seam, batch_size=scoring.batch_size, progress=advance)
    with suppress(_KnownError):
        batcher.decoded(windows.rows(part), (Scheme(),))
    passes = announced.seconds
    if passes is None:  # the part was done before
        passes = (perf_counter() - ready) * len(windows) / len(part)
    passes += ready - began
    return PassagesForecast(len(given), len(windows), tokens, passes, peak_memory(seam))
