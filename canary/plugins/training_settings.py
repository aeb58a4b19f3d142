"""Does a training train at all? Checks of its parameters, length and learning rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from canary.models.experiments import Finding, fine, noted, refused, unchecked
from canary.plugins.epoch_reading import EpochReading
from canary.statistics.numbers import count, plural

_ENOUGH = 10  # copies, and batches, whose places say something
_CLUSTERED = 1e-6  # a p-value of places in a shuffled epoch, below which they are noted
_LEAST_SHARE = 0.1  # of the learning rate that was set, reached before the training ends
_NO_WARMUP = ("constant", "reduce_lr_on_plateau")


def trains(reading: EpochReading, model: Any) -> Finding:
    """Whether parameters are trained, those of added tokens among them."""
    if not hasattr(model, "parameters"):
        return unchecked("no model was given")
    trained = sum(part.numel() for part in model.parameters() if part.requires_grad)
    if not trained:
        return refused("no parameter is trained", "unfreeze the model, or add an adapter")
    tokenizer: Any = reading.tokenizer
    added = {token["id"] for token in getattr(tokenizer, "spec", {}).get("added_tokens") or ()}
    texts = [reading.canaries.text(canary) for canary in reading.canaries]
    used = {
        token
        for encoding in tokenizer.encode(texts)
        for token, (begin, end) in zip(encoding.ids, encoding.spans or (), strict=False)
        if begin < end
    }
    embedding = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    frozen = embedding is not None and not any(p.requires_grad for p in embedding.parameters())
    if added & used and frozen:
        return refused(
            f"{plural(len(added & used), 'token')} of the canaries were added to the tokenizer, "
            "and the embedding is frozen",
            "train it (modules_to_save or trainable_token_indices of peft), or use canaries "
            "of ordinary tokens",
        )
    return fine(plural(trained, "parameter"))


def _batches(args: Any, length: int | None) -> int | None:
    """Batches that a Trainer trains on; None if that is unknown."""
    if args.max_steps > 0:
        return int(args.max_steps) * int(args.gradient_accumulation_steps)
    return None if length is None else math.ceil(float(args.num_train_epochs) * length)


def long_enough(args: Any, length: int | None) -> Finding | None:
    """Whether a Trainer with these arguments reads a whole epoch; None if that is unknown."""
    batches = _batches(args, length)
    if batches is None or not length:
        return None
    if batches >= length:
        return fine(f"{count(batches)} of {plural(length, 'batch', 'batches')} in an epoch")
    setting = "num_train_epochs to 1"
    if args.max_steps > 0:
        setting = f"max_steps to {math.ceil(length / int(args.gradient_accumulation_steps))}"
    return refused(
        f"it ends after {count(batches)} of the {plural(length, 'batch', 'batches')} of an epoch",
        f"set {setting} or more, so that every planted copy is read",
    )


def learning_rate(trainer: Any, length: int | None) -> Finding | None:
    """Whether a Trainer's learning rate is above 0, and its warmup ends before the training.

    Only `args` and `optimizer` of the Trainer are read.
    A learning rate of 0 leaves the model as it was, and its audit finds no memorization.
    """
    args, optimizer = trainer.args, trainer.optimizer
    groups = getattr(optimizer, "param_groups", None) or []
    rates = [float(group.get("initial_lr", group["lr"])) for group in groups]
    rate = max(rates, default=float(args.learning_rate))
    if not rate > 0.0:
        return refused(f"it is {rate:g}, so nothing is learned", "set learning_rate above 0")
    batches = _batches(args, length)
    if batches is None:
        return fine(f"{rate:g}")
    steps = max(math.ceil(batches / int(args.gradient_accumulation_steps)), 1)
    warmup = int(args.get_warmup_steps(steps))
    kind = str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type))
    if kind in _NO_WARMUP or warmup < steps:
        return fine(f"{rate:g}")
    figure = (
        f"the warmup of {plural(warmup, 'step')} is not over when the training ends, after "
        f"{count(steps)}: at most {rate * steps / warmup:.2g} of {rate:g} is reached"
    )
    cure = "lower warmup_steps to a tenth of the steps, or train longer"
    return (refused if steps < _LEAST_SHARE * warmup else noted)(figure, cure)


def spread(reading: EpochReading) -> Finding:
    """Whether the copies are all over the epoch, and not in a part of it."""
    from scipy.stats import kstest

    batches, copies = reading.seen.batches, len(reading.places)
    if not reading.complete or min(batches, copies) < _ENOUGH:
        return unchecked(f"needs an epoch of {_ENOUGH} batches and copies")
    at = (np.array(reading.places) + 0.5) / batches
    if kstest(at, "uniform").pvalue >= _CLUSTERED:
        return fine(plural(copies, "copy", "copies"))
    first, last = np.quantile(at, [0.05, 0.95])
    figure = f"9 of 10 copies are between {first:.0%} and {last:.0%} of the epoch"
    return noted(figure, "shuffle the training data")
