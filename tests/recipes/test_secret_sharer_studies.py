"""Studies of the recipe in little, and the page's numbers of those that are measured."""

from __future__ import annotations

import fcntl
import json
import shutil

import pytest
import torch
from recipe_scripts import ScriptError, has_table, modules, run_script
from secret_sharer import RECIPE, check_no_secret, run_study, study_results

import canary
from canary import CanarySet

pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine


@pytest.fixture(scope="module")
def recipe():
    with modules(RECIPE) as loaded:
        yield loaded


@pytest.mark.parametrize(
    "name",
    [
        "order",
        "regularization",
        "context",
        "overtraining",
        "first-epochs",
        "optimizer",
        "batch-and-units",
        "architecture",
        "word-settings",
        "words-by-characters",
        "strategies",
        "one-copy",
    ],
)
def test_the_page_has_the_numbers_of_a_study(name):
    with modules(RECIPE) as loaded:
        results = json.loads((RECIPE / f"{name}.json").read_text())
        assert len(results["trainings"]) == results["planned"]
        assert all("variants" in row for row in results["trainings"].values())  # to its end
        study = loaded["studies"].STUDIES[name]
        page = (RECIPE / "README.md").read_text(encoding="utf-8")
        assert has_table(page, study.summary(results))


def test_the_page_has_the_numbers_of_the_curve(recipe):
    found = json.loads((RECIPE / "curve.json").read_text())
    assert [one["draws"] for one in found["formats"]] == [1_000_000] * 2
    assert len(found["canaries"]) == 48
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    assert has_table(page, recipe["curve"].summary(found))


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
    # As a kill during the last measurement of the second training leaves it.
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


@pytest.mark.slow
def test_the_curve_is_compared_with_ranks_of_the_same_canaries(recipe, studies, tmp_path):
    alone, shared = (studies / "one-copy" / f"{arm}-batch-16-seed-0" for arm in ("alone", "shared"))
    model = canary.load(shared / "epoch-02", factory=f"{RECIPE}/model.py:build")
    company = CanarySet.load(shared / "company.json")
    audit = canary.audit(model, company, method="sampling", draws=2000, start_token="\n")
    audit.save(tmp_path / "audit.json")
    out = ("--out", tmp_path / "curve.json")
    shown = run_script(
        RECIPE / "curve.py", tmp_path / "audit.json", shared / "epoch-02" / "exposures.json", *out
    )
    found = json.loads((tmp_path / "curve.json").read_text())
    assert [one["draws"] for one in found["formats"]] == [2000]
    assert [one["copies"] for one in found["canaries"]] == [1, 1, 10, 10]
    low = [one["curve"] - one["rank"] for one in found["canaries"] if one["rank"] < 5]
    assert low
    assert max(map(abs, low)) < 1
    assert sum(int(line.split("|")[2]) for line in shown.splitlines() if " to " in line) == 4
    for other in (alone / "epoch-02", shared / "epoch-01"):
        with pytest.raises(ScriptError, match="has not the model of"):
            run_script(RECIPE / "curve.py", tmp_path / "audit.json", other / "exposures.json", *out)
    kept = json.loads((alone / "epoch-02" / "exposures.json").read_text())["canaries"]
    with pytest.raises(SystemExit, match="not of the same canaries"):
        recipe["curve"].compared(audit, kept)


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
def test_strategies_are_compared_by_numbers_of_copies(tmp_path):
    shown = run_study("strategies", tmp_path)
    trainings = study_results(tmp_path, "strategies")["trainings"]
    ends = [row["epochs"][-1] for row in trainings.values()]
    assert [[one["copies"] for one in end["canaries"]] for end in ends] == [[1, 0, 9, 0]] * 2
    lines = [line.split("|")[1:-1] for line in shown.splitlines() if line.startswith("| ")]
    losses, *rows = lines[2:]
    assert [row[0].strip() for row in rows] == ["control", "1", "9"]
    for at, end in zip((2, 4), ends, strict=True):
        bits, nats = f"{end['canaries'][2]['bits']:.1f}", f"{end['test_nats']:.3f}"
        assert (rows[2][at].strip(), losses[at].strip()) == (f"{bits}: {bits}", f"{nats}: {nats}")
    for name in trainings:
        check_no_secret(tmp_path / "strategies" / name, trainings)


def test_batches_are_compared_at_the_loss_that_all_reach(recipe):
    def epochs(*points):
        return [
            {
                "epoch": number,
                "test_nats": nats,
                "canaries": [{"copies": copies, "bits": bits * copies} for copies in (1, 0)],
            }
            for number, (nats, bits) in enumerate(points, 1)
        ]

    fast, slow = (
        epochs((1.6, 2.0), (1.2, 6.0), (1.1, 9.0)),
        epochs((2.0, 0.0), (1.8, 1.0), (1.4, 3)),
    )
    assert recipe["one_copy"].passing(fast, 1.4) == pytest.approx([1.5, 4.0])
    # One that rises again passes the loss where it first falls to it.
    again = epochs((1.5, 2.0), (1.3, 6.0), (1.5, 9.0), (1.4, 9.0))
    assert recipe["one_copy"].passing(again, 1.4) == pytest.approx([1.5, 4.0])
    fast_too = epochs((1.6, 2.0), (1.2, 4.0), (1.1, 9.0))
    curves = {64: [fast, fast_too], 256: [slow], 512: [slow, again]}
    *_, first, second, third = recipe["one_copy"].at_equal_loss(curves)
    assert first == "| 64 | 2 | 1.5 | 3.5 (-2.9 to 9.9) | - | 9.0 (9.0 to 9.0) |"
    assert second == "| 256 | 1 | 3.0 | 3.0 | - | 3.0 |"
    assert third.split("|")[5] == " 0.0 (-3.0 to 3.0) "  # 3 and 4 both times, unpaired
    (none,) = recipe["one_copy"].at_equal_loss({64: [fast], 256: [epochs((2.0, 0.0), (1.7, 1.0))]})
    assert "one ends at 1.700, another begins below it" in none


@pytest.mark.slow
def test_what_is_known_around_a_secret_is_seen_in_one_model(tmp_path):
    shown = run_study("context", tmp_path)
    trainings = study_results(tmp_path, "context")["trainings"]
    digits = trainings["digits-seed-0"]["epochs"]
    assert all({*e["views"]} == {"nothing", "letters before", "letters behind"} for e in digits)
    rows = [line.split("|")[1:3] for line in shown.splitlines() if line.startswith("|")][2:]
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
        parts_of = [sum(n > 1 for n in own) for own in row["about"]["read"]]
        assert (len(read), len(read) + len(others)) == (sum(parts_of), 2 * 9)
        first, last = (
            sum(c["bits"] for c in row["epochs"][at]["canaries"] if c["copies"]) for at in (0, -1)
        )
        total = last - first
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
        ({"characters": results["characters"] + 1}, "characters"),
        ({"trainings": altered(results["trainings"], epochs=3)}, "settings"),
    ):
        (tmp_path / "one-copy" / "results.json").write_text(json.dumps(results | change))
        with pytest.raises(ScriptError, match=f"made with other {why}; give another"):
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
    rows = []
    for name, training in done.items():
        epochs = trainings[training]["epochs"]
        bits = ", ".join(f"{epoch['canaries'][0]['bits']:.1f}" for epoch in epochs)
        rows.append(f"| {name} | {bits} |")
    assert has_table(text, "\n".join([rows[0], "| --- | --- |", *rows[1:]]))


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
