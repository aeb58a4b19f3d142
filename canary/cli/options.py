"""Options that several commands share: their help, their checks, and those of a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from canary.cli.console import Bars, say
from canary.errors import InputError
from canary.records.validation import AUTO, brief, named_start
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.models.language_model import LanguageModel
    from canary.workers.cluster import RayWorkers

Whole = Annotated[int, 0]
"""A number of 0 or more."""
Count = Annotated[int, 1]
"""A number of 1 or more."""

HELP: Mapping[str, str] = {
    "as_json": "Print the result as one JSON document on stdout.",
    "force": "Replace the result of an earlier run.",
    "seed": "Same seed, same result.",
    "canaries": "FILE: The canary set that generate wrote.",
    "model": "MODEL: A folder that save_pretrained wrote, a hub id, with --factory the folder of "
    "a recurrent model of your own, or the address of an OpenAI-compatible server "
    "(http://host:8000/v1).",
    # Corpora.
    "corpus": "CORPUS: JSONL, CSV, text (a document on each line), each compressed or not; or "
    "Parquet.",
    "column": "NAME: The field that holds the text, or the chat messages; twice for a parallel "
    "pair.  [default: text]",
    "file_format": "<FILE-FORMATS>: Of the corpus.  [default: by its name]",
    "separators": r"BEFORE AFTER: Around a spliced canary; \n and \t are understood.  "
    "[default: SEPARATORS]",
    "beside": "COLUMN=TEXT: Text in another column of the canaries' own records; may be given "
    "several times.",
    # Sets of canaries.
    "repetitions": "N,N,...: Numbers of copies.",
    "per_repetition": "Canaries of each number of copies.",
    # Audits.
    "method": "<AUDIT-METHODS>: AUDIT-METHODS-HELP.",
    "budget": "Queries (tokens computed) that enumeration, or branch and bound together with "
    "importance draws, may take for a format; canaries and uniform draws are priced besides.",
    "draws": "Candidates drawn per format: to compare with where it is not enumerated, and for "
    "the skew-normal curve and the histogram, with --method rank as well.",
    "start_texts": "FILE: Training texts without canaries, one on each line, for --start-token "
    "auto to choose by.  [default: the format's fixed text and ordinary English sentences]",
    "audit_files": "AUDIT...: One or more of the audit.json that audit wrote; or one "
    "canary_history.json of a training.",
    "label": "TEXT: What an audit stands for; once for each, in their order.  [default: the names "
    "of the models, or of the files where those repeat]",
    "test_loss": "NATS: Mean loss of a model on test text, in nats per token; once for each "
    "audit, in their order.",
    "test_scores": "FILE: In place of --test-loss: what score wrote of the same test text with "
    "each model.",
    # Membership.
    "target": "FILE: An .npz, Parquet or CSV file with logits (or probs, or losses), labels and "
    "member (0 or 1) of the model that is attacked.",
    "shadow": "FILE: The same of a model whose members the attacker knows.",
    "fpr": "RATE,RATE,...: False positive rates to look at.  [default: 0.001,0.01,0.1 as far as "
    "there are nonmembers enough]",
    "confidence": "Of every interval.",
    "prior": "Of risk scores: chance of being a member, between 0 and 1.",
    "bins": "Of the histogram of a class.  [default: 5]",
    "scale": "Of the bins.",
    "least": "Members and nonmembers in the shadow that a class needs for a histogram of its own.",
    "smooth": "Risk scores by kernel densities, in place of --bins.",
    # Models.
    "start_token": "TOKEN: What training put before each text, if the tokenizer puts nothing "
    r"there: a token by its name (\n is understood), or none. Where a start token is chosen, auto "
    "takes the one after which text without secrets is most likely.",
    "context": r"TEXT: Text before every candidate; \n and \t are understood.",
    "tokenizer": "PATH: Instead of the one beside the model; needed for one that is served.",
    "factory": "MODULE:FUNCTION: Your code that builds a recurrent model from its config.json; it "
    "is run. path/to/file.py:FUNCTION serves, too.",
    "dtype": "Of the arithmetic.  [default: the model's own]",
    "device": "NAME: Such as cpu or cuda:1.  [default: the first accelerator, or the CPU]",
    "batch_size": "Rows or nodes at once.  [default: found by trial]",
    "served_model": "NAME: The name that a server gives the model.  [default: the only one that "
    "it has]",
    "key_env": "VARIABLE: The environment variable that holds the key for a server.  [default: no "
    "key is sent]",
    "answers": "FOLDER: Where every answer of a server is kept, so that a run that broke off asks "
    "for none again.  [default: canary/answers in your cache]",
    "max_requests": "Most requests to a server.  [default: no limit]",
    "in_flight": "Most requests to a server at once.  [default: 8]",
    "request_timeout": "SECONDS: How long the whole answer of a server may take.  [default: 120]",
    "top_k": "COUNT: For a server that gives no log-probabilities of a prompt: ask for so many of "
    "the likeliest next tokens, and for bounds.",
    "ray": "ADDRESS: Have workers of a Ray cluster keep the model and compute: HOST:PORT of its "
    "head, ray://HOST:PORT of its client server, auto for the cluster of this machine, local for "
    "one that is started here. Such as --ray head:6379 --workers 8 --worker-gpus 1.",
    "workers": "With --ray: how many keep the model.  [default: as many as there is room for]",
    "worker_cpus": "With --ray: processors of each worker, and threads that it computes with.  "
    "[default: 1]",
    "worker_gpus": "With --ray: GPUs of each worker; 0.5 puts two on one.  [default: 0]",
}
"""What options of several commands are: ``METAVAR: words``, or the words alone."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


