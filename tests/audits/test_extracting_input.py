"""What extraction refuses, and what it does at the edges of what it takes."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import CHARACTERS, build, character_tokenizer

from canary.audits.completing import completions
from canary.audits.extracting import extract
from canary.corpus.canaries import CanarySet
from canary.errors import FormatError, InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.models.table_model import TableModel
from canary.tokens.fast import as_tokenizer

SIZE = len(CHARACTERS)


def flat_model(row=None, *, columns=SIZE):
    """One state; `row` of log-probabilities, or uniform ones."""
    logs = np.full(columns, -np.log(columns)) if row is None else np.asarray(row)
    tokenizer = as_tokenizer(character_tokenizer())
    return TableModel(np.zeros((1, columns), int), logs[None], tokenizer)


class Failing:
    """A model whose walks give NaN, in the context's price or below it."""

    def __init__(self, *, context):
        model = build("table")
        self.tokenizer, self.facts, self.memory = model.tokenizer, model.facts, model.memory
        self.score, self._open, self._context = model.score, model.open, context

    def open(self, context, *, memory_bytes):
        walker = self._open(context, memory_bytes=memory_bytes)
        if self._context:
            walker.context_log_probs[:] = np.nan
        else:
            expand = walker.expand

            def failing(nodes, tokens, *, keep=True):
                found = expand(nodes, tokens, keep=keep)
                found.log_probs.reshape(-1)[0] = np.nan
                return found

            walker.expand = failing
        return walker


B_SET = CanarySet.from_fills("b{digit:2}", ["12"])
NOTHING = np.full(SIZE, -np.inf)


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("a{digit:2}", {"budget": 0}, InputError, "budget .* at least 1, got 0"),
        ("a{digit:2}", {"top": 0}, InputError, "top .* at least 1, got 0"),
        ("a{digit:2}", {"most_open": 0}, InputError, "most_open .* at least 1, got 0"),
        ("a{digit:2}", {"beam": 0}, InputError, "beam .* at least 1, got 0"),
        ("a{digit:2}", {"seconds": 0.0}, InputError, "seconds must be a number above 0, got 0.0"),
        ("a{digit:2}", {"seconds": np.nan}, InputError, "seconds must be a number above 0"),
        ("a{digit:2}", {"stop": "soon"}, InputError, "unknown stop 'soon'.*proof, paper"),
        ("a{digit:2}", {"known": 2}, InputError, "known: 2 characters .* has 2; .*from 0 to 1"),
        ("a{digit:2}", {"known": -1}, InputError, "known .* at least 0, got -1"),
        ("a{digit:2}", {"batch_size": 0}, InputError, "batch_size .* at least 1, got 0"),
        ("a{digit:2}", {"canaries": B_SET}, InputError, "format 'a{digit:2}'; name one of 'b"),
        ("{digit:2}a", {"start_token": None}, InputError, "begins with a hole.*start_token"),
        ("a{choice:b|bc}", {}, FormatError, "not prefix-free.*fixed text"),
        ("a{digit:400}", {}, UnsupportedError, "beyond the range(?!.*--method)"),
        ("ab{digit:2}", {"model": Failing(context=False)}, ModelError, "not finite numbers"),
        ("ab{digit:2}", {"model": Failing(context=True)}, ModelError, "not finite numbers"),
        ("a{digit:2}", {"model": flat_model(NOTHING)}, ModelError, "every candidate of .* prob"),
        ("ab{digit:2}", {"model": flat_model(NOTHING)}, ModelError, "every candidate of .* prob"),
    ],
)
def test_what_is_refused_input(text, options, error, message):
    with pytest.raises(error, match=message):
        extract(**{"model": flat_model(), "format": text, **options})


def test_what_completion_refuses_input():
    with pytest.raises(FormatError, match="not prefix-free"):
        completions(flat_model(), "a{choice:b|bc}", {"it": "bc"}, known=1)
    with pytest.raises(FormatError, match="no fill begins with these 2 characters") as caught:
        Format("a{digit:2}").given("7x")
    assert "7x" not in str(caught.value)


def test_candidates_of_probability_0_are_left_out_degenerate():
    """Only 3 and 7 are possible: four candidates, however many are asked for."""
    row = np.full(SIZE, -np.inf)
    row[[3, 7, CHARACTERS.index("a")]] = np.log([0.5, 0.25, 0.25])
    found = extract(flat_model(row), "a{digit:2}", top=9)
    assert [c.fill for c in found.candidates] == ["33", "37", "73", "77"]
    assert found.proven
    assert found.rest_bits is None
    assert [round(c.exposure_lower_bits, 6) for c in found.candidates] == [
        round(float(np.log2(100 / rank)), 6) for rank in (1, 3, 3, 4)
    ]


def test_a_space_of_one_candidate_is_proven_at_once_degenerate():
    found = extract(flat_model(), "only {choice:one} here")
    assert [c.fill for c in found.candidates] == ["one"]
    assert found.proven
    assert found.candidates[0].exposure_upper_bits == 0.0
    assert found.random_guesses == 1.0


