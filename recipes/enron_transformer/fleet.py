"""A fleet of small models on random halves of e-mails, and attacks by the loss of each token.

Usage::

    python fleet.py --data DIR --work WORK --seed 1 --out fleet.json

WORK keeps the losses of each model: killed and started again it goes on. `fleet.json` gets rates
and no text, beside those of other seeds that it has.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel

from canary.membership.many import attack_models
from canary.membership.token_lira import attack_tokens
from canary.membership.voting import attack_windows
from canary.signals.token_losses import TokenLosses

Flags = NDArray[np.bool_]

POOL, NULL, OTHERS, LENGTH, SPLITS = 400, 200, 1500, 80, 24
LEAST = SPLITS // 2 + 2  # so that each has others with and without each e-mail
SIDES = ("members", "never seen")
PRESENT = ("lira-online-fixed", "lira-offline-fixed", "rmia")
GAINS = {
    "windows-online": PRESENT,
    "tokens-online": (*PRESENT, "windows-online"),
}


def read(data: Path, seed: int) -> list[list[int]]:
    """Token ids of the e-mails of the pool, and of as many that no model sees."""
    with lzma.open(data / "enron_aeslc" / "train.jsonl.xz", "rt", encoding="utf-8") as lines:
        bodies = sorted({json.loads(line)["body"] for line in lines})
    short = [body for body in bodies if 80 <= len(body) <= 260]
    chosen = random.Random(seed).sample(short, POOL + NULL + OTHERS)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=768,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(chosen[POOL + NULL :], trainer)
    encoded = tokenizer.encode_batch(chosen[: POOL + NULL])
    return [[0, *encoding.ids[: LENGTH - 1]] for encoding in encoded]


def padded(ids: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.zeros((len(ids), LENGTH), dtype=torch.long)
    labels = torch.full((len(ids), LENGTH), -100)
    for row, label, tokens in zip(rows, labels, ids, strict=True):
        row[: len(tokens)] = label[: len(tokens)] = torch.tensor(tokens)
    return rows, labels


def train(number: int, member: Flags, ids: list[list[int]]) -> NDArray[np.float32]:
    """The losses of all tokens, after training on the members."""
    epochs, rate, batch = 6, 4e-3, 8
    torch.manual_seed(number)
    generator = torch.Generator().manual_seed(number)
    rows, labels = padded(ids)
    counts = torch.tensor([len(tokens) - 1 for tokens in ids])
    config = GPT2Config(
        vocab_size=768,
        n_positions=LENGTH,
        n_embd=64,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    net, inside = GPT2LMHeadModel(config), torch.tensor(np.flatnonzero(member))
    steps = epochs * -(-len(inside) // batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.1
    )
    for _ in range(epochs):
        order = inside[torch.randperm(len(inside), generator=generator)]
        for group in order.split(batch * 8):  # of about equal length, to save padding
            for some in group[torch.argsort(counts[group])].split(batch):
                width = int(counts[some].max()) + 1
                loss = net(rows[some, :width], labels=labels[some, :width]).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
    net.eval()
    losses = []
    with torch.no_grad():
        for some in torch.arange(len(ids)).split(64):
            width = int(counts[some].max()) + 1
            logits = torch.log_softmax(net(rows[some, :width]).logits.float(), -1)[:, :-1]
            taken = -logits.gather(2, rows[some, 1:width, None])[..., 0]
            losses += [row[:n].numpy() for row, n in zip(taken, counts[some], strict=True)]
    return np.concatenate(losses).astype(np.float32)


def tpr(score: NDArray[np.float64], member: Flags) -> float:
    """The share of members above all but 1 % of the others; ties are not found."""
    return found_of(score, member)[0]


def found_of(score: NDArray[np.float64], member: Flags) -> tuple[float, float]:
    """The same, and the share of the others that is above: less than 1 % where scores tie."""
    others = np.sort(score[~member])[::-1]
    threshold = others[len(others) // 100]
    return float(np.mean(score[member] > threshold)), float(np.mean(others > threshold))


def compared(tokens: TokenLosses, member: Flags) -> dict[str, Any]:
    """TPR at 1 % FPR in the mean over targets; 95 % over resampled texts and targets.

    Rates are from 0 to 1, the last of each the false positive rate; gains of one attack over
    another are in points.
    """
    scores = {kind: attack_models(tokens.table(member), kind).scores for kind in PRESENT}
    for attack in (attack_windows, attack_tokens):
        for online in (False, True):
            found = attack(tokens, member, online=online)
            scores[found.name] = found.scores
    rng, (targets, texts) = np.random.default_rng(1), member.shape
    draws: dict[str, list[float]] = {kind: [] for kind in scores}
    for _ in range(1000):
        some, rows = rng.integers(0, texts, texts), rng.integers(0, targets, targets)
        for kind, score in scores.items():
            of_targets = [tpr(score[row][some], member[row][some]) for row in rows]
            draws[kind].append(float(np.mean(of_targets)))
    rates: dict[str, list[float]] = {}
    for kind, score in scores.items():
        pairs = [found_of(score[row], member[row]) for row in range(targets)]
        rate, mistaken = np.mean(pairs, axis=0).tolist()
        rates[kind] = [rate, *np.quantile(draws[kind], [0.025, 0.975]).tolist(), mistaken]
    gains = {
        f"{new} over {kind}": (
            100 * np.quantile(np.subtract(draws[new], draws[kind]), [0.025, 0.975])
        ).tolist()
        for new, others in GAINS.items()
        for kind in others
    }
    return {"rates": rates, "gains": gains}


def table(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Rates of each attack, and what one gains over another, two columns for each seed."""
    seeds = sorted(kept, key=int, reverse=True)
    sides = [kept[seed][side] for seed in seeds for side in SIDES]
    heads = [
        f"seed {seed}, {kept[seed]['models']} models: {SIDES[0]} | {SIDES[1]}" for seed in seeds
    ]
    lines = [f"| attack | {' | '.join(heads)} |", "| --- " * (1 + len(sides)) + "|"]
    for kind in sides[0]["rates"]:
        cells = [
            f"{100 * rate:.1f} % ({100 * low:.1f} to {100 * high:.1f}) at {100 * fpr:.2f} %"
            for rate, low, high, fpr in (side["rates"][kind] for side in sides)
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    lines += ["", f"| gain, points | {' | '.join(heads)} |", "| --- " * (1 + len(sides)) + "|"]
    for pair in sides[0]["gains"]:
        cells = [
            f"{low:.1f} to {high:.1f}" for low, high in (side["gains"][pair] for side in sides)
        ]
        lines.append(f"| {pair} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def kept_in(path: Path) -> dict[str, Any]:
    """The rates of other seeds; an error if the file is of something else."""
    if not path.resolve().parent.is_dir():
        sys.exit(f"{path}: make its folder first")
    try:
        kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    except ValueError:
        kept = {"": None}
    if not all(isinstance(one, dict) and {"models", *SIDES} <= {*one} for one in kept.values()):
        sys.exit(f"{path}: not rates of this script; give another --out")
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="holds enron_aeslc/")
    parser.add_argument("--work", type=Path, required=True, help="for the losses of each model")
    parser.add_argument("--out", type=Path, required=True, help="JSON, for the rates")
    parser.add_argument("--models", type=int, default=15, help=f"{LEAST} to {SPLITS}")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the e-mails, the splits, the training"
    )
    args = parser.parse_args()
    if not LEAST <= args.models <= SPLITS:
        parser.error(f"--models {args.models}: give {LEAST} to {SPLITS}")
    kept_in(args.out)
    torch.set_num_threads(1)
    folder = args.work / f"seed-{args.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    ids, rng = read(args.data, args.seed), np.random.default_rng(args.seed)
    counts = np.array([len(tokens) - 1 for tokens in ids])
    member = np.zeros((SPLITS, POOL + NULL), np.bool_)
    for text in range(POOL):
        member[rng.permutation(SPLITS)[: SPLITS // 2], text] = True
    losses = []
    for number in range(args.models):
        place = folder / f"losses{number}.npy"
        if not place.exists():
            part = place.with_suffix(".part")
            with part.open("wb") as file:
                np.save(file, train(number + 1000 * args.seed, member[number], ids))
            part.replace(place)
        losses.append(np.load(place))
    member, cut = member[: args.models, :POOL], int(counts[:POOL].sum())
    found = np.stack(losses)
    rng = np.random.default_rng(3)
    coins = [rng.permutation(args.models) < args.models // 2 for _ in range(NULL)]
    tested = (
        (TokenLosses(found[:, :cut], counts[:POOL]), member),
        (TokenLosses(found[:, cut:], counts[POOL:]), np.array(coins).T),
    )
    measured = {side: compared(*one) for side, one in zip(SIDES, tested, strict=True)}
    kept = kept_in(args.out) | {str(args.seed): {"models": args.models, **measured}}
    part = args.out.with_name(args.out.name + ".part")
    part.write_text(json.dumps(kept, indent=1) + "\n")
    part.replace(args.out)
    print(table(kept))


if __name__ == "__main__":
    main()
