"""Any bytes as a file of a classifier's outputs: a table and attacks, or a CanaryError."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from corpora import parquet
from fuzzing import attempt, cases, damaged, failed
from hypothesis import given
from hypothesis import strategies as st

from canary.errors import InputError
from canary.membership.shadow_survey import survey
from canary.signals.measuring import measure
from canary.signals.signal_table import SignalTable

# Files of Python 2 are read, and numpy says so.
pytestmark = pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("outputs")


def tried(path, content):
    """Read it, and attack it by itself."""
    path.write_bytes(content)
    table = attempt(measure, path)
    if failed(table):
        return table
    assert isinstance(table, SignalTable)
    for name, values in table.values.items():
        assert values.shape == (1, table.samples), name
        assert not np.isnan(values).any(), name
    assert ((table.label >= 0) & (table.label < table.classes)).all()
    found = attempt(survey, table, table, attacks="all")
    if not failed(found):
        found.to_dict()
        for one in found.attacked:
            assert not np.isnan(one.attack.scores).any()
        if found.risks is not None:
            assert ((found.risks.scores >= 0) & (found.risks.scores <= 1)).all()
    return table


def arrays(kind, dtype, seed, classes):
    rng = np.random.default_rng(seed)
    outputs = rng.normal(0, 4, (8, classes))
    if kind == "probs":
        outputs = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    if kind == "losses":
        outputs = np.abs(outputs[:, 0])
    return {
        kind: outputs.astype(dtype),
        "labels": rng.integers(0, classes, 8),
        "member": np.arange(8) % 2,
        "group": np.array(list("abababaa")),
    }


MADE = st.builds(
    arrays,
    st.sampled_from(["logits", "probs", "losses"]),
    st.sampled_from(["f8", "f4", "f2"]),
    st.integers(0, 3),
    st.integers(2, 4),
)
ODD = st.sampled_from(
    [np.nan, np.inf, -np.inf, -1.0, 0.5, 2.0**63, 1e308, 65505.0, -0.0, 7.0, 1e-320]
)


def npz(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=True)
    return out.getvalue()


def table(made):
    columns = {n: [row.tolist() for row in a] if a.ndim == 2 else a for n, a in made.items()}
    return parquet(pa.table(columns), row_group_size=3)


def csv(made):
    (kind,) = set(made) & {"logits", "probs", "losses"}
    outputs = made[kind].reshape(8, -1)
    names = [kind] if made[kind].ndim == 1 else [f"{kind}_{i}" for i in range(outputs.shape[1])]
    others = ["labels", "member", "group"]
    rows = zip(outputs, *(made[name] for name in others), strict=True)
    lines = [[*names, *others], *([*row, *rest] for row, *rest in rows)]
    return "\n".join(",".join(map(str, line)) for line in lines).encode()


WRITERS = {
    "npz": lambda made: npz({name: npy(array) for name, array in made.items()}),
    "parquet": table,
    "csv": csv,
}


@cases(10_000, default=30)
@given(made=MADE, ending=st.sampled_from(sorted(WRITERS)), data=st.data())
def test_files_of_damaged_bytes(folder, made, ending, data):
    tried(folder / f"x.{ending}", data.draw(damaged(st.just(WRITERS[ending](made)))))


@cases(6_000, default=15)
@given(made=MADE, data=st.data())
def test_npz_of_damaged_arrays(folder, made, data):
    """With checksums that fit, so that what is damaged is read."""
    members = {name: npy(array) for name, array in made.items()}
    name = data.draw(st.sampled_from(sorted(members)))
    members[name] = data.draw(damaged(st.just(members[name])))
    tried(folder / "x.npz", npz(members))


HEADERS = st.fixed_dictionaries(
    {
        "descr": st.sampled_from(
            ["<f8", ">f4", "<f2", "<i8", "|b1", "|O", "<U3", "<c16", "<M8[s]", "|V0", "<U0"]
        )
        | st.just([("a", "<f8")]),
        "fortran_order": st.booleans(),
        "shape": st.lists(
            st.integers(-1, 9) | st.sampled_from([8, 8, 8, 10**12, 2**63, 10**30]), max_size=3
        ).map(tuple),
    }
)


@cases(6_000, default=15)
@given(made=MADE, header=HEADERS, data=st.data())
def test_npz_of_any_headers(folder, made, header, data):
    members = {name: npy(array) for name, array in made.items()}
    for name in data.draw(st.sets(st.sampled_from(sorted(members)), min_size=1)):
        words = repr(header).encode()
        words += b" " * (-(len(words) + 11) % 64) + b"\n"
        content = members[name]
        start = 10 + int.from_bytes(content[8:10], "little")
        magic = b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little")
        members[name] = magic + words + content[start:]
    tried(folder / "x.npz", npz(members))


COLUMNS = {
    pa.float64(): st.floats() | ODD,
    pa.int64(): st.integers(0, 3),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.list_(pa.float32()): st.lists(st.floats(-9, 9, width=32), max_size=3),
    pa.list_(pa.float64(), 2): st.lists(st.floats(-9, 9) | ODD, min_size=2, max_size=2),
    pa.list_(pa.list_(pa.float64())): st.lists(st.lists(st.floats(-1, 1), max_size=2), max_size=2),
    pa.struct([("a", pa.int64())]): st.fixed_dictionaries({"a": st.integers(0, 3)}),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b"]),
    pa.timestamp("s"): st.integers(0, 9),
    pa.decimal128(5, 2): st.decimals(0, 9, places=2),
    pa.null(): st.none(),
}


@cases(3_000, default=15)
@given(data=st.data(), rows=st.integers(0, 5))
def test_parquet_of_any_columns(folder, data, rows):
    names = ["logits", "probs", "losses", "labels", "member", "group", "logits_0", "logits_1"]
    held = {}
    for name in data.draw(st.sets(st.sampled_from(names), min_size=2)) | {"labels", "member"}:
        kind = data.draw(st.sampled_from(list(COLUMNS)))
        if name in {"labels", "member"} and data.draw(st.integers(0, 3)):
            kind = pa.int64()
        values = data.draw(st.lists(COLUMNS[kind] | st.none(), min_size=rows, max_size=rows))
        if data.draw(st.integers(0, 3)):
            values = [data.draw(COLUMNS[kind]) if value is None else value for value in values]
        held[name] = pa.array(values, type=kind)
    tried(folder / "x.parquet", parquet(pa.table(held)))


def test_the_tests_see_results_and_errors(folder):
    content = WRITERS["npz"](arrays("logits", "f4", 0, 3))
    assert not failed(tried(folder / "seen.npz", content))
    assert isinstance(tried(folder / "seen.npz", content[:-30]), InputError)
