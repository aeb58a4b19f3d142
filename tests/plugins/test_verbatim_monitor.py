"""Passages that come out, measured while a model trains, which goes on as it would have."""

from __future__ import annotations

import gc
import logging

import numpy as np
import pytest
import torch
from small_models import CHARACTERS, character_tokenizer, known
from watched import build_trainer, causal

import canary
from canary.errors import InputError, ModelError, NotFiniteError
from canary.plugins.callback import VerbatimCallback
from canary.plugins.verbatim_monitor import VerbatimMonitor

SMALL = {"prefix": 5, "suffix": 4}
TOKENIZER = character_tokenizer()


def strings(count, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(CHARACTERS), 25)) for _ in range(count)]


def repeated(count):
    """Texts that the small GPT-2 writes from their first five characters on."""
    rows = torch.from_numpy(np.random.default_rng(8).integers(0, len(CHARACTERS), (count, 5)))
    for _ in range(20):
        logits = known("gpt2").module(rows).logits[:, -1]
        rows = torch.cat([rows, logits.argmax(-1, keepdim=True)], dim=1)
    return ["".join(CHARACTERS[token] for token in row) for row in rows.tolist()]


def test_a_training_is_watched_and_goes_on_as_without(tmp_path, caplog):
    caplog.set_level("INFO", logger="canary.plugins.monitor")
    bare = build_trainer(tmp_path / "bare", steps=-1, num_train_epochs=2)
    bare.train()
    trainer = build_trainer(tmp_path / "out", steps=-1, num_train_epochs=2)
    seam = canary.load(trainer.model, tokenizer=TOKENIZER)
    before = canary.verbatim(seam, strings(9), strings(9, 1), **SMALL)
    callback = VerbatimCallback(strings(9), strings(9, 1), share=None, **SMALL)
    callback.attach(trainer)
    trainer.train()
    same = zip(bare.model.state_dict().values(), trainer.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in same)
    readings = callback.monitor.readings
    assert [(one.step, one.epoch) for one in readings] == [(0, 0), (6, 1.0), (12, 2.0)]
    assert readings[0].greedy == before.greedy_rate()
    seam = canary.load(trainer.model, tokenizer=TOKENIZER)
    after = canary.verbatim(seam, strings(9), strings(9, 1), **SMALL)
    assert callback.monitor.result.texts == after.texts
    assert canary.read(tmp_path / "out" / "canary_verbatim.json").texts == after.texts
    logged = [e for e in trainer.state.log_history if "eval_canary/verbatim/greedy_value" in e]
    assert [e["step"] for e in logged] == [0, 6, 12]
    said = [line for line in caplog.messages if "a measurement takes about" in line]
    assert len(said) == 1
    assert "and 2 more are asked for" in said[0]


def test_the_first_step_that_is_left_out_is_told(caplog, monkeypatch):
    monkeypatch.setattr("canary.plugins.training_log._FREE", 0.0)
    watch = VerbatimMonitor(strings(9), strings(9, 1), every=1, share=1e-9, tokenizer=TOKENIZER,
                            **SMALL)  # fmt: skip
    watch.start(known("gpt2").module)
    for _ in range(3):
        assert watch.step(known("gpt2").module) is None
    (told,) = (line for line in caplog.messages if "no measurement at step" in line)
    assert told.startswith("canary: passages, no measurement at step 1: it takes about")


def test_a_limit_is_exceeded_where_the_check_fails(caplog):
    model, others = known("gpt2").module, strings(30)
    options = {"tokenizer": TOKENIZER, "every": 2, "share": None, **SMALL}
    low = VerbatimMonitor(repeated(30), others, max_extractable=0.9, **options)
    low.start(known("llama").module)
    assert not low.exceeded
    assert low.step(model) is None
    assert low.step(model) is low.result
    assert not low.exceeded  # its interval begins below
    high = VerbatimMonitor(repeated(30), others, max_extractable=0.5, every=99, **SMALL,
                           tokenizer=TOKENIZER)  # fmt: skip
    high.start(known("llama").module)
    high.step(model)
    assert not high.exceeded
    assert high.finish(model) is high.result  # whatever the share is
    assert high.exceeded
    assert [one.step for one in high.readings] == [0, 1]


def test_what_is_not_finite_is_said_and_with_a_limit_an_error(caplog):
    module = causal()[0]
    monitor = VerbatimMonitor(
        strings(5), strings(5, 1), tokenizer=TOKENIZER, every=1, max_extractable=0.5, share=None,
        **SMALL,
    )  # fmt: skip
    monitor.start(module)
    with torch.no_grad():
        module.transformer.wte.weight.fill_(float("nan"))
    with caplog.at_level(logging.WARNING):
        assert monitor.step(module) is None
    assert "passages were not measured at step 1" in caplog.text
    with pytest.raises(NotFiniteError):
        monitor.finish(module)


