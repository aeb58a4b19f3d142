"""What every command that runs a model is told of it: the same options, in one place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_type_hints

from canary.cli.console import say
from canary.cli.options import (
    BatchSize,
    ContextText,
    Device,
    Dtype,
    Factory,
    StartToken,
    TokenizerPath,
)

if TYPE_CHECKING:
    from canary.models.base import LanguageModel

__all__ = ["ModelOptions", "takes_model_options"]


@dataclass(frozen=True)
class ModelOptions:
    """How a model is loaded and run; each field is an option of the command line."""

    start_token: StartToken = None
    context: ContextText = ""
    tokenizer: TokenizerPath = None
    factory: Factory = None
    dtype: Dtype = None
    device: Device = None
    batch_size: BatchSize = None

    def load(self, model: str) -> LanguageModel:
        """The model, after a word of what is being loaded."""
        from canary.models.loading import load

        say(f"Loading {model}")
        return load(
            model,
            tokenizer=self.tokenizer,
            dtype=self.dtype,
            device=self.device,
            factory=self.factory,
        )

    def running(self) -> dict[str, Any]:
        """The arguments that say how it is run once it is loaded."""
        return {
            "start_token": self.start_token,
            "context": self.context,
            "batch_size": self.batch_size,
        }


def takes_model_options(function: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of `ModelOptions` as options where it has `options`."""
    hints = get_type_hints(function, include_extras=True)
    own = get_type_hints(ModelOptions, include_extras=True, localns={"LanguageModel": Any})
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        named = parameter.replace(
            kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name]
        )
        if parameter.name != "options":
            shown.append(named)
            continue
        shown += [
            named.replace(name=field.name, default=field.default, annotation=own[field.name])
            for field in fields(ModelOptions)
        ]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        options = ModelOptions(**{f.name: given.pop(f.name) for f in fields(ModelOptions)})
        function(**given, options=options)

    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return command
