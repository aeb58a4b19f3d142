"""`canary.read`: every saved file is read as what it says it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from gate_audits import exact

import canary
from canary.corpus.injection import inject_file
from canary.corpus.verification import Verification
from canary.errors import RecordError
from canary.gate.check_audit import new_baseline


def test_every_saved_file_is_what_it_was(tmp_path: Path) -> None:
    chosen = canary.generate("a {digit:4}", repetitions=[1], per_repetition=2, controls=2, seed=0)
    (tmp_path / "corpus.jsonl").write_text('{"text": "a line"}\n' * 9)
    audit = exact({4: [1.0] * 8})
    placed = tmp_path / "placed.jsonl"
    records = inject_file(tmp_path / "corpus.jsonl", placed, chosen)
    verified = canary.verify(placed, chosen)
    saved = [
        chosen,
        verified,
        audit,
        new_baseline(audit),
        records,
        replace(records, column=("a", "b"), mode="splice", separators=(" ", "")),
    ]
    for number, result in enumerate(saved):
        result.save(tmp_path / f"{number}.json")
        again = canary.read(tmp_path / f"{number}.json")
        assert type(again) is type(result)
        assert again.to_dict() == result.to_dict()
    assert isinstance(canary.read(tmp_path / "1.json"), Verification)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read"),
        ("{", "JSON"),
        ("[]", "not a canary document"),
        (json.dumps({"schema": 1}), "not a canary document"),
        (json.dumps({"kind": "canary membership", "schema": 1}), "which is not read back"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, content: str | None, problem: str) -> None:
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RecordError, match=problem):
        canary.read(path)
