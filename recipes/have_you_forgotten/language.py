"""Two ways to make a small language model unlearn some documents, judged by three measures.

    python language.py --data DATA --work WORK --out WORK/language.json [--seeds 5]
                       [--calibration 39]

A character GPT-2 is trained on speeches of Shakespeare, and on others that somebody takes back:
the query set, with canaries among it. What a model says of the speeches, and the exposure of
the canaries, go into one file for each model; a run that was killed goes on.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import itertools
import json
import lzma
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from judge import counted, mean, measures, over_seeds, require, shown
from scipy.stats import mannwhitneyu
from tokenizers import Tokenizer
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import canary
from canary.demo import START, characters
from canary.errors import CanaryError, InputError

QUERY, REST, UNSEEN = 100, 150, 200
LENGTH = (25, 70)
FORMAT = "My number is {digit:4}."
CANARIES, COPIES = 8, 4
WIDTH, LAYERS = 64, 2
BATCH, RATE, EPOCHS, TUNED = 32, 6e-3, 30, 10
LEVEL = 0.05
ASCENT = {"rate": 3e-4, "steps": 400, "beyond": 2.0}


def speeches(path: Path) -> list[str]:
    """Distinct speeches of 25 to 70 characters, without their speakers."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        parts = (part.partition("\n")[2] for part in file.read().split("\n\n"))
    found = dict.fromkeys(" ".join(part.split()) for part in parts)
    return [text for text in found if LENGTH[0] <= len(text) <= LENGTH[1]]


def train(texts: list[str], tokenizer: Tokenizer, *, name: str, epochs: int) -> nn.Module:
    torch.manual_seed(zlib.crc32(name.encode()))
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=LENGTH[1] + 4,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return descend(GPT2LMHeadModel(config), texts, tokenizer, epochs=epochs)


