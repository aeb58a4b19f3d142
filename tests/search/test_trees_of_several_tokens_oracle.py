"""Walks over trees whose tokens are several characters long, against whole rows."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from trained import KINDS, trained

import canary
from canary.audits.completing import completions
from canary.formats.format import Format
from canary.models.language_model import Context, Rows
from canary.models.loading import load
from canary.scoring.batcher import Batcher, row_sums
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.search.pricing import Pricer
from canary.search.ranking import rank_all, rank_by_importance
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree

FORMATS = ["The code is {digit:3}", "mail {digit:1}-{digit:2}.", "is{choice: 28| 5| 123| a|b}."]


@functools.cache
def tiny_gpt2(name: str):
    """A GPT-2 with random weights, large enough that costs differ."""
    import torch
    import transformers

    backend = trained(name)
    size = as_tokenizer(backend).size
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=64,
        vocab_size=size,
        bos_token_id=None,
        eos_token_id=None,
    )
    module = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    return load(module.eval(), tokenizer=backend)


@pytest.mark.parametrize("text", FORMATS)
@pytest.mark.parametrize("name", ["llama3", "unigram"])
def test_enumeration_by_tree_is_that_by_rows(name: str, text: str) -> None:
    model, format = tiny_gpt2(name), Format(text)
    encoder = CandidateEncoder(model.tokenizer)
    tree = compile_tree(format, encoder)
    fills = list(format)
    rows = Rows.of([e.ids for e in encoder.candidates(format, fills)])
    wanted = dict(zip(fills, -row_sums(model.score(rows), rows), strict=True))
    noise = model.facts.noise_bits(int(rows.lengths.max())) * np.log(2)
    found: dict[str, float] = {}
    queries = 0
    batcher = Batcher(model, batch_size=37)
    with model.open(Context(tree.context), memory_bytes=2**24) as walker:
        for leaves, spent in enumerate_leaves(tree, walker, batcher):
            for fill, cost in zip(tree.fills(leaves.index()), leaves.costs, strict=True):
                assert fill is not None
                assert fill not in found
                found[fill] = float(cost)
            queries += spent
        some = tree.numbers([e.ids for e in encoder.candidates(format, fills[::7])])
        along, _ = leaf_costs(tree, walker, batcher, some)
    assert found.keys() == wanted.keys()
    difference = [found[fill] - wanted[fill] for fill in fills]
    np.testing.assert_allclose(difference, 0, atol=noise)
    np.testing.assert_allclose(along, [wanted[fill] for fill in fills[::7]], atol=noise)
    assert queries == tree.queries()


def test_ranks_by_tree_are_those_by_rows() -> None:
    """The canary is known by its leaf, and the draws that are kept by theirs."""
    model, format = tiny_gpt2("gpt2"), Format(FORMATS[0])
    encoder = CandidateEncoder(model.tokenizer)
    tree, fills = compile_tree(format, encoder), ["007", "123", "999"]
    keep = np.array([0, 17, 18, 500, 998])
    noise = model.facts.noise_bits(24)
    with Pricer(model, format, encoder, tree, noise) as pricer:
        by_tree = rank_all(pricer, Batcher(model), fills, keep=keep)
    by_rows = rank_all(
        Pricer(model, format, encoder, None, noise), Batcher(model), fills, keep=keep
    )
    assert by_tree.census.candidates == by_rows.census.candidates == format.size
    np.testing.assert_allclose(by_tree.census.kept_bits, by_rows.census.kept_bits, atol=noise)
    assert (by_tree.census.lower <= by_rows.census.rank).all()
    assert (by_rows.census.rank <= by_tree.census.upper).all()
    np.testing.assert_allclose(by_tree.canaries.px_bits, by_rows.canaries.px_bits, atol=noise)
    assert by_tree.queries < by_rows.queries / 2


def test_an_audit_chooses_the_tree_where_tokens_join_characters() -> None:
    model = tiny_gpt2("gpt2")
    canaries = canary.generate([Format(FORMATS[0])], repetitions=[1], per_repetition=3, seed=1)
    found = canary.audit(model, canaries, budget=10_000, seed=0)
    (about,) = found.formats
    assert about.method == "enumeration"
    assert "row by row" not in about.reason
    assert about.certificate.startswith("certified")
    assert about.candidates == 1_000


def test_ties_are_walked_once_each() -> None:
    """A tree that holds ways to cut a text that are no tokenizations of it."""
    from tokenizers import Tokenizer
    from tokenizers.models import Unigram

    from canary.models.table_model import TableModel

    pieces = [("<s>", 0.0), ("a", -1.0), ("b", -2.0), ("ab", -3.0), ("!", -1.0)]
    tokenizer = as_tokenizer(Tokenizer(Unigram(pieces, 0)))
    rng = np.random.default_rng(0)
    tables = {(): np.log(rng.dirichlet(np.ones(5))), (1,): np.log(rng.dirichlet(np.ones(5)))}
    model = TableModel.ngram(tables, tokenizer)
    format, encoder = Format("!{re:[ab]{4}}!"), CandidateEncoder(tokenizer)
    tree = compile_tree(format, encoder)
    assert tree.size > format.size
    fills = list(format)
    found, by_rows = (
        rank_all(Pricer(model, format, encoder, t), Batcher(model), fills) for t in (tree, None)
    )
    assert found.census.candidates == format.size
    np.testing.assert_array_equal(found.census.rank, by_rows.census.rank)


@functools.cache
def by_rows(name: str, text: str) -> tuple[dict[str, float], float]:
    """The cost of every candidate as a whole row, in bits, and the noise."""
    model, format = tiny_gpt2(name), Format(text)
    rows = Rows.of([e.ids for e in CandidateEncoder(model.tokenizer).candidates(format, format)])
    costs = -row_sums(model.score(rows), rows) / np.log(2)
    noise = model.facts.noise_bits(int(rows.lengths.max()))
    return dict(zip(format, costs.tolist(), strict=True)), noise


@pytest.mark.parametrize("name", KINDS)
def test_other_walks_over_every_kind_of_tree_are_those_by_rows(name: str) -> None:
    """Extraction, completion, and importance draws that hold the whole tree or little of it."""
    model, text = tiny_gpt2(name), "The code is {re:[0-4][0-9]{2}}."
    costs, noise = by_rows(name, text)
    ordered = sorted(costs, key=costs.__getitem__)
    format, order = Format(text), sorted(costs.values())
    found = canary.extract(model, format, top=5, budget=10_000)
    assert found.proven
    shown = [costs[candidate.fill] for candidate in found.candidates]
    np.testing.assert_allclose(shown, order[:5], atol=2 * noise)

    secrets = {fill: fill for fill in (ordered[0], ordered[250], ordered[-1])}
    for made in completions(model, format, secrets, known=1, beam=100):
        alike = [fill for fill in costs if fill[0] == made.secret[0]]
        if made.beam != (costs[made.secret] == min(costs[fill] for fill in alike)):
            near = sorted(costs[fill] for fill in alike)[:2]
            assert near[1] - near[0] <= 2 * noise

    encoder = CandidateEncoder(model.tokenizer)
    tree, batcher = compile_tree(format, encoder), Batcher(model)
    fills = [ordered[0], ordered[9], ordered[400]]
    rng = np.random.default_rng(0)
    with Pricer(model, format, encoder, tree, noise, memory_bytes=2**24) as pricer:
        whole, little = (
            rank_by_importance(pricer, batcher, fills, width=width, rng=rng)
            for width in (10_000, 240)
        )
    for fill, exact, drawn in zip(fills, whole.counts, little.counts, strict=True):
        least = 1 + sum(cost < costs[fill] - 3 * noise for cost in costs.values())
        most = sum(cost <= costs[fill] + 3 * noise for cost in costs.values())
        low, high = exact.interval(0.95)
        assert least <= low <= high <= most
        drawn_ends = drawn.interval(0.9999)
        assert drawn_ends is not None
        for low, high in (drawn.certain, drawn_ends):
            assert low <= most
            assert least <= high


@pytest.mark.parametrize("name", ["gpt2", "unigram"])
def test_rank_and_extraction_agree_with_rows(name: str) -> None:
    """Other walks over the same trees, by what users call."""
    model, format = tiny_gpt2(name), Format(FORMATS[0])
    fills = list(format)
    rows = Rows.of([e.ids for e in CandidateEncoder(model.tokenizer).candidates(format, fills)])
    costs = -row_sums(model.score(rows), rows)
    noise = model.facts.noise_bits(int(rows.lengths.max())) * np.log(2)
    found = canary.extract(model, format, top=5, budget=10_000)
    assert found.proven
    best = [costs[fills.index(candidate.fill)] for candidate in found.candidates]
    np.testing.assert_allclose(best, np.sort(costs)[:5], atol=noise)
    canaries = canary.CanarySet.from_fills(format, [found.candidates[0].fill, "123"])
    for result, fill in zip(
        canary.exposure(model, canaries, method="rank", budget=10_000),
        (c.fill for c in canaries),
        strict=True,
    ):
        rank = int((costs <= costs[fills.index(fill)]).sum())
        bits = np.log2(format.size)
        assert result.exposure.lower_bits - 1e-9 <= bits - np.log2(rank)
        assert bits - np.log2(rank) <= result.exposure.upper_bits + 1e-9
