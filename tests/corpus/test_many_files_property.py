"""Canaries in many files: as in one file of all records, whoever works on them, killed or not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from itertools import accumulate, pairwise

import numpy as np
import pytest

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.duplicates import duplicates
from canary.corpus.injection import inject_file
from canary.corpus.placements import manifest_of
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError, InputError, OutputError, RecordError
from canary.records import files

SET = generate("my pin {digit:6}", repetitions=[1, 4, 9], per_repetition=3, controls=4, seed=0)


def folder_of(path, texts, count):
    """The same texts as one file and as files of a folder, one of them in a folder of its own."""
    rows = [json.dumps({"text": text}).encode() + b"\n" for text in texts]
    (path / "whole.jsonl").write_bytes(b"".join(rows))
    ends = np.linspace(0, len(rows), count + 1).astype(int).tolist()
    folder = path / "shards"
    (folder / "b").mkdir(parents=True)
    names = ["a.jsonl", "b/0.jsonl", *(f"c{n}.jsonl" for n in range(count - 2))]
    for name, (begin, end) in zip(names, pairwise(ends), strict=True):
        (folder / name).write_bytes(b"".join(rows[begin:end]))
    return folder


def held(folder):
    there = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in there}


def end_to_end(folder):
    return b"".join(held(folder).values())


@pytest.mark.parametrize("blank", [False, True])
@pytest.mark.parametrize(("mode", "check"), [("record", True), ("record", False), ("splice", True)])
def test_many_files_are_one_file_with_their_records(mode, check, blank, tmp_path):
    texts = [f"One {n}. Two. Three." for n in range(70)]
    folder = folder_of(tmp_path, texts, 5)
    if blank:  # lines that hold no record can take no splice
        for path in (folder / "a.jsonl", tmp_path / "whole.jsonl"):
            path.write_bytes(b"\n\n" + path.read_bytes())
    for seed in range(2):
        one, many = tmp_path / f"one{seed}.jsonl", tmp_path / f"many{seed}"
        options = {"seed": seed, "mode": mode, "check": check}
        wanted = inject_file(tmp_path / "whole.jsonl", one, SET, **options)
        found = inject_file(folder, many, SET, **options)
        assert end_to_end(many) == one.read_bytes()
        assert found.lines == wanted.lines
        assert (found.total_lines, found.empty) == (wanted.total_lines, wanted.empty)
        counts = {name: data.count(b"\n") for name, data in held(many).items()}
        assert found.files == counts
        assert verify(many, SET).ok
        backwards = sorted(folder.rglob("*.jsonl"), reverse=True)
        inject_file(backwards, tmp_path / f"listed{seed}", SET, **options)
        assert held(tmp_path / f"listed{seed}") == held(many)
        back = strip_file(many, tmp_path / f"back{seed}", SET)
        assert held(tmp_path / f"back{seed}") == held(folder)
        assert back.missing == 0
    assert not list(tmp_path.glob("*.parts"))


RUN = """
import sys
from pathlib import Path
from canary.corpus.canaries import CanarySet
from canary.corpus.injection import inject_file
source, target, canaries = map(Path, sys.argv[1:])
if __name__ == "__main__":
    print("ready", flush=True)
    inject_file(source, target, CanarySet.load(canaries), workers=2)
