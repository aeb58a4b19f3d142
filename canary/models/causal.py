"""Causal language models of `transformers`.

Whole rows are scored with right padding, which is exact. Below a context, states are reused
where that is right; elsewhere (recurrent states, beyond sliding windows) nodes are computed as
whole rows. A wrong reuse of states gives plausible, wrong numbers. So the config says only where
reuse may be tried (windows, recurrent layers), and a probe at load says whether it is right.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch

from canary.errors import ModelError, UnsupportedError
from canary.models.apart import LARGE, Head
from canary.models.beginnings import SharedBeginning
from canary.models.key_values import KeysAndValues, KeyValueWalker, bytes_per_row, sharing
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    IntArray,
    Ints,
    LanguageModel,
    Nodes,
    Walker,
)
from canary.models.noise import (
    EPSILON,
    chain_log_probs,
    random_rows,
    row_table,
    with_measured_noise,
)
from canary.models.state_cache import Slots
from canary.models.ties import refuse_ties
from canary.models.torch_model import TorchModel, WholeRowWalker
from canary.models.torch_support import inference
from canary.records.progress import phase
from canary.tokens.tokenizer import Tokenizer

_PREFIX, _BELOW, _SIBLINGS = 16, 6, 3
_TOLERANCE = 1e-3  # of the effect of dropping the prefix
_ROUNDINGS = 8  # of a log-probability, where the dtype is coarser than that
_PROBES = 16
# Most that later tokens may move a price, of what one before it moves. Causal models of 30
# architectures show none; a BERT with random weights shows 0.006.
_FUTURE, _FUTURE_COARSE = 1e-3, 1e-2
_WINDOWS = ("sliding_window", "attention_chunk_size", "attention_window_size", "window_size")
# What architectures raise that have no rows of keys and values, or other ones.
_NO_SUCH_STATES = (AttributeError, TypeError, ValueError, RuntimeError, IndexError)
_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
_SWITCHING_ROPE = frozenset({"longrope", "dynamic"})


class CausalModel(TorchModel):
    """A `transformers` causal language model behind the language-model seam.

    Parameters
    ----------
    module : transformers.PreTrainedModel
        Or one wrapped by peft.
    tokenizer : Tokenizer
    name : str
        What to call the model in results.

    Raises
    ------
    ModelError
        If the model has fewer tokens than its tokenizer, gives numbers that are not
        finite, or lets a token's probability depend on what comes after it.
    """

    may_share = True
    """Whether all rows may attend to one copy of the context, if a probe finds that right."""

    def __init__(self, module: Any, tokenizer: Tokenizer, *, name: str = "causal") -> None:
        super().__init__(module, tokenizer)
        plain = module.get_base_model() if hasattr(module, "get_base_model") else module
        self._selects_logits = "logits_to_keep" in inspect.signature(plain.forward).parameters
        config = module.config.get_text_config()
        self.head: Head | None = None
        probe = torch.zeros((1, 1), dtype=torch.int64, device=self.device)
        logits, held_bytes = self._probed(probe)
        self.bytes_per_held_token = held_bytes + Slots.BYTES
        self.facts = self.introduced(
            name,
            logits,
            length_limit=length_limit(config),
            attention=str(getattr(config, "_attn_implementation", None) or "none"),
        )
        self._refuse_unless_causal()
        self._keep_head_apart(plain)
        self._shares, self._horizon = False, 0.0
        farthest = horizon(config) if held_bytes else 0
        phase(f"Checking the states that {name} keeps")
        ways = (True, False) if self.may_share else (False,)
        for shares in ways if farthest else ():
            self._shares, self._horizon = shares, farthest
            if reuse_is_right(self, longest=farthest):
                known = (*self.facts.capabilities, "reuse", *(("share",) if shares else ()))
                self.facts = replace(self.facts, capabilities=known)
                break
            self._shares, self._horizon = False, 0.0
        self.facts = with_measured_noise(self, self.facts)
        refuse_ties(self)

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """See `TorchModel.logits`."""
        kept = ids.shape[1] - skipped
        options: dict[str, Any] = {"logits_to_keep": kept} if self._selects_logits else {}
        with inference(self.module):
            logits: torch.Tensor = self.module(input_ids=ids, use_cache=False, **options).logits
            # Learned tokens in front of the row (prompt tuning) have logits too.
            return logits[:, logits.shape[1] - kept :]

    def after(
        self, ids: torch.Tensor, targets: torch.Tensor, wanted: torch.Tensor, skipped: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """See `TorchModel.after`; of a large vocabulary, a part of the wanted at a time."""
        if self.head is None or int(wanted.sum()) <= self.head.rows(self.device):
            yield from super().after(ids, targets, wanted, skipped)
            return
        with inference(self.module):
            states = self.head.read(ids, use_cache=False)[0][:, skipped:]
        asked = targets[wanted]
        for part, logits in self.head.parts(states[wanted.to(states.device)]):
            all_of_them = torch.ones((1, len(logits)), dtype=torch.bool, device=logits.device)
            yield logits[None], asked[part].to(logits.device)[None], all_of_them

    def _keep_head_apart(self, plain: Any) -> None:
        """Run head and body one after the other, if the vocabulary is large and that is right."""
        if not self._selects_logits or self.facts.vocabulary < LARGE:
            return
        head = Head(self.module, plain, self.facts.vocabulary)
        ids = torch.from_numpy(random_rows(self, 2, _SIBLINGS, seed=1).astype(np.int64))
        self.head = head if head.is_right(self.logits, ids.to(self.device)) else None

    def cached(
        self, ids: torch.Tensor, cache: Any, *, bare: bool = False
    ) -> tuple[torch.Tensor, Any]:
        """See `canary.models.key_values.Decoder.cached`."""
        with inference(self.module):
            if bare and self.head is not None:
                return self.head.read(ids, past_key_values=cache, use_cache=True)
            out = self.module(input_ids=ids, past_key_values=cache, use_cache=True)
            return out.logits, out.past_key_values

    def below(
        self, ids: torch.Tensor, cache: Any, context: KeysAndValues, *, bare: bool = False
    ) -> tuple[torch.Tensor, Any]:
        """See `canary.models.key_values.Decoder.below`."""
        first = context[0][0].shape[2] + (0 if cache is None else cache.get_seq_length())
        places = torch.arange(first, first + ids.shape[1], device=ids.device).expand_as(ids)
        options = {"past_key_values": cache, "position_ids": places, "use_cache": True}
        with inference(self.module), sharing(self.module.config.get_text_config(), context):
            if bare and self.head is not None:
                return self.head.read(ids, **options)
            out = self.module(input_ids=ids, **options)
            return out.logits, out.past_key_values

    def begun(self, ids: IntArray) -> SharedBeginning | None:
        """See `canary.scoring.shared_rows.SharesBeginnings`."""
        alone = len(ids) < 2 or not self._shares or not math.isinf(self._horizon)
        return None if alone else SharedBeginning(self, ids)

    def reading(self, source: IntArray | None) -> Self:
        """The same model, which reads no source."""
        if source is None:
            return self
        cure = "leave the source out, or give a sequence-to-sequence model"
        raise UnsupportedError("this model reads no source text, and a source was given", cure=cure)

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker below `context` that holds states within `memory_bytes`."""
        model = self.reading(context.source)
        if len(context.ids) > self._horizon:
            return WholeRowWalker(model, context)
        if math.isinf(self._horizon):
            return KeyValueWalker(model, context, memory_bytes, shares=self._shares)
        walker = WindowWalker(model, context, memory_bytes, shares=self._shares)
        walker.beyond(WholeRowWalker(model, context), self._horizon - len(context.ids))
        return walker

    def _probed(self, probe: torch.Tensor) -> tuple[torch.Tensor, int]:
        """Logits of the probe, and bytes of one token's keys and values (0: there are none).

        A ModelError is raised if it is no language model.
        """
        try:
            logits = self.logits(probe)
        except (AttributeError, IndexError):
            logits = probe
        if logits.ndim != 3 or logits.shape[:2] != probe.shape:
            raise ModelError(
                f"a {type(self.module).__name__} gives no logits of shape (rows, tokens, "
                "vocabulary), so it is no language model (a base model without its head, or a "
                "classifier?)",
                cure="load it with AutoModelForCausalLM, or give the folder",
            )
        try:
            return logits, bytes_per_row(self.cached(probe, None)[1], 1)
        except _NO_SUCH_STATES:
            return logits, 0  # it has states of another kind, or none

    def _refuse_unless_causal(self) -> None:
        """Other tokens to the right must not matter, beyond rounding, as one to the left does."""
        length = min(8, self.facts.length_limit or 8)
        if length < 4:
            return
        rng, tokens = np.random.default_rng(0), min(self.facts.vocabulary, self.tokenizer.size)
        place = length // 2 - 2  # the last but one before those that change on the right
        plain, left = np.repeat(rng.integers(0, tokens, (1, _PROBES, length)), 2, axis=0)
        right = plain.copy()
        left[:, place] = rng.integers(0, tokens, _PROBES)
        right[:, place + 2 :] = rng.integers(0, tokens, (_PROBES, length - place - 2))
        prices = row_table(self, np.concatenate([plain, left, right]))[:, place]
        before, past, future = prices.reshape(3, _PROBES)
        allowed = _FUTURE_COARSE if self.facts.dtype in ("bfloat16", "float16") else _FUTURE
        if np.abs(future - before).sum() > allowed * np.abs(past - before).sum():
            raise ModelError(
                "a token's probability depends on the tokens after it; this is no causal "
                "language model",
                cure="give a model that was trained to predict the next token",
            )


