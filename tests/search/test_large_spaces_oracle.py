"""Spaces beyond 2^63: leaves are numbered by Python's integers, and all else is the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_models import CHARACTERS, character_tokenizer
from walk_cases import FORMATS, random_model

from canary.audits.audit_result import Audit
from canary.audits.auditing import audit, exposure
from canary.audits.completing import completions
from canary.audits.extracting import extract
from canary.corpus.canaries import CanarySet, generate
from canary.errors import UnsupportedError
from canary.formats.format import Format
from canary.models.table_model import TableModel
from canary.search.rank_counter import RankBounds, most_leaves
from canary.tokens import arrays, token_lattice
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree

SIZE = len(CHARACTERS)
TOKENIZER = as_tokenizer(character_tokenizer())


def flat_model():
    return TableModel(np.zeros((1, SIZE), int), np.full((1, SIZE), -np.log(SIZE)), TOKENIZER)


def memorizing(text):
    """A model that gives each next character of one text 0.9, and all others the rest."""
    logs = np.full((len(text) + 1, SIZE), np.log(0.1 / (SIZE - 1)))
    moves = np.full((len(text) + 1, SIZE), len(text))
    for at, character in enumerate(text):
        token = CHARACTERS.index(character)
        logs[at, token] = np.log(0.9)
        moves[at, token] = at + 1
    logs[-1] = -np.log(SIZE)
    return TableModel(moves, logs, TOKENIZER)


def all_that_is_said(model, text):
    """Of every walk over a small space."""
    format = Format(text)
    fills = format.sample(min(3, format.size), rng=np.random.default_rng(1))
    canaries = CanarySet.from_fills(format, fills)
    said = []
    for method in ("enumeration", "rank", "importance", "auto"):
        for budget in (30, 10_000) if method != "enumeration" else (10_000,):
            found = exposure(model, canaries, method=method, budget=budget, draws=60)
            said.append([r.to_dict() for r in found])
    for budget in (20, 10_000):
        best = extract(model, format, top=3, budget=budget).to_dict()
        said.append({**best, "seconds": None})
    said.append(completions(model, format, {c.id: c.fill for c in canaries}, known=0))
    return said


def test_python_integers_say_what_int64_says_oracle(monkeypatch) -> None:
    model, text = random_model(6), FORMATS[6]  # with ties
    wanted = all_that_is_said(model, text)
    for module in (arrays, token_lattice):
        monkeypatch.setattr(module, "MOST_PATHS", 1.0)
    assert compile_tree(Format(text), CandidateEncoder(TOKENIZER)).leaves.dtype == object
    assert all_that_is_said(model, text) == wanted


@pytest.mark.parametrize("text", ["ab{digit:19}", "a{digit:3}-{hex:16}:{digit:2}"])
def test_a_memorized_secret_is_ranked_extracted_and_completed(text, tmp_path) -> None:
    format = Format(text)
    canaries = generate(text, repetitions=[1], per_repetition=2, controls=1, seed=3)
    secret = canaries.canaries[0]
    model = memorizing(format.candidate(secret.fill))
    assert format.size >= 2**63
    found = audit(model, canaries, budget=10_000, draws=50)
    e = found.canaries[0].exposure
    assert (e.exact, e.rank, e.method) == (True, 1, "rank")
    assert e.bits == pytest.approx(math.log2(format.size))
    for other in found.canaries[1:]:
        assert 0.0 <= other.exposure.lower_bits <= other.exposure.upper_bits <= e.bits + 1e-9
    found.save(tmp_path / "audit.json")
    assert Audit.load(tmp_path / "audit.json") == found
    best = extract(model, format, top=2, canaries=canaries, budget=10_000)
    assert (best.candidates[0].fill, best.candidates[0].canary) == (secret.fill, secret.id)
    assert best.candidates[0].proven
    assert best.candidates[0].exposure_lower_bits == pytest.approx(e.bits)
    assert completions(model, format, {"it": secret.fill}, known=1)[0].greedy


def test_a_walk_that_ends_early_keeps_its_bounds_in_its_parts(tmp_path) -> None:
    canaries = generate("a{hex:32}", repetitions=[1], per_repetition=2, controls=0, seed=3)
    options = {"method": "rank", "budget": 500, "draws": 50, "parts": tmp_path / "parts"}
    first = audit(flat_model(), canaries, **options)
    assert [c.exposure.exact for c in first.canaries] == [False, False]
    again = audit(flat_model(), canaries, **options)
    assert again.canaries == first.canaries
    # Nothing was learned: no bound says more than 2^B, or than the space.
    for c in first.canaries:
        bound = max(128 - (c.px_bits - c.context_bits), 0.0)
        assert c.exposure.lower_bits == pytest.approx(bound, abs=0.01)


def test_bounds_beyond_int64_golden() -> None:
    """floor(2^(70 + 0.001)), and never more than there are."""
    leaves = np.array([2**100, 2**60, 2**100], object)
    found = most_leaves(np.array([70.0, 70.0, 3.0]), leaves, excess_bits=1e-3)
    assert found.tolist() == [int(2.0**70.001), 2**60, 8]
    upper = np.array([2**90, 5], object)
    bounds = RankBounds(np.array([1, 2]), upper, np.array([1, 3]), np.ones(2, bool), 1, 2)
    again = RankBounds.from_dict(bounds.to_dict())
    assert (again.upper == upper).all()
    assert again.lower.dtype == np.int64


@pytest.mark.parametrize(("digits", "kind"), [(18, np.int64), (19, object), (20, object)])
def test_counts_just_below_and_above_what_int64_holds(digits, kind) -> None:
    tree = compile_tree(Format(f"a{{digit:{digits}}}"), CandidateEncoder(TOKENIZER))
    assert tree.leaves.dtype == kind
    assert tree.size == 10**digits
    number = tree.numbers([[CHARACTERS.index(c) for c in "a" + "9" * digits]])[0]
    assert number == 10**digits - 1
    assert tree.fills([number, 0]) == ["9" * digits, "0" * digits]


def test_spaces_beyond_floating_point_input() -> None:
    canaries = generate("a{hex:300}", repetitions=[1], per_repetition=1, controls=0, seed=0)
    with pytest.raises(UnsupportedError, match=r"2\^1200 .*floating point; use shorter holes"):
        audit(flat_model(), canaries, method="rank", draws=10)
    with pytest.raises(UnsupportedError, match=r"2\^1200"):
        extract(flat_model(), "a{hex:300}")
    (only,) = audit(flat_model(), canaries, draws=10).canaries
    assert only.exposure.method == "uniform draws"


def test_importance_draws_in_the_largest_spaces_regression() -> None:
    """Weights go up to the size of the space, and their squares beyond what a float holds."""
    canaries = generate("a{hex:130}.", repetitions=[1], per_repetition=1, controls=1, seed=0)
    found = exposure(flat_model(), canaries, method="importance", draws=20, budget=30_000)
    for result in found:
        assert result.exposure.lower_bits <= result.exposure.upper_bits <= 130 * 4
