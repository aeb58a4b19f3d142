"""What cannot be watched is refused with a cure, and a training that diverges goes on."""

from __future__ import annotations

import re

import pytest
from small_models import CHARACTERS
from watched import build_trainer, causal, rows, small_set

from canary.errors import (
    FormatError,
    InputError,
    ModelError,
    NotFiniteError,
    OutputError,
    UnsupportedError,
)


def _monitor(**options):
    from canary.plugins.monitor import ExposureMonitor

    _, tokenizer = causal()
    return ExposureMonitor(
        options.pop("canaries", None) or small_set(),
        **{"tokenizer": tokenizer, "every": 1, "draws": 50, "share": None, **options},
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every .* at least 1, got 0.*'epoch'"),
        ({"every": "day"}, "every .*got 'day'.*'epoch'"),
        ({"draws": 0}, "draws .* at least 1, got 0"),
        ({"seed": -1}, "seed .* at least 0, got -1"),
        ({"share": 0}, "share .* above 0, got 0.*0.05"),
        ({"stop_above_bits": 10}, "50|3.8 bits at most.*more draws"),
        ({"stop_above_bits": -1}, "stop_above_bits=-1"),
        ({"tokenizer": object()}, "a tokenizer was expected, got object.*fast transformers"),
    ],
)
def test_options_that_do_not_serve(options, message):
    with pytest.raises(InputError, match=message):
        _monitor(**options)


def test_a_tokenizer_that_does_not_know_the_characters():
    from canary.corpus.canaries import generate

    with pytest.raises(ModelError, match="does not know 1 of the characters"):
        _monitor(canaries=generate("Ü is {digit:4}.", repetitions=[1], per_repetition=1, seed=0))


def test_canaries_longer_than_the_context():
    module, _ = causal(length=16)
    with pytest.raises(ModelError, match="22 tokens is longer than the 16.*shorter format"):
        _monitor(canaries=_long_set()).start(module)


def _long_set():
    from canary.corpus.canaries import generate

    return generate("the code is {digit:9}.", repetitions=[1], per_repetition=1, seed=0)


def test_an_epoch_that_is_not_given():
    module, _ = causal()
    with pytest.raises(InputError, match="epoch is not known.*epoch="):
        _monitor(every="epoch").step(module)


@pytest.mark.parametrize("path", [True, 0, float("nan"), [], b"here"])
def test_a_path_that_is_none(path):
    with pytest.raises(InputError, match="path must be a path, got a value.*leave it out"):
        _monitor(path=path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": "3"}, "step must be a whole number"),
        ({"step": 1.5}, "step must be a whole number"),
        ({"step": True}, "step must be a whole number"),
        ({"step": -1}, "step must be a whole number of at least 0"),
        ({"epoch": "a"}, "epoch must be a number"),
        ({"epoch": float("nan")}, "epoch must be a number"),
        ({"loss": "a"}, "loss must be a number"),
        ({"loss": True}, "loss must be a number"),
        ({"loss": [1.0]}, "loss must be a number"),
    ],
)
def test_a_step_that_does_not_serve_leaves_nothing_behind(options, message):
    module, _ = causal()
    monitor = _monitor(every=100)
    monitor.step(module, step=1, epoch=0.1, loss=2.0)
    before = monitor.state_dict()
    with pytest.raises(InputError, match=message):
        monitor.step(module, **{"step": 2, "epoch": 0.2, "loss": 1.0, **options})
    after = monitor.state_dict()
    assert {k: after[k] for k in ("step", "epoch", "losses")} == {
        k: before[k] for k in ("step", "epoch", "losses")
    }


def test_a_model_whose_parts_lie_apart():
    module, _ = causal()
    module.lm_head.to("meta")
    with pytest.raises(UnsupportedError, match="lie on cpu and meta.*one device, or spread it"):
        _monitor().start(module)


def test_a_model_that_computes_no_rows():
    import torch

    class Picture(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x, state=None):
            return self.layer(x), state

    with pytest.raises(ModelError, match="does not work as a recurrent model"):
        _monitor().start(Picture())


@pytest.mark.parametrize("mark", ["ds_id", "placements"])
def test_parameters_that_are_parted_over_processes(mark):
    module, _ = causal()
    setattr(module.lm_head.weight, mark, 1)
    with pytest.raises(UnsupportedError, match="parted over several processes.*audit the saved"):
        _monitor().start(module)


def _broken():
    import torch

    module, _ = causal()
    with torch.no_grad():
        module.transformer.ln_f.weight.fill_(float("nan"))
    return module


def test_numbers_that_are_not_finite_from_the_start_are_recorded():
    import torch

    monitor, module = _monitor(), _broken()
    monitor.start(module)
    assert monitor.step(module).reason.startswith("the model 'GPT2LMHeadModel' gives log-prob")
    with torch.no_grad():
        module.transformer.ln_f.weight.fill_(1.0)
    assert monitor.step(module).reason is None
    assert [m.step for m in monitor.history.measured] == [2]


def test_strict_raises_them():
    monitor = _monitor(strict=True)
    with pytest.raises(NotFiniteError, match="did its training diverge"):
        monitor.step(_broken())


