"""The command on passages of texts: which of them a model repeats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canary.cli.command import command
from canary.cli.model_options import Count, LocalOptions
from canary.cli.options import whole_numbers
from canary.cli.outputs import (
    Names,
    Result,
    called_texts_in,
    factory_file,
    field_in,
    model_files,
    report_folder,
)
from canary.errors import InputError
from canary.records.validation import AUTO

if TYPE_CHECKING:
    from canary.models.language_model import LanguageModel


@dataclass(frozen=True)
class PassageOptions(LocalOptions):
    """How the model is loaded and run; the start token is found unless one is named."""

    start_token: str | None = AUTO

    def load(self, model: str) -> LanguageModel:
        """As `LocalOptions.load`; an InputError if it is an address."""
        from canary.models.served.endpoint import is_url

        if is_url(model):
            raise InputError(
                "is an address, and a server does not give the probabilities of all tokens",
                cure="give the model's files, or sample the server (canary sample; "
                "for short texts with --prefix and --suffix)",
                where=model,
            )
        return super().load(model)


@command(
    "verbatim ./model --texts train.jsonl --controls heldout.jsonl --out verbatim/",
    "verbatim ./model --texts train.jsonl --scheme t=1 --scheme t=0.7,p=0.9 --out verbatim/ "
    "--force",
    model="MODEL: A folder that save_pretrained wrote, or a hub id. With --factory, the folder of "
    "a torch model of your own.",
    tokenizer="PATH: A tokenizer other than the model's.",
    texts="FILE: A JSON Lines file with texts that the model was trained on.",
    controls="FILE: The same with texts from the same source that it never saw.",
    out="FOLDER: Where verbatim.json and report.html go.",
    scheme="SCHEME: How text is drawn, as in t=0.8,k=40: DECODING-OPTIONS. Repeat it for several.  "
    "[default: t=1]",
    prefix="TOKENS: The tokens of a passage that the model is given. Several, as in 50,25,100, "
    "show what that changes; rates are after the first.",
    suffix="TOKENS: The tokens after these, which it has to repeat.",
    near="[Measurement] EDITS: Also measure how probable it is that a sample comes within this "
    "number of edits (tokens) of what it has to repeat, a share of it such as 10%, or a number of "
    "characters such as 10c.",
    near_width="[Measurement] N: Nodes of a level that --near enters; more make it surer.",
    stride="[Long texts] TOKENS: From the beginning of a passage to that of the next.  [default: "
    "as --suffix]",
    copies="[Long texts] NAME: The field that holds how often the training data have the text, or "
    "the .json file that canary duplicates wrote.  [default: counted in --texts]",
    weights="[Long texts] NAME: The field that holds how many texts of the training data the text "
    "stands for, if it was drawn by its copies; or the .json file of canary duplicates.",
    column="[Long texts] NAME: The field that holds the text.",
    id="[Long texts] FIELD: The field that names each text in the report, such as its title: up to "
    "60 characters. Nothing else of the file is shown.  [default: the number of the line]",
    context="[Long texts] WHAT: document gives the model all of the text before what it has to "
    "repeat, --prefix tokens at least; long texts are read in pieces of up to 2,048 tokens.",
)
def verbatim(
    model: str,
    *,
    texts: Path,
    controls: Path | None = None,
    out: Path,
    scheme: list[str] | None = None,
    prefix: str = "50",
    suffix: Count = 50,
    near: str | None = None,
    near_width: Count = 80,
    stride: Count | None = None,
    copies: str | None = None,
    weights: str | None = None,
    column: str = "text",
    id: str | None = None,  # noqa: A002 - as the option
    confidence: float = 0.95,
    names: Names,
    force: bool = False,
    options: PassageOptions,
) -> Result:
    """Measure which passages of its training text a model repeats.

    FOLDER/report.html is for people, FOLDER/verbatim.json for machines. Texts are named by their
    place in the file and never shown. Give texts that the model never saw as --controls: without
    them, nothing distinguishes memory from what any model predicts. Run the same command again to
    resume a run that was stopped; FOLDER/parts keeps what is finished until then. The guide is
    docs/guides/verbatim.md.
    """
    from canary.models.decoding import Scheme
    from canary.passages.result import KIND, SCHEMA
    from canary.passages.verbatim import verbatim as measure

    schemes = [Scheme.parsed(written) for written in scheme or ["t=1"]]
    models = model_files(model, options.tokenizer)
    read = [texts, *([controls] if controls else []), *models, *factory_file(options.factory)]
    of_texts = {"copies": copies, "weights": weights}
    read += [Path(named) for named in of_texts.values() if named and named.endswith(".json")]
    with report_folder(
        out, KIND, "verbatim.json", inputs=read, force=force, in_parts=True
    ) as folder:
        kinds = called_texts_in({"texts": texts, "controls": controls}, column, id)
        numbers: dict[str, list[Any]] = {
            name: _numbers(texts, named, kinds["texts"], name)
            for name, named in of_texts.items()
            if named
        }
        loaded = options.load(model)
        with folder.running() as bars:
            result = measure(
                loaded,
                kinds["texts"],
                kinds.get("controls"),
                schemes=schemes,
                prefix=whole_numbers(prefix, "--prefix"),
                copies=numbers.get("copies"),
                weights=numbers.get("weights"),
                suffix=suffix,
                stride=stride,
                near=near,
                near_width=near_width,
                confidence=confidence,
                parts=folder.parts,
                progress=bars.stage,
                **options.running(),
            )
        return folder.finish(names.on(result), SCHEMA)


def _numbers(source: Path, named: str, given: list[str] | dict[str, str], what: str) -> list[Any]:
    """Copies or weights: a column of the texts' file, or what `canary duplicates` counted."""
    from canary.corpus.duplicates import Duplicates

    if named.endswith(".json"):
        counted = Duplicates.load(named)
        texts = given.values() if isinstance(given, dict) else given
        return counted.weights(texts) if what == "weights" else counted.of(texts)
    if what == "weights":
        kind, cure = "number above 0", "name a column that says how many texts of the training data"
        return field_in(source, named, _is_weight, kind, f"{cure} the text stands for")
    kind, cure = "whole number of 1 or more", "name a column that says how often the training data"
    return field_in(source, named, _is_count, kind, f"{cure} have the text")


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_weight(value: Any) -> bool:
    return _is_count(value) or (type(value) is float and 0 < value < math.inf)
