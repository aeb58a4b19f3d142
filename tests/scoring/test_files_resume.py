"""Scoring a file: killed at any moment and started again, each record once, never a mixture."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from long_runs import Nursery, survive
from small_models import CHARACTERS, table_model

from canary.scoring.texts import score

TEXTS = 150


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as made:
        yield made


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with texts of many lengths, empty ones and blank lines among them."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(0)
    lines = []
    for number in range(TEXTS):
        text = "".join(rng.choices(CHARACTERS[:40], k=rng.choice([0, 1, 2, 8, 30])))
        lines.append(json.dumps({"text": text, "n": number}) + "\n" * rng.choice([1, 1, 1, 2]))
    Path("texts.jsonl").write_text("".join(lines))
    return tmp_path


def wanted():
    """What the file of scores must hold, from the texts scored in one call."""
    lines = Path("texts.jsonl").read_text().split("\n")
    texts = [(i, json.loads(line)["text"]) for i, line in enumerate(lines, 1) if line]
    bits = score(table_model(), [text for _, text in texts]).tolist()
    return [
        {"line": i, "px_bits": px, "tokens": max(len(text) - 1, 0)}
        for (i, text), px in zip(texts, bits, strict=True)
    ]


def check_result():
    found = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
    assert found == wanted()
    assert sorted(path.name for path in Path().iterdir()) == ["scores.jsonl", "texts.jsonl"]


JOB = {"task": "score", "source": "texts.jsonl", "target": "scores.jsonl"}


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_random_moments_each_record_once(nursery, place, kills):
    survive(
        nursery,
        kills=kills,
        rng=random.Random(kills),
        check=check_result,
        clean=Path("scores.jsonl").unlink,
        **job(place),
    )


def job(place, **more):
    return {
        **JOB,
        "source": str(place / JOB["source"]),
        "target": str(place / JOB["target"]),
    } | more


def test_killed_before_each_change_of_the_file_system_each_record_once(nursery, place):
    shortest = "".join(Path("texts.jsonl").read_text().splitlines(keepends=True)[:70])
    Path("texts.jsonl").write_text(shortest)
    ends = []
    for change in range(1000):
        code, error = nursery.run(**job(place, crash_at=change))
        ends.append(code)
        if code == 0:
            break
        assert code == -9, error
        assert nursery.run(**job(place)) == (0, "")
        check_result()
        Path("scores.jsonl").unlink()
    check_result()
    assert ends[-1] == 0
    assert len(ends) > 25  # manifest, 5 shards, merge, removal


def begun(nursery, place, **more):
    """A run that was killed when it had finished a few shards."""
    for change in range(1, 100):
        assert nursery.run(**job(place, crash_at=change, **more))[0] == -9
        if len(list(Path("scores.jsonl.parts").glob("*.shard"))) >= 2:
            return
    pytest.fail("no second shard came")


def kept():
    return {p.name: p.read_bytes() for p in Path("scores.jsonl.parts").glob("[!.]*")}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": "other"}, "another model ("),
        ({"context": "a"}, "another context ('' then, 'a' now)"),
        ({"start_token": "\n"}, "another start token (none then, '\\n' now)"),
        ({"column": "n"}, "another column ('text' then, 'n' now)"),
        ({"overlap": 3}, "another overlap (none then, 3 now)"),
        ({"column": "n", "overlap": 3}, "another column ('text' then, 'n' now), overlap ("),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_changed_model_or_settings_are_refused_by_name(nursery, place, changes, told):
    begun(nursery, place)
    before = kept()
    code, error = nursery.run(**job(place, **changes))
    assert code == 1
    assert error.startswith("RecordError: ")
    assert told in error
    assert "start it as it was begun and it goes on, or remove the folder to begin anew" in error
    assert "scores.jsonl.parts" in error
    assert kept() == before
    assert not Path("scores.jsonl").exists()
    assert nursery.run(**job(place)) == (0, "")
    check_result()


def test_changed_input_is_refused_by_name(nursery, place):
    begun(nursery, place)
    texts = Path("texts.jsonl").read_text()
    Path("texts.jsonl").write_text(texts.replace('"n": 149', '"n": 148'))  # a byte, far behind
    code, error = nursery.run(**job(place))
    assert code == 1
    assert "begun with another input (" in error
    Path("texts.jsonl").write_text(texts)
    assert nursery.run(**job(place)) == (0, "")
    check_result()


def test_parts_are_for_the_owner_only_and_hold_no_text(nursery, place):
    begun(nursery, place)
    folder = Path("scores.jsonl.parts")
    assert folder.stat().st_mode & 0o777 == 0o700
    texts = [
        json.loads(line)["text"] for line in Path("texts.jsonl").read_text().split("\n") if line
    ]
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        written = path.read_text()
        assert not any(text in written for text in texts if len(text) > 4)