def test_a_training_that_diverges_ends_as_it_would_have(tmp_path, caplog):
    from canary.audits.history import History
    from canary.plugins.callback import ExposureCallback

    trainer = build_trainer(tmp_path, learning_rate=1e30, max_grad_norm=0.0, steps=6)
    callback = ExposureCallback(small_set(), every=1, draws=50, share=None)
    callback.attach(trainer)
    trainer.train()
    assert trainer.state.global_step == 6
    last = callback.history.moments[-1]
    assert "not finite" in last.reason
    assert last.px_bits == ()
    assert "not measured at step 6" in caplog.text
    assert History.load(tmp_path / "canary_history.json") == callback.history


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"share": 1e-9}, "its share of the training is .*; give fewer draws, or a larger share"),
        ({"every": 100}, "ended at step 3, before any that was asked for; give a smaller every"),
    ],
)
def test_a_training_that_was_never_measured_is_told_at_its_end(tmp_path, caplog, options, why):
    from canary.audits.history import History

    module, _ = causal()
    monitor = _monitor(path=tmp_path / "history.json", **options)
    monitor.start(module)
    for _ in range(3):
        monitor.step(module, loss=1.0)
    assert not (tmp_path / "history.json").exists()
    assert caplog.text == ""
    history = monitor.finish()
    assert history.moments == ()
    assert History.load(tmp_path / "history.json") == history
    assert re.search(f"exposure was never measured: .*{why}", caplog.text)


def test_numbers_that_were_never_finite_are_told_at_the_end(caplog):
    monitor, module = _monitor(), _broken()
    monitor.step(module)
    monitor.finish()
    assert "never measured: the model 'GPT2LMHeadModel' gives log-prob" in caplog.text


def test_the_end_keeps_what_came_behind_the_last_measurement(tmp_path, caplog):
    from canary.audits.history import History

    module, _ = causal()
    monitor = _monitor(path=tmp_path / "history.json", every=2)
    for loss in (3.0, 2.0):
        monitor.step(module, loss=loss)
    monitor.add_loss(1.0, step=3)
    monitor.finish()
    kept = History.load(tmp_path / "history.json")
    assert [loss.step for loss in kept.losses] == [2, 3]
    assert "never measured" not in caplog.text


def test_a_stream_has_no_epochs(tmp_path):
    from canary.plugins.callback import ExposureCallback

    _, tokenizer = causal()
    stream = rows(tokenizer).to_iterable_dataset()
    callback = ExposureCallback(small_set(), every="epoch", share=None)
    trainer = build_trainer(tmp_path, data=stream)
    callback.attach(trainer)
    with pytest.raises(InputError, match="has no length.*every=100"):
        trainer.train()
    again = build_trainer(tmp_path, data=stream)
    by_steps = ExposureCallback(small_set(), every=2, draws=50, share=None)
    by_steps.attach(again)
    again.train()
    assert [m.step for m in by_steps.history.measured] == [2, 4]


def test_a_trainer_without_a_tokenizer(tmp_path):
    from canary.plugins.callback import ExposureCallback

    trainer = build_trainer(tmp_path)
    trainer.processing_class = trainer.callback_handler.processing_class = None
    ExposureCallback(small_set()).attach(trainer)
    with pytest.raises(InputError, match="no tokenizer.*processing_class="):
        trainer.train()


def test_unknown_options_are_found_before_the_training():
    from canary.plugins.callback import ExposureCallback

    with pytest.raises(TypeError, match="evry"):
        ExposureCallback(small_set(), evry=10)
    with pytest.raises(InputError, match="no training has begun"):
        _ = ExposureCallback(small_set()).history


def test_formats_that_are_not_prefix_free():
    from canary.corpus.canaries import CanarySet
    from canary.formats.format import Format

    canaries = CanarySet.from_fills(Format("code {re:[0-9]{1,3}}"), ["1", "22"])
    with pytest.raises(FormatError, match="prefix"):
        _monitor(canaries=canaries)


def test_a_model_with_fewer_tokens_than_the_tokenizer():
    module, _ = causal()
    module.resize_token_embeddings(len(CHARACTERS) - 5)
    with pytest.raises(ModelError, match="the model has 40 tokens, its tokenizer 45"):
        _monitor().start(module)


def test_a_history_that_cannot_be_saved_ends_no_training(tmp_path):
    module, _ = causal()
    (tmp_path / "taken").write_text("a file where a folder should be")
    path = tmp_path / "taken" / "history.json"
    monitor = _monitor(path=path)
    with pytest.warns(UserWarning, match="the history was not saved: .*taken"):
        assert monitor.step(module) is not None
    assert len(monitor.history.measured) == 1
    with pytest.raises(OutputError, match="taken"):
        _monitor(path=path, strict=True).step(module)


def test_an_epoch_that_ends_at_a_named_step_is_measured_once():
    module, _ = causal()
    monitor = _monitor(every="epoch", steps=[4])
    for step in range(1, 9):
        monitor.step(module, epoch=step / 4)
    assert [moment.step for moment in monitor.history.moments] == [4, 8]
