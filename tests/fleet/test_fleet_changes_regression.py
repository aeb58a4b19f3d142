"""What is changed in place after a fleet was made is never kept under what it was before."""

from __future__ import annotations

import fleets
import numpy as np
import pytest

from canary.errors import InputError
from canary.fleet.running import Fleet
from canary.fleet.splits import Drawn, halves

RATE = [1.0]


def scaled(task):
    logits = RATE[0] * task.options["rates"][0] * fleets.means(task)(task.samples)
    return logits.astype(np.float32)


def of_samples(x, y, options):
    x *= 3


def of_labels(x, y, options):
    y[:] = (y + 1) % 3


def of_options(x, y, options):
    options["rates"][0] = 5.0


def of_a_constant(x, y, options):
    RATE[0] = 2.0


CHANGES = {
    "data": of_samples,
    "^Fleet: data": of_labels,
    "options": of_options,
    "training": of_a_constant,
}


@pytest.mark.parametrize("named", CHANGES)
@pytest.mark.parametrize("ran", [False, True])
def test_a_change_in_place_is_refused_by_name(named, ran, monkeypatch, tmp_path):
    monkeypatch.setitem(globals(), "RATE", [1.0])
    (x, y), options = fleets.made(), {"rates": [1.0]}
    fleet = Fleet(scaled, (x, y), halves(), 2, 0, outputs="logits", options=options)
    if ran:
        fleet.run(folder=tmp_path / "kept")
    CHANGES[named](x, y, options)
    with pytest.raises(InputError, match=rf"{named} changed after the fleet was made"):
        fleet.run(folder=tmp_path / "kept")
    again = Fleet(scaled, (x, y), halves(), 2, 0, outputs="logits", options=options)
    assert again.run().models == 2


@pytest.mark.parametrize("drawn", [False, True])
def test_a_split_is_the_one_that_was_given(drawn):
    member = np.arange(60) // 3 % 2 == np.arange(2)[:, None]
    given = member.copy()
    split = (lambda *_: Drawn(given)) if drawn else given
    fleet = Fleet(fleets.means, fleets.made(), split, 2, 0, outputs="logits")
    given[:] = ~given
    assert (fleet.run().member == member).all()
