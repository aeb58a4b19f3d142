"""Faults that reviewers found, each kept from coming back."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from small_models import CHARACTERS, build, causal_module, character_tokenizer

from canary.audits.auditing import audit
from canary.corpus.canaries import generate
from canary.errors import InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import Context
from canary.models.loading import load
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.scoring.texts import score
from canary.search.enumerate import leaf_costs
from canary.search.pricing import Pricer
from canary.search.ranking import rank_all
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree


def canary_set(text: str = "The {digit:3}", **options):
    return generate(text, repetitions=[1], per_repetition=3, controls=3, seed=1, **options)


def test_bounds_are_not_taken_for_probabilities() -> None:
    """A walker that marks anything as a bound cannot be enumerated."""
    model = build("table")

    class Bounded:
        tokenizer, facts = model.tokenizer, model.facts
        score, memory = model.score, model.memory

        def open(self, context, *, memory_bytes):
            walker = model.open(context, memory_bytes=memory_bytes)
            expand = walker.expand

            def bounded(nodes, tokens, *, keep=True):
                found = expand(nodes, tokens, keep=keep)
                exact = np.ones(found.log_probs.shape, bool)
                exact.reshape(-1)[-1] = False
                return dataclasses.replace(found, exact=exact)

            walker.expand = bounded
            return walker

    with pytest.raises(UnsupportedError, match="bounds for some tokens"):
        audit(Bounded(), canary_set())


def test_states_that_do_not_carry_are_caught_on_the_canaries() -> None:
    """Even where random tokens do not show it: walk and whole row must agree on each."""
    model = build("lstm")

    class Forgetful:
        tokenizer, facts = model.tokenizer, model.facts
        score, memory = model.score, model.memory

        def open(self, context, *, memory_bytes):
            kept = context.ids[-1:] if len(context.ids) > 6 else context.ids  # checks are shorter
            return model.open(Context(kept), memory_bytes=memory_bytes)

    canaries = canary_set("The code is {digit:3}")
    with pytest.raises(ModelError, match="below cached states than as a whole row"):
        audit(Forgetful(), canaries)
    drawn = audit(Forgetful(), canaries, method="sampling", draws=50)
    assert "whole rows were scored, for the model" in drawn.formats[0].reason
    fills = [canary.fill for canary in canaries.canaries]
    alike = score(model, [f"The code is {fill}" for fill in fills])
    np.testing.assert_allclose([c.px_bits for c in drawn.canaries], alike, atol=1e-3)


def test_the_budget_holds_for_models_without_reuse() -> None:
    """Without cached states there are no cheap siblings: rows are what it costs."""
    canaries = canary_set("The {digit:2}")
    found = audit(build("by_rows"), canaries, budget=250).formats[0]
    assert found.method == "enumeration"
    assert "row by row" in found.reason
    assert found.queries <= 250 + 2 * len(canaries.canaries)
    drawn = audit(build("by_rows"), canaries, budget=150, draws=99).formats[0]
    assert drawn.method == "uniform draws"
    with pytest.raises(InputError, match='or use method="sampling"') as refused:
        audit(build("by_rows"), canaries, method="enumeration", budget=150)
    assert "rank" not in str(refused.value)  # which this model cannot do
    with pytest.raises(InputError, match='"sampling" or "rank"'):
        audit(build("table"), canary_set("The {digit:3}"), method="enumeration", budget=50)


def test_a_long_context_costs_no_queries() -> None:
    few = generate("a {choice:b|bc|d}.", repetitions=[1], per_repetition=1, controls=1, seed=0)
    found = audit(build("table"), few, budget=12, context="abc " * 100).formats[0]
    assert found.method == "enumeration"


def test_many_canaries_do_not_make_batches_small() -> None:
    """5,000 canaries on a model that takes 64 nodes at once: the walk keeps 64."""
    model = build("table")
    tree = compile_tree(Format("a{digit:8}"), CandidateEncoder(model.tokenizer))
    batcher = Batcher(model)
    sizes = []
    with model.open(Context(tree.context), memory_bytes=2**22) as walker:
        expand = walker.expand

        def counted(nodes, tokens, *, keep=True):
            sizes.append(len(nodes))
            return expand(nodes, tokens, keep=keep)

        walker.expand = counted
        leaf_costs(tree, walker, batcher, np.arange(0, 10**8, 20_000))
    assert max(sizes) <= 4096
    assert len(sizes) > 8


def test_a_context_takes_part_in_the_certificate() -> None:
    """An added token that only the context begins can swallow part of the fill."""
    tokenizer = character_tokenizer()
    tokenizer.add_tokens(["x1234567"])
    seam = as_tokenizer(tokenizer)
    format = Format("{digit:9}")
    assert compile_tree(format, CandidateEncoder(seam, context="ab")).certificate.startswith("cert")
    with pytest.raises(UnsupportedError, match="an added token"):
        compile_tree(format, CandidateEncoder(seam, context="abx"))


def test_a_token_that_is_a_canary_is_not_walked_past() -> None:
    """The canaries' own fills are among those against which the tree is checked."""
    canaries = generate("a{digit:4}", repetitions=[1], per_repetition=1, controls=0, seed=3)
    tokenizer = character_tokenizer()
    tokenizer.add_tokens([canaries.canaries[0].fill])
    seam = as_tokenizer(tokenizer)
    logs = np.full((1, seam.size), -4.0)
    logs[0, len(CHARACTERS) :] = -9.0
    table = TableModel(np.zeros((1, seam.size)), logs, seam)
    (result,) = audit(table, canaries, budget=10**6).canaries
    assert result.exposure.rank == 1  # one token of -9 nats beats four of -4


