"""An audit killed at any moment and started again gives the numbers of one that was not."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from long_runs import Nursery, survive
from small_models import build

from canary.audits.auditing import audit
from canary.corpus.canaries import CanarySet, generate
from canary.errors import RecordError
from canary.formats.format import Format
from canary.search import ranking

# One with leaves at two depths is enumerated, and then one is drawn.
FORMATS = ["a{digit:2}{choice:b|cd|ce}", "The {digit:6}"]
OPTIONS = {"budget": 600, "draws": 300}


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as made:
        yield made


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def job(place, **more):
    """A set of canaries on disk, and an audit of them."""
    canaries = generate(FORMATS, repetitions=[1, 4], per_repetition=2, controls=3, seed=7)
    canaries.save("canaries.json")
    paths = {"canaries": str(place / "canaries.json"), "out": str(place / "audit")}
    return {"task": "audit", **paths, **OPTIONS, **more}


def numbers():
    """All of an audit but how long it took."""
    document = json.loads(Path("audit/audit.json").read_text())
    for about in (document, *document["formats"]):
        del about["seconds"]
    return document


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_random_moments_gives_the_same_numbers(nursery, place, kills, monkeypatch):
    found = []

    def check():
        found.append(numbers())
        assert found[-1] == found[0]
        assert [path.name for path in Path("audit").iterdir()] == ["audit.json"]

    survive(
        nursery,
        kills=kills,
        rng=random.Random(kills),
        check=check,
        clean=Path("audit/audit.json").unlink,
        **job(place),
    )
    # And those of an audit in one piece, in this process.
    monkeypatch.setattr(ranking, "_BATCHES_PER_RANGE", 2)  # as in the others
    monkeypatch.setattr(ranking, "FILLS_AT_ONCE", 100)
    canaries = CanarySet.load("canaries.json")
    whole = audit(build("table"), canaries, batch_size=64, **OPTIONS).to_dict()
    for theirs in (whole, *whole["formats"]):
        del theirs["seconds"]
    assert {name: found[0][name] for name in whole} == json.loads(json.dumps(whole))


@pytest.mark.parametrize("stride", [15, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_before_changes_of_the_file_system(nursery, place, stride):
    found = []
    for change in range(0, 1000, stride):
        code, error = nursery.run(**job(place, crash_at=change))
        if code == 0:
            break
        assert code == -9, error
        assert nursery.run(**job(place)) == (0, "")
        found.append(numbers())
        assert found[-1] == found[0]
        assert not Path("audit/parts").exists()
    assert numbers() == found[0]
    assert len(found) > 30 // stride


def test_what_was_begun_holds_no_secret_and_goes_on_as_it_was_begun(nursery, place):
    folder = Path("audit/parts")
    for change in range(3, 100, 4):
        assert nursery.run(**job(place, crash_at=change))[0] == -9
        if len(list(folder.glob("*.shard"))) >= 2:
            break
    else:
        pytest.fail("no second shard came")
    assert folder.stat().st_mode & 0o777 == 0o700
    canaries = CanarySet.load("canaries.json")
    long = [canary.fill for canary in canaries if len(canary.fill) > 5]
    # Nor what stands for one: the place of a canary in its format.
    secrets = [*long, *(str(canaries.formats[-1].index(fill)) for fill in long)]
    curves = 0
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        kept = path.read_bytes()
        assert not any(secret.encode() in kept for secret in secrets)
        # The costs for the curve stand in an order that says nothing of whose they are.
        if b'"kept"' in kept:
            curves += 1
            costs = json.loads(kept.partition(b"\n")[2])["kept"]
            assert costs == sorted(costs)
    assert curves
    for changes, told in (
        ({"model": "other"}, "another model ("),
        ({"draws": 701}, "another draws ("),
        ({"budget": 9_999}, "another budget ("),
        ({"seed": 1}, "another seed (0 then, 1 now)"),
        ({"context": "a"}, "another context ('' then, 'a' now)"),
    ):
        code, error = nursery.run(**{**job(place), **changes})
        assert code == 1
        assert error.startswith("RecordError: ")
        assert told in error
        assert "start it as it was begun and it goes on, or remove " in error
        assert not Path("audit/audit.json").exists()


def test_other_canaries_are_refused(place):
    """Other fills, though nothing in the parts says which they were."""
    options = {"parts": "parts", "method": "sampling", "draws": 10}
    shape = {"repetitions": [1], "per_repetition": 2, "controls": 2}
    audit(build("table"), generate("The {digit:6}", **shape, seed=1), **options)
    with pytest.raises(RecordError, match="begun with other canaries: their log-perplexities"):
        audit(build("table"), generate("The {digit:6}", **shape, seed=2), **options)
    with pytest.raises(RecordError, match="begun with another set of canaries; start it as"):
        audit(build("table"), generate("The {digit:6}", **{**shape, "controls": 3}), **options)
    with pytest.raises(RecordError, match="begun with another list of formats, set of fills"):
        audit(build("table"), generate("The {digit:5}", **shape), **options)


def test_another_word_list_is_refused(place):
    """The text of the format and its size are the same, its space is not."""
    words = [f"w{a}{b}" for a in "abcdefghij" for b in "abcdefghij"]
    options = {"parts": "parts", "method": "sampling", "draws": 10}
    shape = {"repetitions": [1], "per_repetition": 2, "controls": 2, "seed": 1}
    format, other = (Format("The {word:1}.", words=w) for w in (words, ["zzz", *words[1:]]))
    audit(build("table"), generate(format, **shape), **options)
    with pytest.raises(RecordError, match="begun with another set of fills; start it as"):
        audit(build("table"), generate(other, **shape), **options)


@pytest.mark.parametrize(("name", "method"), [("lstm", "enumeration"), ("lstm", "sampling")])
def test_a_finished_audit_is_read_from_its_parts(place, name, method):
    """On a model with noise, too; and nothing but the canaries is computed again."""
    canaries = generate("The {digit:3}", repetitions=[1], per_repetition=2, controls=2, seed=3)
    options = {"parts": "parts", "method": method, "draws": 200, "start_token": None}
    first = audit(build(name), canaries, **options)
    told, left = [], []

    def stage(name, queries, _unit):
        if name == "checking the start token":  # which is no part of what is kept
            return lambda _done: None
        left.append(queries)
        return told.append

    again = audit(build(name), canaries, **options, progress=stage)
    assert len(left) == 1
    assert again.canaries == first.canaries
    assert again.formats[0].histogram == first.formats[0].histogram
    assert again.formats[0].skew_normal == first.formats[0].skew_normal is not None
    assert sum(told) <= left[0] <= 4 * (4 + 6)  # canaries along the walk, and as rows
