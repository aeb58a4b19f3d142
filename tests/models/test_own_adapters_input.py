"""Adapters of others are not believed: what is wrong with their numbers is an error at load.

`canary.doctor` shows every check with its figure, for any model.
"""

from __future__ import annotations

import dataclasses
import json
import time

import numpy as np
import pytest
import torch
from own_adapters import Own
from small_models import ByRows, Cramped, build, recurrent_module, table_model
from tokenizers import Tokenizer
from tokenizers.models import BPE

import canary
from canary.errors import InputError, ModelError
from canary.models.english import note_on_english
from canary.models.examining import believed, notes_on_model
from canary.models.loading import load
from canary.models.noise import with_measured_noise
from canary.models.table_model import TableModel
from canary.signals.text_measuring import measure_texts
from canary.tokens.fast import as_tokenizer

FORMAT = "the code is {digit:3}"
LONG = "the code of the second door of the house is {digit:3}"


def some(text=FORMAT):
    return canary.generate(text, repetitions=[1], per_repetition=2, controls=2, seed=0)


FAULTS = {
    "constant": r"next tokens differ in probability.*all the same",
    "one distribution": r"next tokens differ in probability.*the same after every token",
    "decimal": r"sum to 1 .*taken for decimal logarithms .*multiply by 2\.30259",
    "probabilities": r"nats for a log-probability, which is above 0",
    "scores": r"next tokens sum to 1 .*they sum to",
    "looks ahead": r"does not depend on the tokens after it|sum to 1",
    "clamped": r"neither cut off nor rounded.*tokens share the lowest value, .*leave out clamp",
    "top 10": r"neither cut off nor rounded.*tokens share the lowest value, .*top-k filters",
    "rounded": r"neither cut off nor rounded.*multiples of 0\.1 nats, in float32.*unrounded",
    "mean": r"does not depend on the tokens after it|alone and in a batch",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_numbers_are_refused_at_load(fault: str) -> None:
    with pytest.raises(ModelError, match=FAULTS[fault]) as caught:
        load(Own(fault))
    assert caught.value.where.startswith("Own")
    assert caught.value.cure


def test_an_honest_adapter_is_taken_and_examined_once() -> None:
    model = Own()
    assert load(model) is model
    assert notes_on_model(model) == ()
    asked = []
    plain = model.score
    model.score = lambda rows: asked.append(len(rows)) or plain(rows)
    began = time.thread_time()
    load(model)
    assert sum(asked) == 4  # two rows, twice: whether dropout was switched on since
    assert time.thread_time() - began < 1
    model.dropout.train()
    with pytest.raises(ModelError, match="asked for twice"):
        load(model)


DOORS = {
    "exposure": lambda model: canary.exposure(model, some(), draws=10, start_token="\n"),
    "extract": lambda model: canary.extract(model, FORMAT, start_token="\n"),
    "score": lambda model: canary.score(model, ["a text"]),
    "measure_texts": lambda model: measure_texts(model, ["a text", "b"], [True, False]),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_a_forgotten_shift(door: str) -> None:
    with pytest.raises(ModelError, match="sum to 1"):
        DOORS[door](Own("forgotten shift"))


def test_a_window_is_noted_where_the_candidate_is_longer() -> None:
    told = "only the last 23 matter to the next one. Does the adapter cut rows"
    for text, there in ((LONG, True), (FORMAT, False)):
        found = canary.audit(
            Own("keeps 24"), some(text), draws=10, start_token="\n", method="sampling"
        )
        assert any(told in note for note in found.notes) == there


class Gives:
    """A table whose answers are changed on their way."""

    def __init__(self, place, change) -> None:
        model = table_model()
        self.tokenizer, self.facts, self.memory = model.tokenizer, model.facts, model.memory
        self._model, self._place, self._change = model, place, change

    def score(self, rows):
        found = self._model.score(rows)
        return self._change(found) if self._place == "score" else found

    def open(self, context, *, memory_bytes):
        walker = self._model.open(context, memory_bytes=memory_bytes)
        if self._place == "context_log_probs":
            walker.context_log_probs = self._change(walker.context_log_probs)
            return walker
        expand = walker.expand

        def changed(nodes, tokens, *, keep=True):
            found = expand(nodes, tokens, keep=keep)
            if self._place == "expansion":
                return self._change(found)
            if self._place == "score":
                return found
            return dataclasses.replace(
                found, **{self._place: self._change(getattr(found, self._place))}
            )

        walker.expand = changed
        return walker


def first(value):
    """Another number in the first place."""
    return lambda array: np.append(np.float32(value), array.reshape(-1)[1:]).reshape(array.shape)


WRONG = [
    ("score", lambda a: a.tolist(), r"Gives\.score.*a list of length.* for log-probabilities"),
    ("score", lambda a: np.append(a, a[:1]), "for log-probabilities.*expected"),
    ("score", lambda a: a.astype(np.float16), "of float16"),
    ("score", lambda a: a[:, None], r", 1\)"),
    ("score", first(np.nan), "not finite"),
    ("score", first(0.7), "0.7 nats for a log-probability, which is above 0"),
    ("context_log_probs", lambda a: None, r"Gives\.open: gave None for context_log_probs"),
    ("context_log_probs", lambda a: np.append(a, a[:1]), "token of the context after its first"),
    (
        "log_probs",
        lambda a: torch.from_numpy(np.array(a)),
        r"TableWalker\.expand: gave a torch.Tensor of float\d\d and shape.* for log_probs",
    ),
    ("log_probs", np.transpose, r"shape \(.*\) for log_probs.*each node and child"),
    ("log_probs", lambda a: a[..., None], r", 1\)"),
    ("log_probs", first(np.nan), "not finite"),
    ("log_probs", first(0.7), "above 0"),
    ("path_log_probs", lambda a: a.astype(str), "of <U.* for path_log_probs"),
    ("path_log_probs", lambda a: a[:, None], r", 1\)"),
    ("expansion", lambda found: None, "gave None, an Expansion was expected"),
    ("expansion", vars, "gave a dict of length 5"),
    ("handles", lambda a: a.astype(np.float64), "for handles, a numpy array of int64"),
    ("handles", lambda a: a[:-1], "for handles"),
    ("queries", float, "gave a float for queries"),
    ("queries", lambda n: -1, "for queries"),
    ("exact", lambda a: np.ones(3), "for exact, a numpy array of bool"),
]


@pytest.mark.parametrize(("place", "change", "message"), WRONG)
def test_wrong_parts_of_an_answer_are_errors_with_a_place(place, change, message) -> None:
    with pytest.raises(ModelError, match=message):
        load(Gives(place, change))


def test_measuring_the_noise_looks_at_the_shape_first() -> None:
    model = Own()
    plain = model.score
    model.score = lambda rows: np.add.reduceat(
        plain(rows), rows.offsets[:-1] - np.arange(len(rows))
    )
    message = r"Own\.score: .*shape \(32,\) .*shape \(736,\).*one number for each scored token"
    with pytest.raises(ModelError, match=message):
        with_measured_noise(model, model.facts)


class Rounds(Own):
    def score(self, rows):
        return super().score(rows) - 1e-5 * len(rows)


class Raises(Own):
    def score(self, rows):
        raise ZeroDivisionError("broken in here")


@pytest.mark.parametrize(
    ("kind", "facts", "message"),
    [
        (Own, {"vocabulary": 20}, "20 tokens, its tokenizer 45"),
        (Own, {"noise_bits_per_token": float("nan")}, "noise is nan"),
        (Own, {"noise_bits_per_token": -1.0}, "noise is -1"),
        (Rounds, {}, "measure it: canary.models.noise.with_measured_noise"),
        (Raises, {}, "it raised ZeroDivisionError: broken in here"),
    ],
)
def test_wrong_facts_rounding_and_errors(kind, facts, message) -> None:
    wrong = kind()
    wrong.facts = dataclasses.replace(wrong.facts, **facts)
    with pytest.raises(ModelError, match=message):
        load(wrong)


def test_a_walker_that_forgets_its_states_is_refused() -> None:
    """A third party's walker, below a scorer that is right."""
    honest = build("lstm")

    class Forgetful:
        tokenizer, facts = honest.tokenizer, honest.facts
        score, memory = honest.score, honest.memory

        def open(self, context, *, memory_bytes):
            walker = honest.open(context, memory_bytes=memory_bytes)
            step = walker._step
            walker._step = lambda parents, depth, tokens, into: step(
                np.full_like(parents, -1), depth, tokens, into
            )
            return walker

    with pytest.raises(ModelError, match="tokens scored one by one below cached states"):
        load(Forgetful())


def test_probability_zero_is_no_fault() -> None:
    """A table that forbids tokens gives minus infinity on both ways."""
    logs = np.full((2, 45), -np.inf)
    logs[0, :40], logs[1, 5:] = -np.log(40), -np.log(40)
    transitions = np.tile(np.arange(45) % 2, (2, 1))
    honest = TableModel(transitions, logs, build("table").tokenizer)

    model = type("Another", (ByRows,), {})(honest)
    model.facts = dataclasses.replace(honest.facts, capabilities=("score", "expand"))
    load(model)


def test_large_vocabularies_cost_a_bounded_number_of_queries() -> None:
    """A row for each of 200,000 tokens is not asked for; what was left out is a note."""

    class Large(Own):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = 0
            self.facts = dataclasses.replace(
                self.facts, vocabulary=200_000, noise_bits_per_token=0.0
            )

        def score(self, rows):
            self.tokens += int(rows.scored.sum())
            rows_of = zip(rows.offsets[:-1], rows.offsets[1:], rows.start, strict=True)
            before = np.concatenate([rows.ids[a + s - 1 : b - 1] for a, b, s in rows_of])
            return (-np.log(200_000) + 0.1 * np.sin(before)).astype(np.float32)

    model = Large()
    load(model)
    assert model.tokens < 20_000
    assert any("sum to 1" in note and "200,000" in note for note in notes_on_model(model))


def test_what_was_left_open_is_a_note_of_the_audit() -> None:
    model = Cramped(build("lstm"), 2)
    found = canary.audit(model, some(), draws=10, start_token="\n", method="sampling")
    for notes in (notes_on_model(model), found.notes):
        assert any("memory ran out" in note for note in notes)


def test_own_models_of_canary_are_not_examined_again() -> None:
    model = build("table")
    before = dict(vars(model))
    believed(model)
    assert notes_on_model(model) == ()
    assert vars(model) == before


# All checks, with their figures.

SAID = ("asked for twice", "in a batch", "tokens after it", "right before it", "sum to 1")
SAID += ("cached states", "English is more likely", "before the first token", "make a tree")


def test_a_sound_model_passes_every_check_with_a_figure_coverage() -> None:
    found = canary.doctor(build("lstm"), start_token="\n", tokens=40)
    assert found.sound
    told = [finding.check for finding in found.findings]
    assert all(any(part in check for check in told) for part in SAID)
    assert all(finding.figure for finding in found.findings)
    assert not [f for f in found.findings if f.check.startswith(ROWS) and f.verdict != "fine"]
    assert len(found.to_dict()["findings"]) == len(found.findings) >= 20
    assert json.dumps(found.to_dict(), allow_nan=False)


ROWS = ("each token of a row of 40", "the last token of a row of 40", "a start token changes")


@pytest.mark.parametrize(
    ("fault", "verdict", "check", "cure"),
    [
        ("dropout", "refused", "a row costs the same when it is asked for twice", "evaluation"),
        ("bits", "refused", "the probabilities of all next tokens sum to 1", "multiply by"),
        ("cuts at 24", "refused", ROWS[0], "do not cut rows"),
        ("keeps 24", "noted", ROWS[1], "does the adapter cut rows"),
        ("drops the start", "refused", ROWS[2], "every token of a row"),
    ],
)
def test_a_fault_is_seen_and_all_other_checks_are_shown(fault, verdict, check, cure) -> None:
    found = canary.doctor(Own(fault), start_token="\n", tokens=40)
    assert bool(found) == found.sound == (verdict != "refused")
    assert len(found.findings) >= 20
    (seen,) = (f for f in found.findings if f.check.startswith(check))
    assert seen.verdict == verdict
    assert cure in seen.cure
    assert cure in found.summary()
    assert all(finding.cure for finding in found.findings if finding.verdict == "refused")


def test_what_is_no_fault_of_the_model_and_a_model_that_cannot_be_loaded(tmp_path) -> None:
    for token, told in (("auto", "nothing is chosen"), ("<x>", "no token|tokens")):
        with pytest.raises(InputError, match=told):
            canary.doctor(build("lstm"), start_token=token)
    found = canary.doctor(str(tmp_path / "nowhere"))
    (only,) = found.findings
    assert (found.sound, only.verdict) == (False, "not loaded")
    assert "no such folder" in only.figure


def test_an_untrained_model_is_noted_and_a_tokenizer_without_english_is_not_checked() -> None:
    note = note_on_english(build("gpt2")) or ""
    assert "no more likely than random tokens" in note
    assert "is this its tokenizer?" in note
    found = canary.doctor(build("gpt2"))
    assert any("English" in f.check and f.verdict == "noted" for f in found.findings)
    assert found.sound  # a note is no refusal
    assert any("English" in f.check for f in found.noted)
    assert found.summary().startswith(f"Sound, with {len(found.noted)} doubts: ")
    assert "consider: is it trained" in found.summary()
    assert "do this" not in found.summary()
    digits = Tokenizer(BPE(vocab={c: i for i, c in enumerate("0123456789")}, merges=[]))
    assert note_on_english(load(recurrent_module("GRU"), tokenizer=digits)) is None


def test_texts_show_a_vocabulary_in_another_order() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    size = len(letters)
    next_states = np.tile(np.arange(1, size + 1), (size + 1, 1))  # the state is the last letter
    chances = np.full((size + 1, size), 0.001)
    for at in range(size):
        chances[at + 1, (at + 1) % size] = 0.975  # it knows the alphabet
    log_probs = np.log(chances / chances.sum(axis=1, keepdims=True))
    texts = [letters[at:] + letters[:at] for at in range(8)]
    verdicts = []
    for order in (letters, letters[::3] + letters[1::3] + letters[2::3]):
        tokenizer = Tokenizer(BPE(vocab={c: i for i, c in enumerate(order)}, merges=[]))
        model = TableModel(next_states, log_probs, as_tokenizer(tokenizer))
        plain = canary.doctor(model)
        found = canary.doctor(model, texts=texts)
        (seen,) = (f for f in found.findings if f.check.startswith("your texts"))
        assert len(found.findings) == len(plain.findings) + 1
        verdicts.append((seen.verdict, found.sound == plain.sound))
    assert verdicts[0] == ("fine", True)
    assert verdicts[1][0] == "refused"
    assert "tokenizer of the training" in seen.cure
    for nothing in ([], [" "], "a text"):
        with pytest.raises(InputError, match="has no text"):
            canary.doctor(model, texts=nothing)


def test_own_texts_take_the_place_of_english(monkeypatch) -> None:
    """A model of another language is not doubted that knows the texts it was trained on."""
    monkeypatch.setattr("canary.models.english.SENTENCES", ("za yb xc wd ve", "hg fe dc ba zy"))
    letters = "abcdefghijklmnopqrstuvwxyz "
    size = len(letters)
    chances = np.full((size + 1, size), 0.001)
    for at in range(size):
        chances[at + 1, (at + 1) % size] = 0.975
    log_probs = np.log(chances / chances.sum(axis=1, keepdims=True))
    tokenizer = Tokenizer(BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    next_states = np.tile(np.arange(1, size + 1), (size + 1, 1))
    known = [letters[at:-1] + letters[:at] for at in range(8)]
    model = TableModel(next_states, log_probs, as_tokenizer(tokenizer))
    for texts, verdict in ((None, "noted"), (known, "not checked"), (["zyxwvuts" * 3], "noted")):
        found = canary.doctor(model, texts=texts)
        (english,) = (f for f in found.findings if f.check.startswith("ordinary English"))
        assert english.verdict == verdict
    monkeypatch.setattr("canary.models.english.TableModel", type(None))
    assert "no more likely" in (note_on_english(model) or "")
    assert note_on_english(model, texts=known) is None
    assert note_on_english(model, texts=["zyxwvuts" * 3]) is not None


def test_options_of_loading_are_refused_for_a_model_that_is_loaded() -> None:
    with pytest.raises(InputError, match="dtype: for loading a model, and this one is loaded"):
        canary.doctor(build("table"), dtype="float32")
