"""Ways to reuse states and to pad that are wrong, and that the checks catch each.

Each was seen in `transformers`: plausible numbers, no error. The adapters do none of this;
whoever writes one that does learns it from the probe and from conformance.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from architectures import architecture
from small_models import loaded

from canary.models.by_scoring import RowWalker
from canary.models.causal import reuse_is_right
from canary.models.conformance import padding_does_not_matter
from canary.models.language_model import Context, Expansion, Memory, Rows
from canary.models.noise import chain_log_probs
from canary.models.torch_model import Distributions

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class CopiedCache:
    """Reuses whatever cache a module returns for the context, copied for every batch.

    `step` is how the path goes in: all its tokens at once, or one after another.
    """

    def __init__(self, module, step: str, field: str = "past_key_values") -> None:
        inner = loaded(module)
        self.module, self.step, self.field = module, step, field
        self.tokenizer, self.facts, self.score = inner.tokenizer, inner.facts, inner.score

    def memory(self) -> Memory:
        return Memory(2**20, 1)

    def open(self, context: Context, *, memory_bytes: int):
        return CopiedCacheWalker(self, context)


class CopiedCacheWalker(RowWalker):
    def __init__(self, model: CopiedCache, context: Context) -> None:
        super().__init__(model, context)
        self.model, self.module, self.field = model, model.module, model.field
        self.ids = torch.from_numpy(np.asarray(context.ids, np.int64))[None]

    @torch.inference_mode()
    def expand(self, nodes, tokens, *, keep=True) -> Expansion:
        n, depth = len(nodes), int(nodes.lengths[0])
        out = self.module(input_ids=self.ids, use_cache=True)
        logits = out.logits[:, -1].expand(n, -1)
        cache = copy.deepcopy(getattr(out, self.field))
        below = torch.from_numpy(nodes.paths[:, :depth].astype(np.int64))
        if depth:
            if isinstance(cache, list):  # RWKV's, with the batch first
                cache = [t.repeat(n, *[1] * (t.dim() - 1)) for t in cache]
            else:
                cache.reorder_cache(torch.zeros(n, dtype=torch.long))
            width = depth if self.model.step == "multi" else 1
            for part in below.split(width, dim=1):
                out = self.module(input_ids=part, use_cache=True, **{self.field: cache})
                cache = getattr(out, self.field)
            logits = out.logits[:, -1]
        found = Distributions.of(logits).children(None, tokens)
        return Expansion(np.zeros(n), found, np.full(n, -1), depth * n)


CACHES = [
    ("llama", "multi", "past_key_values", True),
    ("llama", "single", "past_key_values", True),
    # The multi-token step from a cache ignores the recurrent state.
    ("mamba", "multi", "cache_params", False),
    ("mamba", "single", "cache_params", True),
    ("jamba", "multi", "past_key_values", False),
    # One token for a batch of several gives logits of shape (batch, batch, vocabulary).
    ("rwkv", "single", "state", False),
    ("recurrent_gemma", "multi", "past_key_values", False),
]
SLOW = [
    ("jamba", "single", "past_key_values", True),
    # Mended in Mamba-2 (transformers #46084) and right in its relatives.
    ("mamba2", "multi", "cache_params", True),
    ("falcon_h1", "multi", "past_key_values", True),
    ("qwen3_next", "multi", "past_key_values", True),
    ("rwkv", "multi", "state", False),  # its first token is a one-token step
    ("recurrent_gemma", "single", "past_key_values", False),
]
CACHES += [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW]


@pytest.mark.parametrize(("name", "step", "field", "right"), CACHES)
def test_reused_states_regression(name: str, step: str, field: str, right: bool) -> None:
    assert reuse_is_right(CopiedCache(architecture(name), step, field)) == right


def test_a_forgotten_state_shows_even_at_initialisation() -> None:
    """Where predictions are nearly uniform, an absolute bound of 1e-3 nats sees no fault.

    The probe measures against what the prefix is worth, and that is as small.
    """
    model = CopiedCache(architecture("mamba", spread=False), "multi", "cache_params")
    rng = np.random.default_rng(0)
    ids = np.repeat(rng.integers(0, 45, (1, 22)), 3, axis=0)
    error = np.abs(
        chain_log_probs(model, ids, split=16) - model.score(Rows.of(ids.tolist())).reshape(3, -1)
    ).max()
    assert error < 1e-3
    assert not reuse_is_right(model)
    assert reuse_is_right(CopiedCache(model.module, "single", "cache_params"))


def test_roundings_do_not_hide_a_forgotten_state() -> None:
    module = architecture("falcon_mamba").to(torch.bfloat16)
    assert not reuse_is_right(CopiedCache(module, "multi", "cache_params"))
    assert reuse_is_right(CopiedCache(module, "single", "cache_params"))


class Scorer:
    """A model whose `score` is one forward; `arranged` gives the logits of each row."""

    def __init__(self, module, arranged) -> None:
        self.module, self.arranged = module, arranged
        inner = loaded(module)
        self.tokenizer, self.facts = inner.tokenizer, inner.facts
        self.open, self.memory = inner.open, inner.memory

    @torch.inference_mode()
    def score(self, rows: Rows):
        ids = torch.from_numpy(rows.ids.astype(np.int64)).split(rows.lengths.tolist())
        logs = [torch.log_softmax(x.float(), -1) for x in self.arranged(self.module, ids)]
        found = [
            log[s - 1 : -1].gather(1, row[s:, None])[:, 0]
            for log, row, s in zip(logs, ids, rows.start.tolist(), strict=True)
        ]
        return torch.cat(found).numpy()


def padded_left(module, ids, *, mask: bool, positions: bool):
    width = max(map(len, ids))
    padded = torch.stack([torch.nn.functional.pad(row, (width - len(row), 0)) for row in ids])
    there = torch.stack([(torch.arange(width) >= width - len(row)).long() for row in ids])
    options = {"attention_mask": there} if mask else {}
    if positions:
        options["position_ids"] = (there.cumsum(-1) - 1).clamp(0)
    out = module(input_ids=padded, use_cache=False, **options).logits
    return [out[i, width - len(row) :] for i, row in enumerate(ids)]


LEFT = [
    ("gpt2", False, False, False),
    ("gpt2", True, False, False),  # learned positions do not follow the mask
    ("gpt2", True, True, True),
    ("llama", True, False, True),
    ("rwkv", True, False, False),  # it takes the mask and ignores it
]


@pytest.mark.parametrize(("name", "mask", "positions", "right"), LEFT)
def test_left_padding_regression(name: str, mask: bool, positions: bool, right: bool) -> None:
    def arranged(module, ids):
        return padded_left(module, ids, mask=mask, positions=positions)

    model = Scorer(architecture(name), arranged)
    if right:
        padding_does_not_matter(model)
        return
    with pytest.raises(AssertionError, match="differs by"):
        padding_does_not_matter(model)
