"""Models that are more than their plain weights: adapters, 8-bit weights, offloading."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from architectures import architecture
from command_line import save_model
from small_models import character_tokenizer, conforms, known, loaded

import canary
from canary.errors import ModelError
from canary.models.language_model import Rows
from canary.models.loading import load
from canary.models.torch_support import fingerprint, quantised

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft

ROWS = Rows.of([[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8]])


def with_lora():
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    config = peft.LoraConfig(
        r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM"
    )
    return peft.get_peft_model(architecture("llama"), config)


def test_lora_conforms_merging_moves_little_and_what_is_at_work_counts() -> None:
    """Which adapters are at work, and how strongly, is part of which model it is."""
    module, plain = with_lora(), known("llama")
    apart = loaded(module)
    assert "reuse" in apart.facts.capabilities
    conforms(apart)
    scores = apart.score(ROWS)
    assert np.abs(scores - plain.score(ROWS)).max() > 0.1
    found = {apart.facts.fingerprint, plain.facts.fingerprint}
    with module.disable_adapter():
        off = loaded(module)
        np.testing.assert_allclose(off.score(ROWS), plain.score(ROWS), atol=1e-5)
        found.add(off.facts.fingerprint)
    scaling = module.base_model.model.model.layers[0].self_attn.q_proj.scaling
    scaling["default"] *= 2
    found.add(fingerprint(module))
    assert len(found) == 4
    scaling["default"] /= 2
    merged = loaded(module.merge_and_unload())
    noise = merged.facts.noise_bits(8) * np.log(2)
    np.testing.assert_allclose(merged.score(ROWS), scores, atol=noise)


@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PrefixTuningConfig"])
def test_learned_prompts_are_scored_as_peft_scores_them(kind: str) -> None:
    """They stand before the row and are no tokens of it; states are not reused."""
    peft = pytest.importorskip("peft")
    config = getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=4)
    torch.manual_seed(1)
    module = peft.get_peft_model(architecture("llama"), config).eval()
    model = loaded(module)
    ids = torch.tensor([[3, 1, 4, 1, 5, 9]])
    with torch.no_grad():
        logits = module(input_ids=ids).logits[:, -6:-1]
    wanted = torch.log_softmax(logits, -1).gather(2, ids[:, 1:, None]).flatten()
    np.testing.assert_allclose(model.score(Rows.of(ids.tolist())), wanted, atol=1e-5)
    assert np.abs(model.score(ROWS) - known("llama").score(ROWS)).max() > 0.01
    conforms(model)


def test_an_adapters_folder_is_loaded_with_its_base(tmp_path, monkeypatch) -> None:
    base, folder, module = tmp_path / "base", tmp_path / "adapter", with_lora()
    save_model(architecture("llama"), base, character_tokenizer())
    module.peft_config["default"].base_model_name_or_path = str(base)
    module.save_pretrained(folder)
    model = load(folder, device="cpu")
    assert model.facts.name == "adapter"
    np.testing.assert_allclose(model.score(ROWS), loaded(module).score(ROWS), atol=1e-5)

    config, weights = folder / "adapter_config.json", folder / "adapter_model.safetensors"
    described = json.loads(config.read_text())
    for changed, message in (
        # The weights of o_proj are missing.
        ({"target_modules": ["q_proj", "v_proj", "o_proj"]}, "no adapter of its base model"),
        ({"base_model_name_or_path": None}, "names no base model"),
    ):
        config.write_text(json.dumps(described | changed))
        with pytest.raises(ModelError, match=message):
            load(folder)
    config.write_text(json.dumps(described))
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ModelError, match="peft is not installed"):
            load(folder)
    weights.unlink()
    with pytest.raises(ModelError, match="no weights in safetensors"):
        load(folder)


def dynamic_int8(change: float = 1.0):
    module = architecture("llama")
    with torch.no_grad():
        module.model.layers[0].mlp.up_proj.weight[0] *= change
    return torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_dynamic_int8_conforms_within_its_noise_and_counts_in_the_fingerprint() -> None:
    """Activations are scaled by the batch's largest, so a score hangs on its neighbours.

    That is what the model is; the measured noise says it, and states are not reused. Its
    weights lie packed in tuples, not as tensors of the state dict.
    """
    model = loaded(dynamic_int8())
    assert model.facts.noise_bits_per_token > 0.01
    assert model.facts.to_dict()["weights"] == "qint8"
    assert "reuse" not in model.facts.capabilities
    conforms(model)
    assert fingerprint(dynamic_int8(1.5)) != model.facts.fingerprint


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_an_audit_of_quantised_weights_says_that_the_trained_ones_may_show_more() -> None:
    canaries = canary.generate("ab {digit:2}", repetitions=[1], per_repetition=2, seed=1)
    found = canary.audit(loaded(dynamic_int8()), canaries, start_token=None)
    (note,) = [note for note in found.notes if "quantised" in note]
    assert "(qint8)" in note
    assert "audit them as well" in note
    whole = loaded(architecture("llama"))
    assert whole.facts.weights is None
    assert "weights" not in whole.facts.to_dict()


def test_a_method_of_quantising_is_read_off_the_configuration() -> None:
    module = architecture("llama")
    module.config.quantization_config = {"quant_method": "gptq", "bits": 4}
    assert quantised(module) == "gptq"
    del module.config.quantization_config


def test_8_bit_weights_conform() -> None:
    quantization = pytest.importorskip("torchao.quantization")
    module = architecture("llama")
    quantization.quantize_(module, quantization.Int8WeightOnlyConfig())
    model = loaded(module)
    assert "reuse" in model.facts.capabilities
    assert model.facts.weights
    assert model.facts.fingerprint != known("llama").facts.fingerprint
    conforms(model)
    assert np.abs(model.score(ROWS) - known("llama").score(ROWS)).max() < 0.5


@pytest.mark.parametrize("where", ["memory", "mixed"])
def test_offloaded_models_give_the_same_numbers(where: str, tmp_path) -> None:
    accelerate = pytest.importorskip("accelerate")
    module, plain = architecture("llama"), known("llama")
    if where == "memory":
        module = accelerate.cpu_offload(module, execution_device="cpu")
    else:
        places = dict.fromkeys(("model.embed_tokens", "model.layers.0", "model.norm"), "cpu")
        places |= {"model.rotary_emb": "cpu", "model.layers.1": "disk", "lm_head": "disk"}
        module = accelerate.dispatch_model(
            module, places, main_device="cpu", offload_dir=str(tmp_path), force_hooks=True
        )
    assert any(p.device.type == "meta" for p in module.parameters())
    model = loaded(module)
    assert (model.facts.device, model.facts.fingerprint) == ("cpu", plain.facts.fingerprint)
    assert "reuse" in model.facts.capabilities
    np.testing.assert_array_equal(model.score(ROWS), plain.score(ROWS))
    conforms(model)


def test_a_device_map_is_asked_for_by_name(tmp_path) -> None:
    pytest.importorskip("accelerate")
    save_model(architecture("llama"), tmp_path, character_tokenizer())
    model = load(tmp_path, device="auto")
    np.testing.assert_allclose(model.score(ROWS), known("llama").score(ROWS), atol=1e-4)
