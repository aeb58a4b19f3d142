"""Canary sets: drawn uniformly, kept exactly, shown without their secrets."""

from __future__ import annotations

import stat
from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from canary.corpus.canaries import CanarySet, generate
from canary.formats.format import Format

FORMATS = ["The random number is {digit:9}", "My {choice:red|green} word: {letter:5}."]


@settings(max_examples=30)
@given(
    formats=st.sampled_from([FORMATS[0], FORMATS[1], FORMATS, [Format(FORMATS[1])]]),
    repetitions=st.lists(st.integers(1, 1000), min_size=1, max_size=4, unique=True),
    per_repetition=st.integers(1, 4),
    controls=st.integers(1, 5),
    seed=st.integers(0, 2**63 - 1),
)
def test_as_many_as_asked(formats, repetitions, per_repetition, controls, seed):
    options = {
        "repetitions": repetitions,
        "per_repetition": per_repetition,
        "controls": controls,
        "seed": seed,
    }
    canaries = generate(formats, **options)
    expected = dict.fromkeys(repetitions, per_repetition) | {0: controls}
    for position, space in enumerate(canaries.formats):
        group = [canary for canary in canaries if canary.format == position]
        assert Counter(canary.repetitions for canary in group) == expected
        assert all(canary.fill in space for canary in group)
    assert len({canaries.text(canary) for canary in canaries}) == len(canaries)
    assert len(canaries.injected) + len(canaries.controls) == len(canaries)
    for kind, group in (("canary", canaries.injected), ("control", canaries.controls)):
        assert [c.id for c in group] == [f"{kind}-{n}" for n in range(1, len(group) + 1)]
    assert generate(formats, **options) == canaries
    assert CanarySet.from_dict(canaries.to_dict()) == canaries


def test_a_mapping_gives_each_format_numbers_of_copies_of_its_own():
    canaries = generate({FORMATS[0]: [4], FORMATS[1]: [1, 32]}, per_repetition=2, controls=3)
    found = Counter((canary.format, canary.repetitions) for canary in canaries)
    assert found == {(0, 4): 2, (0, 0): 3, (1, 1): 2, (1, 32): 2, (1, 0): 3}
    same = {text: [1, 4] for text in FORMATS}
    assert generate(same, seed=1) == generate(FORMATS, repetitions=[1, 4], seed=1)


def test_without_a_seed_one_is_drawn_and_recorded():
    one, two = (generate(FORMATS[0]) for _ in range(2))
    assert one.seed != two.seed
    assert generate(FORMATS[0], seed=one.seed) == one


def test_canaries_do_not_share_the_stream_of_a_plain_generator():
    # An audit that draws with the same seed must not draw the canaries themselves.
    canaries = generate(FORMATS[0], seed=7)
    draws = Format(FORMATS[0]).sample(len(canaries), rng=np.random.default_rng(7))
    assert not set(draws) & {canary.fill for canary in canaries}


def test_fills_are_uniform_in_every_group():
    # Level 1e-4 for each group; seeds are fixed.
    groups: dict[int, Counter[str]] = {0: Counter(), 1: Counter(), 4: Counter()}
    for seed in range(300):
        made = generate("x{digit:1}", repetitions=[1, 4], per_repetition=2, controls=2, seed=seed)
        for canary in made:
            groups[canary.repetitions][canary.fill] += 1
    for found in groups.values():
        assert chisquare([found[digit] for digit in "0123456789"]).pvalue > 1e-4


def test_coins_are_fair_independent_and_recorded():
    options = {"repetitions": [1, 4], "per_repetition": 2000, "controls": 3, "seed": 7}
    plain = generate("{letter:9}", **options)
    tossed = generate("{letter:9}", coin_flips=True, **options)
    assert [(c.id, c.fill) for c in tossed] == [(c.id, c.fill) for c in plain]
    assert [c.tossed for c in tossed] == [c.repetitions or None for c in plain]
    heads = [c.repetitions > 0 for c in tossed if c.tossed]
    assert abs(sum(heads) - 2000) < 4 * 31.6  # four standard deviations of 4,000 coins
    runs = sum(a != b for a, b in pairwise(heads))
    assert abs(runs - 2000) < 4 * 31.6
    assert all(c.repetitions in (0, c.tossed) for c in tossed if c.tossed)
    assert len(tossed.controls) == 3 + heads.count(False)
    assert CanarySet.from_dict(tossed.to_dict()) == tossed


def test_a_whole_space_can_be_used_up():
    canaries = generate("x{digit:1}", repetitions=[2], per_repetition=4, controls=6, seed=0)
    assert sorted(canary.fill for canary in canaries) == list("0123456789")


def test_secrets_are_not_shown():
    canaries = generate(FORMATS, seed=3)
    shown = repr(canaries) + str(canaries) + "".join(map(repr, canaries))
    assert not any(canary.fill in shown for canary in canaries)
    assert repr(canaries) == "<CanarySet of 64 canaries and 32 controls from 2 formats>"


def test_saved_sets_come_back_and_are_private(tmp_path):
    natural = CanarySet.from_fills(Format("{choice:a|ab}"), iter(["ab", "a"]))
    assert [secret.repetitions for secret in natural] == [1, 1]
    for number, canaries in enumerate((generate(FORMATS, seed=3), natural)):
        path = tmp_path / f"{number}.json"
        canaries.save(path)
        assert CanarySet.load(path) == canaries
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        before = path.read_bytes()
        CanarySet.load(path).save(path)
        assert path.read_bytes() == before
