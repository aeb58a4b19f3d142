"""The recipe on made-up images and texts, by its commands: from training to the tables."""

from __future__ import annotations

import gzip
import json
import lzma

import numpy as np
import pytest
from recipe_scripts import RECIPES, modules, run_script

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
        for name, content, header in (("images-idx3", images, 16), ("labels-idx1", labels, 8)):
            packed = gzip.compress(bytes(header) + content.tobytes())
            (tmp_path / "mnist" / f"{part}-{name}-ubyte.gz").write_bytes(packed)
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
        lines = [*judge.rows(results), *judge.rows(sources)]
        lines += recipe["language"].rows(language["targets"])
        lines += recipe["sizes"].rows(sizes)
    assert not [one for one in lines if one not in page]


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


@pytest.mark.slow
def test_a_language_model_is_judged_by_three_measures(tmp_path):
    rng = np.random.default_rng(0)
    words = ["thou", "art", "king", "of", "night", "and", "day", "my", "lord", "speak"]
    lines = {" ".join(rng.choice(words, rng.integers(7, 12))) for _ in range(1200)}
    (tmp_path / "tinyshakespeare").mkdir()
    with lzma.open(tmp_path / "tinyshakespeare" / "input.txt.xz", "wt") as file:
        file.write("\n\n".join(f"HAMLET:\n{line}" for line in sorted(lines)))
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
