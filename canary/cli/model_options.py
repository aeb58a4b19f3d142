"""What every command that runs a model is told of it: the same options, in one place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_type_hints

from canary.cli.console import Bars, say
from canary.cli.options import (
    Answers,
    BatchSize,
    ContextText,
    Device,
    Dtype,
    Factory,
    InFlight,
    KeyEnv,
    MaxRequests,
    RayAddress,
    RequestTimeout,
    ServedModel,
    StartToken,
    TokenizerPath,
    TopK,
    WorkerCpus,
    WorkerGpus,
    Workers,
)
from canary.errors import InputError
from canary.records.validation import AUTO, named_start
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.models.language_model import LanguageModel
    from canary.workers.cluster import RayWorkers

__all__ = ["ModelOptions", "finds_start", "takes_model_options"]


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
    served_model: ServedModel = None
    key_env: KeyEnv = None
    answers: Answers = None
    max_requests: MaxRequests = None
    in_flight: InFlight = None
    request_timeout: RequestTimeout = None
    top_k: TopK = None
    ray: RayAddress = None
    workers: Workers = None
    worker_cpus: WorkerCpus = None
    worker_gpus: WorkerGpus = None

    def load(self, model: str) -> LanguageModel:
        """The model, after a word of what is being loaded."""
        from canary.models.language_model import Spread
        from canary.models.loading import load

        source, workers = self._source(model), self._workers()
        say(f"Loading {model}")
        with Bars() as bars:
            bars.phase(f"Loading {model}")
            loaded = load(
                source,
                tokenizer=self.tokenizer,
                dtype=self.dtype,
                device=self.device,
                factory=self.factory,
                workers=workers,
            )
        if isinstance(loaded, Spread):
            say(
                f"{plural(loaded.workers, 'worker')} of the cluster keep it ({loaded.facts.device})"
            )
        return loaded

    def load_beside(self, model: str) -> LanguageModel:
        """A second model, of which these options say only where and how it computes."""
        return ModelOptions(dtype=self.dtype, device=self.device).load(model)

    def load_masked(self, model: str) -> Any:
        """A masked model, likewise."""
        from canary.models.masked import load_masked

        say(f"Loading {model}")
        return load_masked(model, dtype=self.dtype, device=self.device)

    def _source(self, model: str) -> Any:
        """What to load: the server at an address, or what else was named."""
        from canary.models.served.endpoint import Endpoint, is_url

        asked: dict[str, Any] = {
            "model": self.served_model,
            "key_env": self.key_env,
            "answers": self.answers,
            "max_requests": self.max_requests,
            "in_flight": self.in_flight,
            "timeout": self.request_timeout,
            "top_k": self.top_k,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        if is_url(model):
            return Endpoint(model, tell=say, **given)
        if given:
            words = {"model": "served_model", "timeout": "request_timeout"}
            raise InputError(
                f"{_options(words.get(name, name) for name in given)} given, which is for a "
                "server, and the model is no address",
                cure="leave them out, or give the address as in http://host:8000/v1",
                where=model,
            )
        return model

    def _workers(self) -> RayWorkers | None:
        """The workers that were asked for."""
        asked = {"workers": self.workers, "cpus": self.worker_cpus, "gpus": self.worker_gpus}
        given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        if self.ray is None:
            if given:
                words = {"cpus": "worker_cpus", "gpus": "worker_gpus"}
                raise InputError(
                    f"{_options(words.get(name, name) for name in given)} given, and no cluster",
                    cure="give its address with --ray, or leave them out",
                )
            return None
        from canary.workers.cluster import RayWorkers

        return RayWorkers(address=self.ray, threads=self.worker_cpus or 1, **given)

    def running(self) -> dict[str, Any]:
        """The arguments that say how it is run once it is loaded."""
        return {
            "start_token": named_start(self.start_token),
            "context": self.context,
            "batch_size": self.batch_size,
        }


def _options(fields: Iterable[str]) -> str:
    """The options of these fields, as the user wrote them."""
    return " and ".join(f"--{name.replace('_', '-')}" for name in fields)


def finds_start(function: Callable[..., None]) -> Callable[..., None]:
    """`takes_model_options` for a command that finds the start token unless one is named."""
    return takes_model_options(function, start_token=AUTO)


def takes_model_options(
    function: Callable[..., None], *, start_token: str | None = None
) -> Callable[..., None]:
    """The command with the fields of `ModelOptions` as options where it has `options`.

    `start_token` is the default of the option of that name.
    """
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
            named.replace(
                name=field.name,
                default=start_token if field.name == "start_token" else field.default,
                annotation=own[field.name],
            )
            for field in fields(ModelOptions)
        ]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        options = ModelOptions(**{f.name: given.pop(f.name) for f in fields(ModelOptions)})
        function(**given, options=options)

    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return command
