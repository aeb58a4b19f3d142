"""Fleets and every attack of the recipe in little; and that the page tells what is kept."""

from __future__ import annotations

import gzip
import json
import re
import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
import torch
from recipe_scripts import RECIPES, has_table, modules, write_idx

import canary
from canary.errors import InputError
from canary.fleet.torch_training import TorchTraining

RECIPE = RECIPES / "enhanced_mia"


@pytest.fixture(scope="module")
def recipe():
    with modules(RECIPE) as found:
        yield found


def small(recipe, **changed):
    network, options = recipe["networks"].for_location30, {"learning_rate": 0.1, "device": "cpu"}
    train = TorchTraining(build=network, epochs=15, batch_size=16, **options)
    counts = {"members": 120, "population": 160, "models": 6, "targets": 2, "distilled": 4}
    counts |= {"points": 4, "repeats": 4, "at_once": 16}
    return recipe["training"].Configuration(name="small", train=train, **counts | changed)


def made_up(samples):
    """Records whose labels are half chance, so that members have to be memorized."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, samples)
    x = rng.random((samples, 446)) < 0.3
    x[:, :3] = y[:, None] == np.arange(3)
    return x.astype(np.float32), np.where(rng.random(samples) < 0.5, rng.integers(0, 3, samples), y)


def dead(table, number):
    """The table, as if this model always named one class."""
    right = table.values["correctness"].copy()
    right[number] = table.label == 0
    return replace(table, values={**table.values, "correctness": right})


def test_attacks_find_what_was_memorized(recipe, tmp_path):
    configuration = small(recipe)
    data = recipe["training"].drawn(made_up(400), configuration)
    told = []
    found = recipe["training"].tables(data, configuration, tmp_path / "work", told.append)
    assert found.without.origin.target == found.main.origin.models[0]
    assert [one.origin.target for one in found.distilled] == list(found.main.origin.models[:2])
    assert not any(one.member.any() for one in found.distilled)  # of the population alone
    gone = found.main.member[0] & ~found.without.member
    assert gone.sum(axis=0).tolist() == (4 * gone.any(axis=0)).tolist()
    assert gone.any(axis=0).sum() == 4

    result = recipe["run"].studied(found, configuration, tmp_path)
    assert result["accuracy_on_members"]["mean"] > 0.95
    for one in (*result["attacks"], *result["first_target"]):
        assert one["auc"]["mean"] > 0.65, one
    assert result["agreement"]["names"] == ["truth", "L", "S", "P", "R", "D"]
    assert result["agreement"]["samples"] == [4, 120]
    assert (result["models"], result["distilled"], result["failed_trainings"]) == (6, [4, 4], 0)
    # The second target and a distilled model of the first never learned.
    distilled = dead(found.distilled[0], 2), found.distilled[1]
    changed = {"main": dead(found.main, 1), "distilled": distilled}
    living, failed = recipe["training"].learned(replace(found, **changed))
    assert failed == 2
    assert living.main.numbers == (0, 2, 3, 4, 5)
    assert [table.numbers for table in living.distilled] == [(0, 1, 3)]
    assert living.without is found.without
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        f"small-{kind}.svg" for kind in ("roc", "growth", "losses", "scatter")
    }
    recipe["training"].tables(data, configuration, tmp_path / "work", told.append)
    assert told[-1] == "small-without, seed 99: 16 more of 16 models"
    assert len([line for line in told if "without" in line]) == 18  # the second time at once


@pytest.mark.slow
def test_processes_train_the_same_models(recipe, tmp_path, monkeypatch):
    asked, processes = [], recipe["training"].Processes
    monkeypatch.setattr(
        recipe["training"], "Processes", lambda count: asked.append(count) or processes(count=count)
    )
    configuration = small(recipe, models=4, targets=1, distilled=2, points=0, at_once=1)
    data = recipe["training"].drawn(made_up(400), configuration)
    one, two = (
        recipe["training"].tables(data, configuration, tmp_path / f"{count}", processes=count)
        for count in (1, 2)
    )
    assert asked == [2]
    np.testing.assert_array_equal(one.main.signal("loss"), two.main.signal("loss"))
    (first,), (second,) = one.distilled, two.distilled
    np.testing.assert_array_equal(first.signal("loss"), second.signal("loss"))


def test_the_page_tells_what_is_kept(recipe):
    kept = json.loads((RECIPE / "results.json").read_text())
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    assert kept
    for rows in recipe["table"].pages(kept).values():
        assert has_table(page, "\n".join(rows))
    for result in kept.values():
        assert recipe["table"].right(result) in " ".join(page.split())
    for path in RECIPE.glob("*.svg"):
        assert f"({path.name})" in page
        assert path.stat().st_size < 130_000
    for name in (path.name.removesuffix("-roc.svg") for path in RECIPE.glob("*-roc.svg")):
        drawn = (RECIPE / f"{name}-roc.svg").read_text(encoding="utf-8")
        aucs = {
            one["name"]: one["auc"] for one in kept[name]["attacks"] if one["rule"] != "gaussian"
        }
        legend = re.findall(r">([\w-]+): AUC ([^<]*)<", drawn)
        assert len(legend) == 6
        assert legend == [(of, recipe["table"].told(aucs[of], 1, 3)) for of, _ in legend]


def test_figures_keep_what_is_written(recipe, tmp_path):
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure, (ax,) = recipe["figures"].panels(1, 1, (3.0, 2.0))
        ax.plot([0.123456, 0.2], [0, 1], label="AUC 0.833")
        ax.legend()
        recipe["figures"].keep(figure, tmp_path / "one.svg")
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert ">AUC 0.833<" in drawn
    assert not re.search(r' d="[^"]*\.\d\d', drawn)


def test_a_pool_has_some_of_every_class(recipe):
    data, training = made_up(400), recipe["training"]
    configuration = small(recipe)
    x, y = training.drawn(data, configuration)
    order = np.random.default_rng(0).permutation(400)
    np.testing.assert_array_equal(x, data[0][order])  # of common classes alone: as drawn
    labels = np.repeat(np.arange(4), (900, 60, 60, 60))
    rows = np.arange(1080, dtype=np.float32)[:, None]
    x, y = training.drawn((rows, labels), configuration)
    assert len(np.unique(x)) == len(x) == 400
    np.testing.assert_array_equal(labels[x[:, 0].astype(int)], y)
    for part in (y[:240], y[240:]):
        assert np.bincount(part).tolist() == [len(part) - 72, 24, 24, 24]
    with pytest.raises(InputError, match="300 samples, and small draws 400; give the whole data"):
        training.drawn(made_up(300), configuration)


@pytest.mark.data
def test_data_sets_are_read(recipe, data_dir):
    data = recipe["data"]
    x, y = data.mnist(data_dir / "mnist")
    assert x.shape == (60000, 28, 28)
    assert (float(x.min()), float(x.max()), np.bincount(y)[1]) == (0.0, 1.0, 6742)
    x, y = data.location30(data_dir / "location30")
    assert (x.shape, int(x.sum()), int(y.max())) == ((5010, 446), 269047, 29)
    x, y = data.cifar10(data_dir / "cifar10")
    assert (x.shape, y[:3].tolist()) == ((4000, 32, 32, 3), [6, 9, 9])


def test_digits_are_read_behind_their_headers(recipe, tmp_path):
    write_idx(tmp_path, np.repeat([[[0]], [[255]]], 28, 1).repeat(28, 2), np.array([3, 9]))
    x, y = recipe["data"].mnist(tmp_path)
    assert x.mean(axis=(1, 2)).tolist() == [0.0, 1.0]
    assert y.tolist() == [3, 9]
    images, labels = (tmp_path / f"train-{of}-ubyte.gz" for of in ("images-idx3", "labels-idx1"))
    first = images.read_bytes()
    for other in (labels.read_bytes(), gzip.compress(gzip.decompress(first)[:-1])):
        images.write_bytes(other)
        with pytest.raises(InputError, match=r"images-idx3.*bytes that begin with.*with 2051$"):
            recipe["data"].mnist(tmp_path)


@pytest.mark.parametrize("wrong", ["lacking", "negative"])
def test_labels_of_another_data_set_are_refused(recipe, wrong):
    x, y = made_up(500)
    y = y[:400] if wrong == "lacking" else y - 1
    with pytest.raises(InputError, match="small: 500 samples, and labels of shape.*both files of"):
        recipe["training"].drawn((x, y), small(recipe))


def of_models(right):
    """A table of 40 samples in four classes, where this share of each model's answers is right."""
    label = np.arange(40) % 4
    said = [9 * np.eye(4)[(label + (np.arange(40) >= 40 * share)) % 4] for share in right]
    member = np.arange(40) % 2 == np.arange(len(right))[:, None] % 2
    return canary.measure(said, y=label, member=member, outputs="logits")