@dataclass(frozen=True)
class ModelOptions:
    """How a model is loaded and run; each field is an option of every command that runs one."""

    start_token: str | None = None
    context: str = ""
    tokenizer: str | None = None
    factory: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    device: str | None = None
    batch_size: Count | None = None
    served_model: str | None = None
    key_env: str | None = None
    answers: Path | None = None
    max_requests: Count | None = None
    in_flight: Count | None = None
    request_timeout: float | None = None
    top_k: Count | None = None
    ray: str | None = None
    workers: Count | None = None
    worker_cpus: Count | None = None
    worker_gpus: Annotated[float, 0] | None = None

    def load(self, model: str) -> LanguageModel:
        """The model, after a word of what is being loaded."""
        from canary.models.language_model import Spread
        from canary.models.loading import load
        from canary.models.served.endpoint import Endpoint, is_url

        source: str | Endpoint = model
        asked = self._given(
            "served_model key_env answers max_requests in_flight request_timeout top_k"
        )
        if is_url(model):
            words = {"served_model": "model", "request_timeout": "timeout"}
            settings = {words.get(name, name): value for name, value in asked.items()}
            source = Endpoint(model, tell=say, **settings)
        elif asked:
            raise InputError(
                f"{_flags(asked)} given, which is for a server, and the model is no address",
                cure="leave them out, or give the address as in http://host:8000/v1",
                where=model,
            )
        workers = self._workers()
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

    def _given(self, names: str) -> dict[str, Any]:
        """Those of these options that were given."""
        values = {name: getattr(self, name) for name in names.split()}
        return {name: value for name, value in values.items() if value is not None}

    def running(self) -> dict[str, Any]:
        """The arguments that say how it is run once it is loaded."""
        return {
            "start_token": named_start(self.start_token),
            "context": self.context,
            "batch_size": self.batch_size,
        }


@dataclass(frozen=True)
class FindingOptions(ModelOptions):
    """Of commands that find the start token unless one is named."""

    start_token: str | None = AUTO
    start_texts: Path | None = None

    def running(self) -> dict[str, Any]:
        """As `ModelOptions.running`; the texts are read."""
        return {**super().running(), "start_texts": lines_of(self.start_texts)}


@dataclass(frozen=True)
class MeasuringOptions(FindingOptions):
    """How exposure is measured."""

    method: str = "auto"
    budget: Count = 1_000_000
    draws: Count = 20_000
    seed: Whole = 0

    def running(self) -> dict[str, Any]:
        """As `FindingOptions.running`, with how exposure is measured."""
        own = {"method": self.method, "budget": self.budget, "draws": self.draws}
        return {**super().running(), **own, "seed": self.seed}


