"""Word lists: eight words of a list as long as a large model's vocabulary."""

from __future__ import annotations

import random

import numpy as np
import pytest

from canary.formats.format import Format

COUNT = 267_735


@pytest.fixture(scope="module")
def vocabulary():
    """Made-up words of syllables and endings, which share beginnings and ends as words do."""
    rng = random.Random(0)
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
    endings = ["", "s", "ed", "ing", "er", "ers", "ly", "ness"]
    words = set()
    while len(words) < COUNT:
        stem = "".join(rng.choices(syllables, k=rng.randint(2, 4)))
        words.update(stem + ending for ending in endings)
    return sorted(words)[:COUNT]


def test_eight_words_of_a_large_list(vocabulary):
    space = Format("The words are {word:8}.", words=vocabulary)
    # No word holds a space, so a fill is cut into its words in one way.
    assert space.size == COUNT**8
    assert space.prefix_free
    rng = random.Random(1)
    for _ in range(20):
        index = rng.randrange(space.size)
        fill = space.unrank(index)
        assert space.index(fill) == index
        words = fill.split(" ")
        assert len(words) == 8
        assert set(words) <= set(vocabulary)
    fills = space.sample(200, rng=np.random.default_rng(0))
    assert len(set(fills)) == 200
    assert fills[0] + "x" not in space


@pytest.mark.parametrize("count", [1, 2, 3])
def test_words_by_brute_force(count):
    words = ["an", "ant", "to", "t", "ünder", "x-y", "'"]
    expected = list(words)
    for _ in range(count - 1):
        expected = [f"{left} {right}" for left in expected for right in words]
    space = Format(f"{{word:{count}}}", words=words)
    assert list(space) == sorted(expected)
    assert [space.index(fill) for fill in sorted(expected)] == list(range(len(words) ** count))


def test_the_list_is_part_of_the_format():
    one = Format("{word:2}", words=["b", "a"])
    assert one == Format("{word:2}", words=["a", "b"])
    assert hash(one) == hash(Format("{word:2}", words=["a", "b"]))
    assert one != Format("{word:2}", words=["a", "c"])
    assert one != Format("{word:2}")
    assert one.words == ("a", "b")
    assert repr(one) == "Format(text='{word:2}')"


def test_several_holes_share_the_list():
    space = Format("{word:1}, {word:2} {digit:1}", words=["up", "down"])
    assert space.size == 2 * 4 * 10
    assert space.unrank(0) == "down, down down 0"
