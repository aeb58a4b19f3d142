"""A chat template, a tokenizer that has it, and canaries of a role."""

from __future__ import annotations

import warnings

from trained import trained

import canary

TEMPLATE = (
    "{{ '<s>system\nBe kind.<s>\n' }}{% for message in messages %}<s>{{ message['role'] }}\n"
    "{{ message['content'] | trim }}<s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
CONTEXT = "<s>system\nBe kind.<s>\n<s>user\n<s>\n<s>assistant\n"


def chat_tokenizer(name="gpt2", template=TEMPLATE, **options):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=trained(name), pad_token="<unused0>", chat_template=template, **options
    )


def tuned(folder, data, *, tokenizer, model=None, evaluation=None, width=16, **options):
    """A trainer of TRL over a small Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed
    from trl import SFTConfig, SFTTrainer

    set_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    known = {
        "per_device_train_batch_size": 4,
        "num_train_epochs": 1,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
        "bf16": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SFTTrainer(
            model=model or LlamaForCausalLM(config),
            args=SFTConfig(output_dir=str(folder), **{**known, **options}),
            train_dataset=data,
            eval_dataset=evaluation,
            processing_class=tokenizer,
        )


def some(role="assistant", **options):
    known = {"repetitions": [1, 4], "per_repetition": 3, "controls": 4, "seed": 1, "role": role}
    return canary.generate("The code is {digit:6}", **{**known, **options})
