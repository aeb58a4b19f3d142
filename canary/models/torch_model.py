"""What the adapters of all torch modules have in common: from rows to log-probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import torch

from canary.errors import ModelError
from canary.models.by_scoring import HoldsNothing
from canary.models.distributions import Distributions, token_log_probs, token_moments
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Ints,
    Memory,
    ModelFacts,
    Moments,
    Nodes,
    Rows,
    Walker,
)
from canary.models.torch_support import (
    computing,
    devices_of,
    dtype_at_work,
    free_bytes,
    input_device,
    refuse_softmax,
)
from canary.models.weight_digest import fingerprint
from canary.tokens.tokenizer import Tokenizer

__all__ = ["TorchModel", "WholeRowWalker"]


class TorchModel(ABC):
    """A torch module behind the language-model seam; a subclass says how it is called.

    Parameters
    ----------
    module : torch.nn.Module
    tokenizer : Tokenizer
    """

    facts: ModelFacts
    bytes_per_held_token = 1

    def __init__(self, module: Any, tokenizer: Tokenizer) -> None:
        self.module, self.tokenizer = module, tokenizer
        self.device = input_device(module)
        self._devices = devices_of(module) or [self.device]

    @abstractmethod
    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """Logits after each token but the first `skipped`, (n, t - skipped, vocabulary).

        `ids` are right-padded whole rows of shape (n, t).
        """

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats."""
        if not rows.scored.any():
            return np.zeros(0, np.float32)
        with computing():
            return token_log_probs(*self._asked(rows))

    def moments(self, rows: Rows) -> Moments:
        """See `canary.models.language_model.TellsMoments`."""
        if not rows.scored.any():
            none = np.zeros(0, np.float32)
            return Moments(none, none, none)
        with computing():
            return token_moments(*self._asked(rows))

    def _asked(self, rows: Rows) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits, targets, and which of them are scored."""
        ids, wanted = padded(rows, self.device)
        skipped = int(rows.start.min()) - 1  # nothing is scored before
        return self.logits(ids[:, :-1], skipped), ids[:, 1 + skipped :], wanted[:, skipped:]

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker below `context`, which holds nothing unless a subclass says so."""
        return WholeRowWalker(self, context)

    def memory(self) -> Memory:
        """Free bytes on the tightest of its devices, and the size of one held state."""
        return Memory(free_bytes(*self._devices), self.bytes_per_held_token)

    def fingerprint(self) -> str:
        """SHA-256 of the parameters, and of what else the numbers depend on."""
        return fingerprint(self.module)

    def introduced(self, name: str, logits: torch.Tensor, **others: Any) -> ModelFacts:
        """The facts of a model that gave these logits; its noise is still to be measured.

        Raises
        ------
        ModelError
            If they are probabilities, or the model has fewer tokens than its tokenizer.
        """
        refuse_softmax(logits, name)
        vocabulary, size = int(logits.shape[-1]), self.tokenizer.size
        if vocabulary < size:
            raise ModelError(
                f"the model has {vocabulary} tokens, its tokenizer {size}",
                cure="give the tokenizer that the model was trained with",
            )
        probe = torch.zeros((1, 1), dtype=torch.int64, device=self.device)
        dtype = dtype_at_work(self.module, lambda: self.logits(probe))
        about = {"length_limit": None, "attention": "none", "noise_bits_per_token": 0.0, **others}
        return ModelFacts(
            name=name,
            vocabulary=vocabulary,
            dtype=str(dtype).removeprefix("torch."),
            device=self.device.type,
            fingerprint=self.fingerprint(),
            **about,
        )


def padded(rows: Rows, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids of shape (n, longest), and which targets are scored, (n, longest - 1).

    Rows are padded with zeros on the right, which causal models never see. Target ``j`` is
    token ``j + 1`` of its row.
    """
    lengths = rows.lengths
    at = np.arange(int(lengths.max(initial=1)))
    inside = at < lengths[:, None]
    ids = np.zeros(inside.shape, np.int64)
    ids[inside] = rows.ids
    wanted = (inside & (at >= rows.start[:, None]))[:, 1:]
    return torch.from_numpy(ids).to(device), torch.from_numpy(wanted).to(device)


class WholeRowWalker(HoldsNothing):
    """Computes every node's whole row, context and path; it gives all children of the node.

    Parameters
    ----------
    model : TorchModel
    context : Context
    """

    def __init__(self, model: TorchModel, context: Context) -> None:
        self._model = model
        self._context: list[int] = np.asarray(context.ids).tolist()

    @cached_property
    def context_log_probs(self) -> FloatArray:
        """Log-probabilities of the context's tokens after its first, shape (p - 1,), nats."""
        return self._model.score(Rows.of([self._context]))

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`; `keep` has no effect."""
        n, above = len(nodes), len(self._context)
        lengths = np.asarray(nodes.lengths, np.int64)
        paths = (path[:k].tolist() for path, k in zip(nodes.paths, lengths, strict=True))
        rows = Rows.of(
            [self._context + path for path in paths],
            (above + np.asarray(nodes.priced, np.int64)).tolist(),
        )
        skipped = int(np.minimum(rows.start, rows.lengths).min(initial=above)) - 1
        with computing():
            ids, wanted = padded(rows, self._model.device)
            logits = self._model.logits(ids, skipped)
            unpriced = token_log_probs(logits[:, :-1], ids[:, 1 + skipped :], wanted[:, skipped:])
            path = np.zeros(n)
            np.add.at(path, np.repeat(np.arange(n), rows.scored), unpriced.astype(np.float64))
            last = torch.from_numpy(rows.lengths - 1 - skipped).to(logits.device)
            ends = Distributions.of(logits[torch.arange(n, device=logits.device), last])
        handles = np.full(n, -1, np.int64)
        return Expansion(path, ends.children(None, tokens), handles, int(lengths.sum()))

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
        """See `canary.models.language_model.TellsQueries`; no state is held."""
        return np.asarray(nodes.lengths, np.int64)
