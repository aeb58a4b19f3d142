"""The command of membership by many models: each is attacked by comparing it with the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from canary.cli.command import command
from canary.cli.console import Bars, show
from canary.cli.membership_commands import exit_code, write_singled_out
from canary.cli.model_options import Count
from canary.cli.options import RatesOptions, rates
from canary.cli.outputs import Names, Result, check_table, report_folder, write_table
from canary.errors import InputError
from canary.records.validation import brief
from canary.registry import name_cure

if TYPE_CHECKING:
    from canary.signals.signal_table import SignalTable


@command(
    "membership models model0.npz model1.npz model2.npz model3.npz model4.npz model5.npz "
    "--attacks all --out models/ --json",
    "membership models fleet/ --target 3 --alphas 0.01,0.1 --rule gaussian --out fleet-models/",
    "membership models target.npz fleet/ --target target.npz --out target-models/",
    outputs="MODEL...: An .npz, Parquet or CSV file for each model, with logits (or probs, or "
    "losses), labels and member (0 or 1). All have the same samples in the same order. Or a folder "
    "of such files, or of a fleet's results, also beside the file of a target that exists.",
    out="FOLDER: Where models.json and report.html go.",
    attacks="NAME,NAME,...: The attacks: MODEL-ATTACKS; or all, which is S, P, R, both kinds of "
    "LiRA (fixed below 64 models) and rmia. S, P and R compare the loss of a sample with those of "
    "shadow models, of other samples, and of other models on the sample.",
    target="MODEL: The attacked model, by its file or its number from 0; it is compared with the "
    "others. Repeat it for more.  [default: each model]",
    least="[Attacks] N: Judge only samples that at least N models were trained without and, if the "
    "attack needs those, at least N were trained on. The attacked model counts.  [default: all "
    "samples]",
    rule="The rule for the quantile of losses, for S, P and R.",
    counterfactual="FILE: Also write the counterfactual memorization of each sample: its mean loss "
    "under the models without it less that under the models with it, and an interval. A CSV or "
    "Parquet file.",
    scores="FILE: Also write the score of each sample under each target by each attack: the "
    "higher, the more it looks like a training sample. A CSV or Parquet file.",
    alphas="LEVEL,LEVEL,...: The levels of the decisions: shares of non-members that may be called "
    "members.",
)
def models(
    outputs: list[Path],
    *,
    out: Path,
    attacks: str = "all",
    target: list[str] | None = None,
    least: Count | None = None,
    rule: Literal["empirical", "linear", "gaussian"] = "empirical",
    alphas: str = "0.01,0.1,0.3",
    scores: Path | None = None,
    counterfactual: Path | None = None,
    singled_out: Path | None = None,
    judged: RatesOptions,
    called: Names,
    force: bool = False,
) -> Result:
    """Attack classifiers by comparing many: LiRA, RMIA and more.

    FOLDER/report.html is for people, FOLDER/models.json for machines. Both name samples that were
    in training data, so protect them like the data. The attacks D and L need extra models for each
    target and run only from Python. The guide is docs/guides/many-models.md.

    Exit codes: 0 answered, whatever the answer, 2 wrong input, 3 undecided, void or doubtful files.
    """
    from canary.membership.counterfactual import counterfactual as effects
    from canary.membership.models_result import KIND
    from canary.membership.models_survey import survey_models
    from canary.membership.survey import SCHEMA

    asked, levels = judged.checked(), rates(alphas, "--alphas")
    outputs = output_files(outputs)
    if singled_out is not None and (target is None or len(target) > 1):
        raise InputError(
            "--singled-out is a list of the members of one model, and several are attacked",
            cure="name one model by --target",
        )
    beside = [file for file in (scores, counterfactual, singled_out) if file is not None]
    for at, file in enumerate(beside):
        check_table(file, inputs=[*outputs, *beside[at + 1 :]], force=force)
    with report_folder(out, KIND, "models.json", inputs=outputs, force=force) as folder:
        with folder.running() as bars:
            table, names = _measured(outputs, bars)
            found = None
            if counterfactual is not None:
                found = effects(table, confidence=judged.confidence)
            result = survey_models(
                table,
                names=names,
                attacks=attacks,
                targets=None if target is None else [_row(one, names, table) for one in target],
                alphas=levels,
                rule=rule,
                least=least,
                progress=bars.stage,
                **asked,
            )
        if counterfactual is not None and found is not None:
            write_table(counterfactual, found)
            show(found.summary())
        if scores is not None:
            write_table(scores, result.sample_scores())
            show(f"The scores of the samples are in {scores}")
        if singled_out is not None:
            write_singled_out(singled_out, result)
        return folder.finish(called.on(result), SCHEMA, code=exit_code(result))


def output_files(given: Sequence[Path], *more: str) -> list[Path]:
    """The files to read: of a folder of outputs those in it, and a fleet's folder as it is.

    With `more` endings than those of outputs.
    """
    from canary.fleet.store import is_fleet
    from canary.signals.output_files import ENDINGS

    files: list[Path] = []
    for place in given:
        if not place.is_dir() or is_fleet(place):
            files.append(place)
            continue
        held = [file for file in place.iterdir() if file.suffix.lower() in (*ENDINGS, *more)]
        if not held:
            raise InputError(
                "is a folder without outputs of models and without a fleet's results",
                cure=f"give a folder of files that end with {', '.join(ENDINGS)}, or the files",
                where=str(place),
            )
        files += sorted(held, key=_in_order)
    return files


def _in_order(file: Path) -> list[tuple[int, str]]:
    """The key that sorts model2 before model10."""
    parts = re.split(r"(\d+)", file.name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _measured(outputs: Sequence[Path], bars: Bars) -> tuple[SignalTable, list[str]]:
    """The table of all models, and their names."""
    from canary.fleet.store import table_of_folder
    from canary.membership.attacks import with_many_models
    from canary.signals.measuring import joined, table_of_files

    signals = {"loss", "correctness", *(kind.signal for kind in with_many_models().values())}
    folders = [place for place in outputs if place.is_dir()]
    files = [place for place in outputs if place not in folders]
    if len(folders) > 1:
        raise InputError(
            "has the results of a fleet, and those of another fleet were given, too",
            cure="give the folder of one fleet, and the outputs of other models as a file for each",
            where=str(folders[1]),
        )
    read = bars.stage("models", len(files), "models")
    names = [str(place) for place in files]
    if not folders:
        return table_of_files(files, signals=signals, done=read), names
    table = table_of_folder(folders[0], outputs="outputs" in signals, done=read)
    names = [*(f"model {number}" for number in table.numbers), *names]
    if files:
        table = joined(table, table_of_files(files, signals=signals, done=read))
    return table, names


def _row(asked: str, names: Sequence[str], table: SignalTable) -> int:
    """The row of a model that is named by its file, or by its number."""
    if asked in names:
        return names.index(asked)
    short = [Path(name).name for name in names]
    if short.count(asked) == 1:
        return short.index(asked)
    number = int(asked) if asked.isascii() and asked.isdigit() else -1
    if number in table.numbers:
        return table.numbers.index(number)
    if number in table.missing:
        why = f"model {number} is missing: {table.missing[number]}"
        raise InputError(why, cure="attack another model", where="--target")
    last = max([*table.numbers, *table.missing])
    cure = f"{name_cure(asked, short)}, or a number from 0 to {last}"
    raise InputError(f"unknown model {brief(asked)}", cure=cure, where="--target")
