"""How a `transformers` decoder is called: whole rows, and tokens behind held states."""

from __future__ import annotations

import inspect
from typing import Any, Protocol

import torch

from canary.errors import UnsupportedError
from canary.models.language_model import IntArray
from canary.models.shared_context import sharing
from canary.models.torch_support import inference, input_device
from canary.models.weight_digest import fingerprint

__all__ = ["CausalForward", "Forward", "RowForward"]


class RowForward(Protocol):
    """The part of a decoder that whole rows need.

    Logits are those after each position; ids are right-padded, of shape (n, t).
    """

    @property
    def device(self) -> torch.device:
        """Where ids are taken."""
        ...

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """Logits of shape (n, t - skipped, vocabulary) of whole rows."""
        ...


class Forward(RowForward, Protocol):
    """The part of a decoder that scoring and walking need."""

    def cached(self, ids: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        """Logits of tokens behind those in `cache` (None: none), and the cache after them."""
        ...

    def below(
        self, ids: torch.Tensor, cache: Any, context: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> tuple[torch.Tensor, Any]:
        """One token of each row behind a shared context and the row's own `cache`.

        Raises
        ------
        UnsupportedError, ValueError
            If the model's attention cannot be done that way.
        """
        ...

    def fingerprint(self) -> str:
        """SHA-256 of the parameters, and of what else the numbers depend on."""
        ...

    def given(self, source: IntArray | None) -> Forward:
        """The same decoder reading `source`; None leaves what it reads."""
        ...


class CausalForward:
    """Calls a causal language model, or one wrapped by peft.

    Parameters
    ----------
    module : transformers.PreTrainedModel
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.device = input_device(module)
        plain = module.get_base_model() if hasattr(module, "get_base_model") else module
        self._selects_logits = "logits_to_keep" in inspect.signature(plain.forward).parameters

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """See `Forward.logits`."""
        kept = ids.shape[1] - skipped
        options: dict[str, Any] = {"logits_to_keep": kept} if self._selects_logits else {}
        with inference(self.module):
            logits: torch.Tensor = self.module(input_ids=ids, use_cache=False, **options).logits
            # Learned tokens in front of the row (prompt tuning) have logits too.
            return logits[:, logits.shape[1] - kept :]

    def cached(self, ids: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        """See `Forward.cached`."""
        with inference(self.module):
            out = self.module(input_ids=ids, past_key_values=cache, use_cache=True)
            return out.logits, out.past_key_values

    def below(
        self, ids: torch.Tensor, cache: Any, context: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> tuple[torch.Tensor, Any]:
        """See `Forward.below`."""
        position = context[0][0].shape[2] + cache.get_seq_length()
        config = self.module.config.get_text_config()
        with inference(self.module), sharing(config, context):
            out = self.module(
                input_ids=ids,
                past_key_values=cache,
                position_ids=torch.full_like(ids, position),
                use_cache=True,
            )
            return out.logits, out.past_key_values

    def fingerprint(self) -> str:
        """SHA-256 of the parameters."""
        return fingerprint(self.module)

    def given(self, source: IntArray | None) -> CausalForward:
        """The same model, which reads no source."""
        if source is None:
            return self
        raise UnsupportedError(
            "this model reads no source text, and a source was given",
            cure="leave the source out, or give a sequence-to-sequence model",
        )
