"""The recipe on made-up images and texts, by its commands: from training to the tables."""

from __future__ import annotations

import gzip
import json
import lzma
import re
from argparse import Namespace

import numpy as np
import pytest
from recipe_scripts import RECIPES, ScriptError, has_table, modules, run_script, write_idx

from canary.errors import InputError

RECIPE = RECIPES / "have_you_forgotten"
TENTH = "domain + 10 % query"

pytestmark = pytest.mark.timeout(1800)  # mostly for imports on a busy machine


def run(script, tmp_path, *words, data=None):
    words = ("--data", data or tmp_path, "--work", tmp_path / "work", *words)
    said = run_script(RECIPE / script, *words, "--out", tmp_path / "out.json")
    return said, json.loads((tmp_path / "out.json").read_text())


@pytest.fixture
def made_up(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "mnist").mkdir()
    labels = rng.integers(0, 10, 200).astype(np.uint8)
    images = rng.integers(0, 60, (200, 28, 28)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 6, 6:22] = 255  # its class is its height
    for part in ("train", "t10k"):
        write_idx(tmp_path / "mnist", images, labels, part)
    for folder in ("cifar10", "emnist_letters"):
        (tmp_path / folder).mkdir()
    # Fewer than a set has: all of them are taken.
    some = {"x": rng.integers(0, 256, (12, 32, 32, 3), np.uint8), "y": labels[:12]}
    np.savez(tmp_path / "cifar10" / "cifar10_exact_4000.npz", **some)
    np.savez(
        tmp_path / "emnist_letters" / "emnist_letters_subset.npz",
        x_train=images[:60],
        y_train=np.arange(60, dtype=np.uint8) % 26 + 1,
    )
    return tmp_path


def test_every_target_is_judged_beside_the_paper_and_a_killed_run_goes_on(made_up):
    words = ["--samples", 16, "--seeds", 1, "--calibration", 2, "--epochs", 2]
    shown, found = run("run.py", made_up, *words)
    targets = found["targets"]
    assert len(targets) == 15
    assert targets["query again"]["paper"] == [0.049, 0.082]
    assert shown.count("\n| ") == 2 + 15
    kept = {path: path.stat().st_mtime_ns for path in (made_up / "work").glob("*/*.npz")}
    next(path for path in kept if path.name == "0.letters.on-tested.npz").unlink()
    _, again = run("run.py", made_up, *words)
    assert again == found
    new = {path.name for path, before in kept.items() if path.stat().st_mtime_ns != before}
    assert new == {f"0.letters.on-{of}.npz" for of in ("query-0", "unseen", "tested")}


def test_sizes_are_compared_with_other_digits_and_a_killed_study_goes_on(made_up):
    words = ["--sizes", "10:1", "16:1", "--epochs", 1]
    shown, found = run("sizes.py", made_up, *words)
    assert shown.startswith("about 0.0 hours of one core")
    assert [(one["samples"], one["seeds"], one["calibration"]) for one in found] == [
        (10, 1, 2),
        (16, 1, 2),
    ]
    assert all(set(one["targets"]) == {TENTH, "domain + 10 % other digits"} for one in found)
    assert shown.count(f"| {TENTH} | 0.056, 0.094 | 1") == 2
    trained = {path: path.stat().st_mtime_ns for path in (made_up / "work").glob("*/*.npz")}
    next(path for path in trained if path.name.startswith(f"0.{TENTH}.on-tested")).unlink()
    _, again = run("sizes.py", made_up, *words)
    assert again == found
    new = [path for path, before in trained.items() if path.stat().st_mtime_ns != before]
    assert len(new) == 3


def test_the_page_shows_what_is_kept():
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    results, sources, language, sizes = (
        json.loads((RECIPE / f"{name}.json").read_text())
        for name in ("results", "sources", "language", "sizes")
    )
    with modules(RECIPE) as recipe:
        judge = recipe["judge"]
        tables = [judge.rows(results), judge.rows(sources)]
        tables.append(recipe["language"].rows(language["targets"]))
        tables.append(recipe["sizes"].rows(sizes))
    assert not [rows for rows in map("\n".join, tables) if not has_table(page, rows)]
    # Its commands do not write over what is kept.
    outs = re.findall(r"^python .*(?:--out|figure\.py \S+) (\S+)", page, re.MULTILINE)
    assert len(outs) == 6
    assert all(re.match(r"WORK2?/", out) for out in outs)


def judging(script, data, *words):
    """What --judge says where it refuses; it must not write over results that are there."""
    out = data / "out.json"
    out.write_text("good")
    before = {*data.rglob("*")}
    words = ("--data", data, "--work", data / "work", "--out", out, "--judge", *words)
    with pytest.raises(ScriptError) as refused:
        run_script(RECIPE / script, *words)
    assert out.read_text() == "good"
    assert {*data.rglob("*")} == before
    return str(refused.value)


def test_judging_what_is_not_there_writes_nothing(made_up):
    words = ("--samples", 16, "--seeds", 1, "--calibration", 2, "--epochs", 3)
    nothing = "nothing finished is there with these settings; give the settings"
    assert nothing in judging("run.py", made_up, *words)
    spoken(made_up, 1200)
    assert nothing in judging("language.py", made_up, "--seeds", 1, "--epochs", 3)


