"""All attacks on all models of one table by each other, as far as the table allows them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.fleet.store import table_of_folder
from canary.membership.aggregate import (
    FEWEST,
    agreement,
    evaluate_models,
    groups_of,
    over_fleets,
    rates,
    sample_auc,
)
from canary.membership.alignment import other_order
from canary.membership.attacks import ATTACKS, Attack, with_many_models
from canary.membership.diagnostics import Growth, growth
from canary.membership.doubts import POSITIVE_CONTROL, doubts_of_models, upside_down
from canary.membership.many import attack_models
from canary.membership.models_result import AttackedModels, ModelsSurvey
from canary.membership.references import resolve
from canary.membership.samples_needed import rates_of
from canary.membership.sharing import repeated_models
from canary.records.progress import Progress, shows_progress, stage
from canary.signals.measuring import TableOrPath, joined, table_of
from canary.signals.output_checks import check_members
from canary.signals.signal_table import SignalTable, positions
from canary.statistics.number_checks import check_confidence, positive_integer
from canary.statistics.numbers import plural
from canary.statistics.tails import Rule, check_level, check_rule

Flags = NDArray[np.bool_]
Places = NDArray[np.intp]

LEVELS = (0.01, 0.1, 0.3)
"""Levels at which decisions are made unless others are asked for."""

MANY_MODELS = 64
"""From so many on ``all`` has LiRA with a variance for each sample."""

_GROWN_TARGETS, _GROWN_FROM = 4, 4
"""Curves against the number of models are of so many targets at most, and begin with so many
models; a target is one of as many models at least."""


@shows_progress
def survey_models(
    table: TableOrPath,
    *,
    shadow: TableOrPath | None = None,
    names: Sequence[str] | None = None,
    attacks: str = "all",
    targets: Sequence[int] | None = None,
    fprs: Sequence[float] | None = None,
    alphas: Sequence[float] = LEVELS,
    rule: Rule = "empirical",
    least: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress = None,
) -> ModelsSurvey:
    """Attack the models of a table by each other, with every attack.

    Parameters
    ----------
    table : SignalTable or path
        Of two or more models on the same samples; of one for P, or with `shadow`. A path is that
        of a file of outputs, or of the folder of a fleet.
    shadow : SignalTable or path, optional
        Of models to compare those of `table` with, on the same samples in the same order, as
        ``canary.Fleet(...).run()`` gives it. Then the models of `table` are the targets.
    names : sequence of str, optional
        Of the models, for people, those of `shadow` after those of `table`; their numbers unless
        given.
    attacks : str
        Names with commas between them; or ``all``: S, P, R, lira-online, lira-offline (both
        with one variance where there are fewer than 64 models) and rmia, as far as they need
        no further models.
    targets : sequence of int, optional
        Rows of `table` that are attacked; all unless given.
    fprs, alphas : sequence of float
        False positive rates to look at, as in `canary.membership.shadow_survey.survey`, and levels
        at which decisions are made.
    rule : {"empirical", "linear", "gaussian"}
        Of the quantile, for S, P and R.
    least : int, optional
        Judge only samples that at least this many models were trained without and, if an attack
        needs those, at least as many were trained on.
    confidence : float
    seed : int
        Of the order in which models are added for the curves against their number.
    progress : callable or bool, optional
        Called with rounds of ``attacks``; see `canary.records.progress.Progress`.

    Raises
    ------
    InputError
        If there is no such attack, a target's samples are all of one kind, two models are one,
        or an attack has nothing to compare some sample with.

    Notes
    -----
    Where every model is a target, of at least four, and each may be left out, intervals are
    those of `canary.membership.aggregate.over_fleets` (16 more attacks, or one for each of fewer
    models). Otherwise the ends are the means of the targets' own intervals, which speak of other
    samples. The curves are one more attack, on four targets at most, for each number of models.

    Examples
    --------
    >>> found = survey_models(table, attacks="P,R", targets=[0])  # doctest: +SKIP
    >>> found.save("models.json")  # doctest: +SKIP
    >>> found = survey_models(target, shadow=references)  # doctest: +SKIP
    """
    check_confidence(confidence, "survey_models")
    check_rule(rule, "survey_models")
    levels = sorted(set(alphas))
    for alpha in levels:
        check_level(alpha, "alphas")
    if not levels:
        raise EstimationError("no level was given", cure="give one, 0.1 say", where="alphas")
    table = _read(table, "table")
    rows = positions(targets, table.models, "targets", table.source)
    table = table if shadow is None else joined(table, _read(shadow, "shadow"))
    called = tuple(names or map(str, table.numbers))
    doubts = [*doubts_of_models(table, called, rows.tolist()), *other_order(table, called)]
    notes = [*_repeats(table, called), *_no_groups(table, rows), *doubts]
    kinds, judged, said = _chosen_attacks(table, attacks, rows, least)
    notes += said
    few = table if judged.all() else table.select(samples=judged)
    for row in rows:
        check_members(few.member[row], called[row])
    nonmembers = int((~few.member[rows]).sum(axis=1).min())
    whole = len(rows) == few.models
    fleets = whole and _left_out_safely(few, kinds)
    # Intervals over fleets have ends of their own.
    each = None if fleets else confidence
    chosen, said = rates_of(fprs, nonmembers, confidence=each, attacks=len(kinds))
    notes += said
    notes += _speak_of(few, fleets=fleets) if whole else []
    done = stage(
        progress, "attacks", len(kinds) * (2 + (groups_of(few.models) if fleets else 0)), "rounds"
    )
    attacked = []
    grid = np.geomspace(1.0 / nonmembers, 1.0, 200)
    options: dict[str, Any] = {"rule": rule, "confidence": confidence}
    for kind in kinds:
        scores = attack_models(few, kind.name, targets=rows, rule=rule)
        across = evaluate_models(scores, fprs=grid, confidence=confidence)
        done(1)
        over = None
        if fleets:
            over = over_fleets(few, kind.name, fprs=chosen, across=across, done=done, **options)
        grown = _grown(few, kind, rows, notes, rule=rule, seed=seed)
        decided = rates(scores, alphas=levels) if scores.calibrated else None
        attacked.append(AttackedModels(scores, across, tuple(chosen), decided, over, grown))
        done(1)
    calibrated = [one.scores for one in attacked if one.scores.calibrated]
    best = max(attacked, key=lambda one: one.auc.value).scores
    notes += [note for one in attacked for note in one.scores.notes]
    # With all flags swapped, attacks that see models trained on a sample find members, too.
    aucs = {o.name: o.widest_auc for o in attacked if not ATTACKS[o.name].inside}
    doubts += upside_down(aucs, "flags")
    if rule != "gaussian" and any(kind.name == "R" for kind in kinds):
        notes += _silent_levels(few, rows, [*levels, *chosen])
    alike = tuple(agreement(calibrated, alpha=alpha) for alpha in levels if len(calibrated) > 1)
    inside = best.member.sum(axis=0)
    several = (best.judged & (inside > 0) & (inside < len(best.member))).any()
    result = ModelsSurvey(
        table=few,
        names=called,
        targets=tuple(rows.tolist()),
        attacked=tuple(attacked),
        fprs=tuple(chosen),
        agreements=alike,
        exposed=sample_auc(best) if several else None,
        samples=np.flatnonzero(judged),
        given=table.samples,
        over_fleets=fleets,
        confidence=confidence,
        rule=rule,
        seed=seed,
        notes=tuple(dict.fromkeys([*notes, *doubts])),
        doubts=tuple(doubts),
    )
    if result.told_apart() is not False:
        return result
    return replace(result, notes=(*result.notes, POSITIVE_CONTROL))


def _read(given: TableOrPath, name: str) -> SignalTable:
    """A table, that of a file of outputs, or that of a fleet's folder."""
    if isinstance(given, str | os.PathLike) and Path(given).is_dir():
        whole = any(kind.signal == "outputs" for kind in with_many_models().values())
        return table_of_folder(given, outputs=whole)
    return table_of(given, name)


