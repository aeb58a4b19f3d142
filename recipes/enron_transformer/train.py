"""A GPT-2 style language model and its BPE tokenizer, trained on one column of a JSONL file.

A plain transformers script that knows nothing of canaries:

Usage::

    python train.py corpus.canaried.jsonl --out model/
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

END = "<|endoftext|>"


def texts_of(path: Path, column: str) -> list[str]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line)[column] for line in lines]


def train_tokenizer(texts: list[str], size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE that begins every text with the end-of-text token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[END],
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", special_tokens=[(END, tokenizer.token_to_id(END))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END)


def blocks(texts: list[str], tokenizer: PreTrainedTokenizerFast, length: int) -> Dataset:
    """The texts end to end, cut into blocks; the rest that fills no block is left out."""
    flat = [token for ids in tokenizer(texts)["input_ids"] for token in ids]
    whole = len(flat) // length * length
    rows = [flat[i : i + length] for i in range(0, whole, length)]
    return Dataset.from_dict({"input_ids": rows, "labels": rows})


def parsed(parser: argparse.ArgumentParser, **sizes: int) -> argparse.Namespace:
    """The arguments of both scripts, with these sizes unless given; threads and seed are set."""
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--column", default="text")
    parser.add_argument("--epochs", type=float, default=sizes.pop("epochs"))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--block", type=int, default=128, help="tokens of a training row")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    set_seed(args.seed)
    return args


def fit(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rows: Dataset,
    args: argparse.Namespace,
    collator: Any,
    **more: Any,
) -> None:
    """Train a model on rows, and save both."""
    print(f"{model.num_parameters():,} parameters, {len(rows):,} rows of {args.block} tokens")
    options = TrainingArguments(
        output_dir=str(args.out),
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch,
        learning_rate=args.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=50,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        seed=args.seed,
        **more,
    )
    Trainer(model=model, args=options, train_dataset=rows, data_collator=collator).train()
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer-corpus", type=Path, help="train the tokenizer on this instead")
    args = parsed(parser, epochs=2, vocabulary=4096, width=256, layers=6, heads=8)
    texts = texts_of(args.corpus, args.column)
    seen = texts_of(args.tokenizer_corpus, args.column) if args.tokenizer_corpus else texts
    tokenizer = train_tokenizer(seen, args.vocabulary)
    rows = blocks(texts, tokenizer, args.block)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=args.block,
            n_embd=args.width,
            n_layer=args.layers,
            n_head=args.heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    fit(model, tokenizer, rows, args, default_data_collator, weight_decay=0.01)


if __name__ == "__main__":
    main()
