"""Every arrangement of the copies among the lines is equally likely."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.stats import chisquare

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.places import arrange

# Seeds are fixed; an honest generator fails such a test once in 10,000 seeds.
_ALPHA = 1e-4


def test_all_arrangements_of_a_small_corpus():
    # Two lines, one canary twice and one once: 5! / (2! 2! 1!) = 30 arrangements.
    found: Counter[bytes] = Counter()
    for seed in range(6000):
        places, owners = arrange(2, np.array([0, 0, 1]), seed)
        line = np.full(5, -1)
        line[places] = owners
        found[line.tobytes()] += 1
    assert len(found) == 30
    assert chisquare(list(found.values())).pvalue > _ALPHA


def test_a_single_copy_goes_anywhere():
    places = [int(arrange(9, np.array([0]), seed)[0][0]) for seed in range(3000)]
    assert chisquare(np.bincount(places, minlength=10)).pvalue > _ALPHA


def test_places_are_uniform_over_a_corpus(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"text": "a"}\n' * 200_000)
    canaries = generate("{digit:9}", repetitions=[1000], per_repetition=4, seed=0)
    places = inject_file(source, target, canaries, seed=3)
    everywhere = []
    for numbers in places.lines.values():
        places_of_one = (np.array(numbers) - 1) * 20 // places.total_lines
        assert chisquare(np.bincount(places_of_one, minlength=20)).pvalue > _ALPHA
        everywhere.append(places_of_one)
    assert chisquare(np.bincount(np.concatenate(everywhere), minlength=20)).pvalue > _ALPHA
