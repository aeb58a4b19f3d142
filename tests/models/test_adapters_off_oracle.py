"""A model with its adapters off is its base model, loaded apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from architectures import architecture
from command_line import save_model
from small_models import character_tokenizer, known, loaded

import canary
from canary.errors import UnsupportedError
from canary.models.adapters import adapters_off
from canary.models.language_model import Rows
from canary.models.loading import load

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft

ROWS = Rows.of([[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8]])
LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


def adapted(seed=1, **options):
    """A Llama with LoRA, after a training of what LoRA trains."""
    torch.manual_seed(seed)
    module = peft.get_peft_model(architecture("llama"), peft.LoraConfig(**LORA | options))
    with torch.no_grad():
        for name, part in module.named_parameters():
            if part.requires_grad and ("lora_B" in name or "modules_to_save" in name):
                part.add_(torch.randn_like(part))
    return module.eval()


def several():
    module = adapted()
    torch.manual_seed(2)
    module.add_adapter("second", peft.LoraConfig(**LORA, init_lora_weights=False))
    module.base_model.set_adapter(["default", "second"])
    return module


def prompted():
    torch.manual_seed(1)
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    return peft.get_peft_model(architecture("llama"), config).eval()


@pytest.mark.parametrize(
    "module",
    [
        adapted,
        several,
        lambda: adapted(modules_to_save=["lm_head", "embed_tokens"]),
        lambda: adapted(use_dora=True),
        prompted,
    ],
    ids=["lora", "several", "modules to save", "dora", "prompt"],
)
def test_off_is_the_base_and_afterwards_all_is_as_before(module) -> None:
    model, plain = loaded(module()), known("llama")
    before, trained = model.score(ROWS), [p.requires_grad for p in model.module.parameters()]
    with adapters_off(model) as base:
        noise = base.facts.noise_bits(8) * np.log(2)
        np.testing.assert_allclose(base.score(ROWS), plain.score(ROWS), atol=noise)
        assert base.facts.name == f"{model.facts.name} without its adapter"
    assert np.abs(before - plain.score(ROWS)).max() > 0.01
    np.testing.assert_array_equal(model.score(ROWS), before)
    assert [p.requires_grad for p in model.module.parameters()] == trained
    assert model.fingerprint() == model.facts.fingerprint


def merged():
    module = adapted()
    module.merge_adapter()
    return module


def disabled():
    module = adapted()
    module.base_model.disable_adapter_layers()
    return module


@pytest.mark.filterwarnings("ignore:.*to_save")
@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: architecture("llama"), "no adapter .*audit the base model"),
        (lambda: adapted().merge_and_unload(), "no adapter .*not merged"),
        (merged, r"merged into the weights; call unmerge_adapter\(\)"),
        (disabled, "some adapters are off already; turn all"),
        (lambda: adapted(bias="lora_only"), "biases of the base .*'lora_only'"),
        (lambda: adapted(init_lora_weights="pissa"), "began with 'pissa'"),
    ],
    ids=["none", "unloaded", "merged", "off", "bias", "pissa"],
)
def test_what_would_not_be_the_base_is_refused(module, message) -> None:
    with pytest.raises(UnsupportedError, match=message), adapters_off(loaded(module())):
        pass


def test_an_audit_against_the_base_is_one_audit_of_each(tmp_path) -> None:
    """What was asked for is in the result, its table, its report and its pieces."""
    base, folder, module = tmp_path / "base", tmp_path / "adapter", adapted()
    save_model(architecture("llama"), base, character_tokenizer())
    module.peft_config["default"].base_model_name_or_path = str(base)
    module.save_pretrained(folder)
    canaries = canary.generate(
        "id {digit:3}", repetitions=[1], per_repetition=2, controls=2, seed=3
    )
    options = {"draws": 100, "start_token": None, "seed": 1}
    alone, parts = canary.exposure(base, canaries, **options), tmp_path / "parts"
    model = load(folder)
    result = canary.audit(model, canaries, against_base=True, parts=parts, **options)
    noise = load(base).facts.noise_bits(6)
    for found, wanted in zip(result.canaries, alone, strict=True):
        assert found.base.px_bits == pytest.approx(wanted.px_bits, abs=2 * noise)
        assert found.base.exposure.bits == pytest.approx(wanted.exposure.bits, abs=0.02)
        assert abs(found.px_bits - found.base.px_bits) > 10 * noise
    assert {path.name.split(".")[0] for path in parts.glob("*.shard")} >= {"base-format-0"}
    resumed = canary.audit(model, canaries, against_base=True, parts=parts, **options)
    assert resumed.canaries == result.canaries
    assert canary.Audit.from_dict(result.to_dict()) == result
    assert "under the base model" in result.summary()
    canary.report(result, tmp_path / "report.html")
    assert "Under the base" in (tmp_path / "report.html").read_text(encoding="utf-8")
