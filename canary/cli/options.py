"""Options that several commands share: their help, their checks, and those of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import typer

from canary.cli.model_options import Count, ModelOptions, Whole
from canary.errors import InputError
from canary.records.validation import AUTO, brief
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import plural

HELP: Mapping[str, str] = {
    "as_json": "Print the result as one JSON document on stdout.",
    "verbose": "Also print the tables, the method and the advice of the report.",
    "force": "Replace the result of an earlier run.",
    "seed": "N: The seed of all random draws; the same seed gives the same result.",
    "canaries": "FILE: The canary set that canary generate wrote.",
    "canary": "NAME: Only this canary of the set, by its id, such as canary-3. Repeat it for more.",
    "model": "MODEL: A folder that save_pretrained wrote, a hub id, or the address of an "
    "OpenAI-compatible server (http://host:8000/v1). With --factory, the folder of a torch "
    "model of your own.",
    # Corpora.
    "corpus": "CORPUS: A JSONL, CSV or TSV file, or text with a document on each line, each "
    "compressed or not; a Parquet or Arrow file of texts or token ids; or a .bin of token ids "
    "(Megatron). Also a folder, a quoted pattern, @FILE with a path on each line, or an address "
    "of fsspec.",
    "corpora": "CORPUS...: JSONL, CSV or TSV files, or text with a document on each line, each "
    "compressed or not; Parquet or Arrow files of texts or token ids; or .bin files of token ids "
    "(Megatron). A folder means all such files in it, and a quoted pattern such as "
    "'train/*.jsonl' means all files that it matches. @FILE names a text file with a path on each "
    "line. Addresses of fsspec (s3://bucket/folder) are read as well.",
    "column": "NAME: The field that holds the text or the chat messages. Give it twice for a "
    "parallel pair.  [default: text]",
    "file_format": "NAME: The format of the corpus: FILE-FORMATS.  [default: by the file's name]",
    "separators": r"BEFORE AFTER: The text around a spliced canary; \n and \t are understood.  "
    "[default: SEPARATORS]",
    "beside": "COLUMN=TEXT: The text in another column of the canaries' own records. Repeat it for "
    "more columns.",
    # Sets of canaries.
    "repetitions": "N,N,...: The numbers of copies: one group of canaries for each.",
    "per_repetition": "N: The number of canaries in each group.",
    # Audits.
    "method": "NAME: How exposure is measured: AUDIT-METHODS. AUDIT-METHODS-HELP",
    "budget": "N: The most queries (tokens computed) per format for enumeration, or for branch and "
    "bound and importance draws together. Canaries and uniform draws cost extra. If MODEL is an "
    "address: the most requests of the run, whatever they are for.",
    "draws": "N: Candidates drawn per format, for the skew-normal curve and, without enumeration, "
    "for comparison.",
    "seconds": "SECONDS: The most time for the search of each format alone, not for loading, draws "
    "and canaries: the budget becomes what this model does in that time.  [default: no limit]",
    "start_texts": "FILE: Training texts without canaries, one on each line, for --start-token "
    "auto.  [default: the format's fixed text and ordinary English sentences]",
    "audit_files": "AUDIT...: One or more audit.json files, or one canary_history.json of a "
    "training.",
    "label": "TEXT: The name of an audit; give one for each audit, in order.  [default: the "
    "models' names, or what differs between the files' names where those repeat]",
    "test_loss": "NATS: The mean loss of a model on test text, in nats per token; give one for "
    "each audit, in order; of groups, for each audit of the first group, then of the next.",
    "test_scores": "FILE: What canary score wrote for the same test text with each model, instead "
    "of --test-loss.",
    "group": "NAME=AUDIT,AUDIT,...: A way of training and the audits of its seeds; repeat it for "
    "each way. A folder means the audits in its folders, and a quoted pattern all that it matches.",
    # Membership.
    "target": "FILE: Outputs of the attacked model: an .npz, Parquet or CSV file with logits (or "
    "probs, or losses), labels and member (0 or 1).",
    "shadow": "FILE: The same for a shadow model, whose members the attacker knows.",
    "fpr": "RATE,RATE,...: The false positive rates to report.  [default: 0.001,0.01,0.1 as far as "
    "there are enough non-members]",
    "confidence": "LEVEL: The confidence of every interval, between 0 and 1.",
    "prior": "P: The chance that a sample is a member before the attack, between 0 and 1.",
    "bins": "N: The bins in the histogram of each class.  [default: 5]",
    "scale": "The scale of the bins.",
    "least": "N: The fewest members, and non-members, of the shadow with which a class gets its "
    "own histogram.",
    "smooth": "Use kernel densities instead of histograms.",
    "coin_flips": "Bound epsilon from below. This needs a fair coin for each sample of the target "
    "that decided whether it went in, and a shadow that does not depend on the coins.",
    "delta": "P: The delta of the (epsilon, delta) differential privacy.",
    "guesses": "N: The number of coins to guess. Fix it before you see any result.  [default: all]",
    "mechanism": "What the bound on epsilon presumes of the training: nothing, or that its privacy "
    "is that of normal noise, as for DP-SGD of many steps. That bound is larger and needs --delta.",
    # Limits and reports.
    "max_exposure_bits": "BITS: The largest exposure that passes. The verdict is memorized if the "
    "interval of the exposure is above it.",
    "verification": "FILE: What canary verify --json printed for the training corpus. Nothing is "
    "decided if canaries were lost there.",
    "trust_injection": "Confirm that the canaries were in the training data. Without this and "
    "without --verification, the verdict is undecided unless canaries look learned.",
    "model_name": "NAME: The model's name in the report.  [default: that of its folder or hub id]",
    "corpus_name": "NAME: The name of the training data in the report.",
    "auditor": "NAME: Who tests the model, for the report.",
    # Models.
    "start_token": "TOKEN: The token that training put before each text, unless the tokenizer "
    r"adds it: a name (\n is understood), or none. Where auto is the default, it takes the token "
    "after which text without secrets is most likely.",
    "context": r"TEXT: Text before every candidate; \n and \t are understood.",
    "chat_template": "ROLE: The role of the chat message that holds a candidate: assistant, user "
    "or system. The tokenizer's chat template says what comes before it. auto takes the role of "
    "the canary set, none is off.",
    "revision": "REVISION: The branch, tag or commit of a hub id; ID@REVISION means the same.",
    "tokenizer": "PATH: A tokenizer other than the model's; a served model needs one.",
    "factory": "MODULE:FUNCTION: Your function that builds a torch model from its config.json. "
    "canary runs it. path/to/file.py:FUNCTION works as well.",
    "dtype": "The number type of the arithmetic.  [default: the model's own]",
    "device": "NAME: The device, such as cpu or cuda:1.  [default: the first accelerator, or the "
    "CPU]",
    "batch_size": "N: Rows or tree nodes computed at once.  [default: found by trial]",
    "served_model": "NAME: The name of the model on the server.  [default: its only model]",
    "key_env": "VARIABLE: The environment variable that holds the server's key.  [default: no key "
    "is sent]",
    "answers": "FOLDER: Where answers of the server are kept, so that an interrupted run does not "
    "ask again.  [default: canary/answers in your cache]",
    "max_requests": "N: The most requests to send in this run.  [default: no limit]",
    "total_requests": "N: The most requests to this address of all runs with these --answers, "
    "refused runs included; other addresses are counted apart.  [default: no limit]",
    "in_flight": "N: The most requests at once.  [default: 8]",
    "request_timeout": "SECONDS: The longest wait for a whole answer.  [default: 120]",
    "dry_run": "Send no prompt; only say how many requests and tokens this command would send.",
    "top_k": "N: Compute bounds from this number of most likely next tokens. For a server that "
    "gives no log-probabilities of a prompt.",
    "ray": "ADDRESS: Compute on a Ray cluster: HOST:PORT of its head, ray://HOST:PORT of a client "
    "server, auto for the cluster of this machine, or local to start one here.",
    "workers": "N: The workers that hold the model.  [default: as many as fit]",
    "worker_cpus": "N: The processors and threads of each worker.  [default: 1]",
    "worker_gpus": "N: The GPUs of each worker; 0.5 puts two workers on one GPU.  [default: 0]",
    "singled_out": "FILE: Also write the training samples that the best attack singles out at the "
    "false positive rate of the report, the surest first. A CSV or Parquet file.",
}
"""What options of several commands are: ``METAVAR: words``, or the words alone."""

PANELS: Mapping[str, str] = {
    "Corpus": "file_format separators beside pad check",
    "Prose": "kind words",
    "Pool": "temperature band tokens",
    "Comparison": "label test_loss test_scores group",
    "Measurement": "method budget extraction_budget seconds draws against_base",
    "Search": "known stop",
    "Attacks": "reference reference_start_token masked neighbours masked_share share rule alphas",
    "Long texts": "window overlap",
    "Figure": "format skew_normal axis size",
    "Baseline": "baseline update_baseline",
    "Other tests": "max_auc max_tpr_at_fpr min_rho forgotten max_extractable trust_members",
    "Further evidence": "retrained unseen query_data calibration_data history model",
    "Statistics": "exposure_bits power fpr statistic confidence resamples undecided tries chance",
    "Risk scores": "prior bins scale least smooth",
    "Privacy bound": "coin_flips max_epsilon delta guesses mechanism",
    "Names in the report": "model_name corpus_name auditor limit_by",
    "Model": "start_token start_texts context chat_template revision tokenizer factory dtype "
    "device batch_size",
    "Served model (when MODEL is an address)": "served_model key_env answers max_requests "
    "total_requests in_flight request_timeout top_k dry_run",
    "Ray cluster": "ray workers worker_cpus worker_gpus",
    "Output": "singled_out annex model_card report junit markdown verbose force as_json help",
}
"""The options of each panel, in the order of the help; all others are in the first."""

PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names.split()}

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


@dataclass(frozen=True)
class FindingOptions(ModelOptions):
    """Of commands that find the start token unless one is named."""

    start_token: str | None = AUTO
    start_texts: Path | None = None
    chat_template: str = AUTO

    def running(self) -> dict[str, Any]:
        """As `ModelOptions.running`; the texts are read."""
        texts = lines_of(self.start_texts)
        return {**super().running(), "start_texts": texts, "chat_template": self.chat_template}


@dataclass(frozen=True)
class MeasuringOptions(FindingOptions):
    """How exposure is measured."""

    method: str = "auto"
    budget: Count = 1_000_000
    seconds: float | None = None
    draws: Count = 20_000
    seed: Whole = 0

    def running(self) -> dict[str, Any]:
        """As `FindingOptions.running`, with how exposure is measured."""
        own = {name: getattr(self, name) for name in ("method", "budget", "draws", "seconds")}
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
        from canary.statistics.number_checks import check_prior

        check_prior(self.prior, "--prior")
        return dict(vars(self))


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
    r"""Text with ``\n``, ``\t``, ``\r`` and ``\\`` as the characters that they mean."""
    return re.sub(r"\\([ntr\\])", lambda found: _ESCAPES[found[1]], text)


def _written(param: typer.CallbackParam, value: Any) -> Any:
    """`decodable`, with escapes as the characters that they mean."""
    decodable(param, value)
    if isinstance(value, tuple):
        return tuple(map(unescaped, value))
    return None if value is None else unescaped(value)


def _known_method(param: typer.CallbackParam, value: str) -> str:
    """The name of a method, if there is one; also of another package's."""
    from canary.audits.choosing import check_method

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


