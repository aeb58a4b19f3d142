"""How many cases a fuzz test runs, and what may become of one: success or a CanaryError."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from canary.errors import CanaryError

PROFILE = "fuzz"
"""Loaded by ``--fuzz``: new cases in every run, as many as each test asks for."""

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def cases(fuzz, *, default=10):
    """Settings for a test of `fuzz` cases with ``--fuzz``, else of `default`."""
    fuzzing = settings.get_current_profile_name() == PROFILE
    return settings(max_examples=fuzz if fuzzing else default, suppress_health_check=SLOW)


def attempt(work, *words, **options):
    """What `work` gives, or the CanaryError that it raises; anything else is a failure."""
    try:
        return work(*words, **options)
    except CanaryError as error:
        outcome = error
    str(outcome).encode()  # can be shown everywhere
    assert outcome.problem
    return outcome


def failed(outcome):
    """Whether `attempt` met an error."""
    return isinstance(outcome, CanaryError)


LONG = [b"[" * 1500, b"1" * 4500, b"NaN", b"\\ud800"]


@st.composite
def damaged(draw, content):
    """Some bytes changed, cut off or added."""
    found = bytearray(draw(content))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(found)))
        end = draw(st.integers(at, min(at + 20, len(found))))
        found[at:end] = draw(st.binary(max_size=6) | st.sampled_from(LONG))
    return bytes(found[: draw(st.none() | st.integers(0, len(found)))])
