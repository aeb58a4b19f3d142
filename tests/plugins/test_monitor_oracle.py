"""What a monitor gives is what plain scoring gives, and curves are of the same draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import character_tokenizer, recurrent_module
from watched import causal, monitor, small_set, steps_on

import canary
from canary.corpus.canaries import generate
from canary.errors import ModelError
from canary.models.loading import load
from canary.models.noise import EPSILON
from canary.plugins import moment_taker


def _monitor(tokenizer, **options):
    return monitor(tokenizer=tokenizer, **{"draws": 80, **options})


@pytest.mark.parametrize("kind", ["transformers", "recurrent"])
def test_exposures_are_those_of_candidates_scored_one_by_one(kind):
    module, tokenizer = causal()
    if kind == "recurrent":
        module, tokenizer = recurrent_module("GRU"), character_tokenizer()
    moment = _monitor(tokenizer).step(module)
    canaries, model = small_set(), load(module, tokenizer=tokenizer)
    format = canaries.formats[0]
    px = canary.score(model, [canaries.text(c) for c in canaries], batch_size=1)
    assert moment.px_bits == pytest.approx(px, abs=1e-3)
    everything = canary.score(
        model, [format.candidate(f) for f in map("{:04}".format, range(10**4))]
    )
    shares = np.array([(everything <= own + 1e-6).mean() for own in px])
    for share, found in zip(shares, moment.exposures, strict=True):
        assert found.lower_bits - 1.0 <= -np.log2(share) <= found.upper_bits + 1.0
        assert found.draws == 80


def test_the_same_model_gives_the_same_at_every_step_and_the_seed_decides_the_draws():
    module, tokenizer = causal()
    watch = _monitor(tokenizer)
    one, two = watch.step(module), watch.step(module)
    assert (one.step, two.step) == (1, 2)
    assert one.exposures == two.exposures
    assert one.px_bits == two.px_bits
    again = _monitor(tokenizer).step(module)
    assert again.exposures == one.exposures
    other = _monitor(tokenizer, seed=1).step(module)
    assert other.px_bits == one.px_bits
    assert other.exposures != one.exposures


def test_the_noise_of_16_bits_is_that_of_the_weights_at_each_moment(monkeypatch):
    # What is measured of so small a model lies below one rounding, which would hide it.
    monkeypatch.setitem(EPSILON, "bfloat16", 0.0)
    module, tokenizer = causal()
    module.bfloat16()
    watch = _monitor(tokenizer)
    noise, again = [], []
    for _ in range(2):
        assert watch.step(module).reason is None
        fresh = load(module, tokenizer=tokenizer).facts.noise_bits_per_token
        again.append(fresh)
        noise.append(watch.history.model["noise_bits_per_token"])
        assert noise[-1] == pytest.approx(fresh, rel=1e-3)
        with torch.no_grad():
            module.transformer.ln_f.weight.mul_(8)
    # Some arithmetic (without AVX) rounds all batches alike, and then there is no noise to move.
    assert (noise[1] > 2 * noise[0]) == (again[1] > 2 * again[0])


def test_differences_that_are_no_rounding_are_told_and_the_training_goes_on(monkeypatch):
    def unsound(model):
        raise ModelError("the model looks ahead", cure="none")

    module, tokenizer = causal()
    module.bfloat16()
    watch, strict = _monitor(tokenizer), _monitor(tokenizer, strict=True)
    watch.start(module)
    strict.start(module)
    monkeypatch.setattr(moment_taker, "remeasure_noise", unsound)
    assert watch.step(module).reason == "the model looks ahead"
    with pytest.raises(ModelError, match="looks ahead"):
        strict.step(module)


def test_a_space_smaller_than_the_draws_is_counted_whole():
    module, tokenizer = causal()
    canaries = generate("pin {digit:2}", repetitions=[1], per_repetition=3, controls=2, seed=0)
    watch = monitor(canaries, tokenizer=tokenizer, draws=1000)
    exact = canary.exposure(load(module, tokenizer=tokenizer), canaries)
    moment = watch.step(module)
    assert watch.history.formats[0].draws == 100
    for found, counted in zip(moment.exposures, exact, strict=True):
        assert found.bits == pytest.approx(counted.exposure.bits, abs=1e-9)


def test_chosen_steps_and_epochs():
    module, tokenizer = causal()
    by_steps = _monitor(tokenizer, every=4, steps=[1, 6])
    for _ in range(9):
        by_steps.step(module)
    assert [m.step for m in by_steps.history.moments] == [1, 4, 6, 8]
    by_epochs = _monitor(tokenizer, every="epoch")
    for step in range(1, 8):
        by_epochs.step(module, step=step, epoch=step / 3)
    assert [m.step for m in by_epochs.history.moments] == [3, 6]
    assert by_epochs.step(module, epoch=8 / 3, last=True).step == 8
    both = _monitor(tokenizer, every="epoch", steps=[4])  # measured once where both ask for it
    for step in range(1, 9):
        both.step(module, epoch=step / 4)
    assert [moment.step for moment in both.history.moments] == [4, 8]


def test_losses_are_means_since_the_last_asked_step():
    module, tokenizer = causal()
    watch = _monitor(tokenizer, every=2)
    for loss in (1.0, 3.0, 5.0, 8.0, 100.0):
        watch.step(module, loss=loss)
    assert [(x.step, x.value) for x in watch.history.losses] == [(2, 2.0), (4, 6.5)]


def test_each_measurement_is_logged_once_with_its_step(caplog):
    caplog.set_level("INFO", logger="canary.plugins.monitor")
    module, tokenizer = causal()
    logged = {}

    def log(numbers, *, step):
        assert step not in logged
        logged[step] = numbers

    watch = _monitor(tokenizer, every=2, log=log, stop_above_bits=4.0)
    for _ in steps_on(
        module, tokenizer([small_set().text(small_set().injected[0])])["input_ids"], 3
    ):
        watch.step(module)
    assert list(logged) == [2]
    state = watch.state_dict()
    last = watch.finish()  # which measures the last step, for a limit was given
    assert list(logged) == [2, 3]
    assert logged[3] == last.main_metrics()
    said = [line for line in caplog.messages if "median exposure" in line]
    assert said == [f"canary: {last.line(moment)}" for moment in last.measured]
    assert said[0].startswith("canary: step 2: median exposure 8 copies ")
    assert "1 copy " in said[0]
    assert ", controls " in said[0]
    groups = [f"canary/exposure_{group}" for group in ("controls", "1_copies", "8_copies")]
    kinds = ("", "_lower", "_upper", "_censored", "_skew_normal")
    names = {f"{group}{kind}" for group in groups for kind in kinds}
    few = {"canary/exposure_max", "canary/share_above_all_draws"}
    every = last.metrics()
    least = {g: every[f"{g}_lower"] for g in groups if every[f"{g}_censored"]}
    assert {n: logged[3].get(f"{n}_at_least") for n in groups} == {n: least.get(n) for n in groups}
    assert least
    maximum = {f"canary/exposure_max{end}" for end in ("_lower", "_censored")}
    assert maximum <= every.keys()  # no draw is as likely as the most exposed canary
    assert logged[3]["canary/exposure_max_at_least"] == every["canary/exposure_max_lower"]
    assert every["canary/exposure_max_lower"] < every["canary/exposure_max"]
    at_least = {f"{name}_at_least" for name in (*least, "canary/exposure_max")}
    assert logged[3].keys() == {*groups, *few, *at_least}
    again = _monitor(tokenizer, every=2, log=log, log_all=True, stop_above_bits=4.0)
    again.load_state_dict(state)
    again.step(module)
    again.pause()
    assert list(logged) == [2, 3, 4]
    assert logged[4].keys() == names | few | maximum | {"canary/seconds"}
    assert all(logged[4][f"{group}_lower"] <= logged[4][group] for group in groups)
    exposed = [e for c, e in zip(last.canaries, last.measured[-1].exposures, strict=True)
               if c.repetitions]  # fmt: skip
    assert logged[3]["canary/exposure_max"] == max(e.place_bits for e in exposed)
    share = sum(not e.hits for e in exposed) / len(exposed)
    assert logged[3]["canary/share_above_all_draws"] == share


def test_memorized_canaries_pass_the_limit_and_others_do_not():
    module, tokenizer = causal(dropout=0.0)
    canaries = small_set()
    learned = [canaries.text(c) for c in canaries if c.repetitions == 8]
    watch = _monitor(tokenizer, draws=200, stop_above_bits=5.0)
    for _ in steps_on(module, tokenizer(learned)["input_ids"], 200):
        moment = watch.step(module)
        if watch.exceeded:
            break
    assert watch.history.stopped_at == moment.step < 200
    groups = watch.history.places()
    lower = {n: np.median([moment.exposures[i].lower_bits for i in g]) for n, g in groups.items()}
    assert lower[8] > 5.0 > max(lower[0], lower[1])
    # At none of three moments before it was exceeded.
    assert all(
        np.median([m.exposures[i].lower_bits for i in groups[8]]) <= 5.0
        for m in watch.history.moments[:-1]
    )
    estimates = [moment.curve_bits[i] for i in groups[8]]
    assert min(estimates) > 5.0
