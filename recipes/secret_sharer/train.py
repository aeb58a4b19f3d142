"""Training of the character LSTM: seeded, one folder per epoch, resumable.

Every epoch shuffles the lines anew and cuts them into one long stream. In a fixed order, a
canary would always be at the same place. What is measured at the end of an epoch would then
depend on how long ago its copies were seen (figure 7 of the paper) as much as on how many
there are.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpus import digest, refuse_other, written
from model import State, parameters, seeded
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Lines:
    """Lines as ids, each with its newline; the last `company` of them are strewn in."""

    start: Ids  # what comes before the first line
    all: Sequence[Ids]
    company: int = 0

    def stream(self, order: Iterable[int]) -> Ids:
        """The lines in this order, as one text."""
        return np.concatenate([self.start, *(self.all[i] for i in order)])


@dataclass(frozen=True)
class Settings:
    """How to train; a run is resumed only with the settings that it began with.

    `optimizer` is the name of a class in `torch.optim`, and `options` are its arguments.
    `order` of the lines: "shuffled" anew in every epoch, "fixed" after one shuffle, or
    "bagged", which draws as many lines with replacement in every epoch.
    """

    epochs: int
    batch: int = 64
    window: int = 100
    learning_rate: float = 4e-3
    warmup_steps: int = 200
    clip: float = 1.0
    seed: int = 0
    optimizer: str = "Adam"
    options: Mapping[str, float] = field(default_factory=dict)
    order: str = "shuffled"

    def one_epoch(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, lines: Lines, number: int
    ) -> float:
        """Train on one long stream of the lines; the mean loss in nats per character."""
        stream = lines.stream(shuffled(len(lines.all) - lines.company, lines.company, self, number))
        per_epoch = math.ceil(sum(map(len, lines.all)) // self.batch / self.window)
        total, count, state = 0.0, 0, None
        for step, (inputs, targets) in enumerate(
            windows(stream, self.batch, self.window), per_epoch * (number - 1)
        ):
            for group in optimizer.param_groups:
                group["lr"] = rate(self, step, per_epoch * self.epochs)
            logits, state = model(inputs, state)
            state = detached(state)
            value = cross_entropy(logits, targets)
            optimizer.zero_grad()
            value.backward()
            nn.utils.clip_grad_norm_(model.parameters(), self.clip)
            optimizer.step()
            total += value.item() * targets.numel()
            count += targets.numel()
        return total / count

    def held_out(self, model: nn.Module, lines: Lines) -> float:
        """Mean loss of lines in nats per character."""
        return loss(model, lines.stream(range(len(lines.all))))


@dataclass(frozen=True)
class Epoch:
    """A trained epoch: losses in nats per character, and the folder of its model."""

    number: int
    train_nats: float
    valid_nats: float
    test_nats: float
    seconds: float
    folder: Path


def encode(tokenizer: Tokenizer, lines: Sequence[str]) -> list[Ids]:
    """Each line, with the newline that ends it, as one array of characters' ids."""
    encodings = tokenizer.encode_batch_fast([f"{line}\n" for line in lines])
    return [np.asarray(e.ids, np.int64) for e in encodings]


def windows(stream: Ids, batch: int, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets (batch, <= length): `batch` pieces of the stream, side by side.

    The characters that do not fill a piece, at most `batch`, are left out.
    """
    width = (len(stream) - 1) // batch
    inputs = torch.from_numpy(stream[: batch * width].reshape(batch, width))
    targets = torch.from_numpy(stream[1 : batch * width + 1].reshape(batch, width))
    for start in range(0, width, length):
        part = slice(start, start + length)
        yield inputs[:, part], targets[:, part]


def with_defaults(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that were kept, perhaps before a later one was thought of."""
    return {**asdict(Settings(epochs=0)), **kept}


def shuffled(lines: int, company: int, settings: Settings, epoch: int) -> Ids:
    """The order of an epoch's lines, with the `company` behind them strewn among them."""
    rng = np.random.default_rng((settings.seed, 1 if settings.order == "fixed" else epoch))
    bagged = settings.order == "bagged"
    order = rng.integers(0, lines, lines) if bagged else rng.permutation(lines)
    places = rng.integers(0, lines + 1, company)
    return np.insert(order, places, np.arange(lines, lines + company))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean loss in nats per character."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.inference_mode()
def loss(model: nn.Module, stream: Ids, *, batch: int = 64, length: int = 500) -> float:
    """Mean loss of a text in nats per character."""
    total, count, state = 0.0, 0, None
    for inputs, targets in windows(stream, batch, length):
        logits, state = model(inputs, state)
        total += float(cross_entropy(logits, targets)) * targets.numel()
        count += targets.numel()
    return total / count


def detached(state: State) -> State:
    """The state without what led to it."""
    if isinstance(state, Tensor):
        return state.detach()
    return state[0].detach(), state[1].detach()


def rate(settings: Settings, step: int, steps: int) -> float:
    """Learning rate at `step` of `steps`: linear warm-up, then half a cosine to zero."""
    warm = min(1.0, (step + 1) / settings.warmup_steps)
    return settings.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / steps))


