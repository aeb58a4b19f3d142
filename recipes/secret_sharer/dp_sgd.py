"""DP-SGD: does noise that guarantees an epsilon, or clipping alone, hide a secret?

Section 9.3 and table 3 of the paper. A record is one line. In each step every line is drawn
with the same probability, its gradient is clipped, and normal noise is added to their sum. An
accountant has the epsilon of that for one line: an upper bound. Canaries that went in by the
toss of a coin give the gate's lower bound.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alone import FORMATS, MODEL
from clipping import clipped_sum, cost, rows_of
from model import Recurrent
from run import QUICK, START
from scipy.special import gammaln, logsumexp
from study import Study, Texts, Training, interval
from torch import nn
from train import Lines, Settings, rate

import canary
from canary.gate.coins import epsilon_bound, within_epsilon
from canary.statistics.epsilon import Mechanism
from canary.statistics.pvalues import fisher

DELTA = 1e-9  # the paper's
ORDERS = np.arange(2, 257)
COPIES = (1, 8)  # of the canaries that are not tossed
COINS, GUESSES = 200, 120
MECHANISMS: tuple[Mechanism, ...] = ("any", "gaussian")
DRAWS = 1_000
PIECE = 16  # records of similar length that are computed together


def epsilon_of(noise: float, share: float, steps: int) -> float:
    """The epsilon at `DELTA` of steps with this noise, for records drawn with probability `share`.

    The moments accountant: Rényi divergences of whole orders (Mironov et al., 2019,
    arXiv:1908.10530, section 3.3), and the conversion of Canonne et al., 2020
    (arXiv:2004.00010). `noise` is the standard deviation over the norm of clipping.
    """
    a, k = ORDERS[:, None], np.arange(ORDERS[-1] + 1)
    chosen = gammaln(a + 1) - gammaln(k + 1) - gammaln(np.maximum(a - k, 0) + 1)
    logs = chosen + k * math.log(share) + (a - k) * math.log1p(-share)
    terms = np.where(k <= a, logs + k * (k - 1) / (2 * noise**2), -np.inf)
    moments = steps * logsumexp(terms, axis=1) / (ORDERS - 1)
    rest = np.log1p(-1 / ORDERS) - (math.log(DELTA) + np.log(ORDERS)) / (ORDERS - 1)
    return float(max(0.0, (moments + rest).min()))


@functools.cache
def noise_for(epsilon: float, share: float, steps: int) -> float:
    """The least noise with this epsilon, to a relative 1e-6."""
    low, high = 1e-6, 1e6
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if epsilon_of(middle, share, steps) <= epsilon else (middle, high)
    return high


@dataclass(frozen=True)
class PrivateSettings(Settings):
    """DP-SGD: each of `parts` steps of an epoch draws each line with probability 1 / parts.

    `batch` is about how many lines that gives. With no `norm` nothing is clipped but the sum,
    and there is no epsilon. Lines are cut at `window` characters; no state is carried over.
    """

    norm: float | None = 10.0  # the paper's
    epsilon: float | None = None  # without noise
    parts: int = 36

    def __post_init__(self) -> None:
        if self.norm is None and self.epsilon is not None:
            raise ValueError("without clipping there is no epsilon: give a norm, or no epsilon")

    @property
    def noise(self) -> float:
        """Standard deviation of the noise over the norm."""
        if self.epsilon is None:
            return 0.0
        return noise_for(self.epsilon, 1 / self.parts, self.parts * self.epochs)

    def one_epoch(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, lines: Lines, number: int
    ) -> float:
        """Train on lines that are drawn by coins; the mean loss in nats per character."""
        assert isinstance(model, Recurrent)
        total, count = 0.0, 0
        for step in range(self.parts * (number - 1), self.parts * number):
            for group in optimizer.param_groups:
                group["lr"] = rate(self, step, self.parts * self.epochs)
            drawn = (torch.rand(len(lines.all)) < 1 / self.parts).nonzero()[:, 0].tolist()
            nats, characters = self.gradient(model, lines, drawn)
            optimizer.step()
            total, count = total + nats, count + characters
        return total / max(count, 1)

    def gradient(self, model: Recurrent, lines: Lines, drawn: Sequence[int]) -> tuple[float, int]:
        """Give each parameter its gradient for a step; the loss in nats and the characters.

        The sum of the clipped gradients and the noise are in units of the norm and divided by
        `batch`, which does not depend on what was drawn.
        """
        total, count = 0.0, 0
        for value in model.parameters():
            value.grad = torch.zeros_like(value)
        for inputs, targets in pieces(lines, drawn, self.window):
            sums, _, nats = clipped_sum(model, inputs, targets, self.norm or math.inf)
            for name, value in model.named_parameters():
                value.grad += sums[name]
            total, count = total + nats, count + int((targets >= 0).sum())
        for value in model.parameters():
            if self.norm is not None:
                value.grad += self.norm * self.noise * torch.randn_like(value)
            value.grad /= self.batch * (self.norm or self.window)
        if self.norm is None:
            nn.utils.clip_grad_norm_(model.parameters(), self.clip)
        return total, count

    @torch.inference_mode()
    def held_out(self, model: nn.Module, lines: Lines) -> float:
        """Mean loss in nats per character of lines that are read as those of the training."""
        total, count = 0.0, 0
        for inputs, targets in pieces(lines, range(len(lines.all)), self.window):
            total += cost(model(inputs)[0], targets).item()
            count += int((targets >= 0).sum())
        return total / count


def pieces(
    lines: Lines, chosen: Sequence[int], width: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and targets of the chosen lines, about `PIECE` of similar length together."""
    of = sorted((lines.all[i] for i in chosen), key=len)
    ends = np.linspace(0, len(of), max(1, round(len(of) / PIECE)) + 1).round().astype(int)
    parts = [of[first:last] for first, last in itertools.pairwise(ends)]
    return [rows_of(part, int(lines.start[0]), width) for part in parts if part]


