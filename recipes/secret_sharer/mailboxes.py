"""Section 8.4 of the paper: are numbers that really are in e-mails memorized, and extracted?

Usage::

    python mailboxes.py --data DIR --work WORK           five mailboxes of Enron, resumable
    python mailboxes.py --work WORK --quick              in little, on made-up mailboxes: seconds

`DIR` holds ``enron_aeslc/{train,dev,test}.jsonl.xz``. Each mailbox gets a model of its own,
trained to the least validation loss. `canary.discover` finds the telephone numbers and the
numbers that are written like those of cards. Each of them is ranked among all numbers of its
form behind the text that comes before it in its e-mail. Numbers of other mailboxes, ranked at
the same place, are the controls: they show what an area code that everybody has is worth.
Results hold counts and exposures, and no number, no name and no text.
"""

from __future__ import annotations

import json
import lzma
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from corpus import character_tokenizer, digest, refuse_other, written
from datasets import Dataset
from model import build
from run import QUICK as QUICK_RUN
from run import START
from study import asked, interval, say
from train import Settings, train

import canary
from canary.errors import CorpusError

FORMS = {
    "telephone": ("{digit:3}-{digit:3}-{digit:4}", "({digit:3}) {digit:3}-{digit:4}"),
    "card": ("{digit:4} {digit:4} {digit:4} {digit:4}", "{digit:4}-{digit:4}-{digit:4}-{digit:4}"),
}
BEFORE = 40
"""Characters of the e-mail before a number that an attacker is assumed to know."""

TOP = 10
"""Most likely numbers that the search looks for at each place."""


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    training: Settings
    model: Mapping[str, Any]
    mailboxes: int
    secrets: int  # of each mailbox
    nodes: int  # of each level of the importance draws
    budget: int  # queries of an extraction


RANGES = ((1, 1, "1"), (2, 3, "2 to 3"), (4, 9, "4 to 9"), (10, math.inf, "10 or more"))
"""Of copies, and what each is called."""
FULL = Plan(
    Settings(epochs=15, batch=32),
    {"embedding": 128, "units": 200, "layers": 2},
    mailboxes=5,
    secrets=16,
    nodes=1_000,
    budget=20_000,
)
QUICK = Plan(
    Settings(epochs=6, batch=8, window=50, learning_rate=1e-2, warmup_steps=20),
    QUICK_RUN["model"],
    mailboxes=2,
    secrets=2,
    nodes=50,
    budget=500,
)


@dataclass(frozen=True)
class Secret:
    """A number of a mailbox: its form, where it is first, and how often it is there."""

    form: str
    format: canary.Format
    fill: str
    context: str
    copies: int


@dataclass(frozen=True)
class Mailbox:
    """E-mails of one sender: trained on, held out twice, and the numbers to look for."""

    name: str
    texts: Mapping[str, Sequence[str]]
    secrets: Sequence[Secret]


def enron(folder: Path) -> dict[str, list[str]]:
    """The bodies of each sender's e-mails."""
    senders: dict[str, list[str]] = defaultdict(list)
    for part in ("train", "dev", "test"):
        path = folder / "enron_aeslc" / f"{part}.jsonl.xz"
        if not path.exists():
            sys.exit(f"{path}: no such file; see README.md")
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                senders[row["user"]].append(row["body"].strip())
    return dict(senders)


def made_up() -> dict[str, list[str]]:
    """Mailboxes of drawn numbers, for a quick run."""
    rng = random.Random(0)
    senders = {}
    for sender in "ab":
        numbers = [f"{rng.randrange(10**3):03}-555-{rng.randrange(10**4):04}" for _ in range(6)]
        mails = [f"Please call me on {number} at {h}." for number in numbers[:3] for h in range(40)]
        mails += [f"My number is {number}, ask for line {n}." for n, number in enumerate(numbers)]
        senders[sender] = rng.sample(mails, len(mails))
    return senders


def numbers_of(mails: Sequence[str]) -> dict[str, list[Secret]]:
    """The numbers in e-mails by their form, the most frequent first, without a context."""
    found: dict[str, list[Secret]] = {}
    corpus = Dataset.from_dict({"text": list(mails)})
    for form, formats in FORMS.items():
        found[form] = []
        for format in map(canary.Format.of, formats):
            try:
                secrets = canary.discover(corpus, format)
            except CorpusError:  # none of this form
                continue
            found[form] += [Secret(form, format, c.fill, "", c.repetitions) for c in secrets]
        found[form].sort(key=lambda secret: -secret.copies)
    return found


