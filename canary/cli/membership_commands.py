"""The commands of membership: attacks on a classifier, and the risk of its samples."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from canary.cli.console import Bars, emit, say
from canary.cli.options import Force, Json, Seed, decodable
from canary.cli.outputs import check_outputs
from canary.cli.terminal_tables import show_report
from canary.errors import InputError
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import plural

ScaleName = Literal["log", "linear"]

_FILE = "An .npz, Parquet or CSV file with logits (or probs, or losses), labels and member (0 or 1)"

_TABLES = (".parquet", ".pq", ".csv")

_SURE = 0.95
"""Confidence of the interval that stands beside risk scores."""

_HELD = 1 << 30
"""Bytes of a file whose outputs are held for the neural attacks without being asked."""

_Target = Annotated[
    Path,
    typer.Option("--target", metavar="FILE", help=f"{_FILE} of the model that is attacked."),
]
_Shadow = Annotated[
    Path,
    typer.Option(
        "--shadow", metavar="FILE", help="The same of a model whose members the attacker knows."
    ),
]
Fprs = Annotated[
    str | None,
    typer.Option(
        "--fpr",
        metavar="RATE,RATE,...",
        help="False positive rates to look at.  [default: 0.001,0.01,0.1 as far as there are "
        "nonmembers enough]",
    ),
]
Confidence = Annotated[float, typer.Option("--confidence", help="Of every interval.")]
ReportFolder = Annotated[
    Path,
    typer.Option("--out", metavar="FOLDER", help="Where membership.json and report.html go."),
]
_Prior = Annotated[
    float,
    typer.Option("--prior", help="Of risk scores: chance of being a member, between 0 and 1."),
]
_Bins = Annotated[
    int | None,
    typer.Option("--bins", min=1, help="Of the histogram of a class.  [default: 5]"),
]
_Scale = Annotated[ScaleName, typer.Option("--scale", help="Of the bins.")]
_Least = Annotated[
    int,
    typer.Option(
        "--least",
        min=1,
        help="Members and nonmembers in the shadow that a class needs for a histogram of its own.",
    ),
]
_Smooth = Annotated[
    bool,
    typer.Option("--smooth", help="Risk scores by kernel densities, in place of --bins."),
]


def attack(
    target: _Target,
    shadow: _Shadow,
    out: ReportFolder,
    attacks: Annotated[
        str,
        typer.Option(
            "--attacks",
            metavar="NAME,NAME,...",
            callback=decodable,
            help="SHADOW-ATTACKS; those by a signal but correctness with -one-threshold as well; "
            "or all. In files above 1 GB all leaves the neural ones out.",
        ),
    ] = "all",
    fpr: Fprs = None,
    confidence: Confidence = 0.95,
    prior: _Prior = 0.5,
    bins: _Bins = None,
    scale: _Scale = "log",
    least: _Least = 10,
    smooth: _Smooth = False,
    coin_flips: Annotated[
        bool,
        typer.Option(
            "--coin-flips",
            help="Bound epsilon from below: a fair coin decided for each sample of the target by "
            "itself whether it went in, and the shadow's data do not depend on that.",
        ),
    ] = False,
    delta: Annotated[
        float, typer.Option("--delta", help="Of the privacy that --coin-flips bounds.")
    ] = 0.0,
    guesses: Annotated[
        int | None,
        typer.Option(
            "--guesses",
            min=1,
            help="Coins to guess; fix it before you see an attack.  [default: all]",
        ),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Tell members of a classifier's training data from others, by what it says of them.

    FOLDER/report.html is for people, FOLDER/membership.json for machines. Both name
    samples that were in the training data: keep them like the data.
    """
    from canary.membership.risk import check_prior
    from canary.membership.shadow_survey import KIND, survey
    from canary.membership.survey import SCHEMA
    from canary.records.files import folder_made
    from canary.records.overwrite_guard import PAGES
    from canary.records.versioned_json import dump_document
    from canary.reports.pages import report
    from canary.signals.measuring import measure

    asked = None if fpr is None else numbers_of(fpr, "--fpr")
    check_confidence(confidence, "--confidence")
    check_prior(prior, "--prior")
    keep = "neural" in attacks or (
        attacks.strip() == "all" and all(_small(place) for place in (target, shadow))
    )
    with folder_made(out) as folder:
        numbers, page = folder / "membership.json", folder / "report.html"
        check_outputs([(numbers, (KIND,)), (page, PAGES)], inputs=[target, shadow], force=force)
        with Bars() as bars:
            tables = [measure(place, keep_outputs=keep) for place in (target, shadow)]
            found = survey(
                *tables,
                attacks=attacks,
                fprs=asked,
                confidence=confidence,
                prior=prior,
                bins=bins,
                scale=scale,
                least=least,
                smooth=smooth,
                seed=seed,
                coins=coin_flips,
                guesses=guesses,
                delta=delta,
                stage=partial(bars.stage, unit="rounds"),
            )
        body = found.to_dict()
        dump_document(numbers, KIND, SCHEMA, body, private=True)
        report(found, page)
    show_report(found)
    say(f"The report is {page}; its numbers are in {numbers}")
    if as_json:
        emit(KIND, body, schema=SCHEMA)


