"""Tables 1 and 2 of "Have you forgotten?", with intervals, and two ways to unlearn.

    python run.py --data DATA --work WORK --out WORK/results.json [--samples 400] [--seeds 5]
                  [--calibration 19] [--svhn train_32x32.mat]
    python run.py --table 2 --data DATA --work WORK2 --out WORK2/sources.json
                  [--query-source A.npz --calibration-source B.npz]

README.md says where the data come from. Each model's answers are files in WORK: a run that
was killed goes on when it is started again, and a changed configuration has a folder of its
own. What is finished is judged, also with --judge alone.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from classifier import (
    ASCENT,
    BATCH,
    RATE,
    TUNED,
    answers,
    ascend,
    deep,
    descend,
    keep,
    mean_loss,
    plain,
    train,
)
from images import Images, another_source, letters, mnist, objects, svhn
from judge import judged, rows

from canary.errors import CanaryError

EPOCHS = 15
FIRST = 2
"""Seeds before the calibration models."""
ORIGINAL = "domain + 100 % query"
"""That is made to unlearn."""

SHARES = {"10": 0.1, "50": 0.5, "100": 1.0}


@dataclass(frozen=True)
class Draws:
    """Disjoint sets: of each seed the query set, unseen and other images of its source, images
    of the domain; and the calibration sets."""

    query: list[Images]
    unseen: Images
    other: list[Images]
    domain: list[Images]
    tested: Images
    calibration: list[Images]
    outside: dict[str, Images]


def first_table(options: argparse.Namespace) -> Draws:
    """Digits; other digits turned, inverted and blurred, or house numbers; objects; letters."""
    clean = mnist(options.data / "mnist", "train")
    rng = np.random.default_rng(0)
    clean = clean[rng.permutation(len(clean))]
    parts = cut(clean, options.samples)
    if options.svhn is None:
        count = options.samples * (options.seeds + options.calibration + 1)
        start = len(clean) - count
        others = cut(another_source(clean[start:], rng), options.samples)
        if options.samples * (2 * options.seeds + 1) > start:
            raise SystemExit("there are not so many digits: fewer --samples, or fewer models")
    else:
        houses = svhn(options.svhn)
        others = cut(houses[rng.permutation(len(houses))], options.samples)
    outside = {
        "CIFAR-10": objects(options.data / "cifar10" / "cifar10_exact_4000.npz"),
        "letters": letters(options.data / "emnist_letters" / "emnist_letters_subset.npz"),
    }
    return dealt(parts, others, outside, options)


def second_table(options: argparse.Namespace) -> Draws:
    """Two sources of one task: files, or the two halves of MNIST's test images.

    The first 5,000 were written by employees of the Census Bureau, the others by high school
    students: these are the query source.
    """
    if options.query_source is None:
        both = mnist(options.data / "mnist", "t10k")
        sources = [both[5000:], both[:5000]]
    else:
        sources = []
        for path in (options.query_source, options.calibration_source):
            with np.load(path) as held:
                sources.append(Images(held["x"][:, None].astype(np.float32) / 255, held["y"]))
    rng = np.random.default_rng(0)
    parts, others = (cut(s[rng.permutation(len(s))], options.samples) for s in sources)
    return dealt(parts, others, {}, options)


def cut(images: Images, size: int) -> Iterator[Images]:
    return (images[at : at + size] for at in range(0, len(images) - size + 1, size))


def dealt(
    parts: Iterator[Images],
    others: Iterator[Images],
    outside: dict[str, Images],
    options: argparse.Namespace,
) -> Draws:
    try:
        query = [next(parts) for _ in range(options.seeds)]
        return Draws(
            query,
            next(parts),
            [next(parts) for _ in range(options.seeds)],
            [next(others) for _ in range(options.seeds)],
            next(others),
            [next(others) for _ in range(options.calibration)],
            outside,
        )
    except StopIteration:
        raise SystemExit("there are not so many images: fewer --samples, or fewer models") from None


def targets(draws: Draws, seed: int) -> dict[str, Images]:
    """What each target of a seed is trained on; `query` is the query model."""
    query, domain = draws.query[seed], draws.domain[seed]
    rng = np.random.default_rng([seed, 1])
    n = len(query)
    found = {"query": query, "query again": query}
    for percent in (50, 75, 100):
        found[f"{percent} % domain"] = domain[: n * percent // 100]
    for percent, share in SHARES.items():
        found[f"domain + {percent} % query"] = domain + query[: round(share * n)]
    found["domain + other digits"] = domain + draws.other[seed]
    found["other digits"] = draws.other[seed]
    for name, images in draws.outside.items():
        found[name] = images[rng.choice(len(images), min(n, len(images)), replace=False)]
    return found


def asked_of(draws: Draws, seed: int) -> dict[str, Images]:
    """The last file says that a model is done."""
    return {f"query-{seed}": draws.query[seed], "unseen": draws.unseen, "tested": draws.tested}


def one_seed(
    draws: Draws,
    seed: int,
    folder: Path,
    options: argparse.Namespace,
    chosen: Callable[[Draws, int], dict[str, Images]] = targets,
) -> None:
    """Train the models of a seed that have no files yet, and make one of them unlearn."""
    design = deep if options.table == 2 else plain
    asked = asked_of(draws, seed)
    for target, images in chosen(draws, seed).items():
        name = f"{seed}.{target}"
        if answers(folder, name, "tested").exists():
            continue
        began = time.process_time()
        model = train(design, images, name=name, epochs=options.epochs)
        if options.table == 1 and target == ORIGINAL:
            unlearned(copy.deepcopy(model), draws, seed, folder, epochs=options.epochs)
        keep(model, asked, folder, name)
        print(f"{name}: {time.process_time() - began:.1f} s", flush=True)


def unlearned(
    model: torch.nn.Module, draws: Draws, seed: int, folder: Path, *, epochs: int
) -> None:
    """Fine-tuning on the rest, and gradient ascent on the query set."""
    asked = asked_of(draws, seed)
    start = copy.deepcopy(model.state_dict())
    until = mean_loss(model, draws.unseen)
    for more, done in ((TUNED, TUNED), (epochs - TUNED, epochs)):
        descend(model, draws.domain[seed], epochs=more)
        keep(model, asked, folder, f"{seed}.fine-tuned {done} epochs")
    model.load_state_dict(start)
    steps = ascend(model, draws.query[seed], until)
    keep(model, asked, folder, f"{seed}.ascent")
    steps += ascend(model, draws.query[seed], ASCENT["beyond"])
    keep(model, asked, folder, f"{seed}.ascent too far")
    print(f"{seed}: unlearned, {steps} steps of ascent", flush=True)


def calibrations(draws: Draws, folder: Path, options: argparse.Namespace) -> None:
    design = deep if options.table == 2 else plain
    asked = {f"query-{seed}": query for seed, query in enumerate(draws.query)}
    for number, images in enumerate(draws.calibration):
        name = f"calibration-{number}"
        if not answers(folder, name, f"query-{len(draws.query) - 1}").exists():
            keep(train(design, images, name=name, epochs=options.epochs), asked, folder, name)
            print(name, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", type=int, choices=(1, 2), default=1)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--calibration", type=int, default=19)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--svhn", type=Path)
    parser.add_argument("--query-source", type=Path)
    parser.add_argument("--calibration-source", type=Path)
    parser.add_argument("--judge", action="store_true", help="train nothing more")
    options = parser.parse_args()
    if options.calibration < 2:
        parser.error("--calibration: two models or more, or there is no p of any difference")
    try:
        run(options)
    except CanaryError as error:
        raise SystemExit(f"run.py: {error}") from None


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    draws = (first_table if options.table == 1 else second_table)(options)
    folder = options.work / configuration(draws, options)
    if not options.judge:
        folder.mkdir(parents=True, exist_ok=True)
        # What is needed most comes first: a run may be stopped at any time.
        first = min(FIRST, options.seeds)
        for seed in range(first):
            one_seed(draws, seed, folder, options)
        calibrations(draws, folder, options)
        for seed in range(first, options.seeds):
            one_seed(draws, seed, folder, options)
    found = {
        "table": options.table,
        "samples": options.samples,
        "epochs": options.epochs,
        **judged(folder, options.table, seeds=options.seeds, calibration=options.calibration),
    }
    print("\n".join(rows(found)))
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def configuration(draws: Draws, options: argparse.Namespace) -> str:
    """A name for the folder: a hash of the images and of all that shapes the models."""
    told = hashlib.sha256(
        repr((options.table, options.epochs, BATCH, RATE, ASCENT, TUNED)).encode()
    )
    groups = (draws.query, draws.other, draws.domain, draws.calibration, [draws.unseen])
    for images in (one for group in groups for one in (*group, *draws.outside.values())):
        told.update(images.x.tobytes())
        told.update(images.y.tobytes())
    return told.hexdigest()[:12]


if __name__ == "__main__":
    main()
