"""Ranks by branch and bound through the whole stack."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from small_models import build

from canary.audits.audit_result import Audit
from canary.audits.auditing import audit, exposure
from canary.audits.by_rank import FEW_HITS
from canary.audits.extracting import extract
from canary.corpus.canaries import CanarySet, generate
from canary.search.bounded import BoundedWalk

TEXTS = ["The code {digit:3}.", "AB {digit:2}-{choice:1|23|24}"]


@pytest.mark.parametrize("name", ["table", "gpt2"])
def test_rank_and_enumeration_agree_oracle(name: str) -> None:
    """Exactly without noise, within the band of both with it."""
    canaries = generate(TEXTS, repetitions=[1, 4], per_repetition=4, seed=1)
    ranked = audit(build(name), canaries, method="rank", draws=500)
    counted = audit(build(name), canaries, method="enumeration", draws=500)
    for a, b in zip(ranked.canaries, counted.canaries, strict=True):
        assert a.exposure.method == "rank"
        assert a.exposure.exact
        assert a.exposure.rank_lower <= b.exposure.rank_upper
        assert b.exposure.rank_lower <= a.exposure.rank_upper
        if name == "table":
            assert a.exposure.to_dict() == {**b.exposure.to_dict(), "method": "rank"}
    assert [f.method for f in ranked.formats] == ["rank", "rank"]
    for priced in ranked.formats:
        assert priced.reason.startswith("ranks were asked for; branch and bound ranked all ")
        assert priced.certificate.startswith("certified")
        assert priced.reason in ranked.summary()
    # The curve is fitted to draws: the same.
    if name == "table":
        assert ranked.formats[0].skew_normal == counted.formats[0].skew_normal


def test_the_budget_holds_the_canaries_own_paths() -> None:
    """12 canaries of 5 digits take 60 queries at most; the walk takes what is left."""
    model = build("table")
    canaries = generate("The {digit:5}", repetitions=[1], per_repetition=6, controls=6, seed=4)
    for budget in (1, 60, 61, 100, 2_000):
        about = audit(model, canaries, method="rank", budget=budget, draws=40).formats[0]
        spent = int(about.reason.rpartition("with ")[2].split()[0].replace(",", ""))
        assert spent <= max(budget, 60)
        assert spent > budget - 20 or budget <= 60


def test_the_longest_candidate_of_a_tree_sets_noise_and_plan() -> None:
    """One fill in 1,001 has 13 tokens instead of 3: not seen, but it is in the tree."""
    model, text = build("gpt2"), "a{re:[0-9]{3}|z[a]{12}}"
    canaries = CanarySet.from_fills(text, ["123"])
    found = {
        method: audit(model, canaries, method=method, budget=20_000, draws=5).formats[0]
        for method in ("sampling", "rank", "importance", "enumeration")
    }
    for about in found.values():
        assert about.tokens == 14
        assert about.noise_bits == extract(model, text, budget=50).noise_bits
    # The canary, 16 controls and the root take 18 paths of 13 tokens: 300 // 13 - 18 are left.
    few = audit(model, canaries, method="importance", budget=300, draws=500).formats[0]
    assert "importance draws were asked for, 5 nodes per level" in few.reason


def test_every_budget_gives_what_holds(tmp_path) -> None:
    """Bounds by themselves and cut with draws, around the exact exposure."""
    model = build("table")
    canaries = generate("The {digit:5}", repetitions=[1], per_repetition=6, controls=6, seed=4)
    exact = [c.exposure for c in exposure(model, canaries, method="enumeration", draws=100)]
    before = np.zeros(len(exact))
    for budget in (1, 100, 10_000, 20_000):
        found = audit(model, canaries, method="rank", budget=budget, draws=40)
        for i, (c, truth) in enumerate(zip(found.canaries, exact, strict=True)):
            e = c.exposure
            assert e.lower_bits <= truth.bits <= e.upper_bits
            assert e.confidence is None
            assert e.p_value >= truth.p_value
            assert e.exact == (e.bits is not None)
            assert e.lower_bits >= before[i]
            before[i] = e.lower_bits
        assert found.formats[0].queries <= budget + 40 * 6 + 12 * 12
        found.save(tmp_path / "audit.json")
        assert Audit.load(tmp_path / "audit.json") == found
        together = audit(model, canaries, budget=budget, draws=400)
        for c, truth in zip(together.canaries, exact, strict=True):
            e = c.exposure
            if budget == 20_000:
                assert e.method == "enumeration"
            elif e.exact:
                assert (e.rank, e.method) == (truth.rank, "rank")
            elif e.method == "rank and draws":
                assert (e.confidence, e.draws) == (0.95, 400)
                assert e.hits >= FEW_HITS or budget < 10_000  # too little for importance draws
                assert e.rank_lower <= truth.rank <= e.rank_upper
            else:
                assert e.method == "importance draws"
                assert e.hits < FEW_HITS
    assert all(c.exposure.exact for c in found.canaries)


def test_a_median_of_the_frame_is_that_of_the_groups() -> None:
    """The least exposed are those that a budget leaves open: without estimates it is too high."""
    model = build("table")
    canaries = generate("The {digit:5}", repetitions=[1], per_repetition=6, controls=6, seed=4)
    exact = exposure(model, canaries, method="enumeration", draws=100)
    found = audit(model, canaries, method="rank", budget=10_000, draws=4_000)
    frame = found.to_frame()
    assert not frame.exact.all()
    assert not frame.censored.any()
    medians = frame.groupby("repetitions").bits.median()
    assert medians.tolist() == found.groups().set_index("repetitions").median_bits.tolist()
    for c, truth in zip(found.canaries, exact, strict=True):
        e = c.exposure
        assert e.lower_bits <= e.bits <= e.upper_bits
        assert e.bits == pytest.approx(truth.exposure.bits, abs=0.5)
        assert (e.confidence, e.draws, e.exact) == (None, None, e.rank is not None)
    assert audit(model, canaries, method="rank", budget=100, draws=40).to_frame().censored.any()


def test_draws_choose_the_canaries_that_are_walked(monkeypatch) -> None:
    """Those that 400 draws find far from the top cannot be ranked with 1,600 queries."""
    model = build("table")
    canaries = generate("The {digit:6}", repetitions=[1], per_repetition=8, controls=8, seed=4)
    walked = []
    run = BoundedWalk.run

    def recorded(self, **options):
        walked.append(len(self.bounds().rank))
        return run(self, **options)

    monkeypatch.setattr(BoundedWalk, "run", recorded)
    audit(model, canaries, budget=1_600, draws=400)
    drawn = exposure(model, canaries, method="sampling", draws=400)
    assert walked == [sum(2**c.exposure.upper_bits >= 10**6 / 100 for c in drawn)]
    assert 0 < walked[0] < len(canaries.canaries)


@pytest.mark.parametrize("name", ["table", "lstm"])
def test_the_end_of_a_walk_is_kept_a_begun_one_is_not(tmp_path, monkeypatch, name) -> None:
    """Ctrl-C in a walk; then to the end; then read from its parts."""
    canaries = generate("The {digit:3}", repetitions=[1], per_repetition=2, controls=2, seed=3)
    options = {"parts": tmp_path / "parts", "method": "rank", "draws": 30}
    run = BoundedWalk.run

    def interrupted(self, *, budget):
        run(self, budget=5)
        raise KeyboardInterrupt

    monkeypatch.setattr(BoundedWalk, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        audit(build(name), canaries, **options)
    assert not list((tmp_path / "parts").glob("*rank*"))
    assert list((tmp_path / "parts").glob("format-0.*"))
    monkeypatch.setattr(BoundedWalk, "run", run)
    first = audit(build(name), canaries, **options)
    (kept,) = (tmp_path / "parts").glob("*rank*")
    body = json.loads(kept.read_bytes().splitlines()[-1])  # ranks and counts, nothing of a fill
    counts = {"candidates", "queries"}
    assert body.keys() == {"lower", "upper", "rank", "exact"} | counts
    assert all(isinstance(body[name], int) for name in counts)
    monkeypatch.setattr(BoundedWalk, "run", lambda *_: pytest.fail("walked again"))
    again = audit(build(name), canaries, **options)
    assert again.canaries == first.canaries
    assert again.formats[0].reason == first.formats[0].reason


def test_importance_draws_tell_of_the_rest_coverage() -> None:
    """Beyond the reach of draws and budget: intervals that hold, far narrower than draws give."""
    canaries = generate("The {digit:5}", repetitions=[1], per_repetition=2, controls=14, seed=4)
    model = build("table")
    options = {"budget": 10**7, "draws": 100, "start_token": None}
    truth = exposure(model, canaries, method="enumeration", **options)
    held, widths = [], []
    for seed in range(6):  # two canaries share their draws, so misses come in pairs
        options = {"budget": 6_000, "draws": 200, "seed": seed, "start_token": None}
        found = audit(model, canaries, **options)
        by_draws = exposure(model, canaries, method="sampling", **options)
        for exact, drawn, c in zip(truth, by_draws, found.canaries, strict=True):
            if c.exposure.method == "importance draws" and c.exposure.confidence is not None:
                e = c.exposure
                held.append(e.lower_bits <= exact.exposure.bits <= e.upper_bits)
                before = drawn.exposure.upper_bits - drawn.exposure.lower_bits
                widths.append((e.upper_bits - e.lower_bits) / before)
        assert "importance draws covered" in found.formats[0].reason
    assert len(held) >= 15
    assert np.mean(held) >= 0.9
    assert np.median(widths) < 1.0


def spent_on(about) -> list[int]:
    """The queries that the reason names: of branch and bound, and of importance draws."""
    return [int(n.replace(",", "")) for n in re.findall(r"with ([\d,]+) queries", about.reason)]


@pytest.mark.parametrize("budget", [1, 300, 8_000, 60_000])
def test_all_that_auto_does_stays_within_the_budget(budget) -> None:
    """Branch and bound and importance draws together; the own paths are walked whatever it is."""
    canaries = generate("The {digit:6}", repetitions=[1], per_repetition=4, controls=4, seed=4)
    about = audit(build("table"), canaries, budget=budget, draws=100).formats[0]
    spent = spent_on(about)
    assert len(spent) == (2 if budget >= 8_000 else 1)
    assert sum(spent) <= max(budget, 8 * 6)
    # Draws and canaries are scored besides: six tokens each.
    assert about.queries - sum(spent) <= 6 * (100 + 8)
    options = {"method": "importance", "budget": budget, "draws": 3_000}
    (alone,) = spent_on(audit(build("table"), canaries, **options).formats[0])
    assert alone <= max(budget, 8 * 6 + 2 * 6)
