"""The Penn Treebank recipe in little: it runs, resumes and keeps no secret."""

from __future__ import annotations

import json
import re
import shutil
import statistics

import numpy as np
import pytest
from recipe_scripts import ScriptError, has_table, modules, run_script
from safetensors.numpy import load_file
from secret_sharer import RECIPE, check_no_secret, strings

import canary
from canary import CanarySet

pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine


def run(*options):
    run_script(RECIPE / "run.py", "--quick", "--threads", "1", *options)


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
    with pytest.raises(ScriptError, match="made with other epochs; give another --work"):
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


def test_the_page_has_the_numbers_of_the_neighbours():
    with modules(RECIPE) as loaded:
        found = json.loads((RECIPE / "neighbours.json").read_text())
        assert (found["canary"], found["copies"]) == ("canary-9", 9)
        first = found["of_all"][0]
        assert (first["shown"], first["proven"]) == ("." * 9, True)
        assert first["px_bits"] == pytest.approx(found["top"][0]["px_bits"], abs=1e-4)
        assert has_table((RECIPE / "README.md").read_text(), loaded["neighbours"].table(found))


def test_neighbours_of_one_canary(work, tmp_path):
    wanted = CanarySet.load(work / "canaries.json").injected[-1]
    of_it = (work / "epoch-02", "--canaries", work / "canaries.json", "--id", wanted.id)
    shown = run_script(RECIPE / "neighbours.py", *of_it, "--out", tmp_path / "neighbours.json")
    found = json.loads((tmp_path / "neighbours.json").read_text())
    assert f"{found['top'][0]['px_bits']:.2f}" in shown.splitlines()[2]
    assert found["candidates"] == 1 + 4 * 9 + 6 * 81
    assert len(found["top"]) == len(found["of_all"]) == 10
    costs = [row["px_bits"] for row in found["of_all"]]
    assert costs == sorted(costs)
    # The likeliest of all are at least as likely as the likeliest neighbours.
    assert all(a <= b["px_bits"] + 1e-3 for a, b in zip(costs, found["top"], strict=True))
    assert wanted.fill not in json.dumps(found)


def test_the_page_has_the_numbers_of_the_estimators():
    found = json.loads((RECIPE / "estimators.json").read_text())
    with modules(RECIPE) as loaded:
        assert has_table((RECIPE / "README.md").read_text(), loaded["estimators"].table(found))
        whole, *others = found["ways"].values()
        for name, row in zip([*found["ways"]][1:], others, strict=True):
            held = [
                one["lower_bits"] <= exact["bits"] <= one["upper_bits"]
                for exact, one in zip(whole, row, strict=True)
            ]
            assert held == [False, False, True] if "curve" in name else all(held)


def test_every_estimator_holds_the_enumerated_exposure(work, tmp_path):
    canaries = CanarySet.load(work / "canaries.json")
    ids = [canaries.injected[-1].id, canaries.controls[0].id]
    kept = tmp_path / "estimators.json"
    shown = run_script(
        *(RECIPE / "estimators.py", work / "epoch-02", "--canaries", work / "canaries.json"),
        *("--id", ids[0], "--id", ids[1], "--whole", "--draws", "400", "--nodes", "50"),
        *("--out", kept),
    )
    found = json.loads(kept.read_text())
    assert (found["ids"], found["copies"]) == (ids, [100, 0])
    whole, *others = found["ways"].values()
    assert len(others) == 4
    for row in others:
        for exact, one in zip(whole, row, strict=True):
            slack = 1.5 if "p_value" in one else 0.1  # a curve is no bound
            assert one["lower_bits"] - slack <= exact["bits"] <= one["upper_bits"] + slack
    assert f"| {ids[0]}, 100 copies | {ids[1]}, control |\n" in shown
    assert not any(one.fill in kept.read_text() for one in canaries)
    with pytest.raises(ScriptError, match="canary-x: not in the canary file"):
        run_script(
            *(RECIPE / "estimators.py", work / "epoch-02", "--canaries"),
            *(work / "canaries.json", "--id", "canary-x", "--out", kept),
        )