def _no_groups(table: SignalTable, rows: Places) -> list[str]:
    """A note that groups of several targets are not reported."""
    if table.group is None or len(rows) == 1:
        return []
    return ["The groups are reported of one target only: name it by --target (in Python targets)"]


def _speak_of(table: SignalTable, *, fleets: bool) -> list[str]:
    """A note if intervals speak of one split alone, or of no other trainings."""
    if not fleets:
        return [_own_intervals(table.models)]
    if (table.member != table.member[0]).any():
        return []
    said = f"All {table.models} models have the same members: intervals speak of other trainings"
    return [f"{said} on this split, and not of other splits"]


def _own_intervals(models: int) -> str:
    """Why intervals speak of no other trainings, and what would help."""
    own = "Intervals speak of these models and of other samples, not of other trainings"
    if models < FEWEST:
        return f"{own}: for that give {FEWEST} models or more"
    # So many are left out at a time, and two have to be left, of which one is a target.
    away = 2 - (-models // groups_of(models))
    return (
        f"{own}: some samples would have no model to be compared with if models were left out; "
        f"--least {away} leaves them away"
    )


def _silent_levels(table: SignalTable, rows: Places, levels: Sequence[float]) -> list[str]:
    """A note if R by its references cannot decide at the lowest of some levels."""
    bench = resolve(table, "R", targets=rows)
    counts = [bench.compared(part, "limited").count.max() for part in bench.parts()]
    lowest = 1.0 / (int(max(counts)) + 1)  # where a loss is below all of its references
    if min(levels) >= lowest * (1.0 - 1e-9):
        return []
    return [
        f"Attack R finds nobody at a level below {lowest:.3g}, the share of others that it may "
        "mistake for members, because there are too few models. Give more, or --rule gaussian"
    ]


def _grown(
    table: SignalTable, kind: Attack, rows: Places, notes: list[str], *, rule: Rule, seed: int
) -> Growth | None:
    """The AUC against the number of models, where there are enough beside some targets."""
    of = rows[: max(min(_GROWN_TARGETS, table.models // _GROWN_FROM), 1)]
    free = table.models - len(of)
    if not kind.others or free <= _GROWN_FROM:
        return None
    doubled = (_GROWN_FROM * 2**k for k in range(free.bit_length()))
    sizes = sorted({*(size for size in doubled if size <= free), free})
    try:
        return growth(table, kind.name, sizes, targets=of, seed=seed, rule=rule)
    except (InputError, EstimationError) as error:
        notes.append(f"The AUC of {kind.name} against the number of models is not shown: {error}")
        return None


def _chosen_attacks(
    table: SignalTable, asked: str, targets: Places, least: int | None
) -> tuple[list[Attack], Flags, list[str]]:
    """The attacks that are asked for, the samples that they are judged on, and notes."""
    if least is not None:
        least = positive_integer(least, "least", "attacks", cure="give a number of models, 2 say")
    known = table.member.sum(axis=0)
    if asked.strip() == "all":
        kinds, notes = _all_attacks(table, targets, least)
    else:
        kinds, notes = [ATTACKS[name] for name in ATTACKS.names(asked, where="attacks")], []
    able = ", ".join(name for name, kind in with_many_models().items() if not kind.own)
    for kind in kinds:
        if kind.own:
            raise InputError(
                f"the attack {kind.name} needs models of each target's own",
                cure="do it from Python: attack_models(table, ..., shadow=)",
                where="attacks",
            )
        if kind.judge is None:
            cure = f"name some of {able}; or all"
            raise InputError(f"the attack {kind.name} is by a shadow", cure=cure, where="attacks")
    inside, outside = any(kind.inside for kind in kinds), any(kind.outside for kind in kinds)
    if table.models < 2 and any(kind.others for kind in kinds):
        raise InputError(
            "one model, and attacks compare it with others",
            cure="give the outputs of several models on the same samples; the attack P alone "
            "needs one",
            where=table.source,
        )
    judged = np.ones(table.samples, np.bool_)
    if least is not None:
        judged &= (table.models - known >= least) | (not outside)
        judged &= (known >= least) | (not inside)
        if not judged.any():
            without = "without it, and as many on it" if inside else "without it"
            raise InputError(
                f"no sample has {least:,} of {plural(table.models, 'model')} that were trained "
                f"{without}",
                cure="ask for fewer (--least), or give more models",
                where=table.source,
            )
        if not judged.all():
            notes.append(
                f"Of {plural(table.samples, 'sample')} {int((~judged).sum()):,} are left out: "
                f"fewer than {plural(least, 'model')} were trained without them"
                + (", or on them" if inside else "")
            )
    aside = None if judged.all() else ~judged
    bench = resolve(table, "all", targets=targets, population=aside, alone=True)
    for kind in kinds:
        if kind.outside:
            bench.check(kind.name, inside=kind.inside, least=True)
    return kinds, judged, notes


def _all_attacks(
    table: SignalTable, targets: Places, least: int | None
) -> tuple[list[Attack], list[str]]:
    """The attacks that ``all`` stands for: online ones if the samples are members of others."""
    notes, inside, few = [], table.member.sum(axis=0), table.models < MANY_MODELS
    if least is None:
        online = not resolve(table, "all", targets=targets, alone=True).alone("inside").any()
    else:
        online = ((inside >= least) & (table.models - inside >= least)).any()
    if not online:
        notes.append(
            "Some samples are members of no other model, so --attacks all leaves out the attacks "
            "that need such models: it runs rmia-offline in place of rmia, and no lira-online"
        )
    if few:
        notes.append(
            f"LiRA has one variance for all samples, as there are fewer than {MANY_MODELS} models"
        )
    kinds = with_many_models().values()
    usual = [kind for kind in kinds if ("online" if online else "offline") in kind.usual]
    return [kind for kind in usual if kind.few in (None, few)], notes


def _left_out_safely(table: SignalTable, kinds: Sequence[Attack]) -> bool:
    """Whether each part of the models may be left out, and attacks still have what they need."""
    if table.models < FEWEST:
        return False
    kinds_of = [(kind.name, "outside" * kind.outside, "inside" * kind.inside) for kind in kinds]
    needs = {need for kind in kinds_of for need in kind}
    groups, rows = groups_of(table.models), np.arange(table.models)
    outside = np.stack(
        [np.bincount(table.label[~member], minlength=table.classes) for member in table.member]
    )[:, np.unique(table.label)]
    for part in range(groups):
        rest = rows[rows % groups != part]
        inside = table.member[rest].sum(axis=0)
        lacking = {
            "outside": (len(rest) - inside < 2).any(),
            "inside": (inside < 2).any(),
            "S": (outside[rest].sum(axis=0) == outside[rest].max(axis=0)).any(),
        }
        if any(lacking[need] for need in needs & lacking.keys()):
            return False
    return True


def _repeats(table: SignalTable, names: Sequence[str]) -> list[str]:
    """A note on models that say the same; an InputError if two are one."""
    found = repeated_models({"models": table.signal("loss")})
    for repeat in found:
        if repeat.certain:
            one, two = names[repeat.first[1]], names[repeat.second[1]]
            raise InputError(
                f"says of every sample what {one} says, but for rounding: the two are one model, "
                "and an attack would learn the flags that it is judged by",
                cure="give each model once",
                where=two,
            )
    if not found:
        return []
    have = "has" if len(found) == 1 else "have"
    return [f"{plural(len(found), 'model')} {have} the losses of another, as hard labels may give"]