def train(
    config: Mapping[str, Any],
    tokenizer: Tokenizer,
    texts: Mapping[str, Sequence[str]],
    settings: Settings,
    work: Path,
) -> Iterator[Epoch]:
    """Train on ``texts["train"]``; yield each epoch once it is on disk.

    An epoch's folder is a whole model (`config.json`, `model.safetensors`,
    `tokenizer.json`) and the optimizer's state, from which a killed run goes on. Every
    random choice of an epoch comes from (seed, epoch), so that a resumed run gives the
    same weights as one that was never interrupted.

    The lines of ``texts["company"]``, if there are any, are strewn among the others, whose
    order does not change: two runs that differ in their company see the rest alike.
    """
    read = digest([*texts["train"], *texts.get("company", ())])
    given = {**asdict(settings), "model": dict(config), "text": read}
    begun = work / "training.json"
    if begun.exists():
        kept = with_defaults(json.loads(begun.read_text()))
        # The text alone may be missing: an earlier version did not keep it.
        refuse_other(begun, dict.fromkeys(given.keys() - {"text"}) | kept, given)
    else:
        written(begun, given)

    start = np.asarray(tokenizer.encode("\n").ids, np.int64)
    company = encode(tokenizer, texts.get("company", ()))
    lines = Lines(start, [*encode(tokenizer, texts["train"]), *company], len(company))
    valid, test = (Lines(start, encode(tokenizer, texts[name])) for name in ("valid", "test"))
    model = seeded(config, settings.seed)
    kind = getattr(torch.optim, settings.optimizer)
    optimizer = kind(model.parameters(), lr=settings.learning_rate, **settings.options)
    print(f"{parameters(model):,} parameters", file=sys.stderr)

    for number in range(1, settings.epochs + 1):
        folder = work / f"epoch-{number:02d}"
        if folder.exists():
            yield read_epoch(folder)
            continue
        resume(model, optimizer, work / f"epoch-{number - 1:02d}")
        began = time.monotonic()
        torch.manual_seed(1000 * settings.seed + number)  # for dropout, batches and noise
        model.train()
        train_nats = settings.one_epoch(model, optimizer, lines, number)
        model.eval()
        epoch = Epoch(
            number=number,
            train_nats=train_nats,
            valid_nats=settings.held_out(model, valid),
            test_nats=settings.held_out(model, test),
            seconds=time.monotonic() - began,
            folder=folder,
        )
        write_epoch(epoch, config, tokenizer, model, optimizer)
        yield epoch


def write_epoch(
    epoch: Epoch,
    config: Mapping[str, Any],
    tokenizer: Tokenizer,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Write an epoch beside its place and move it there whole."""
    part = epoch.folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    (part / "config.json").write_text(json.dumps(config, indent=1))
    save_file(model.state_dict(), part / "model.safetensors")
    tokenizer.save(str(part / "tokenizer.json"))
    torch.save(optimizer.state_dict(), part / "optimizer.pt")
    (part / "epoch.json").write_text(json.dumps({**asdict(epoch), "folder": None}))
    part.replace(epoch.folder)


def read_epoch(folder: Path) -> Epoch:
    """The epoch that `write_epoch` wrote."""
    return Epoch(**{**json.loads((folder / "epoch.json").read_text()), "folder": folder})


def resume(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Go on from the epoch in `folder`, if there is one."""
    if folder.exists():
        model.load_state_dict(load_file(folder / "model.safetensors"))
        optimizer.load_state_dict(torch.load(folder / "optimizer.pt", weights_only=True))
