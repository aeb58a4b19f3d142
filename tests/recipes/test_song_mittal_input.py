"""What the recipe reads from files that the user names, in little: its forms, and its refusals."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from recipe_scripts import RECIPES, modules, write_idx
from scipy.spatial.distance import cdist

from canary.errors import InputError


@pytest.fixture(scope="module")
def recipe():
    with modules(RECIPES / "song_mittal") as found:
        yield found


@pytest.fixture(scope="module")
def large(recipe):
    return recipe["large"]


def texas(folder, features, labels):
    (folder / "texas" / "100").mkdir(parents=True)
    (folder / "texas" / "100" / "feats").write_text(features)
    (folder / "texas" / "100" / "labels").write_text(labels)


def test_records_as_text_golden(large, tmp_path):
    (tmp_path / "dataset_purchase").write_text("1,0,1,1\n100,1,0,0\n\n")
    x, y = large.purchase100(tmp_path)
    assert (x.tolist(), y.tolist(), x.dtype) == ([[0, 1, 1], [1, 0, 0]], [0, 99], np.uint8)
    texas(tmp_path, "0,1\n1,1\n0,0\n", "3\n1\n100\n")
    x, y = large.texas100(tmp_path)
    assert (x.tolist(), y.tolist()) == ([[0, 1], [1, 1], [0, 0]], [2, 0, 99])


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("name", ["purchase100", "texas100"])
def test_arrays_with_one_hot_labels_or_numbers(large, tmp_path, name, one_hot):
    labels = np.array([99, 0, 7])
    features = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    held = np.eye(100)[labels] if one_hot else labels
    np.savez_compressed(tmp_path / f"{name}.npz", features=features, labels=held)
    x, y = getattr(large, name)(tmp_path)
    assert np.array_equal(x, features)
    assert np.array_equal(y, labels)


def binary(path, labels, seed=0):
    """The binary version: the bytes of the labels, then red, green and blue, row by row."""
    images = np.random.default_rng(seed).integers(0, 256, (len(labels), 3, 32, 32), dtype=np.uint8)
    rows = [bytes(own) + image.tobytes() for own, image in zip(labels, images, strict=True)]
    path.write_bytes(b"".join(rows))
    return images


def test_cifar100_is_train_then_test_with_fine_labels(large, tmp_path):
    first = binary(tmp_path / "train.bin", [(19, 99), (4, 0), (0, 50)])
    last = binary(tmp_path / "test.bin", [(3, 7)], seed=1)
    x, y = large.cifar100(tmp_path)
    assert y.tolist() == [99, 0, 50, 7]
    np.testing.assert_allclose(x, np.concatenate([first, last]) / 127.5 - 1, atol=1e-6)
    assert -1 <= x.min() <= x.max() <= 1


def test_cifar10_reads_only_as_many_as_are_asked_for(large, tmp_path):
    images = binary(tmp_path / "data_batch_1.bin", [(9,), (3,), (1,)])
    pixels, labels = large.cifar(tmp_path / "data_batch_1.bin", label_bytes=1, most=2)
    assert labels.tolist() == [9, 3]
    assert np.array_equal(pixels, images[:2])


def test_cifar10_is_the_same_from_the_arrays_of_the_other_recipes(recipe, tmp_path):
    read = recipe["data"].cifar10
    with pytest.raises(InputError, match=r"unpack .* there, or give cifar10_exact_4000\.npz"):
        read(tmp_path)
    images = binary(tmp_path / "data_batch_1.bin", [(9,), (3,), (1,)])
    x, y = read(tmp_path)
    (tmp_path / "data_batch_1.bin").unlink()
    np.savez(tmp_path / "cifar10_exact_4000.npz", x=images.transpose(0, 2, 3, 1), y=[9, 3, 1])
    again, labels = read(tmp_path)
    assert np.array_equal(x, again)
    assert (again.dtype, labels.tolist(), y.tolist()) == (np.float32, [9, 3, 1], [9, 3, 1])


@pytest.mark.parametrize(
    "held",
    [
        {"x": np.zeros((2, 3, 32, 32), np.uint8), "y": [0, 1]},  # colours first
        {"x": np.zeros((2, 32, 32, 3)), "y": [0, 1]},
        {"x": np.zeros((2, 32, 32, 3), np.uint8), "y": [0]},
        {"x": np.zeros((2, 32, 32, 3), np.uint8), "y": [0, 10]},
        {"x": np.zeros((0, 32, 32, 3), np.uint8), "y": []},
        {"images": np.zeros((2, 32, 32, 3), np.uint8), "y": [0, 1]},
        {"x": np.array([{}]), "y": [0]},
    ],
)
def test_other_arrays_are_not_taken_for_cifar10(recipe, tmp_path, held):
    np.savez(tmp_path / "cifar10_exact_4000.npz", **held)
    with pytest.raises(InputError, match=r"4000\.npz: .*(shape \(n, 32, 32, 3\), each|pickles)"):
        recipe["data"].cifar10(tmp_path)


def test_letters_are_both_parts_with_classes_from_0(recipe, tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (5, 28, 28), np.uint8)
    held = {"x_train": x[:3], "y_train": [1, 26, 2], "x_test": x[3:], "y_test": [5, 1]}
    np.savez(tmp_path / "emnist_letters_subset.npz", **held)
    features, labels = recipe["data"].emnist(tmp_path)
    np.testing.assert_allclose(features, x.reshape(5, 784) / 255, atol=1e-6)
    assert labels.tolist() == [0, 25, 1, 4, 0]


def test_digits_are_the_first_of_the_file_and_both_files_are_of_one_data_set(recipe, tmp_path):
    read, images = recipe["data"].mnist, np.random.default_rng(0).integers(0, 256, (6, 28, 28))
    write_idx(tmp_path, images, np.arange(6))
    x, y = read(tmp_path)
    np.testing.assert_allclose(x, images.reshape(6, 784) / 255, atol=1e-6)
    assert (x.dtype, y.tolist()) == (np.float32, [0, 1, 2, 3, 4, 5])
    write_idx(tmp_path, images, np.arange(5))
    with pytest.raises(InputError, match=r"6 records, and labels of shape \(5,\).*both files of"):
        read(tmp_path)
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    held = gzip.decompress(path.read_bytes())
    for other in (held[:-1], held + b"\1", b"\0\0\x08\x03" + held[4:], held[:3]):
        path.write_bytes(gzip.compress(other))
        with pytest.raises(InputError, match=r"labels-idx1.*that begin with \d+ and .* with 2049$"):
            read(tmp_path)


@pytest.mark.parametrize("labels", [[1, 2], [1, 0, 2]])
def test_locations_have_a_class_from_1_each(recipe, tmp_path, labels):
    bits = np.packbits(np.eye(3, 9, dtype=bool), axis=1)
    np.savez(tmp_path / "location30.npz", bits=bits, labels=labels, n_features=9)
    with pytest.raises(InputError, match=r"location30\.npz: 3 records, and labels of shape"):
        recipe["data"].location30(tmp_path)


@pytest.mark.parametrize("name", ["train", "train.bin"])
def test_pickled_cifar_is_refused_unread(large, tmp_path, name):
    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "opened",)

    (tmp_path / name).write_bytes(pickle.dumps({b"data": Bomb()}, protocol=2))
    with pytest.raises(InputError, match=f"{name}: a pickle.*binary version of CIFAR-100"):
        large.cifar100(tmp_path)
    assert not (tmp_path / "opened").exists()


FIT = "give each record a class from 0 to 99"
REFUSED = [
    ("purchase100", "1,0,1\n2,0\n", r"dataset_purchase:2: a line of 2 cells where 3 numbers"),
    ("purchase100", "1,0,1\n2,0,x\n", r"dataset_purchase:2: a line of 3 cells.*published file"),
    ("purchase100", "1,0,2\n", r"no zeros and ones.*published file"),
    ("purchase100", "0,0,1\n", r"labels from 0 to 0, where 1 to 100"),
    ("purchase100", "101,0,1\n", r"labels from 101 to 101"),
    ("purchase100", "1\n2\n", r"features of shape \(2, 0\)"),
    ("purchase100", "\n", "the file is empty; unpack it anew"),
    ("purchase100", {"features": np.eye(2), "labels": [0, 100]}, FIT),
    ("purchase100", {"features": np.eye(2), "labels": [-1, 0]}, FIT),
    ("purchase100", {"features": np.eye(2), "labels": [0]}, FIT),
    ("purchase100", {"features": np.eye(2), "labels": [[1, 1], [0, 1]]}, FIT),
    ("purchase100", {"x": np.eye(2), "labels": [0, 1]}, "plain arrays features and labels"),
    ("purchase100", b"PK\x03\x04 and no more", r"purchase100\.npz: cannot be read"),
    (
        "texas100",
        {"features": np.array([{}]), "labels": [1]},
        r"texas100\.npz: cannot be read.*pickles are refused",
    ),
    ("cifar100", [(9,), (3,)], "6,146 bytes, which are no whole number of images"),
    ("cifar100", [(9, 120)], "a class 120, where 0 to 99"),
    *((name, None, "no such file; unpack") for name in ("purchase100", "texas100", "cifar100")),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_files_that_are_not_the_published_ones(large, tmp_path, name, content, message):
    if isinstance(content, str):
        (tmp_path / "dataset_purchase").write_text(content)
    elif isinstance(content, bytes):
        (tmp_path / f"{name}.npz").write_bytes(content)
    elif isinstance(content, dict):
        np.savez(tmp_path / f"{name}.npz", **content)
    elif content is not None:
        binary(tmp_path / "train.bin", content)
    with pytest.raises(InputError, match=message):
        getattr(large, name)(tmp_path)


def test_texas100_needs_a_label_for_each_record(large, tmp_path):
    texas(tmp_path, "0,1\n1,1\n", "3\n")
    with pytest.raises(InputError, match=r"2 records of features, and labels of shape \(1, 1\)"):
        large.texas100(tmp_path)


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
