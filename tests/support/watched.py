"""Tiny trainings to be watched: canaries, rows, models, Trainers."""

from __future__ import annotations

import functools

from small_models import CHARACTERS, character_tokenizer

FORMAT = "the code is {digit:4}."

END = "<|endoftext|>"
END_ID = len(CHARACTERS)


@functools.cache
def small_set(controls=4):
    from canary.corpus.canaries import generate

    return generate(FORMAT, repetitions=[1, 8], per_repetition=2, controls=controls, seed=3)


def causal(*, dropout=0.1, length=64, layers=2):
    """A GPT-2 over characters in training mode, with its tokenizer for `transformers`."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=len(CHARACTERS),
        n_embd=32,
        n_layer=layers,
        n_head=2,
        n_positions=length,
        bos_token_id=None,
        eos_token_id=None,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=character_tokenizer())
    return GPT2LMHeadModel(config), tokenizer


def ended_tokenizer():
    """Characters, and an end-of-text token that the tokenizer puts nowhere itself."""
    tokenizer = character_tokenizer()
    tokenizer.add_special_tokens([END])
    return tokenizer


def ended_model(**options):
    """As `causal`, with the end-of-text token."""
    from transformers import PreTrainedTokenizerFast

    module, _ = causal(**options)
    module.resize_token_embeddings(END_ID + 1, mean_resizing=False)
    return module, PreTrainedTokenizerFast(tokenizer_object=ended_tokenizer())


def with_lora(module):
    import peft

    config = peft.LoraConfig(
        r=4, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"
    )
    return peft.get_peft_model(module, config)


def rows(tokenizer, canaries=None, count=48):
    """Rows of one length; with canaries, each as often as it says."""
    from datasets import Dataset

    texts = ["all that is said here is said once more."] * count
    if canaries is not None:
        texts += [canaries.text(c) for c in canaries for _ in range(c.repetitions)]
    ids = [tokenizer(text.ljust(40))["input_ids"][:40] for text in texts]
    return Dataset.from_dict({"input_ids": ids, "labels": ids})


def build_trainer(
    folder, *, lora=False, steps=4, data=None, model=None, processing_class=None, **options
):
    from transformers import Trainer, TrainingArguments, default_data_collator

    module, tokenizer = causal()
    if model is not None:
        module = model
    if lora:
        module = with_lora(module)
    defaults = {
        "max_steps": steps,
        "per_device_train_batch_size": 8,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "seed": 0,
    }
    return Trainer(
        model=module,
        args=TrainingArguments(output_dir=str(folder), **{**defaults, **options}),
        train_dataset=rows(tokenizer) if data is None else data,
        data_collator=default_data_collator,
        processing_class=processing_class or tokenizer,
    )


def monitor(canaries=None, **options):
    """A monitor of a small training that measures at every step."""
    from canary.plugins.monitor import ExposureMonitor

    known = {"every": 1, "draws": 50, "share": None}
    if "tokenizer" not in options:
        known["tokenizer"] = causal()[1]
    return ExposureMonitor(canaries or small_set(), **{**known, **options})


def attached(trainer, canaries=None, **options):
    """A callback that measures every second step of a Trainer."""
    from canary.plugins.callback import ExposureCallback

    known = {"every": 2, "draws": 60, "share": None, "preflight": False}
    callback = ExposureCallback(canaries or small_set(), **{**known, **options})
    callback.attach(trainer)
    return callback


def steps_on(module, ids, count):
    """Train on the same rows, and give the number of each step that is done."""
    import torch

    ids = torch.tensor(ids)
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    for step in range(1, count + 1):
        module(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield step


def weights_of(module):
    return {name: value.detach().numpy().copy() for name, value in module.state_dict().items()}
