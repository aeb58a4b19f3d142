"""Torch language models of the user's own that keep no states: ``module(ids) -> logits``.

`ids` are int64 of shape (batch, time), right-padded; `logits` of shape (batch, time,
vocabulary) are those after each token. Every node of a walk is computed as a whole row.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from canary.errors import CanaryError, ModelError
from canary.models.distributions import token_log_probs, token_moments
from canary.models.language_model import Context, FloatArray, Memory, ModelFacts, Moments, Rows
from canary.models.noise import with_measured_noise
from canary.models.torch_support import (
    dtype_at_work,
    dtype_name,
    free_bytes,
    inference,
    input_device,
    pad,
    refuse_softmax,
    scored_positions,
)
from canary.models.weight_digest import fingerprint
from canary.models.whole_rows import WholeRowWalker
from canary.tokens.tokenizer import Tokenizer

__all__ = ["StatelessModel", "keeps_no_state"]

_CURE = (
    "make forward(ids) return logits of shape (batch, time, vocabulary), or forward(ids, state) "
    "return (logits, state)"
)


def keeps_no_state(module: torch.nn.Module) -> bool:
    """Whether a module takes ids alone, or gives logits alone."""
    try:
        inspect.signature(module.forward).bind(None, None)
    except TypeError:
        return True
    ids = torch.zeros((2, 2), dtype=torch.int64, device=input_device(module))
    try:
        with inference(module):
            return isinstance(module(ids, None), torch.Tensor)
    except Exception:  # the module is the caller's own code; who uses it says what is wrong
        return False


class StatelessModel:
    """A torch module without states behind the language-model seam.

    Parameters
    ----------
    module : torch.nn.Module
        Fulfils the contract at the head of this file.
    tokenizer : Tokenizer
    name : str
        What to call the model in results.

    Raises
    ------
    ModelError
        If the module does not fulfil the contract, or gives probabilities.
    """

    def __init__(
        self, module: torch.nn.Module, tokenizer: Tokenizer, *, name: str = "stateless"
    ) -> None:
        self.module, self.tokenizer = module, tokenizer
        self.device = input_device(module)
        size = max(tokenizer.size, 1)
        probe = torch.arange(6, device=self.device).view(3, 2) % size
        logits = self.logits(probe)
        refuse_softmax(logits, name)
        vocabulary = int(logits.shape[-1])
        if vocabulary < tokenizer.size:
            raise ModelError(
                f"the model has {vocabulary} tokens, its tokenizer {tokenizer.size}",
                cure="give the tokenizer that the model was trained with",
            )
        plain = next(module.parameters(), torch.empty(0)).dtype
        self.facts = with_measured_noise(
            self,
            ModelFacts(
                name=name,
                vocabulary=vocabulary,
                length_limit=None,
                dtype=dtype_name(dtype_at_work(module, plain, lambda: self.logits(probe))),
                attention="none",
                device=self.device.type,
                fingerprint=fingerprint(module),
                noise_bits_per_token=0.0,
            ),
        )

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """Logits of shape (n, t - skipped, vocabulary) of whole rows."""
        with self._calling(), inference(self.module):
            found = self.module(ids)
        shape = tuple(getattr(found, "shape", ()))
        if not isinstance(found, torch.Tensor) or len(shape) != 3 or shape[:2] != ids.shape:
            shown = f"shape {shape}" if isinstance(found, torch.Tensor) else type(found).__name__
            raise ModelError(
                f"{type(self.module).__name__} gave {shown} for ids of shape {tuple(ids.shape)}",
                cure=_CURE,
            )
        return found[:, skipped:]

    @contextmanager
    def _calling(self) -> Iterator[None]:
        try:
            yield
        except CanaryError:
            raise
        except Exception as error:  # the module is the caller's own code
            raise ModelError(
                f"{type(self.module).__name__} does not work as a language model "
                f"({type(error).__name__}: {error})",
                cure=_CURE,
            ) from error

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats."""
        if not rows.scored.any():
            return np.zeros(0, np.float32)
        return token_log_probs(*self._asked(rows))

    def moments(self, rows: Rows) -> Moments:
        """See `canary.models.language_model.TellsMoments`."""
        if not rows.scored.any():
            none = np.zeros(0, np.float32)
            return Moments(none, none, none)
        return token_moments(*self._asked(rows))

    def _asked(self, rows: Rows) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits, targets, and which of them are scored."""
        ids = pad(rows, self.device)
        return self.logits(ids[:, :-1]), ids[:, 1:], scored_positions(rows, self.device)

    def open(self, context: Context, *, memory_bytes: int) -> WholeRowWalker:
        """A walker below `context`, which holds nothing."""
        return WholeRowWalker(self, context)

    def memory(self) -> Memory:
        """Free bytes on the module's device; no state is kept."""
        return Memory(free_bytes(self.device), 1)
