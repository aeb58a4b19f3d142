"""Files of outputs: what is read, and what is refused with its cure; headers are not believed."""

from __future__ import annotations

import math
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import canary
from canary.errors import InputError
from canary.signals import output_files as files

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(0, 3, (50, 3))
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABELS = RNG.integers(0, 3, 50)
MEMBER = np.arange(50) % 2
GOOD = {"labels": LABELS, "member": MEMBER}


def numbered(kind, outputs):
    return {f"{kind}_{i}": outputs[:, i] for i in range(outputs.shape[1])}


def csv(path, columns):
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(repr(v.item()) for v in r) for r in rows)]
    path.write_text("\n".join(lines) + "\n")


def write(path, kind):
    """`LOGITS` in every way a file can hold them."""
    if kind == "npz":
        np.savez(path.with_suffix(".npz"), logits=LOGITS, **GOOD)
    elif kind == "npz packed, columns first":
        np.savez_compressed(path.with_suffix(".npz"), logits=np.asfortranarray(LOGITS), **GOOD)
    elif kind == "parquet of lists":
        columns = {"logits": LOGITS.tolist(), **GOOD}
        pq.write_table(pa.table(columns), path.with_suffix(".parquet"))
    elif kind == "parquet of columns":
        pq.write_table(
            pa.table({**numbered("logits", LOGITS), **GOOD}), path.with_suffix(".parquet")
        )
    else:
        csv(path.with_suffix(".csv"), {**numbered("logits", LOGITS), **GOOD})
    return next(path.parent.glob("outputs.*"))


@pytest.mark.parametrize("size", [files._BYTES, 8 * 3 * 7])
@pytest.mark.parametrize(
    "kind", ["npz", "npz packed, columns first", "parquet of lists", "parquet of columns", "csv"]
)
def test_every_file_gives_the_table_of_the_arrays_property(tmp_path, monkeypatch, kind, size):
    monkeypatch.setattr(files, "_BYTES", size)  # pieces of 7 samples
    found = canary.measure(write(tmp_path / "outputs", kind))
    expected = canary.measure(LOGITS, y=LABELS, member=MEMBER, outputs="logits")
    assert found.values.keys() == expected.values.keys()
    for name, value in expected.values.items():
        np.testing.assert_array_equal(found.values[name], value)
    np.testing.assert_array_equal(found.member, expected.member)
    np.testing.assert_array_equal(found.label, LABELS)
    assert found.classes == 3


def changed(array, at, value, dtype=None):
    array = array.astype(dtype or array.dtype).copy()
    array[at] = value
    return array


def probs(**change):
    return {"probs": PROBS, **GOOD, **change}


