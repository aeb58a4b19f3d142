"""What a training function of a fleet is given and may give back, and what is kept of it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import CanaryError, InputError, ModelError, OutOfMemory, UnsupportedError
from canary.signals.measuring import measure
from canary.workers.jobs import Plain
from canary.workers.naming import imported

_RETURN = (
    "let it return outputs, a torch module, or a function that gives outputs (of an estimator, its "
    "predict_proba)"
)
_COPY = (
    "; task.samples and task.labels are those of all models: change a copy, as task.x, task.y and "
    "task.samples.copy() are"
)
_LONGEST = 300  # characters of a reason


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """One model that shall be trained.

    Parameters
    ----------
    samples : ndarray of shape (samples, ...)
        All samples, those that this model shall not see included: it will be asked about
        all of them. They belong to all models and cannot be written to; `x` can.
    labels : ndarray of int64 of shape (samples,), or of float of shape (samples, classes)
        Their classes; or what a target said of them (soft labels). Not to be written to.
    rows : ndarray of int64
        The samples that this model shall be trained on, ascending.
    seed, number, classes : int
        For whatever is random in training, another one for each model; which model of its fleet
        it is, from 0; and how many classes there are.
    options : mapping
        What the fleet was given as options: plain data, a copy for each model.
    """

    samples: NDArray[Any]
    labels: NDArray[Any]
    rows: NDArray[np.int64]
    seed: int
    number: int
    classes: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def x(self) -> NDArray[Any]:
        """The samples to train on (a copy)."""
        return self.samples[self.rows]

    @property
    def y(self) -> NDArray[Any]:
        """Their labels (a copy)."""
        return self.labels[self.rows]


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, as a training function may return it.

    `predict` maps samples to outputs of the kind that the fleet names; a checkpoint keeps
    `weights`.
    """

    predict: Callable[[NDArray[Any]], ArrayLike]
    weights: Mapping[str, NDArray[Any]] | None = None


Training = Callable[[TrainingTask], Any]
"""A training function. It returns one of

- a `Trained`;
- a function from samples to outputs;
- a `torch.nn.Module`, which is called on tensors of samples, in evaluation mode;
- an array of outputs, one row for each of ``task.samples``.

It may have a method ``together``, from a list of tasks that share their samples to a list of
such results: models that are trained at once.
"""


def train_and_measure(shared: Plain, jobs: Sequence[Plain]) -> list[Plain]:
    """Train a model for each job, and take its signals of all samples.

    What is shared is as `canary.Fleet` gives it; a job is the ``number``, ``seed`` and ``rows`` of
    a model. Of each it gives ``values`` (signals by name), ``outputs`` (log-probabilities of all
    classes, or None), ``classes``, ``weights`` and ``seconds``; or, of a model that is missing,
    ``reason``.
    """
    train = shared["train"]
    if isinstance(train, Mapping):
        train = imported(train)
    # One for all models, here as on a cluster; what is small each model has for itself.
    samples, learned = shared["samples"].view(), shared["learned"].view()
    samples.flags.writeable = learned.flags.writeable = False
    tasks = [
        TrainingTask(
            samples=samples,
            labels=learned,
            rows=np.array(job["rows"]),
            seed=job["seed"],
            number=job["number"],
            classes=shared["classes"],
            options=copy.deepcopy(shared["options"]),
        )
        for job in jobs
    ]
    began = time.perf_counter()
    outcomes = _trained(train, tasks)
    seconds = (time.perf_counter() - began) / len(tasks)
    results: list[Plain] = []
    for outcome, task in zip(outcomes, tasks, strict=True):
        try:
            if isinstance(outcome, Exception | SystemExit):
                raise outcome
            results.append({**_measured(outcome, task, shared), "seconds": seconds})
        except (Exception, SystemExit) as error:
            results.append({"reason": _reason(error)})
    return results


def _trained(train: Training, tasks: list[TrainingTask]) -> list[Any]:
    """What training gave for each task, or the exception that it raised."""
    together: Callable[[list[TrainingTask]], Sequence[Any]] | None
    together = getattr(train, "together", None)
    if len(tasks) == 1 or together is None:
        return [_attempt(train, task) for task in tasks]
    try:
        outcomes = list(together(tasks))
    except OutOfMemory:
        outcomes = []  # halved below, where the error and what did not fit are gone
    except UnsupportedError:
        raise
    except Exception:
        # One of them spoils it for all: one by one it shows which.
        return [_attempt(train, task) for task in tasks]
    else:
        if len(outcomes) != len(tasks):
            problem = f"{len(outcomes)} models of {len(tasks)} tasks"
            cure = "let `together` give a result for each task, in order"
            raise InputError(problem, cure=cure, where="train.together")
    half = len(tasks) // 2
    return outcomes or _trained(train, tasks[:half]) + _trained(train, tasks[half:])


def _attempt(train: Training, task: TrainingTask) -> Any:
    try:
        return train(task)
    except (Exception, SystemExit) as error:  # it parses arguments, say
        return error


def _measured(outcome: Any, task: TrainingTask, shared: Plain) -> dict[str, Any]:
    """What is kept of a model: its signals and, where that is asked for, outputs and weights."""
    if outcome is None:
        raise ModelError(f"the training function gave nothing back; {_RETURN}")
    if hasattr(outcome, "state_dict") and hasattr(outcome, "named_parameters"):
        from canary.fleet.torch_modules import predictor

        outcome = Trained(*predictor(outcome, dict(outcome.state_dict())))
    trained = outcome if isinstance(outcome, Trained) else None
    if shared["weights"] and not (trained and trained.weights):
        raise ModelError("checkpoints were asked for, and training gave no weights back")
    model: Any = trained.predict if trained else outcome
    if not callable(model):
        model = np.asarray(outcome)
        if model.dtype.kind not in "fiu":
            kind = type(outcome).__name__
            raise ModelError(f"the training function gave a {kind} back; {_RETURN}")

    def asked(x: NDArray[Any]) -> Any:
        said = model(np.array(x))  # a copy, which the model may change
        if said is None:
            raise ModelError("the function that training gave back gives nothing itself")
        return said

    table = measure(
        asked if callable(model) else model,
        task.samples,
        shared["labels"],
        member=np.isin(np.arange(len(task.samples)), task.rows),
        outputs=shared["outputs"],
        keep_outputs=shared["kept"],
    )
    weights = trained.weights if trained and shared["weights"] else None
    return {
        "values": {name: table.signal(name)[0] for name in shared["signals"] or table.values},
        "outputs": None if table.outputs is None else table.outputs[0],
        "classes": table.classes,
        "weights": dict(weights or {}),
    }


def _reason(error: Exception | SystemExit) -> str:
    said = str(error).partition("\n")[0].strip()
    if isinstance(error, CanaryError):
        text = f"{error.problem}"
    else:
        text = f"{type(error).__name__}: {said}" if said else type(error).__name__
        if "read-only" in said:  # as numpy says where an array must not be changed
            text += _COPY
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
