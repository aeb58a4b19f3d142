"""Attacks and signals of other packages: what their entry points load, and whose an error is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from classifiers import measured_outputs

import canary
from canary.errors import InputError
from canary.membership.attacks import ATTACKS, Attack, AttackScores
from canary.registry import Registry, called
from canary.signals.definitions import SIGNALS, Signal


def scoring(scores):
    def score(table, attack, **_):
        return AttackScores(attack.name, "loss", scores(table), None, None, (), blind=True)

    return score


@pytest.fixture
def table():
    return measured_outputs(0, samples=40)


@pytest.fixture
def added(monkeypatch):
    monkeypatch.setattr(ATTACKS, "_things", dict(ATTACKS.items()))
    return lambda **more: ATTACKS.add("mine", Attack(name="mine", help="x", signal="loss", **more))


def test_an_attack_of_ones_own_scores(added, table):
    added(score=scoring(lambda table: -table.signal("loss")[0]))
    scores = canary.attack(table, "mine").scores
    assert scores == pytest.approx(-table.signal("loss")[0])


def test_a_survey_takes_scores_without_guesses(added, table):
    added(score=scoring(lambda table: -table.signal("loss")[0]))
    found = canary.survey(table, measured_outputs(1, samples=40), attacks="mine")
    assert "mine gives scores only" in " ".join(found.notes)
    assert sum(found.attacked[0].attack.guess) == 20
    assert "mine" in found.summary()


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda *_, **__: {}["a"], "the attack 'mine' failed .KeyError: 'a'"),
        (scoring(lambda table: np.zeros(3)), "the attack 'mine' gave no AttackScores with a"),
        (lambda *_, **__: np.zeros(40), "attack 'mine' gave no AttackScores"),
    ],
    ids=["fails", "shape", "type"],
)
def test_an_error_names_the_attack_input(added, table, score, message):
    added(score=score)
    with pytest.raises(InputError, match=message):
        canary.attack(table, "mine")


def test_an_error_names_the_signal_input(monkeypatch):
    monkeypatch.setattr(SIGNALS, "_things", dict(SIGNALS.items()))
    signal = Signal("mine", 1, "x", value=lambda logs, labels: logs)
    SIGNALS.add("mine", signal)
    with pytest.raises(InputError, match=r"signal 'mine' gave an array of shape \(40, \d+\)"):
        measured_outputs(0, samples=40)


def loaded(monkeypatch, load, kind=Attack, name="mine"):
    point = SimpleNamespace(name=name, value="package:thing", load=load)
    monkeypatch.setattr("canary.registry.entry_points", lambda group: [point])
    return Registry("attack", group="attacks", kind=kind)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda: 1 / 0, "'mine' .entry point package:thing. cannot be loaded .ZeroDivisionError"),
        (lambda: scoring, "is of the type function; have it name an object of the class Attack"),
        (lambda: Attack(name="other", help="x", signal="loss"), "calls itself 'other'"),
    ],
    ids=["broken", "function", "name"],
)
def test_an_entry_point_that_does_not_fit_is_named_input(monkeypatch, load, message):
    registry = loaded(monkeypatch, load)
    for _ in range(2):  # it is not forgotten
        with pytest.raises(InputError, match=message):
            list(registry)


def test_functions_of_canary_are_called_as_they_are():
    with pytest.raises(ZeroDivisionError):
        called("attack", type("", (), {"__module__": "canary.x", "__call__": lambda _: 1 / 0})())
