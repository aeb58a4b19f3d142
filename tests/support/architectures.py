"""Tiny causal language models of many architectures, at random: `architecture(name)`.

Two layers of width 32, windows of 8 tokens, weights scaled up so that predictions are far
from uniform and hang on the whole past.
"""

from __future__ import annotations

from small_models import CHARACTERS, _spread

_TOKENS = {"vocab_size": len(CHARACTERS), "bos_token_id": None, "eos_token_id": None}
_TOKENS["pad_token_id"] = None
_SIZE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    **_TOKENS,
}
_SSM = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_chunk_size": 8,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [2.0, 3.0, 4.0, 5.0],
    "original_max_position_embeddings": 12,
}

_LAYERS = ["sliding_attention", "full_attention"]
_LINEAR: dict = {
    "layer_types": ["linear_attention", "full_attention"],
    "shared_expert_intermediate_size": 16,
}
_LINEAR |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
_LINEAR |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
_DEEPSEEK = {"num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 4}
_DEEPSEEK |= {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
_DEEPSEEK |= {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8}
_DEEPSEEK |= {"qk_nope_head_dim": 8, "v_head_dim": 8}
_ZAMBA: dict = {
    "num_key_value_heads": 4,
    "mamba_d_state": 8,
    "mamba_headdim": 8,
    "n_mamba_heads": 8,
}
_ZAMBA |= {"mamba_ngroups": 1, "chunk_size": 8, "num_mem_blocks": 1}
_ZAMBA |= {"layers_block_type": ["mamba", "hybrid"]}

# name: the stem of its classes, and what is changed in or taken from _SIZE
_TABLE: dict[str, tuple[str, dict]] = {
    "gpt2": ("GPT2", {"n_head": 4, "n_positions": 64}),
    "llama": ("Llama", {}),
    "mistral": ("Mistral", {"sliding_window": 8}),
    "gemma": ("Gemma", {"head_dim": 8}),
    "gemma2": ("Gemma2", {"head_dim": 8, "sliding_window": 8}),
    "gemma3": (
        "Gemma3",
        {"head_dim": 8, "sliding_window": 8, "layer_types": _LAYERS},
    ),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 8}),
    "qwen3_moe": ("Qwen3Moe", {"head_dim": 8, **_EXPERTS}),
    "mixtral": ("Mixtral", {"num_local_experts": 4}),
    "neox": ("GPTNeoX", {"num_key_value_heads": None}),
    "gptj": ("GPTJ", {"n_head": 4, "rotary_dim": 8}),
    "gpt_neo": (
        "GPTNeo",
        {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 8},
    ),
    "opt": ("OPT", {"word_embed_proj_dim": 32, "pad_token_id": 1}),
    "bloom": ("Bloom", {"n_layer": 2, "n_head": 4}),
    "falcon_alibi": ("Falcon", {"alibi": True}),
    "phi3": ("Phi3", {}),
    "phi3_longrope": (
        "Phi3",
        {"rope_parameters": _LONGROPE, "original_max_position_embeddings": 12},
    ),
    "gpt_oss": (
        "GptOss",
        {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    ),
    "deepseek3": ("DeepseekV3", _DEEPSEEK),
    "llama4": (
        "Llama4",
        {"head_dim": 8, "intermediate_size_mlp": 48, "num_local_experts": 2}
        | {"attention_chunk_size": 8},
    ),
    "mamba": ("Mamba", {"state_size": 8}),
    "mamba2": (
        "Mamba2",
        {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8},
    ),
    "falcon_mamba": ("FalconMamba", {"state_size": 8}),
    "rwkv": ("Rwkv", {"attention_hidden_size": 32}),
    "recurrent_gemma": (
        "RecurrentGemma",
        {"intermediate_size": 96, "num_hidden_layers": 3, "num_key_value_heads": 1}
        | {"lru_width": 32, "attention_window_size": 8},
    ),
    "jamba": (
        "Jamba",
        {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "mamba_d_state": 8},
    ),
    "bamba": ("Bamba", {"attn_layer_indices": [1], "mamba_expand": 2, **_SSM}),
    "falcon_h1": ("FalconH1", {"head_dim": 8, "mamba_d_ssm": 64, **_SSM}),
    "qwen3_next": ("Qwen3Next", {"head_dim": 8, **_LINEAR, **_EXPERTS}),
    "lfm2": (
        "Lfm2",
        {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    ),
    "granite_hybrid": (
        "GraniteMoeHybrid",
        {"layer_types": ["mamba", "attention"], "num_local_experts": 0, **_SSM}
        | {"shared_intermediate_size": 48},
    ),
    "zamba2": ("Zamba2", _ZAMBA),
}
_MODELS = {"GPT2": "GPT2LMHeadModel"}
_CONFIGS = {"Gemma3": "Gemma3TextConfig", "Llama4": "Llama4TextConfig"}


def architecture(name: str, *, spread: bool = True):
    """A module of a named architecture, its weights drawn with a fixed seed."""
    import torch
    import transformers

    stem, options = _TABLE[name]
    known = {**_SIZE, **options}
    if stem in ("GPT2", "GPTJ", "Bloom"):
        known = {**_TOKENS, "n_embd": 32, "n_layer": 2, **options}
        if stem == "Bloom":
            known = {**_TOKENS, "hidden_size": 32, **options}
    if name in ("mamba", "mamba2", "falcon_mamba", "rwkv", "jamba", "recurrent_gemma", "gpt_neo"):
        keep = ("hidden_size", "num_hidden_layers", *_TOKENS)
        keep += () if name != "gpt_neo" else ("max_position_embeddings",)
        heads = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
        keep += heads if name in ("jamba", "recurrent_gemma") else ()
        known = {**{k: _SIZE[k] for k in keep}, **options}
    torch.manual_seed(3)
    config = getattr(transformers, _CONFIGS.get(stem, f"{stem}Config"))(**known)
    module = getattr(transformers, _MODELS.get(stem, f"{stem}ForCausalLM"))(config)
    return _spread(module) if spread else module.eval()
