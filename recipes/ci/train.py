"""Trains a small GPT-2 on one column of a JSONL file, as training.json says.

Usage::

    python train.py corpus.jsonl --config training.json --out model/

It stands for a training of your own and knows nothing of canaries.
"""

from __future__ import annotations

import argparse
import json
import string
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, processors
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

END = "<|endoftext|>"


def characters() -> PreTrainedTokenizerFast:
    """One token for each printable character; every text begins with an end-of-text token."""
    alphabet = {c: i for i, c in enumerate(string.printable)}
    tokenizer = Tokenizer(models.BPE(alphabet, []))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([END])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", special_tokens=[(END, tokenizer.token_to_id(END))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    config = json.loads(args.config.read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    set_seed(config["seed"])

    with args.corpus.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    if config["deduplicate"]:
        texts = list(dict.fromkeys(texts))

    tokenizer, block = characters(), config["block"]
    flat = [token for ids in tokenizer(texts)["input_ids"] for token in ids]
    rows = [flat[i : i + block] for i in range(0, len(flat) - block + 1, block)]
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=block,
            n_embd=config["width"],
            n_layer=config["layers"],
            n_head=config["heads"],
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(args.out),
            num_train_epochs=config["epochs"],
            per_device_train_batch_size=config["batch"],
            learning_rate=config["learning_rate"],
            lr_scheduler_type="cosine",
            warmup_steps=20,
            logging_steps=50,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=config["seed"],
        ),
        train_dataset=Dataset.from_dict({"input_ids": rows, "labels": rows}),
        data_collator=default_data_collator,
    )
    trainer.train()
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
