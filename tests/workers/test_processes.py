"""Processes of this machine as workers: killed ones lose nothing, and errors come back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from canary.errors import CorpusError
from canary.workers.jobs import Lost
from canary.workers.processes import Processes


def doubled(shared, jobs):
    answers = []
    for job in jobs:
        if job["number"] == shared.get("kills") and not Path(shared["mark"]).exists():
            Path(shared["mark"]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if job["number"] == shared.get("always"):
            os.kill(os.getpid(), signal.SIGKILL)
        if job["number"] == shared.get("raises"):
            raise CorpusError("is damaged", cure="mend it", where="a.jsonl:1")
        answers.append({"number": 2 * job["number"]})
    return answers


JOBS = [{"number": number} for number in range(6)]


def test_the_jobs_of_a_killed_process_are_done_by_others(tmp_path):
    shared = {"kills": 3, "mark": str(tmp_path / "mark")}
    found = dict(Processes(count=2).run(doubled, shared, JOBS))
    assert (tmp_path / "mark").exists()
    assert found == {number: {"number": 2 * number} for number in range(6)}


def test_a_job_that_kills_every_process_is_lost(tmp_path):
    found = dict(Processes(count=1, retries=2).run(doubled, {"always": 5}, JOBS))
    assert isinstance(found.pop(5), Lost)
    assert found == {number: {"number": 2 * number} for number in range(5)}


def test_what_a_task_raises_is_raised_here():
    with pytest.raises(CorpusError, match="is damaged") as caught:
        list(Processes(count=2).run(doubled, {"raises": 1}, JOBS))
    assert (caught.value.cure, caught.value.where) == ("mend it", "a.jsonl:1")
