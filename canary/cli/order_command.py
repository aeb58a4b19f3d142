"""The command on the order of a test set: does a model prefer it?"""

from __future__ import annotations

from pathlib import Path

from canary.cli.command import command
from canary.cli.model_options import Count, ModelOptions, Whole
from canary.cli.options import unescaped
from canary.cli.outputs import Names, Result, factory_file, model_files, report_folder, texts_in


@command(
    "membership order ./model testset.jsonl --out order/",
    r"membership order ./model testset.jsonl --separator '<|endoftext|>' --reference ./model-b "
    "--out order/ --force",
    test_set="TESTSET: A JSONL file, with one JSON object on each line, of the texts of a test set "
    "in their published order, which was drawn at random.",
    out="FOLDER: Where order.json and report.html go.",
    reference="MODEL: A model that never saw the test set: the result is void if it prefers the "
    "order as well.",
    separator=r"TEXT: What was between two texts in training; \n and \t are understood.  "
    "[default: a line break]",
    shard="[Measurement] N: Neighbouring texts that are shuffled among themselves.",
    before="[Measurement] TOKENS: The last tokens of a text that the model is given.",
    after="[Measurement] TOKENS: The first tokens of the next text that are scored.",
    shuffles="[Measurement] N: The shuffled orders, which need no model.",
    column="NAME: The field that holds the text.",
)
def order(
    model: str,
    test_set: Path,
    *,
    out: Path,
    reference: str | None = None,
    separator: str | None = None,
    shard: Count = 8,
    before: Count = 128,
    after: Count = 32,
    shuffles: Count = 9999,
    seed: Whole = 0,
    column: str = "text",
    names: Names,
    force: bool = False,
    options: ModelOptions,
) -> Result:
    """Test whether a model was trained on a test set, by its order.

    A model that read the file finds each text more probable after the one before it. The p-value
    is exact for a test set whose order was drawn at random. A test set that was shuffled again
    before training cannot be found, so nothing is ever acquitted: try canary membership text as
    well. FOLDER/report.html is for people, FOLDER/order.json for machines. Run the same command
    again to resume a run that was stopped. The guide is docs/guides/membership-text.md.

    Exit codes: 0 the model read the file, 2 wrong input, 3 undecided or void.
    """
    from canary.gate.verdict import EXIT_CODES
    from canary.membership.order import order as measure
    from canary.membership.order_result import KIND, SCHEMA

    models = model_files(model, reference, options.tokenizer)
    read = [test_set, *models, *factory_file(options.factory)]
    with report_folder(out, KIND, "order.json", inputs=read, force=force, in_parts=True) as folder:
        texts = texts_in({"texts": test_set}, column)["texts"]
        loaded = options.load(model)
        # For the other model these options say only where and how it computes.
        place = ModelOptions(dtype=options.dtype, device=options.device)
        beside = None if reference is None else place.load(reference)
        with folder.running() as bars:
            result = measure(
                loaded,
                texts,
                reference=beside,
                shard=shard,
                separator=None if separator is None else unescaped(separator),
                before=before,
                after=after,
                shuffles=shuffles,
                seed=seed,
                parts=folder.parts,
                progress=bars.stage,
                **options.running(),
            )
        options.counted()
        code = 0 if result.outcome == "seen" else EXIT_CODES["undecided"]
        return folder.finish(names.on(result), SCHEMA, code=code)
