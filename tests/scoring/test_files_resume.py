"""Scoring a file: killed at any moment and started again, each record once, never a mixture."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from long_runs import Nursery, survive
from small_models import CHARACTERS, table_model

from canary.scoring.texts import score


def texts(count=150):
    """Lines of many lengths, empty texts and blank lines among them."""
    rng, lines = random.Random(0), []
    for number in range(count):
        text = "".join(rng.choices(CHARACTERS[:40], k=rng.choice([0, 1, 2, 8, 30])))
        lines.append(json.dumps({"text": text, "n": number}) + "\n" * rng.choice([1, 1, 1, 2]))
    return "".join(lines)


def job(folder, **more):
    source, target = folder / "texts.jsonl", folder / "scores.jsonl"
    return {"task": "score", "source": str(source), "target": str(target), **more}


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as made:
        yield made


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").write_text(texts())
    return tmp_path


@pytest.fixture(scope="module")
def stopped(nursery, tmp_path_factory):
    """A run that was killed when it had finished a few shards."""
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "texts.jsonl").write_text(texts())
    for change in range(1, 100):
        assert nursery.run(**job(folder, crash_at=change))[0] == -9
        if len(list((folder / "scores.jsonl.parts").glob("*.shard"))) >= 2:
            return folder
    pytest.fail("no second shard came")


@pytest.fixture
def begun(stopped, place):
    shutil.copytree(stopped, place, dirs_exist_ok=True)
    return place


def check_result():
    """Each text once, as it is scored in one call with the others."""
    lines = Path("texts.jsonl").read_text().split("\n")
    texts = [(i, json.loads(line)["text"]) for i, line in enumerate(lines, 1) if line]
    bits = score(table_model(), [text for _, text in texts]).tolist()
    wanted = [
        {"line": i, "px_bits": px, "tokens": max(len(text) - 1, 0)}
        for (i, text), px in zip(texts, bits, strict=True)
    ]
    assert [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()] == wanted
    assert sorted(path.name for path in Path().iterdir()) == ["scores.jsonl", "texts.jsonl"]


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


def test_killed_before_each_change_of_the_file_system_each_record_once(nursery, place):
    Path("texts.jsonl").write_text(texts(40))
    for change in range(1000):
        code, error = nursery.run(**job(place, crash_at=change))
        if code == 0:
            break
        assert code == -9, error
        assert nursery.run(**job(place)) == (0, "")
        check_result()
        Path("scores.jsonl").unlink()
    check_result()
    assert change > 20  # manifest, 3 shards, merge, removal


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": "other"}, "another model ("),
        ({"context": "a"}, "another context ('' then, 'a' now)"),
        ({"start_token": "\n"}, "another start token (none then, '\\n' now)"),
        ({"overlap": 3}, "another overlap (none then, 3 now)"),
        ({"column": "n", "overlap": 3}, "another column ('text' then, 'n' now), overlap ("),
        ({}, "another input ("),  # a byte, far behind
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_changed_model_input_or_settings_are_refused_by_name(nursery, begun, changes, told):
    parts = Path("scores.jsonl.parts")
    before = {path.name: path.read_bytes() for path in parts.glob("[!.]*")}
    if not changes:
        Path("texts.jsonl").write_text(texts().replace('"n": 149', '"n": 148'))
    code, error = nursery.run(**job(begun, **changes))
    assert code == 1
    assert error.startswith("RecordError: ")
    assert f"begun with {told}" in error
    assert "start it as it was begun and it goes on, or remove " in error
    assert "scores.jsonl.parts to begin anew (--force replaces only" in error
    assert str(parts) in error
    assert {path.name: path.read_bytes() for path in parts.glob("[!.]*")} == before
    assert not Path("scores.jsonl").exists()
    Path("texts.jsonl").write_text(texts())
    assert nursery.run(**job(begun)) == (0, "")
    check_result()


def test_parts_are_for_the_owner_only_and_hold_no_text(begun):
    folder = begun / "scores.jsonl.parts"
    assert folder.stat().st_mode & 0o777 == 0o700
    long_texts = [json.loads(line)["text"] for line in texts().split("\n") if line]
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        written = path.read_text()
        assert not any(text in written for text in long_texts if len(text) > 4)
