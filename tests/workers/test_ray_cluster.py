"""A real Ray cluster of two workers: the same numbers, and deaths that cost no result."""

from __future__ import annotations

import json

import fleets
import numpy as np
import pytest

from canary.corpus import many_injected
from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.verification import verify
from canary.errors import ModelError, ServerError, UnsupportedError
from canary.fleet.running import Fleet
from canary.fleet.splits import halves, subsets
from canary.fleet.torch_training import TorchTraining
from canary.workers.cluster import RayWorkers
from canary.workers.local import Here

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(1800),
]  # a busy machine starts a cluster in a minute


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    """One cluster for all: a connection that is there is used, and stays."""
    with workers().connected():
        yield


def workers(**options):
    return RayWorkers(processors=2, **options)


def fleet(train, models=6, **options):
    data = fleets.made(samples=90)
    return Fleet(train, data, subsets(45), models, 0, outputs="logits", **options)


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("build", [fleets.small_net, fleets.Images])
def test_the_same_table_as_in_this_process(build, at_once):
    train = TorchTraining(build=build, epochs=3, batch_size=16, schedule=fleets.halved)
    here = fleet(train).run(workers=Here(at_once=at_once))
    there = fleet(train).run(workers=workers(at_once=at_once))
    assert there.origin == here.origin
    assert (there.member == here.member).all()
    for name, values in here.values.items():
        assert (there.values[name] == values).all()


def test_a_killed_worker_costs_a_retry_and_no_result(tmp_path):
    told = {"folder": str(tmp_path), "kills": 2}
    there = fleet(fleets.deadly, options=told).run(workers=workers())
    assert (tmp_path / "killed").exists()  # its worker was killed in the middle
    assert not there.missing
    here = fleet(fleets.means).run()
    assert (there.signal("loss") == here.signal("loss")).all()
    trained = sorted(path.name.partition("-")[0] for path in tmp_path.glob("*-*"))
    assert trained == ["0", "1", "2", "3", "4", "5"]  # nothing else was trained twice


def test_a_job_that_always_kills_is_missing_and_the_others_are_there():
    with pytest.warns(UserWarning, match="2 workers died at it, the last by WorkerCrashed"):
        there = fleet(fleets.fatal, options={"kills": 3}).run(workers=workers(retries=1))
    assert list(there.missing) == [3]
    here = fleet(fleets.means).run()
    assert (there.signal("loss") == np.delete(here.signal("loss"), 3, axis=0)).all()


def test_what_belongs_to_all_models_cannot_be_changed_there_either():
    with pytest.raises(ModelError, match=r"read-only; .* change a copy, as task\.x"):
        fleet(fleets.centring).run(workers=workers())
    there = fleet(fleets.own_things, options={"rates": []}).run(workers=workers())
    here = fleet(fleets.own_things, options={"rates": []}).run()
    assert (there.signal("loss") == here.signal("loss")).all()


def test_results_are_kept_and_resumed(tmp_path):
    made = Fleet(fleets.means, fleets.made(), halves(), 4, 0, outputs="logits")
    first = made.run(workers=workers(), folder=tmp_path)
    again = made.run(folder=tmp_path)
    assert (first.signal("loss") == again.signal("loss")).all()


def test_what_fits_nowhere_is_refused():
    with pytest.raises(ServerError, match="no machine of the cluster has 1 processors and 1 GPUs"):
        fleet(fleets.means).run(workers=workers(gpus=1))


def test_errors_of_the_set_up_come_back_as_themselves():
    train = TorchTraining(build=fleets.noisy_net)
    with pytest.raises(UnsupportedError, match="train them one by one"):
        fleet(train).run(workers=workers(at_once=2))


@pytest.mark.parametrize("mode", ["record", "splice"])
def test_shards_whose_workers_are_killed_have_the_same_bytes(mode, tmp_path, monkeypatch):
    canaries = generate("my pin {digit:6}", repetitions=[1, 9], per_repetition=4, seed=0)
    (tmp_path / "shards").mkdir()
    for number in range(8):
        rows = [json.dumps({"text": f"Text {number} {n}. And more."}) for n in range(200)]
        (tmp_path / "shards" / f"{number}.jsonl").write_text("\n".join(rows) + "\n")
    wanted = inject_file(tmp_path / "shards", tmp_path / "calm", canaries, mode=mode)
    monkeypatch.setattr(many_injected, "write", fleets.deadly_write)
    monkeypatch.chdir(tmp_path)  # which is not where the workers are
    found = inject_file("shards", "out", canaries, mode=mode, workers=workers())
    killed = sorted(path.name for path in tmp_path.glob("killed-*"))
    assert killed == ["killed-2", "killed-5"]
    assert found == wanted
    written = [sorted((tmp_path / name).iterdir()) for name in ("out", "calm")]
    assert [p.name for p in written[0]] == [p.name for p in written[1]]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*written, strict=True))
    assert not list(tmp_path.glob("*.parts"))
    assert verify("out", canaries, workers=workers()) == verify("calm", canaries)