def groups_of(formats: Sequence[Any], given: Sequence[str] | None, per_repetition: int) -> Any:
    """The formats as canary.generate takes them: in a mapping if ``--repetitions`` was given.

    A typer.BadParameter if it is neither given once nor once for each format.
    """
    option = "--repetitions"
    if not given:
        return formats
    if len(given) not in (1, len(formats)):
        raise typer.BadParameter(
            f"given {len(given)} times, and there are {plural(len(formats), 'format')}; give it "
            "once, or once for each format, in order",
            param_hint=option,
        )
    if len(set(formats)) < len(formats):
        return formats  # which is refused with its place
    each = [_groups(text, option, per_repetition) for text in given]
    return dict(zip(formats, each * (len(formats) // len(each)), strict=True))


def _groups(text: str, option: str, per_repetition: int) -> list[int] | dict[int, int]:
    """The numbers in ``1,4,16``; with the sizes of their groups in ``1,4,16:4``."""
    pairs = [part.partition(":") for part in text.split(",")]
    numbers = whole_numbers(",".join(number for number, _, _ in pairs), option)
    sizes = [
        whole_numbers(size, option)[0] if colon else per_repetition for _, colon, size in pairs
    ]
    if ":" not in text or len(set(numbers)) < len(numbers):
        return numbers  # a number that is listed twice is refused
    return dict(zip(numbers, sizes, strict=True))


GROUPS = (
    "N,N,...: The numbers of copies: one group of canaries for each. 64:4 is a group of 4 "
    "canaries. Give it once, or once for each FORMAT, in order.  [default: 1,4,16,64]"
)
"""The help of ``--repetitions`` where `groups_of` reads it."""

SHARES = ("max_extractable", "chance", "near")
"""Numbers that may be given in percent."""


def share(written: str | float) -> float:
    """The number in ``0.1`` or ``10%``; a typer.BadParameter if it is something else."""
    number = str(written).strip()
    try:
        return float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        raise typer.BadParameter(f"{brief(number)} is no fraction; write 0.1 or 10%") from None


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
