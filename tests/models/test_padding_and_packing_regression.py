"""Ways to put several rows into one forward, wrong without an error, that conformance catches.

The adapters pad on the right, which is exact for causal models. Whoever pads on the left
or packs rows end to end finds out from these checks whether it is right.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from architectures import architecture
from small_models import character_tokenizer

from canary.models import conformance
from canary.models.language_model import Rows
from canary.models.loading import load


class Scorer:
    """A model whose `score` is one forward; `arranged` gives the logits of each row."""

    def __init__(self, module, arranged) -> None:
        self.module, self.arranged = module, arranged
        inner = load(module, tokenizer=character_tokenizer())
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


def packed(module, ids, *, mask, **options):
    lengths = [len(row) for row in ids]
    options["position_ids"] = torch.cat([torch.arange(n) for n in lengths])[None]
    if mask is not None:
        own = torch.block_diag(*[torch.ones(n, n).tril() for n in lengths]).bool()[None, None]
        floats = torch.zeros(own.shape).masked_fill(~own, torch.finfo(torch.float32).min)
        options["attention_mask"] = own if mask == torch.bool else floats
    return module(input_ids=torch.cat(ids)[None], **options).logits[0].split(lengths)


def expect(check, module, right: bool, arranged) -> None:
    model = Scorer(module, arranged)
    if right:
        check(model)
        return
    with pytest.raises(AssertionError, match="differs by"):
        check(model)


@pytest.mark.parametrize(
    ("name", "mask", "positions", "right"),
    [
        ("gpt2", False, False, False),
        ("gpt2", True, False, False),  # learned positions do not follow the mask
        ("gpt2", True, True, True),
        ("llama", False, False, False),
        ("llama", True, False, True),
        ("mamba", False, False, False),
        ("mamba", True, False, True),
        ("qwen3_next", True, False, True),
        ("rwkv", False, False, False),
        ("rwkv", True, False, False),  # it takes the mask and ignores it
    ],
)
def test_left_padding_regression(name: str, mask: bool, positions: bool, right: bool) -> None:
    def arranged(module, ids):
        return padded_left(module, ids, mask=mask, positions=positions)

    expect(conformance.padding_does_not_matter, architecture(name), right, arranged)


@pytest.mark.parametrize(
    ("options", "mask", "attention", "right"),
    [
        ({"use_cache": False}, None, "sdpa", True),
        ({}, None, "sdpa", False),  # with a cache, restarting positions are not seen as rows
        ({}, torch.float32, "eager", True),
        ({}, torch.bool, "sdpa", True),
        ({}, torch.bool, "eager", False),  # adds 0 and 1 to the scores
    ],
)
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_packing_regression(name, options, mask, attention, right) -> None:
    module = architecture(name)
    module.set_attn_implementation(attention)

    def arranged(module, ids):
        return packed(module, ids, mask=mask, **options)

    expect(conformance.batch_size_does_not_matter, module, right, arranged)
