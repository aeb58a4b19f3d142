"""Audits shared by processes: what counts as the same, and what lies between them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from gate_audits import exact
from small_models import table_model

from canary.corpus.canaries import generate
from canary.models.loading import load
from canary.plugins.pytest_plugin import _shared_audits

CANARIES = generate("The code is {digit:6}", repetitions=[1], per_repetition=4, seed=0)
KEY = b"k" * 32


@pytest.fixture
def computed(monkeypatch):
    """The audits that are really computed; their numbers are made up."""
    done = []

    def audit(model, canaries, **options):
        done.append((model, options))
        return exact({1: [float(len(done))] * 4})

    monkeypatch.setattr("canary.audits.auditing.audit", audit)
    monkeypatch.setattr(
        "canary.models.loading.load", lambda m: m if isinstance(m, Path) else load(m)
    )
    return done


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "weights").write_bytes(b"1")
    return folder


def test_the_same_content_and_options_are_one_audit(computed, model):
    shared = _shared_audits(None, KEY)
    first = shared(model, CANARIES, draws=10, seed=1)
    assert shared(str(model), CANARIES, seed=1, draws=10) is first
    assert shared(model, CANARIES, draws=10, seed=1, progress=print, parts="here") is first
    moved = model.rename(model.with_name("elsewhere"))
    assert shared(moved, CANARIES, draws=10, seed=1) is first
    assert len(computed) == 1


def test_other_content_canaries_or_options_are_other_audits(computed, model):
    shared = _shared_audits(None, KEY)
    shared(model, CANARIES)
    shared(model, CANARIES, draws=10)
    fill = "000000" if CANARIES.canaries[0].fill != "000000" else "000001"
    other = dataclasses.replace(CANARIES.canaries[0], fill=fill)
    shared(model, dataclasses.replace(CANARIES, canaries=(other, *CANARIES.canaries[1:])))
    (model / "inner" / "weights").write_bytes(b"2")
    shared(model, CANARIES)
    (model / "inner" / "weights").rename(model / "weights")
    shared(model, CANARIES)
    assert len(computed) == 5


def test_a_loaded_model_is_known_by_its_parameters(computed):
    shared = _shared_audits(None, KEY)
    first = shared(table_model(), CANARIES)
    assert shared(table_model(), CANARIES) is first
    changed = table_model()
    changed.facts = dataclasses.replace(changed.facts, fingerprint="f" * 64)
    assert shared(changed, CANARIES) is not first


def test_processes_find_each_others_audits_under_names_that_follow_from_the_key(
    computed, model, tmp_path
):
    def files(name):
        found = (tmp_path / name).iterdir()
        return {path.name for path in found if path.suffix == ".json"}

    for name, key in (("one", KEY), ("two", KEY), ("three", b"other")):
        (tmp_path / name).mkdir()
        first = _shared_audits(tmp_path / name, key)(model, CANARIES)
        assert _shared_audits(tmp_path / name, key)(model, CANARIES) == first
    assert len(computed) == 3
    assert files("one") == files("two") != files("three")


def test_what_failed_is_not_kept(computed, model, tmp_path, monkeypatch):
    monkeypatch.setattr("canary.audits.auditing.audit", lambda *given, **options: 1 / 0)
    shared = _shared_audits(tmp_path, KEY)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            shared(model, CANARIES)
    assert not list(tmp_path.glob("*.json"))
