"""What attacks on many models find where there is nothing, and what they find where there is.

    python tests/benchmarks/no_signal.py [--models 8 16 32] [--seeds 20] [--effect 0]
    python tests/benchmarks/no_signal.py --points 10 30 100 --seeds 2000
    python tests/benchmarks/no_signal.py --kinds 0.5 0.8

Makes tables of losses that know nothing of members (continuous, with noise of another size for
each sample, of two values, or all equal) on splits of `--samples` samples, attacks every model by
the others, and gives the mean AUC over models and seeds, for each split and each number of models:
of the attack that is furthest from 0.5 in units of its standard error, as canary compares
(`matched`) and as it would without the target alone (`target only`, the same models by `shadow=`).
Splits: `halves`; halves with one model missing, or two; `subsets` of a half and of a fifth; coins;
coins for an odd number of models; leave-one-out. Samples that fewer than three models know, or
fewer than three do not, are left away where the split is random. With `--effect D` members are D
deviations of the noise more likely, on a Gaussian toy whose best test has an AUC of Phi(D / sqrt
2); then the mean AUC of each attack is given. One JSON line.

With `--points N` a model of N members and N non-members, which are the population, is attacked by
P and RMIA on noise, and beside them stands the AUC of the bare loss: mean and standard error.

With `--kinds S` there are two kinds of samples, easy ones (logits of mean 4 and deviation 0.5) and
hard ones (of mean 0 and deviation 3), and a share S of the first kind's samples and 1 - S of the
other's are members of the target, which is one of 16 models; the others are coins. Mean AUC on
noise and standard error: what comes of a split that was not drawn without regard to the samples.
"""

from __future__ import annotations

from argparse import Namespace
from collections import defaultdict

import numpy as np
from figures import options, show
from scipy.stats import rankdata

from canary.errors import CanaryError
from canary.fleet.splits import halves, leave_one_out, subsets
from canary.membership.many import attack_models
from canary.signals.signal_table import SignalTable

ATTACKS = (
    *(("R", {"rule": rule}) for rule in ("empirical", "linear", "gaussian")),
    *((name, {}) for name in ("lira-online", "lira-online-fixed", "lira-offline")),
    *((name, {}) for name in ("rmia", "rmia-offline")),
)
SPLITS = (
    *("halves", "one missing", "two missing", "subsets of half", "subsets of a fifth"),
    *("coins", "odd coins", "leave-one-out"),
)
LOSSES = ("continuous", "uneven", "two values", "equal")