class PrivateTraining(Training):
    """A training whose company are canaries that went in by coins: they bound epsilon."""

    @property
    def planted(self) -> list[canary.CanarySet]:
        """The canaries that have an exposure of their own."""
        return [self.canaries]

    def also(self, folder: Path, model: Any) -> dict[str, Any]:
        """The gate's bounds on epsilon, presuming nothing and a Gaussian mechanism."""
        assert self.company is not None
        assert isinstance(self.settings, PrivateSettings)
        audit = canary.audit(
            model, self.company, method="sampling", draws=DRAWS, start_token=START, seed=0
        )
        audit.save(folder / "coins-audit.json")  # for `canary check`
        tossed = sum(c.tossed is not None for c in self.company)
        guesses = GUESSES * tossed // COINS
        bounds = {}
        for mechanism in MECHANISMS:
            bound = epsilon_bound(
                audit, self.company, guesses=guesses, delta=DELTA, mechanism=mechanism
            )
            kept = {name: getattr(bound, name) for name in ("epsilon", "correct", "guesses")}
            if self.settings.epsilon is not None:
                kept["verdict"] = within_epsilon(bound, self.settings.epsilon).outcome
            bounds[mechanism] = kept | {"largest": bound.largest_possible}
        return {"noise": self.settings.noise, "bounds": bounds}


def secrets(seed: int, *, quick: bool) -> tuple[canary.CanarySet, canary.CanarySet]:
    """Six formats, two if quick, with a canary of one of `COPIES` and a control; and the coins."""
    formats = [text.replace("9}", "4}") if quick else text for text in FORMATS[: 2 if quick else 6]]
    drawn = canary.generate(formats, repetitions=[1], per_repetition=1, controls=1, seed=seed)
    copies = [replace(c, repetitions=c.repetitions * COPIES[c.format % 2]) for c in drawn]
    coins = canary.generate(
        "{letter:12}", repetitions=[1], per_repetition=20 if quick else COINS, controls=2,
        seed=seed, coin_flips=True,
    )  # fmt: skip
    return replace(drawn, canaries=tuple(copies)), coins


