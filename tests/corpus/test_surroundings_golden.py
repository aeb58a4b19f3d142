"""What verify says of the text around copies: what precedes all, and never a person's text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from datasets import Dataset

from canary.corpus.canaries import Canary, CanarySet, generate
from canary.corpus.injection import inject
from canary.corpus.verification import verify
from canary.errors import InputError

CANARIES = generate("The code is {digit:6}", repetitions=[3], per_repetition=5, controls=2, seed=0)
TEXTS = [CANARIES.text(c) for c in CANARIES.injected for _ in range(3)]
GIVE = ": give it as --context (in Python context) to audit"
ROWS = Dataset.from_dict({"text": [f"Row {n} of Ann. It rains {n}." for n in range(60)]})


def _before(texts, canaries=CANARIES, **options):
    found = verify(Dataset.from_dict({"text": [*texts, "other"]}), canaries, **options)
    assert found.before in found.summary()
    return found.before


AT = "at the beginning of their text"
BUT = "but the context is 'B: ': after it an audit scores other text"


@pytest.mark.parametrize(
    ("befores", "context", "told"),
    [
        ([""], "", "all 15 copies begin their text"),
        (["<|user|>\n"], "", f"all 15 copies follow '<|user|>\\n' {AT}{GIVE}"),
        (
            *(["x" * 2000 + ": "], ""),
            "all 15 copies follow '" + "x" * 998 + ": ' within longer texts" + GIVE,
        ),
        (["A: "], ": ", f"all 15 copies follow 'A: ' {AT}"),
        (["A: "], "B: ", f"all 15 copies follow 'A: ' {AT}, {BUT}"),
        ([""], "B: ", f"all 15 copies begin their text, {BUT}"),
        (["A: ", *[""] * 14], "", "14 of 15 copies begin their text"),
    ],
    ids=["nothing", "a template", "a long one", "its end", "another", "none", "nearly all"],
)
def test_what_comes_before_all_copies_is_said_and_compared_with_a_context(befores, context, told):
    texts = [before + text for before, text in zip(befores * 15, TEXTS, strict=False)]
    assert _before(texts, context=context) == told


def test_spliced_copies_follow_their_separator_and_no_text_of_the_corpus_is_shown():
    for seed in range(5):
        mixed = inject(ROWS, CANARIES, mode="splice", separators=("\n--", " "), seed=seed)
        found = verify(mixed, CANARIES)
        assert found.ok
        assert found.before.endswith(f"\\n--' within longer texts{GIVE}")
        assert "rains" not in found.before


def test_no_text_of_a_person_is_shown():
    """Few canaries share much by chance: a corpus with one text, or one that is repeated."""
    few = replace(CANARIES, canaries=CANARIES.canaries[:1])
    private = "Ann Smith has a rash. "
    told = _before([private + few.text(few.canaries[0])] * 20, few)
    assert told == f"all 20 copies follow '. ' within longer texts{GIVE}"
    texts = [f"{private[n:]}{text}" for n, text in enumerate(TEXTS)]
    assert "rash" in _before(texts)  # the same before all copies of five canaries
    texts = [f"Ann has rash {n}{chr(65 + n)}{text}" for n, text in enumerate(TEXTS)]
    assert _before(texts) == "15 copies follow texts with no common end"


def test_copies_in_chats_begin_their_message():
    chats = [{"messages": [{"role": "user", "content": text}]} for text in TEXTS]
    found = verify(Dataset.from_list(chats), CANARIES, column="messages")
    assert found.before == (
        "all 15 copies begin their message: give what the chat template puts before it as "
        "--context to audit"
    )
    assert found.messages
    found = verify(Dataset.from_list(chats), CANARIES, column="messages", context="<|user|>")
    assert found.before.endswith("the chat template puts '<|user|>' before it, as you say")


@pytest.mark.parametrize(
    ("format", "fill", "text", "counts"),
    [
        ("code {digit:4}", "1234", "code 12345", (0, 1)),
        ("code {digit:4}", "1234", "code 1234, code 1234x, code 1234.", (3, 0)),
        ("code {hex:4}", "12ab", "code 12abc, code 12abz", (1, 1)),
        ("{digit:4} euro", "1234", "51234 euro, 1234 euro, 1234 euros", (2, 1)),
        ("<{digit:4}>", "1234", "9<1234>9", (1, 0)),
    ],
)
def test_longer_fills_are_not_copies(format, fill, text, counts):
    canaries = CanarySet((generate(format).formats[0],), (Canary("a", 0, fill, counts[0]),), 0)
    found = verify(Dataset.from_dict({"text": [text]}), canaries)
    assert (found.canaries[0].found, found.canaries[0].longer) == counts
    assert found.ok
    assert ("within longer runs of characters" in found.summary()) is bool(counts[1])


def test_a_second_set_in_the_corpus_is_said():
    other = generate("The code is {digit:6}", repetitions=[2], per_repetition=3, controls=1, seed=1)
    mixed = inject(inject(ROWS, CANARIES), other)
    found = verify(mixed, CANARIES)
    assert (found.ok, found.others) == (True, 3)
    assert (
        "note: 3 other texts of these formats are in the corpus, perhaps of another"
        in found.summary()
    )
    many = Dataset.from_dict({"text": [f"The code is {n:06d}" for n in range(1200)]})
    found = verify(many, CANARIES)
    assert found.others == 1000
    assert json.loads(json.dumps(found.to_dict()))["others"] == 1000


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"mode": "record", "separators": (" ", " ")}, "records of their own have no separators"),
        ({"mode": "splice", "separators": (" ", "5 ")}, "a separator continues the letters or"),
    ],
)
def test_separators_that_do_not_serve_are_refused(options, problem):
    with pytest.raises(InputError, match=f"^separators: {problem}"):
        inject(ROWS, CANARIES, **options)
