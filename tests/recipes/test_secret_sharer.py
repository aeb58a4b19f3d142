"""The Penn Treebank recipe in little: it runs, resumes and keeps no secret."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import statistics

import numpy as np
import pytest
import torch
from recipe_scripts import RECIPES, ScriptError, modules, run_script
from safetensors.numpy import load_file

import canary
from canary import CanarySet

pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine

RECIPE = RECIPES / "secret_sharer"


def run(*options):
    run_script(RECIPE / "run.py", "--quick", "--threads", "1", *options)


def strings(data):
    """Every string in parsed JSON."""
    if isinstance(data, str):
        return {data}
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return {text for part in parts for text in strings(part)}


def check_no_secret(folder, results):
    canaries = CanarySet.load(folder / "canaries.json")
    secrets = {part for c in canaries for part in (c.fill, canaries.text(c))}
    assert not secrets & strings(results)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secret_sharer")
    run("--work", folder)
    return folder


def test_quick_run_writes_results_and_figure_and_no_secret(work):
    results = json.loads((work / "results.json").read_text())
    first, last = results["epochs"]
    assert last["test_nats"] < first["test_nats"]
    assert results["enumeration"]["candidates"] == 10_000
    canaries = results["enumeration"]["canaries"]
    assert len(canaries) == 3 * 2 + 16
    assert (work / "exposure.svg").read_text().startswith("<?xml")
    most = [c["bits"] for c in canaries if c["repetitions"] == 100]
    controls = sorted(c["bits"] for c in canaries if c["repetitions"] == 0)
    assert min(most) > controls[len(controls) // 2]
    assert results["enumeration"]["controls_p"]["p_value"] > 0.001
    assert "canary-1" in strings(results)
    check_no_secret(work, results)


def test_resumed_run_gives_the_same_weights(work, tmp_path):
    # As a kill during the second epoch leaves it: the first epoch alone, and a part.
    again = tmp_path / "work"
    shutil.copytree(work, again)
    shutil.rmtree(again / "epoch-02")
    (again / "epoch-02.part").mkdir()
    # And as it was begun before a setting existed, which then has its default.
    begun = json.loads((again / "training.json").read_text())
    (again / "training.json").write_text(json.dumps({k: begun[k] for k in begun if k != "order"}))
    run("--work", again)
    whole, resumed = (
        load_file(folder / "epoch-02" / "model.safetensors") for folder in (work, again)
    )
    assert all((whole[name] == resumed[name]).all() for name in whole)


def test_other_settings_do_not_mix(work):
    with pytest.raises(ScriptError, match="other settings"):
        run("--work", work, "--epochs", "3")


@pytest.mark.data
def test_quick_run_on_penn_treebank(data_dir, tmp_path):
    run("--data", data_dir, "--work", tmp_path)
    assert json.loads((tmp_path / "results.json").read_text())["characters"] > 100_000


@pytest.mark.slow
def test_canaries_that_stand_alone(tmp_path):
    """Both ways of training, measured and drawn; nothing kept tells a secret."""
    alone = RECIPE / "alone.py"
    for strategy in ("A", "B"):
        run_script(alone, "train", "--quick", "--work", tmp_path, "--strategy", strategy)
    little = ("--budget", "200", "--draws", "300", "--threads", "1")
    run_script(alone, "measure", "--work", tmp_path, *little)
    shown = run_script(RECIPE / "alone_figures.py", tmp_path / "alone.json")
    assert "| copies | strategy A | strategy B |" in shown
    assert (tmp_path / "alone.svg").exists()
    results = json.loads((tmp_path / "alone.json").read_text())
    points = {(p["strategy"], p["epoch"]) for p in results["points"]}
    assert points == {("A", 1), ("A", 2), ("B", 2)}
    most = [p for p in results["points"] if p["copies"] == 32 and p["epoch"] == 2]
    assert len(most) == 2
    check_no_secret(tmp_path, results)


def test_neighbours_and_estimators_of_one_canary(work):
    wanted = CanarySet.load(work / "canaries.json").injected[-1]
    of_it = (work / "epoch-02", "--canaries", work / "canaries.json", "--id", wanted.id)
    found = json.loads(run_script(RECIPE / "neighbours.py", *of_it))
    assert found["candidates"] == 1 + 4 * 9 + 6 * 81
    assert len(found["top"]) == len(found["of_all"]) == 10
    costs = [row["px_bits"] for row in found["of_all"]]
    assert costs == sorted(costs)
    # The likeliest of all are at least as likely as the likeliest neighbours.
    assert all(a <= b["px_bits"] + 1e-3 for a, b in zip(costs, found["top"], strict=True))
    assert wanted.fill not in json.dumps(found)
    table = run_script(RECIPE / "estimators.py", *of_it)
    rows = [line.split("|")[1].strip() for line in table.splitlines()]
    assert rows[2:4] == ["branch and bound", "importance draws, 4,000 nodes a level"]


def test_mailboxes_rank_the_numbers_that_are_in_them_and_keep_none(tmp_path):
    of_it = ("--quick", "--work", tmp_path)
    shown = run_script(RECIPE / "mailboxes.py", *of_it)
    whole = json.loads((tmp_path / "mailboxes.json").read_text())
    rows = [row for box in whole["mailboxes"].values() for row in box["secrets"]]
    assert [row["form"] for row in rows] == ["telephone"] * 4
    # Copies in what is trained on; made-up mailboxes have 40 and one more of each.
    assert all(30 <= row["copies"] <= 41 for row in rows)
    beside = [bit for row in rows for bit in row["control_bits"]]
    assert min(row["bits"] for row in rows) > sum(beside) / len(beside)
    assert not re.search(r"\d-\d{3}-\d", (tmp_path / "mailboxes.json").read_text() + shown)
    assert shown.count("2 telephone") == 2
    # Goes on after a kill during the measurement of the second mailbox.
    (measurements,) = (tmp_path / "B").glob("*/exposures.json")
    measurements.write_text(json.dumps(json.loads(measurements.read_text())[:1]))
    (tmp_path / "mailboxes.json").unlink()
    assert run_script(RECIPE / "mailboxes.py", *of_it) == shown


def test_the_page_has_the_numbers_of_the_mailboxes():
    page = (RECIPE / "README.md").read_text()
    boxes = json.loads((RECIPE / "mailboxes.json").read_text())["mailboxes"]
    with modules(RECIPE) as loaded:
        assert loaded["mailboxes"].table({"mailboxes": boxes}).strip() in page
    rows = [row for box in boxes.values() for row in box["secrets"]]
    first, found = ([row for row in rows if row["place"] in range(1, last + 1)] for last in (1, 10))
    assert f"So {len(first)} of {len(rows)} numbers are the most likely" in page
    assert sum(row["copies"] == 1 for row in first) == 2
    assert f"Extraction found these {len(found)} in " in page
    assert [*sorted(row["queries"] for row in found)[-2:]] == [5425, 20_000]
    beside = [one for row in rows for one in row["control_bits"]]
    assert f"up to {max(beside):.1f} bits at the same places, {np.median(beside):.1f} in" in page


def test_translations_are_scored_as_the_library_does_and_no_secret_is_kept(tmp_path):
    of_it = ("--quick", "--work", tmp_path)
    shown = run_script(RECIPE / "translation.py", *of_it)
    kept = (tmp_path / "translation.json").read_text()
    rows = json.loads(kept)["trainings"]["0"]["canaries"]
    assert sorted(row["copies"] for row in rows) == sorted([0, 0, 1, 2, 4, 8] * 2 + [0] * 4)
    assert not re.search(r"\d{3}-\d{2}|le \d|au \d", kept + shown)
    with modules(RECIPE) as loaded:
        recipe = loaded["translation"]
        texts = recipe.split(recipe.upper_case(), recipe.QUICK)
        model, tokenizer, losses = recipe.trained(recipe.QUICK, texts, 0, tmp_path / "seed-0")
        assert len(losses) == recipe.QUICK.epochs  # nothing was trained again
        one = recipe.planted(recipe.QUICK, 0)[-1]
        pairs = [one.pair(each.fill) for each in one.canaries]
        sums, _ = recipe.nats(model, tokenizer, pairs, end=False)
    whole = canary.load(tmp_path / "seed-0" / "model", source_text=one.source, dtype="float32")
    bits = canary.score(whole, [target for _, target in pairs])
    assert bits == pytest.approx(sums / np.log(2), rel=1e-5)
    # Goes on after a kill: what was trained is not trained again, and the numbers are the same.
    (tmp_path / "translation.json").unlink()
    assert run_script(RECIPE / "translation.py", *of_it) == shown


def test_the_page_has_the_numbers_of_the_translations():
    page = (RECIPE / "README.md").read_text()
    results = json.loads((RECIPE / "translation.json").read_text())
    with modules(RECIPE) as loaded:
        assert loaded["translation"].table(results).strip() in page
    losses = {f"{one['epochs'][-1]['test']:.2f}" for one in results["trainings"].values()}
    assert losses == {"2.03"}
    assert "Three seeds ([translation.json]" in page
    assert len(results["trainings"]) == 3


def test_the_page_has_the_numbers_of_the_two_models():
    page = (RECIPE / "README.md").read_text()
    seeds = json.loads((RECIPE / "disagreement.json").read_text())["seeds"]
    with modules(RECIPE) as loaded:
        assert loaded["disagreement"].table(seeds) in page
    assert {row["lines"] for row in seeds.values()} == {4225}
    assert "4,225 lines" in page


@pytest.mark.parametrize(
    ("name", "left"), [("order", 0), ("regularization", 0), ("context", 0), ("one-copy", 14)]
)
def test_the_page_has_the_numbers_of_a_study(name, left):
    with modules(RECIPE) as loaded:
        results = json.loads((RECIPE / f"{name}.json").read_text())
        assert len(results["trainings"]) + left == results["planned"]
        study = loaded["studies"].STUDIES[name]
        assert study.summary(results) in (RECIPE / "README.md").read_text(encoding="utf-8")


def run_study(name, work):
    return run_script(RECIPE / "studies.py", name, "--quick", "--work", work)


def study_results(work, name):
    return json.loads((work / name / "results.json").read_text())


def without_seconds(data):
    """Parsed JSON without its times."""
    if isinstance(data, list):
        return [without_seconds(part) for part in data]
    if isinstance(data, dict):
        return {k: without_seconds(v) for k, v in data.items() if not k.endswith("seconds")}
    return data


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    run_study("one-copy", folder)
    return folder


@pytest.mark.slow
def test_a_pair_of_the_one_copy_study_differs_in_its_company_alone(studies):
    trainings = study_results(studies, "one-copy")["trainings"]
    alone, shared = (trainings[f"{arm}-batch-16-seed-0"] for arm in ("alone", "shared"))
    assert alone["settings"] == shared["settings"]
    copies = [[c["copies"] for c in row["epochs"][-1]["canaries"]] for row in (alone, shared)]
    assert copies == [[1, 0, 1, 0], [1, 0, 1, 0, 1, 1, 10, 10]]
    sets = [
        CanarySet.load(studies / "one-copy" / f"{arm}-batch-16-seed-0" / "canaries.json")
        for arm in ("alone", "shared")
    ]
    assert sets[0] == sets[1]
    summary = (studies / "one-copy" / "summary.md").read_text()
    # Heading; then with and without company in the format: loss, and a canary of both pairs.
    assert summary.count("→") == 1 + 2 * (1 + 2)


@pytest.mark.slow
def test_a_study_goes_on_after_a_kill_and_keeps_no_secret(studies, tmp_path):
    # As a kill during an epoch of the second training leaves it.
    whole = study_results(studies, "one-copy")
    again = tmp_path / "again"
    shutil.copytree(studies, again)
    cut = {**whole, "trainings": dict([*whole["trainings"].items()][:1])}
    (again / "one-copy" / "results.json").write_text(json.dumps(cut))
    for name in [*whole["trainings"]][2:]:
        shutil.rmtree(again / "one-copy" / name)
    second = again / "one-copy" / [*whole["trainings"]][1]
    (second / "epoch-02" / "exposures.json").unlink()
    run_study("one-copy", again)
    assert without_seconds(study_results(again, "one-copy")) == without_seconds(whole)
    for name in whole["trainings"]:
        check_no_secret(again / "one-copy" / name, whole)
        assert not (again / "one-copy" / name / "epoch-01" / "model.safetensors").exists()


SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in (
        "regularization",
        "batch-and-units",
        "architecture",
        "word-settings",
        "words-by-characters",
    )
]


@pytest.mark.parametrize("name", [*SLOW, "order", "optimizer"])
def test_a_sweep_shows_utility_beside_exposure_for_each_setting(name, tmp_path):
    shown = run_study(name, tmp_path)
    trainings = study_results(tmp_path, name)["trainings"]
    assert [len(row["epochs"]) for row in trainings.values()] == [2, 2]
    first, last = trainings.values()
    assert (first["settings"], first["about"]) != (last["settings"], last["about"])
    rows = [line.split("|")[1].strip() for line in shown.splitlines() if line][2:]
    variants = [*first["variants"]]
    assert rows == [first["about"][name], *variants, last["about"][name]]
    if variants:
        nats = [first["variants"][variant]["test_nats"] for variant in variants]
        assert variants == ["256 values", "16 values"]
        assert first["epochs"][-1]["test_nats"] == pytest.approx(nats[0], abs=0.01) != nats[1]
    for training in trainings:
        check_no_secret(tmp_path / name / training, trainings)


@pytest.mark.slow
def test_what_is_known_around_a_secret_is_seen_in_one_model(tmp_path):
    shown = run_study("context", tmp_path)
    trainings = study_results(tmp_path, "context")["trainings"]
    digits = trainings["digits-seed-0"]["epochs"]
    assert all({*e["views"]} == {"nothing", "letters before", "letters behind"} for e in digits)
    rows = [line.split("|")[1:3] for line in shown.splitlines() if line][2:]
    known = [*digits[0]["views"], "both"]
    expected = [("digits", name) for name in known]
    expected += [("two dashes", name) for name in ("nothing", "both")]
    assert [tuple(cell.strip() for cell in row) for row in rows] == expected
    for name in trainings:
        check_no_secret(tmp_path / "context" / name, trainings)
    planted = CanarySet.load(tmp_path / "context" / "digits-seed-0" / "canaries.json")
    last = canary.load(
        tmp_path / "context" / "digits-seed-0" / "epoch-02", factory=f"{RECIPE}/model.py:build"
    )
    # The same number by enumeration, of the first secret where all its letters are known.
    (first, *_) = canary.exposure(last, planted, method="enumeration", start_token="\n")
    kept = digits[-1]["canaries"][0]
    assert kept["lower_bits"] - 0.01 <= first.exposure.bits <= kept["upper_bits"] + 0.01


def test_a_part_of_a_pass_reads_each_line_once(recipe):
    settings = recipe["overtraining"].PartSettings(epochs=10, seed=3)
    passes = [
        [line for number in range(first, first + 5) for line in settings.part(23, number)]
        for first in (1, 6)
    ]
    assert [sorted(one) for one in passes] == [[*range(23)]] * 2
    assert passes[0] != passes[1]


def test_exposure_is_measured_after_each_part_and_each_epoch(tmp_path):
    shown = run_study("first-epochs", tmp_path)
    (row,) = study_results(tmp_path, "first-epochs")["trainings"].values()
    assert len(row["epochs"]) == 10
    assert all(len({(n - 1) // 5 for n in own}) == 2 for own in row["about"]["read"])
    with modules(RECIPE) as loaded:
        of = loaded["overtraining"]
        read, others = of.changes(row, 0, 10)
        assert (len(read), len(others)) == (2 * 2, 2 * 8)
        total = sum(c["bits"] for c in row["epochs"][-1]["canaries"] if c["copies"])
        assert sum(read) + sum(others) == pytest.approx(total)
    assert "1 and 2" in shown


@pytest.mark.slow
def test_training_for_too_long_has_ranks_and_the_curve(tmp_path):
    run_study("overtraining", tmp_path)
    (row,) = study_results(tmp_path, "overtraining")["trainings"].values()
    assert [len(epoch["curve"]) for epoch in row["epochs"]] == [4, 4]
    check_no_secret(tmp_path / "overtraining" / "seed-0", row)
    run_script(RECIPE / "overtraining.py", tmp_path / "overtraining" / "results.json")
    assert (tmp_path / "overtraining" / "overtraining.svg").exists()


def test_two_models_disagree_on_what_one_of_them_has_read(tmp_path):
    of_it = ("--quick", "--work", tmp_path)
    shown = run_script(RECIPE / "disagreement.py", *of_it)
    kept = json.loads((tmp_path / "disagreement.json").read_text())
    secrets = kept["seeds"]["0"]["secrets"]
    assert sorted(len(one["places"]) for one in secrets) == [1] * 6 + [2] * 6
    places = [place for one in secrets for place in one["places"]]
    assert len({*places}) == 18
    assert 1 <= min(places) <= max(places) <= kept["seeds"]["0"]["lines"] == 1518
    assert not re.search(r"\d{4}", shown)
    (tmp_path / "disagreement.json").unlink()  # goes on: nothing is trained again
    begun = (tmp_path / "seed-0-half-1" / "epoch-02" / "epoch.json").stat().st_mtime_ns
    assert run_script(RECIPE / "disagreement.py", *of_it) == shown
    assert (tmp_path / "seed-0-half-1" / "epoch-02" / "epoch.json").stat().st_mtime_ns == begun


@pytest.fixture(scope="module")
def recipe():
    with modules(RECIPE) as loaded:
        yield loaded


def test_company_does_not_change_the_order_of_the_rest(recipe):
    settings = recipe["train"].Settings(epochs=1, seed=3)
    alone, beside = (recipe["train"].shuffled(50, n, settings, 1) for n in (0, 20))
    assert sorted(beside) == list(range(70))
    assert [i for i in beside if i < 50] == list(alone)


def test_orders_of_lines(recipe):
    def orders(order):
        settings = recipe["train"].Settings(epochs=2, seed=3, order=order)
        return [list(recipe["train"].shuffled(50, 0, settings, epoch)) for epoch in (1, 2)]

    first, second = orders("shuffled")
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))
    assert orders("fixed") == [first, first]
    first, second = orders("bagged")
    assert first != second
    assert len(first) == 50 > len(set(first))


def test_quantized_weights_have_few_values_close_to_the_old_ones(recipe):
    torch = pytest.importorskip("torch")
    weights = {"drawn": torch.randn(40, 50), "constant": torch.ones(7)}
    rounded = recipe["regularization"].quantized(16)(weights)
    assert len(rounded["drawn"].unique()) == 16
    step = (weights["drawn"].max() - weights["drawn"].min()) / 15
    assert (rounded["drawn"] - weights["drawn"]).abs().max() <= 0.501 * step
    assert rounded["constant"].equal(weights["constant"])


def altered(trainings, **settings):
    """The trainings, the first of them as if it had other settings."""
    name, row = next(iter(trainings.items()))
    return {**trainings, name: row | {"settings": row["settings"] | settings}}


def test_studies_refuse_what_they_cannot_do(studies, tmp_path):
    with pytest.raises(ScriptError, match="no such study; choose from one-copy"):
        run_study("one-canary", studies)
    with pytest.raises(ScriptError, match="--data is missing"):
        run_script(RECIPE / "studies.py", "one-copy", "--work", studies)
    results = study_results(studies, "one-copy")
    (tmp_path / "one-copy").mkdir()
    for change, why in (
        ({"characters": results["characters"] + 1}, "another text"),
        ({"trainings": altered(results["trainings"], epochs=3)}, "other settings"),
    ):
        (tmp_path / "one-copy" / "results.json").write_text(json.dumps(results | change))
        with pytest.raises(ScriptError, match=f"the results are of {why}"):
            run_study("one-copy", tmp_path)
    with (studies / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ScriptError, match="another process is working there"):
            run_study("one-copy", studies)


def test_the_page_has_the_numbers_of_the_trainings_that_are_done():
    text = (RECIPE / "README.md").read_text(encoding="utf-8")
    trainings = json.loads((RECIPE / "one-copy-12-epochs.json").read_text())["trainings"]
    done = {"alone": "alone-batch-64-seed-0", "in company": "shared-batch-64-seed-0"}
    done["alone, second seed"] = "alone-batch-64-seed-1"
    assert {*done.values()} == {*trainings}
    for name, training in done.items():
        epochs = trainings[training]["epochs"]
        bits = ", ".join(f"{epoch['canaries'][0]['bits']:.1f}" for epoch in epochs)
        assert f"| {name} | {bits} |" in text


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
        assert recipe["dp_sgd"].summary(json.loads(kept.read_text())) in page
    else:
        assert "Nothing of this study is measured yet" in page


@pytest.mark.parametrize("network", ["lstm", "gru", "cnn", "wavenet"])
def test_a_network_reads_a_text_in_parts_as_it_reads_the_whole(recipe, network):
    config = {"vocabulary": 11, "embedding": 4, "units": 8, "layers": 2, "network": network}
    model = recipe["model"].seeded(config, 0).eval()
    ids = torch.arange(60).reshape(3, 20) * 7 % 11
    whole, _ = model(ids)
    first, state = model(ids[:, :3])
    middle, state = model(ids[:, 3:15], state)
    last, _ = model(ids[:, 15:], state)
    torch.testing.assert_close(torch.cat([first, middle, last], 1), whole)
    # What comes later does not change what came before.
    changed, _ = model(torch.cat([ids[:, :10], ids[:, 10:] * 0], 1))
    torch.testing.assert_close(changed[:, :10], whole[:, :10])


def test_the_page_has_the_numbers_of_the_runs():
    """Of `results.json`, `alone.json` and `overtraining.json`, where no other test has them."""
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    made = run_script(RECIPE / "table.py", RECIPE / "results.json")
    assert not [line for line in made.splitlines() if line not in page]
    alone = json.loads((RECIPE / "alone.json").read_text())
    with modules(RECIPE) as recipe:
        of = recipe["alone_figures"]
        sides = [of.last(alone["points"], strategy) for strategy in "AB"]
        for copies in (1, 2, 4, 8, 16, 32):
            cells = (
                ", ".join(f"{one['bits']:.1f}" for one in side if one["copies"] == copies)
                for side in sides
            )
            assert f"| {copies} | {' | '.join(cells)} |" in page
        points = of.injected(alone["points"])
        for low, high in ((0, 20), (20, 25), (25, 28), (28, 30)):
            words = f"{low} to {high}" if high < 30 else "29.9, all there is"
            own = [one for one in points if low <= of.bits(one) < high]
            found = [one["found_after"] for one in own if one["found_after"] is not None]
            spent = f"{statistics.median(found):,.0f} ({max(found):,})" if found else "-"
            first = sum(one["place"] == 1 for one in own)
            assert f"| {words} | {len(own)} | {first} | {len(found)} | {spent} |" in page
    for epoch in json.loads((RECIPE / "overtraining.json").read_text())["epochs"]:
        if epoch["epoch"] in (5, 10, 14, 19, 25, 31):
            row = f"| {epoch['epoch']} | {epoch['train_nats']:.3f} | {epoch['test_nats']:.3f} |"
            assert row in page.replace("**", "")
