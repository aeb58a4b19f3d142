"""What cannot be watched is refused with a cure, and a training that diverges goes on."""

from __future__ import annotations

import pytest
import torch
from small_models import CHARACTERS
from watched import attached, build_trainer, causal, monitor, rows, small_set

from canary.audits.history import History
from canary.corpus.canaries import CanarySet, generate
from canary.errors import (
    FormatError,
    InputError,
    ModelError,
    NotFiniteError,
    OutputError,
    UnsupportedError,
)
from canary.formats.format import Format


def _canaries(text):
    return generate(text, repetitions=[1], per_repetition=1, seed=0)


OVERLAPPING = CanarySet.from_fills(Format("code {re:[0-9]{1,3}}"), ["1", "22"])
OPTIONS = [
    (InputError, "every .* at least 1, got 0.*'epoch'", {"every": 0}),
    (InputError, "every .*got 'day'.*'epoch'", {"every": "day"}),
    (InputError, "draws .* at least 1, got 0", {"draws": 0}),
    (InputError, "seed .* at least 0, got -1", {"seed": -1}),
    (InputError, "share .* above 0, got 0.*0.05", {"share": 0}),
    (InputError, "share .* at most 1, got 1.5.*0.05", {"share": 1.5}),
    (InputError, "share .* above 0, got nan", {"share": float("nan")}),
    (InputError, "can show 3.8 bits at most.*draws=117 or more", {"stop_above_bits": 5}),
    (InputError, "3.8 bits at most; give a limit from 0 to below 3.8$", {"stop_above_bits": 99}),
    (InputError, "stop_above_bits=-1", {"stop_above_bits": -1}),
    (InputError, "5 is no positive control of this set.*name one of", {"require_learned": 5}),
    (InputError, "a tokenizer was expected, got object.*fast", {"tokenizer": object()}),
    (InputError, "log must be a function, got", {"log": "wandb"}),
    (InputError, "path must be a path, got a value.*leave it out", {"path": True}),
    (InputError, "path must be a path, got a value.*leave it out", {"path": b"here"}),
    (ModelError, "does not know 1 of the char", {"canaries": _canaries("Ü is {digit:4}.")}),
    (FormatError, "prefix", {"canaries": OVERLAPPING}),
]


@pytest.mark.parametrize(("error", "message", "options"), OPTIONS)
def test_options_that_do_not_serve(error, message, options):
    with pytest.raises(error, match=message):
        monitor(**options)


class Picture(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x, state=None):
        return self.layer(x), state


def _apart(module):
    module.lm_head.to("meta")


def _parted(module):
    module.lm_head.weight.ds_id = 1


def _placed(module):
    module.lm_head.weight.placements = 1


def _smaller(module):
    module.resize_token_embeddings(len(CHARACTERS) - 5)


MODULES = [
    (UnsupportedError, "are on cpu and meta.*one device, or spread it", _apart),
    (UnsupportedError, "parted over several processes.*audit the saved", _parted),
    (UnsupportedError, "parted over several processes.*audit the saved", _placed),
    (UnsupportedError, "an average of the weights was given", torch.optim.swa_utils.AveragedModel),
    (ModelError, "the model has 40 tokens, its tokenizer 45", _smaller),
    (ModelError, "does not work as a recurrent model", lambda _: Picture()),
    (ModelError, "22 tokens is longer than the 16.*shorter format", lambda _: causal(length=16)[0]),
]


@pytest.mark.parametrize(("error", "message", "change"), MODULES)
def test_modules_that_cannot_be_watched(error, message, change):
    module, _ = causal()
    with pytest.raises(error, match=message):
        monitor(canaries=_canaries("the code is {digit:9}.")).start(change(module) or module)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 1.5}, "step must be a whole number"),
        ({"step": -1}, "step must be a whole number of at least 0"),
        ({"epoch": float("nan")}, "epoch must be a number"),
        ({"loss": True}, "loss must be a number"),
        ({"loss": [1.0]}, "loss must be a number"),
        ({"epoch": None}, "epoch is not known.*epoch="),
    ],
)
def test_a_step_that_does_not_serve_leaves_nothing_behind(options, message):
    module, _ = causal()
    watch = monitor(every="epoch" if options.get("epoch", 1) is None else 100)
    watch.step(module, step=1, epoch=0.1, loss=2.0)
    before = watch.state_dict()
    with pytest.raises(InputError, match=message):
        watch.step(module, **{"step": 2, "epoch": 0.2, "loss": 1.0, **options})
    after = watch.state_dict()
    assert all(after[name] == before[name] for name in ("step", "epoch", "losses"))


def _broken():
    module, _ = causal()
    with torch.no_grad():
        module.transformer.ln_f.weight.fill_(float("nan"))
    return module


