"""The model that the benchmarks of the walks share, its clock, and its bare step.

The Secret Sharer's: a two-layer LSTM of 200 units at character level, about 600,000
parameters, with random weights. All times are processor time: the machine may be shared.
"""

from __future__ import annotations

import string
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models

from canary.formats.format import Format
from canary.models.language_model import Children, Expansion, IntArray, LanguageModel, Nodes, Walker
from canary.models.loading import load
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import TokenTree, compile_tree

PREFIX = "The random number is"
CHARACTERS = sorted(set(PREFIX + string.digits + string.ascii_lowercase))
SIZES = (256, 512, 1024, 2048, 4096)
BARE_SECONDS = 0.4


class Lstm(torch.nn.Module):
    """Keeps the time that is spent in its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(len(CHARACTERS), 128)
        self.lstm = torch.nn.LSTM(128, 200, 2, batch_first=True)
        self.out = torch.nn.Linear(200, len(CHARACTERS))
        self.seconds = 0.0

    def forward(self, ids: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
        began = time.process_time()
        hidden, state = self.lstm(self.embed(ids), state)
        logits = self.out(hidden)
        self.seconds += time.process_time() - began
        return logits, state


def character_lstm(*, threads: int, sharper: float = 1.0) -> tuple[Lstm, LanguageModel]:
    """The module and the model around it; `sharper` logits set candidates further apart."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[]))
    module = Lstm().eval()
    with torch.no_grad():
        module.out.weight.mul_(sharper)
    return module, load(module, tokenizer=tokenizer, device="cpu")


class UntimedLstm(Lstm):
    """The same; fingerprints of models take in plain attributes, which must not change then."""

    def forward(self, ids: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
        hidden, state = self.lstm(self.embed(ids), state)
        return self.out(hidden), state


def build(_config: dict[str, Any]) -> UntimedLstm:
    """The module without weights, for `saved`."""
    return UntimedLstm()


def saved(folder: Path) -> str:
    """Write the model where `canary.load` finds it by the factory that is returned."""
    from safetensors.torch import save_file

    torch.manual_seed(0)
    save_file(Lstm().state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[])).save(
        str(folder / "tokenizer.json")
    )
    return f"{Path(__file__).resolve()}:build"


def digits_tree(model: LanguageModel, digits: int) -> TokenTree:
    """The tree of all numbers of so many digits."""
    format = Format(f"{PREFIX} {{digit:{digits}}}")
    return compile_tree(format, CandidateEncoder(model.tokenizer))


def bare_rate(module: Lstm) -> float:
    """Steps of one token per second, at the best of several batch sizes.

    Random states, no gathering, no softmax.
    """
    return max(_rate(module, size) for size in SIZES)


def _rate(module: Lstm, size: int) -> float:
    ids = torch.randint(0, len(CHARACTERS), (size, 1))
    state = (torch.randn(2, size, 200) / 5, torch.randn(2, size, 200) / 5)
    with torch.inference_mode():
        module(ids, state)
        began, steps = time.process_time(), 0
        while time.process_time() - began < BARE_SECONDS:
            module(ids, state)
            steps += 1
        return steps * size / (time.process_time() - began)


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
        began = time.process_time()
        expansion = self.walker.expand(nodes, tokens, keep=keep)
        self.seconds += time.process_time() - began
        return expansion

    def release(self, handles: IntArray) -> None:
        began = time.process_time()
        self.walker.release(handles)
        self.seconds += time.process_time() - began
