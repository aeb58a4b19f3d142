"""Headers of arrays that tell of more, or of other things, than the file holds."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from canary.errors import InputError
from canary.signals.measuring import measure


def header(descr, shape, *, fortran=False):
    words = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words


def saved(path, **changed):
    held = {
        "logits": header("<f8", "(4, 2)") + np.arange(8.0).tobytes(),
        "labels": header("<i8", "(4,)") + np.array([0, 1, 0, 1]).tobytes(),
        "member": header("|b1", "(4,)") + bytes([0, 1, 0, 1]),
        **changed,
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in held.items():
            archive.writestr(f"{name}.npy", content)
    return path


def test_the_file_as_it_should_be(tmp_path):
    table = measure(saved(tmp_path / "x.npz"))
    assert table.member[0].tolist() == [False, True, False, True]
    whole = np.arange(8.0).reshape(4, 2).tobytes("F")
    other = saved(tmp_path / "y.npz", logits=header("<f8", "(4, 2)", fortran=True) + whole)
    np.testing.assert_array_equal(measure(other).signal("loss"), table.signal("loss"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"labels": header("<i8", "(4,)") + b"\0" * 24}, "labels holds 3 of 4 entries"),
        ({"labels": header("<i8", "(4, 9223372036854775808)")}, "labels has the shape"),
        ({"logits": header("<f8", "(4, 1000000000000)")}, "logits ends too early"),
        ({"logits": header("<f8", "(4, 10000000000)", fortran=True)}, "is damaged"),
        ({"logits": header("<f8", "(-4, 2)")}, r"logits has the shape \(-4, 2\)"),
        ({"logits": header("<f8", "(4, 2, }")}, "is damaged or not what its ending says"),
        ({"group": header("<U0", "(4,)")}, "is damaged"),
        ({"group": header("<U1", "(4,)") + b"\0\0\x11\0" * 4}, "group holds what is no text"),
        ({"group": header(">U1", "(4,)") + b"\0\0\xd8\0" * 4}, "group holds what is no text"),
    ],
)
def test_headers_are_not_believed(tmp_path, changed, words):
    with pytest.raises(InputError, match=words):
        measure(saved(tmp_path / "x.npz", **changed))