MANY = np.random.default_rng(8).normal(0, 3, (300, 3))
BESIDE = {"labels": np.arange(300) % 3, "member": np.arange(300) % 2}
SMALL = np.array([[1, 1e-9], [0.5, 0.5]], np.float16)
BAD = {
    "sample 7 has the label 3, expected 0 to 2": probs(labels=changed(LABELS, 7, 3)),
    "sample 7 has the label -1": probs(labels=changed(LABELS, 7, -1)),
    "labels are decimals .* whole numbers": probs(labels=LABELS + 0.5),
    "labels are true or false beside outputs of 3": probs(labels=LABELS == 1),
    "number of each sample's class, as argmax": probs(labels=np.eye(3)[LABELS]),
    "labels has the shape .50, 1.": probs(labels=LABELS[:, None]),
    "sample 7 has the label -9223372036854775808": probs(labels=changed(LABELS, 7, np.inf, float)),
    "member flag '(yes|no)', expected 0": probs(member=np.where(MEMBER, "yes", "no")),
    "member flag 0.[27]5": probs(member=MEMBER * 0.5 + 0.25),
    "member flag 5": probs(member=changed(MEMBER, 2, 5)),
    "sample 7 has the group nan": probs(group=changed(LABELS, 7, np.nan, float)),
    "group [0-9.]+25, expected a whole number": probs(group=LABELS + 0.25),
    r"samples 3, 9 .* not sum to one .the first to 1.5": probs(probs=changed(PROBS, [3, 9], 0.5)),
    "samples 0, 1, 2 and 47 more have prob.*name logits": probs(probs=LOGITS),
    "percentages": probs(probs=100 * PROBS),
    "all digits, if they are rounded; or save the loss": probs(probs=np.round(PROBS, 2)),
    "largest are there, share what is missing": probs(probs=np.where(PROBS > 0.4, PROBS, 0)),
    "each class has a sigmoid": probs(probs=1 / (1 + np.exp(-LOGITS))),
    "have logits of length 1": {"logits": LOGITS / np.linalg.norm(LOGITS, axis=1)[:, None], **GOOD},
    "exactly -2, the lowest of all": {"logits": MANY.clip(-2, 2), **BESIDE},
    "exactly 2, the highest of all": {"logits": MANY.astype("f2").clip(None, 2), **BESIDE},
    "exactly 0, the lowest of all, as after .* a ReLU": {"logits": MANY.clip(0), **BESIDE},
    "sample 4 have negative prob": probs(probs=changed(PROBS, 4, [-0.5, 0.5, 1.0])),
    "sample 4 have NaN prob": probs(probs=changed(PROBS, 4, np.nan)),
    "sample 4 have NaN or inf": {"logits": changed(LOGITS, (4, 1), np.nan), **GOOD},
    "NaN or infinite logits": {"logits": changed(LOGITS, (4, 1), np.inf), **GOOD},
    "float16 holds nothing above": {"logits": changed(LOGITS, (4, 1), np.inf, np.float16), **GOOD},
    "in float16.*save logits": {"probs": SMALL, "labels": [1, 0], "member": [0, 1]},
    "not all": {"logits": changed(LOGITS, 4, -np.inf), **GOOD},
    "losses that are NaN or neg": {"losses": changed(LABELS * 0.5, 3, -1), **GOOD},
    r"shape .50, 3., expected one number per": {"losses": PROBS, **GOOD},
    r"probs have the shape .50, 1..*at least 2": probs(probs=PROBS[:, :1]),
    "numbers were expected": probs(probs=PROBS.astype(str)),
    "differ in length: probs 50, labels 40.*not the numbers of the members": probs(
        labels=LABELS[:40]
    ),
    "no samples": {"probs": PROBS[:0], "labels": LABELS[:0], "member": MEMBER[:0]},
    "lacks member; it holds labels, probs": {"probs": PROBS, "labels": LABELS},
    "lacks logits, probs or losses; it holds labels, member": GOOD,
}


@pytest.mark.parametrize("words", BAD)
def test_bad_arrays_in_a_file(tmp_path, words):
    path = tmp_path / "bad.npz"
    np.savez(path, **BAD[words])
    with pytest.raises(InputError, match=words) as refused:
        canary.measure(path)
    assert str(path) in str(refused.value)
    assert refused.value.cure


def test_logits_that_share_bounds_without_a_cut_are_taken():
    mask = np.arange(900).reshape(300, 3) % 4 == 0
    for logits in (
        MANY.astype("f2"),
        MANY.round(),
        MANY.round() * 0.3,
        np.where(mask, -9.0, MANY),
        np.where(mask, -np.inf, MANY),
        np.column_stack([MANY, np.full(300, -10.5)]),
        (9 * MANY).clip(-16.1, 16.1),
        np.minimum(10 * MANY, 0),
        MANY - MANY.min(axis=1, keepdims=True),
    ):
        labels = np.argmax(logits, axis=1)
        assert canary.measure(logits, y=labels, member=BESIDE["member"], outputs="logits").samples


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("member", ["yes", "no"], "sample 0 has the member flag 'yes', expected 0 or 1"),
        ("member", [0.75, 0.25], "sample 0 has the member flag 0.75, expected 0 or 1"),
        ("labels", [True, False], "true or false beside outputs of 3 classes"),
        ("group", [1.0, math.nan], "sample 1 has the group nan"),
    ],
)
@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_bad_columns_in_a_table_regression(tmp_path, name, column, values, words):
    """Flags in words were an unforeseen AttributeError, and NaN a group of its own."""
    columns = {
        **{f"logits_{k}": [0.5 * k, 1.0] for k in range(3)},
        "labels": [0, 1],
        "member": [0, 1],
        column: values,
    }
    write = pq.write_table if name == "a.parquet" else pa_csv.write_csv
    write(pa.table(columns), tmp_path / name)
    with pytest.raises(InputError, match=words):
        canary.measure(tmp_path / name)


@pytest.mark.parametrize("name", ["logits", "labels", "member", "group"])
def test_records_are_no_numbers_regression(tmp_path, name):
    """A record as a member flag was an unforeseen TypeError."""
    arrays = {"logits": LOGITS, **GOOD, "group": LABELS, name: np.zeros(50, [("a", "<f8")])}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=rf"{name} is of the type \[\('a', '<f8'\)\]"):
        canary.measure(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["logits", "labels", "member", "group"])
