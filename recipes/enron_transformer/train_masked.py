"""A small BERT and its WordPiece tokenizer, trained on one column of a JSONL file.

It rewrites texts for the attack neighbourhood. Usage::

    python train_masked.py others.jsonl --out masked/
"""

from __future__ import annotations

import argparse

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from train import blocks, fit, parsed, texts_of
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
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
    args = parsed(parser, epochs=3, vocabulary=8192, width=128, layers=2, heads=4)
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
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    fit(model, tokenizer, rows, args, collator)


if __name__ == "__main__":
    main()
