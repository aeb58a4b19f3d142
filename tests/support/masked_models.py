"""A small BERT without training, and its tokenizer of whole words and two endings."""

from __future__ import annotations

import torch

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "under", "one", "hat", "bird", "wall"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
INSIDE = ["##s", "##ing"]


def word_piece(words=WORDS, mask="[MASK]"):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = [*SPECIAL, *words, *INSIDE, ".", "7"]
    tokenizer = Tokenizer(
        models.WordPiece({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": mask}
    names |= {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def bert(size, positions=16):
    from transformers import BertConfig, BertForMaskedLM

    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BertForMaskedLM(
            BertConfig(
                vocab_size=size, intermediate_size=16, max_position_embeddings=positions, **shape
            )
        ).eval()
