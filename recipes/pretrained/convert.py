"""A Llama in a GGUF file, as the folder that `transformers` and `canary` load.

The weights are read by the `gguf` package and written as safetensors, the tokenizer is built from
the file's vocabulary and merges. Nothing is unpickled, and no code of the file is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_up": "mlp.up_proj",
}
CONTROL = 3  # the type of a special token


def convert(source: Path, out: Path) -> None:
    """Write ``config.json``, ``model.safetensors`` and the tokenizer's files into `out`.

    Raises
    ------
    ValueError
        If the file is not a Llama with tied embeddings and SmolLM's tokenizer, or if it lacks a
        tensor, has one too many, or one of another shape than its configuration says.
    """
    import gguf
    from safetensors.numpy import save_file

    reader = gguf.GGUFReader(source)
    about = {name: field.contents() for name, field in reader.fields.items() if field.types}
    for name, value in (("general.architecture", "llama"), ("tokenizer.ggml.pre", "smollm")):
        if about.get(name) != value:
            raise ValueError(f"{source.name}: {name} is {about.get(name)!r}, and not {value!r}")
    config = config_of(about)
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        for part, count in heads.items():
            if f".{part}." in tensor.name:
                values = halves(values, count)
        weights[name_of(tensor.name)] = np.ascontiguousarray(values, np.float32)
    check_shapes({name: values.shape for name, values in weights.items()}, config)
    out.mkdir(parents=True, exist_ok=True)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(out)
    tokenizer_of(about).save_pretrained(out)


def config_of(about: dict[str, Any]) -> Any:
    """The `LlamaConfig` of a file's metadata."""
    from transformers import LlamaConfig

    def of(name: str) -> Any:
        return about[f"llama.{name}"]

    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="float32",
        vocab_size=len(about["tokenizer.ggml.tokens"]),
        hidden_size=of("embedding_length"),
        intermediate_size=of("feed_forward_length"),
        num_hidden_layers=of("block_count"),
        num_attention_heads=of("attention.head_count"),
        num_key_value_heads=of("attention.head_count_kv"),
        max_position_embeddings=of("context_length"),
        rms_norm_eps=of("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": of("rope.freq_base")},
        tie_word_embeddings=True,
        bos_token_id=about["tokenizer.ggml.bos_token_id"],
        eos_token_id=about["tokenizer.ggml.eos_token_id"],
        pad_token_id=about["tokenizer.ggml.padding_token_id"],
    )


def name_of(name: str) -> str:
    """What `transformers` calls a tensor of the file: ``blk.3.attn_q.weight`` and the like."""
    *block, part, kind = name.split(".")
    if part not in NAMES or kind != "weight":
        raise ValueError(f"the tensor {name!r} is none of a Llama with tied embeddings")
    layer = f"model.layers.{block[1]}." if block else ""
    return f"{layer}{NAMES[part]}.{kind}"


def halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """The rows of each head as `transformers` rotates them: first halves, then second halves.

    The file has the two rows of each rotated pair beside each other.
    """
    pairs = rows.reshape(heads, -1, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def check_shapes(found: dict[str, tuple[int, ...]], config: Any) -> None:
    import torch
    from transformers import LlamaForCausalLM

    with torch.device("meta"):
        expected = LlamaForCausalLM(config).state_dict()
    wanted = {name: tuple(value.shape) for name, value in expected.items()}
    del wanted["lm_head.weight"]  # it is the embedding
    wrong = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if wrong:
        name = wrong[0]
        raise ValueError(
            f"{len(wrong)} tensors differ from what the configuration says; {name} has the shape "
            f"{found.get(name)}, and not {wanted.get(name)}"
        )


def tokenizer_of(about: dict[str, Any]) -> Any:
    """SmolLM's tokenizer: byte-level BPE, each digit a token of its own."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    part = "tokenizer.ggml."
    tokens = about[f"{part}tokens"]
    merges = [tuple(pair.split(" ")) for pair in about[f"{part}merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    kinds = about[f"{part}token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    backend.add_special_tokens([AddedToken(token, special=True) for token in special])
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=about["tokenizer.chat_template"],
        clean_up_tokenization_spaces=False,
        **{
            f"{role}_token": tokens[about[f"{part}{name}_token_id"]] for role, name in roles.items()
        },
    )
