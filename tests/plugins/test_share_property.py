"""The monitor's time stays within its share of the training's, whatever things take."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched import causal, monitor

from canary.plugins.training_log import TimeShare

SECONDS = st.floats(0.001, 10.0)


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self):
        self.at = 0.0

    def __call__(self):
        return self.at


@given(
    share=st.floats(0.01, 1.0),
    ready=SECONDS,
    trainings=st.lists(SECONDS, min_size=1, max_size=60),
    measurements=st.lists(SECONDS, min_size=1, max_size=5),
)
def test_after_each_measurement_the_share_is_kept_but_for_what_was_not_foreseen(
    share, ready, trainings, measurements
):
    clock = Clock()
    watched = TimeShare(share, clock)
    with watched.own():
        clock.at += ready
        watched.expect(measurements[0])
    for number, training in enumerate(trainings):
        clock.at += training
        with watched.own():
            if not watched.allows:
                continue
            expected = watched.cost
            before = watched.own_seconds
            with watched.measurement():
                took = measurements[number % len(measurements)]
                clock.at += took
        unforeseen = max(took - expected, 0.0)
        assert watched.own_seconds == pytest.approx(before + took)
        allowed = max(share * watched.training_seconds, 10.0)  # ten seconds are free
        assert watched.own_seconds <= allowed + unforeseen + 1e-9
    assert watched.training_seconds == pytest.approx(sum(trainings))


def test_equal_measurements_come_as_often_as_the_share_allows():
    clock = Clock()
    watched, done = TimeShare(0.1, clock), 0
    with watched.own():
        watched.expect(0.5)
    for _ in range(1000):
        clock.at += 1.0
        with watched.own():
            if watched.allows:
                with watched.measurement():
                    clock.at += 0.5
                done += 1
    assert done == 200  # 1,000 s of training allow 100 s, which are 200 times half a second
    assert watched.own_seconds == pytest.approx(0.1 * watched.training_seconds)


def test_a_short_training_is_measured_wherever_it_is_asked_for():
    clock = Clock()
    watched = TimeShare(0.05, clock)
    for _ in range(6):
        clock.at += 1.0
        with watched.own():
            assert watched.allows
            with watched.measurement():
                clock.at += 1.5
    with watched.own():
        assert not watched.allows  # nine seconds of ten are spent


def test_a_pause_is_nobodys_time():
    clock = Clock()
    watched = TimeShare(0.1, clock)
    with watched.own():
        clock.at += 1.0
    watched.pause()
    clock.at += 1000.0
    with watched.own():
        clock.at += 1.0
    assert (watched.training_seconds, watched.own_seconds) == (0.0, 2.0)


def test_a_real_loop_is_kept_within_its_share_and_told_what_it_was(monkeypatch):
    monkeypatch.setattr("canary.plugins.training_log._FREE", 0.0)
    module, tokenizer = causal()
    watch = monitor(tokenizer=tokenizer, share=0.5)
    began = time.perf_counter()
    watch.start(module)
    steps = 0
    while len(watch.history.measured) < 3:
        time.sleep(0.02)  # the training
        steps += 1
        watch.step(module)
        assert steps < 2000
    took = time.perf_counter() - began
    history = watch.history
    # The last measurement may have taken longer than any before.
    longest = max(moment.seconds for moment in history.moments)
    assert history.own_seconds <= 0.5 * history.training_seconds + longest
    assert history.own_seconds + history.training_seconds == pytest.approx(took, rel=0.02)
    assert history.training_seconds >= 0.02 * steps
    assert history.asked == steps > len(history.moments)
    assert history.own_seconds >= sum(moment.seconds for moment in history.moments)
