"""What the recipe reads from files that the user names, in little: its forms, and its refusals."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from recipe_scripts import RECIPES, modules
from scipy.spatial.distance import cdist

from canary.errors import InputError


@pytest.fixture(scope="module")
def large():
    with modules(RECIPES / "song_mittal") as found:
        yield found["large"]


def test_purchase100_as_text_golden(large, tmp_path):
    (tmp_path / "dataset_purchase").write_text("1,0,1,1\n100,1,0,0\n\n")
    x, y = large.purchase100(tmp_path)
    assert x.tolist() == [[0, 1, 1], [1, 0, 0]]
    assert y.tolist() == [0, 99]
    assert x.dtype == np.uint8


def test_texas100_as_text_golden(large, tmp_path):
    folder = tmp_path / "texas" / "100"
    folder.mkdir(parents=True)
    (folder / "feats").write_text("0,1\n1,1\n0,0\n")
    (folder / "labels").write_text("3\n1\n100\n")
    x, y = large.texas100(tmp_path)
    assert x.tolist() == [[0, 1], [1, 1], [0, 0]]
    assert y.tolist() == [2, 0, 99]


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("name", ["purchase100", "texas100"])
def test_arrays_with_one_hot_labels_or_numbers(large, tmp_path, name, one_hot):
    labels = np.array([99, 0, 7])
    held = np.eye(100)[labels] if one_hot else labels
    features = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    np.savez_compressed(tmp_path / f"{name}.npz", features=features, labels=held)
    x, y = getattr(large, name)(tmp_path)
    assert np.array_equal(x, features)
    assert np.array_equal(y, labels)


def binary(path, labels, rng):
    """The binary version: the bytes of the labels, then red, green and blue, row by row."""
    images = rng.integers(0, 256, (len(labels), 3, 32, 32), dtype=np.uint8)
    rows = [bytes(own) + image.tobytes() for own, image in zip(labels, images, strict=True)]
    path.write_bytes(b"".join(rows))
    return images


def test_cifar100_is_train_then_test_with_fine_labels(large, tmp_path):
    rng = np.random.default_rng(0)
    first = binary(tmp_path / "train.bin", [(19, 99), (4, 0), (0, 50)], rng)
    last = binary(tmp_path / "test.bin", [(3, 7)], rng)
    x, y = large.cifar100(tmp_path)
    assert y.tolist() == [99, 0, 50, 7]
    expected = np.concatenate([first, last]) / 127.5 - 1
    np.testing.assert_allclose(x, expected, atol=1e-6)
    assert x.min() >= -1
    assert x.max() <= 1


def test_cifar10_reads_only_as_many_as_are_asked_for(large, tmp_path):
    images = binary(tmp_path / "data_batch_1.bin", [(9,), (3,), (1,)], np.random.default_rng(1))
    pixels, labels = large.cifar(tmp_path / "data_batch_1.bin", label_bytes=1, most=2)
    assert labels.tolist() == [9, 3]
    assert np.array_equal(pixels, images[:2])


@pytest.mark.parametrize("name", ["train", "train.bin"])
def test_pickled_cifar_is_refused_unread(large, tmp_path, name):
    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "opened",)

    (tmp_path / name).write_bytes(pickle.dumps({b"data": Bomb()}, protocol=2))
    with pytest.raises(InputError, match=f"{name}: a pickle.*binary version of CIFAR-100"):
        large.cifar100(tmp_path)
    assert not (tmp_path / "opened").exists()


def test_pickled_arrays_are_refused(large, tmp_path):
    np.savez(tmp_path / "texas100.npz", features=np.array([{}]), labels=np.array([1]))
    with pytest.raises(InputError, match=r"texas100\.npz: cannot be read.*pickles are refused"):
        large.texas100(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,0,1\n2,0\n", r"dataset_purchase:2: a line of 2 cells where 3 numbers"),
        ("1,0,1\n2,0,x\n", r"dataset_purchase:2: a line of 3 cells.*published file"),
        ("1,0,2\n", r"no zeros and ones.*published file"),
        ("0,0,1\n", r"labels from 0 to 0, where 1 to 100"),
        ("101,0,1\n", r"labels from 101 to 101"),
        ("1\n2\n", r"features of shape \(2, 0\)"),
        ("\n", "the file is empty; unpack it anew"),
    ],
)
def test_text_that_is_not_the_published_one(large, tmp_path, text, message):
    (tmp_path / "dataset_purchase").write_text(text)
    with pytest.raises(InputError, match=message):
        large.purchase100(tmp_path)


def test_texas100_needs_a_label_for_each_record(large, tmp_path):
    folder = tmp_path / "texas" / "100"
    folder.mkdir(parents=True)
    (folder / "feats").write_text("0,1\n1,1\n")
    (folder / "labels").write_text("3\n")
    with pytest.raises(InputError, match=r"2 records of features, and labels of shape \(1, 1\)"):
        large.texas100(tmp_path)


@pytest.mark.parametrize("labels", [[0, 100], [-1, 0], [0], [[1, 1], [0, 1]]])
def test_arrays_whose_labels_do_not_fit(large, tmp_path, labels):
    np.savez(tmp_path / "purchase100.npz", features=np.eye(2), labels=np.array(labels))
    with pytest.raises(InputError, match="give each record a class from 0 to 99"):
        large.purchase100(tmp_path)


def test_arrays_without_features_or_cut_off(large, tmp_path):
    path = tmp_path / "purchase100.npz"
    np.savez(path, x=np.eye(2), labels=np.arange(2))
    with pytest.raises(InputError, match="plain arrays features and labels"):
        large.purchase100(tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"purchase100\.npz: cannot be read"):
        large.purchase100(tmp_path)


def test_images_cut_off_or_of_the_other_cifar(large, tmp_path):
    path = tmp_path / "train.bin"
    binary(path, [(9,), (3,)], np.random.default_rng(2))
    with pytest.raises(InputError, match=r"6,146 bytes, which are no whole number of images"):
        large.cifar100(tmp_path)
    binary(path, [(9, 120)], np.random.default_rng(2))
    with pytest.raises(InputError, match="a class 120, where 0 to 99"):
        large.cifar100(tmp_path)


@pytest.mark.parametrize("name", ["purchase100", "texas100", "cifar100"])
def test_missing_files_are_named_with_what_to_unpack(large, tmp_path, name):
    with pytest.raises(InputError, match="no such file; unpack"):
        getattr(large, name)(tmp_path)


def test_made_up_records_have_the_shape_and_say_the_class(large):
    for name, shape in large.SHAPES.items():
        x, y = large.made_up(name, 300)
        assert x.shape == (300, *shape[1:])
        assert len(np.unique(y)) > 80
    # The mean of a class is nearer to its other records than to those of the rest.
    x, y = large.made_up("purchase100", 2000)
    means = np.stack([x[:1000][y[:1000] == c].mean(axis=0) for c in range(100)])
    near = cdist(x[1000:], means).argmin(axis=1)
    assert (near == y[1000:]).mean() > 0.5
