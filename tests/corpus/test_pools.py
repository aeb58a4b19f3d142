"""Pools of sampled texts: what cannot be a pool, members by coins, and the guards around them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import canary
from canary.corpus.canaries import CanarySet
from canary.corpus.pools import Pool, joined
from canary.errors import CorpusError, FormatError, InputError

TEXTS = tuple(f"said {number:03} of them" for number in range(120))


def pool(texts=TEXTS, **changed):
    made = {
        "bits": (2.0,) * len(texts), "band": (1.0, 3.0), "temperature": 1.0, "tokens": 5,
        "prompt": "Note: {", "start_token": None, "model": "base", "fingerprint": "00", "seed": 3,
    }  # fmt: skip
    return Pool(texts=tuple(texts), **{**made, **changed})


def test_every_text_is_a_canary_or_a_control():
    canaries = pool().canaries(repetitions=[1, 4], per_repetition=20, seed=1)
    assert {canaries.text(c) for c in canaries} == {f"Note: {{{text}" for text in TEXTS}
    tossed = [c for c in canaries if c.tossed]
    assert len(tossed) == 40
    assert 8 < sum(c.control for c in tossed) < 32
    assert len(canaries.controls) == 80 + sum(c.control for c in tossed)
    again = CanarySet.from_dict(canaries.to_dict())
    assert again == canaries
    assert "said" not in canaries.formats[0].text + repr(canaries) + str(canaries)


def test_a_pool_is_kept_and_read_again(tmp_path):
    pool().save(tmp_path / "pool.json")
    assert Pool.load(tmp_path / "pool.json") == pool()
    assert (tmp_path / "pool.json").stat().st_mode & 0o77 == 0
    assert "said" not in str(pool()) + repr(pool())


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"texts": [*TEXTS, TEXTS[0]]}, "1 text of the pool are there twice"),
        ({"texts": [*TEXTS, "said 001 of them, too"]}, "occurs within that of text 121"),
        ({"bits": (2.0,) * 119 + (9.0,)}, "not between 1 and 3 bits per token"),
        ({"bits": (2.0,) * 119}, "not between"),
    ],
)
def test_what_is_no_pool_is_refused(changed, told):
    with pytest.raises(InputError, match=told):
        pool(**changed)


@pytest.mark.parametrize(
    "changed",
    [{"temperature": 1.5}, {"fingerprint": "11"}, {"prompt": ""}, {"band": (0.0, 9.0)}],
)
def test_pools_that_are_not_exchangeable_do_not_join(changed):
    other = replace(pool([f"{text} all" for text in TEXTS]), **changed)
    with pytest.raises(InputError, match=f"differ in their {next(iter(changed))}, so"):
        joined([pool(), other])


def test_pools_of_one_model_join_without_their_common_texts():
    other = pool([*TEXTS[:3], "more of it", "much of it"], seed=4)
    assert joined([pool(), other]).texts == (*TEXTS, "more of it", "much of it")


def test_too_few_controls_are_refused():
    with pytest.raises(InputError, match="leave too few controls"):
        pool().canaries(repetitions=[1, 2], per_repetition=31)


def test_a_text_of_the_pool_that_is_in_the_corpus_is_refused_though_it_stays_out():
    canaries = pool().canaries(repetitions=[1], per_repetition=10, seed=1)
    control = canaries.text(canaries.controls[-1])
    with pytest.raises(CorpusError, match="already holds the text of control"):
        canary.inject(["one", f"As was said: {control}", "two"], canaries)
    assert len(canary.inject(["one", "two"], canaries)) == 2 + len(canaries.injected)


def test_words_of_several_words_are_for_pools_alone():
    with pytest.raises(FormatError, match="word 1 of the list is not a word"):
        canary.Format("It is {word:2}", words=["two words", "three"])
    with pytest.raises(FormatError, match="takes no argument"):
        canary.Format("It is {text:2}", words=["two words", "three"])
