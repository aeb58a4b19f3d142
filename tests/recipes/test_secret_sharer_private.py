"""Training with differential privacy: clipping, noise, the accountant, and the study."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from recipe_scripts import has_table, modules
from safetensors.numpy import load_file
from secret_sharer import RECIPE, check_no_secret, run_study, strings, study_results

import canary
from canary import CanarySet

pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine


@pytest.fixture(scope="module")
def recipe():
    with modules(RECIPE) as loaded:
        yield loaded


def little_lstm(recipe, lengths, *, vocabulary=11):
    """A model in double precision, and random lines of these lengths, at most 30 read."""
    config = {"vocabulary": vocabulary, "embedding": 4, "units": 6, "layers": 2}
    model = recipe["model"].seeded(config, 1).double()
    rng = np.random.default_rng(5)
    lines = recipe["train"].Lines(
        np.zeros(1, np.int64), [rng.integers(0, vocabulary, n) for n in lengths]
    )
    return model, lines


def one_at_a_time(model, lines, norm, width):
    """The clipped sum by a backward pass for each line, unpadded, and the norms."""
    sums, norms = {name: 0.0 for name, _ in model.named_parameters()}, []
    for line in lines.all:
        text = torch.from_numpy(np.concatenate([lines.start, line[:width]]))
        model.zero_grad()
        logits, _ = model(text[None, :-1])
        torch.nn.functional.cross_entropy(logits[0], text[1:], reduction="sum").backward()
        found = {name: value.grad for name, value in model.named_parameters()}
        norms.append(torch.cat([g.flatten() for g in found.values()]).norm().item())
        for name, g in found.items():
            sums[name] = sums[name] + min(1.0, norm / norms[-1]) * g
    return sums, norms


@pytest.mark.parametrize("norm", [0.5, 3.0, float("inf")])
def test_clipped_gradients_are_those_of_one_record_at_a_time(recipe, norm):
    model, lines = little_lstm(recipe, (1, 2, 7, 7, 30, 45))
    expected, norms = one_at_a_time(model, lines, norm, 30)
    if norm == 3.0:  # the norms of some records are above, of others below
        assert min(norms) < norm < max(norms)
    rows = recipe["clipping"].rows_of(lines.all, 0, 30)
    sums, found, nats = recipe["clipping"].clipped_sum(model, *rows, norm)
    assert found.tolist() == pytest.approx(norms, rel=1e-5)
    assert {*sums} == {*expected}
    for name, value in expected.items():
        torch.testing.assert_close(sums[name], value, rtol=1e-5, atol=1e-7)
    settings = recipe["dp_sgd"].PrivateSettings(epochs=1, window=30)
    characters = 1 + 2 + 7 + 7 + 30 + 30
    assert settings.held_out(model, lines) == pytest.approx(nats / characters)


def test_a_private_step_adds_noise_in_units_of_the_norm_and_nothing_else(recipe):
    model, lines = little_lstm(recipe, (5, 9, 12, 20))
    drawn, norm = [0, 1, 3], 2.0
    kept = recipe["train"].Lines(lines.start, [lines.all[i] for i in drawn])
    expected, _ = one_at_a_time(model, kept, norm, 30)
    grads = []
    for epsilon in (None, 0.5):
        settings = recipe["dp_sgd"].PrivateSettings(
            epochs=3, batch=5, window=30, norm=norm, epsilon=epsilon, parts=4
        )
        torch.manual_seed(0)
        _, characters = settings.gradient(model, lines, drawn)
        assert characters == 5 + 9 + 20
        grads.append({name: value.grad.clone() for name, value in model.named_parameters()})
    for name, value in expected.items():
        torch.testing.assert_close(grads[0][name], value / (5 * norm), rtol=1e-5, atol=1e-8)
    noise = torch.cat([(grads[1][name] - grads[0][name]).flatten() for name in expected])
    # Of 750 normal draws, within four standard errors of their spread.
    spread = settings.noise / 5
    assert noise.std().item() == pytest.approx(spread, rel=4 / np.sqrt(2 * len(noise)))
    # A step that drew nothing still adds noise: or else one would see that it drew nothing.
    settings.gradient(model, lines, [])
    assert all(value.grad.abs().sum() > 0 for value in model.parameters())
    with pytest.raises(ValueError, match="without clipping there is no epsilon"):
        recipe["dp_sgd"].PrivateSettings(epochs=1, norm=None, epsilon=1.0)


@pytest.mark.parametrize(("noise", "share", "steps"), [(1.2, 1 / 36, 720), (4.0, 0.1, 50)])
def test_the_accountant_integrates_the_moments_of_a_sampled_gaussian(recipe, noise, share, steps):
    dp_sgd = recipe["dp_sgd"]
    z = np.linspace(-60 * noise, 80 * noise + 80, 40_001)
    density = np.exp(-((z / noise) ** 2) / 2) / (noise * np.sqrt(2 * np.pi))
    ratio = np.log1p(share * np.expm1((2 * z - 1) / (2 * noise**2)))
    found = []
    for order in range(2, 40):
        with np.errstate(under="ignore"):
            moment = np.trapezoid(density * np.exp(order * np.minimum(ratio, 700 / order)), z)
        rest = np.log1p(-1 / order) - (np.log(dp_sgd.DELTA) + np.log(order)) / (order - 1)
        found.append(steps * np.log(moment) / (order - 1) + rest)
    assert found.index(min(found)) < len(found) - 1
    epsilon = dp_sgd.epsilon_of(noise, share, steps)
    assert epsilon == pytest.approx(min(found), rel=1e-6)
    assert dp_sgd.noise_for(epsilon, share, steps) == pytest.approx(noise, rel=1e-4)


def test_the_accountant_says_what_opacus_says(recipe):
    """Of the same orders; skipped without opacus."""
    rdp = pytest.importorskip("opacus.accountants.analysis.rdp", reason="needs opacus")
    dp_sgd = recipe["dp_sgd"]
    orders = [int(order) for order in dp_sgd.ORDERS]
    for noise in (0.8, 1.2, 6.7):  # below, the least order would be best
        found = rdp.compute_rdp(q=1 / 36, noise_multiplier=noise, steps=720, orders=orders)
        epsilon, _ = rdp.get_privacy_spent(orders=orders, rdp=found, delta=dp_sgd.DELTA)
        assert dp_sgd.epsilon_of(noise, 1 / 36, 720) == pytest.approx(epsilon, rel=1e-6)


def test_private_trainings_have_both_bounds_on_epsilon_and_go_on(recipe, tmp_path):
    shown = run_study("dp-sgd", tmp_path)
    trainings = study_results(tmp_path, "dp-sgd")["trainings"]
    private, plain = trainings.values()
    assert (private["settings"]["epsilon"], private["settings"]["norm"]) == (89.0, 10.0)
    assert plain["settings"]["norm"] is None
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.split("\n")]
    rows = [row for row in rows if row]
    assert [row[:2] for row in rows[2:]] == [["RMSprop", "89"], ["RMSprop", "none, not clipped"]]
    assert {len(row) for row in rows} == {11}  # the heads, the rule and two rows
    for row in (private, plain):
        last = row["epochs"][-1]
        assert sorted(c["copies"] for c in last["canaries"]) == [0, 0, 1, 8]
        assert {bound["guesses"] for bound in last["bounds"].values()} == {12}
    assert private["epochs"][-1]["noise"] > 0 == plain["epochs"][-1]["noise"]
    assert "verdict" not in plain["epochs"][-1]["bounds"]["any"]
    # The command says the same of the audit that is kept.
    folder = tmp_path / "dp-sgd" / "RMSprop-epsilon-89-seed-0"
    coins = CanarySet.load(folder / "company.json")
    audit = canary.Audit.load(folder / "epoch-02" / "coins-audit.json")
    given = {"canaries": coins, "delta": recipe["dp_sgd"].DELTA, "guesses": 12}
    given |= {"mechanism": "gaussian", "trust_injection": True}
    verdict = canary.check(audit, max_epsilon=89.0, **given)
    (of_epsilon,) = [one for one in verdict.findings if one.check == "epsilon"]
    assert of_epsilon.outcome == private["epochs"][-1]["bounds"]["gaussian"]["verdict"]
    for name in trainings:
        check_no_secret(tmp_path / "dp-sgd" / name, trainings)
    assert not {coins.text(c) for c in coins} & strings(trainings)
    # As a kill during the last measurement of the first training leaves it.
    path = tmp_path / "dp-sgd" / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"trainings": {}}))
    (folder / "epoch-02" / "exposures.json").unlink()
    assert run_study("dp-sgd", tmp_path) == shown


def test_a_resumed_private_training_draws_the_same_lines_and_noise(recipe, tmp_path):
    texts = recipe["corpus"].shortened(recipe["corpus"].prose(), 60)
    tokenizer = recipe["corpus"].character_tokenizer(texts, set())
    config = {"vocabulary": tokenizer.get_vocab_size(), "embedding": 4, "units": 6, "layers": 1}
    settings = recipe["dp_sgd"].PrivateSettings(epochs=2, batch=15, window=40, epsilon=2.0, parts=4)
    weights = []
    for _ in range(2):
        *_, last = recipe["train"].train(config, tokenizer, texts, settings, tmp_path)
        weights.append(load_file(last.folder / "model.safetensors"))
        shutil.rmtree(last.folder)
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])


def test_the_page_has_the_numbers_of_the_private_trainings(recipe):
    kept, page = RECIPE / "dp-sgd.json", (RECIPE / "README.md").read_text()
    if kept.exists():
        assert has_table(page, recipe["dp_sgd"].summary(json.loads(kept.read_text())))
    else:
        assert "Nothing of this study is measured yet" in page