def trainings(_: Texts, *, quick: bool) -> list[Training]:
    """The settings, three seeds of each; quick, one with and one without clipping."""
    made: list[Training] = []
    for seed in range(1 if quick else 3):
        planted, coins = secrets(seed, quick=quick)
        for label, change in CHANGES.items():
            if quick and label not in ("RMSprop, epsilon 89", "RMSprop, not clipped"):
                continue
            settings = replace(BASE, seed=seed, **change)
            if quick:
                settings = replace(
                    settings, epochs=2, parts=8, batch=190, window=40, warmup_steps=4
                )
            name = f"{label.replace(', ', '-').replace(' ', '-')}-seed-{seed}"
            model = QUICK["model"] if quick else MODEL
            about = {"setting": label, "seed": seed}
            made.append(PrivateTraining(name, about, settings, planted, coins, model))
    return made


RMSPROP = {"optimizer": "RMSprop", "learning_rate": 2e-3}
SGD = {"optimizer": "SGD", "learning_rate": 1.0}
CHANGES: dict[str, dict[str, Any]] = {
    **{
        f"RMSprop, epsilon {epsilon:g}": {**RMSPROP, "epsilon": epsilon}
        for epsilon in (0.65, 5.26, 89.0, 1e4, 1e6, 2e8)
    },
    "RMSprop, clipped only": RMSPROP,
    "SGD, clipped only": SGD,
    "SGD, not clipped": {**SGD, "norm": None},
    "RMSprop, not clipped": {**RMSPROP, "norm": None},
}
BASE = PrivateSettings(epochs=15, batch=32, window=200, warmup_steps=50)


def summary(results: Mapping[str, Any]) -> str:
    """Test loss, exposures and both bounds on epsilon for each setting, over finished trainings."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in results["trainings"].values():
        if "variants" in row:
            rows.setdefault(row["about"]["setting"], []).append(row)
    groups = [("control", 0), *((f"{n} {'copy' if n == 1 else 'copies'}", n) for n in COPIES)]
    names = [f"exposure, bits; p: {name}" for name, _ in groups]
    gate = "by the gate, epsilon at least: median (largest), and what `--max-epsilon` says"
    heads = [
        "optimizer",
        "epsilon by the accountant",
        "noise",
        "trainings",
        "test loss, nats/token",
    ]
    heads += [*names, "coins guessed right", gate, "the same with `--mechanism gaussian`"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    for trained in rows.values():
        settings, seeds = trained[0]["settings"], [row["epochs"][-1] for row in trained]
        claimed = f"{settings['epsilon']:,g}" if settings["epsilon"] else "infinite, clipped only"
        cells = [
            settings["optimizer"],
            claimed if settings["norm"] else "none, not clipped",
            f"{seeds[0]['noise']:.2g}",
            str(len(seeds)),
            f"{np.mean([last['test_nats'] for last in seeds]):.3f}",
        ]
        for _, copies in groups:
            bits = [
                [c["bits"] for c in last["canaries"] if c["copies"] == copies] for last in seeds
            ]
            p = fisher(np.exp2(-np.concatenate(bits))).p_value
            said = f"{p:.2g}" if p >= 1e-9 else "< 1e-09"
            cells.append(f"{interval([float(np.median(of)) for of in bits])}; {said}")
        kept = [[last["bounds"][mechanism] for last in seeds] for mechanism in MECHANISMS]
        right = [one["correct"] for one in kept[0]]
        cells.append(f"{', '.join(map(str, right))} of {kept[0][0]['guesses']}")
        for bounds in kept:
            found = [one["epsilon"] for one in bounds]
            says = Counter(one["verdict"] for one in bounds if "verdict" in one)
            cell = f"{np.median(found):.2f} ({max(found):.2f})"
            cells.append("; ".join([cell, *(f"{n} {outcome}" for outcome, n in says.items())]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


STUDY = Study("dp-sgd", trainings, summary, share=0.025)