def test_what_never_learned_is_left_out_and_told(recipe):
    tables, learned = recipe["training"].Tables, recipe["training"].learned
    with pytest.raises(InputError, match="no model learned; look at the labels, and at rate"):
        learned(tables(of_models([0.25] * 4), (of_models([0.9] * 4),), None))
    # None of the second target's distilled models learned, and one of the third's did.
    distilled = (of_models([0.9] * 4), of_models([0.1] * 4), of_models([0.1, 0.9]))
    living, failed = learned(tables(of_models([0.9] * 4), distilled, None))
    assert failed == 5
    assert living.main.numbers == (0, 2, 3)
    assert [table.numbers for table in living.distilled] == [(0, 1, 2, 3), (1,)]


def test_accuracies_are_printed_beside_the_tables(recipe, tmp_path, monkeypatch, capsys):
    run, kept = recipe["run"], json.loads((RECIPE / "results.json").read_text())["mnist-1"]
    monkeypatch.setitem(run.READERS, "mnist", lambda _: None)
    for name in ("drawn", "tables"):
        monkeypatch.setattr(run, name, lambda *_, **__: None)
    monkeypatch.setattr(run, "studied", lambda *_: kept)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    words = (word for name in ("data", "work", "out") for word in (f"--{name}", str(tmp_path)))
    monkeypatch.setattr(sys, "argv", ["run.py", *words, "--only", "mnist-1"])
    run.main()
    assert f"mnist-1: right on {recipe['table'].right(kept)}\n" in capsys.readouterr().out


