"""Many models trained on many splits of one data set, and what they say of all of it."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError, ModelError
from canary.fleet.splits import Drawn, Split, soft_labelled
from canary.fleet.store import Kept, TrainedOn, checkpoint_path, print_of, refusal
from canary.fleet.training import Training, train_and_measure
from canary.records.progress import Progress, shows_progress, stage
from canary.records.shards import open_run
from canary.records.validation import one_of, versions
from canary.signals.class_signals import Outputs
from canary.signals.definitions import SIGNALS
from canary.signals.output_files import KINDS
from canary.signals.signal_table import SignalTable
from canary.workers.jobs import Lost, Plain, Workers
from canary.workers.local import Here
from canary.workers.naming import check_importable, described, plain

_WHERE = "Fleet"
_SHOWN = 5  # missing models


@dataclass(frozen=True, eq=False)
class Fleet:
    """Many models of one training function, each on its part of the data.

    Parameters
    ----------
    train : callable
        From a `TrainingTask` to a model or its outputs (see `canary.fleet.training`): a
        function at the top of a module, or a frozen dataclass that can be called, such as
        `canary.fleet.torch_training.TorchTraining`.
    data : tuple of (x, y)
        All samples, and their labels from 0. A third entry divides the samples by group.
    split : Split or array_like of bool of shape (models, samples)
        Which model is trained on which samples (see `canary.fleet.splits`).
    n_models, seed : int
        The seed is that of the split and of every training.
    outputs : {"logits", "probs", "losses"}
        What the models give; it is said and not guessed.
    options : mapping
        Plain data that `train` finds as ``task.options``.
    signals : sequence of str
        The signals that the table holds (``["loss"]`` makes it smaller); all without it.
    checkpoints : bool
        Keep the weights of each model as safetensors beside its result.
    keep_outputs : bool
        Keep what each model says of all classes, float32 of models x samples x classes:
        `distilled` and the neural attacks read it.

    Raises
    ------
    InputError
        If something does not fit, `train` cannot be named, or a model's part of the data
        lacks a class.

    Examples
    --------
    >>> import numpy as np
    >>> from canary.fleet.splits import halves
    >>> from canary.fleet.training import TrainingTask
    >>> def nearest_mean(task: TrainingTask):
    ...     means = np.stack([task.x[task.y == label].mean(axis=0) for label in (0, 1)])
    ...     return -((task.samples[:, None, :] - means) ** 2).sum(axis=2)
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> x = rng.normal(size=(40, 3)) + y[:, None]
    >>> fleet = Fleet(nearest_mean, (x, y), halves(), n_models=4, seed=0, outputs="logits")
    >>> table = fleet.run()
    >>> table.models, table.samples, table.member.sum(axis=0).tolist() == [2] * 40
    (4, 40, True)
    """

    train: Training
    data: tuple[ArrayLike, ...]
    split: Split | ArrayLike
    n_models: int
    seed: int
    outputs: Outputs = field(kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    signals: Sequence[str] | None = field(default=None, kw_only=True)
    checkpoints: bool = field(default=False, kw_only=True)
    keep_outputs: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        one_of(self.outputs, "outputs", KINDS, where=_WHERE)
        if self.n_models < 1 or self.seed < 0:
            raise _refused(
                f"n_models={self.n_models}, seed={self.seed}",
                "give at least one model, and a seed of 0 or more",
            )
        if self.keep_outputs and self.outputs == "losses":
            raise _refused(
                "models that give losses say nothing of other classes",
                "let them give logits, or leave keep_outputs out",
            )
        for name in self.signals or ():
            one_of(name, "signal", SIGNALS, where=_WHERE)
        member = self.drawn.member
        for label in np.unique(self._labels):
            lacking = np.flatnonzero(~member[:, self._labels == label].any(axis=1))
            if len(lacking):
                raise _refused(
                    f"model {lacking[0]} would be trained on no sample of class {label} ("
                    f"{len(lacking)} of {len(member)} models lack it)",
                    "give more samples of each class or larger parts, or leave the class out",
                )
        _ = self.configuration  # what is wrong with it shows now

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """What all models have in common when the fleet is made, under names for people.

        The training and its options, a fingerprint of the data, what is kept of each model, and
        the versions of the software.
        """
        return self._configured()

    @cached_property
    def drawn(self) -> Drawn:
        """Which model is trained on which samples."""
        if callable(self.split):
            drawn = self.split(self._labels, self.n_models, self.seed)
            soft = None if drawn.soft is None else np.array(drawn.soft)
            return replace(drawn, member=np.array(drawn.member), soft=soft)
        member = np.array(self.split)  # a copy: what is asked for is what was given
        if member.dtype != np.bool_ or member.shape != (self.n_models, len(self._labels)):
            raise _refused(
                f"a split of {member.dtype} of shape {member.shape}",
                f"give flags of shape ({self.n_models}, {len(self._labels)})",
            )
        return Drawn(member)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Of each model, what its result is kept under: a hash of all that decides on it."""
        soft = self.drawn.soft
        learned = None if soft is None else f"{print_of(soft)} of {self.drawn.target}"
        about = {"configuration": self.configuration, "soft": learned}
        keys = []
        for number, member in enumerate(self.drawn.member):
            rows, seed = print_of(np.flatnonzero(member)), self.model_seed(number)
            text = json.dumps({**about, "rows": rows, "seed": seed}, sort_keys=True)
            keys.append(hashlib.sha256(text.encode()).hexdigest()[:32])
        return tuple(keys)

    def model_seed(self, number: int) -> int:
        """The seed of a model's training, below 2^32."""
        return int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])

    def checkpoint(self, folder: str | os.PathLike[str], number: int) -> Path:
        """Where a run in `folder` keeps the weights of a model."""
        return checkpoint_path(Path(folder), self.keys[number])

    def distilled(
        self, table: SignalTable, target: int, split: Split, *, n_models: int, seed: int
    ) -> Fleet:
        """A fleet of models that are distilled from one of this fleet's (attack D).

        They are trained as this fleet is, on what the target says of the samples in place of
        the true labels. The table that they give is the ``shadow`` of attack D on the target,
        which refuses that of another target. They may be kept in the folder of this fleet.

        Parameters
        ----------
        table : SignalTable
            What `run` gave, with ``keep_outputs=True``; refused if it is another fleet's.
        target : int
            The target's row in it.
        split : Split
            Which samples each model is trained on. For attack D, use subsets of a population
            without the attacked samples.
        n_models, seed : int
            As those of a fleet.
        """
        self._check_unchanged()
        origin = table.origin
        if not 0 <= target < table.models:
            raise _refused(
                f"row {target} of a table of {table.models} models",
                f"give a row from 0 to {table.models - 1}",
            )
        if origin is None or origin.data != self._data or origin.models[target] not in self.keys:
            raise _refused(
                f"model {target} of the table is not of this fleet, or has other samples",
                "give the table of this fleet's run(), with all samples",
            )
        if table.outputs is None:
            raise _refused(
                "the table holds no outputs to learn from",
                "make the fleet with keep_outputs=True, and run it again",
            )
        learned = soft_labelled(split, np.exp(table.outputs[target]), target=origin.models[target])
        return replace(
            self, split=learned, n_models=n_models, seed=seed, checkpoints=False, keep_outputs=False
        )

    @shows_progress
    def run(
        self,
        *,
        folder: str | os.PathLike[str] | None = None,
        workers: Workers | None = None,
        progress: Progress = None,
    ) -> SignalTable:
        """Train the models that are not finished, and gather what all say of all samples.

        The table has a row for each model that is not missing, in order. A model is missing if
        its training raises an error, returns nothing or gives no numbers. The others go on, and
        a warning and the table say which is missing and why. The next run tries it again.

        Parameters
        ----------
        folder : path-like, optional
            Where each finished model is kept, readable by its owner only. A fleet that was
            killed resumes there. One with more models or another split of the same data and
            configuration shares the folder. Without a folder nothing is kept.
        workers : Workers, optional
            `canary.workers.local.Here` (this process, the default) or
            `canary.workers.cluster.RayWorkers`.
        progress : callable or bool, optional
            Called with the number of models; see `canary.records.progress.Progress`.

        Raises
        ------
        InputError
            If the workers do not fit the training, or the data, the options or the training
            were changed after the fleet was made.
        RecordError
            If the folder is of another configuration (what differs is named), or a file is
            damaged.
        ModelError
            If every model is missing.
        OutputError
            If the folder cannot be written to, or another process is at work in it.
        """
        workers = workers or Here()
        self._check_unchanged()
        if workers.elsewhere:
            check_importable(self.configuration["training"], "train")
        if workers.at_once > 1 and not hasattr(self.train, "together"):
            raise _refused(
                f"{workers.at_once} models at once, and the training takes one",
                "leave at_once out, or use a training that has the method `together`, such as "
                "canary.fleet.torch_training.TorchTraining",
            )
        if self.checkpoints and folder is None:
            raise _refused("checkpoints are to be kept nowhere", "give a folder")
        results: dict[int, Plain] = {}
        missing: dict[int, str] = {}
        advance = stage(progress, "models", self.n_models, "models")
        with ExitStack() as stack:
            kept = None
            if folder is not None:
                run = stack.enter_context(open_run(folder, self.configuration, refusal=refusal))
                kept = Kept(run, weights=self.checkpoints, outputs=self.keep_outputs)
                before = {number: kept.get(key) for number, key in enumerate(self.keys)}
                results = {number: known for number, known in before.items() if known is not None}
            advance(len(results))
            for number, result in self._train(workers, skip=frozenset(results)):
                if isinstance(result, Lost):
                    missing[number] = result.reason
                elif "reason" in result:
                    missing[number] = str(result["reason"])
                else:
                    if kept:
                        kept.put(self.keys[number], result)
                    results[number] = result
                advance(1)
            missing = dict(sorted(missing.items()))
            fleet = TrainedOn(self.keys, self.drawn.member, self._labels, self._data, missing)
            if kept and results and self.drawn.target is None:
                kept.put_fleet(fleet)
        if not results:
            number, reason = next(iter(missing.items()))
            problem = f"none of {self.n_models} models gave numbers; model {number}: {reason}"
            cure = "mend the training function, and try it on one model first"
            raise ModelError(problem, cure=cure, where=_WHERE)
        group = self.data[2] if len(self.data) > 2 else None
        table = fleet.table(results, source=_WHERE, group=group, target=self.drawn.target)
        if missing:
            told = "; ".join(f"{number}: {why}" for number, why in list(missing.items())[:_SHOWN])
            more = f"; and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            count = f"{len(missing)} of {self.n_models} models are missing"
            warnings.warn(f"{count}: {told}{more}", stacklevel=2)
        return table

    def _train(
        self, workers: Workers, *, skip: Collection[int]
    ) -> Iterator[tuple[int, Plain | Lost]]:
        """The number and result of each model but those to skip, as they are finished."""
        jobs: list[dict[str, Any]] = [
            {"number": number, "seed": self.model_seed(number), "rows": np.flatnonzero(member)}
            for number, member in enumerate(self.drawn.member)
            if number not in skip
        ]
        if not jobs:
            return
        soft = self.drawn.soft
        shared = {
            "train": self.configuration["training"] if workers.elsewhere else self.train,
            "samples": np.asarray(self.data[0]),
            "labels": self._labels,
            "learned": self._labels if soft is None else soft,
            "classes": int(self._labels.max()) + 1 if soft is None else soft.shape[1],
            "outputs": self.outputs,
            "signals": self.configuration["signals"],
            "options": self.configuration["options"],
            "weights": self.checkpoints,
            "kept": self.keep_outputs,
        }
        for place, result in workers.run(train_and_measure, shared, jobs):
            yield jobs[place]["number"], result

    @cached_property
    def _labels(self) -> NDArray[np.int64]:
        if len(self.data) not in {2, 3}:
            raise _refused(f"data of {len(self.data)} arrays", "give (x, y) or (x, y, group)")
        sizes = [len(np.asarray(part)) for part in self.data]
        labels = np.asarray(self.data[1])
        whole = labels.ndim == 1 and labels.dtype.kind in "iu" and labels.size > 0
        if len(set(sizes)) > 1 or not whole or labels.min() < 0:
            raise _refused(
                f"data of {', '.join(map(str, sizes))} entries, labels of {labels.dtype}",
                "give x and y of one length, y of whole numbers from 0",
            )
        return labels.astype(np.int64)

    @property
    def _data(self) -> str:
        return str(self.configuration["data"])

    def _configured(self) -> dict[str, Any]:
        return {
            "training": described(self.train, "train"),
            "options": plain(dict(self.options), "options"),
            "data": print_of(np.asarray(self.data[0]), np.asarray(self.data[1], np.int64)),
            "outputs": self.outputs,
            "signals": None if self.signals is None else list(self.signals),
            **{f"version of {name}": number for name, number in versions().items()},
        }

    def _check_unchanged(self) -> None:
        """Refuse what was changed in place: results would be kept under what it was before."""
        now = self._configured()
        changed = [name for name, before in self.configuration.items() if now[name] != before]
        if changed:
            raise _refused(
                f"{' and '.join(changed)} changed after the fleet was made",
                "make the Fleet after all changes, and a new one after each; global variables "
                "that training itself changes belong inside of its function",
            )


def _refused(problem: str, cure: str) -> InputError:
    return InputError(problem, cure=cure, where=_WHERE)
