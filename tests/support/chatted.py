"""A chat template, a tokenizer that has it, and canaries of a role."""

from __future__ import annotations

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


def some(role="assistant", **options):
    known = {"repetitions": [1, 4], "per_repetition": 3, "controls": 4, "seed": 1, "role": role}
    return canary.generate("The code is {digit:6}", **{**known, **options})