def test_images_are_read_as_one_colour_after_the_other(recipe, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3)).astype(np.uint8)
    by_colour = [bytes([label]) + image.transpose(2, 0, 1).tobytes()
                 for label, image in zip((9, 3), images, strict=True)]  # fmt: skip
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(b"".join(by_colour))
    x, y = recipe["data"].cifar10(tmp_path)
    np.testing.assert_allclose(x, images / 255, atol=1e-6)
    assert y.tolist() == [9, 3]
    for network in ("for_cifar10", "vgg_for_cifar10"):
        assert getattr(recipe["networks"], network)()(torch.from_numpy(x)).shape == (2, 10)
    path.write_bytes(bytes(3000))
    with pytest.raises(InputError, match=r"batch_1\.bin: 3,000 bytes.*binary version of CIFAR-10"):
        recipe["data"].cifar10(tmp_path)


@pytest.mark.parametrize("form", ["text", "one-hot", "numbers"])
def test_purchases_are_read_in_every_published_form(recipe, tmp_path, form):
    rng = np.random.default_rng(0)
    features, labels = rng.integers(0, 2, (5, 600)), np.array([99, 0, 7, 0, 50])
    if form == "text":
        rows = np.column_stack([labels + 1, features])
        np.savetxt(tmp_path / "dataset_purchase", rows, fmt="%d", delimiter=",")
    else:
        held = np.eye(100)[labels] if form == "one-hot" else labels
        np.savez(tmp_path / "purchase100.npz", features=features.astype(float), labels=held)
    x, y = recipe["data"].purchase100(tmp_path)
    np.testing.assert_array_equal(x, features)
    assert (x.dtype, y.tolist()) == (np.uint8, labels.tolist())
    said = recipe["networks"].for_purchase100()(torch.from_numpy(x.astype(np.float32)))
    assert said.shape == (5, 100)


def test_purchases_that_are_not_the_published_ones(recipe, tmp_path):
    with pytest.raises(InputError, match=r"no such file; unpack .*purchase100\.npz"):
        recipe["data"].purchase100(tmp_path)
    for text in ("1,0,1\n2,0\n", "1,0,x\n", "1,0,2\n", "0,1\n", "101,1\n", "1\n"):
        (tmp_path / "dataset_purchase").write_text(text)
        with pytest.raises(InputError, match="dataset_purchase: no records of zeros.*published"):
            recipe["data"].purchase100(tmp_path)
    (tmp_path / "dataset_purchase").unlink()
    np.savez(tmp_path / "purchase100.npz", features=np.array([{}]), labels=np.array([1]))
    with pytest.raises(InputError, match="pickles are refused"):
        recipe["data"].purchase100(tmp_path)


def test_networks_say_the_same_in_either_order(recipe):
    """Pooling before the ReLU, channels last: as the plain network of the paper."""
    network = recipe["networks"].for_mnist()
    first, last = network[1], network[4]
    x = torch.rand(3, 28, 28)
    h = x[:, None]
    for layer in (first, last):
        h = layer(h).relu()
        h = torch.nn.functional.max_pool2d(h, 2)
    plain = network[8](h.flatten(1))
    torch.testing.assert_close(network(x), plain)
