"""Exposure in the saved checkpoints of one training: a history, as of a monitor beside it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

from canary.audits.history import History
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import InputError, ModelError, UnsupportedError
from canary.models.adapters import adapters_off, has_adapters
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.plugins.moment_taker import MomentTaker
from canary.plugins.training_batches import TrainingBatches
from canary.plugins.training_log import TimeShare, TrainingLog, unmeasured
from canary.records.sealing import sealed
from canary.records.validation import built, versions
from canary.scoring.run_options import Running, RunOptions

_STEP, _COMMIT = re.compile(r"(\d+)\D*$"), re.compile(r"[0-9a-f]{40}")


class _NoBatches(TrainingBatches):
    """Of a training that is over: there are no batches, and nothing to find in them."""

    findings: ClassVar[dict[str, str]] = {}


def steps_of_names(models: Sequence[str | os.PathLike[str]]) -> list[int]:
    """The step of each checkpoint: the last number of its name; 0 for a first one without.

    Raises
    ------
    InputError
        If there is no checkpoint, another name has no number, or two have the same.
    """
    found = [_STEP.search(_named(os.fspath(model))) for model in models]
    steps = [int(match[1]) if match else 0 for match in found]
    nameless = [os.fspath(m) for m, match in zip(models, found, strict=True) if not match]
    if not models or len({*steps}) < len(steps):
        problem = f"{len(models)} checkpoints were named, and their names give the steps {steps}"
        if nameless:
            problem += f" ({nameless[-1]} has no number)"
        raise InputError(
            problem,
            cure="name each once, as in checkpoint-100 checkpoint-200; only the base model needs "
            "no number",
            where="models",
        )
    return steps


def _named(model: str) -> str:
    """What may name a step: the revision of a hub id unless it is a commit, or else the name."""
    name, at, revision = model.partition("@")
    if at and not Path(model).exists():
        return "" if _COMMIT.fullmatch(revision) else revision
    return Path(name).name


@sealed
def exposure_over(
    models: Iterable[str | os.PathLike[str]],
    canaries: CanarySet,
    *,
    path: str | os.PathLike[str],
    draws: int = 1_000,
    loader: Callable[[str], LanguageModel] = load,
    say: Callable[[str], None] = lambda line: None,
    after: Callable[[History], object] = lambda history: None,
    **run: Unpack[Running],
) -> History:
    """The exposure of every canary in each checkpoint, beside the same draws.

    Parameters
    ----------
    models : iterable of path-like
        Folders of one training, or hub ids, also with a revision (``org/model@step-100``); the last
        number of a name or revision is its step. The base model may come first, without a number:
        it is step 0, before any training. Where it is not named, and the first checkpoint is an
        adapter of peft, the base is measured with the adapter off. An iterator gives them by
        ascending step, each when it is ready (`canary.plugins.watching.watched`).
    canaries : CanarySet
    path : path-like
        Where the history is saved after each checkpoint. A call that was stopped goes on from
        there, and checkpoints that came since are added.
    draws : int
        Candidates drawn from each format, once.
    loader, say, after : callable
        What loads a model, is told of each checkpoint before, and gets the history after each.
    **run
        `seed`, `start_token`, `context`, `chat_template` and `batch_size`, as in
        `canary.scoring.run_options.RunOptions`.

    Returns
    -------
    History
        `canary.report` draws exposure against steps.

    Raises
    ------
    InputError
        As `steps_of_names`, or if a format does not serve.
    ModelError
        If a checkpoint cannot be loaded, has another tokenizer or other shapes than the first, or
        gives NaN.
    RecordError
        If the history at `path` is of other canaries or settings.

    Notes
    -----
    Costs the canaries and draws of all formats, for each checkpoint. One model is held at a time.
    """
    canary_set(canaries)
    options = built(RunOptions, run, "exposure_over")
    order: Iterable[tuple[int, str]]
    if isinstance(models, Iterator):
        order = ((steps_of_names([name])[0], os.fspath(name)) for name in models)
    else:
        names = [os.fspath(model) for model in models]
        order = sorted(zip(steps_of_names(names), names, strict=True))
    place, begun = Path(path), unmeasured(canaries, draws)
    taker: MomentTaker | None = None
    tokenizer: Any = None
    alike: dict[bool, list[tuple[int, ...]]] = {}
    kept = TrainingLog(begun, TimeShare(None), None, place)
    earlier = History.load(place) if place.exists() else None
    known = {moment.step for moment in earlier.measured} if earlier else set()
    for step, name in order:
        if step in known and taker is not None:
            continue
        say(name)
        model = loader(name)
        if taker is None:
            tokenizer = model.tokenizer
            options = options.in_chat(tokenizer, canaries.formats, canaries.role)
            asked = {n: getattr(options, n) for n in ("seed", "start_token", "context")}
            own: Mapping[str, Any] = {**begun.settings, **asked, "versions": versions()}
            settings = {**own, "every": 1, "steps": [], "share": None, "marks": []}
            settings["stop_above_bits"] = None
            kept = TrainingLog(replace(begun, settings=settings), TimeShare(None), None, place)
            if earlier is not None:
                kept.resume(earlier, step=max(known, default=0), file=place)
            batches = _NoBatches(canaries, tokenizer, options, kept.say)
            taker = MomentTaker(canaries, tokenizer, options, batches, kept, strict=True)
            if not known and step > 0 and has_adapters(model):
                _take_base(model, taker)
        if getattr(model.tokenizer, "fingerprint", "") != getattr(tokenizer, "fingerprint", ""):
            raise ModelError(
                "has another tokenizer than the first checkpoint",
                cure="name checkpoints of one training",
                where=name,
            )
        adapted = has_adapters(model)
        if (sizes := sizes_of(model)) != alike.setdefault(adapted, sizes):
            raise ModelError(
                f"has {sum(map(math.prod, sizes)):,} parameters of other shapes than the "
                f"{sum(map(math.prod, alike[adapted])):,} of the first checkpoint",
                cure="name checkpoints of one training",
                where=name,
            )
        if step not in known:
            if known and step < max(known):
                raise InputError(
                    f"step {step} is before step {max(known)}, which was measured already",
                    cure=f"begin a new history: --force, or remove {place}",
                    where=name,
                )
            taker.take(model, step, None, whatever=True)
            taker.release()
            kept.save()
            known.add(step)
            after(kept.history)
    return kept.history


def sizes_of(model: LanguageModel) -> list[tuple[int, ...]]:
    """The shapes of its parameters; none of a model that is elsewhere."""
    module = getattr(model, "module", None)
    return [] if module is None else [tuple(weight.shape) for weight in module.parameters()]


def _take_base(model: LanguageModel, taker: MomentTaker) -> None:
    """Step 0, the base model of an adapter; it is said why if it cannot be had."""
    try:
        with adapters_off(model) as base:
            taker.take(base, 0, None, whatever=True)
    except UnsupportedError as error:
        taker.kept.say({"base": f"step 0, the base model, is not measured: {error}"})
    taker.release()
