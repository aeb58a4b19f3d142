"""Fine-tune a causal language model on one column of a JSONL file, watched by canary.

In full or with LoRA, with the canaries in the corpus or without them. What is measured while
it trains lies in the output folder as canary_history.json.

Usage::

    python finetune.py base/ tune.canaried.jsonl --canaries canaries.json --out full/
    python finetune.py base/ tune.canaried.jsonl --canaries canaries.json --lora --out lora/
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import SequentialSampler
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

import canary
from canary.errors import InputError
from canary.plugins.callback import ExposureCallback
from canary.records.weight_files import digest_of_files


class InOrder(Trainer):
    """Reads the rows as they stand, the same in every epoch."""

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> SequentialSampler:
        return SequentialSampler(train_dataset or self.train_dataset)


def blocks(
    texts: list[str], tokenizer: PreTrainedTokenizerFast, length: int, secrets: list[str]
) -> tuple[list[list[int]], list[int]]:
    """The texts end to end, cut into blocks, and the blocks that hold a secret."""
    flat: list[int] = []
    held: set[int] = set()
    for text, ids in zip(texts, tokenizer(texts)["input_ids"], strict=True):
        if any(secret in text for secret in secrets):
            held |= set(range(len(flat) // length, (len(flat) + len(ids) - 1) // length + 1))
        flat += ids
    count = len(flat) // length
    rows = [flat[i * length : (i + 1) * length] for i in range(count)]
    return rows, sorted(at for at in held if at < count)


def adapted(
    model: AutoModelForCausalLM, new_tokens: list[int] | None = None
) -> AutoModelForCausalLM:
    """LoRA on the layers of GPT-2; the embeddings of new tokens train, too."""
    import peft

    config = peft.LoraConfig(
        r=16,
        lora_alpha=32,
        lora_dropout=0.05,
        target_modules=["c_attn", "c_proj", "c_fc"],
        fan_in_fan_out=True,
        task_type="CAUSAL_LM",
        trainable_token_indices=new_tokens,
    )
    return peft.get_peft_model(model, config)


def trainer_of(
    model: AutoModelForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    rows: list[list[int]],
    out: Path,
    *,
    epochs: float = 4,
    batch: int = 8,
    rate: float = 1e-3,
    seed: int = 0,
    first: bool = False,
) -> Trainer:
    """The Trainer of these rows, in random order, or as they stand."""
    return (InOrder if first else Trainer)(
        model=model,
        args=TrainingArguments(
            output_dir=str(out),
            num_train_epochs=epochs,
            per_device_train_batch_size=batch,
            learning_rate=rate,
            lr_scheduler_type="constant",
            logging_steps=5,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=seed,
        ),
        train_dataset=Dataset.from_dict({"input_ids": rows, "labels": rows}),
        data_collator=default_data_collator,
        processing_class=tokenizer,
    )


def opened(path: Path, plan: Mapping[str, Any], base: Path, texts: list[str]) -> dict[str, Any]:
    """The trainings of a study that are kept, if they were made of the same; or a new record."""
    made_of = {
        "plan": plan,
        "base": digest_of_files(base),
        "texts": sha256(json.dumps(texts).encode()).hexdigest(),
    }
    made_of = json.loads(json.dumps(made_of))  # tuples become lists, as they did in the file
    kept = json.loads(path.read_text()) if path.exists() else {"made of": made_of, "trainings": {}}
    held = kept.get("made of", made_of)  # an older study does not say it
    if other := [name for name in made_of if held[name] != made_of[name]]:
        raise InputError(
            f"the trainings there were made with another {' and '.join(other)}",
            cure="give another --work folder",
            where=str(path),
        )
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--canaries", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--column", default="text")
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--first", action="store_true", help="the canaries' rows begin each epoch")
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--share", type=float, default=0.05, help="0: as long as it takes")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    set_seed(args.seed)

    canaries = canary.CanarySet.load(args.canaries)
    tokenizer = AutoTokenizer.from_pretrained(args.base)
    model = AutoModelForCausalLM.from_pretrained(args.base)
    model = adapted(model) if args.lora else model
    with args.corpus.open(encoding="utf-8") as lines:
        texts = [json.loads(line)[args.column] for line in lines]
    rows, held = blocks(texts, tokenizer, args.block, [canaries.text(c) for c in canaries.injected])
    if args.first:
        rows = [rows[at] for at in held] + [r for at, r in enumerate(rows) if at not in set(held)]
        held = list(range(len(held)))
    batches = -(-len(rows) // args.batch)
    marks = [
        1 + epoch * batches + batch
        for epoch in range(int(args.epochs))
        for batch in sorted({at // args.batch for at in held})
    ]
    given = {"epochs": args.epochs, "batch": args.batch, "rate": args.learning_rate}
    trainer = trainer_of(
        model, tokenizer, rows, args.out, seed=args.seed, first=args.first, **given
    )
    callback = ExposureCallback(
        canaries,
        every=args.every,
        draws=args.draws,
        share=args.share or None,
        marks=marks if args.first else (),
    )
    callback.attach(trainer)
    trainer.train()
    trainer.save_model(args.out)
    tokenizer.save_pretrained(args.out)
    history = callback.history
    parts = (("curves", True), ("draws", False))
    for name, skew_normal in parts:
        canary.plot(history, skew_normal=skew_normal).figure.savefig(args.out / f"{name}.png")
    print(
        f"{len(rows):,} rows, {len(held)} with a canary; measured {len(history.measured)} of "
        f"{history.asked} times in {history.own_seconds:.1f} s, {100 * history.share:.1f} % of the "
        f"{history.training_seconds:.1f} s of training"
    )


if __name__ == "__main__":
    main()