def test_some_calibration_models_are_counted_and_one_is_too_few(tmp_path, capsys):
    rng, labels = np.random.default_rng(0), np.arange(12) % 10

    with modules(RECIPE) as recipe:
        judge, answers = recipe["judge"], recipe["classifier"].answers

        def said(name, *sets):
            for of in sets:
                logits = rng.normal(size=(12, 10)).astype(np.float32)
                np.savez(answers(tmp_path, name, of), logits=logits, labels=labels)

        said("0.query", "query-0", "unseen", "tested")
        said("0.letters", "query-0", "unseen", "tested")
        said("calibration-2", "query-0")
        with pytest.raises(InputError, match="1 of 3 calibration models, where two.*the rest"):
            judge.judged(tmp_path, 1, seeds=1, calibration=3)
        said("calibration-0", "query-0")
        found = judge.judged(tmp_path, 1, seeds=1, calibration=3)
    assert capsys.readouterr().out == "2 of 3 calibration models\n"
    assert found["targets"]["letters"]["seeds"][0]["models"] == 2


def test_language_models_of_other_texts_are_not_taken_for_these(tmp_path):
    texts = [f"speech {number}" for number in range(700)]
    options = Namespace(work=tmp_path, epochs=3, seeds=1, calibration=2, judge=False)
    with modules(RECIPE) as recipe:
        run = recipe["language"].Run
        run(texts[1:], options)  # nothing is trained of it
        folder = run(texts, options).folder
        (folder / "0.query.npz").touch()
        run(texts, options)
        with pytest.raises(InputError, match="with other texts; give another --work folder"):
            run(texts[1:], options)
        (folder / "made-of.json").unlink()  # as older runs left it
        run(texts[1:], options)
    assert [path.name for path in folder.iterdir()] == ["0.query.npz"]


@pytest.mark.parametrize("wrong", ["lacking", "eleven", "labels", "cut"])
def test_images_without_a_class_each_are_refused(tmp_path, wrong):
    labels = {"lacking": np.arange(9), "eleven": np.arange(1, 11)}.get(wrong, np.arange(10))
    write_idx(tmp_path, np.zeros((10, 28, 28)), labels)
    images = tmp_path / "train-images-idx3-ubyte.gz"
    if wrong == "labels":
        images.write_bytes((tmp_path / "train-labels-idx1-ubyte.gz").read_bytes())
    elif wrong == "cut":
        images.write_bytes(gzip.compress(gzip.decompress(images.read_bytes())[:-784]))
    told = "both files of one" if wrong in ("lacking", "eleven") else "which begins with 2051"
    with modules(RECIPE) as recipe, pytest.raises(InputError, match=told):
        recipe["images"].mnist(tmp_path, "train")


@pytest.mark.slow
def test_two_sources_stand_in_for_table_2(made_up):
    words = ["--table", 2, "--samples", 20, "--seeds", 1, "--calibration", 2, "--epochs", 1]
    both = {}
    for name in ("query", "calibration"):
        rng = np.random.default_rng(len(name))
        both[name] = made_up / f"{name}.npz"
        x = rng.integers(0, 256, (160, 32, 32), np.uint8)
        np.savez(both[name], x=x, y=rng.integers(0, 5, 160))
    for name, path in both.items():
        words += [f"--{name}-source", path]
    _, found = run("run.py", made_up, *words)
    assert found["targets"]["domain + 50 % query"]["paper"] == [0.529, 0.685]


def spoken(folder, count):
    """Distinct speeches as the language model's recipe reads them."""
    rng = np.random.default_rng(0)
    words = ["thou", "art", "king", "of", "night", "and", "day", "my", "lord", "speak"]
    lines = {" ".join(rng.choice(words, rng.integers(7, 12))) for _ in range(count)}
    (folder / "tinyshakespeare").mkdir()
    with lzma.open(folder / "tinyshakespeare" / "input.txt.xz", "wt") as file:
        file.write("\n\n".join(f"HAMLET:\n{line}" for line in sorted(lines)))


@pytest.mark.slow
def test_a_language_model_is_judged_by_three_measures(tmp_path):
    spoken(tmp_path, 1200)
    # One epoch is ten steps for some models, of which a tenth is one.
    shown, found = run("language.py", tmp_path, "--seeds", 1, "--calibration", 3, "--epochs", 1)
    targets = {"original", "retrained", "fine-tuned", "ascent", "ascent too far"}
    assert set(found["targets"]) == targets
    exposures = [one["exposure of injected"] for one in found["targets"]["original"]["seeds"]]
    assert 0 <= exposures[0] <= 13.3
    assert "| retrained |" in shown


@pytest.mark.data
def test_real_digits_know_and_do_not_know(tmp_path, data_dir):
    words = ["--samples", 200, "--seeds", 1, "--calibration", 2]
    _, found = run("run.py", tmp_path, *words, data=data_dir)
    rho = {name: one["rho"][0] for name, one in found["targets"].items()}
    assert max(rho["query again"], rho["domain + 100 % query"]) < 0.9 < rho["CIFAR-10"]
