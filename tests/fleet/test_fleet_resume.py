"""What a fleet keeps: nothing is trained twice, nothing mixes, a kill costs one model."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass

import fleets
import numpy as np
import pytest

from canary.errors import RecordError
from canary.fleet.running import Fleet
from canary.fleet.splits import halves, leave_one_out, subsets
from canary.fleet.store import table_of_folder
from canary.membership.models_survey import survey_models
from canary.records.shards import open_run


def fleet(folder, train=fleets.counted, models=4, split=None, seed=0, **options):
    options.setdefault("outputs", "logits")
    told = {"folder": str(folder), **options.pop("told", {})}
    split = subsets(30) if split is None else split
    return Fleet(train, fleets.made(), split, models, seed, options=told, **options)


@pytest.fixture
def marks(tmp_path):
    """Where each training leaves a file."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def trained(marks):
    return sorted(int(path.name.partition("-")[0]) for path in marks.glob("*-*"))


def test_finished_models_are_not_trained_again(tmp_path, marks):
    first = fleet(marks).run(folder=tmp_path / "kept")
    again = fleet(marks).run(folder=tmp_path / "kept")
    assert trained(marks) == [0, 1, 2, 3]
    assert first.origin == again.origin
    for name, values in first.values.items():
        assert (values == again.values[name]).all()
        assert (values == fleet(marks).run().values[name]).all()


def test_another_seed_or_split_is_kept_apart(tmp_path, marks):
    changes = ({}, {"seed": 1}, {"split": halves()})
    runs = [fleet(marks, **change).run(folder=tmp_path / "kept") for change in changes]
    assert len({key for run in runs for key in run.origin.models}) == 12
    assert trained(marks) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    back = fleet(marks).run(folder=tmp_path / "kept")
    assert (back.signal("loss") == runs[0].signal("loss")).all()


OTHER = {
    "option rate.first (1 then, 2 now)": {"told": {"rate": {"first": 2, "last": 0}}},
    "option layers ([8, 4] then, none now)": {"told": {"layers": None}},
    "training function ('fleets:counted' then, 'fleets:deadly' now)": {"train": fleets.deadly},
    "outputs ('logits' then, 'probs' now)": {"outputs": "probs"},
    "signals (none then, ['loss'] now)": {"signals": ["loss"]},
}
TOLD = {"rate": {"first": 1, "last": 0}, "layers": [8, 4]}
CURE = "name another folder, or give what these models were trained with (they stay as they are)"


def test_a_folder_of_another_configuration_is_refused_by_what_differs(tmp_path, marks):
    fleet(marks, told=TOLD).run(folder=tmp_path / "kept")
    for number, (named, changed) in enumerate(OTHER.items()):
        other = {**changed, "told": TOLD | changed.get("told", {})}
        with pytest.raises(RecordError) as refused:
            fleet(marks, **other).run(folder=tmp_path / "kept")
        words = f"kept: it keeps models of another configuration: {named}; {CURE}"
        assert str(refused.value).endswith(words)
        if not number:  # from here on it was not run to its end
            next((tmp_path / "kept").glob("fleet.*")).unlink()


@dataclass(frozen=True)
class Networks:
    """A training of two fields."""

    rate: float
    build: object

    def __call__(self, task):
        return self.build(task)


def constant(task):
    return np.full((len(task.samples), 3), 0.5)


def other(task):
    return np.full((len(task.samples), 3), 0.25)


def test_fields_of_a_training_are_named_with_both_values(tmp_path, marks):
    fleet(marks, Networks(0.5, constant)).run(folder=tmp_path / "kept")
    with pytest.raises(RecordError) as refused:
        fleet(marks, Networks(0.25, other)).run(folder=tmp_path / "kept")
    name = f"{__name__}:"
    assert (
        "rate of the training (0.5 then, 0.25 now); "
        f"build of the training ('{name}constant' then, '{name}other' now); name"
    ) in str(refused.value)