def test_numbers_that_are_not_finite_from_the_start_are_recorded(caplog):
    watch, module = monitor(), _broken()
    with pytest.raises(NotFiniteError, match="did its training diverge"):
        monitor(strict=True).step(module)
    watch.start(module)
    assert watch.step(module).reason.startswith("the model 'GPT2LMHeadModel' gives log-prob")
    watch.finish()
    assert "never measured: the model 'GPT2LMHeadModel' gives log-prob" in caplog.text
    with torch.no_grad():
        module.transformer.ln_f.weight.fill_(1.0)
    assert watch.step(module).reason is None
    assert [m.step for m in watch.history.measured] == [2]


def test_a_training_that_diverges_ends_as_it_would_have(tmp_path, caplog):
    trainer = build_trainer(tmp_path, learning_rate=1e30, max_grad_norm=0.0, steps=6)
    callback = attached(trainer, every=1)
    trainer.train()
    assert trainer.state.global_step == 6
    last = callback.history.moments[-1]
    assert "not finite" in last.reason
    assert last.px_bits == ()
    assert "not measured at step 6" in caplog.text
    assert History.load(tmp_path / "canary_history.json") == callback.history


@pytest.mark.parametrize("options", [{"share": 1e-9}, {"every": 100}])
@pytest.mark.parametrize("ends", ["finish", "last", "pause"])
def test_the_last_step_is_measured_whatever_was_asked_for(
    tmp_path, caplog, options, ends, monkeypatch
):
    monkeypatch.setattr("canary.plugins.training_log._FREE", 0.0)
    module, _ = causal()
    watch = monitor(path=tmp_path / "history.json", **options)
    watch.start(module)
    for step in range(1, 4):
        watch.step(module, loss=1.0, last=ends == "last" and step == 3)
    assert caplog.text.count("no measurement at step 1: ") == ("share" in options)
    if ends == "pause":  # the model was let go
        watch.pause()
    history = watch.finish()
    assert [moment.step for moment in history.measured] == [3] * (ends != "pause")
    assert History.load(tmp_path / "history.json") == history
    assert ("exposure was never measured: " in caplog.text) == (ends == "pause")


@pytest.mark.parametrize("strict", [False, True])
def test_an_end_that_cannot_be_measured_is_warned_of_and_saved(tmp_path, caplog, strict):
    module, _ = causal()
    watch = monitor(path=tmp_path / "history.json", every=100, strict=strict)
    watch.start(module)
    watch.step(module)
    with torch.no_grad():
        module.transformer.wte.weight.fill_(float("nan"))
    if strict:
        with pytest.raises(NotFiniteError):
            watch.finish()
    else:
        watch.finish()
        assert "exposure was never measured: " in caplog.text
    assert (tmp_path / "history.json").exists()


def test_the_end_keeps_what_came_behind_the_last_measurement(tmp_path, caplog):
    module, _ = causal()
    watch = monitor(path=tmp_path / "history.json", every=2)
    for loss in (3.0, 2.0):
        watch.step(module, loss=loss)
    watch.add_loss(1.0, step=3)
    watch.finish()
    kept = History.load(tmp_path / "history.json")
    assert [loss.step for loss in kept.losses] == [2, 3]
    assert "never measured" not in caplog.text


def test_a_stream_has_no_epochs(tmp_path):
    _, tokenizer = causal()
    stream = rows(tokenizer).to_iterable_dataset()
    trainer = build_trainer(tmp_path, data=stream)
    attached(trainer, every="epoch")
    with pytest.raises(InputError, match="has no length.*every=100"):
        trainer.train()
    again = build_trainer(tmp_path, data=stream, steps=2)
    by_steps = attached(again)
    again.train()
    assert [moment.step for moment in by_steps.history.measured] == [2]


def test_a_trainer_without_a_tokenizer(tmp_path):
    trainer = build_trainer(tmp_path)
    trainer.processing_class = trainer.callback_handler.processing_class = None
    attached(trainer)
    with pytest.raises(InputError, match="no tokenizer.*processing_class="):
        trainer.train()


def test_unknown_options_are_found_before_the_training():
    from canary.plugins.callback import ExposureCallback

    with pytest.raises(TypeError, match="evry"):
        ExposureCallback(small_set(), evry=10)
    for options in ({"every": 0}, {"share": 2}, {"draws": 0}, {"stop_above_bits": 99}):
        with pytest.raises(InputError, match=next(iter(options))):
            ExposureCallback(small_set(), **options)
    with pytest.raises(InputError, match="no training has begun"):
        _ = ExposureCallback(small_set()).history


def test_a_history_that_cannot_be_saved_ends_no_training(tmp_path):
    """But `finish` raises the error if a stop was asked for."""
    module, _ = causal()
    (tmp_path / "taken").write_text("a file where a folder should be")
    path = tmp_path / "taken" / "history.json"
    watch = monitor(path=path, draws=200, stop_above_bits=4.0)
    with pytest.warns(UserWarning, match="the history was not saved: .*taken"):
        assert watch.step(module) is not None
    assert len(watch.history.measured) == 1
    with pytest.raises(OutputError, match="taken"):
        watch.finish()
    with pytest.raises(OutputError, match="taken"):
        monitor(path=path, strict=True).step(module)
