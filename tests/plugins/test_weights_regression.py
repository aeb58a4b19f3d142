"""A training that is watched gives the weights that it would have given, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.ao.quantization import MovingAverageMinMaxObserver
from watched import attached, build_trainer, causal, monitor, weights_of

from canary.plugins.moment_taker import MomentTaker

# Old names that peft and the Trainer still use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]


def _train(folder, *, watched, **options):
    random.seed(5)
    np.random.seed(6)  # noqa: NPY002 - the global one is what may be disturbed
    trainer = build_trainer(folder, steps=3, **options)
    if watched:
        callback = attached(trainer, every=1)
    trainer.train()
    if watched:
        assert len(callback.history.measured) >= 3
        expected = "bfloat16" if options.get("bf16") else "float32"
        assert callback.history.model["dtype"] == expected
    after = (random.random(), float(np.random.random()), float(torch.rand(())))  # noqa: NPY002
    losses = [(e["step"], e["loss"]) for e in trainer.state.log_history if "loss" in e]
    modes = [part.training for part in trainer.model.modules()]
    return weights_of(trainer.model), (losses, modes, after)


def same(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(value, other[name]) for name, value in one.items())


def test_the_same_with_adapters_checkpointing_accumulation_and_bfloat16(tmp_path):
    options = {"lora": True, "gradient_checkpointing": True, "bf16": True}
    options |= {"gradient_accumulation_steps": 2}
    without = _train(tmp_path / "without", watched=False, **options)
    with_it = _train(tmp_path / "with", watched=True, **options)
    assert with_it[1] == without[1]
    assert same(without[0], with_it[0])


def test_weights_losses_modes_and_random_states_are_the_same(tmp_path, monkeypatch):
    """And the comparison sees a random state that was disturbed."""
    measure = MomentTaker.measure

    def disturbing(self, token):
        found = measure(self, token)
        monkeypatch.setattr("torch.set_rng_state", lambda state: None)
        torch.rand(1)
        return found

    without = _train(tmp_path / "without", watched=False)
    with_it = _train(tmp_path / "with", watched=True)
    assert with_it[1] == without[1]
    assert same(without[0], with_it[0])
    monkeypatch.setattr(MomentTaker, "measure", disturbing)
    assert not same(without[0], _train(tmp_path / "disturbed", watched=True)[0])


def test_a_loop_of_ones_own_under_autocast_is_not_disturbed():
    def train(watched):
        torch.manual_seed(0)
        module, tokenizer = causal(dropout=0.2)
        module.train()
        optimizer = torch.optim.AdamW(module.parameters(), 1e-2)
        watch = monitor(tokenizer=tokenizer)
        for _ in range(4):
            # The call stands within autocast, behind a forward that filled its cache.
            with torch.autocast("cpu", torch.bfloat16):
                ids = torch.randint(0, 40, (4, 16))
                loss = module(input_ids=ids, labels=ids).loss
                if watched:
                    watch.step(module, loss=loss.item())
                loss = loss + module(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert watched == bool(watch.history.measured)
        if watched:
            assert watch.history.model["dtype"] == "bfloat16"
        return weights_of(module)

    without, with_it = train(watched=False), train(watched=True)
    assert same(without, with_it)


class Counting:
    """What a forward may do to the buffers of a part: write, replace, and make them."""

    def __init__(self, part):
        part.register_buffer("calls", torch.zeros(()))
        part.register_buffer("largest", torch.zeros(2), persistent=False)
        self.error = None
        part.register_forward_hook(self)

    def __call__(self, part, inputs, output):
        part.calls += 1  # in place
        part.largest = torch.maximum(part.largest, output.detach().abs().max())  # another tensor
        if not part.training:
            part.register_buffer("made", torch.ones(1), persistent=False)
            if self.error is not None:
                raise self.error
        # The output hangs on a buffer that a later forward writes.
        return output * (1 + 0 * part.calls) + 1e-3 * part.largest[0]


@pytest.mark.parametrize("kind", ["hook", "observer", "failing", "breaking"])
def test_buffers_that_a_forward_writes_are_the_same(kind):
    def train(watched):
        torch.manual_seed(0)
        module, tokenizer = causal(dropout=0.2)
        mlp = module.transformer.h[0].mlp
        if kind == "observer":
            mlp.act = torch.nn.Sequential(mlp.act, MovingAverageMinMaxObserver())
        else:
            counting = Counting(mlp.c_proj)
        module.train()
        optimizer = torch.optim.AdamW(module.parameters(), 1e-2)
        watch = monitor(tokenizer=tokenizer, batch_size=20)
        names = []
        for step in range(4):
            ids = torch.randint(0, 40, (4, 16))
            loss = module(input_ids=ids, labels=ids).loss
            if watched:
                if step > 0 and kind == "failing":
                    counting.error = MemoryError("no room")
                if step > 0 and kind == "breaking":
                    counting.error = ZeroDivisionError("an error of the model itself")
                    with pytest.raises(ZeroDivisionError):
                        watch.step(module)
                    counting.error = None
                else:
                    watch.step(module)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            names.append([name for name, _ in module.named_buffers()])
        reasons = [moment.reason for moment in watch.history.moments]
        expected = {"failing": 3}.get(kind, 0)
        assert not watched or (watch.history.measured and sum(map(bool, reasons)) == expected)
        buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
        return {**dict(module.state_dict()), **buffers}, names, list(module.state_dict())

    without, with_it = train(watched=False), train(watched=True)
    assert with_it[1:] == without[1:]
    assert any("calls" in name or "min_val" in name for name in without[0])
    for name, value in without[0].items():
        assert torch.equal(value, with_it[0][name]), name
