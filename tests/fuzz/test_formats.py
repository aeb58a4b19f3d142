"""Any text as a format: it has a space that can be used, or a FormatError says where it fails."""

from __future__ import annotations

import numpy as np
from fuzzing import attempt, cases, failed
from hypothesis import given
from hypothesis import strategies as st

from canary.corpus.canaries import generate
from canary.errors import FormatError
from canary.formats.format import Format

_HOLES = (
    r"{digit:2} {upper:2} {hex:3} {alnum:2} {base64:2} {letter:1} {uuid} {credit_card} "
    r"{credit_card:visa|amex} {iban:NL} {email:2} {phone:us} {phone:fr} {re:[ab]{1,3}} "
    r"{re:(?:x|yz)?\d} {choice:a|ab} {choice:1|2} {word:1} {word:2}"
)
_PARTS = (
    r"{ } {{ }} | : ( ) [ ] ^ $ * + ? . \ - \d \w \s \b \x7b [a-z] [^a] (?i) (?=a) {2,3} {,3} {0} "
    "{re: {digit: {choice: {word: {email: {phone: {iban: {credit_card: "
    "0 1 2 9 99999999999 ² a é 😀 visa us NL digit DE"
)
HOLES = _HOLES.split()
PARTS = [*_PARTS.split(), " ", "\n", "\0", "\ud800", "\x1b"]
TEXT = (
    st.text(max_size=20)
    | st.lists(st.sampled_from(PARTS), max_size=8).map("".join)
    | st.lists(st.sampled_from([*HOLES, "", "-", "a", "1"]), max_size=4).map("".join)
    | st.lists(st.sampled_from([*HOLES, *PARTS]), max_size=4).map("".join)
    | st.lists(st.sampled_from(PARTS), max_size=6).map(lambda parts: f"{{re:{''.join(parts)}}}")
    | st.lists(st.sampled_from(PARTS), max_size=6).map(
        lambda parts: f"{{choice:{'|'.join(parts)}}}"
    )
)
WORDS = st.none() | st.lists(st.text(max_size=3) | st.sampled_from(["a", "ab", "b"]), max_size=4)


def check_space(space, data):
    """A space counts its fills, knows each by its number, and nothing else."""
    at = data.draw(st.integers(0, space.size - 1))
    fill = space.unrank(at)
    assert fill in space
    assert space.index(fill) == at
    assert isinstance(space.prefix_free, bool)
    assert isinstance(space.masked, str)
    assert Format(space.text, words=space.words) == space
    asked = data.draw(st.integers(0, 3))
    drawn = attempt(space.sample, asked, rng=np.random.default_rng(at % 2**32))
    assert failed(drawn) is (asked > space.size)
    assert failed(drawn) or (len(set(drawn)) == asked and all(item in space for item in drawn))


@cases(14_000)
@given(text=TEXT, data=st.data())
def test_texts(text, data):
    space = attempt(Format, text)
    if failed(space):
        assert isinstance(space, FormatError)
        assert space.cure
        assert "column" in space.where
    else:
        check_space(space, data)


@cases(2_000)
@given(text=TEXT, words=WORDS, data=st.data())
def test_word_lists(text, words, data):
    space = attempt(Format, text, words=words)
    if failed(space):
        assert isinstance(space, FormatError)
    else:
        check_space(space, data)


@cases(2_000)
@given(
    fill=st.text(max_size=6) | st.none() | st.integers(),
    index=st.integers() | st.sampled_from([10**5000, -(2**63)]).map(lambda n: n + 1),
    hole=st.sampled_from(HOLES),
)
def test_fills_and_numbers(fill, index, hole):
    space = Format(f"a {hole} b")
    found = attempt(space.index, fill)
    assert failed(found) is (fill not in space)
    assert failed(attempt(space.unrank, index)) is not (0 <= index < space.size)


@cases(2_000)
@given(
    texts=st.lists(st.sampled_from([*HOLES, "a {digit:1}", "x{digit:9}", "a"]), max_size=3),
    repetitions=st.lists(st.integers(-1, 5) | st.sampled_from([2**63, 10**7]), max_size=3),
    per_repetition=st.integers(-1, 4),
    controls=st.integers(-1, 4),
    seed=st.integers(-1, 2**64),
    coins=st.booleans(),
)
def test_sets(*, texts, repetitions, per_repetition, controls, seed, coins):
    made = attempt(
        generate,
        texts,
        repetitions=repetitions,
        per_repetition=per_repetition,
        controls=controls,
        seed=seed,
        coin_flips=coins,
    )
    if not failed(made):
        assert len(made) == len(texts) * (len(repetitions) * per_repetition + controls)
