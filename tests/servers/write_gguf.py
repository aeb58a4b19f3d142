"""Writes a Llama as GGUF; `llama_cpp.py` runs it with the Python of the server.

    python write_gguf.py FOLDER OUT

FOLDER holds what was written of the model: weights.npz and about.json. With ``quantized`` in
about.json the embedding has 8 bits for a weight and the other matrices have 4.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def main(folder: Path, out: Path) -> None:
    import gguf

    about = json.loads((folder / "about.json").read_text())
    config = about["config"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(str(out), "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["hidden_size"] // heads)
    writer.add_rope_freq_base(about["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(about.get("pre", "gpt-2"))
    writer.add_token_list(about["tokens"])
    special = {about["bos"], about["eos"]}
    kinds = [gguf.TokenType.NORMAL] * len(about["tokens"])
    writer.add_token_types(
        [gguf.TokenType.CONTROL if i in special else kind for i, kind in enumerate(kinds)]
    )
    writer.add_token_merges([" ".join(pair) for pair in about["merges"]])
    writer.add_bos_token_id(about["bos"])
    writer.add_eos_token_id(about["eos"])
    writer.add_add_bos_token(about["starts"])
    if "chat_template" in about:
        writer.add_unk_token_id(about["bos"])
        writer.add_pad_token_id(about["eos"])
        writer.add_chat_template(about["chat_template"])
    for name, values in np.load(folder / "weights.npz").items():
        turned = _turned(name, values, heads, kv_heads)
        kind = gguf.GGMLQuantizationType.F32
        if about.get("quantized") and values.ndim > 1:
            sizes = gguf.GGMLQuantizationType
            kind = sizes.Q8_0 if "embed" in name else sizes.Q4_1
            turned = gguf.quants.quantize(turned, kind)
        writer.add_tensor(_named(name), turned, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _named(name: str) -> str:
    plain = name.removesuffix(".weight")
    if plain.startswith("model.layers."):
        _, _, layer, part = plain.split(".", 3)
        return f"blk.{layer}.{_NAMES[part]}.weight"
    return f"{_NAMES[plain]}.weight"


def _turned(name: str, values: np.ndarray, heads: int, kv_heads: int) -> np.ndarray:
    """Queries and keys as GGUF wants them: the halves that are rotated together interleaved."""
    count = heads if "q_proj" in name else kv_heads if "k_proj" in name else 0
    if not count:
        return np.ascontiguousarray(values, np.float32)
    rows, columns = values.shape
    halves = values.reshape(count, 2, rows // count // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns), np.float32)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
