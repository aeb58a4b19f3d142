"""Exposure through the whole stack against ranks counted by hand."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
from small_models import build

from canary.audits.audit_result import Audit
from canary.audits.auditing import audit, exposure
from canary.corpus.canaries import CanarySet, generate
from canary.errors import (
    EstimationError,
    FormatError,
    InputError,
    ModelError,
    RecordError,
    UnsupportedError,
)
from canary.formats.format import Format
from canary.scoring.texts import score


@functools.cache
def every_px(model, format: Format) -> np.ndarray:
    return np.array(score(model, [format.candidate(f) for f in format]))


def brute_rank(model, format: Format, fill: str) -> int:
    """1 + the other candidates with Px <= Px(canary), one whole row per candidate."""
    px = every_px(model, format)
    own = px[format.index(fill)]
    return int((px <= own).sum())


@pytest.mark.parametrize("name", ["table", "lstm"])
def test_exposure_oracle(name: str) -> None:
    model = build(name)
    canaries = generate("The code {digit:3}.", repetitions=[1, 4], per_repetition=3, seed=1)
    for result, canary in zip(exposure(model, canaries, draws=500), canaries, strict=True):
        rank = brute_rank(model, canaries.formats[0], canary.fill)
        found = result.exposure
        assert found.rank_lower <= rank <= found.rank_upper
        assert found.rank_lower <= found.rank <= found.rank_upper
        assert found.bits == pytest.approx(math.log2(1000) - math.log2(found.rank))
        assert found.method == "enumeration"
        text = canaries.text(canary)
        assert result.px_bits == pytest.approx(score(model, [text])[0], abs=1e-3)
        assert result.context_bits == pytest.approx(score(model, ["The code "])[0], abs=1e-3)
        if name == "table":
            assert found.rank == rank == found.rank_lower == found.rank_upper


def test_methods_agree() -> None:
    """Enumeration lies within the interval of the draws for nearly every canary."""
    canaries = generate("The {digit:4}", repetitions=[1], per_repetition=60, controls=0, seed=2)
    exact = exposure(build("lstm"), canaries, draws=500)
    drawn = exposure(build("lstm"), canaries, method="sampling", draws=2000)
    inside = [
        d.exposure.lower_bits <= e.exposure.bits <= d.exposure.upper_bits
        for e, d in zip(exact, drawn, strict=True)
    ]
    assert sum(inside) >= 53  # 57 expected at 95 %; below 53 once in a hundred such seeds
    assert {d.exposure.method for d in drawn} == {"uniform draws"}


@pytest.mark.parametrize("name", ["table", "lstm"])
def test_draws_of_all_candidates_are_ranks(name: str) -> None:
    canaries = generate("The code {digit:3}.", repetitions=[1, 4], per_repetition=3, seed=1)
    every, few = (
        audit(build(name), canaries, method="sampling", draws=draws, start_token="T")
        for draws in (20_000, 999)
    )
    ranks = audit(build(name), canaries, method="enumeration", start_token="T")
    assert [c.exposure.rank for c in every.canaries] == [c.exposure.rank for c in ranks.canaries]
    assert all(c.exposure.exact and c.exposure.confidence is None for c in every.canaries)
    assert every.formats[0].enumerated
    assert len(repr(every.formats)) < 120  # no counts of a histogram
    assert "the draws were all candidates" in every.formats[0].reason
    assert not any(c.exposure.exact for c in few.canaries)


def test_importance_agrees_with_enumeration() -> None:
    """An eighth of the nodes: the true rank lies in the interval for nearly every canary."""
    canaries = generate("The {digit:4}", repetitions=[1], per_repetition=40, controls=8, seed=2)
    exact = exposure(build("lstm"), canaries, draws=500)
    found = audit(build("lstm"), canaries, method="importance", draws=150)
    (about,) = found.formats
    assert about.method == "importance draws"
    asked, _, spent = about.reason.rpartition(", with ")
    assert asked == "importance draws were asked for, 150 nodes per level"
    assert 0 < int(spent.split()[0].replace(",", "")) < about.queries
    assert about.certificate is not None
    inside = []
    for sampled, ranked in zip(found.canaries, exact, strict=True):
        this, true = sampled.exposure, ranked.exposure
        assert this.method == "importance draws"
        assert this.draws in (150, None)  # none where bounds are certain enough
        assert this.p_value <= 1.0
        assert sampled.px_bits == pytest.approx(ranked.px_bits, abs=1e-3)
        inside.append(this.lower_bits <= true.bits + 1e-9 and true.bits <= this.upper_bits + 1e-9)
        assert this.upper_bits - this.lower_bits < 3.5
    assert sum(inside) >= 45
    uniform = exposure(build("lstm"), canaries, method="sampling", draws=150)
    rare = [at for at, ranked in enumerate(exact) if ranked.exposure.bits >= 5.0]
    assert len(rare) >= 2
    for at in rare:
        this, that = found.canaries[at].exposure, uniform[at].exposure
        assert this.upper_bits - this.lower_bits < that.upper_bits - that.lower_bits
    assert Audit.from_dict(json.loads(json.dumps(found.to_dict()))).canaries == found.canaries


def test_importance_needs_a_tree_and_keeps_to_the_budget() -> None:
    canaries = generate("AB {digit:6}", repetitions=[1], per_repetition=2, controls=1, seed=3)
    found = audit(build("table"), canaries, method="importance", draws=500, budget=1_200)
    (about,) = found.formats
    # Beside the nodes above 503 candidates of six digits, and rows of the canaries.
    above = 10 + 100 + 3 * 503
    assert 600 < about.queries - above - 3 * 6 <= 1_200
    for method in ("importance", "rank"):
        with pytest.raises(
            UnsupportedError, match='states cannot be reused; use method="sampling"'
        ):
            exposure(build("by_rows"), canaries, method=method)


def test_auto_chooses_by_budget_and_says_why() -> None:
    canaries = generate(["The {digit:2}", "AB {digit:6}"], repetitions=[1], controls=2, seed=3)
    found = audit(build("table"), canaries, budget=1000, draws=50)
    small, large = found.formats
    assert small.method == "enumeration"
    assert "within the budget" in small.reason
    assert small.candidates == 100
    assert small.queries >= 10
    assert large.method == "rank and draws"
    assert "111,110 queries" in large.reason
    assert re.search(r"branch and bound ranked \d+ of 10 canaries exactly, with", large.reason)
    assert large.histogram.total == 50 < large.candidates
    assert [c.format for c in found.canaries] == [c.format for c in canaries]
    with pytest.raises(InputError, match="budget of at least 111110"):
        exposure(build("table"), canaries, method="enumeration", budget=1000)


@pytest.mark.parametrize(
    ("name", "certificate"),
    [
        ("table", "certified: all 3 fills were encoded"),
        ("by_rows", "certified: every fill was encoded"),  # a model without states has no tree
    ],
)
def test_a_small_space_is_enumerated_by_tree_or_by_rows(name: str, certificate: str) -> None:
    """Fills that continue each other, told apart by the end of the format."""
    canaries = generate("a {choice:b|bc|d}.", repetitions=[1], per_repetition=1, controls=1, seed=0)
    found = audit(build(name), canaries)
    assert found.formats[0].certificate == certificate
    for result, canary in zip(found.canaries, canaries, strict=True):
        wanted = brute_rank(build(name), canaries.formats[0], canary.fill)
        assert result.exposure.rank == wanted


def test_draws_are_not_the_canaries_of_the_same_seed(monkeypatch) -> None:
    """Canaries and draws from one seed must be independent, or every rank is off."""
    canaries = generate("The {digit:6}", repetitions=[1], per_repetition=8, controls=0, seed=0)
    sample, drawn = Format.sample, []

    def recorded(self, count, *, rng):
        found = sample(self, count, rng=rng)
        drawn.append(found)
        return found

    monkeypatch.setattr(Format, "sample", recorded)
    audit(build("table"), canaries, method="sampling", draws=500, seed=0)
    (draws,) = (found for found in drawn if len(found) == 500)
    assert not {c.fill for c in canaries} & set(draws)


def test_an_audit_at_rest_holds_no_secret(tmp_path) -> None:
    canaries = generate(["The {digit:2}", "AB {digit:5}"], repetitions=[1, 3], seed=5)
    found = audit(build("table"), canaries, budget=1000, draws=20)
    found.save(tmp_path / "audit.json")
    assert Audit.load(tmp_path / "audit.json") == found
    text = (tmp_path / "audit.json").read_text()
    json.loads(text, parse_constant=pytest.fail)
    secrets = {c.fill for c in canaries if c.format == 1}
    assert not any(f'"{s}"' in text or f" {s}" in text for s in secrets)


SPOILED = {
    "no canaries": lambda d, c, f: d.pop("canaries"),
    "extra field": lambda d, c, f: f.update(extra=1),
    "one estimate gone": lambda d, c, f: c.update(skew_normal=None),
    "an estimate that was counted": lambda d, c, f: c.update(skew_normal=c["exposure"]),
    "an exposure that was not": lambda d, c, f: c.update(exposure=c["skew_normal"]),
    "no curve": lambda d, c, f: f.update(skew_normal=None),
    "not one canary": lambda d, c, f: d["canaries"].clear(),
    "too many copies": lambda d, c, f: c.update(repetitions=10**30),
    "another space": lambda d, c, f: f.update(space_size=10**6),
    "negative bits": lambda d, c, f: c["exposure"].update(bits=-1.0, lower_bits=-1.0),
    "bits beyond the space": lambda d, c, f: c["exposure"].update(bits=1e308, upper_bits=1e308),
    "ends of the interval swapped": lambda d, c, f: c["exposure"].update(
        lower_bits=6.0, upper_bits=5.0
    ),
    "rank beyond the space": lambda d, c, f: c["exposure"].update(rank=101, rank_upper=101),
    "ranks swapped": lambda d, c, f: c["exposure"].update(rank_lower=10**400),
    "more hits than draws": lambda d, c, f: c["exposure"].update(draws=3, hits=4),
    "no extraction": lambda d, c, f: d.update(extractions=[None]),
}


@functools.cache
def document() -> str:
    canaries = generate("The {digit:2}", repetitions=[1], controls=1, seed=5)
    return json.dumps(audit(build("table"), canaries, draws=100).to_dict())


@pytest.mark.parametrize("damage", SPOILED)
def test_audit_input_damaged(damage: str) -> None:
    data = json.loads(document())
    assert Audit.from_dict(data).injected
    SPOILED[damage](data, data["canaries"][0], data["formats"][0])
    with pytest.raises(RecordError):
        Audit.from_dict(data)


def test_audit_input() -> None:
    model = build("table")
    canaries = generate("The {digit:3}", repetitions=[1], controls=1, seed=5)
    with pytest.raises(InputError, match="unknown method 'magic'; use one of auto"):
        audit(model, canaries, method="magic")
    for name in ("budget", "draws"):
        with pytest.raises(InputError, match=f"{name} must be .* got 0"):
            audit(model, canaries, **{name: 0})
    with pytest.raises(InputError, match="seed must be .* got -1"):
        audit(model, canaries, seed=-1)
    ambiguous = CanarySet.from_fills(Format("a {choice:b|bc}"), ["b"])
    for method in ("auto", "rank"):
        with pytest.raises(FormatError, match="not prefix-free"):
            audit(model, ambiguous, method=method)
    long = generate("a" * 70 + "{digit:3}", repetitions=[1], controls=0, seed=0)
    for method in ("enumeration", "sampling", "rank"):
        with pytest.raises(ModelError, match="73 tokens is longer than the 64"):
            audit(build("gpt2"), long, method=method, start_token=None)


def test_a_space_of_one_candidate_degenerate() -> None:
    canaries = generate("only {choice:one}", repetitions=[1], per_repetition=1, controls=0, seed=1)
    (result,) = audit(build("table"), canaries).canaries
    assert (result.exposure.bits, result.exposure.rank, result.exposure.p_value) == (0.0, 1, 1.0)
    bare = audit(build("table"), generate("The {digit:2}", repetitions=[2], controls=0, seed=1))
    assert (bare.controls_p, bare.injected_p.count) == (None, 8)


@pytest.mark.parametrize(
    ("model", "options", "name", "least", "most"),
    [
        # Each canary once as a row of 7 scored tokens, once along the walk.
        ("table", {}, "enumeration", 1110, 1110 + (4 + 7) * 9),
        # Whole rows cost more tokens than those below the context, which queries count.
        ("by_rows", {"method": "sampling", "draws": 50}, "uniform draws", 50 * 7, (50 + 9) * 7),
    ],
)
def test_progress_reaches_its_total(model, options, name, least, most) -> None:
    canaries = generate("The {digit:4}", repetitions=[1], controls=1, seed=5)
    assert len(canaries.canaries) == 9
    stages: list[tuple[str, int]] = []
    done: list[int] = []

    def stage(name: str, tokens: int, _unit: str):
        if name == "checking the start token":
            return lambda _done: None
        stages.append((name, tokens))
        return done.append

    audit(build(model), canaries, progress=stage, start_token=None, **options)
    assert stages == [(f"{name} of The ••••", most)]
    assert least <= sum(done) <= most


def test_the_bar_of_the_start_tokens_check_reaches_its_total() -> None:
    canaries, stages = generate("The {digit:4}", repetitions=[1], controls=1, seed=5), {}

    def stage(name: str, tokens: int, _unit: str):
        stages[name] = tokens, []
        return stages[name][1].append

    audit(build("lstm"), canaries, progress=stage, start_token=None)
    total, done = stages["checking the start token"]
    assert 0.9 * total <= sum(done) <= total


def test_the_estimate_stands_beside_every_exposure_oracle() -> None:
    """In the bulk, the curve over all candidates gives what counting them gives."""
    canaries = generate("The code {digit:4}", repetitions=[1], per_repetition=24, seed=8)
    exact = exposure(build("lstm"), canaries, method="enumeration", draws=100)
    for method in ("enumeration", "sampling"):
        found = audit(build("lstm"), canaries, method=method, draws=4000)
        fit = found.formats[0].skew_normal
        assert 3900 <= fit.fitted + fit.tested <= 4000
        for beside, counted in zip(found.canaries, exact, strict=True):
            assert beside.skew_normal.method == "skew-normal"
            if counted.exposure.bits < 4:
                # The curve of so small a model's candidates is not quite a skew-normal one.
                assert beside.skew_normal.bits == pytest.approx(counted.exposure.bits, abs=0.6)


def test_both_methods_fit_the_curve_to_the_same_draws() -> None:
    canaries = generate("The code {digit:3}", repetitions=[1], controls=4, seed=9)
    model = build("table")
    a = audit(model, canaries, method="enumeration", draws=300, seed=5).formats[0].skew_normal
    b = audit(model, canaries, method="sampling", draws=300, seed=5).formats[0].skew_normal
    assert a == b
    # Whole rows, too.
    words = "|".join(f"{i}x" for i in range(120)) + "|1xy"
    canaries = generate(f"a {{choice:{words}}}.", repetitions=[1], controls=4, seed=9)
    model = build("by_rows")
    a = audit(model, canaries, method="enumeration", draws=80, seed=5).formats[0]
    b = audit(model, canaries, method="sampling", draws=80, seed=5).formats[0]
    assert a.certificate == "certified: every fill was encoded"
    assert a.skew_normal == b.skew_normal


def test_canaries_do_not_bend_their_own_curve() -> None:
    canaries = generate("The {digit:2}", repetitions=[1], controls=2, seed=3)
    fit = audit(build("table"), canaries).formats[0].skew_normal
    assert fit.fitted + fit.tested == 100 - len(canaries.canaries)


def test_exposures_are_a_sequence_and_a_result() -> None:
    canaries = generate("The {digit:2}", repetitions=[1, 4], controls=2, seed=3)
    found, made = exposure(build("table"), canaries), audit(build("table"), canaries)
    assert isinstance(found, Sequence)
    assert found.canaries == made.canaries
    assert found.notes == made.notes
    assert found.to_frame().equals(made.to_frame().drop(columns="model"))
    assert found.metrics().items() <= made.metrics().items()
    names = [n for n in found.metrics() if not n.endswith(("_lower", "_upper"))]
    assert names == [f"canary/exposure_{n}" for n in ("controls", "1_copies", "4_copies")]
    groups = [line for line in made.summary().splitlines() if "median" in line]
    assert [line for line in found.summary().splitlines() if "median" in line] == groups
    assert "<table" in found._repr_html_()


def test_the_estimate_as_the_exposure_itself() -> None:
    canaries = generate("The {digit:9}", repetitions=[1], controls=2, seed=3)
    results = exposure(build("lstm"), canaries, method="skew-normal", draws=400)
    for result in results:
        assert result.exposure is result.skew_normal
        assert result.exposure.p_value is None
        assert result.exposure.confidence is None
        json.dumps(result.to_dict(), allow_nan=False)
    outside = [result.exposure.hits == 0 for result in results]
    assert results.to_frame().outside_draws.tolist() == outside
    assert f"note: {sum(outside)} of 3 canaries are more likely" in results.summary() or not any(
        outside
    )
    few = "the curve was fitted to 400 draws only: take 1,000 or more"
    assert few in results.notes
    more = exposure(build("lstm"), canaries, method="skew-normal", draws=1_000)
    assert not any("draws only" in note for note in more.notes)
    assert results.groups().beyond_draws.sum() == sum(outside)
    assert any("more likely than every draw" in note for note in results.notes) == any(outside)
    with pytest.raises(InputError, match="an audit rests on p-values"):
        audit(build("lstm"), canaries, method="skew-normal")
    with pytest.raises(EstimationError, match="8 draws are too few"):
        exposure(build("lstm"), canaries, method="skew-normal", draws=8)


def test_without_a_curve_the_audit_stands_degenerate() -> None:
    canaries = generate("The {digit:9}", repetitions=[1], controls=2, seed=3)
    found = audit(build("lstm"), canaries, draws=20)
    assert found.formats[0].skew_normal is None
    assert {c.skew_normal for c in found.canaries} == {None}
    assert Audit.from_dict(found.to_dict()) == found
