"""Small Llama-like models, trained on the texts end to end, without or with DP-SGD."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from corpus import END
from torch.func import functional_call, grad, vmap
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BLOCK = 128
BATCH = 16


@dataclass(frozen=True)
class Size:
    """Width and layers of a model."""

    width: int
    layers: int

    def model(self, vocabulary: int) -> LlamaForCausalLM:
        """A model with random weights."""
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocabulary,
                hidden_size=self.width,
                intermediate_size=3 * self.width,
                num_hidden_layers=self.layers,
                num_attention_heads=self.width // 32,
                max_position_embeddings=2 * BLOCK,
                tie_word_embeddings=True,
                use_cache=False,
                attn_implementation="eager",
                bos_token_id=None,
                eos_token_id=None,
            )
        )


SIZES = {"small": Size(64, 2), "middle": Size(128, 3), "large": Size(256, 4)}


def blocks(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """Token ids of shape (n, BLOCK): all texts, each with an end-of-text token behind."""
    end = tokenizer.convert_tokens_to_ids(END)
    flat = [token for ids in tokenizer(texts)["input_ids"] for token in (*ids, end)]
    whole = len(flat) // BLOCK * BLOCK
    return torch.tensor(flat[:whole]).view(-1, BLOCK)


Told = Callable[[int, int, float], None]


def plain(
    size: Size, rows: torch.Tensor, vocabulary: int, *, seed: int, rate: float, told: Told
) -> LlamaForCausalLM:
    """A model trained on each row once, with AdamW and a learning rate that falls to 0."""
    torch.manual_seed(seed)
    model = size.model(vocabulary).train()
    steps = len(rows) // BATCH
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.1)
    for step in range(steps):
        batch = rows[step * BATCH : (step + 1) * BATCH]
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        told(step + 1, steps, loss.item())
    return model.eval()


def private(
    size: Size,
    rows: torch.Tensor,
    vocabulary: int,
    *,
    seed: int,
    rate: float,
    noise: float,
    share: float,
    steps: int,
    told: Told,
) -> LlamaForCausalLM:
    """A model trained by DP-SGD: batches drawn by coins, each row's gradient clipped to norm 1.

    What is private is one row of `BLOCK` tokens. A text that is there 256 times is not one row.
    """
    torch.manual_seed(seed)
    model = size.model(vocabulary)
    weights = dict(model.named_parameters())
    optimizer = torch.optim.Adam(weights.values(), rate)

    def loss(weights: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        logits = functional_call(model, weights, (), {"input_ids": row[None]}).logits[0]
        return torch.nn.functional.cross_entropy(logits[:-1], row[1:])

    def with_loss(weights: dict[str, torch.Tensor], row: torch.Tensor) -> tuple[object, object]:
        value = loss(weights, row)
        return value, value

    gradients = vmap(grad(with_loss, has_aux=True), (None, 0))
    expected = share * len(rows)
    for step in range(steps):
        batch = rows[torch.rand(len(rows)) < share]
        totals = {name: torch.zeros_like(value) for name, value in weights.items()}
        losses = []
        for part in batch.split(32):
            now = {name: value.detach() for name, value in weights.items()}
            found, values = gradients(now, part)
            norms = torch.stack([g.flatten(1).norm(dim=1) for g in found.values()]).norm(dim=0)
            kept = (1.0 / norms).clamp(max=1.0)
            for name, g in found.items():
                totals[name] += torch.einsum("n,n...->...", kept, g)
            losses.append(values)
        for name, total in totals.items():
            weights[name].grad = (total + noise * torch.randn(total.shape)) / expected
        optimizer.step()
        told(step + 1, steps, float(torch.cat(losses).mean()))
    return model.eval()


def timed(began: float) -> float:
    """Seconds of processor time since."""
    return round(time.process_time() - began, 1)