def test_the_smallest_budget_says_up_to_which_cost_it_proves_degenerate():
    found = extract(flat_model(), "a{digit:4}", budget=1)
    assert found.candidates == ()
    assert not found.proven
    assert found.stopped == "budget"
    assert found.queries <= 1
    assert found.rest_bits == pytest.approx(found.context_bits + np.log2(SIZE))
    assert "nothing found, every candidate costs at least" in found.summary()
    one = extract(flat_model(), "a{digit:1}", budget=1)  # priced by the context alone
    assert one.proven
    assert one.queries == 1  # of a candidate as a whole row, to compare


def test_the_end_of_the_time_leaves_a_valid_answer_degenerate():
    found = extract(flat_model(), "a{digit:9}", seconds=1e-9)
    assert found.stopped == "seconds"
    assert found.rest_bits == found.context_bits
    assert not found.proven


def test_an_interruption_leaves_a_valid_answer_degenerate(monkeypatch):
    from canary.scoring.batcher import Batcher

    expand, left = Batcher.expand, [3]

    def stopping(self, *arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return expand(self, *arguments, **options)

    monkeypatch.setattr(Batcher, "expand", stopping)
    found = extract(flat_model(), "a{digit:4}", top=3, known=1, batch_size=1)
    assert found.stopped == "interrupted"
    assert not found.proven
    assert found.completions == ()
    assert found.rest_bits <= found.context_bits + 4 * np.log2(SIZE)


def test_tokens_that_the_tokenizer_does_not_know_take_probability_only_degenerate():
    """A model over more tokens than the tokenizer has: none of them is ever proposed."""
    found = extract(flat_model(columns=SIZE + 19), "a{digit:2}", top=100)
    assert len(found.candidates) == 100
    assert found.proven
    assert found.candidates[0].px_bits == pytest.approx(2 * np.log2(SIZE + 19))


def test_a_context_longer_than_the_model_takes_is_refused_input():
    """The model takes 64 tokens; the longest candidate counts, not a random one."""
    with pytest.raises(ModelError, match="66 tokens is longer than the 64"):
        extract(build("gpt2"), "a{digit:3}", context="x" * 62)
    found = extract(build("gpt2"), "a{digit:3}", context="x" * 60, budget=5)
    assert found.queries <= 5
    with pytest.raises(ModelError, match="65 tokens is longer than the 64"):
        extract(build("gpt2"), "a{choice:b|cdefg}", context="x" * 59)
    with pytest.raises(ModelError, match="longer than the 64"):
        completions(build("gpt2"), "a{digit:3}", {"it": "123"}, known=1, context="x" * 62)


def test_what_stands_before_is_noted():
    assert extract(flat_model(), "{digit:2}a", start_token="\n").proven
    bare = extract(flat_model(), "a{digit:2}", start_token=None)
    assert "start token" in bare.notes[0]
    assert bare.summary().endswith(f"\nnote: {bare.notes[-1]}")
    named, meaning = extract(flat_model(), "a{digit:2}", start_token="\n").notes
    assert "Nothing checked that training put it there" in named
    # A candidate that is proven is no secret yet; with canaries one sees which are.
    assert "has a probability of 4.9 × 10⁻⁴ after this beginning; what the model" in meaning
    canaries = CanarySet.from_fills("a{digit:2}", ["12"])
    known = extract(flat_model(), "a{digit:2}", start_token="\n", canaries=canaries)
    assert not any("training data: after any" in note for note in known.notes)


def test_known_characters_without_a_secret_are_told_degenerate():
    """One query finds no candidate, and so there is nothing that could be completed."""
    found = extract(flat_model(), "a{digit:6}", budget=1, known=2)
    assert found.candidates == found.completions == ()
    assert "no candidate was found, and no canaries were given" in found.to_dict()["notes"][-1]
    canaries = CanarySet.from_fills("a{digit:6}", ["123456"])
    found = extract(flat_model(), "a{digit:6}", budget=1, known=2, canaries=canaries)
    assert found.completions == ()  # the search took the whole budget
    assert not any("no candidate was found" in note for note in found.notes)


@pytest.mark.parametrize("budget", [20, 300, 200_000])
def test_completions_stay_within_the_budget(budget):
    logs = np.random.default_rng(0).normal(0, 1, SIZE)
    model = flat_model(logs - np.log(np.exp(logs).sum()))
    canaries = CanarySet.from_fills("a{digit:6}", ["123456", "654321"])
    found = extract(model, "a{digit:6}", known=1, budget=budget, beam=100, canaries=canaries)
    assert found.queries + sum(c.queries for c in found.completions) <= budget
    late = 2 - len(found.completions)
    assert any("not completed: 2" in note for note in found.notes) == (late == 2)
    assert (budget == 200_000) == (late == 0)


def test_a_fill_too_short_is_left_out_with_a_note():
    found = extract(build("table"), "a{re:(00000|[1-9])}.", known=2, budget=1_000)
    assert found.candidates
    assert found.completions == ()
    assert any("no more characters than are known" in note for note in found.notes)
