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

# name: (model class, config class, options, what is changed in or taken from _SIZE)
_TABLE: dict[str, tuple[str, str, dict]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_head": 4, "n_positions": 64}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {"sliding_window": 8}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {"head_dim": 8}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {"head_dim": 8, "sliding_window": 8}),
    "gemma3": (
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {
            "head_dim": 8,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {"head_dim": 8}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {"head_dim": 8, **_EXPERTS}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {"num_local_experts": 4}),
    "neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {"num_key_value_heads": None}),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", {"n_head": 4, "rotary_dim": 8}),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 8},
    ),
    "opt": ("OPTForCausalLM", "OPTConfig", {"word_embed_proj_dim": 32, "pad_token_id": 1}),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"n_layer": 2, "n_head": 4}),
    "falcon_alibi": ("FalconForCausalLM", "FalconConfig", {"alibi": True}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {}),
    "phi3_longrope": (
        "Phi3ForCausalLM",
        "Phi3Config",
        {"rope_parameters": _LONGROPE, "original_max_position_embeddings": 12},
    ),
    "gpt_oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    ),
    "deepseek3": (
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        {
            "num_key_value_heads": 4,
            "moe_intermediate_size": 16,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "kv_lora_rank": 16,
            "q_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "first_k_dense_replace": 1,
        },
    ),
    "llama4": (
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        {
            "head_dim": 8,
            "intermediate_size_mlp": 48,
            "num_local_experts": 2,
            "attention_chunk_size": 8,
        },
    ),
    "mamba": ("MambaForCausalLM", "MambaConfig", {"state_size": 8}),
    "mamba2": (
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8},
    ),
    "falcon_mamba": ("FalconMambaForCausalLM", "FalconMambaConfig", {"state_size": 8}),
    "rwkv": ("RwkvForCausalLM", "RwkvConfig", {"attention_hidden_size": 32}),
    "recurrent_gemma": (
        "RecurrentGemmaForCausalLM",
        "RecurrentGemmaConfig",
        {
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_key_value_heads": 1,
            "lru_width": 32,
            "attention_window_size": 8,
        },
    ),
    "jamba": (
        "JambaForCausalLM",
        "JambaConfig",
        {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "mamba_d_state": 8},
    ),
    "bamba": (
        "BambaForCausalLM",
        "BambaConfig",
        {"attn_layer_indices": [1], "mamba_expand": 2, **_SSM},
    ),
    "falcon_h1": (
        "FalconH1ForCausalLM",
        "FalconH1Config",
        {"head_dim": 8, "mamba_d_ssm": 64, **_SSM},
    ),
    "qwen3_next": (
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        {
            "head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "shared_expert_intermediate_size": 16,
            **_EXPERTS,
        },
    ),
    "lfm2": (
        "Lfm2ForCausalLM",
        "Lfm2Config",
        {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    ),
    "granite_hybrid": (
        "GraniteMoeHybridForCausalLM",
        "GraniteMoeHybridConfig",
        {
            "layer_types": ["mamba", "attention"],
            "num_local_experts": 0,
            "shared_intermediate_size": 48,
            **_SSM,
        },
    ),
    "zamba2": (
        "Zamba2ForCausalLM",
        "Zamba2Config",
        {
            "num_key_value_heads": 4,
            "mamba_d_state": 8,
            "mamba_headdim": 8,
            "n_mamba_heads": 8,
            "mamba_ngroups": 1,
            "chunk_size": 8,
            "layers_block_type": ["mamba", "hybrid"],
            "num_mem_blocks": 1,
        },
    ),
}


def architecture(name: str, *, spread: bool = True):
    """A module of a named architecture, its weights drawn with a fixed seed."""
    import torch
    import transformers

    model, config, options = _TABLE[name]
    known = {**_SIZE, **options}
    if model.startswith(("GPT2", "GPTJ", "Bloom")):
        known = {**_TOKENS, "n_embd": 32, "n_layer": 2, **options}
        if model.startswith("Bloom"):
            known = {**_TOKENS, "hidden_size": 32, **options}
    if name in ("mamba", "mamba2", "falcon_mamba", "rwkv", "jamba", "recurrent_gemma", "gpt_neo"):
        keep = ("hidden_size", "num_hidden_layers", *_TOKENS)
        keep += () if name != "gpt_neo" else ("max_position_embeddings",)
        heads = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
        keep += heads if name in ("jamba", "recurrent_gemma") else ()
        known = {**{k: _SIZE[k] for k in keep}, **options}
    torch.manual_seed(3)
    module = getattr(transformers, model)(getattr(transformers, config)(**known))
    return _spread(module) if spread else module.eval()
