"""Headers of arrays that tell of more, or of other things, than the file holds."""

from __future__ import annotations

import tracemalloc
import zipfile

import numpy as np
import pytest

from canary.errors import InputError
from canary.signals import output_files as files
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


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"labels": header("<i8", "(4,)") + b"\0" * 24}, r"labels holds 24 .* says 32; write"),
        ({"labels": header("<i8", "(4, 9223372036854775808)")}, "labels holds 0 bytes"),
        ({"labels": header("<i8", "(4,)") + b"\0" * 40}, r"labels holds 40 .* says 32; write"),
        ({"logits": header("<f8", "(4, 1000000000000)")}, "logits holds 0 bytes"),
        ({"logits": header("<f8", "(4, 10000000000)", fortran=True)}, "logits holds 0 bytes"),
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


_MANY = 40_000_000
_LONG_HEADER = b"\x93NUMPY\x02\x00" + _MANY.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("name", "begin", "words"),
    [
        ("labels", header("<i8", "(4,)"), "labels holds 40,000,000 bytes.* says 32"),
        ("member", header("|b1", "(4,)"), "member holds 40,000,000 bytes.* says 4"),
        ("logits", header("<f8", "(4, 2)", fortran=True), "logits holds 40,000,000 bytes"),
        ("labels", _LONG_HEADER, "is damaged"),
        ("labels", b"no header", "is damaged"),
    ],
)
def test_what_unpacks_to_more_than_its_header_says_is_not_unpacked(tmp_path, name, begin, words):
    with zipfile.ZipFile(saved(tmp_path / "x.npz", **{name: b""}), "w", zipfile.ZIP_DEFLATED) as to:
        with zipfile.ZipFile(saved(tmp_path / "y.npz")) as whole:
            for other in {"logits", "labels", "member"} - {name}:
                to.writestr(f"{other}.npy", whole.read(f"{other}.npy"))
        to.writestr(f"{name}.npy", begin + bytes(_MANY), compresslevel=1)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=words):
            measure(tmp_path / "x.npz")
        assert tracemalloc.get_traced_memory()[1] < _MANY / 10
    finally:
        tracemalloc.stop()


def test_arrays_that_are_as_large_as_they_say_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MOST_BYTES", 63)
    by_columns = header("<f8", "(4, 2)", fortran=True) + bytes(64)
    assert measure(saved(tmp_path / "x.npz")).member[0].tolist() == [False, True, False, True]
    with pytest.raises(InputError, match=r"logits takes .* by columns; save it by rows"):
        measure(saved(tmp_path / "y.npz", logits=by_columns))
    with pytest.raises(InputError, match=r"group takes .* split the file"):
        measure(saved(tmp_path / "z.npz", group=header("<U4", "(4,)") + bytes(64)))


def test_a_compression_that_numpy_does_not_use_is_refused(tmp_path):
    with zipfile.ZipFile(saved(tmp_path / "x.npz")) as whole:
        content = {name: whole.read(name) for name in whole.namelist()}
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as to:
        for name, held in content.items():
            to.writestr(name, held)
    with pytest.raises(InputError, match="logits is compressed as numpy does not compress"):
        measure(tmp_path / "x.npz")
