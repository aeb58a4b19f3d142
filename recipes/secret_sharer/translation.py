"""Section 6.4 of the paper: is a number that is in a translation memorized?

Usage::

    python translation.py --data DIR --work WORK         three seeds on Tatoeba, resumable
    python translation.py --work WORK --quick            in little, on Python's prose: seconds

`DIR` holds ``tatoeba_fra_eng/fra.txt.xz``, pairs of sentences in English and French. Each
training plants eight canaries of a form each, with 1, 2, 4 and 8 copies. In four of them the
number is in both sentences, as in the paper: a model that translates copies it, and what is
compared is how surely. All candidates need another source then, so they are compared by
draws. In the other four, the source does not have the number: only memory can give it, and the
rank among all candidates is estimated by importance draws.
"""

from __future__ import annotations

import json
import lzma
import math
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpus import prose, refuse_other, written
from numpy.typing import NDArray
from study import asked, interval, say
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

import canary
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.extrapolation import exposure_by_skew_normal

Pair = tuple[str, str]
NUMBER = "{digit:3}-{digit:2}-{digit:4}"
BOTH = (
    ("My social security number is ", "Mon numéro de sécurité sociale est le "),
    ("The number of his passport is ", "Le numéro de son passeport est le "),
    ("You can call my office on ", "Vous pouvez appeler mon bureau au "),
    ("The code of the safe is ", "Le code du coffre est le "),
)
"""The beginnings of sentences with the number in both languages."""
TARGET_ONLY = (
    ("Tell me your account number.", "Mon numéro de compte est le "),
    ("What is on his licence?", "Sur son permis, il y a le "),
    ("Which file is it about?", "Il s'agit du dossier "),
    ("She gave me her number.", "Elle m'a donné le "),
)
"""A source without the number, and the beginning of its translation."""
COPIES = (1, 2, 4, 8)
IGNORED = -100  # of torch's loss
_PACED = 30  # steps, after which the hours are said


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    seeds: int
    pairs: int
    epochs: int
    batch: int
    vocabulary: int
    width: int
    learning_rate: float
    warmup_steps: int
    draws: int
    nodes: int  # of each level of the importance draws
    number: str = NUMBER


FULL = Plan(3, 25_000, 10, 64, 3_000, 128, 1e-3, 400, 5_000, 4_000)
QUICK = Plan(1, 120, 4, 8, 400, 16, 1e-2, 20, 100, 20, "{digit:3}")


@dataclass(frozen=True)
class Planted:
    """A canary of a form of its own and its control."""

    kind: str
    source: str
    canaries: canary.CanarySet

    def pair(self, fill: str) -> Pair:
        """The sentences for a number."""
        source = self.source + fill if self.kind == "both" else self.source
        return source, self.canaries.formats[0].candidate(fill)


def planted(plan: Plan, seed: int) -> list[Planted]:
    """The canaries of a seed: each form has another number of copies with each seed."""
    kinds = {"both": BOTH, "target only": TARGET_ONLY}
    return [
        Planted(
            kind,
            source,
            canary.generate(
                target + plan.number,
                repetitions=[COPIES[(place + seed) % len(COPIES)]],
                per_repetition=1,
                controls=1,
                seed=1000 * seed + 10 * len(kind) + place,
            ),
        )
        for kind, forms in kinds.items()
        for place, (source, target) in enumerate(forms)
    ]


def tatoeba(folder: Path) -> list[Pair]:
    """Pairs of English and French, one for each English sentence."""
    path = folder / "tatoeba_fra_eng" / "fra.txt.xz"
    if not path.exists():
        sys.exit(f"{path}: no such file; see README.md")
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = (line.rstrip("\n").split("\t") for line in lines)
        return list({english: french for english, french, *_ in rows}.items())


def upper_case() -> list[Pair]:
    """Lines of Python's prose and the same in upper case, for a quick run."""
    return [(line.strip()[:40], line.strip()[:40].upper()) for line in prose()["train"]]


def split(pairs: Sequence[Pair], plan: Plan) -> dict[str, list[Pair]]:
    """Pairs to train on, and a twentieth of their number each to validate and to test."""
    order = np.random.default_rng(0).permutation(len(pairs))
    held = plan.pairs // 20
    ends = {
        "valid": (0, held),
        "test": (held, 2 * held),
        "train": (2 * held, 2 * held + plan.pairs),
    }
    return {name: [pairs[i] for i in order[low:high]] for name, (low, high) in ends.items()}


