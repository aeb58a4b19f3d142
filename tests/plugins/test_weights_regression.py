"""A training that is watched gives the weights that it would have given, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
from watched import build_trainer, causal, small_set, weights_of

# Old names that peft and the Trainer still use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]


def _train(folder, *, watched, **options):
    random.seed(5)
    np.random.seed(6)  # noqa: NPY002 - the global one is what may be disturbed
    trainer = build_trainer(folder, **options)
    if watched:
        from canary.plugins.callback import ExposureCallback

        callback = ExposureCallback(small_set(), every=1, draws=50, share=None)
        callback.attach(trainer)
    trainer.train()
    if watched:
        assert len(callback.history.measured) >= 3
        expected = "bfloat16" if options.get("bf16") else "float32"
        assert callback.history.model["dtype"] == expected
    import torch

    after = (random.random(), float(np.random.random()), float(torch.rand(())))  # noqa: NPY002
    losses = [(e["step"], e["loss"]) for e in trainer.state.log_history if "loss" in e]
    modes = [part.training for part in trainer.model.modules()]
    return weights_of(trainer.model), losses, modes, after


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bf16": True},
        {"gradient_checkpointing": True},
        {"lora": True},
        {"lora": True, "gradient_checkpointing": True, "bf16": True},
        {"gradient_accumulation_steps": 2},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_weights_losses_modes_and_random_states_are_the_same(tmp_path, options):
    without = _train(tmp_path / "without", watched=False, **options)
    with_it = _train(tmp_path / "with", watched=True, **options)
    assert with_it[1:] == without[1:]
    assert with_it[0].keys() == without[0].keys()
    for name, value in without[0].items():
        assert np.array_equal(value, with_it[0][name]), name


def test_the_comparison_sees_a_disturbed_random_state(tmp_path, monkeypatch):
    import torch

    from canary.plugins import shared_draws

    measure = shared_draws.SharedDraws.measure

    def disturbing(self, model, **options):
        found = measure(self, model, **options)
        monkeypatch.setattr("torch.set_rng_state", lambda state: None)
        torch.rand(1)
        return found

    without = _train(tmp_path / "without", watched=False)
    monkeypatch.setattr(shared_draws.SharedDraws, "measure", disturbing)
    with_it = _train(tmp_path / "with", watched=True)
    assert any(not np.array_equal(v, with_it[0][name]) for name, v in without[0].items())


def test_a_loop_of_ones_own_under_autocast_is_not_disturbed():
    import torch

    from canary.plugins.monitor import ExposureMonitor

    def train(watched):
        torch.manual_seed(0)
        module, tokenizer = causal(dropout=0.2)
        module.train()
        optimizer = torch.optim.AdamW(module.parameters(), 1e-2)
        monitor = ExposureMonitor(small_set(), tokenizer=tokenizer, every=1, draws=50, share=None)
        for _ in range(4):
            # The call stands within autocast, behind a forward that filled its cache.
            with torch.autocast("cpu", torch.bfloat16):
                ids = torch.randint(0, 40, (4, 16))
                loss = module(input_ids=ids, labels=ids).loss
                if watched:
                    monitor.step(module, loss=loss.item())
                loss = loss + module(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert watched == bool(monitor.history.measured)
        if watched:
            assert monitor.history.model["dtype"] == "bfloat16"
        return weights_of(module)

    without, with_it = train(watched=False), train(watched=True)
    for name, value in without.items():
        assert np.array_equal(value, with_it[name]), name