def descend(model: nn.Module, texts: list[str], tokenizer: Tokenizer, *, epochs: int) -> nn.Module:
    """Some epochs of Adam, whose rate rises for a tenth of the steps (two or more), and falls."""
    rows = encoded(texts, tokenizer)
    step = torch.optim.Adam(model.parameters(), lr=RATE)
    count = epochs * -(-len(rows) // BATCH)
    # A rise of exactly one step divides by zero.
    rise = max(0.1, 2 / count)
    fall = torch.optim.lr_scheduler.OneCycleLR(step, RATE, total_steps=count, pct_start=rise)
    model.train()
    for _ in range(epochs):
        for part in torch.randperm(len(rows)).split(BATCH):
            step.zero_grad()
            loss_of(model, [rows[i] for i in part]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            step.step()
            fall.step()
    return model.eval()


def ascend(model: nn.Module, texts: list[str], tokenizer: Tokenizer, until: float) -> int:
    """Gradient ascent until the mean loss of these texts is `until` nats per character."""
    rows = encoded(texts, tokenizer)
    step = torch.optim.Adam(model.parameters(), lr=ASCENT["rate"], maximize=True)
    steps = 0
    while steps < ASCENT["steps"]:
        with torch.no_grad():
            if loss_of(model, rows) >= until:
                break
        step.zero_grad()
        loss_of(model, [rows[i] for i in torch.randint(len(rows), (BATCH,))]).backward()
        step.step()
        steps += 1
    return steps


def encoded(texts: list[str], tokenizer: Tokenizer) -> list[torch.Tensor]:
    return [torch.tensor(one.ids) for one in tokenizer.encode_batch([START + t for t in texts])]


def loss_of(model: nn.Module, rows: list[torch.Tensor]) -> torch.Tensor:
    """Mean nats per character."""
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    targets = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)[:, 1:]
    logits = model(input_ids=ids[:, :-1]).logits
    return nn.functional.cross_entropy(logits.transpose(1, 2), targets)


class Run:
    """All models, each trained unless its file is there."""

    def __init__(self, texts: list[str], options: argparse.Namespace) -> None:
        self.tokenizer = characters([*texts, FORMAT, "0123456789"])
        self.epochs = options.epochs
        self.folder = options.work / f"{options.epochs}-{options.seeds}"
        mixed = iter([texts[i] for i in np.random.default_rng(0).permutation(len(texts))])

        self.query = [list(itertools.islice(mixed, QUERY)) for _ in range(options.seeds)]
        self.unseen = list(itertools.islice(mixed, UNSEEN))
        # Every other set is drawn alike, so that a retrained model is one of the calibration
        # models in all but its name; two sets may share some speeches.
        self.pool = list(mixed)
        if len(self.pool) < 2 * REST:
            raise SystemExit("there are not so many speeches: fewer --seeds")
        self.rest = [self.drawn(f"rest {seed}") for seed in range(options.seeds)]
        self.beside = [self.drawn(f"beside {seed}") for seed in range(options.seeds)]
        self.others = [self.drawn(f"calibration {at}") for at in range(options.calibration)]
        self.canaries = [
            canary.generate(
                FORMAT, repetitions=(COPIES,), per_repetition=CANARIES, controls=CANARIES, seed=seed
            )
            for seed in range(options.seeds)
        ]
        self.begin(texts, judge=options.judge)

    def begin(self, texts: list[str], *, judge: bool) -> None:
        """Write down what the first model is to be made of; go on with nothing else."""
        told = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
        sizes = QUERY, REST, UNSEEN, LENGTH, FORMAT, CANARIES, COPIES, WIDTH, LAYERS, BATCH, TUNED
        facts = json.loads(json.dumps({"texts": told, "sizes": sizes, "rates": (RATE, ASCENT)}))
        path = self.folder / "made-of.json"
        if any(self.folder.glob("*.npz")):
            held = json.loads(path.read_text()) if path.exists() else facts  # an older work
            if other := [name for name in facts if held.get(name) != facts[name]]:
                raise InputError(
                    f"the models there were made with other {other[0]}",
                    cure="give another --work folder",
                    where=str(self.folder),
                )
        elif not judge:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(facts), encoding="utf-8")

    def drawn(self, name: str) -> list[str]:
        """Speeches that no query set has, the same ones for a name."""
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        return [self.pool[i] for i in rng.choice(len(self.pool), REST, replace=False)]

    def new(self, name: str, texts: list[str], *, times: int = 1) -> nn.Module:
        return train(texts, self.tokenizer, name=name, epochs=times * self.epochs)

    def has(self, name: str) -> bool:
        return (self.folder / f"{name}.npz").exists()

    def keep(self, name: str, model: nn.Module, canaries: canary.CanarySet | None) -> None:
        """What it says of all query sets and the unseen texts, and the exposures."""
        loaded = canary.load(model, tokenizer=self.tokenizer)
        found = {
            of: losses(loaded, texts)
            for of, texts in [*enumerate_names(self.query), ("unseen", self.unseen)]
        }
        if canaries is not None:
            results = canary.exposure(loaded, canaries, start_token=START)
            found["exposure"] = np.array([one.exposure.bits for one in results])
            found["copies"] = np.array([one.repetitions for one in canaries])
        whole = self.folder / f"{name}.part.npz"
        np.savez(whole, **found)
        whole.replace(self.folder / f"{name}.npz")
        print(name, flush=True)

    def calibrations(self) -> None:
        for number, texts in enumerate(self.others):
            name = f"calibration-{number}"
            if not self.has(name):
                self.keep(name, self.new(name, texts), None)

    def seed(self, seed: int) -> None:
        """The models of a seed; the original is made to unlearn at once."""
        query, rest, canaries = self.query[seed], self.rest[seed], self.canaries[seed]
        both = [*query, *(canaries.text(one) for one in canaries for _ in range(one.repetitions))]
        # The query model takes as many steps as the original, or it would not know its texts.
        for name, texts, times in ((f"{seed}.query", both, 2), (f"{seed}.retrained", rest, 1)):
            if not self.has(name):
                self.keep(name, self.new(name, texts, times=times), canaries)
        # One that knows them beside others, as the original does.
        if not self.has(f"{seed}.mixed query"):
            model = self.new(f"{seed}.mixed query", [*self.beside[seed], *both])
            self.keep(f"{seed}.mixed query", model, canaries)
        if self.has(f"{seed}.original"):
            return
        model = self.new(f"{seed}.original", [*rest, *both])
        start = copy.deepcopy(model.state_dict())
        descend(model, rest, self.tokenizer, epochs=TUNED)
        self.keep(f"{seed}.fine-tuned", model, canaries)
        model.load_state_dict(start)
        with torch.no_grad():
            until = float(loss_of(model, encoded(self.unseen, self.tokenizer)))
        for name, times in (("ascent", 1.0), ("ascent too far", ASCENT["beyond"])):
            ascend(model, both, self.tokenizer, times * until)
            self.keep(f"{seed}.{name}", model, canaries)
        model.load_state_dict(start)
        self.keep(f"{seed}.original", model, canaries)


