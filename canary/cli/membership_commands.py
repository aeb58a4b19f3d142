"""The commands of membership: attacks on a classifier, on texts; risk scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from canary.cli.command import command
from canary.cli.console import say, show
from canary.cli.model_options import Count, ModelOptions
from canary.cli.options import RatesOptions, RiskOptions
from canary.cli.outputs import (
    Names,
    Result,
    check_table,
    factory_file,
    model_files,
    report_folder,
    write_table,
)
from canary.statistics.numbers import count, plural, probability

if TYPE_CHECKING:
    from canary.membership.models_result import ModelsSurvey
    from canary.membership.shadow_survey import ShadowSurvey
    from canary.membership.survey import Survey
    from canary.signals.text_files import Texts

_SURE = 0.95  # confidence of the interval beside risk scores
_TEXTS = "A JSONL file, with one JSON object on each line, of texts"


def exit_code(result: Survey[Any]) -> int:
    """3 of a test that decides nothing: undecided, void, or of files that look wrong."""
    from canary.gate.verdict import EXIT_CODES

    nothing = result.outcome() in ("undecided", "void") or result.doubts
    return EXIT_CODES["undecided"] if nothing else 0


@command(
    "membership attack --target target.npz --shadow shadow.npz --attacks all --out membership/ "
    "--json",
    out="FOLDER: Where membership.json and report.html go.",
    attacks="NAME,NAME,...: The attacks: SHADOW-ATTACKS; or all. Those by a signal, except "
    "correctness, also exist with -one-threshold. For files above 1 GB, all skips the neural ones.",
)
def attack(
    *,
    target: Path,
    shadow: Path,
    out: Path,
    attacks: str = "all",
    judged: RatesOptions,
    scored: RiskOptions,
    coin_flips: bool = False,
    delta: float = 0.0,
    guesses: Count | None = None,
    mechanism: Literal["any", "gaussian"] = "any",
    singled_out: Path | None = None,
    names: Names,
    force: bool = False,
) -> Result:
    """Attack a classifier with the help of a shadow model.

    The attacks find training samples by the outputs of the classifier.
    FOLDER/report.html is for people, FOLDER/membership.json for machines. Both name samples that
    were in the training data, so protect them like the data. The guide is
    docs/guides/membership.md.

    Exit codes: 0 answered, whatever the answer, 2 wrong input, 3 undecided, void or doubtful files.
    """
    from canary.membership.attacking import known_names
    from canary.membership.attacks import ATTACKS
    from canary.membership.shadow_survey import KIND, survey
    from canary.membership.survey import SCHEMA
    from canary.signals.measuring import HELD, measure

    asked = {**judged.checked(), **scored.checked()}
    pair = [target, shadow]
    if singled_out is not None:
        check_table(singled_out, inputs=pair, force=force)
    small = all(place.stat().st_size <= HELD for place in pair if place.is_file())
    named = [] if attacks.strip() == "all" else known_names(attacks)
    keep = small or any(ATTACKS[name].signal == "outputs" for name in named)
    with report_folder(out, KIND, "membership.json", inputs=pair, force=force) as folder:
        with folder.running() as bars:
            tables = [measure(place, keep_outputs=keep) for place in pair]
            result = survey(
                *tables,
                attacks=attacks,
                coins=coin_flips,
                guesses=guesses,
                delta=delta,
                mechanism=mechanism,
                progress=bars.stage,
                **asked,
            )
        if singled_out is not None:
            write_singled_out(singled_out, result)
        return folder.finish(names.on(result), SCHEMA, code=exit_code(result))


def write_singled_out(out: Path, result: ShadowSurvey | ModelsSurvey) -> None:
    """The samples that a survey singles out, in a table; none of a test that decides nothing."""
    if exit_code(result):
        show(f"{out} was not written: the test decides nothing, and nobody is singled out")
        return
    found = result.singled_out()
    write_table(out, found)
    show(f"{found.summary()}. They are in {out}")


@command(
    "membership risk --target target.npz --shadow shadow.npz --out risk.parquet",
    out="FILE: The table to write, with the ending .parquet, .pq or .csv.",
)
def risk(
    *,
    target: Path,
    shadow: Path,
    out: Path,
    options: RiskOptions,
    force: bool = False,
) -> Result:
    """Write the privacy risk score of each sample.

    The score is the chance that the sample is a member. The table has a row for each sample
    of the target, in the same order. Its columns are sample, id (if the target has it), label,
    member, modified_entropy and risk; without --smooth also support, the number of shadow samples
    that a score rests on, and thin, which is 1 if these are fewer than ten. rank orders members
    by their score, from 1 on; thin scores are last, and the order of equal ones says nothing. It
    does not say who is most at risk: canary membership models with --singled-out or
    --counterfactual does.

    Exit codes: 0 written, 2 wrong input, 3 written, but the files look wrong.
    """
    from canary.gate.verdict import EXIT_CODES
    from canary.membership.analysis import overstated, possible_class_risks
    from canary.membership.doubts import doubts_of_pair
    from canary.membership.risk import reliability, risk_scores
    from canary.membership.shadow_survey import class_risk_fields
    from canary.reports.survey_reports import calibration_sentence
    from canary.signals.measuring import measure
    from canary.signals.output_checks import check_members

    asked = options.checked()
    check_table(out, inputs=[target, shadow], force=force)
    ours, theirs = (measure(place) for place in (target, shadow))
    for table in (ours, theirs):
        check_members(table.member, table.source)
    doubts = doubts_of_pair(ours, theirs)
    notes = [*doubts]
    scored = risk_scores(ours, shadow=theirs, **asked)
    if thin := int(scored.thin.sum()):
        notes.append(
            f"{plural(thin, 'score')} of {count(ours.samples)} are read from a bin with fewer than "
            "ten shadow samples, and mean little: give a larger shadow, fewer --bins, or --smooth"
        )
    members = ours.member[0]
    notes += [] if doubts else overstated(scored, members, confidence=_SURE)
    trust = reliability(scored, members, confidence=_SURE)
    of_classes = possible_class_risks(ours, scored)
    write_table(out, scored)
    for note in notes:
        show(f"{note}.")
    show(f"The risk scores of {plural(ours.samples, 'sample')} are in {out}")
    if doubts:
        show("Do not use the scores before the input is checked: see above.")
    else:
        show(calibration_sentence(trust, confidence=_SURE))
    if of_classes is not None:
        show(of_classes.summary())
    body = {
        "samples": ours.samples,
        "prior": options.prior,
        "bins": scored.bins,
        "scale": options.scale,
        "pooled_classes": int(scored.pooled.sum()),
        "mean_risk_of_members": float(scored.scores[members].mean()),
        "mean_risk_of_nonmembers": float(scored.scores[~members].mean()),
        "rmse": trust.rmse,
        "calibration_error": dict(vars(trust.calibration_error)),
        "class_generalization": class_risk_fields(of_classes),
        "notes": notes,
    }
    code = EXIT_CODES["undecided"] if doubts else 0
    return Result("canary membership risk", body, code=code)


@command(
    "membership text ./model members.jsonl nonmembers.jsonl --attacks all --out texts/ --json",
    "membership text ./model members.jsonl nonmembers.jsonl --reference ./model-b "
    "--masked ./bert --window 64 --overlap 32 --out texts/ --force",
    members=f"MEMBERS: {_TEXTS} that the model was trained on.",
    nonmembers=f"NONMEMBERS: {_TEXTS} from the same source that it never saw.",
    out="FOLDER: Where membership.json and report.html go.",
    attacks="NAME,NAME,...: The attacks: TEXT-ATTACKS; or all that the models allow.",
    reference="MODEL: A model that was not trained on the members, for the attack reference.",
    reference_start_token="TOKEN: The --start-token of the reference model; '' for none.  "  # noqa: S106
    "[default: that of --start-token]",
    masked="MODEL: A masked language model such as BERT, which rewrites the texts for the attack "
    "neighbourhood.",
    neighbours="N: The rewritten copies of each text.",
    masked_share="SHARE: The share of words that each copy replaces.",
    column="NAME: The field that holds the text.",
    share="SHARE: The share of a text's tokens that min-k and min-k++ use.",
    window="TOKENS: Score longer texts in windows of this length.  [default: the most that the "
    "model takes]",
    overlap="TOKENS: Tokens that a window shares with the one before, as context.  [default: half "
    "a window]",
)
def text(
    model: str,
    members: Path,
    nonmembers: Path,
    *,
    out: Path,
    attacks: str = "all",
    reference: str | None = None,
    reference_start_token: str | None = None,
    masked: str | None = None,
    neighbours: Count = 10,
    masked_share: float = 0.15,
    column: str = "text",
    share: float = 0.2,
    window: Annotated[int, 2] | None = None,
    overlap: Count | None = None,
    judged: RatesOptions,
    names: Names,
    force: bool = False,
    options: ModelOptions,
) -> Result:
    """Attack a language model by the probability of texts.

    The attacks find texts of the training data.
    FOLDER/report.html is for people, FOLDER/membership.json for machines. Texts are named by their
    lines and never shown. A bag-of-words classifier that sees no model is compared with the
    attacks. Where it finds the members, the texts differ in their words, and the attacks show
    nothing about the model. Run the same command again to resume a run that was stopped;
    FOLDER/parts keeps what is finished until then. The guide is docs/guides/membership-text.md.

    Exit codes: 0 answered, whatever the answer, 2 wrong input, 3 undecided, void or doubtful files.
    """
    from canary.membership.samples_needed import rates_of
    from canary.membership.survey import SCHEMA
    from canary.membership.text_survey import KIND, survey_texts
    from canary.membership.words_alone import check_enough_texts
    from canary.models.served.endpoint import is_url
    from canary.signals.text_files import read_texts
    from canary.signals.text_measuring import measure_texts, text_signals_of

    asked = judged.checked()
    text_signals_of(attacks, reference=reference is not None, masked=masked is not None)
    models = model_files(model, reference, masked, options.tokenizer)
    read = [members, nonmembers, *models, *factory_file(options.factory)]
    with report_folder(
        out, KIND, "membership.json", inputs=read, force=force, in_parts=True
    ) as folder:
        texts = read_texts(members, nonmembers, column=column)
        # What would be refused after hours is refused before them.
        rates_of(asked["fprs"], int((~texts.member).sum()))
        check_enough_texts(texts.texts, texts.member)
        if warning := warned_of_words(texts, judged.seed) if is_url(model) else "":
            say(warning)
        loaded = options.load(model)
        # For the other models these options say only where and how they compute.
        place = ModelOptions(dtype=options.dtype, device=options.device)
        counting = options.dry_run and attacks == "all"
        second = None if reference is None or counting else place.load(reference)
        third: Any = None
        if masked is not None and options.dry_run:
            from canary.models.served.rehearsal import Reworded

            third = Reworded()
        elif masked is not None:
            from canary.models.masked import load_masked

            say(f"Loading {masked}")
            third = load_masked(masked, dtype=options.dtype, device=options.device)
        with folder.running() as bars:
            measured = measure_texts(
                loaded,
                texts.texts,
                texts.member,
                signals=attacks,
                reference=second,
                masked=third,
                neighbours=neighbours,
                masked_share=masked_share,
                share=share,
                window=window,
                overlap=overlap,
                reference_start_token=reference_start_token,
                seed=judged.seed,
                places=texts.place,
                parts=folder.parts,
                progress=bars.stage,
                **options.running(),
            )
            options.counted(warning)
            result = survey_texts(
                measured, texts.texts, lines=texts.lines, progress=bars.stage, **asked
            )
        result = names.on(replace(result, notes=(*texts.notes, *result.notes)))
        body = {**texts.facts(), **result.to_dict()}
        return folder.finish(result, SCHEMA, body=body, code=exit_code(result))


def warned_of_words(texts: Texts, seed: int) -> str:
    """What to say before texts are sent whose words alone separate them; empty if they do not."""
    from canary.membership.words_alone import words_alone

    found = words_alone(texts.texts, texts.member, seed=seed)
    return found.differ * (
        "Members and non-members differ without any model: a bag of words separates them "
        f"(p = {probability(found.p)}). Unless an attack does clearly better, the test will be "
        "void, and its requests are spent for nothing: take both from one source first"
    )