def test_estimators_are_of_one_format():
    canaries = canary.generate(
        ["one {digit:2}", "two {digit:3}"], repetitions=[1], per_repetition=1, controls=1, seed=0
    )
    first, second = canaries.injected
    with modules(RECIPE) as loaded:
        alone = loaded["estimators"].alone
        own = alone(canaries, [second.id])
        assert own.formats == canaries.formats[1:]
        assert [own.text(one) for one in own] == [canaries.text(second)]
        with pytest.raises(SystemExit, match="of several formats"):
            alone(canaries, [first.id, second.id])


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
        assert has_table(page, loaded["mailboxes"].table({"mailboxes": boxes}))
    page = " ".join(page.split())
    rows = [row for box in boxes.values() for row in box["secrets"]]
    first, found = ([row for row in rows if row["place"] in range(1, last + 1)] for last in (1, 10))
    assert f"So {len(first)} of {len(rows)} numbers are the most likely" in page
    assert sum(row["copies"] == 1 for row in first) == 2
    assert f"{len(found)} are among the first ten. The search" in page
    assert [*sorted(row["queries"] for row in found)[-2:]] == [5425, 20_000]
    beside = [bit for r in rows if r["form"] == "telephone" for bit in r["control_bits"]]
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


def test_intervals_of_translations_are_over_trainings():
    with modules(RECIPE) as loaded:
        of = loaded["translation"]
        trainings = {
            str(seed): {
                "canaries": [
                    {"copies": copies, "kind": kind, "bits": bits, "curve_bits": bits}
                    for copies in (0, *of.COPIES)
                    for kind in ("both", "translation")
                    for bits in each
                ]
            }
            for seed, each in enumerate([(1.0, 3.0), (5.0, 7.0)])
        }
        (row,) = (line for line in of.table({"trainings": trainings}).splitlines() if "con" in line)
        expected = of.interval([2.0, 6.0])
    assert [cell.strip() for cell in row.split("|")[3:6:2]] == [expected, expected]


def test_the_page_has_the_numbers_of_the_translations():
    page = (RECIPE / "README.md").read_text()
    results = json.loads((RECIPE / "translation.json").read_text())
    with modules(RECIPE) as loaded:
        assert has_table(page, loaded["translation"].table(results))
    losses = {f"{one['epochs'][-1]['test']:.2f}" for one in results["trainings"].values()}
    assert losses == {"2.03"}
    assert "Three seeds ([translation.json]" in page
    assert len(results["trainings"]) == 3


def test_the_page_has_the_numbers_of_the_two_models():
    page = (RECIPE / "README.md").read_text()
    seeds = json.loads((RECIPE / "disagreement.json").read_text())["seeds"]
    with modules(RECIPE) as loaded:
        assert has_table(page, loaded["disagreement"].table(seeds))
    assert {row["lines"] for row in seeds.values()} == {4225}
    assert "4,225 lines" in page


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


def test_the_page_has_the_numbers_of_the_runs():
    """Of `results.json` and `alone.json`."""
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    made = run_script(RECIPE / "table.py", RECIPE / "results.json")
    assert not [part for part in made.split("\n\n") if not has_table(page, part)]
    alone = json.loads((RECIPE / "alone.json").read_text())
    with modules(RECIPE) as recipe:
        of = recipe["alone_figures"]
        sides = [of.last(alone["points"], strategy) for strategy in "AB"]
        rows = []
        for copies in (1, 2, 4, 8, 16, 32):
            cells = (
                ", ".join(f"{one['bits']:.1f}" for one in side if one["copies"] == copies)
                for side in sides
            )
            rows.append(f"| {copies} | {' | '.join(cells)} |")
        assert has_table(page, "\n".join(rows))
        rows.clear()
        points = of.injected(alone["points"])
        for low, high in ((0, 20), (20, 25), (25, 28), (28, 30)):
            words = f"{low} to {high}" if high < 30 else "29.9, all there is"
            own = [one for one in points if low <= of.bits(one) < high]
            found = [one["found_after"] for one in own if one["found_after"] is not None]
            spent = f"{statistics.median(found):,.0f} ({max(found):,})" if found else "-"
            first = sum(one["place"] == 1 for one in own)
            rows.append(f"| {words} | {len(own)} | {first} | {len(found)} | {spent} |")
        assert has_table(page, "\n".join(rows))
