"""The command on servers that only write text: what comes out of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from canary.cli.command import command
from canary.cli.model_options import Count, ServerOptions, Whole
from canary.cli.outputs import Names, Result, called_texts_in, report_folder


@command(
    "sample http://127.0.0.1:8000/v1 --canaries canaries.json --samples 400 --out sampled/",
    "sample http://127.0.0.1:8000/v1 --chat --texts train.jsonl --controls heldout.jsonl "
    "--prefix 8 --suffix 4 --samples 5 --out chat/",
    model="URL: The address of an OpenAI-compatible server.",
    canaries="FILE: The canary set whose secrets are looked for.",
    texts="FILE: Instead of --canaries, a JSON Lines file with texts that the model was trained "
    "on.",
    controls="FILE: The same with texts from the same source that it never saw.",
    out="FOLDER: Where samples.json and report.html go.",
    samples="N: The texts drawn after each prefix; one request for each.",
    temperature="[Measurement] T: The temperature of the samples; 0 for the most probable text.",
    chat="Ask a chat model to continue the prefix (/chat/completions).",
    prefix="[Long texts] WORDS: The words of a passage that the model is given.",
    suffix="[Long texts] WORDS: The words after these, which must come out.",
    near="[Long texts] SHARE: The share of these words that counts as nearly repeated.",
    column="[Long texts] NAME: The field that holds the text.",
    id="[Long texts] FIELD: The field that names each text in the report, such as its title: up to "
    "60 characters.  [default: the number of the line]",
    max_extractable="SHARE: Stop as soon as canary check with this limit would certainly not pass.",
    seed="[Measurement] N: The seed of the samples, where the server takes one.",
    answers="FOLDER: Where the requests of all runs are counted; finished answers are in --out.  "
    "[default: canary/answers in the user cache]",
    max_tokens="[Measurement] N: The longest answer.  [default: a token for each byte of what is "
    "looked for, and 8]",
)
def sample(
    model: str,
    *,
    canaries: Path | None = None,
    texts: Path | None = None,
    controls: Path | None = None,
    out: Path,
    samples: Count = 100,
    temperature: Annotated[float, 0] = 1.0,
    chat: bool = False,
    prefix: Count = 50,
    suffix: Count = 25,
    near: float = 0.8,
    column: str = "text",
    id: str | None = None,  # noqa: A002 - as the option
    max_tokens: Count | None = None,
    confidence: float = 0.95,
    max_extractable: float | None = None,
    seed: Whole = 0,
    names: Names,
    force: bool = False,
    options: ServerOptions,
) -> Result:
    """Sample a server that returns only text, and look for secrets or passages.

    If it returns log-probabilities, canary exposure --top-k and canary audit show more.
    FOLDER/report.html is for people, FOLDER/samples.json for machines; neither has text. The
    beginning of each secret or passage is sent to the server, and no start token or context before
    it. Run the same command again to resume a run that was stopped. The guide is
    docs/guides/served-models.md.
    """
    from canary.corpus.canaries import CanarySet
    from canary.passages.sampled import KIND, SCHEMA
    from canary.passages.sampling import sample as measure

    read = [path for path in (texts, controls, canaries) if path is not None]
    with report_folder(
        out, KIND, "samples.json", inputs=read, force=force, in_parts=True
    ) as folder:
        secrets = None if canaries is None else CanarySet.load(canaries)
        kinds = called_texts_in({"texts": texts, "controls": controls}, column, id)
        with folder.running() as bars:
            result = measure(
                options.endpoint(model),
                kinds.get("texts"),
                kinds.get("controls"),
                canaries=secrets,
                samples=samples,
                temperature=temperature,
                chat=chat,
                prefix=prefix,
                suffix=suffix,
                near=near,
                max_tokens=max_tokens,
                confidence=confidence,
                max_extractable=max_extractable,
                seed=seed,
                parts=folder.parts,
                progress=bars.stage,
            )
        return folder.finish(names.on(result), SCHEMA)