def members(split, models, samples, seed):
    """Who is a member, of shape (models, samples), as far as it can be judged."""
    labels, rng = np.zeros(samples, np.int64), np.random.default_rng([seed, models, 1])
    if split == "leave-one-out":
        points = np.arange(models // 4)
        return leave_one_out(points)(labels, models, seed).member[:, points]
    if split == "halves":
        return halves()(labels, models, seed).member
    if split in ("one missing", "two missing"):
        return halves()(labels, models, seed).member[1 + (split == "two missing") :]
    if split.startswith("subsets"):
        size = samples // (2 if split == "subsets of half" else 5)
        member = subsets(size)(labels, models, seed).member
    else:
        member = rng.random((models + (split == "odd coins"), samples)) < 0.5
    known = member.sum(axis=0)
    return member[:, (known >= 3) & (len(member) - known >= 3)]


def table_of(member, losses, effect, seed):
    rng = np.random.default_rng([seed, len(member), 2])
    logit = 2 * rng.normal(size=member.shape[1]) + effect * member
    noise = rng.normal(size=member.shape)
    if losses == "uneven":
        noise *= np.exp(rng.normal(size=member.shape[1]))
    logit = logit + noise
    if losses == "two values":
        logit = np.where(logit > 0, 3.0, -1.0)
    if losses == "equal":
        logit = np.full(member.shape, 2.0)
    label = np.zeros(member.shape[1], np.int64)
    return SignalTable({"loss": np.logaddexp(0, -logit)}, member, label, 1)


def areas(scores):
    """Mean AUC over targets, ties as one half."""
    found = []
    for score, member in zip(scores.scores, scores.member, strict=True):
        members = member.sum()
        wins = rankdata(score)[member].sum() - members * (members + 1) / 2
        found.append(wins / (members * (len(member) - members)))
    return float(np.mean(found))


def matched(table, name, options):
    return areas(attack_models(table, name, **options))


def target_only(table, name, options):
    """The first four targets, each by all the others as they are."""
    found = []
    for target in range(4):
        others = table.select(models=np.delete(np.arange(table.models), target))
        one = table.select(models=[target])
        found.append(matched(one, name, {**options, "shadow": others}))
    return float(np.mean(found))


def measured(split, models, given, how):
    """For each attack and kind of losses: mean AUC, and its standard error."""
    found = defaultdict(list)
    # Of few models few samples are left out; and the cost is compared on the same targets.
    seeds = given.seeds * (10 if split == "leave-one-out" else 1)
    few = {"targets": range(4)} if given.effect and how is matched else {}
    for seed in range(seeds):
        member = members(split, models, given.samples, seed)
        for losses in ("continuous",) if given.effect else LOSSES:
            table = table_of(member, losses, given.effect, seed)
            for name, more in ATTACKS:
                try:
                    auc = how(table, name, {**more, **few})
                except CanaryError:  # of so few references nobody knows a variance
                    continue
                found[" ".join((name, *more.values(), losses))].append(auc)
    many = max(seeds - 1, 1) ** 0.5
    return {key: (float(np.mean(v)), float(np.std(v)) / many) for key, v in found.items()}


def worst(found):
    """The attack that is furthest from 0.5, in units of its standard error."""
    z = {key: (mean - 0.5) / max(error, 1e-9) for key, (mean, error) in found.items()}
    key = max(z, key=lambda one: abs(z[one]))
    return {"attack": key, "auc": round(found[key][0], 4), "z": round(z[key], 1)}


def with_errors(found):
    """Mean and standard error of each."""
    return {
        key: (round(float(np.mean(v)), 4), round(float(np.std(v)) / len(v) ** 0.5, 4))
        for key, v in found.items()
    }


def by_points(points, seeds):
    """Mean AUC and standard error of what compares with the target's own non-members."""
    found = defaultdict(list)
    for seed in range(seeds):
        rng = np.random.default_rng([seed, points])
        member = np.argsort(rng.random((9, 2 * points)), axis=0) < 4
        member[0] = np.arange(2 * points) < points
        logit = rng.normal(size=member.shape)
        label = np.zeros(2 * points, np.int64)
        table = SignalTable({"loss": np.logaddexp(0, -logit)}, member, label, 1)
        found["loss"].append(areas(Namespace(scores=logit[:1], member=member[:1])))
        for name in ("P", "rmia", "rmia-offline"):
            found[name].append(areas(attack_models(table, name, targets=[0])))
    return with_errors(found)


def by_kind(share, seeds, samples=800):
    """Mean AUC and standard error of each attack where one kind of samples is mostly members."""
    found = defaultdict(list)
    for seed in range(seeds):
        rng = np.random.default_rng([seed, int(1000 * share)])
        quiet = rng.random(samples) < 0.5
        member = rng.random((16, samples)) < 0.5
        member[0] = rng.random(samples) < np.where(quiet, share, 1 - share)
        known = member[1:].sum(axis=0)
        some = (known >= 3) & (known <= 12)
        member, quiet = member[:, some], quiet[some]
        logit = np.where(quiet, 4.0, 0.0)
        logit = logit + rng.normal(size=member.shape) * np.where(quiet, 0.5, 3.0)
        label = np.zeros(len(quiet), np.int64)
        table = SignalTable({"loss": np.logaddexp(0, -logit)}, member, label, 1)
        for name, more in ATTACKS:
            auc = areas(attack_models(table, name, targets=[0], **more))
            found[" ".join((name, *more.values()))].append(auc)
    return with_errors(found)


def main() -> None:
    given = options(
        models=[8, 16, 32], samples=800, seeds=20, effect=0.0, splits=SPLITS, points=[int],
        kinds=[float],
    )  # fmt: skip
    result: dict[str, object] = {}
    for points in given.points:
        result[f"{points} points"] = by_points(points, given.seeds)
    for share in given.kinds:
        result[f"{share} of a kind"] = by_kind(share, given.seeds)
    for split in () if given.points or given.kinds else given.splits:
        for models in given.models:
            for name, how in (("matched", matched), ("target only", target_only)):
                found = measured(split, models, given, how)
                result[f"{split}, {models} models, {name}"] = (
                    {key: round(mean, 4) for key, (mean, _) in found.items()}
                    if given.effect
                    else worst(found)
                )
    show("no_signal", **result)


if __name__ == "__main__":
    main()
