"""Which audits can be compared, and which are worth choosing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.errors import InputError
from canary.reports.comparison import Point, View, compare, front


def point(loss, bits, *, bound=False, name="A"):
    return Point(SimpleNamespace(name=name), loss, bits, bound)


def changed(audit, **fields):
    """The audit with other fields of its one format."""
    return replace(audit, formats=(replace(audit.formats[0], **fields),))


def test_front_golden():
    # c has the loss of b and is exposed more; d is worse than a in both.
    a, b, c, d = point(1.0, 9.0), point(1.5, 3.0), point(1.5, 4.0), point(1.2, 9.5)
    assert front([a, b, c, d]) == [b, a]
    assert front([]) == []


def test_a_bound_beats_nothing_by_its_exposure_golden():
    bound = point(1.0, 12.4, bound=True)
    # Its exposure may be 20 bits, so it is not known to beat 15 bits at a higher loss.
    above = point(1.1, 15.0)
    assert set(front([bound, above])) == {bound, above}
    # At least 12.4 is more than 11 at the same loss: it is beaten, and so is 15.
    least = point(1.0, 11.0)
    assert front([least, bound, above]) == [least]


points_drawn = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), min_size=1, max_size=9
)


@given(points_drawn)
def test_front_oracle(drawn):
    """A point is off the front iff another is as good at both and better at one, whatever the
    bounds stand for: they are tried at both ends."""
    found = [point(loss, bits, bound=bound) for loss, bits, bound in drawn]
    best = front(found)

    def ends(p):
        return (p.median_bits, 1e9) if p.bound else (p.median_bits,)

    def surely_beaten(p, by):
        return all(
            (by.loss_nats, x) != (p.loss_nats, y) and by.loss_nats <= p.loss_nats and x <= y
            for x in ends(by)
            for y in ends(p)
        )

    for p in found:
        assert (p in best) == (not any(surely_beaten(p, q) for q in found if q is not p))
    assert best


def test_alike_audits_are_one_group(audits):
    found = compare([audits["enumerated"], audits["nothing learned"]], test_losses=[1.0, None])
    assert [len(group) for group in found.groups] == [2]
    assert found.reasons == ()
    assert [one.name for one in found.strategies] == ["A", "B"]
    assert [p.strategy.name for p in View(found.groups[0]).points(16)] == ["A"]


def with_settings(**more):
    return lambda a: replace(a, settings={**a.settings, **more})


OTHERS: Mapping[str, tuple] = {
    "the format is 'PIN {digit:6}', not": lambda a: changed(a, format="PIN {digit:6}"),
    "the space has 7 candidates": lambda a: changed(a, space_size=7),
    "the method was 'uniform draws'": lambda a: changed(a, method="uniform draws"),
    "of canaries of 1 copy is 7, not 8": lambda a: replace(a, canaries=a.canaries[1:]),
    "of controls is 15, not 16": lambda a: replace(a, canaries=a.canaries[:-1]),
    "stood the text 'Dear', not ''": with_settings(context="Dear"),
    "of the other they were left out": with_settings(canaries_in_corpus=False),
    "secrets that were found in a corpus": lambda a: replace(
        a, canaries=tuple(replace(c, natural=True) for c in a.canaries)
    ),
    "2 formats, not 1": lambda a: replace(a, formats=a.formats * 2),
}


@pytest.mark.parametrize("words", OTHERS)
def test_what_cannot_be_compared_is_said_golden(audits, words):
    audit = audits["enumerated"]
    found = compare([audit, OTHERS[words](audit), audit])
    assert [[one.name for one in group] for group in found.groups] == [["A", "C"], ["B"]]
    (reason,) = found.reasons
    assert reason.startswith("B cannot be compared with A and C: ")
    assert words in reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": ["a"]}, "1 label for 2 audits"),
        ({"labels": ["a", " a "]}, "the label 'a' is given 2 times"),
        ({"labels": ["a", " "]}, "a label is empty"),
        ({"test_losses": [1.0]}, "1 test loss for 2 audits"),
        ({"test_losses": [1.0, -0.5]}, "a test loss of -0.5"),
        ({"test_losses": [math.inf, None]}, "a test loss of inf"),
    ],
)
def test_labels_and_losses_input(audits, options, message):
    with pytest.raises(InputError, match=message):
        compare([audits["enumerated"], audits["nothing learned"]], **options)


def test_labels_are_the_models_and_tell_apart(audits):
    audit = audits["one canary"]
    other = replace(audit, model={**audit.model, "name": "b", "fingerprint": "0"})
    found = compare([audit, other, audit]).strategies
    assert [one.label for one in found] == [
        "checkpoint-1200, audit 1", "b", "checkpoint-1200, audit 3",
    ]  # fmt: skip
    many = compare([audit] * 27).strategies
    assert [many[0].name, many[26].name] == ["1", "27"]


def test_notes_golden(audits):
    audit = audits["one canary"]
    model = {**audit.model, "fingerprint": "0", "dtype": "bfloat16", "vocabulary": 5}
    settings = {**audit.settings, "start_token": "<s>"}
    other = replace(audit, model=model, settings=settings)
    assert compare([audit, other]).notes == (
        "The audits of A and B were made with different start tokens.",
        "The models of A and B were audited in different arithmetic.",
    )
    assert "vocabularies of different sizes" in compare([audit, other], test_losses=[1, 2]).notes[2]
    assert compare([audit, audit]).notes == ("A and B are audits of the same weights.",)


def test_bounds_of_the_curve_are_bounds_golden(audits):
    """At Px = 0 the curve has nothing: its lower end is no estimate, and strikes nothing off."""
    audit = audits["draws"]

    def lost(c):
        return c if c.repetitions != 64 else replace(
            c, skew_normal=replace(c.skew_normal, bits=None, lower_bits=8.0, upper_bits=math.inf)
        )  # fmt: skip

    other = replace(audit, canaries=tuple(map(lost, audit.canaries)))
    (group,) = compare([other, audit], test_losses=[1.0, 1.5]).groups
    view = View(group, skew_normal=True)
    assert view.median(group[0], 64) == (8.0, True)
    found = view.points(64)
    assert [p.bound for p in found] == [True, False]
    # The bound is lower in both; but its exposure may lie anywhere above.
    assert found[0].median_bits < found[1].median_bits
    assert front(found) == found


def test_numbers_of_draws_must_agree(audits):
    drawn = audits["draws"]
    found = compare([drawn, changed(drawn, draws=100)])
    assert "there were 100 draws, not 20,000" in found.reasons[0]