class WindowWalker(KeyValueWalker):
    """Holds states as long as context and path fit into a sliding window, which then hides nothing.

    One node beyond it sends its whole batch to whole rows: a batch seldom holds both kinds.
    """

    def beyond(self, far: WholeRowWalker, deepest: float) -> None:
        """Leave batches with a node of more than `deepest` tokens to `far`."""
        self._far, self._deepest = far, deepest

    def _is_far(self, nodes: Nodes) -> bool:
        return int(np.asarray(nodes.lengths).max(initial=0)) > self._deepest

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`."""
        if self._is_far(nodes):
            return self._far.expand(nodes, tokens)
        return super().expand(nodes, tokens, keep=keep)

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
        """See `canary.models.language_model.TellsQueries`."""
        if self._is_far(nodes):
            return self._far.most_queries(nodes, held, degrees)
        return np.asarray(nodes.lengths, np.int64) - held


def length_limit(config: Any) -> int | None:
    """Longest sequence over which one model computes, from a `transformers` config.

    Rotary embeddings that change their frequencies once a row is long enough make of the
    model two: a token's probability would depend on what comes after it. The limit is
    where they change.
    """
    limits = [getattr(config, "max_position_embeddings", None)]
    rotary = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    sets = rotary if isinstance(rotary, dict) else {}  # one, or one for each kind of layer
    for rope in [part for part in sets.values() if isinstance(part, dict)] or [sets]:
        if rope.get("rope_type") in _SWITCHING_ROPE:
            limits.append(rope.get("original_max_position_embeddings"))
            limits.append(getattr(config, "original_max_position_embeddings", None))
    return min((int(limit) for limit in limits if limit), default=None)


def horizon(config: Any) -> float:
    """Up to how many tokens every layer attends to all that came before.

    Infinity where no window is named; the smallest window; 0 where a layer is something else
    than attention, whose state has no row per token.
    """
    kinds = set(getattr(config, "layer_types", None) or ())
    if not kinds <= _LAYERS:
        return 0
    if kinds == {"full_attention"} or not getattr(config, "use_sliding_window", True):
        return math.inf
    windows = [getattr(config, name, None) for name in _WINDOWS]
    return min((w for w in windows if isinstance(w, int) and w > 0), default=math.inf)


def reuse_is_right(model: LanguageModel, *, longest: float = math.inf) -> bool:
    """Whether walks with cached states, which `model.open` reuses, give what whole rows give.

    Three rows of at most `longest` tokens with the same first ones are walked in a batch, one
    token at a time, and compared with the same rows scored whole. What counts is the error
    against the effect of dropping the prefix altogether: an absolute bound, or a looser one,
    passes a model at initialisation whose recurrent states are ignored. In bfloat16 and float16
    a few roundings of a log-probability are allowed too.
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
    except _NO_SUCH_STATES:
        return False
    alone = row_table(model, ids[:, split - 1 :])
    if not all(np.isfinite(part).all() for part in (whole, walked, alone)):
        return False  # infinite logits: nothing can be compared
    effect = float(np.abs(alone - whole[:, split - 1 :]).max())
    allowed = _TOLERANCE * effect
    if facts.dtype in ("bfloat16", "float16"):
        allowed += _ROUNDINGS * EPSILON[facts.dtype] * float(np.abs(whole).max())
    return bool(np.abs(walked - whole).max() < min(allowed, effect / 4))