def enumerate_names(sets: list[list[str]]) -> list[tuple[str, list[str]]]:
    return [(f"query-{at}", texts) for at, texts in enumerate(sets)]


def losses(model: object, texts: list[str]) -> np.ndarray:
    """Mean nats per character of each text."""
    lengths = np.array([len(text) for text in texts])
    return canary.score(model, texts, start_token=START) * np.log(2) / lengths


TARGETS = ("original", "retrained", "fine-tuned", "ascent", "ascent too far")


def judged(run: Run) -> dict[str, Any]:
    """The three measures of every target, and its loss on texts that no model saw."""

    def answers(name: str) -> dict[str, np.ndarray]:
        with np.load(run.folder / f"{name}.npz") as held:
            return dict(held)

    names = [f"calibration-{number}" for number in range(len(run.others))]
    others = [answers(name) for name in names if run.has(name)]
    done = [seed for seed in range(len(run.query)) if run.has(f"{seed}.original")]
    require(len(done), len(others), len(run.others), run.folder)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TARGETS}
    for seed in done:
        of = f"query-{seed}"
        query, mixed = (answers(f"{seed}.{name}")[of] for name in ("query", "mixed query"))
        for name, some in found.items():
            target = answers(f"{seed}.{name}")
            one = measures(query, target[of], [other[of] for other in others], target["unseen"])
            injected = target["copies"] > 0
            exposed = target["exposure"][injected], target["exposure"][~injected]
            for kind, bits in zip(("injected", "controls"), exposed, strict=True):
                one[f"exposure of {kind}"] = float(np.median(bits))
            one["mixed"] = measures(
                mixed, target[of], [other[of] for other in others], target["unseen"]
            )
            one["p of exposure"] = float(mannwhitneyu(*exposed, alternative="greater").pvalue)
            one["finds it"] = {
                "p": one["mixed"]["p"] <= LEVEL,
                "p of any difference": one["mixed"]["p_unlike"] <= LEVEL,
                "attack": one["auc"][1] > 0.5,
                "exposure": one["p of exposure"] <= LEVEL,
            }
            one["loss on unseen texts"] = float(target["unseen"].mean())
            one["loss on the query set"] = float(target[of].mean())
            some.append({"seed": seed, **one})
    return {
        name: {
            **over_seeds(some),
            "mixed": over_seeds([one["mixed"] for one in some]),
            "seeds": some,
        }
        for name, some in found.items()
    }


def rows(found: dict[str, Any]) -> list[str]:
    """The results as a Markdown table."""
    lines = [
        "| model | rho | rho, mixed query model | its answer by the paper's rule | further | p | "
        "p of any difference | AUC | "
        "exposure, bits | of controls | nats a character: query set, unseen | "
        "finds it: p, any difference, attack, exposure |",
        "| --- | --- | --- | --- | --- | ---: | ---: | --- | --- | --- | --- | --- |",
    ]
    for name, one in found.items():
        beside = one["mixed"]
        said = counted(beside["answers"])
        further = counted(beside["further"])
        more = [
            shown(mean([seed[kind] for seed in one["seeds"]]))
            for kind in (
                "exposure of injected",
                "exposure of controls",
                "loss on the query set",
                "loss on unseen texts",
            )
        ]
        told = zip(*(seed["finds it"].values() for seed in one["seeds"]), strict=True)
        lines.append(
            f"| {name} | {shown(one['rho'])} | {shown(beside['rho'])} | {said} | "
            f"{further} | "
            f"{beside['p']:.3f} | {beside['p_unlike']:.3f} | "
            f"{shown(one['auc'])} | {more[0]} | {more[1]} | {more[2]}, {more[3]} | "
            f"{', '.join(str(sum(hits)) for hits in told)} of {len(one['seeds'])} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--calibration", type=int, default=39)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--judge", action="store_true", help="train nothing more")
    options = parser.parse_args()
    if options.calibration < 2:
        parser.error("--calibration: two models or more, or there is no p of any difference")
    try:
        run(options)
    except CanaryError as error:
        raise SystemExit(f"language.py: {error}") from None


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    texts = speeches(options.data / "tinyshakespeare" / "input.txt.xz")
    models = Run(texts, options)
    if not options.judge:
        models.seed(0)
        models.calibrations()
        for seed in range(1, options.seeds):
            models.seed(seed)
    found = {"epochs": options.epochs, "targets": judged(models)}
    print("\n".join(rows(found["targets"])))
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
