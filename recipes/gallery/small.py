"""A small corpus, a small transformer and a small classifier for the examples in this folder."""

from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

OUT = Path("gallery")  # for the files that the scripts write
OUT.mkdir(exist_ok=True)

START = "\n"
CHARACTERS = START + " .abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = ["the", "old", "red", "small", "house", "garden", "door", "river", "opened", "saw", "near"]

pieces = Tokenizer(BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[]))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces, eos_token=START, pad_token=START)


def sentences(count, seed):
    """Random sentences of eight words, the stand-in for a corpus."""
    rng = np.random.default_rng(seed)
    return [f"{' '.join(rng.choice(WORDS, 8))}." for _ in range(count)]


def corpus(count=150, seed=0):
    return Dataset.from_dict({"text": sentences(count, seed)})


def transformer(seed=0):
    torch.manual_seed(seed)
    shape = {"n_positions": 96, "n_embd": 64, "n_layer": 2, "n_head": 2}
    tokens = {"vocab_size": len(CHARACTERS), "bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**shape, **tokens))


def train(model, texts, epochs=12, after_step=lambda model: None):
    """Train on the texts, each between two newlines. Any model that gives logits will do."""
    rows = [torch.tensor(tokenizer(START + text + START)["input_ids"]) for text in texts]
    rows.sort(key=len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(epochs):
        for at in torch.randperm(-(-len(rows) // 16)):
            some = rows[16 * at : 16 * at + 16]
            batch = torch.nn.utils.rnn.pad_sequence(some, batch_first=True, padding_value=-100)
            logits = model(batch[:, :-1].clamp(min=0))
            logits = getattr(logits, "logits", logits)
            loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            after_step(model)
    return model.eval()


def points(count, seed):
    """Samples of three classes that overlap: nobody can be right about all of them."""
    rng = np.random.default_rng(seed)
    label = rng.integers(3, size=count)
    x = rng.normal(size=(count, 20)) + 0.7 * np.eye(20)[label]
    return x.astype(np.float32), label


def network():
    """Large enough to learn its training samples by heart."""
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))


def classifier(x, y, seed=0, steps=150):
    torch.manual_seed(seed)
    model, x, y = network(), torch.tensor(x), torch.tensor(y)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