def risk(
    target: _Target,
    shadow: _Shadow,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="The table to write: .parquet, .pq or .csv."),
    ],
    prior: _Prior = 0.5,
    bins: _Bins = None,
    scale: _Scale = "log",
    least: _Least = 10,
    smooth: _Smooth = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the privacy risk score of each sample: the chance that it is a member.

    FILE has a row for each sample of the target, in its order: sample, label, member,
    modified_entropy, risk.
    """
    from canary.membership.analysis import possible_class_risks
    from canary.membership.association import check_shadow
    from canary.membership.doubts import doubts_of_pair
    from canary.membership.risk import check_prior, reliability, risk_scores
    from canary.membership.shadow_survey import class_risk_fields, risk_columns
    from canary.records.files import atomic_writer
    from canary.records.overwrite_guard import PARQUET
    from canary.reports.shadow_report import calibration_sentence, class_risk_sentence
    from canary.signals.measuring import measure
    from canary.signals.output_checks import check_members

    check_prior(prior, "--prior")
    check_outputs([(out, (PARQUET,))], inputs=[target, shadow], force=force)
    ending = out.suffix.lower()
    if ending not in _TABLES:
        raise InputError(
            f"a table cannot be written as {ending or 'a file without an ending'}",
            cure=f"let the name end with {', '.join(_TABLES[:-1])} or {_TABLES[-1]}",
            where=str(out),
        )
    ours, theirs = (measure(place) for place in (target, shadow))
    for table in (ours, theirs):
        check_members(table.member, table.source)
    notes = check_shadow(ours, theirs)
    notes += doubts_of_pair(ours, theirs)
    found = risk_scores(
        ours, shadow=theirs, prior=prior, bins=bins, scale=scale, least=least, smooth=smooth
    )
    trust = reliability(found, ours.member[0], confidence=_SURE)
    of_classes = possible_class_risks(ours, found)

    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    write = pyarrow.csv.write_csv if ending == ".csv" else pyarrow.parquet.write_table
    with atomic_writer(out, private=True, replaces=(PARQUET,)) as file:
        write(pa.table(risk_columns(ours, found)), file)
    for note in notes:
        say(f"{note}.")
    say(f"The risk scores of {plural(ours.samples, 'sample')} are in {out}")
    say(calibration_sentence(trust, confidence=_SURE))
    if of_classes is not None:
        say(class_risk_sentence(of_classes))
    if as_json:
        emit(
            "canary membership risk",
            {
                "samples": ours.samples,
                "prior": prior,
                "bins": found.bins,
                "scale": scale,
                "pooled_classes": int(found.pooled.sum()),
                "mean_risk_of_members": float(found.scores[ours.member[0]].mean()),
                "mean_risk_of_nonmembers": float(found.scores[~ours.member[0]].mean()),
                "rmse": trust.rmse,
                "calibration_error": dict(vars(trust.calibration_error)),
                "class_generalization": class_risk_fields(of_classes),
                "notes": list(notes),
            },
        )


def _small(place: Path) -> bool:
    """Whether all outputs of a file may be held; one that is not there is refused elsewhere."""
    return not place.is_file() or place.stat().st_size <= _HELD


def numbers_of(given: str, option: str) -> list[float]:
    """The rates in ``0.001,0.01``."""
    try:
        return [float(part) for part in given.split(",")]
    except ValueError as error:
        raise InputError(
            f"expected rates with commas between them, got {given!r}",
            cure="write 0.001,0.01",
            where=option,
        ) from error
