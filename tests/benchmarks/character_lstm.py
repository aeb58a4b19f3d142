"""The models that benchmarks share; of the walks their clock and their bare step.

The model of the walks is The Secret Sharer's: a two-layer LSTM of 200 units at character level,
about 600,000 parameters, with random weights. All times are processor time: the machine may be
shared.
"""

from __future__ import annotations

import string
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from figures import Clock, middle, over, spread
from tokenizers import Tokenizer, models

from canary.formats.format import Format
from canary.models.language_model import Children, Expansion, IntArray, LanguageModel, Nodes, Walker
from canary.models.loading import load
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import TokenTree, compile_tree

PREFIX = "The random number is"
CHARACTERS = sorted(set(PREFIX + string.digits + string.ascii_lowercase))
SIZES = (256, 512, 1024, 2048, 4096)


def one_token_each(texts: Any) -> Tokenizer:
    """A tokenizer that knows these texts and no other."""
    return Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(texts)}, merges=[]))


def gpt2(vocabulary: int, *, width: int, layers: int, positions: int, **special: int) -> Any:
    """A GPT-2 of four heads with random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"n_embd": width, "n_layer": layers, "n_head": 4, "n_positions": positions}
    special = {"bos_token_id": None, "eos_token_id": None, **special}
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, **sizes, **special)).eval()


class Lstm(torch.nn.Module):
    """Without a clock, as fingerprints of models take in plain attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(len(CHARACTERS), 128)
        self.lstm = torch.nn.LSTM(128, 200, 2, batch_first=True)
        self.out = torch.nn.Linear(200, len(CHARACTERS))

    def forward(self, ids: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
        hidden, state = self.lstm(self.embed(ids), state)
        return self.out(hidden), state


class TimedLstm(Lstm):
    """Keeps the time that is spent in its forward."""

    seconds = 0.0

    def forward(self, ids: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
        with Clock() as clock:
            found = super().forward(ids, state)
        self.seconds += clock.cpu
        return found


def character_lstm(*, threads: int, sharper: float = 1.0) -> tuple[TimedLstm, LanguageModel]:
    """The module and the model around it; `sharper` logits set candidates further apart."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    module = TimedLstm().eval()
    with torch.no_grad():
        module.out.weight.mul_(sharper)
    return module, load(module, tokenizer=one_token_each(CHARACTERS), device="cpu")


def build(_config: dict[str, Any]) -> Lstm:
    """The module without weights, for `saved`."""
    return Lstm()


def saved(folder: Path) -> str:
    """Write the model where `canary.load` finds it by the factory that is returned."""
    from safetensors.torch import save_file

    torch.manual_seed(0)
    save_file(Lstm().state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    one_token_each(CHARACTERS).save(str(folder / "tokenizer.json"))
    return f"{Path(__file__).resolve()}:build"


def digits_tree(model: LanguageModel, digits: int, context: str = "") -> TokenTree:
    """The tree of all numbers of so many digits."""
    format = Format(f"{PREFIX} {{digit:{digits}}}")
    return compile_tree(format, CandidateEncoder(model.tokenizer, None, context))


def rate(step: Any, size: int, seconds: float = 0.4) -> float:
    """Tokens per processor second of a step that takes so many, after one to warm up."""
    with torch.inference_mode():
        step()
        began, steps = time.process_time(), 0
        while time.process_time() - began < seconds:
            step()
            steps += 1
        return steps * size / (time.process_time() - began)


def bare_rate(module: Lstm, seconds: float) -> float:
    """Steps of one token per second, at the best of several batch sizes, each for so long.

    Random states, no gathering, no softmax.
    """

    def of(size: int) -> float:
        ids = torch.randint(0, len(CHARACTERS), (size, 1))
        state = (torch.randn(2, size, 200) / 5, torch.randn(2, size, 200) / 5)
        return rate(lambda: module(ids, state), size, seconds)

    return max(map(of, SIZES))


@dataclass
class TimedWalker:
    """A walker that keeps the time spent in it: in the model, and gathering its states."""

    walker: Walker
    seconds: float = 0.0

    @property
    def context_log_probs(self) -> Any:
        return self.walker.context_log_probs

    @property
    def room(self) -> int:
        return self.walker.room

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        with Clock() as clock:
            expansion = self.walker.expand(nodes, tokens, keep=keep)
        self.seconds += clock.cpu
        return expansion

    def release(self, handles: IntArray) -> None:
        with Clock() as clock:
            self.walker.release(handles)
        self.seconds += clock.cpu


@dataclass
class WalkTimes:
    """Rates of some walks, and which share of each lay outside the model, and what serves it."""

    module: TimedLstm
    rates: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    outside: list[float] = field(default_factory=list)
    outside_both: list[float] = field(default_factory=list)

    @contextmanager
    def of(self, walker: TimedWalker) -> Iterator[Clock]:
        """Time one walk; `count` says what it did."""
        self.module.seconds = walker.seconds = 0.0
        with Clock() as clock:
            yield clock
        self.outside.append(1 - self.module.seconds / clock.cpu)
        self.outside_both.append(1 - walker.seconds / clock.cpu)

    def beside_bare(self) -> dict[str, float]:
        """Both rates, and their ratio within a round."""
        return {
            "bare_per_cpu_second": middle(self.bare),
            "walk_per_cpu_second": middle(self.rates),
            **spread("ratio", over(self.rates, self.bare)),
            **self.shares(),
        }

    def shares(self) -> dict[str, float]:
        """What lay outside."""
        return {
            "outside_model": middle(self.outside, 3),
            **spread("outside_model_and_gathering", self.outside_both),
        }
