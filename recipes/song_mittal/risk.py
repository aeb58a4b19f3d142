"""Section 4 of the paper on what `train.py` and `variants.py` kept: risk scores, and why.

    python risk.py --work WORK [--out WORK]

Writes NAME-risk.json into the folder of --out, where NAME is the data set, and prints table 6 and
others of README.md. Means and 95 % intervals over the seeds, of three seeds or fewer mean, least
and most; curves of all seeds together.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attacks
import numpy as np
import torch
import works
from scipy.special import expit
from table import NAMES, line, percent, remark, shown, summed

import canary
from canary.errors import CanaryError, InputError
from canary.membership.analysis import (
    by_risk,
    class_risks,
    leakage,
    precision_recall,
    risk_at,
    sensitivity,
)
from canary.membership.risk import RiskScores, reliability, risk_scores
from canary.signals.signal_table import SignalTable
from canary.statistics.distances import Correlation, correlation

GRID = np.linspace(0.0, 1.0, 21)
"""Scores at which cumulative distributions are kept."""

STOPPED = "stopped"
SCORES = ("risk", "smooth", "network")
WORDS = {**NAMES, STOPPED: "stopped early instead"}
KINDS = {"": "undefended", "-memguard": "MemGuard", "-regularized": "adversarial regularization"}
"""How `variants.py` ends the names of what other architectures say, and what that is."""

PAPER_6 = {
    "Texas100, undefended": "85.4; 21.2 83.4; 29.1 81.2; 45.3 77.0; 66.1 72.8; 85.4 70.6; 94.3",
    "Texas100, MemGuard": "88.2; 1.4 84.5; 7.6 82.6; 18.7 77.0; 43.7 71.3; 70.5 66.0; 99.9",
    "Purchase100, undefended": "–; 0 –; 0 –; 0 63.4; 7.8 62.6; 55.1 61.6; 90.9",
    "Purchase100, stopped early": "–; 0 –; 0 –; 0 60.4; 1.3 57.1; 20.2 56.6; 75.2",
    "Purchase100, regularized": "83.3; 0.2 83.3; 0.2 65.9; 0.5 63.9; 1.7 58.9; 24.6 56.5; 76.3",
}
"""Table 6: precision and recall at each threshold, from 1.0 down to 0.5, in percent."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A target, and three kinds of scores from 0 to 1 of its samples."""

    table: SignalTable
    risks: RiskScores
    scores: dict[str, np.ndarray]

    @property
    def member(self) -> np.ndarray:
        return self.table.member[0]


def judged(target: SignalTable, shadow: SignalTable) -> Judged:
    """Risk scores by bins and without, and what the network says (its log-odds as chances)."""
    risks = risk_scores(target, shadow=shadow)
    smooth = risk_scores(target, shadow=shadow, smooth=True)
    network = expit(canary.attack(target, "neural", shadow=shadow).scores)
    own = {"risk": risks.scores, "smooth": smooth.scores, "network": network}
    return Judged(target, risks, own)


def models(seed: Path) -> Iterator[tuple[str, SignalTable, SignalTable]]:
    """Targets by attackers who know of the defence: the paper's, and what to compare them with."""

    def pair(name: str) -> tuple[SignalTable, SignalTable]:
        target, shadow = (attacks.read(seed / name / f"{r}.npz") for r in ("target", "shadow"))
        return target, shadow

    plain = pair("undefended")
    yield "undefended", *plain
    for name in ("memguard", "adversarial-regularization"):
        if (seed / name / "shadow.json").is_file():
            yield name, *pair(name)
    other = seed / "adversarial-regularization" / "target.json"
    if other.is_file():
        path = attacks.facts(seed / "undefended" / "target.json")["curve"]
        at = attacks.nearest(path, attacks.facts(other)["curve"][-1]["test"])
        yield STOPPED, *attacks.stopped(seed, at, plain)


def share_below(scores: np.ndarray) -> list[float]:
    """The share of scores up to each of `GRID`."""
    return [round(float((scores <= at + 1e-12).mean()), 4) for at in GRID]


def trust(scores: Sequence[np.ndarray], members: Sequence[np.ndarray]) -> dict[str, Any]:
    """How far scores are from shares of members: over seeds, and the curve of all together."""
    each = [reliability(*one) for one in zip(scores, members, strict=True)]
    whole = reliability(np.concatenate(scores), np.concatenate(members))
    return {
        "rmse": summed([one.rmse for one in each]),
        "error": summed([one.calibration_error.value for one in each]),
        "curve": [
            [round(float(score), 4), round(float(share), 4), int(inside + outside)]
            for score, share, inside, outside in zip(
                whole.score, whole.share, whole.members, whole.nonmembers, strict=True
            )
        ],
    }


