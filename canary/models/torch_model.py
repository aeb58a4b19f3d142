"""What the adapters of all torch modules have in common: from rows to log-probabilities.

Logits are taken to float32 and normalised there over the whole vocabulary; only the
asked log-probabilities leave the device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.by_scoring import RowWalker
from canary.models.decoded_tokens import decoded_tokens
from canary.models.decoding import Decoded, Scheme
from canary.models.facts import ModelFacts
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Ints,
    Memory,
    Moments,
    Nodes,
    Rows,
    Walker,
)
from canary.models.noise import remeasure_noise
from canary.models.torch_support import (
    computing,
    devices_of,
    dtype_at_work,
    fingerprint,
    free_bytes,
    peak_bytes,
    quantised,
)
from canary.records.progress import phase
from canary.statistics.number_checks import UNITS, log_softmaxed, softmaxed
from canary.tokens.tokenizer import Tokenizer

_FAR = -1e6
"""Nats of a probability that is 0 in float32, and whose square is not infinite."""

_SMALL_BYTES = 1 << 26
"""A module up to this size is hashed at the start of each use."""

_AT_ONCE = 1 << 22
"""Log-probabilities of whole distributions that are held at a time."""


class TorchModel(ABC):
    """A torch module behind the language-model seam; a subclass says how it is called."""

    facts: ModelFacts
    folder: str = ""  # or file, that it was loaded from
    bytes_per_held_token = 1

    def __init__(self, module: Any, tokenizer: Tokenizer) -> None:
        self.module, self.tokenizer = module, tokenizer
        self._devices = devices_of(module)
        self.device = self._devices[0]
        self._weights: list[tuple[int, int, int]] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.facts}>"

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
            return np.concatenate([token_log_probs(*part) for part in self._asked(rows)])

    def moments(self, rows: Rows) -> Moments:
        """See `canary.models.language_model.TellsMoments`."""
        if not rows.scored.any():
            return Moments(*np.zeros((3, 0), np.float32))
        with computing():
            parts = [token_moments(*part) for part in self._asked(rows)]
        names = ("log_probs", "means", "deviations")
        return Moments(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def decoded(self, rows: Rows, schemes: Sequence[Scheme]) -> Decoded:
        """See `canary.models.decoding.TellsDecoding`."""
        if not rows.scored.any():
            return Decoded(np.zeros((0, len(schemes)), np.float32), np.zeros(0, np.bool_))
        parts = []
        with computing():
            for logits, targets, wanted in self._asked(rows):
                places = None if wanted.all() else wanted.flatten().nonzero()[:, 0]
                flat = logits.flatten(0, 1)
                parts.append(decoded_tokens(flat, targets[wanted], schemes, places=places))
        return Decoded(
            np.concatenate([part.log_probs for part in parts]),
            np.concatenate([part.greedy for part in parts]),
        )

    def _asked(self, rows: Rows) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Logits, targets, and which of them are scored, of all rows together or of a part."""
        ids, wanted = padded(rows, self.device)
        skipped = int(rows.start.min()) - 1  # nothing is scored before
        yield from self.after(ids[:, :-1], ids[:, 1 + skipped :], wanted[:, skipped:], skipped)

    def after(
        self, ids: torch.Tensor, targets: torch.Tensor, wanted: torch.Tensor, skipped: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Logits after `ids` as `logits` gives them, with the targets and which are wanted."""
        yield self.logits(ids, skipped), targets, wanted

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker below `context`, which holds nothing unless a subclass says so."""
        return WholeRowWalker(self, context)

    def memory(self) -> Memory:
        """Free bytes on the tightest of its devices, and the size of one cached state."""
        return Memory(free_bytes(*self._devices), self.bytes_per_held_token)

    def peak_device_bytes(self) -> int:
        """The most memory that tensors took on its GPUs so far; 0 without one."""
        return sum(peak_bytes(device) for device in self._devices)

    def fingerprint(self) -> str:
        """SHA-256 of the parameters, and of what else the numbers depend on."""
        return fingerprint(self.module)

    def refresh(self) -> None:
        """Hash the weights again, and if they have changed since, measure the noise again.

        A module of more than `_SMALL_BYTES` is hashed again only if torch has counted a change in
        place since (an optimizer's step, `load_state_dict`; not one through `Tensor.data`).
        """
        state = self._state_of_weights()
        if state == self._weights and sum(size for *_, size in state) > _SMALL_BYTES:
            return
        now = self.fingerprint()
        if now != self.facts.fingerprint:
            remeasure_noise(self, fingerprint=now)
        self._weights = state

    def _state_of_weights(self) -> list[tuple[int, int, int]]:
        """Address, count of changes and bytes of each tensor."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        return [
            (t.data_ptr(), 0 if t.is_inference() else t._version, t.numel() * t.element_size())
            for t in tensors
        ]

    def introduced(self, name: str, logits: torch.Tensor, **others: Any) -> ModelFacts:
        """The facts of a model that gave these logits; its noise is still to be measured.

        A ModelError if they are probabilities, logarithms of them to another base, or fewer than
        the tokenizer has tokens.
        """
        rows = logits.detach().reshape(-1, logits.shape[-1])
        coarse = rows.dtype in (torch.bfloat16, torch.float16)
        values = rows.float().cpu().numpy()
        # A log-softmax of them would be taken for the model's, nearly flat and without an error.
        if softmaxed(values, coarse=coarse):
            raise ModelError(
                f"the model {name!r} gives probabilities where logits are expected: every row is "
                "within 0 and 1 and sums to 1",
                cure="leave the softmax out of its forward, or take the logarithm",
            )
        if (unit := log_softmaxed(values, coarse=coarse)) not in ("", "nats"):
            raise ModelError(
                f"the model {name!r} gives log-probabilities in {unit} where logits are expected: "
                f"taken for {unit} they sum to 1 in every row",
                cure=f"leave the logarithm out of its forward, or multiply by {UNITS[unit]:.6g}",
            )
        vocabulary, size = int(logits.shape[-1]), self.tokenizer.size
        if vocabulary < size:
            cure = "give the tokenizer that the model was trained with"
            raise ModelError(f"the model has {vocabulary} tokens, its tokenizer {size}", cure=cure)
        phase(f"Hashing the weights of {name}")
        probe = torch.zeros((1, 1), dtype=torch.int64, device=self.device)
        dtype = dtype_at_work(self.module, lambda: self.logits(probe))
        self._weights = self._state_of_weights()
        about = {"length_limit": None, "attention": "none", "noise_bits_per_token": 0.0, **others}
        return ModelFacts(
            name=name,
            vocabulary=vocabulary,
            dtype=str(dtype).removeprefix("torch."),
            device=self.device.type,
            fingerprint=self.fingerprint(),
            weights=quantised(self.module),
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


class WholeRowWalker(RowWalker):
    """Computes every node's whole row, context and path; it gives all children of the node."""

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`; `keep` has no effect."""
        n, above = len(nodes), len(self._context)
        lengths = np.asarray(nodes.lengths, np.int64)
        paths = (path[:k].tolist() for path, k in zip(nodes.paths, lengths, strict=True))
        starts = (above + np.asarray(nodes.priced, np.int64)).tolist()
        rows = Rows.of([self._context.tolist() + path for path in paths], starts)
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


@dataclass(frozen=True, eq=False)
class Distributions:
    """Rows of logits with their normalisers; see `canary.models.state_cache.NextTokens`."""

    logits: torch.Tensor  # float32, of shape (n, vocabulary)
    normalisers: torch.Tensor  # log-sum-exp of each row

    @classmethod
    def of(cls, logits: torch.Tensor) -> Distributions:
        """Distributions from logits of shape (n, vocabulary) and any float type."""
        logits = logits.float()
        return cls(logits, torch.logsumexp(logits, dim=-1))

    def gather(self, rows: Ints, tokens: Ints) -> NDArray[np.float64]:
        """Log-probability of one token in each of the named rows, in nats."""
        return self._picked(rows, tokens).double().cpu().numpy()

    def children(self, rows: Ints | None, children: Children) -> NDArray[np.float32]:
        """Log-probabilities of children in the named rows (None: all), in nats."""
        named = np.arange(len(self.logits)) if rows is None else rows
        return self._picked(*children.index(named)).cpu().numpy()

    def _picked(self, rows: Ints, tokens: IntArray) -> torch.Tensor:
        """Of rows and tokens that are broadcast against each other."""
        with computing():
            device = self.logits.device
            at = torch.from_numpy(rows).to(device)
            of = torch.from_numpy(np.asarray(tokens, np.int64)).to(device)
            return self.logits[at, of] - self.normalisers[at]


def context_read(
    logits: torch.Tensor, ids: torch.Tensor
) -> tuple[NDArray[np.float32], Distributions]:
    """Log-probabilities of a context's tokens after its first, and what follows its last.

    Both tensors are of one row; `ids` has the shape (1, p).
    """
    targets = ids[:, 1:].to(logits.device)
    everything = torch.ones_like(targets, dtype=torch.bool)
    return token_log_probs(logits[:, :-1], targets, everything), Distributions.of(logits[:, -1])


def token_log_probs(
    logits: torch.Tensor, targets: torch.Tensor, wanted: torch.Tensor
) -> NDArray[np.float32]:
    """Log-probabilities of the `wanted` of all targets (n, t), row by row, flat.

    ``logits[:, j]`` of shape (n, t, vocabulary) is the distribution of ``targets[:, j]``.
    """
    flat = logits[wanted].float()
    picked = flat.gather(1, targets[wanted].unsqueeze(1)).squeeze(1)
    return (picked - torch.logsumexp(flat, dim=-1)).cpu().numpy()


def token_moments(logits: torch.Tensor, targets: torch.Tensor, wanted: torch.Tensor) -> Moments:
    """`token_log_probs`, with mean and standard deviation of each distribution.

    Distributions are worked on a few at a time; beside the logits two copies of 4 million
    numbers are held.
    """
    flat, asked = logits[wanted], targets[wanted].unsqueeze(1)
    size, parts = max(_AT_ONCE // logits.shape[-1], 1), []
    for at in range(0, len(flat), size):
        log_probs = flat[at : at + size].float().log_softmax(-1)
        probs, finite = log_probs.exp(), log_probs.clamp(min=_FAR)  # 0 log 0 is 0
        mean = (probs * finite).sum(-1)
        # Of the distances, not of the squares: their difference would lose small deviations.
        deviation = (probs * (finite - mean[:, None]).square()).sum(-1).sqrt()
        picked = log_probs.gather(1, asked[at : at + size]).squeeze(1)
        parts.append(torch.stack([picked, mean, deviation]))
    return Moments(*torch.cat(parts, dim=1).cpu().numpy())
