"""Any manifest, result or shard: it is read, or a CanaryError says where it is damaged."""

from __future__ import annotations

import copy
import json
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from fuzzing import attempt, cases, damaged, failed
from hypothesis import given
from hypothesis import strategies as st

from canary.audits.audit_result import Audit, CanaryResult, FormatResult
from canary.corpus.canaries import CanarySet, generate
from canary.errors import RecordError
from canary.gate.baselines import Baseline
from canary.gate.check_audit import check
from canary.records.shards import open_run
from canary.reports.verdicts import junit, markdown
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.extrapolation import exposure_by_skew_normal
from canary.statistics.histogram import HistogramBuilder
from canary.statistics.pvalues import fisher

SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from([2**63, -(2**64), 10**400, 10**4000, "{digit:9}", "\ud800", "canary-1"])
    | st.sampled_from(["+inf", "skew-normal", "enumeration", "uniform draws", {}, [], [[]], [{}]])
)
JSON = st.recursive(
    SCALAR,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=4,
)

SETS = [
    generate("x {digit:4}", repetitions=[1, 2], per_repetition=1, controls=1, seed=0),
    generate("{hex:9}", repetitions=[1, 3], per_repetition=2, controls=1, seed=0, coin_flips=True),
    CanarySet.from_fills("{digit:3}-{digit:4}", {"555-0100": 3, "555-0101": 1}),
]


def small_audit():
    rng = np.random.default_rng(0)
    draws, px = rng.normal(30, 2, 200), [12.0, 31.0]
    found = exposure_by_draws(px, draws, space_size=10**6)
    curves, fit = exposure_by_skew_normal(px, draws, space_size=10**6, rng=rng, replicates=20)
    builder = HistogramBuilder()
    builder.add(draws)
    return Audit(
        canaries=tuple(
            CanaryResult(f"canary-{i}", 0, i, px[i], None, found[i], curves[i]) for i in (0, 1)
        ),
        formats=(
            FormatResult(
                format="x {digit:6}",
                masked="x ••••••",
                space_size=10**6,
                method="uniform draws",
                reason="the space is large",
                histogram=builder.build(),
                skew_normal=fit,
                candidates=200,
                draws=200,
                queries=1200,
                tokens=8,
                noise_bits=1e-4,
                certificate=None,
                seconds=0.1,
            ),
        ),
        injected_p=fisher([found[1].p_value], shared_draws=200),
        controls_p=fisher([found[0].p_value], shared_draws=200),
        model={"name": "m", "dtype": "float32"},
        settings={"seed": 0},
    )


AUDIT = small_audit()


@st.composite
def changed(draw, document):
    """Plain data with some of its values changed, removed, doubled or added."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        inner = found
        while True:
            keys = list(inner) if isinstance(inner, dict) else range(len(inner))
            if not keys:
                break
            key = draw(st.sampled_from(list(keys)))
            if isinstance(inner[key], dict | list) and inner[key] and draw(st.booleans()):
                inner = inner[key]
                continue
            match draw(st.sampled_from(["change", "change", "change", "remove", "add"])):
                case "change":
                    inner[key] = copy.deepcopy(draw(JSON))
                case "remove":
                    del inner[key]
                case _ if isinstance(inner, dict):
                    inner[draw(st.text(max_size=4))] = copy.deepcopy(draw(JSON))
                case _:
                    inner.append(copy.deepcopy(inner[key]))
            break
    return found


def encoded(document):
    """As JSON, also where it is none: NaN and halves of surrogate pairs are written."""
    return json.dumps(document).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@cases(8_000)
@given(document=st.sampled_from([item.to_dict() for item in SETS]).flatmap(changed))
def test_canary_sets(document):
    loaded = attempt(CanarySet.from_dict, document)
    if failed(loaded):
        assert isinstance(loaded, RecordError)
        return
    assert CanarySet.from_dict(json.loads(json.dumps(loaded.to_dict()))) == loaded


@pytest.fixture(scope="module")
def contents(folder):
    for number, item in enumerate([*SETS, AUDIT]):
        item.save(folder / f"{number}.json")
    return [(folder / f"{number}.json").read_bytes() for number in range(len(SETS) + 1)]


@cases(4_000)
@given(data=st.data())
def test_files_of_damaged_bytes(folder, contents, data):
    path = folder / "damaged.json"
    path.write_bytes(data.draw(damaged(st.sampled_from(contents))))
    for load in (CanarySet.load, Audit.load):
        loaded = attempt(load, path)
        assert not failed(loaded) or str(path) in loaded.where


@cases(7_000, default=15)
@given(document=changed(AUDIT.to_dict()))
def test_audits_and_the_gate(document):
    loaded = attempt(Audit.from_dict, document)
    if failed(loaded):
        assert isinstance(loaded, RecordError)
        return
    json.dumps(loaded.to_dict())
    assert isinstance(loaded.summary(), str)
    for limit in ({"max_exposure_bits": 5}, {"max_p": 0.01}, {"baseline": Baseline.of(AUDIT)}):
        verdict = attempt(check, loaded, **limit)
        if not failed(verdict):
            json.dumps(verdict.to_dict(), allow_nan=False)
            ET.fromstring(junit(verdict))
            assert markdown(verdict)


BASELINE = {"audits": [m.to_dict() for m in Baseline.of(AUDIT).audits]}


@cases(2_000)
@given(document=changed(BASELINE))
def test_baselines(folder, document):
    path = folder / "baseline.json"
    path.write_bytes(encoded({"kind": "canary baseline", "schema": 1, **document}))
    loaded = attempt(Baseline.load, path)
    if failed(loaded):
        assert isinstance(loaded, RecordError)
        assert str(path) in loaded.where
        return
    loaded.save(path)
    verdict = attempt(check, AUDIT, baseline=loaded)
    assert failed(verdict) or verdict.findings


IDENTITY = {"task": "score", "input": "0" * 64, "columns": ["a", "b"], "seed": 3}


@cases(1_000, default=12)
@given(data=st.data())
def test_unfinished_runs(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("run") / "out.parts"
    with open_run(folder, IDENTITY) as run:  # which nothing discards
        series = run.series("scores")
        for number in range(3):
            series.append({"at": number}, b"x" * number)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    match data.draw(st.sampled_from(["damage", "remove", "change"])):
        case "damage":
            path.write_bytes(data.draw(damaged(st.just(path.read_bytes()))))
        case "remove":
            path.unlink()
        case "change":
            identity = data.draw(changed(IDENTITY))
            path = folder / "manifest.json"
            path.write_bytes(encoded({**json.loads(path.read_bytes()), "identity": identity}))

    def go_on():
        with open_run(folder, IDENTITY) as run:
            return [shard.state["at"] for shard in run.series("scores")]

    done = attempt(go_on)
    assert failed(done) or done in ([0, 1, 2], [0, 1], [])