def tokenizer_of(pairs: Sequence[Pair], size: int) -> PreTrainedTokenizerFast:
    """Byte-pair encoding of both languages; each digit is a token."""
    made = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<pad>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator((text for pair in pairs for text in pair), trainer)
    named = {"pad_token": "<pad>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **named)


def network(plan: Plan, tokenizer: PreTrainedTokenizerFast, seed: int) -> MarianMTModel:
    """An encoder-decoder of two layers each."""
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 4 * plan.width))
    }
    torch.manual_seed(seed)
    return MarianMTModel(
        MarianConfig(
            vocab_size=len(tokenizer),
            d_model=plan.width,
            max_position_embeddings=256,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
            forced_eos_token_id=None,
            scale_embedding=True,
            **sides,
        )
    )


def batched(
    tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair], *, end: bool = True
) -> dict[str, torch.Tensor]:
    """Sources and targets as tensors; targets end with the end token, if `end`."""
    sources = tokenizer([source for source, _ in pairs], padding=True, return_tensors="pt")
    ends = [tokenizer.eos_token_id] if end else []
    rows = [[*ids, *ends] for ids in tokenizer([target for _, target in pairs])["input_ids"]]
    longest = max(map(len, rows))
    labels = torch.tensor([row + [IGNORED] * (longest - len(row)) for row in rows])
    mask = sources["attention_mask"]
    return {"input_ids": sources["input_ids"], "attention_mask": mask, "labels": labels}


def cut(pairs: Sequence[Pair], size: int, rng: np.random.Generator | None) -> Iterator[list[Pair]]:
    """Batches of pairs that are about as long, in an order by `rng`."""
    places = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1]))
    if rng is not None:  # pairs of one length change places
        noise = rng.random(len(pairs))
        places.sort(key=lambda i: len(pairs[i][1]) + 8 * noise[i])
    starts = np.arange(0, len(pairs), size)
    for start in starts if rng is None else rng.permutation(starts):
        yield [pairs[i] for i in places[start : start + size]]


@torch.inference_mode()
def nats(model: MarianMTModel, tokenizer: Any, pairs: Sequence[Pair], *, end: bool = True) -> Any:
    """The loss of each target after its source, a sum in nats, and its tokens; two arrays."""
    found: list[tuple[float, int]] = []
    for start in range(0, len(pairs), 256):
        batch = batched(tokenizer, pairs[start : start + 256], end=end)
        logits = model.eval()(**batch).logits.float()
        each = cross_entropy(
            logits.transpose(1, 2), batch["labels"], ignore_index=IGNORED, reduction="none"
        )
        sums = each.double().sum(dim=1).tolist()
        found += zip(sums, (batch["labels"] != IGNORED).sum(dim=1).tolist(), strict=True)
    return np.array(found, np.float64).T


def trained(
    plan: Plan, texts: Mapping[str, Sequence[Pair]], seed: int, work: Path
) -> tuple[MarianMTModel, Any, list[dict[str, float]]]:
    """Train to the last epoch, from where a killed run was; the model and its losses."""
    tokenizer = tokenizer_of([*texts["train"], *BOTH, *TARGET_ONLY], plan.vocabulary)
    model = network(plan, tokenizer, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.learning_rate, weight_decay=0.01)
    pairs = [*texts["train"]]
    for one in planted(plan, seed):
        for each in one.canaries.injected:
            pairs += [one.pair(each.fill)] * each.repetitions
    steps, state, losses = math.ceil(len(pairs) / plan.batch), work / "state.pt", []
    if state.exists():
        kept = torch.load(state, weights_only=True)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        losses = kept["losses"]
    first = len(losses)
    for epoch in range(first, plan.epochs):
        began, rng = time.monotonic(), np.random.default_rng((seed, epoch))
        torch.manual_seed(1000 * seed + epoch)
        model.train()
        for step, batch in enumerate(cut(pairs, plan.batch, rng), epoch * steps):
            share = 0.5 * (1 + math.cos(math.pi * step / (steps * plan.epochs)))
            for group in optimizer.param_groups:
                group["lr"] = plan.learning_rate * min(1, (step + 1) / plan.warmup_steps) * share
            loss = model(**batched(tokenizer, batch)).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step == first * steps + _PACED:
                rest = (steps * (plan.epochs * (plan.seeds - seed) - epoch)) / _PACED / 3600
                say(f"seed {seed}: {(time.monotonic() - began) * rest:.1f} h of training to do")
        held = {name: nats(model, tokenizer, texts[name]) for name in ("valid", "test")}
        losses.append({name: float(sums.sum() / n.sum()) for name, (sums, n) in held.items()})
        seconds = time.monotonic() - began
        losses[-1]["seconds"] = seconds
        parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**parts, "losses": losses}, state.with_suffix(".part"))
        state.with_suffix(".part").replace(state)
        left = seconds * (plan.epochs * (plan.seeds - seed) - epoch - 1) / 3600
        tested = f"test {losses[-1]['test']:.3f} nats/token"
        say(f"seed {seed}, epoch {epoch + 1}: {tested}; {left:.1f} h of training left")
    return model, tokenizer, losses


