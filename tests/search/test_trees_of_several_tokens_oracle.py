"""Walks over trees whose tokens are several characters long, against whole rows."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from trained import trained
from walk_cases import Case, tied_tokenizer

import canary
from canary.audits.completing import completions
from canary.formats.format import Format
from canary.models.loading import load
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.search.pricing import Pricer
from canary.search.ranking import rank_all, rank_by_importance
from canary.tokens.fast import as_tokenizer

CODES = "The code is {re:[0-2][0-9]{2}}."
TREES = [
    ("gpt2", CODES),
    ("llama3", "mail {digit:1}-{digit:2}."),
    ("llama3", CODES),
    ("llama2", "is{choice: 28| 5| 123| a|b}."),
    ("sentencepiece bpe, digits", CODES),
    ("unigram", CODES),
    ("wordpiece", "mail {re:[0-2]}-{digit:2}."),
    ("words", CODES),
]


@functools.cache
def tiny_gpt2(name: str):
    """A GPT-2 with random weights, large enough that costs differ."""
    import torch
    import transformers

    backend = trained(name)
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=64,
        vocab_size=as_tokenizer(backend).size,
        bos_token_id=None,
        eos_token_id=None,
    )
    module = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    return load(module.eval(), tokenizer=backend)


@functools.cache
def case_of(name: str, text: str) -> tuple[Case, list[str], dict[str, float]]:
    """The case, its fills by their costs, and those, as whole rows."""
    case = Case(tiny_gpt2(name), text)
    costs = dict(zip(case.format, case.costs.tolist(), strict=True))
    return case, sorted(costs, key=costs.__getitem__), costs


@pytest.mark.parametrize(("name", "text"), TREES)
def test_enumeration_by_tree_is_that_by_rows(name: str, text: str) -> None:
    case, _, wanted = case_of(name, text)
    tree, batcher, fills = case.tree, Batcher(case.model, batch_size=37), list(case.format)
    found: dict[str, float] = {}
    queries = 0
    with case.open() as walker:
        for leaves, spent in enumerate_leaves(tree, walker, batcher):
            for fill, cost in zip(tree.fills(leaves.index()), leaves.costs, strict=True):
                assert fill is not None
                assert fill not in found
                found[fill] = float(cost)
            queries += spent
        some = case.encoder.candidates(case.format, fills[::7])
        along, *_ = leaf_costs(tree, walker, batcher, tree.numbers([e.ids for e in some]))
    assert found.keys() == wanted.keys()
    difference = [found[fill] - wanted[fill] for fill in fills]
    np.testing.assert_allclose(difference, 0, atol=case.noise)
    np.testing.assert_allclose(along, [wanted[fill] for fill in fills[::7]], atol=case.noise)
    assert queries == tree.queries()


@pytest.mark.parametrize(("name", "text"), TREES)
def test_other_walks_are_those_by_rows(name: str, text: str) -> None:
    """Extraction, completion, rank, and draws that hold the whole tree or little of it."""
    case, ordered, costs = case_of(name, text)
    model, format, noise = case.model, case.format, case.noise
    found = canary.extract(model, format, top=5, budget=10_000)
    assert found.proven
    shown = [costs[candidate.fill] for candidate in found.candidates]
    np.testing.assert_allclose(shown, np.sort(case.costs)[:5], atol=2 * noise)

    fills = list(dict.fromkeys([ordered[0], ordered[len(ordered) // 3], ordered[-1]]))
    known = min(1, min(map(len, fills)) - 1)
    for made in completions(model, format, {f: f for f in fills}, known=known, beam=100):
        alike = [fill for fill in costs if fill[:known] == made.secret[:known]]
        if made.beam != (costs[made.secret] == min(costs[fill] for fill in alike)):
            near = sorted(costs[fill] for fill in alike)[:2]
            assert near[1] - near[0] <= 2 * noise

    rng = np.random.default_rng(0)
    with Pricer(model, format, case.encoder, case.tree, noise, memory_bytes=2**24) as pricer:
        whole, little = (
            rank_by_importance(pricer, Batcher(model), fills, width=width, rng=rng)
            for width in (10_000, 240)
        )
    canaries = canary.CanarySet.from_fills(format, fills)
    exposures = canary.exposure(model, canaries, method="rank", budget=10_000)
    for number, fill in enumerate(fills):
        least = 1 + sum(cost < costs[fill] - 3 * noise for cost in costs.values())
        most = sum(cost <= costs[fill] + 3 * noise for cost in costs.values())
        low, high = whole.counts[number].interval(0.95)
        assert least <= low <= high <= most
        drawn = little.counts[number]
        for low, high in (drawn.certain, drawn.interval(0.9999) or (1, len(costs))):
            assert low <= most
            assert least <= high
        ranked = exposures[number].exposure
        assert ranked.rank_lower <= most
        assert least <= ranked.rank_upper


def test_ranks_by_tree_are_those_by_rows() -> None:
    """The canary is known by its leaf, and the draws that are kept by theirs."""
    case, *_ = case_of(*TREES[0])
    model, fills, keep = case.model, ["007", "123", "299"], np.array([0, 17, 18, 150, 298])
    noise = case.noise / np.log(2)
    by_tree, by_rows = (
        rank_all(
            Pricer(model, case.format, case.encoder, tree, noise), Batcher(model), fills, keep=keep
        )
        for tree in (case.tree, None)
    )
    assert by_tree.census.candidates == by_rows.census.candidates == case.format.size
    np.testing.assert_allclose(by_tree.census.kept_bits, by_rows.census.kept_bits, atol=noise)
    assert (by_tree.census.lower <= by_rows.census.rank).all()
    assert (by_rows.census.rank <= by_tree.census.upper).all()
    np.testing.assert_allclose(by_tree.canaries.px_bits, by_rows.canaries.px_bits, atol=noise)
    assert by_tree.queries < by_rows.queries / 2


def test_an_audit_chooses_the_tree_where_tokens_join_characters() -> None:
    format = Format("The code is {digit:3}")
    canaries = canary.generate([format], repetitions=[1], per_repetition=3, seed=1)
    (about,) = canary.audit(tiny_gpt2("gpt2"), canaries, budget=10_000, seed=0).formats
    assert about.method == "enumeration"
    assert "row by row" not in about.reason
    assert about.certificate.startswith("certified")
    assert about.candidates == 1_000


def test_ties_are_walked_once_each() -> None:
    """A tree that holds ways to cut a text that are no tokenizations of it."""
    rng = np.random.default_rng(0)
    tables = {(): np.log(rng.dirichlet(np.ones(5))), (1,): np.log(rng.dirichlet(np.ones(5)))}
    case = Case(TableModel.ngram(tables, tied_tokenizer()), "!{re:[ab]{4}}!")
    assert case.tree.size > case.format.size
    found, by_rows = (
        rank_all(
            Pricer(case.model, case.format, case.encoder, tree),
            Batcher(case.model),
            list(case.format),
        )
        for tree in (case.tree, None)
    )
    assert found.census.candidates == case.format.size
    np.testing.assert_array_equal(found.census.rank, by_rows.census.rank)