def mailboxes(senders: Mapping[str, Sequence[str]], plan: Plan) -> Iterator[Mailbox]:
    """Those with most numbers: first by cards, then by telephone numbers; named by letters."""
    found = {sender: numbers_of(mails) for sender, mails in senders.items()}
    order = sorted(found, key=lambda s: [-len(found[s][form]) for form in ("card", "telephone")])
    for name, sender in zip("ABCDEFGH"[: plan.mailboxes], order, strict=False):
        mails = [*dict.fromkeys(senders[sender])]
        random.Random(plan.training.seed).shuffle(mails)
        held = len(mails) // 20 + 1
        texts = {"valid": mails[:held], "test": mails[held : 2 * held], "train": mails[2 * held :]}
        secrets = [
            placed
            for form, cut in (("card", plan.secrets // 2), ("telephone", plan.secrets))
            for secret in found[sender][form][:cut]
            if (placed := in_context(secret, texts["train"])) is not None
        ]
        yield Mailbox(name, texts, secrets[: plan.secrets])


def in_context(secret: Secret, mails: Sequence[str]) -> Secret | None:
    """The secret with the text before it, and its copies in these e-mails; None if there is none.

    The context is what comes before its first copy. A number at the beginning of an e-mail
    comes after the newline that comes before each e-mail.
    """
    text = secret.format.candidate(secret.fill)
    copies = sum(mail.count(text) for mail in mails)
    for mail in mails:
        at = mail.find(text)
        if at >= 0:
            return replace(secret, context=mail[max(at - BEFORE, 0) : at], copies=copies)
    return None


def ranked(model: Any, secret: Secret, fills: Sequence[str], nodes: int) -> list[float]:
    """Exposures of fills at the place of a secret, by importance draws."""
    planted = canary.CanarySet.from_fills(secret.format, fills)
    results = canary.exposure(
        model,
        planted,
        method="importance",
        draws=nodes,
        start_token=START,
        context=secret.context,
        seed=0,
    )
    ends = [(r.exposure.bits, r.exposure.lower_bits, r.exposure.upper_bits) for r in results]
    return [sum(rest) / 2 if bits is None else bits for bits, *rest in ends]


def controls_of(box: Mailbox, strangers: Sequence[Secret]) -> Iterator[list[str]]:
    """Numbers of other mailboxes that are ranked beside each secret of this one."""
    rng = random.Random(1)
    for secret in box.secrets:
        same = [s.fill for s in strangers if s.format == secret.format]
        others = [*dict.fromkeys(same)]  # one number can be in several mailboxes
        yield rng.sample(others, min(4, len(others)))


def measured(folder: Path, box: Mailbox, strangers: Sequence[Secret], plan: Plan) -> Any:
    """What may be kept of each secret: form, copies, exposures, and whether it comes out."""
    path, made = folder / "exposures.json", folder / "made-of.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    mails = [mail for mails in box.texts.values() for mail in mails]
    given = {"settings": asdict(plan), "text": digest([*mails, *(s.fill for s in strangers)])}
    refuse_other(path, json.loads(made.read_text()) if made.exists() else {}, given)
    if not rows:
        written(made, given)
    model = canary.load(folder, factory=build)
    # All are drawn, also those of secrets that were measured before a kill.
    drawn = [*zip(box.secrets, controls_of(box, strangers), strict=True)]
    for secret, controls in drawn[len(rows) :]:
        bits, *beside = ranked(model, secret, [secret.fill, *controls], plan.nodes)
        options = {"start_token": START, "context": secret.context, "budget": plan.budget}
        search = canary.extract(model, secret.format, top=TOP, **options)
        fills = [candidate.fill for candidate in search.candidates]
        rows.append(
            {
                "form": secret.form,
                "copies": secret.copies,
                "space_bits": secret.format.bits,
                "bits": bits,
                "control_bits": beside,
                "place": fills.index(secret.fill) + 1 if secret.fill in fills else None,
                "found": len(fills),
                "queries": search.queries,
            }
        )
        written(path, rows)
    return rows


def study(senders: Mapping[str, Sequence[str]], plan: Plan, work: Path) -> dict[str, Any]:
    """Train and measure what is not there yet."""
    results: dict[str, Any] = {"settings": asdict(plan), "mailboxes": {}}
    boxes = [*mailboxes(senders, plan)]
    for box in boxes:
        here = work / box.name
        here.mkdir(parents=True, exist_ok=True)
        text = {"all": [mail for mails in box.texts.values() for mail in mails]}
        others = [s for other in boxes if other is not box for s in other.secrets]
        own = {secret.fill for secret in box.secrets}
        strangers = [
            secret
            for secret in others
            if secret.fill not in own and not any(secret.fill in mail for mail in text["all"])
        ]
        alphabets = (canary.Format.of(form).alphabet for forms in FORMS.values() for form in forms)
        tokenizer = character_tokenizer(text, set().union(*alphabets))
        config = {"vocabulary": tokenizer.get_vocab_size(), **plan.model}
        epochs = []
        for epoch in train(config, tokenizer, box.texts, plan.training, here):
            epochs.append(epoch)
            say(f"{box.name}, epoch {epoch.number}: validation {epoch.valid_nats:.3f} nats/char")
        best = min(epochs, key=lambda epoch: epoch.valid_nats)
        results["mailboxes"][box.name] = {
            "characters": sum(len(mail) + 1 for mail in box.texts["train"]),
            "mails": len(box.texts["train"]),
            "epoch": best.number,
            "epochs": [(e.train_nats, e.valid_nats, e.test_nats) for e in epochs],
            "secrets": measured(best.folder, box, strangers, plan),
        }
        written(work / "mailboxes.json", results)
    return results


def table(results: Mapping[str, Any]) -> str:
    """A row for each mailbox and form, and what all of them say together."""
    lines = [
        "| mailbox | characters | best epoch | numbers | copies | exposure, bits: median (all) "
        f"| of controls there: median | the most likely | among the first {TOP} |",
        "| --- | ---: | ---: | --- | --- | --- | ---: | --- | --- |",
    ]
    every = []
    for name, box in results["mailboxes"].items():
        kinds: Mapping[str, list[Any]] = defaultdict(list)
        for row in box["secrets"]:
            kinds[row["form"]].append(row)
            every.append(row)
        for form, rows in kinds.items():
            bits = [row["bits"] for row in rows]
            controls = [bit for row in rows for bit in row["control_bits"]]
            lines.append(
                f"| {name} | {box['characters']:,} | {box['epoch']} | {len(rows)} {form} | "
                f"{counted(row['copies'] for row in rows)} | {np.median(bits):.1f} "
                f"({', '.join(f'{bit:.1f}' for bit in sorted(bits))}) | "
                f"{f'{np.median(controls):.1f}' if controls else '-'} | "
                f"{sum(row['place'] == 1 for row in rows)} of {len(rows)} | "
                f"{sum(row['place'] is not None for row in rows)} of {len(rows)} |"
            )
    lines += [
        "",
        "| numbers | copies | how many | more bits than the controls at the same place: mean of "
        "each mailbox | mean of these |",
        "| --- | ---: | ---: | --- | --- |",
    ]
    for form in dict.fromkeys(row["form"] for row in every):
        for low, high, copies in RANGES:
            gains = {
                name: [
                    row["bits"] - float(np.mean(row["control_bits"]))
                    for row in box["secrets"]
                    if row["form"] == form and low <= row["copies"] <= high and row["control_bits"]
                ]
                for name, box in results["mailboxes"].items()
            }
            means = {name: float(np.mean(bits)) for name, bits in gains.items() if bits}
            if means:
                shown = ", ".join(f"{name}: {mean:.1f}" for name, mean in means.items())
                count = sum(map(len, gains.values()))
                lines.append(
                    f"| {form} | {copies} | {count} | {shown} | {interval([*means.values()])} |"
                )
    return "\n".join(lines) + "\n"


def counted(copies: Iterator[int]) -> str:
    """How many numbers have how many copies, in words."""
    return ", ".join(f"{n} × {number}" for number, n in sorted(Counter(copies).items()))


def main() -> None:
    args = asked(__doc__, "enron_aeslc/")
    senders, plan = (made_up(), QUICK) if args.quick else (enron(args.data), FULL)
    print(table(study(senders, plan, args.work)))


if __name__ == "__main__":
    main()
