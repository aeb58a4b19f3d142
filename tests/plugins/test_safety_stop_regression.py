"""A stop that was asked for measures the end of the training, or fails loudly."""

from __future__ import annotations

import gc
import re

import pytest
import torch
from trained import trained
from transformers import PreTrainedTokenizerFast
from watched import (
    END,
    END_ID,
    attached,
    build_trainer,
    causal,
    ended_model,
    monitor,
    rows,
    small_set,
    steps_on,
)

from canary.audits.history import History
from canary.corpus.canaries import CanarySet, generate
from canary.errors import InputError, ModelError, OutOfMemory
from canary.plugins.callback import ExposureCallback
from canary.plugins.moment_taker import MomentTaker
from canary.reports.history_answer import answer_of


def _monitor(**options):
    return monitor(**{"draws": 200, "share": 0.05, "stop_above_bits": 4.0, **options})


def _learned(tokenizer):
    canaries = small_set()
    texts = [canaries.text(canary) for canary in canaries if canary.repetitions == 8]
    return tokenizer(texts)["input_ids"]


def _learn(watch, module, tokenizer, steps):
    for _ in steps_on(module, _learned(tokenizer), steps):
        watch.step(module)


def test_the_end_is_measured_whatever_the_share_of_time_allows(caplog, tmp_path, monkeypatch):
    monkeypatch.setattr("canary.plugins.training_log._FREE", 0.0)
    module, tokenizer = causal(dropout=0.0)
    watch = _monitor(share=1e-9, path=tmp_path / "history.json")
    watch.start(module)
    _learn(watch, module, tokenizer, 60)
    assert not watch.history.measured
    assert not watch.exceeded
    history = watch.finish()
    assert [moment.step for moment in history.measured] == [60]
    assert watch.exceeded
    assert history.stopped_at == 60
    said = r"canaries with 8 copies have a median exposure of at least \d\.\d bits, above the limit"
    ended = "the limit was exceeded when the training had ended, at step 60: nothing was stopped"
    assert re.fullmatch(f"{ended}; {said} of 4", history.stop_reason)
    assert f"canary: {history.stop_reason}" in caplog.text
    assert "training is stopped" not in caplog.text
    assert caplog.text.count("share=None measures at every step") == 1
    assert "asked for 60 measurements, made 1: share=1e-09 of the training's time" in caplog.text
    assert History.load(tmp_path / "history.json") == history


def test_a_training_below_the_limit_ends_quietly_also_without_controls(caplog):
    module, _ = causal(dropout=0.0)
    canaries = small_set(controls=0)
    watch = _monitor(canaries=canaries, share=None, every=100, stop_above_bits=5.0)
    watch.start(module)
    watch.step(module)
    history = watch.finish()
    assert history.places().keys() == {1, 8}
    assert len(history.measured) == 1
    assert history.stopped_at is None
    assert "stopped" not in caplog.text


def _nan(watch, module, monkeypatch, tmp_path):
    with torch.no_grad():
        module.transformer.wte.weight.fill_(float("nan"))


def _full(watch, module, monkeypatch, tmp_path):
    def measure(self, token):
        raise OutOfMemory("one row does not fit")

    monkeypatch.setattr(MomentTaker, "measure", measure)


@pytest.mark.parametrize(
    ("spoil", "why", "share"),
    [(_nan, "not finite numbers", None), (_full, "one row does not fit", 1e-9)],
)
def test_an_end_that_cannot_be_measured_is_an_error(spoil, why, share, monkeypatch, tmp_path):
    monkeypatch.setattr("canary.plugins.training_log._FREE", 0.0)
    module, _ = causal()
    watch = _monitor(share=share)
    watch.start(module)
    watch.step(module)
    spoil(watch, module, monkeypatch, tmp_path)
    watch.step(module)
    message = "stop_above_bits=4 was given, and exposure could not be measured at the last step .*"
    with pytest.raises(ModelError, match=message + why + ".*audit the model"):
        watch.finish()


def test_a_step_that_is_never_called_is_an_error(monkeypatch):
    monkeypatch.setattr("canary.plugins.training_log._FREE", 0.0)
    module, _ = causal()
    watch = _monitor()
    with pytest.raises(InputError, match="stop_above_bits=4 was given.*call step"):
        watch.finish()
    watch = _monitor()
    watch.step(module)
    watch.pause()
    with pytest.raises(InputError, match="or the last pause; call step"):
        watch.finish()


