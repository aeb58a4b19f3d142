"""Occurrences are those of a recount at every place, whatever the lengths of the keys."""

from __future__ import annotations

import pickle

import pytest
from datasets import Dataset
from hypothesis import assume, given
from hypothesis import strategies as st

from canary.corpus.canaries import Canary, CanarySet
from canary.corpus.columns import Shape, Slot
from canary.corpus.injection import inject
from canary.corpus.occurrences import Finder, find_canaries
from canary.corpus.places import Remover, Splicer
from canary.errors import CorpusError
from canary.formats.format import Format

FILLS = ("1.", "23.", "456.", "7890.", "12345.")
LENGTHS = CanarySet(
    (Format("No. {choice:" + "|".join(FILLS) + "}"),),
    tuple(Canary(f"canary-{at}", 0, fill, 1) for at, fill in enumerate(FILLS)),
    seed=0,
)


@given(
    stems=st.lists(st.sampled_from(["", "a", "ab", "ba", "aba"]), min_size=1, max_size=3),
    ends=st.lists(st.text("abc", min_size=1, max_size=5), min_size=3, max_size=9),
    parts=st.lists(st.integers(0, 8) | st.text("abc", max_size=4), max_size=8),
)
def test_a_recount_at_every_place(stems, ends, parts):
    groups, keys = [], []
    for at, stem in enumerate(stems):
        fresh = {stem + end for end in ends[at :: len(stems)]}
        kept = [
            key
            for key in sorted(fresh)
            if not any(key in other for other in [*keys, *fresh - {key}])
            and not any(other in key for other in keys)
        ]
        keys += kept
        groups.append({key: f"<{key}>" for key in kept})
    assume(keys)
    # Texts that end with a key, or with all of one but its last characters.
    text = "".join(keys[part % len(keys)] if isinstance(part, int) else part for part in parts)
    find = Finder(groups)
    for cut in range(4):
        some = text[: len(text) - cut]
        expected = sorted(
            (at, at + len(key), f"<{key}>")
            for key in keys
            for at in range(len(some))
            if some[at : at + len(key)] == key
        )
        assert sorted(find(some)) == expected
        assert pickle.loads(pickle.dumps(find))(some) == find(some)


@pytest.mark.parametrize("number", range(len(FILLS)))
def test_a_canary_at_the_end_of_its_text(number):
    """Once, whatever lengths the others have: counted, cut out, refused."""
    fill, name = FILLS[number], f"canary-{number}"
    text = f"Before: No. {fill}"
    assert find_canaries(LENGTHS, LENGTHS)(text) == [(8, len(text), name)]
    between = find_canaries(LENGTHS, LENGTHS, "\n", " ")
    assert between(f"Before:\nNo. {fill} ") == [(7, len(text) + 1, name)]
    slot = Slot(("text",), f"Before.\nNo. {fill} ")
    (cut,) = Remover(LENGTHS, ("\n", " ")).edits([slot])
    assert (cut.start, cut.stop) == (7, len(slot.text))
    # With one place only the copy is the whole of the text.
    splicer = Splicer(LENGTHS, ("\n", " "), Shape(("text",)))
    splicer.guests = {0: [(number, 0.5)]}
    (put,) = splicer(0, [Slot(("text",), "")], lambda _: {"text": ""})
    assert put.new == f"\nNo. {fill} "
    with pytest.raises(CorpusError, match=f"already holds the text of {name}"):
        inject(Dataset.from_dict({"text": [text]}), LENGTHS)
