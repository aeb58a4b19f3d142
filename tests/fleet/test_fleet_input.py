"""What goes wrong in a fleet: some models, all models, or what it is given."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import fleets
import numpy as np
import pytest
from listening import Listening

from canary.errors import InputError, ModelError
from canary.fleet.running import Fleet
from canary.fleet.splits import Drawn, halves, leave_one_out, subsets
from canary.fleet.torch_training import TorchTraining
from canary.signals.signal_table import check_tied
from canary.workers.jobs import Lost
from canary.workers.local import Here

REASONS = {
    1: "gave nothing back",
    2: "RuntimeError: the loss went up",
    3: "NaN",
    4: "59 outputs for 60 samples|differ in length",
}


def fleet(train=fleets.means, split=None, models=6, **options):
    options.setdefault("outputs", "logits")
    data = options.pop("data", fleets.made())
    return Fleet(train, data, subsets(30) if split is None else split, models, 0, **options)


def test_faulty_models_are_missing_with_their_reasons_and_the_others_there(tmp_path):
    told = Listening()
    with pytest.warns(UserWarning, match="4 of 6 models are missing: 1: the training function"):
        table = fleet(fleets.faulty).run(folder=tmp_path / "kept", progress=told)
    assert told.stages == [("models", 6, "models")]
    assert told.reached == [(n, 6) for n in range(7)]
    assert len(list((tmp_path / "kept").glob(f"{'?' * 32}.*.shard"))) == 2  # tried again later
    assert list(table.missing) == [1, 2, 3, 4]
    for number, told in REASONS.items():
        assert any(part in table.missing[number] for part in told.split("|"))
    assert table.models == 2
    alone = fleet(fleets.means).run()
    assert (table.signal("loss") == alone.signal("loss")[[0, 5]]).all()
    assert (table.member == alone.member[[0, 5]]).all()


def test_what_is_no_model_is_told():
    with pytest.warns(UserWarning, match="5 of 6 models are missing"):
        missing = fleet(fleets.unusable).run().missing
    told = (
        "gave a str back; let it return",
        "gave a dict",
        "nothing itself",
        "SystemExit: 2",
        "(60,)",
    )
    assert all(part in missing[number] for number, part in enumerate(told))


def test_lost_jobs_are_missing():
    class Losing(Here):
        def run(self, task, shared, jobs):
            for number, result in Here.run(self, task, shared, jobs):
                yield number, Lost("3 workers died at it") if number == 2 else result

    with pytest.warns(UserWarning, match="1 of 6 models are missing: 2: 3 workers died at it"):
        assert fleet().run(workers=Losing()).missing == {2: "3 workers died at it"}


@pytest.mark.parametrize("train", [fleets.centring, fleets.relabelling])
def test_what_belongs_to_all_models_cannot_be_changed(train):
    data = fleets.made()
    before = [part.copy() for part in data]
    with pytest.raises(ModelError, match=r"read-only; .* change a copy, as task\.x"):
        fleet(train, data=data).run()
    assert all((one == two).all() for one, two in zip(data, before, strict=True))


@dataclass(frozen=True)
class Stacked:
    """A training whose models are trained at once, and which changes samples in place."""

    name: str = "a"

    def __call__(self, task):
        return fleets.centring(task)

    def together(self, tasks):
        tasks[0].samples[:] = 0


def test_nor_by_models_that_are_trained_at_once():
    with pytest.raises(ModelError, match="change a copy"):
        fleet(Stacked()).run(workers=Here(at_once=6))


def test_a_model_changes_its_own_rows_and_options_and_what_it_is_asked_about():
    data = fleets.made()
    table = fleet(fleets.own_things, data=data, options={"rates": []}).run()
    alone = fleet(data=data).run()
    np.testing.assert_allclose(table.signal("loss"), alone.signal("loss"))  # rows were shuffled
    assert (data[0] == fleets.made()[0]).all()


@dataclass(frozen=True)
class Odd:
    what: object


WRONG = {
    "outputs": (lambda: fleet(outputs="scores"), "unknown outputs 'scores'; use one of logits"),
    "signal": (lambda: fleet(signals=["los"]), "unknown signal 'los'"),
    "no models": (lambda: fleet(models=0), "at least one model"),
    "lengths": (lambda: fleet(data=(np.zeros((3, 2)), np.zeros(4, int))), "of one length"),
    "labels": (lambda: fleet(data=(np.zeros((3, 2)), np.zeros(3))), "whole numbers from 0"),
    "three": (lambda: fleet(data=(np.zeros(3),)), r"give \(x, y\)"),
    "objects": (
        lambda: fleet(data=(np.array([{}] * 60), fleets.made()[1])),
        "arrays of numbers or of text",
    ),
    "mask": (lambda: fleet(split=np.ones((2, 60))), r"flags of shape \(6, 60\)"),
    "class": (lambda: fleet(split=subsets(2)), "no sample of class"),
    "last of its class": (
        lambda: fleet(split=leave_one_out([1]), data=(np.zeros((4, 2)), np.array([0, 1, 0, 0]))),
        "no sample of class 1 .6 of 6",
    ),
    "captured": (lambda: fleet(capturing()), "the captured k .*lock"),
    "callable": (lambda: fleet(len), "a function was expected"),
    "options": (lambda: fleet(options={"x": np.zeros(2)}), "is no plain data"),
    "NaN option": (lambda: fleet(options={"x": float("nan")}), "is no plain data"),
    "fields": (lambda: fleet(Odd(object())), "is no plain data"),
    "at once": (lambda: fleet().run(workers=Here(at_once=2)), "leave at_once out"),
    "at none": (lambda: Here(at_once=0), "give at least 1"),
    "checkpoints": (lambda: fleet(checkpoints=True).run(), "give a folder"),
    "losses": (lambda: fleet(outputs="losses", keep_outputs=True), "leave keep_outputs out"),
    "no model": (lambda: fleet(fleets.hopeless).run(), "none of 6 models .* 0: ValueError: no"),
    "optimizer": (lambda: TorchTraining(build=fleets.small_net, optimizer="x"), '"sgd" or "adam"'),
    "epochs": (lambda: TorchTraining(build=fleets.small_net, epochs=0), "at least 1"),
    "batches": (lambda: TorchTraining(build=fleets.small_net, batch_size=0), "at least 1"),
    "clip": (lambda: TorchTraining(build=fleets.small_net, clip=0.0), "a finite norm above 0"),
    "schedule": (
        lambda: fleet(TorchTraining(build=fleets.small_net, schedule=fleets.broken_schedule)).run(),
        "the schedule gave nan at step 0",
    ),
}


def capturing():
    k = threading.Lock()
    return lambda task: k


@pytest.mark.parametrize("case", WRONG)
def test_refused(case):
    made, told = WRONG[case]
    with pytest.raises(InputError, match=told):
        made()


def test_checkpoints_without_weights_are_missing_models(tmp_path):
    with pytest.raises(ModelError, match="training gave no weights back"):
        fleet(checkpoints=True).run(folder=tmp_path / "kept")


def test_references_of_another_target_or_other_data_are_refused():
    target = fleet(models=2, split=halves()).run()
    points = np.flatnonzero(target.member[1])[:1]
    split = leave_one_out(points, member=target.member[1], target=target.origin.models[1])
    left = fleet(models=2, split=split).run()
    check_tied(left, target, row=1)
    with pytest.raises(InputError, match="not for"):
        check_tied(left, target, row=0)
    elsewhere = fleet(models=2, split=halves(), data=fleets.made(1)).run()
    with pytest.raises(InputError, match="other data"):
        check_tied(elsewhere, target)


RATE = [1.0]


def scaled(task):
    logits = RATE[0] * task.options["rates"][0] * fleets.means(task)(task.samples)
    return logits.astype(np.float32)


CHANGES = {
    "data": lambda x, y, options: np.multiply(x, 3, out=x),
    "^Fleet: data": lambda x, y, options: np.copyto(y, (y + 1) % 3),
    "options": lambda x, y, options: options["rates"].insert(0, 5.0),
    "training": lambda x, y, options: RATE.insert(0, 2.0),
}


@pytest.mark.parametrize(("named", "ran"), [*zip(CHANGES, [False, True] * 2, strict=True)])
def test_a_change_in_place_is_refused_by_name(named, ran, monkeypatch, tmp_path):
    monkeypatch.setitem(globals(), "RATE", [1.0])
    (x, y), options = fleets.made(), {"rates": [1.0]}
    made = Fleet(scaled, (x, y), halves(), 2, 0, outputs="logits", options=options)
    if ran:
        made.run(folder=tmp_path / "kept")
    CHANGES[named](x, y, options)
    with pytest.raises(InputError, match=rf"{named} changed after the fleet was made"):
        made.run(folder=tmp_path / "kept")
    again = Fleet(scaled, (x, y), halves(), 2, 0, outputs="logits", options=options)
    assert again.run().models == 2


@pytest.mark.parametrize("drawn", [False, True])
def test_a_split_is_the_one_that_was_given(drawn):
    member = np.arange(60) // 3 % 2 == np.arange(2)[:, None]
    given = member.copy()
    split = (lambda *_: Drawn(given)) if drawn else given
    made = fleet(split=split, models=2)
    given[:] = ~given
    assert (made.run().member == member).all()
