"""A small model and a workplace for the tests of the command line."""

from __future__ import annotations

import json
import os
import string
import sys
from dataclasses import dataclass
from pathlib import Path

from canary.corpus.canaries import CanarySet

ROOT = Path(__file__).parents[2]
CHARACTERS = string.digits + string.ascii_letters + " .\n"

# The command as a process of its own.
ENTRY = [sys.executable, "-c", "import sys; from canary.cli.main import run; sys.exit(run())"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Outcome:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def document(self):
        """Its stdout, which must be one strict JSON document."""
        return strict(self.out)


def strict(text):
    def refuse(name):
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def small_model(positions=64):
    """An untrained GPT-2 over `CHARACTERS`."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    size = {"vocab_size": len(CHARACTERS), "bos_token_id": None, "eos_token_id": None}
    shape = {"n_positions": positions, "n_embd": 32, "n_layer": 1, "n_head": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT2LMHeadModel(GPT2Config(**shape, **size))


def save_model(model, folder, backend=None):
    """Write a model and its tokenizer, over `CHARACTERS` or another, as a training script would."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    backend = backend or Tokenizer(BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[]))
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(folder)


def files(folder):
    """Every file under a folder, with its bytes; not what Python itself keeps of a module."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.parent.name != "__pycache__"
    }


def shows_secret(text, canaries="canaries.json"):
    """Whether a fill of the set stands in a text."""
    return any(canary.fill in text for canary in CanarySet.load(canaries))
