"""Texts sampled from a model, within a band of its own perplexity, for language-model canaries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.corpus.pools import Pool
from canary.errors import InputError
from canary.models.language_model import Children, Context, LanguageModel, Nodes
from canary.models.loading import load
from canary.records.progress import Progress, shows_progress, stage
from canary.records.sealing import sealed
from canary.records.validation import as_real, whole_number
from canary.scoring.batcher import Batcher
from canary.statistics.number_checks import LN2
from canary.tokens.candidates import CandidateEncoder

_AT_ONCE = 64
_TRIES = 50  # samples for each text that is wanted


@sealed
@shows_progress
def sample_pool(
    model: Any,
    size: int,
    *,
    temperature: float = 1.0,
    band: tuple[float, float] = (0.0, 1e3),
    tokens: int = 32,
    prompt: str = "",
    start_token: str | None = None,
    seed: int = 0,
    progress: Progress = None,
) -> Pool:
    r"""Sample different texts of one length from a model, for canaries that look like text.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
        Best the model before fine-tuning.
    size : int
        Texts. 100 controls are the fewest that can show p = 0.01.
    temperature : float
        Above 0. Above 1 texts are less likely, and a model remembers them better.
    band : (float, float)
        Bits per token under the model itself, at temperature 1: samples outside are dropped. In a
        narrow band texts are alike before training, and what a model learned shows more.
    tokens : int
        Of each text.
    prompt, start_token : str, optional
        What is before each text, as for `canary.audit`; one of both is needed where the
        tokenizer puts nothing there. The prompt becomes the fixed text of the canaries.
    seed : int
        Keep it as secret as the canaries.
    progress : callable or bool, optional
        See `canary.records.progress.Progress`.

    Returns
    -------
    Pool
        Texts that the tokenizer reads as they were sampled, on one line, all different.

    Raises
    ------
    InputError
        If an option does not serve, or fewer than one in 50 samples can be used; it says what
        the middle half of the samples has in bits per token.

    Notes
    -----
    Whether a sample is dropped depends on its text and the model alone, before it is known which
    are canaries. Costs one query for each token of each sample.

    Examples
    --------
    >>> pool = sample_pool("./base", 400, temperature=1.2, band=(4, 6))  # doctest: +SKIP
    >>> canaries = pool.canaries(repetitions=[1, 8])  # doctest: +SKIP
    """
    size = whole_number(size, "sample_pool: size", at_least=2)
    tokens = whole_number(tokens, "sample_pool: tokens", at_least=1)
    seed = whole_number(seed, "sample_pool: seed", at_least=0)
    low, high = check_sampling(temperature, band)
    seam = load(model)
    encoder = CandidateEncoder(seam.tokenizer, start_token)
    (before,) = encoder.encode([prompt])
    if not before.ids:
        raise InputError(
            "nothing comes before a text, so the model cannot begin one",
            cure="give the start token of the training, or a prompt",
            where="start_token",
        )
    advance = stage(progress, "pool", size, "texts")
    rng = np.random.default_rng(seed)
    found: dict[str, float] = {}
    seen: list[float] = []
    while len(found) < size:
        rows, bits = _samples(seam, before.ids, tokens, float(temperature), rng)
        seen += bits.tolist()
        for row, of_one in zip(rows, bits.tolist(), strict=True):
            text = seam.tokenizer.decode(row)
            if low <= of_one <= high and _usable(encoder, prompt, text, [*before.ids, *row]):
                advance(len(found) < size and text not in found)
                found[text] = of_one
        if len(seen) > _TRIES * max(size, _AT_ONCE):
            first, last = np.quantile(seen, [0.25, 0.75])
            raise InputError(
                f"of {len(seen):,} samples {len(found):,} can be used, and {size:,} are wanted",
                cure=f"the middle half has {first:.2f} to {last:.2f} bits per token: move the "
                "band, or change the temperature or the prompt",
                where="band",
            )
    chosen = list(found.items())[:size]
    return Pool(
        texts=tuple(text for text, _ in chosen),
        bits=tuple(of_one for _, of_one in chosen),
        band=(low, high),
        temperature=float(temperature),
        tokens=tokens,
        prompt=prompt,
        start_token=start_token,
        model=seam.facts.name,
        fingerprint=seam.facts.fingerprint,
        seed=seed,
    )


def check_sampling(temperature: float, band: tuple[float, float]) -> tuple[float, float]:
    """The ends of the band; an InputError if nothing can be sampled so."""
    low, high = (as_real(limit) for limit in band)
    if not as_real(temperature) > 0.0 or not 0.0 <= low < high:
        raise InputError(
            f"a temperature of {temperature!r} and a band of {low:g} to {high:g} bits per token "
            "make no sense",
            cure="give a temperature above 0, and a band such as (3, 5)",
        )
    return low, high


def _usable(encoder: CandidateEncoder, prompt: str, text: str, ids: list[int]) -> bool:
    """Whether a text is one line that the tokenizer reads as it was sampled."""
    if text != text.strip() and not prompt:
        return False
    if not text.strip() or not text.isprintable() or "\ufffd" in text:
        return False
    (encoding,) = encoder.encode([prompt + text])
    return list(encoding.ids) == ids


def _samples(
    model: LanguageModel,
    before: tuple[int, ...],
    tokens: int,
    temperature: float,
    rng: np.random.Generator,
) -> tuple[list[list[int]], NDArray[np.float64]]:
    """Token ids of samples, and the bits per token of each at temperature 1."""
    batcher = Batcher(model)
    size = min(model.facts.vocabulary, model.tokenizer.size)
    everything = Children(np.arange(size, dtype=np.int32))
    rows = np.zeros((_AT_ONCE, tokens), np.int32)
    handles = np.full(_AT_ONCE, -1, np.int64)
    nats = np.zeros(_AT_ONCE)
    context = Context(np.array(before, np.int32))
    with model.open(context, memory_bytes=model.memory().free_bytes // 4) as walker:
        for place in range(tokens):
            length = np.full(_AT_ONCE, place, np.int64)
            nodes = Nodes(rows[:, :place], length, length, handles)
            expansion = batcher.expand(walker, nodes, everything)
            walker.release(handles)
            handles = expansion.handles
            log_probs = expansion.log_probs.astype(np.float64)
            # The largest of logits with Gumbel noise is a draw from their softmax.
            noisy = log_probs / temperature + rng.gumbel(size=log_probs.shape)
            rows[:, place] = noisy.argmax(axis=1)
            nats -= log_probs[np.arange(_AT_ONCE), rows[:, place]]
    return rows.tolist(), nats / LN2 / tokens
