"""How a model is loaded and run, and a server is asked: options that many commands have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from canary.cli.console import Bars, say
from canary.errors import InputError
from canary.records.validation import named_start
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.models.language_model import LanguageModel
    from canary.models.served.endpoint import Endpoint
    from canary.workers.cluster import RayWorkers

Whole = Annotated[int, 0]
"""A number of 0 or more."""
Count = Annotated[int, 1]
"""A number of 1 or more."""

EXTRACTION_BUDGET = 10_000
"""Queries of the extraction of `canary audit`, for each format, unless others are asked for."""


class Counted(Exception):  # noqa: N818 - nothing went wrong
    """All that a dry run would send is counted; a command need not go on."""


@dataclass(frozen=True)
class ServerOptions:
    """How a server is asked; each field is an option of every command that may ask one."""

    served_model: str | None = None
    key_env: str | None = None
    answers: Path | None = None
    max_requests: Count | None = None
    total_requests: Count | None = None
    in_flight: Count | None = None
    request_timeout: float | None = None
    dry_run: bool = False

    def endpoint(self, url: str, **more: Any) -> Endpoint:
        """The server at an address; it says how many requests are to come."""
        from canary.models.served.endpoint import Endpoint

        asked = self._given(
            "served_model key_env answers max_requests total_requests in_flight request_timeout"
        )
        words = {"served_model": "model", "request_timeout": "timeout"}
        settings = {words.get(name, name): value for name, value in asked.items()}
        made = Endpoint(url, say=_counted if self.dry_run else say, **settings, **more)
        if self.total_requests is not None and not self.dry_run:
            say(made.ledger.on_record())
        if before := next((one for one in self.rehearsed if one.base == made.base), None):
            self.rehearsed.remove(before)
            made.goes_on(before)
        self.endpoints.append(made)
        return made

    def counted(self, note: str = "") -> None:
        """End a dry run here, which says the note: what follows sends nothing, and is not seen."""
        if self.dry_run:
            raise Counted(note)

    @cached_property
    def rehearsed(self) -> list[Endpoint]:
        """The servers that a rehearsal asked for their lists of models."""
        return []

    @cached_property
    def endpoints(self) -> list[Endpoint]:
        """The servers that were asked."""
        return []

    def _given(self, names: str) -> dict[str, Any]:
        """Those of these options that were given."""
        values = {name: getattr(self, name) for name in names.split()}
        return {name: value for name, value in values.items() if value not in (None, False)}


@dataclass(frozen=True)
class LocalOptions:
    """How a model that runs here is loaded and run; each field is an option of a command."""

    start_token: str | None = None
    context: str = ""
    revision: str | None = None
    tokenizer: str | None = None
    factory: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    device: str | None = None
    batch_size: Count | None = None

    def load(self, model: str) -> LanguageModel:
        """The model, after a word of what is being loaded."""
        return self._loaded(model, model)

    def _loaded(
        self, model: str, source: str | Endpoint, workers: RayWorkers | None = None
    ) -> LanguageModel:
        from canary.models.loading import load

        say(f"Loading {model}")
        with Bars() as bars:
            bars.phase(f"Loading {model}")
            return load(
                source,
                tokenizer=self.tokenizer,
                dtype=self.dtype,
                device=self.device,
                factory=self.factory,
                workers=workers,
                revision=self.revision,
            )

    def running(self) -> dict[str, Any]:
        """The arguments that say how it is run once it is loaded."""
        return {
            "start_token": named_start(self.start_token),
            "context": self.context,
            "batch_size": self.batch_size,
        }


@dataclass(frozen=True)
class ModelOptions(LocalOptions, ServerOptions):
    """How a model is loaded and run, here, behind a server or on a cluster."""

    top_k: Count | None = None
    ray: str | None = None
    workers: Count | None = None
    worker_cpus: Count | None = None
    worker_gpus: Annotated[float, 0] | None = None

    @cached_property
    def rehearsals(self) -> list[Any]:
        """The rehearsed models that were loaded for a dry run."""
        return []

    def load(self, model: str, *, budget: int | None = None) -> LanguageModel:
        """As `LocalOptions.load`; of a cluster it says how many workers keep the model.

        Of a server, `budget` is the most requests of the run, as ``--max-requests`` is.
        """
        from canary.models.language_model import Spread
        from canary.models.served.endpoint import is_url

        source: str | Endpoint = model
        given = self._given(
            "served_model key_env answers max_requests total_requests in_flight request_timeout "
            "top_k dry_run"
        )
        if is_url(model):
            source = self.endpoint(model, budget=budget, **self._given("top_k"))
            if self.dry_run:
                from canary.models.served.rehearsal import rehearsed

                found = rehearsed(source, self.tokenizer)
                self.rehearsals.append(found)
                return found
        elif given:
            raise InputError(
                f"{_flags(given)} given, which is for a server, and the model is no address",
                cure="leave them out, or give the address as in http://host:8000/v1",
                where=model,
            )
        loaded = self._loaded(model, source, self._workers())
        if isinstance(loaded, Spread):
            say(
                f"{plural(loaded.workers, 'worker')} of the cluster keep it ({loaded.facts.device})"
            )
        return loaded

    def _workers(self) -> RayWorkers | None:
        asked = self._given("workers worker_cpus worker_gpus")
        if self.ray is None:
            if asked:
                raise InputError(
                    f"{_flags(asked)} given, and no cluster",
                    cure="give its address with --ray, or leave them out",
                )
            return None
        from canary.workers.cluster import RayWorkers

        settings = {name.removeprefix("worker_"): value for name, value in asked.items()}
        return RayWorkers(address=self.ray, threads=self.worker_cpus or 1, **settings)


def _counted(line: str) -> None:
    raise Counted(line)


def _flags(names: Iterable[str]) -> str:
    return " and ".join(f"--{name.replace('_', '-')}" for name in names)