def test_damaged_files_are_named_and_mended(tmp_path, marks):
    kept = tmp_path / "kept"
    whole = fleet(marks).run(folder=kept)
    one, two, path = (next(kept.glob(f"{key}*")) for key in whole.origin.models[:3])

    def refused(read):
        with pytest.raises(RecordError) as error:
            read(kept)
        return str(error.value)

    def run(folder):
        return fleet(marks).run(folder=folder)

    path.write_bytes(path.read_bytes()[:-9])
    words = "remove this file and run the fleet again: this model alone is trained again"
    told = f"{path}: is no result of this model (it is damaged); {words}"
    assert refused(run) == refused(table_of_folder) == told
    path.unlink()
    assert (run(kept).signal("loss") == whole.signal("loss")).all()
    assert trained(marks) == [0, 1, 2, 2, 3]

    path = kept / "fleet.00000000.shard"
    path.write_bytes(path.read_bytes()[:-9])
    told = f"{path}: does not say what its models were trained on (it is damaged); run the fleet"
    assert refused(table_of_folder).startswith(told)
    run(kept)
    assert trained(marks) == [0, 1, 2, 2, 3]
    assert table_of_folder(kept).origin == whole.origin

    shutil.copy(one, two)
    assert "of another model" in refused(run)


def test_killed_fleet_goes_on(tmp_path, marks):
    """A process of its own, which is killed while it trains its third model."""

    def deadly():
        return fleet(marks, fleets.deadly, 6, told={"kills": 2})

    child = os.fork()
    if not child:
        try:
            deadly().run(folder=tmp_path / "kept")
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert trained(marks) == [0, 1]
    table = deadly().run(folder=tmp_path / "kept")
    assert trained(marks) == [0, 1, 2, 3, 4, 5]
    assert (table.signal("loss") == deadly().run().signal("loss")).all()


def test_the_folder_has_the_table_of_the_fleet_that_was_run_last(tmp_path, marks):
    kept = tmp_path / "kept"
    few = fleet(marks, models=3).run(folder=kept)
    more = fleet(marks, models=5).run(folder=kept)
    for run_last in (more, few):
        held = table_of_folder(kept)
        assert held.origin == run_last.origin
        assert (held.member == run_last.member).all()
        assert (held.label == run_last.label).all()
        assert (held.classes, held.missing) == (run_last.classes, {})
        assert {name: v.tolist() for name, v in held.values.items()} == {
            name: v.tolist() for name, v in run_last.values.items()
        }
        fleet(marks, models=3).run(folder=kept)  # again: it is the last one now
    files = len(list(kept.iterdir()))
    fleet(marks, models=3).run(folder=kept)
    assert len(list(kept.iterdir())) == files
    # What was made for one of its models is no fleet of targets.
    split = leave_one_out([0], member=few.member[0] | True, target=few.origin.models[0])
    fleet(marks, models=2, split=split).run(folder=kept)
    assert table_of_folder(kept).origin == few.origin


def test_a_survey_reads_the_folder_of_a_fleet(tmp_path, marks):
    table = fleet(marks, models=6, split=halves()).run(folder=tmp_path / "kept")
    options = {"attacks": "P", "fprs": [0.5], "alphas": [0.5]}
    of_folder = survey_models(tmp_path / "kept", **options).to_dict()
    assert of_folder == survey_models(table, **options).to_dict() | {"source": of_folder["source"]}
    with pytest.raises(RecordError, match="keeps its results; .*table_of_files"):
        survey_models(table, shadow=marks, **options)


def test_a_folder_without_all_of_a_fleet_is_refused(tmp_path, marks):
    kept = tmp_path / "kept"
    with pytest.raises(
        RecordError, match="kept: is no folder in which a fleet keeps its results; give"
    ):
        table_of_folder(kept)
    keys = fleet(marks).run(folder=kept).origin.models
    next(kept.glob(f"{keys[2]}*")).unlink()
    with pytest.raises(RecordError, match="lacks the result of model 2; run the fleet in this"):
        table_of_folder(kept)
    next(kept.glob("fleet*")).unlink()
    with pytest.raises(RecordError, match="holds no fleet that was run to its end; run the fleet"):
        table_of_folder(kept)
    fleet(marks).run(folder=kept)
    assert table_of_folder(kept).models == 4
    with open_run(kept, fleet(marks).configuration) as run:
        run.series("fleet").append({"keys": list(keys), "data": "d", "missing": {}}, b"no arrays")
    with pytest.raises(RecordError, match="does not say what its models were trained on"):
        table_of_folder(kept)
