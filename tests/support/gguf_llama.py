"""A tiny Llama with SmolLM's kind of tokenizer, as a module and as a GGUF file."""

from __future__ import annotations

import json

import numpy as np
from recipe_scripts import RECIPES, run_script

WRITER = RECIPES.parent / "tests" / "servers" / "write_gguf.py"
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tokenizer():
    """SmolLM's kind of tokenizer, with a few hundred tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), level])
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=350,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    lines = ["The  employee number\n\nof the new hire is  here, ½² the end"] * 20
    backend.train_from_iterator(lines, trainer)
    return backend


def write(folder, *, quantized=False, **changes):
    """A tiny Llama with weights by chance and its GGUF file; `changes` are to about.json."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    backend = tokenizer()
    config = LlamaConfig(
        vocab_size=backend.get_vocab_size(),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,  # so that a wrong order of rows shows
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    module = LlamaForCausalLM(config).eval()
    weights = {name: value.numpy() for name, value in module.state_dict().items()}
    del weights["lm_head.weight"]
    weights |= changes.pop("weights", {})
    folder.mkdir(exist_ok=True)
    np.savez(folder / "weights.npz", **{k: v for k, v in weights.items() if v is not None})
    ordered = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    about = {
        "config": config.to_dict() | changes.pop("config", {}),
        "rope_theta": config.rope_parameters["rope_theta"],
        "tokens": [token for token, _ in ordered],
        "merges": json.loads(backend.to_str())["model"]["merges"],
        "bos": 1,
        "eos": 2,
        "starts": False,
        "pre": "smollm",
        "chat_template": TEMPLATE,
        "quantized": quantized,
    }
    (folder / "about.json").write_text(json.dumps(about | changes, default=str))
    run_script(WRITER, folder, folder / "tiny.gguf")
    return folder / "tiny.gguf", module, backend
