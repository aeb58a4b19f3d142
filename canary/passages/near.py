"""The probability that a sample comes near the suffix of each window: measured, kept, resumed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.models.decoding import Scheme
from canary.models.language_model import Context, LanguageModel
from canary.passages.edits import Edits, TokenAutomaton
from canary.passages.near_walk import near_mass
from canary.passages.text_edits import TextAutomaton, Vocabulary
from canary.passages.windows import Windows
from canary.records.shards import Series
from canary.records.validation import as_real, brief
from canary.scoring.batcher import Batcher
from canary.search.pricing import walk_memory
from canary.statistics.numbers import plural
from canary.tokens.token_bytes import token_bytes

Floats = NDArray[np.float64]

_BODY = np.dtype("<f8")
_SEED = int.from_bytes(b"near", "big")


def edits_of(near: float | str, suffix: int) -> tuple[int, bool]:
    """The number of edits that `near` allows, and whether they are of characters.

    It is a number of edits, a share of the suffix's tokens, or a text such as 5, 10% or 10c.

    Raises
    ------
    InputError
        If it is none of these, or so large that every sample is near.
    """
    value, share = math.nan, isinstance(near, float) and 0.0 < near < 1.0
    if not isinstance(near, str):
        value = as_real(near)
    elif found := re.fullmatch(r"([0-9]+)(c?)|([0-9.]+)%", near.strip(), re.ASCII):
        number, characters, percent = found.groups()
        if characters:
            return int(number), True
        with suppress(ValueError):
            value, share = float(number or percent), not number
            value = value / 100 if share else value
    edits = np.floor(value * suffix + 1e-9) if share else value
    if not (0 <= edits < suffix and edits == np.floor(edits)):
        raise InputError(
            f"near={brief(near)} makes no sense for a suffix of {suffix} tokens",
            cure=f"give a number of edits below {suffix}, a share such as 10%, or a number of "
            "characters such as 10c",
            where="near",
        )
    return int(edits), False


def automata(
    model: LanguageModel, kinds: Mapping[str, Windows], edits: int, *, text: bool
) -> Callable[[NDArray[np.int32]], Edits]:
    """What counts the edits of a suffix: in tokens, or in bytes of its text.

    Raises
    ------
    InputError
        If all text is near that of a suffix.
    UnsupportedError
        If the tokenizer does not show what its tokens write.
    """
    if not text:
        return lambda suffix: TokenAutomaton(suffix, edits)
    vocabulary = Vocabulary(token_bytes(model.tokenizer, model.facts.vocabulary))
    for name, windows in kinds.items():
        for window in range(len(windows)):
            size = int(vocabulary.lengths[windows.ids(window)[windows.grid.prefix :]].sum())
            if size <= edits:
                raise InputError(
                    f"{plural(edits, 'edit')} of characters make no sense for a suffix with "
                    f"{plural(size, 'byte')} of text, as in number "
                    f"{windows.document[window] + 1} of {name}, from token "
                    f"{windows.position[window]} on",
                    cure="allow fewer edits, or give a longer suffix",
                    where="near",
                )
    return lambda suffix: TextAutomaton(suffix, edits, vocabulary)


def near_masses(
    batcher: Batcher,
    windows: Windows,
    automaton: Callable[[NDArray[np.int32]], Edits],
    scheme: Scheme,
    *,
    width: int,
    confidence: float,
    shards: Series | None,
) -> Floats:
    """Estimate and interval for each window, of shape (windows, 3).

    One piece for each window: what is finished is not computed again. Draws depend on the
    window's number only.
    """
    found = [np.frombuffer(shard.body, _BODY) for shard in shards or ()]
    size = len(windows.before) + windows.grid.prefix
    for window in range(len(found), len(windows)):
        rows = windows.rows(range(window, window + 1))
        logs = batcher.decoded(rows, [scheme]).log_probs[:, 0].astype(np.float64)
        context, suffix = Context(rows.ids[:size]), rows.ids[size:].astype(np.int32)
        rng = np.random.default_rng([_SEED, window])
        with batcher.model.open(context, memory_bytes=walk_memory(batcher.model)) as walker:
            mass = near_mass(
                walker, batcher, automaton(suffix), scheme=scheme, log_probs=logs,
                width=width, rng=rng,
            )  # fmt: skip
        found.append(np.array([mass.mass, *mass.interval(confidence)], np.float64))
        if shards is not None:
            shards.append({"window": window}, found[-1].astype(_BODY).tobytes())
    return np.stack(found)
