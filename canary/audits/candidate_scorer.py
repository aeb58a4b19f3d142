"""A model, and how candidates are put before it: what every measurement begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canary.errors import UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import Context, LanguageModel, Walker
from canary.scoring.batcher import Batcher, Progress, Stage
from canary.search.pricing import Pricer, walk_memory
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import TokenTree, compile_tree

__all__ = ["Below"]

_CURE = "name a format whose candidates this tokenizer makes a tree of, or guess another"


@dataclass(frozen=True)
class Below:
    """What walks and rows of a format need: the model, the encoder, the size of batches.

    Parameters
    ----------
    model : LanguageModel
    encoder : CandidateEncoder
    batch_size : int or None
        Found by trial if None.
    stage : callable
        For progress, in tokens; see `canary.scoring.batcher.Stage`.
    """

    model: LanguageModel
    encoder: CandidateEncoder
    batch_size: int | None
    stage: Stage

    @classmethod
    def of(
        cls,
        model: LanguageModel,
        *,
        start_token: str | None,
        context: str,
        batch_size: int | None,
        stage: Stage | None = None,
    ) -> Below:
        """The model with what stands before its candidates."""
        encoder = CandidateEncoder(model.tokenizer, start_token, context)
        return cls(model, encoder, batch_size, stage or _silent)

    def batcher(self, name: str, tokens: int) -> Batcher:
        """A batcher that tells of a stage of so many tokens at most."""
        return Batcher(self.model, batch_size=self.batch_size, progress=self.stage(name, tokens))

    def tree(self, format: Format, *, among: Sequence[str]) -> TokenTree:
        """The tree of a format, for a search that can do nothing without one."""
        try:
            return compile_tree(format, self.encoder, among=among)
        except UnsupportedError as error:  # its cure is one for audits
            raise UnsupportedError(error.problem, cure=_CURE) from error

    def open(self, tree: TokenTree) -> Walker:
        """A walker below the context of a tree."""
        return self.model.open(Context(tree.context), memory_bytes=self.memory_bytes())

    def memory_bytes(self) -> int:
        """How much a walk may hold."""
        return walk_memory(self.model)

    def pricer(self, format: Format, tree: TokenTree | None, noise_bits: float) -> Pricer:
        """What prices the candidates of a format along its tree, or as whole rows."""
        return Pricer(self.model, format, self.encoder, tree, noise_bits)


def _silent(_name: str, _tokens: int) -> Progress:
    return lambda _done: None
