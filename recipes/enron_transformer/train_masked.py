"""A small BERT and its WordPiece tokenizer, trained on one column of a JSONL file.

It rewrites texts for the attack neighbourhood. Usage::

    python train_masked.py others.jsonl --out masked/
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from train import blocks, texts_of
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


def train_tokenizer(texts: list[str], size: int, length: int) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        texts,
        trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=list(SPECIAL.values()), show_progress=False
        ),
    )
    ends = [(SPECIAL[k], tokenizer.token_to_id(SPECIAL[k])) for k in ("cls", "sep")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{SPECIAL['cls']} $A {SPECIAL['sep']}", special_tokens=ends
    )
    names = {f"{kind}_token": token for kind, token in SPECIAL.items()}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=length, **names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--column", default="text")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--block", type=int, default=128, help="tokens of a training row")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    set_seed(args.seed)

    texts = texts_of(args.corpus, args.column)
    tokenizer = train_tokenizer(texts, args.vocabulary, args.block)
    rows = blocks(texts, tokenizer, args.block).remove_columns("labels")
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=args.block,
            hidden_size=args.width,
            num_hidden_layers=args.layers,
            num_attention_heads=args.heads,
            intermediate_size=4 * args.width,
        )
    )
    print(f"{model.num_parameters():,} parameters, {len(rows):,} rows of {args.block} tokens")
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
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
        ),
        train_dataset=rows,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
    )
    trainer.train()
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