def test_weights_and_near_passages_are_those_of_the_test():
    model, texts, weights = known("gpt2").module, repeated(6), [1, 2, 3, 4, 5, 6]
    options = {"weights": weights, "near": "1c", "near_width": 4, "stride": 99, **SMALL}
    monitor = VerbatimMonitor(
        texts, strings(6), tokenizer=TOKENIZER, max_extractable=0.1, tries=100, **options
    )
    found = monitor.start(model)
    seam = canary.load(model, tokenizer=TOKENIZER)
    alone = canary.verbatim(seam, texts, strings(6), **options)
    assert found.texts == alone.texts
    assert found.texts.weights == tuple(map(float, weights))
    assert len(found.texts.near) == 6
    verdict = canary.check(found, max_extractable=0.1, tries=100)
    assert "with up to 1 edit of characters" in verdict.reason.sentence
    assert monitor.exceeded is (verdict.outcome == "failed")
    monitor.finish(model)


def test_it_stays_within_its_share_of_the_time(monkeypatch):
    now = [0.0]

    def second(*given, **options):
        now[0] += 1.0
        return canary.verbatim(*given, **options)

    monkeypatch.setattr("canary.plugins.verbatim_monitor.verbatim", second)
    monkeypatch.setattr("canary.plugins.training_log._FREE", 0.0)
    options = {"tokenizer": TOKENIZER, "clock": lambda: now[0], **SMALL}
    monitor = VerbatimMonitor(strings(3), every=1, share=0.1, **options)
    model = known("gpt2").module
    monitor.start(model)
    for _ in range(100):
        now[0] += 1.0
        monitor.step(model)
    assert [one.step for one in monitor.readings] == [0, *range(10, 101, 10)]
    assert {one.seconds for one in monitor.readings} == {1.0}


@pytest.mark.parametrize("ends", ["finish", "last"])
def test_the_last_step_is_measured_whatever_the_share(ends, monkeypatch):
    monkeypatch.setattr("canary.plugins.training_log._FREE", 0.0)
    watch = VerbatimMonitor(strings(3), every=1, share=1e-9, tokenizer=TOKENIZER, **SMALL)
    model = known("gpt2").module
    watch.start(model)
    for step in range(1, 4):
        watch.step(model, last=ends == "last" and step == 3)
    found = watch.finish(model)
    assert [one.step for one in watch.readings] == [0, 3]
    assert found is watch.result


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_extractable": 0.1}, "without controls"),
        ({"every": "week"}, "every"),
        ({"share": 2}, "share"),
        ({"log": 3}, "log"),
    ],
)
def test_options_that_do_not_serve_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        VerbatimMonitor(strings(3), tokenizer=TOKENIZER, **options)


def test_a_start_refuses_what_cannot_be_measured():
    monitor = VerbatimMonitor(strings(3), tokenizer=TOKENIZER)
    with pytest.raises(InputError, match="none of 3 texts has the 100 tokens"):
        monitor.start(known("gpt2").module)
    with pytest.raises(InputError, match="no training has begun"):
        _ = VerbatimCallback(strings(3)).monitor


@pytest.mark.parametrize("ends", ["unfinished", "finished", "exceeded", "no limit"])
def test_a_limit_whose_training_never_called_finish_says_so(ends, caplog):
    model = known("gpt2").module
    texts = repeated(20) if ends == "exceeded" else strings(20)
    limit = {} if ends == "no limit" else {"max_extractable": 0.05}
    options = {"tokenizer": TOKENIZER, "every": 2, "share": None, **SMALL, **limit}
    watch = VerbatimMonitor(texts, strings(20, 1), **options)
    watch.step(model)
    watch.step(model)
    assert watch.exceeded == (ends == "exceeded")
    if ends == "finished":
        watch.finish(model)
    del watch
    gc.collect()
    assert ("finish was never called" in caplog.text) is (ends == "unfinished")


@pytest.mark.parametrize("trained", [False, True])
def test_a_copy_of_the_model_is_refused(trained):
    """A copy that was made before the training gives the same numbers again and again."""
    model = causal()[0]
    watch = VerbatimMonitor(
        strings(9), strings(9, 1), tokenizer=TOKENIZER, every=2, share=None, max_extractable=0.5,
        **SMALL,
    )  # fmt: skip
    watch.start(model)
    for _ in range(3):
        if trained:
            with torch.no_grad():
                model.transformer.wte.weight.mul_(1.01)
        watch.step(model)
    if trained:
        assert watch.finish(model) is watch.result
    else:
        with pytest.raises(ModelError, match="same numbers at all 3 measurements.*not a copy"):
            watch.finish(model)
    assert [one.step for one in watch.readings] == [0, 2, 3]
