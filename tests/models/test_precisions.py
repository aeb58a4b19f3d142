"""bfloat16 and float16: noise is measured and conformance holds within it."""

from __future__ import annotations

import pytest
import torch
from architectures import architecture
from small_models import character_tokenizer

from canary.errors import ModelError
from canary.models import conformance
from canary.models.loading import load
from canary.models.noise import EPSILON


def loaded(name: str, dtype: torch.dtype):
    return load(architecture(name).to(dtype), tokenizer=character_tokenizer())


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(
            (name, torch.bfloat16)
            for name in ("gpt2", "llama", "mistral", "gemma3", "falcon_mamba")
        ),
        *((name, torch.float16) for name in ("gpt2", "gemma3", "falcon_mamba")),
    ],
)
def test_conformance(name: str, dtype: torch.dtype) -> None:
    model = loaded(name, dtype)
    assert model.facts.dtype == str(dtype).removeprefix("torch.")
    assert ("reuse" in model.facts.capabilities) == (name != "falcon_mamba")
    rounding = EPSILON[model.facts.dtype]  # even where no row of the measurement shows it
    assert rounding <= model.facts.noise_bits_per_token < 30 * rounding
    for check in conformance.CHECKS:
        check(model)


def test_numbers_that_overflow_are_refused() -> None:
    """Float16 ends at 65504; a model that was trained in bfloat16 may pass it."""
    module = architecture("llama")
    with torch.no_grad():
        module.model.layers[0].mlp.down_proj.weight.mul_(1e6)
    with pytest.raises(ModelError, match="float32"):
        load(module.to(torch.float16), tokenizer=character_tokenizer())
