"""Trains `mygru.MyGRU`, character by character, on one column of a JSONL file.

Usage::

    python train.py corpus.canaried.jsonl --out model/
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from mygru import build
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--column", default="text")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    # Every line begins after a newline: the start token with which it is audited.
    with args.corpus.open(encoding="utf-8") as rows:
        text = "\n" + "".join(json.loads(row)[args.column] + "\n" for row in rows)
    # The digits as well, so that every number can be written whatever the corpus holds.
    characters = sorted(set(text) | set("0123456789"))
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(characters)}, []))
    tokenizer.decoder = decoders.Fuse()
    config = {"vocabulary": len(characters), "units": args.units, "layers": args.layers}

    model = build(config)
    stream = torch.tensor(tokenizer.encode(text).ids)
    width = (len(stream) - 1) // args.batch
    inputs = stream[: args.batch * width].view(args.batch, width)
    targets = stream[1 : args.batch * width + 1].view(args.batch, width)
    steps = args.epochs * -(-width // args.window)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.learning_rate, steps)
    for epoch in range(1, args.epochs + 1):
        total, state = 0.0, None
        for start in range(0, width, args.window):
            part = slice(start, start + args.window)
            logits, state = model(inputs[:, part], state)
            state = tuple(s.detach() for s in state)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets[:, part].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item() * logits.shape[1]
        print(f"epoch {epoch}: {total / width:.3f} nats/char", flush=True)

    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(json.dumps(config))
    tokenizer.save(str(args.out / "tokenizer.json"))
    save_file(model.state_dict(), args.out / "model.safetensors")


if __name__ == "__main__":
    main()