def test_pickled_objects_are_never_loaded(tmp_path, name):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    arrays = {"logits": LOGITS, **GOOD, "group": LABELS} | {name: np.array([Trap()] * 50)}
    np.savez(tmp_path / "a.npz", allow_pickle=True, **arrays)
    with pytest.raises(InputError, match=f"pickled objects in {name}, which are never loaded"):
        canary.measure(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["a.npz", "a.parquet", "a.csv"])
def test_damaged_and_missing_files(tmp_path, name):
    with pytest.raises(InputError, match="cannot be read"):
        canary.measure(tmp_path / name)
    (tmp_path / name).write_bytes(b"\x00\xff nothing of the kind")
    with pytest.raises(InputError, match="damaged|lacks"):
        canary.measure(tmp_path / name)


def test_a_file_that_was_cut_short(tmp_path):
    whole = tmp_path / "a.npz"
    np.savez(whole, logits=RNG.normal(0, 1, (5000, 3)), labels=[0] * 5000, member=[1] * 5000)
    whole.write_bytes(whole.read_bytes()[:60_000])
    with pytest.raises(InputError, match="damaged"):
        canary.measure(whole)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gap.csv", "logits_0,logits_2,labels,member\n1,2,0,1\n", "numbered from 0 without a gap"),
        ("a.csv", "logits_0,logits_1,labels,member\n1,2,,1\n", "column labels has empty cells"),
        ("outputs.txt", "", "has the ending '.txt'; save the outputs as .npz"),
        ("uneven.parquet", {"logits": [[1.0, 2.0], [1.0]]}, "the lists of logits differ in length"),
        ("labels.parquet", {"labels": [[0], [1]]}, "column labels is of the type list"),
        (
            "member.parquet",
            {"member": pa.array([[], []], pa.list_(pa.int8()))},
            "give one entry per sample",
        ),
        ("group.parquet", {"group": [[0, 1], [1, 0]]}, "column group is of the type list"),
    ],
)
def test_tables_that_do_not_serve(tmp_path, name, content, words):
    if isinstance(content, dict):
        good = {"logits": [[1.0, 2.0], [1.0, 0.0]], "labels": [0, 0], "member": [0, 1]}
        pq.write_table(pa.table(good | content), tmp_path / name)
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=words):
        canary.measure(tmp_path / name)


@pytest.mark.parametrize(
    ("models", "change", "words"),
    [
        ("a.npz", {"member": None, "outputs": None}, "a file of outputs brings its own labels"),
        (LOGITS, {"outputs": None}, r"missing: outputs \(got None\)"),
        (LOGITS, {"outputs": "probz", "y": None}, r"missing: y, outputs \(got 'probz'\)"),
        (LOGITS, {"member": None}, "missing: member; give member, which"),
        (lambda x: x, {}, "needs x"),
        (lambda x: x[1:], {"x": PROBS}, "gave 49 outputs for 50 samples"),
        ([LOGITS, LOGITS[:, :2]], {"y": LABELS * 0}, "of 2 classes, and measure: model 0 of 3"),
        ([LOGITS] * 3, {"member": np.ones((2, 50))}, r"members of shape \(2, 50\) .* for 3 models"),
    ],
)
def test_measure_says_what_does_not_fit(models, change, words):
    given = {"y": LABELS, "member": MEMBER, "outputs": "logits"}
    with pytest.raises(InputError, match=words):
        canary.measure(models, **(given | change))


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
        canary.measure(saved(tmp_path / "x.npz", **changed))


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
            canary.measure(tmp_path / "x.npz")
        assert tracemalloc.get_traced_memory()[1] < _MANY / 10
    finally:
        tracemalloc.stop()


def test_arrays_that_are_as_large_as_they_say_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MOST_BYTES", 63)
    by_columns = header("<f8", "(4, 2)", fortran=True) + bytes(64)
    assert canary.measure(saved(tmp_path / "x.npz")).member[0].tolist() == [
        False,
        True,
        False,
        True,
    ]
    with pytest.raises(InputError, match=r"logits takes .* by columns; save it by rows"):
        canary.measure(saved(tmp_path / "y.npz", logits=by_columns))
    with pytest.raises(InputError, match=r"group takes .* split the file"):
        canary.measure(saved(tmp_path / "z.npz", group=header("<U4", "(4,)") + bytes(64)))


def test_a_compression_that_numpy_does_not_use_is_refused(tmp_path):
    with zipfile.ZipFile(saved(tmp_path / "x.npz")) as whole:
        content = {name: whole.read(name) for name in whole.namelist()}
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as to:
        for name, held in content.items():
            to.writestr(name, held)
    with pytest.raises(InputError, match="logits is compressed as numpy does not compress"):
        canary.measure(tmp_path / "x.npz")