def guesses(found: Sequence[Judged]) -> list[dict[str, Any]]:
    """Table 6; precision is of the seeds where anybody is called a member."""
    rows = []
    for same in zip(*(precision_recall(one.risks, one.member) for one in found), strict=True):
        precise = [one.precision.value for one in same if one.precision is not None]
        rows.append(
            {
                "threshold": same[0].threshold,
                "precision": summed(precise) if precise else None,
                "recall": summed([one.recall.value for one in same]),
            }
        )
    return rows


def priors(found: Sequence[Judged]) -> list[dict[str, Any]]:
    """Appendix B."""
    rows = []
    for same in zip(*(leakage(one.risks, one.member) for one in found), strict=True):
        at = [risk_at(one.risks, same[0].prior)[one.member] for one in found]
        rows.append(
            {
                "prior": same[0].prior,
                "leakage": summed([one.leakage.value for one in same]),
                "above": summed([one.above for one in same]),
                "below": share_below(np.concatenate(at)),
            }
        )
    return rows


def by_class(found: Sequence[Judged]) -> dict[str, Any] | None:
    """Figure 8: of every seed the correlation, of the first the classes."""
    if found[0].table.classes < 4:
        return None
    each = [class_risks(one.table, one.risks) for one in found]
    first = each[0]
    return {
        "linear": summed([one.correlation.linear.value for one in each]),
        "rank": summed([one.correlation.rank.value for one in each]),
        "counted": [len(one.classes) for one in each],
        "first": [
            [int(c), round(float(error), 4), round(float(risk), 4)]
            for c, error, risk in zip(first.classes, first.error, first.risk, strict=True)
        ],
    }


def of_lacking(seed: Path, one: Judged) -> dict[str, Any] | None:
    """Figure 7: sensitivity to members by their risk, of the first seed."""
    paths = sorted((seed / "lacking").glob("*.npz"), key=lambda path: int(path.stem))
    if not paths:
        return None
    logits, members = [one.table.outputs[0]], [one.member]
    for path in paths:
        with np.load(path) as held:
            logits.append(held["logits"])
            members.append(held["member"])
    table = canary.measure(logits, y=one.table.label, member=np.stack(members), outputs="logits")
    found = sensitivity(table)
    there = ~np.isnan(found)
    how = correlation(one.risks.scores[there], found[there])
    return {
        "models": len(paths),
        "lacked": int((~members[1] & one.member).sum()),
        **of_correlation(how),
        "bands": [
            {
                "from": band.low,
                "count": band.count,
                "quartiles": [band.first_quartile, band.third_quartile],
                "mean": band.mean,
            }
            for band in by_risk(one.risks, found)
        ],
    }


def of_correlation(found: Correlation) -> dict[str, list[float]]:
    return {
        name: [round(one.value, 4), round(one.lower, 4), round(one.upper, 4)]
        for name, one in (("linear", found.linear), ("rank", found.rank))
    }


def of_architectures(seed: Path) -> dict[str, Any]:
    """Figures 4 and 12: do the scores hold for other networks, and for guarded ones?"""
    found = {}
    for home in sorted((seed / "architectures").glob("*")):
        for suffix in KINDS:
            paths = [home / f"{role}{suffix}.npz" for role in ("target", "shadow")]
            if all(path.is_file() for path in paths):
                target, shadow = map(attacks.read, paths)
                risks = risk_scores(target, shadow=shadow)
                found[home.name + suffix] = {
                    **attacks.accuracies(target),
                    **trust([risks.scores], [target.member[0]]),
                }
    return found


