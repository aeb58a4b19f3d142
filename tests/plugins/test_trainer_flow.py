"""The callback in real trainings: logged, resumed, stopped, and over two processes."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import numpy as np
import pytest
from two_processes import in_two_processes
from watched import attached, build_trainer, causal, rows, small_set

from canary.errors import ModelError, RecordError
from canary.plugins.callback import ExposureCallback
from canary.plugins.checkpoints import exposure_over
from canary.plugins.training_log import TimeShare

HERE = Path(__file__).parent


def test_exposure_goes_through_the_loggers_and_every_loss_is_logged(tmp_path):
    from transformers import TrainerCallback

    seen = []

    class Logger(TrainerCallback):
        """Stands where TensorBoard and its like do."""

        def on_log(self, args, state, control, logs=None, **given):
            seen.append((state.global_step, dict(logs)))

    trainer = build_trainer(tmp_path, steps=5)
    trainer.add_callback(Logger)
    callback = attached(trainer)
    callback.attach(trainer)  # a second time changes nothing
    trainer.train()
    losses = {step for step, logs in seen if "loss" in logs}
    assert losses == {1, 2, 3, 4, 5}
    exposures = {s: logs for s, logs in seen if "eval_canary/exposure_8_copies" in logs}
    assert sorted(exposures) == [2, 4, 5]  # the last step as well
    assert {"eval_canary/exposure_controls", "eval_canary/exposure_max"} <= exposures[4].keys()
    kept = [e for e in trainer.state.log_history if "eval_canary/exposure_1_copies" in e]
    assert [e["step"] for e in kept] == [2, 4, 5]
    assert [x.step for x in callback.history.losses] == [1, 2, 3, 4, 5]
    logged = [e["loss"] for e in trainer.state.log_history if "loss" in e]
    assert [x.value for x in callback.history.losses] == pytest.approx(logged)


def test_what_all_measurements_take_is_said_before_and_after_the_first(tmp_path, caplog):
    caplog.set_level("INFO", logger="canary.plugins.monitor")
    attached(build_trainer(tmp_path, steps=5))._trainer.train()
    said = [line for line in caplog.messages if "a measurement takes about" in line]
    assert [re.search("and (.*), which", line)[1] for line in said] == [
        "3 more are asked for",
        "2 more are asked for",
    ]
    assert not any(r.levelname == "WARNING" for r in caplog.records if r.message in said)


@pytest.mark.parametrize(
    ("share", "cost", "level", "told"),
    [
        (None, 30.0, "WARNING", "10 more are asked for, which take 5 min in all; share=0.05"),
        (0.1, 30.0, "INFO", "last step is always measured, and share=0.1 limits the others: one "
                            "after 5 min of training and one in every 5 min"),
        (0.1, 4.0, "INFO", "limits the others: 2 at any time, then one after 2 min of training"),
        (0.1, 1.0, "INFO", "the last step is always measured"),
        (0.1, 90.0, "WARNING", "the last step is always measured"),
    ],
)  # fmt: skip
def test_what_will_be_measured_is_said_with_a_warning_if_it_is_long(
    share, cost, level, told, caplog
):
    caplog.set_level("INFO", logger="canary.plugins.monitor")
    watch = TimeShare(share)
    watch.say(10)  # nothing is known yet
    watch.expect(cost)
    watch.say(10)
    (record,) = caplog.records
    assert record.levelname == level
    assert told in record.message
    assert ("limits the others" in record.message) == (share is not None and cost > 1.0)


def test_the_end_of_every_epoch(tmp_path):
    trainer = build_trainer(tmp_path, steps=-1, num_train_epochs=2, gradient_accumulation_steps=2)
    callback = attached(trainer, every="epoch")
    trainer.train()
    # 48 rows are 6 batches of 8, and 3 steps.
    assert [(m.step, m.epoch) for m in callback.history.measured] == [(3, 1.0), (6, 2.0)]


def test_without_its_trainer_it_measures_and_says_that_it_does_not_log(tmp_path, caplog):
    trainer = build_trainer(tmp_path)
    callback = ExposureCallback(small_set(), every=2, draws=60, share=None, preflight=False)
    trainer.add_callback(callback)
    with caplog.at_level(logging.WARNING):
        trainer.train()
    assert len(callback.history.measured) == 2
    assert "callback.attach(trainer)" in caplog.text


def test_a_log_of_its_own_takes_the_place_of_the_trainers(tmp_path, caplog):
    trainer, steps = build_trainer(tmp_path), []
    callback = attached(trainer, log=lambda numbers, *, step: steps.append(step))
    trainer.train()
    assert steps == [moment.step for moment in callback.history.measured] == [2, 4]
    assert not [e for e in trainer.state.log_history if "eval_canary/exposure_max" in e]
    assert "callback.attach(trainer)" not in caplog.text


def test_a_resumed_training_goes_on_with_the_history_of_its_checkpoint(tmp_path):
    whole = attached(build_trainer(tmp_path / "whole", steps=6))
    whole._trainer.train()

    options = {"steps": 6, "save_strategy": "steps", "save_steps": 3}
    first = attached(build_trainer(tmp_path / "parts", **options))
    first._trainer.train()
    checkpoint = tmp_path / "parts" / "checkpoint-3"
    in_checkpoint = json.loads((checkpoint / "canary_history.json").read_text())
    assert [m["step"] for m in in_checkpoint["moments"]] == [2]

    again = attached(build_trainer(tmp_path / "parts", **options))
    again._trainer.train(resume_from_checkpoint=str(checkpoint))
    assert [m.step for m in again.history.moments] == [2, 4, 6]
    assert [x.step for x in again.history.losses] == [1, 2, 3, 4, 5, 6]
    # The same weights, so the same exposures as in one piece.
    for one, other in zip(whole.history.moments, again.history.moments, strict=True):
        assert one.px_bits == other.px_bits
    for name in ("training_seconds", "own_seconds"):
        assert getattr(again.history, name) > in_checkpoint[name] > 0
    # A history of other canaries, or other draws, is not gone on with.
    for canaries, seed, told in ((small_set(controls=5), 0, "canaries"), (small_set(), 1, "seed")):
        trainer = build_trainer(tmp_path / "parts", **options)
        attached(trainer, canaries, seed=seed)
        with pytest.raises(RecordError, match=f"of other {told} than this training's") as refused:
            trainer.train(resume_from_checkpoint=str(checkpoint))
        assert refused.value.where == str(checkpoint / "canary_history.json")
        assert "begin a new history: remove its files" in refused.value.cure


def test_it_stops_a_training_that_memorizes_and_no_other(tmp_path):
    _, tokenizer = causal()
    found = {}
    for name, canaries in (("with", small_set()), ("without", None)):
        data = rows(tokenizer, canaries, count=8)
        options = {"steps": 60 if canaries else 20, "learning_rate": 2e-2, "logging_steps": 50}
        trainer = build_trainer(tmp_path / name, data=data, **options)
        found[name] = attached(trainer, every=5, draws=200, stop_above_bits=4.5)
        if canaries is None:
            with pytest.raises(ModelError, match="no injected canary was seen"):
                trainer.train()
        else:
            trainer.train()
    stopped = found["with"].history
    assert stopped.stopped_at is not None
    assert stopped.stopped_at == stopped.moments[-1].step < 60
    assert found["without"].history.stopped_at is None
    assert found["without"].history.moments[-1].step == 20


@pytest.mark.slow
def test_of_two_processes_one_measures_and_both_end(tmp_path):
    two = in_two_processes("watched_by_two.py", tmp_path)
    for stops in ("go-on", "stop"):
        first, second = (found[stops] for found in two)
        assert first["weights"] == second["weights"]
        assert first["steps"] == second["steps"]
        assert first["measured"][0] == 2
        assert second["measured"] == []
        if stops == "stop":
            assert first["stopped_at"] == second["stopped_at"] == first["steps"] < 40
        else:
            assert first["steps"] == 4
            assert first["unwatched"] == first["weights"]


@pytest.mark.slow
def test_a_sharded_training_is_refused_and_its_checkpoints_are_measured(tmp_path):
    two = in_two_processes("sharded_by_two.py", tmp_path)
    assert "parted over several processes" in two[0]["said"]
    assert "audit the saved checkpoints" in two[0]["said"]
    assert sum(one["share"] for one in two) == pytest.approx(1.0)
    assert all(0.4 < one["share"] < 0.6 for one in two)
    folders = [tmp_path / name for name in ("base", "output/checkpoint-30", "output/checkpoint-60")]
    history = exposure_over(folders, small_set(), draws=200, path=tmp_path / "history.json")
    assert [moment.step for moment in history.measured] == [0, 30, 60]
    learned = [c.repetitions == 8 for c in small_set()]
    first, _, last = (np.mean(np.array(m.px_bits)[learned]) for m in history.measured)
    assert last < first / 3