def test_random_merges_of_training_are_switched_off() -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    vocabulary = {c: i for i, c in enumerate(CHARACTERS)}
    backend = Tokenizer(BPE({**vocabulary, "12": 45}, [("1", "2")], dropout=0.5))
    seam = as_tokenizer(backend)
    assert {e.ids for e in seam.encode(["12"] * 50)} == {(45,)}


def test_a_tokenizer_that_makes_fills_alike_is_refused() -> None:
    from tokenizers import Regex, normalizers

    tokenizer = character_tokenizer()
    tokenizer.normalizer = normalizers.Replace(Regex("[0-9]"), "0")
    model = load(causal_module("gpt2"), tokenizer=tokenizer)
    with pytest.raises(ModelError, match="different fills"):
        audit(model, canary_set())


def test_a_start_token_that_is_there_already_is_refused() -> None:
    from tokenizers import processors

    tokenizer = character_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="\n $A", special_tokens=[("\n", tokenizer.token_to_id("\n"))]
    )
    with pytest.raises(InputError, match="be there twice"):
        CandidateEncoder(as_tokenizer(tokenizer), "\n").encode(["ab"])
    assert CandidateEncoder(as_tokenizer(tokenizer), "A").encode(["b"])


def test_token_ids_may_have_gaps() -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    backend = Tokenizer(BPE({"a": 0, "b": 500}, []))
    assert as_tokenizer(backend).size == 501


def test_a_canary_of_probability_0_is_refused_before_the_walk() -> None:
    model = build("table")
    logs = np.full((1, model.facts.vocabulary), -4.0)
    logs[0, model.tokenizer.token_id("7")] = -np.inf
    table = TableModel(np.zeros((1, model.facts.vocabulary)), logs, model.tokenizer)
    canaries = canary_set("The {digit:4}")
    assert any("7" in c.fill for c in canaries)
    for method in ("enumeration", "sampling"):
        with pytest.raises(ModelError, match="probability 0"):
            audit(table, canaries, method=method)
    possible = generate(
        "The {choice:11|17|23}", repetitions=[1], per_repetition=1, seed=0, controls=0
    )
    fill = possible.canaries[0].fill
    if "7" not in fill:
        assert audit(table, possible, method="sampling").canaries[0].exposure.rank == 2


def test_a_missing_start_token_is_told() -> None:
    model = build("table")
    bare = audit(model, canary_set(), start_token=None)
    assert "No start token was put before each candidate, as you asked" in bare.notes[0]
    assert bare.notes == (*bare.start.notes, *bare.formats[0].notes)
    assert f"note: {bare.notes[0]}" in bare.summary()
    told = audit(model, canary_set(), start_token="\n")
    assert told.formats[0].notes == ()
    assert told.notes == ()
    (note,) = told.start.notes
    assert "as you asked. The canaries are not more exposed after other beginnings" in note


def test_a_tokenizer_that_saw_the_canaries_is_told() -> None:
    """Merges learned on the canaries make them fewer tokens than anything else."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    canaries = generate("a{digit:8}", repetitions=[1], per_repetition=2, controls=2, seed=0)
    vocabulary = {c: i for i, c in enumerate(CHARACTERS)}
    merges = []
    for canary in canaries.injected:
        whole = canary.fill[0]
        for character in canary.fill[1:]:
            merges.append((whole, character))
            whole += character
            vocabulary.setdefault(whole, len(vocabulary))
    seam = as_tokenizer(Tokenizer(BPE(vocabulary, list(dict.fromkeys(merges)))))
    flat = np.full((1, seam.size), -np.log(seam.size))
    model = TableModel(np.zeros((1, seam.size)), flat, seam)
    found = audit(model, canaries, method="sampling", draws=500, start_token="\n")
    assert any("tokenizer was trained on them" in note for note in found.formats[0].notes)
    assert found.injected_p.p_value < 1e-3  # which is why it must be told


def test_ranking_needs_no_more_than_it_says() -> None:
    """Queries of an enumeration: the tree's, and two passes over each canary."""
    model = build("table")
    format = Format("a{digit:3}")
    encoder = CandidateEncoder(model.tokenizer)
    tree = compile_tree(format, encoder)
    found = rank_all(Pricer(model, format, encoder, tree), Batcher(model), ["123"])
    assert found.queries == tree.queries() + 2 + 3