def results(work: Path) -> dict[str, Any]:
    seeds = sorted(work.glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-")))
    found: dict[str, list[Judged]] = {}
    for seed in seeds:
        attacks.defences(seed)  # or it says what to run first
        for name, target, shadow in models(seed):
            found.setdefault(name, []).append(judged(target, shadow))
    for name, same in found.items():
        if len(same) < len(seeds):
            raise InputError(
                f"{name} is there in {len(same)} of {len(seeds)} seeds",
                cure="train it in every seed with train.py",
                where=str(work),
            )
    plain = found["undefended"]
    rows = {
        name: {
            "trust": {
                kind: trust([one.scores[kind] for one in same], [one.member for one in same])
                for kind in SCORES
            },
            "below": share_below(np.concatenate([one.risks.scores[one.member] for one in same])),
            "guesses": guesses(same),
        }
        for name, same in found.items()
    }
    return {
        "seeds": len(seeds),
        "rows": rows,
        "priors": priors(plain),
        "classes": by_class(plain),
        "sensitivity": of_lacking(seeds[0], plain[0]),
        "architectures": of_architectures(seeds[0]),
    }


def table_6(found: dict[str, Any]) -> list[str]:
    cuts = [one["threshold"] for one in found["rows"]["undefended"]["guesses"]]
    lines = [line(("", *map(str, cuts))), line(("---", *["---:"] * len(cuts)))]
    lines += [
        line((f"{name}, paper", *re.findall(r"\S+; \S+", row))) for name, row in PAPER_6.items()
    ]
    for name, row in found["rows"].items():
        cells = []
        for one in row["guesses"]:
            precise = "–" if one["precision"] is None else percent(one["precision"])
            cells.append(f"{precise}; {percent(one['recall'])}")
        lines.append(line((WORDS[name], *cells)))
    return lines


def table_of_trust(found: dict[str, Any]) -> list[str]:
    """Figures 3 and 11 in numbers."""
    heads = ("", *(f"{kind}, {what}" for kind in SCORES for what in ("RMSE", "calibration error")))
    lines = [line(heads), line(["---", *["---:"] * (len(heads) - 1)])]
    for name, row in found["rows"].items():
        cells = (row["trust"][kind][what] for kind in SCORES for what in ("rmse", "error"))
        lines.append(line((WORDS[name], *map(plain_number, cells))))
    return lines


def table_of_priors(found: dict[str, Any]) -> list[str]:
    """Appendix B: mean rise of members' scores over the prior."""
    heads = ("prior", *(f"{one['prior']:g}" for one in found["priors"]))
    cells = (plain_number(one["leakage"]) for one in found["priors"])
    return [line(heads), line(["---", *["---:"] * len(found["priors"])]), line(("leakage", *cells))]


def table_of_causes(found: dict[str, Any]) -> list[str]:
    """Correlations of figures 7 and 8."""
    lines = [line(("risk score and", "linear", "of ranks")), line(("---", "---:", "---:"))]
    classes, lacked = found["classes"], found["sensitivity"]
    if classes:
        cells = (plain_number(classes[kind]) for kind in ("linear", "rank"))
        lines.append(line(("generalization error of the class", *cells)))
    if lacked:
        ends = ("{:.2f} ({:.2f} to {:.2f})".format(*lacked[kind]) for kind in ("linear", "rank"))
        lines.append(line(("sensitivity, first seed", *ends)))
    return lines


def table_of_architectures(found: dict[str, Any]) -> list[str]:
    """Figures 4 and 12 in numbers; a kind that was not trained has no column."""
    rows = found["architectures"]
    kinds = [kind for kind in KINDS if any(name.endswith(kind) for name in rows)]
    heads = ("train", "test", *(f"RMSE, {KINDS[kind]}" for kind in kinds))
    lines = [line(("", *heads)), line(("---", *["---:"] * len(heads)))]
    for name, row in rows.items():
        if not name.endswith(tuple(KINDS)[1:]):
            shares = (f"{100 * row[kind]:.1f}" for kind in ("train", "test"))
            guarded = (rows.get(name + kind) for kind in kinds)
            errors = ("" if one is None else plain_number(one["rmse"]) for one in guarded)
            lines.append(line((name, *shares, *errors)))
    return lines


def plain_number(value: list[float]) -> str:
    return shown([f"{part:.2f}" for part in value])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="folder of the results; WORK without it")
    parser.add_argument("--name", help="of the results; the data set without it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        run(options)
    except CanaryError as error:
        raise SystemExit(f"risk.py: {error}") from None


def run(options: argparse.Namespace) -> None:
    name = works.name_of(options.work, options.name)
    found = results(options.work)
    out = options.out or options.work
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}-risk.json").write_text(json.dumps(found, indent=1) + "\n")
    print(remark(found["seeds"]), end="\n\n")
    tables = (table_6, table_of_trust, table_of_priors, table_of_causes, table_of_architectures)
    for one in tables:
        print("\n".join(one(found)), end="\n\n")


if __name__ == "__main__":
    main()