@dataclass(frozen=True)
class RatesOptions:
    """At which rates attacks are judged, and how surely."""

    fpr: str | None = None
    confidence: float = 0.95
    seed: Whole = 0

    def checked(self) -> dict[str, Any]:
        """The arguments in Python."""
        asked = None if self.fpr is None else rates(self.fpr, "--fpr")
        check_confidence(self.confidence, "--confidence")
        return {"fprs": asked, "confidence": self.confidence, "seed": self.seed}


@dataclass(frozen=True)
class RiskOptions:
    """How risk scores are made."""

    prior: float = 0.5
    bins: Count | None = None
    scale: Literal["log", "linear"] = "log"
    least: Count = 10
    smooth: bool = False

    def checked(self) -> dict[str, Any]:
        """The arguments in Python."""
        from canary.membership.risk import check_prior

        check_prior(self.prior, "--prior")
        return dict(vars(self))


def _flags(names: Iterable[str]) -> str:
    return " and ".join(f"--{name.replace('_', '-')}" for name in names)


def decodable(param: typer.CallbackParam, value: Any) -> Any:
    """Pass what was given on, if it is text: it will be compared with texts and recorded.

    Raises
    ------
    InputError
        If it has bytes that are no UTF-8.
    """
    for text in value if isinstance(value, list | tuple) else (value,):
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            name = param.opts[0] if param.param_type_name == "option" else param.metavar
            raise InputError(
                "has bytes that are no UTF-8 text", cure="give it as UTF-8", where=name or ""
            ) from error
    return value


def unescaped(text: str) -> str:
    r"""Text with ``\n``, ``\t``, ``\r`` and ``\\`` as the characters they stand for."""
    return re.sub(r"\\([ntr\\])", lambda found: _ESCAPES[found[1]], text)


def _written(param: typer.CallbackParam, value: Any) -> Any:
    """`decodable`, with what backslashes stand for."""
    decodable(param, value)
    if isinstance(value, tuple):
        return tuple(map(unescaped, value))
    return None if value is None else unescaped(value)


def _known_method(param: typer.CallbackParam, value: str) -> str:
    """The name of a method, if there is one; also of another package's."""
    from canary.audits.auditing import check_method

    try:
        check_method(value)
    except InputError as error:
        error.where = param.opts[0]
        raise
    return value


CALLBACKS: Mapping[str, Any] = {
    "method": _known_method,
    **dict.fromkeys(("context", "separators", "start_token"), _written),
    **dict.fromkeys(("device", "factory", "tokenizer"), None),
}
"""What checks options as they are read; `decodable` does that for other text."""


def lines_of(file: Path | None) -> tuple[str, ...] | None:
    """The lines of a text file that hold something; None if there is no file.

    Raises
    ------
    InputError
        If it cannot be read as UTF-8, or its lines are JSON.
    """
    if file is None:
        return None
    try:
        lines = tuple(line for line in file.read_text("utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot be read as UTF-8 text ({error})", cure="name a text file", where=str(file)
        ) from error
    if lines and lines[0].startswith("{") and lines[0].rstrip().endswith("}"):
        raise InputError(
            "holds JSON, and a text on each line is expected",
            cure="write some of its texts to a file, one on each line",
            where=str(file),
        )
    return lines


def whole_numbers(text: str, option: str) -> list[int]:
    """The numbers in ``1,4,16``; a typer.BadParameter if it is something else."""
    parts = [part.strip(" ") for part in text.split(",")]
    # int() also takes +1, 1_0 and digits of other scripts, which are slips here.
    if not all(re.fullmatch("-?[0-9]{1,18}", part) for part in parts):
        raise typer.BadParameter(
            f"{brief(text)} is no list of whole numbers; write it as in 1,4,16", param_hint=option
        )
    return [int(part) for part in parts]


def rates(text: str, option: str) -> list[float]:
    """The rates in ``0.001,0.01``."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"expected rates with commas between them, got {text!r}",
            cure="write 0.001,0.01",
            where=option,
        ) from error