def test_a_training_without_its_canaries_is_an_error(tmp_path):
    module, tokenizer = causal()
    other, right = (
        torch.tensor([tokenizer(text)["input_ids"]])
        for text in ("nothing but this is said here", small_set().text(small_set().injected[0]))
    )
    watch = _monitor(share=None, path=tmp_path / "history.json")
    watch.start(module)
    module(input_ids=other, labels=other).loss.backward()
    watch.step(module)
    message = "stop_above_bits=4 was given, and no injected canary was seen.*canary inject"
    with pytest.raises(ModelError, match=message):
        watch.finish()
    assert (tmp_path / "history.json").exists()
    seen = _monitor(share=None)
    seen.see({"input_ids": right})
    seen.step(module)
    assert seen.finish().batches["canaries"] == 1
    resumed = _monitor(share=None)
    resumed.load_state_dict(seen.state_dict())
    with torch.no_grad():
        module.transformer.wte.weight.mul_(1.1)
    resumed.see({"input_ids": other})  # its canaries came before the checkpoint
    resumed.step(module)
    assert resumed.finish().batches["canaries"] == 1


def test_the_positive_control_neither_stops_the_training_nor_is_judged():
    module, tokenizer = causal(dropout=0.0)
    watch = _monitor(share=None, every=20, require_learned=8)
    watch.start(module)
    _learn(watch, module, tokenizer, 60)
    assert not watch.exceeded
    history = watch.finish()
    assert history.stopped_at is None
    learned = [history.measured[-1].exposures[at] for at in history.places()[8]]
    assert min(e.lower_bits for e in learned) > 4.0
    assert answer_of(history)[0] != "It is open whether the limit was kept"


def test_a_set_without_injected_canaries_is_refused():
    canaries = small_set()
    only = CanarySet(canaries.formats, canaries.controls, canaries.seed)
    with pytest.raises(InputError, match="no injected canary, so nothing could ever stop"):
        _monitor(canaries=only)
    assert _monitor(canaries=only, stop_above_bits=None).history.canaries


@pytest.mark.parametrize(("bits", "draws"), [(6, 235), (8, 943), (10, 3776), (12, 15108)])
def test_the_draws_that_a_refusal_names_can_show_the_limit(bits, draws):
    """They are those of the guide."""
    canaries = generate("code {digit:6}", repetitions=[1], per_repetition=2, seed=0)
    with pytest.raises(InputError, match=f"or draws={draws} or more"):
        ExposureCallback(canaries, stop_above_bits=bits, draws=100)
    ExposureCallback(canaries, stop_above_bits=bits, draws=draws)
    with pytest.raises(InputError, match="bits at most"):
        ExposureCallback(canaries, stop_above_bits=bits, draws=draws - 1)


def test_a_trainer_stops_at_its_end_whatever_the_share_allows(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("canary.plugins.training_log._FREE", 0.0)
    _, tokenizer = causal()
    data = rows(tokenizer, small_set(), count=4)
    trainer = build_trainer(tmp_path, steps=40, data=data, learning_rate=2e-2)
    callback = attached(trainer, every=10, share=1e-9, stop_above_bits=2.0)
    trainer.train()
    assert [moment.step for moment in callback.history.measured] == [40]
    assert callback.history.stopped_at == 40
    assert "at step 40: nothing was stopped; canaries with 8 copies" in caplog.text


def test_a_tokenizer_that_is_not_the_trainers_is_refused(tmp_path):
    trainer = build_trainer(tmp_path)
    attached(trainer, tokenizer=PreTrainedTokenizerFast(tokenizer_object=trained("gpt2")))
    with pytest.raises(InputError, match="other tokens than the Trainer's"):
        trainer.train()


@pytest.mark.parametrize("asked", ["auto", "none"])
def test_a_stop_sees_what_training_put_before_each_text(asked, caplog):
    """Priced after nothing, a model that was trained after a token looks harmless."""
    module, tokenizer = ended_model(dropout=0.0)
    options = {"tokenizer": tokenizer, "every": 5, "share": None, "stop_above_bits": 5.0}
    watch = _monitor(start_token=asked, **options)
    watch.start(module)
    for _ in steps_on(module, [[END_ID, *ids] for ids in _learned(tokenizer)], 100):
        moment = watch.step(module)
        if watch.exceeded:
            break
    assert watch.exceeded
    history = watch.finish()
    assert history.batches["after"].keys() == {END}
    assert moment.start_token == (END if asked == "auto" else None)
    assert ("exposure may be too low" in caplog.text) == (asked == "none")


@pytest.mark.parametrize("ends", ["unfinished", "finished", "no stop"])
def test_a_stop_whose_training_never_called_finish_says_so(ends, caplog):
    watch = _monitor(every=1_000, **({"stop_above_bits": None} if ends == "no stop" else {}))
    module, tokenizer = causal(dropout=0.0)
    _learn(watch, module, tokenizer, 2)
    if ends == "finished":
        watch.finish()
    del watch
    gc.collect()
    assert ("finish was never called" in caplog.text) is (ends == "unfinished")