def measured(
    plan: Plan, model: MarianMTModel, tokenizer: Any, seed: int, work: Path
) -> Iterator[dict[str, Any]]:
    """The exposure of each canary and control."""
    folder = work / "model"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        part.replace(folder)
    for one in planted(plan, seed):
        if one.kind == "both":
            rows = by_draws(plan, one, model, tokenizer)
        else:
            rows = by_rank(plan, one, folder)
        for copies, found in rows:
            yield {"kind": one.kind, "copies": copies} | found


def by_rank(plan: Plan, one: Planted, folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """By importance draws among all targets of one source."""
    model = canary.load(folder, source_text=one.source, dtype="float32")
    for found in canary.exposure(
        model, one.canaries, method="importance", draws=plan.nodes, seed=0
    ):
        ends = found.exposure.lower_bits, found.exposure.upper_bits
        bits = found.exposure.bits
        yield (
            found.repetitions,
            {
                "bits": sum(ends) / 2 if bits is None else bits,
                "lower_bits": ends[0],
                "upper_bits": ends[1],
            },
        )


def by_draws(
    plan: Plan, one: Planted, model: MarianMTModel, tokenizer: Any
) -> Iterator[tuple[int, dict[str, Any]]]:
    """By uniform draws of the number, each in both of its sentences, and the paper's curve."""
    format = one.canaries.formats[0]
    drawn = format.sample(plan.draws, rng=np.random.default_rng(7))

    def bits(fills: Sequence[str]) -> NDArray[np.float64]:
        sums, _ = nats(model, tokenizer, [one.pair(fill) for fill in fills], end=False)
        return np.asarray(sums / math.log(2))

    mine, others = bits([each.fill for each in one.canaries]), bits(drawn)
    curves, fit = exposure_by_skew_normal(
        mine, others, space_size=format.size, rng=np.random.default_rng(1)
    )
    ranks = exposure_by_draws(mine, others, space_size=format.size)
    for each, rank, curve in zip(one.canaries, ranks, curves, strict=True):
        yield (
            each.repetitions,
            {
                "bits": rank.bits,
                "lower_bits": rank.lower_bits,
                "upper_bits": rank.upper_bits,
                "curve_bits": curve.bits,
                "curve_rejected": bool(fit.rejected),
            },
        )


def study(pairs: Sequence[Pair], plan: Plan, work: Path) -> dict[str, Any]:
    """Train and measure what is not there yet."""
    texts, path = split(pairs, plan), work / "translation.json"
    given = {"settings": asdict(plan)}
    results = json.loads(path.read_text()) if path.exists() else given | {"trainings": {}}
    refuse_other(path, results, given)
    for seed in range(plan.seeds):
        if str(seed) not in results["trainings"]:
            here = work / f"seed-{seed}"
            here.mkdir(parents=True, exist_ok=True)
            model, tokenizer, losses = trained(plan, texts, seed, here)
            rows = list(measured(plan, model, tokenizer, seed, here))
            parameters = sum(p.numel() for p in model.parameters())
            found = {"parameters": parameters, "epochs": losses, "canaries": rows}
            results["trainings"][str(seed)] = found
            written(path, results)
    return results


def table(results: Mapping[str, Any]) -> str:
    """Exposure by copies for both kinds, and the controls; intervals over trainings."""
    every = [
        row | {"seed": seed}
        for seed, one in results["trainings"].items()
        for row in one["canaries"]
    ]

    def over_trainings(rows: Sequence[Mapping[str, Any]], name: str) -> str:
        each = [[row[name] for row in rows if row["seed"] == one] for one in results["trainings"]]
        return interval([float(np.mean(bits)) for bits in each])

    lines = [
        "| copies | number in both sentences: by draws, bits | the paper's curve, bits: mean "
        "| number in the translation alone, bits | mean |",
        "| ---: | --- | --- | --- | --- |",
    ]
    for copies in (0, *COPIES):
        rows = [row for row in every if row["copies"] == copies]
        both = [row for row in rows if row["kind"] == "both"]
        alone = [row for row in rows if row["kind"] != "both"]
        drawn = ", ".join(
            f"≥ {row['lower_bits']:.1f}" if row["bits"] is None else f"{row['bits']:.1f}"
            for row in both
        )
        curve = over_trainings(both, "curve_bits")
        ranks = ", ".join(f"{row['bits']:.1f}" for row in alone)
        mean = over_trainings(alone, "bits")
        lines.append(f"| {copies or 'control'} | {drawn} | {curve} | {ranks} | {mean} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    args = asked(__doc__, "tatoeba_fra_eng/")
    pairs, plan = (upper_case(), QUICK) if args.quick else (tatoeba(args.data), FULL)
    print(table(study(pairs, plan, args.work)))


if __name__ == "__main__":
    main()
