"""Proven candidates are held against whole rows: a wrong tree is not believed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from small_models import CHARACTERS

from canary.audits.extracting import extract
from canary.errors import ModelError
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.tokens import rules
from canary.tokens.fast import as_tokenizer

FORMAT = "a {choice:s|z}ecr{choice:et|it}."


def memorizing(text: str) -> TableModel:
    """A model that knows `text` letter by letter, with a tokenizer that has SECRET whole."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers

    backend = Tokenizer(models.BPE(vocab={c: k for k, c in enumerate(CHARACTERS)}, merges=[]))
    backend.normalizer = normalizers.Lowercase()
    backend.add_tokens([AddedToken("SECRET", normalized=True)])
    tokenizer = as_tokenizer(backend)
    tables = {(): np.full(tokenizer.size, -np.log(tokenizer.size))}
    ids = [CHARACTERS.index(c) for c in text]
    for k in range(1, len(ids)):
        row = np.full(tokenizer.size, 1e-6)
        row[ids[k]] = 1 - 1e-6 * (tokenizer.size - 1)
        tables[tuple(ids[:k])] = np.log(row)
    return TableModel.ngram(tables, tokenizer)


def test_a_candidate_that_costs_something_else_as_a_whole_row_is_not_proven(monkeypatch) -> None:
    """With a rule of the tokenizer left out its tree holds a row that is not canonical."""
    model = memorizing("a secret.")
    assert extract(model, FORMAT).candidates[0].px_bits > 10.0
    monkeypatch.setattr(rules, "find_cuts", lambda *_args, **_options: [])
    monkeypatch.setattr("canary.tokens.tree._some_fills", lambda *_: ["zecrit"])
    with pytest.raises(ModelError, match="bits more or less below cached states than as a whole"):
        extract(model, FORMAT)


def test_whole_rows_are_counted_and_keep_to_the_budget(monkeypatch) -> None:
    model = memorizing("a zecrit.")
    rows = []
    score = Batcher.score
    monkeypatch.setattr(
        Batcher, "score", lambda self, some, **how: rows.append(len(some)) or score(self, some)
    )
    found = extract(model, FORMAT, top=4, start_token=None)
    assert found.proven
    assert rows == [4]
    assert rows.pop() == 4
    tight = extract(model, FORMAT, top=4, budget=found.queries - 1, start_token=None)
    assert tight.queries < found.queries
    assert tight.proven
    assert rows != [4]
    assert [c.px_bits for c in tight.candidates] == [c.px_bits for c in found.candidates]
    spent = found.queries - 4 * (len("a zecrit.") - len("a "))
    bare = extract(model, FORMAT, top=4, budget=spent + 3, start_token=None)
    assert bare.queries <= spent
    assert any("no candidate to be scored as a whole row" in note for note in bare.notes)
    assert not any("whole row" in note for note in (*found.notes, *tight.notes))


def test_an_interruption_of_the_comparison_keeps_what_was_found_degenerate(monkeypatch) -> None:
    def stopping(*_arguments, **_how):
        raise KeyboardInterrupt

    model = memorizing("a zecrit.")
    whole = extract(model, FORMAT, start_token=None)
    monkeypatch.setattr(Batcher, "score", stopping)
    found = extract(model, FORMAT, start_token=None)
    assert found.stopped == "interrupted"
    assert found.candidates == whole.candidates


def test_a_model_that_cannot_price_rows_is_not_asked_to(monkeypatch) -> None:
    model = memorizing("a zecrit.")
    model.facts = dataclasses.replace(model.facts, capabilities=("expand",))
    monkeypatch.delattr(Batcher, "score")
    assert extract(model, FORMAT, start_token=None).proven
