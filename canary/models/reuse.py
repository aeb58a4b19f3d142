"""Whether, and up to which length, a model computes alike from held keys and values.

A wrong reuse of states gives plausible, wrong numbers. So the config says only where reuse
may be tried (windows, recurrent layers), and a probe at load says whether it is right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from canary.errors import UnsupportedError
from canary.models.language_model import LanguageModel
from canary.models.noise import EPSILON
from canary.models.probing import chain_log_probs, random_rows, row_table

_PREFIX, _BELOW, _SIBLINGS = 16, 6, 3
_TOLERANCE = 1e-3  # of the effect of dropping the prefix
_ROUNDINGS = 8  # of a log-probability, where the dtype is coarser than that

_WINDOWS = ("sliding_window", "attention_chunk_size", "attention_window_size", "window_size")
# What architectures raise that have no rows of keys and values, or other ones.
_NO_SUCH_STATES = (AttributeError, TypeError, ValueError, RuntimeError, IndexError)
_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
_SWITCHING_ROPE = frozenset({"longrope", "dynamic"})


def length_limit(config: Any) -> int | None:
    """Longest sequence over which one model computes, from a `transformers` config.

    Rotary embeddings that change their frequencies once a row is long enough make of the
    model two: a token's probability would depend on what comes after it. The limit is
    where they change.
    """
    limits = [getattr(config, "max_position_embeddings", None)]
    for rope in _rope_parameters(config):
        if rope.get("rope_type") in _SWITCHING_ROPE:
            limits.append(rope.get("original_max_position_embeddings"))
            limits.append(getattr(config, "original_max_position_embeddings", None))
    known = [int(limit) for limit in limits if limit]
    return min(known) if known else None


def horizon(config: Any) -> float:
    """Up to how many tokens every layer attends to all that came before.

    Returns
    -------
    float
        Infinity where no window is named; the smallest window; 0 where a layer is
        something else than attention, whose state has no row per token.
    """
    kinds = set(getattr(config, "layer_types", None) or ())
    if not kinds <= _LAYERS:
        return 0
    if kinds == {"full_attention"} or not getattr(config, "use_sliding_window", True):
        return math.inf
    windows = [getattr(config, name, None) for name in _WINDOWS]
    return min((w for w in windows if isinstance(w, int) and w > 0), default=math.inf)


def reuse_is_right(model: LanguageModel, *, longest: float = math.inf) -> bool:
    """Whether walks with held states give what whole rows give.

    Three rows with the same first tokens are walked in a batch, one token at a time, and
    compared with the same rows scored whole. What counts is the error against the effect
    of dropping the prefix altogether: an absolute bound, or a looser one, passes a model
    at initialisation whose recurrent states are ignored. In bfloat16 and float16 a few
    roundings of a log-probability are allowed too.

    Parameters
    ----------
    model : LanguageModel
        With an `open` that reuses states.
    longest : float
        Probe no longer rows than this.
    """
    facts = model.facts
    ids = random_rows(model, _SIBLINGS, int(min(_PREFIX + _BELOW, longest)), seed=0)
    split = max(ids.shape[1] - _BELOW, 1)
    if ids.shape[1] - split < 2:  # nothing is reused below the first token
        return False
    ids[:, :split] = ids[0, :split]
    whole = row_table(model, ids)
    try:
        walked = chain_log_probs(model, ids, split=split)
    except (*_NO_SUCH_STATES, UnsupportedError):
        return False
    alone = row_table(model, ids[:, split - 1 :])
    if not all(np.isfinite(part).all() for part in (whole, walked, alone)):
        return False  # infinite logits: nothing can be compared
    effect = float(np.abs(alone - whole[:, split - 1 :]).max())
    allowed = _TOLERANCE * effect
    if facts.dtype in ("bfloat16", "float16"):
        allowed += _ROUNDINGS * EPSILON[facts.dtype] * float(np.abs(whole).max())
    return bool(np.abs(walked - whole).max() < min(allowed, effect / 4))


def _rope_parameters(config: Any) -> list[dict[str, Any]]:
    """The parameters of rotary embeddings, one set or one for each kind of layer."""
    found = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(found, dict):
        return []
    nested = [part for part in found.values() if isinstance(part, dict)]
    return nested or [found]
