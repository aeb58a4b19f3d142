"""An unfinished run keeps what is finished, and nothing else."""

from __future__ import annotations

import os

import pytest

from canary.errors import OutputError
from canary.records.shards import open_run


def begin(folder, *, pieces):
    with open_run(folder, {"task": "test"}) as run:
        series = run.series("pieces")
        for number in range(pieces):
            series.append({"number": number}, b"body")
        raise KeyError


def test_run_that_fails_before_its_first_piece_leaves_nothing(tmp_path):
    with pytest.raises(KeyError):
        begin(tmp_path / "parts", pieces=0)
    assert not list(tmp_path.iterdir())


def test_run_that_fails_later_keeps_its_pieces(tmp_path):
    for before in (0, 2):
        with pytest.raises(KeyError):
            begin(tmp_path / "parts", pieces=2 - before)
        with open_run(tmp_path / "parts", {"task": "test"}) as run:
            assert len(run.series("pieces")) == 2


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_a_file_is_replaced_by_the_result(tmp_path, kind):
    target = tmp_path / "target"
    {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to("x")}[kind](target)
    with open_run(tmp_path / "parts", {}) as run:
        series = run.series("pieces")
        series.append({}, b"body")
        with pytest.raises(OutputError, match="pipe|link|folder"):
            run.merge(series, target)
    assert target.lstat().st_mode & 0o170000 != 0o100000
    assert len(series) == 1