"""


def test_a_killed_run_of_two_processes_ends_as_one_that_was_not(tmp_path):
    rng = np.random.default_rng(0)
    folder = folder_of(tmp_path, [f"text {n} " * 20 for n in range(40_000)], 12)
    SET.save(tmp_path / "set.json")
    canaries = CanarySet.load(tmp_path / "set.json")
    wanted = inject_file(folder, tmp_path / "calm", canaries)
    (tmp_path / "run.py").write_text(RUN)
    words = [tmp_path / "run.py", folder, tmp_path / "killed", tmp_path / "set.json"]
    for _ in range(3):
        run = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, start_new_session=True
        )
        run.stdout.readline()
        time.sleep(float(rng.uniform(0.2, 1.2)))
        run.send_signal(signal.SIGKILL)
        run.communicate()
    for _ in range(100):  # until the processes of the killed run have noticed it
        try:
            found = inject_file(folder, tmp_path / "killed", canaries)
            break
        except OutputError:
            time.sleep(0.05)
    assert held(tmp_path / "killed") == held(tmp_path / "calm")
    assert found == wanted
    assert not list(tmp_path.glob("*.parts"))


def test_a_run_that_stopped_goes_on_with_the_same_alone(tmp_path, monkeypatch):
    folder = folder_of(tmp_path, [f"text {n}" for n in range(60)], 4)
    wanted = inject_file(folder, tmp_path / "calm", SET)

    def stop(path, *_):
        if path.name == "c0.jsonl" and "out" in path.parts:
            raise KeyboardInterrupt
        return begin(path)

    begin = files.begin_part
    with monkeypatch.context() as patch:
        patch.setattr(files, "begin_part", stop)
        with pytest.raises(KeyboardInterrupt):
            inject_file(folder, tmp_path / "out", SET)
    assert sorted(held(tmp_path / "out")) == ["a.jsonl", "b/0.jsonl"]
    # Whatever it holds: in a set with few copies, all of them may be there already.
    for use in (verify, duplicates, lambda *given: strip_file(given[0], tmp_path / "st", SET)):
        for source in (tmp_path / "out", [tmp_path / "out" / "a.jsonl"]):
            with pytest.raises(CorpusError, match="the run that writes it is not finished"):
                use(*([source, SET] if use is not duplicates else [source]))
    with pytest.raises(RecordError, match=r"other options: --seed \(0 then, 1 now\)"):
        inject_file(folder, tmp_path / "out", SET, seed=1)
    old = (tmp_path / "out" / "a.jsonl").stat().st_mtime_ns
    (tmp_path / "out" / "b" / "0.jsonl").unlink()  # lost since: written again
    assert inject_file(folder, tmp_path / "out", SET) == wanted
    assert held(tmp_path / "out") == held(tmp_path / "calm")
    assert (tmp_path / "out" / "a.jsonl").stat().st_mtime_ns == old


def test_a_missing_file_without_a_copy_is_missed(tmp_path):
    """All copies are there, and a count of copies alone would say that the corpus is whole."""
    few = generate("my pin {digit:6}", repetitions=[1], per_repetition=1, controls=1, seed=0)
    folder = folder_of(tmp_path, [f"text {n}" for n in range(60)], 4)
    out = tmp_path / "out"
    placements = inject_file(folder, out, few)
    placements.save(manifest_of(out))
    assert verify(out, few).ok
    ends = dict(zip(placements.files, accumulate(placements.files.values()), strict=True))
    ((place,),) = placements.lines.values()
    name = next(
        name for name, end in ends.items() if not end - placements.files[name] < place <= end
    )
    (out / name).unlink()
    for use in (lambda: verify(out, few), lambda: strip_file(out, tmp_path / "st", few)):
        with pytest.raises(CorpusError, match=f"1 of the 4 files .* are missing: '{name}'"):
            use()
    manifest_of(out).unlink()
    assert verify(out, few).ok  # as the cure says, of a corpus that was written anew


def test_folders_go_into_one_beside_them(tmp_path):
    for name in ("web", "books"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.jsonl").write_text('{"text": "a"}\n' * 30)
    both = [tmp_path / "web", tmp_path / "books"]
    inject_file(both, tmp_path / "both", SET)
    assert sorted(held(tmp_path / "both")) == ["books/books.jsonl", "web/web.jsonl"]
    with pytest.raises(OutputError, match="in the folder that is read"):
        inject_file(both, tmp_path / "web" / "out", SET)
    with pytest.raises(OutputError, match="in the folder that is read"):
        inject_file(tmp_path / "*" / "*.jsonl", tmp_path / "more", SET)


def test_what_would_mix_or_overwrite_is_refused(tmp_path):
    folder = folder_of(tmp_path, [f"text {n}" for n in range(30)], 3)
    with pytest.raises(OutputError, match="in the folder that is read"):
        inject_file(folder, folder / "out", SET)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other.jsonl").write_text("{}\n")
    with pytest.raises(OutputError, match="has a file that this run does not write"):
        inject_file(folder, tmp_path / "out", SET)
    with pytest.raises(InputError, match="workers"):
        inject_file(folder, tmp_path / "new", SET, workers=0)
    with pytest.raises(CorpusError, match="holds none of the canaries"):
        strip_file(folder, tmp_path / "new", SET)
    assert not held(tmp_path / "new")
    (folder / "d.txt").write_text("a line\n")
    with pytest.raises(InputError, match="of different formats"):
        inject_file(folder, tmp_path / "new", SET)


def test_verify_counts_the_same_with_more_processes(tmp_path):
    folder = folder_of(tmp_path, [f"text {n}. my pin {n:06}" for n in range(300)], 7)
    inject_file(folder, tmp_path / "out", SET, mode="splice")
    assert verify(tmp_path / "out", SET, workers=2) == verify(tmp_path / "out", SET)
    (tmp_path / "out" / "c1.jsonl").write_text("not JSON\n")
    with pytest.raises(CorpusError, match="c1.jsonl:1: is not valid JSON"):
        verify(tmp_path / "out", SET, workers=2)


def test_why_copies_are_missing_is_said_of_many_files_by_any_number_of_processes(tmp_path):
    folder = folder_of(tmp_path, [f"Ünlike {n}" if n % 2 else f"text {n}" for n in range(40)], 4)
    inject_file(folder, tmp_path / "out", SET)
    for path in (tmp_path / "out").rglob("*.jsonl"):
        path.write_text(path.read_text("utf-8").replace("my pin", "My\u00a0 PIN"), "utf-8")
    one, two = (verify(tmp_path / "out", SET, workers=workers) for workers in (1, 2))
    assert one == two
    assert "9 canaries are there with several changes of case" in one.causes[0]
