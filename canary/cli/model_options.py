"""What every command that runs a model is told of it: the same options, in one place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from canary.cli.console import Bars, say
from canary.cli.options import ContextText, DtypeName, TokenizerPath, decodable, written
from canary.errors import InputError
from canary.records.validation import AUTO, named_start
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.models.language_model import LanguageModel
    from canary.workers.cluster import RayWorkers


@dataclass(frozen=True)
class ModelOptions:
    """How a model is loaded and run; each field is an option of the command line."""

    start_token: Annotated[
        str | None,
        typer.Option(
            "--start-token",
            metavar="TOKEN",
            callback=written,
            help="What training put before each text, if the tokenizer puts nothing there: a token "
            r"by its name (\n is understood), or none. Where a start token is chosen, auto takes "
            "the one after which text without secrets is most likely.",
        ),
    ] = None
    context: ContextText = ""
    tokenizer: TokenizerPath = None
    factory: Annotated[
        str | None,
        typer.Option(
            "--factory",
            metavar="MODULE:FUNCTION",
            help="Your code that builds a recurrent model from its config.json; it is run. "
            "path/to/file.py:FUNCTION serves, too.",
        ),
    ] = None
    dtype: Annotated[
        DtypeName | None,
        typer.Option("--dtype", help="Of the arithmetic.  [default: the model's own]"),
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="NAME",
            help="Such as cpu or cuda:1.  [default: the first accelerator, or the CPU]",
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", min=1, help="Rows or nodes at once.  [default: found by trial]"
        ),
    ] = None
    served_model: Annotated[
        str | None,
        typer.Option(
            "--served-model",
            metavar="NAME",
            callback=decodable,
            help="The name that a server gives the model.  [default: the only one that it has]",
        ),
    ] = None
    key_env: Annotated[
        str | None,
        typer.Option(
            "--key-env",
            metavar="VARIABLE",
            callback=decodable,
            help="The environment variable that holds the key for a server.  "
            "[default: no key is sent]",
        ),
    ] = None
    answers: Annotated[
        Path | None,
        typer.Option(
            "--answers",
            metavar="FOLDER",
            help="Where every answer of a server is kept, so that a run that broke off asks for "
            "none again.  [default: canary/answers in your cache]",
        ),
    ] = None
    max_requests: Annotated[
        int | None,
        typer.Option(
            "--max-requests", min=1, help="Most requests to a server.  [default: no limit]"
        ),
    ] = None
    in_flight: Annotated[
        int | None,
        typer.Option("--in-flight", min=1, help="Most requests to a server at once.  [default: 8]"),
    ] = None
    request_timeout: Annotated[
        float | None,
        typer.Option(
            "--request-timeout",
            metavar="SECONDS",
            help="How long the whole answer of a server may take.  [default: 120]",
        ),
    ] = None
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k",
            min=1,
            metavar="COUNT",
            help="For a server that gives no log-probabilities of a prompt: ask for so many of the "
            "likeliest next tokens, and for bounds.",
        ),
    ] = None
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            callback=decodable,
            help="Have workers of a Ray cluster keep the model and compute: HOST:PORT of its head, "
            "ray://HOST:PORT of its client server, auto for the cluster of this machine, local for "
            "one that is started here. Such as --ray head:6379 --workers 8 --worker-gpus 1.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            help="With --ray: how many keep the model.  [default: as many as there is room for]",
        ),
    ] = None
    worker_cpus: Annotated[
        int | None,
        typer.Option(
            "--worker-cpus",
            min=1,
            help="With --ray: processors of each worker, and threads that it computes with.  "
            "[default: 1]",
        ),
    ] = None
    worker_gpus: Annotated[
        float | None,
        typer.Option(
            "--worker-gpus",
            min=0,
            help="With --ray: GPUs of each worker; 0.5 puts two on one.  [default: 0]",
        ),
    ] = None

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
