"""Extraction from the front door: fills, exposures, canaries, completion."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from small_models import CHARACTERS, build, character_tokenizer
from walk_cases import Case, cases

import canary
from canary.audits.audit_result import Audit
from canary.audits.completing import completions
from canary.audits.extracting import extract, with_extractions
from canary.audits.extraction import Extraction
from canary.corpus.canaries import CanarySet
from canary.errors import InputError, ModelError, OutOfMemory, RecordError
from canary.formats.format import Format
from canary.models.table_model import TableModel
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import TokenTree

TEXT = "The code is {digit:3}."


@pytest.fixture(scope="module")
def case():
    return Case(build("table"), TEXT)


def fills_in_order(case):
    return [case.format.unrank(int(i)) for i in np.argsort(case.costs, kind="stable")]


def test_candidates_are_brute_force_in_order_oracle(case):
    found = canary.extract(case.model, TEXT, top=10)
    assert [c.fill for c in found.candidates] == fills_in_order(case)[:10]
    np.testing.assert_allclose(
        [c.px_bits for c in found.candidates], np.sort(case.costs)[:10] / np.log(2)
    )
    assert found.proven
    assert found.rest_bits == pytest.approx(np.sort(case.costs)[10] / np.log(2), abs=3)
    assert found.rest_bits <= np.sort(case.costs)[10] / np.log(2)
    assert found.random_guesses == 500.5
    assert found.certificate.startswith("certified")


def test_exposure_from_the_place_contains_the_true_one_oracle():
    """40 models, some with ties, whole walks and cut ones; equal ends are the exposure itself."""
    sharp = unproven = 0
    for seed, case in cases(40):
        possible = case.costs[np.isfinite(case.costs)]
        if not len(possible):
            continue
        budget = 1_000_000 if seed % 2 else 1 + seed % 17
        found = extract(case.model, case.format, top=1 + seed % 4, budget=budget, start_token=None)
        for before, c in enumerate(found.candidates):
            own = case.costs[case.format.index(c.fill)]
            assert not c.proven or (case.costs < own - 1e-9).sum() <= before
            sure = found.rest_bits is None or c.px_bits <= found.rest_bits
            assert c.proven == (sure and found.certified)
            unproven += not c.proven
            rank = int((case.costs <= case.costs[case.format.index(c.fill)]).sum())
            true = np.log2(case.format.size) - np.log2(rank)
            assert c.exposure_lower_bits - 1e-9 <= true <= c.exposure_upper_bits + 1e-9
            sharp += c.exposure_lower_bits == c.exposure_upper_bits
        whole = len(found.candidates) == found.top or found.rest_bits is None
        every = all(c.proven for c in found.candidates)
        assert found.proven == (found.certified and whole and every)
    assert sharp > 20
    assert unproven


def test_exact_ties_of_known_number_have_one_exposure_golden():
    """Without noise a tie is a tie: of two that are as likely both have rank 2, as in an audit."""
    row = np.full(len(CHARACTERS), -np.inf)
    row[[3, 7, CHARACTERS.index("a")]] = np.log([0.25, 0.25, 0.5])
    tokenizer = as_tokenizer(character_tokenizer())
    model = TableModel(np.zeros((1, len(row)), int), row[None], tokenizer)
    found = extract(model, "a{digit:1}", top=2)
    ends = [(c.exposure_lower_bits, c.exposure_upper_bits) for c in found.candidates]
    assert ends == [(np.log2(10) - 1, np.log2(10) - 1)] * 2
    chosen = CanarySet.from_fills("a{digit:1}", [c.fill for c in found.candidates])
    audited = canary.exposure(model, chosen, method="enumeration")
    assert [c.exposure.bits for c in audited] == [lower for lower, _ in ends]


def test_an_audit_extracts_if_it_is_asked_to(case):
    chosen = canary.generate(TEXT, repetitions=[1], per_repetition=2, controls=2, seed=0)
    both = canary.audit(case.model, chosen, seed=0, extraction_budget=500)
    later = with_extractions(
        canary.audit(case.model, chosen, seed=0), case.model, chosen, budget=500
    )
    assert [one.candidates for one in both.extractions] == [
        one.candidates for one in later.extractions
    ]
    assert both.extractions[0].settings["budget"] == 500
    with pytest.raises(InputError, match="extraction_budget"):
        canary.audit(case.model, chosen, extraction_budget=-1)


def test_formats_without_canaries_are_left_out_of_an_audit(case):
    """What was measured is not lost; and asked for by name, the cure names others only."""
    chosen = canary.generate([TEXT, "a{digit:2}"], repetitions=[1], per_repetition=1, seed=0)
    chosen = replace(chosen, canaries=tuple(c for c in chosen if c.format == 0))
    audit = canary.audit(case.model, chosen, seed=0)
    whole = with_extractions(audit, case.model, chosen)
    assert [found.format for found in whole.extractions] == [TEXT]
    with pytest.raises(InputError, match="no canary of the format 'a{digit:2}'") as caught:
        extract(case.model, "a{digit:2}", canaries=chosen)
    assert caught.value.cure == f"name one of {TEXT!r}"


def test_a_leaf_without_a_fill_leaves_the_others_their_numbers(case, monkeypatch):
    """Whichever leaf it is: cost, queries and place of the others are their own."""
    whole, fills = extract(case.model, TEXT, top=4, known=1), TokenTree.fills
    for lost in range(4):

        def told(tree, numbers, lost=lost):
            found = fills(tree, numbers)
            return [None if len(found) == 4 and i == lost else f for i, f in enumerate(found)]

        monkeypatch.setattr(TokenTree, "fills", told)
        left = extract(case.model, TEXT, top=4, known=1)
        monkeypatch.undo()
        kept = [c for i, c in enumerate(whole.candidates) if i != lost]
        assert list(left.candidates) == kept
        assert [c.secret for c in left.completions] == ["candidate 1", "candidate 2", "candidate 3"]


def test_batch_size_changes_nothing_property(case):
    shown = {
        tuple(
            (c.fill, c.px_bits, c.proven)
            for c in extract(case.model, TEXT, top=4, batch_size=size).candidates
        )
        for size in (1, 3, 64, 4096)
    }
    assert len(shown) == 1


def test_completion_is_greedy_search_below_what_is_known_oracle(case):
    """The first digit known: greedy takes the likeliest digit, and then the likeliest again."""
    costs = dict(zip(case.format, case.costs, strict=True))
    for secret in fills_in_order(case)[:8]:
        made = completions(case.model, TEXT, {"it": secret}, known=1, beam=100)[0]
        best = min((f for f in costs if f[0] == secret[0]), key=costs.__getitem__)
        assert made.beam == (best == secret)  # a beam of 100 holds them all
        assert made.greedy <= made.beam or secret != best
        two = completions(case.model, TEXT, {"it": secret}, known=2)[0]
        last = min((f for f in costs if f[:2] == secret[:2]), key=costs.__getitem__)
        assert two.beam == (last == secret)


def test_canaries_are_named_by_their_ids(case):
    best, second = fills_in_order(case)[:2]
    found = extract(case.model, TEXT, top=2, known=2)
    assert [c.secret for c in found.completions] == ["candidate 1", "candidate 2"]
    chosen = CanarySet.from_fills(TEXT, [second, best])
    found = extract(case.model, TEXT, top=3, known=2, canaries=chosen)
    ids = {c.fill: c.id for c in chosen}
    assert [c.canary for c in found.candidates] == [ids[best], ids[second], None]
    assert [c.secret for c in found.completions] == [c.id for c in chosen]
    assert {c.known for c in found.completions} == {2}
    frame = found.to_frame().set_index("canary")
    for made in found.completions:
        assert (frame.greedy[made.secret], frame.beam[made.secret]) == (made.greedy, made.beam)
    assert found.completed() in found.summary()
    first, second = (replace(c, greedy=True, beam=False) for c in found.completions)
    some = replace(found, completions=(first, replace(second, control=True)))
    assert some.completed() == (
        "From the first 2 characters, greedy search completed 1 of 1 secret and 1 of 1 control, "
        "and a beam of 10 completed 0 of 1 secret and 0 of 1 control."
    )
    assert some.metrics()["canary/extraction/completed_controls"] == 1


def test_known_characters_written_as_text_search_the_same_space(case):
    """What an attacker types is a format of its own."""
    best = fills_in_order(case)[0]
    typed = extract(case.model, f"The code is {best[0]}{{digit:2}}.")
    assert best[0] + typed.candidates[0].fill == best
    assert typed.candidates[0].px_bits == pytest.approx(np.min(case.costs) / np.log(2))


def test_results_keep_and_hide(case):
    """Four letters, so that no number looks like a secret."""
    found = extract(case.model, "The code is {letter:4}.", top=2, known=1)
    kept = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert Extraction.from_dict(kept) == found
    secrets = [c.fill for c in found.candidates]
    hidden = found.hidden()
    assert Extraction.from_dict(hidden.to_dict()) == hidden
    for text in (repr(found), found.summary(), json.dumps(hidden.candidates, default=vars)):
        assert not any(secret in text for secret in secrets)
    assert all(secret in found.summary(show_secrets=True) for secret in secrets)
    for broken in ({"stopped": "enough"}, {"space_size": 0}, {"notes": [1]}, {"queries": "many"}):
        with pytest.raises((TypeError, ValueError)):
            Extraction.from_dict({**kept, **broken})
    kept["candidates"][0]["proven"] = 1
    with pytest.raises(RecordError, match="true or false"):
        Extraction.from_dict(kept)


def test_a_given_format_is_the_rest_of_the_space_oracle():
    for text in ("a{digit:2}-{choice:x|yy|yz}.", "{re:[AB]{1,2}c}", "{word:1} {digit:1}"):
        format = Format(text)
        fills = list(format)
        for known in {f[:k] for f in fills[:: max(1, len(fills) // 30)] for k in (0, 1, 2)}:
            rest = format.given(known)
            wanted = [f[len(known) :] for f in fills if f.startswith(known)]
            assert list(rest) == wanted
            assert rest.size == len(wanted)
            assert rest.unrank(len(wanted) - 1) == wanted[-1]
            assert rest.candidate(wanted[0]) == format.candidate(known + wanted[0])
            assert rest.given(wanted[0][:1]).size <= rest.size
            assert rest.masked == format.masked
            assert (rest == format) == (known == "")


def test_an_audit_is_given_what_could_be_extracted(case):
    texts = [TEXT, "a{choice:b|c|d|e}."]
    chosen = canary.generate(texts, repetitions=[1], per_repetition=2, controls=2, seed=0)
    audit = canary.audit(case.model, chosen, context="ab", seed=0)
    told = []
    whole = with_extractions(audit, case.model, chosen, progress=lambda *a: told.append(a) or print)
    first, second = whole.extractions
    again = extract(case.model, TEXT, top=first.top, context="ab", canaries=chosen, budget=10_000)
    assert [c.px_bits for c in first.candidates] == [c.px_bits for c in again.candidates]
    assert [c.canary for c in first.candidates] == [c.canary for c in again.candidates]
    assert all(c.fill is None for found in (first, second) for c in found.candidates)
    assert len(second.candidates) == 2
    assert second.proven
    most = (1_110, 4)  # all queries of these trees, fewer than the budget
    assert told == [
        (f"extraction (at most) from {f.masked}", queries, "tokens")
        for f, queries in zip(chosen.formats, most, strict=True)
    ]
    assert whole.canaries == audit.canaries


def test_an_audit_keeps_its_numbers_where_nothing_can_be_extracted(tmp_path, monkeypatch):
    """The longest candidate, one of several hundred, is not among those that were drawn."""
    text = "a{re:[0-8]{3}|9[0-8]{2}|99[0-8]|999bcdefg}"
    chosen = canary.generate([text, "b{digit:2}"], repetitions=[1], per_repetition=2, seed=1)
    model = build("gpt2")
    assert not any(c.fill.startswith("999") for c in chosen)
    measured = canary.audit(model, chosen, method="sampling", draws=5, context="x" * 58)
    whole = with_extractions(measured, model, chosen)
    assert (whole.canaries, whole.injected_p) == (measured.canaries, measured.injected_p)
    assert [e.format for e in whole.extractions] == ["b{digit:2}"]
    note = "was not searched for its most likely candidates: a candidate of 68 tokens is longer"
    assert note in whole.formats[0].notes[-1]
    assert whole.formats[1] == measured.formats[1]
    whole.save(tmp_path / "audit.json")
    assert Audit.load(tmp_path / "audit.json") == whole
    # With a tree the length of all candidates is known before anything is measured.
    with pytest.raises(ModelError, match="68 tokens is longer than the 64"):
        canary.audit(model, chosen, draws=5, context="x" * 58)

    def full(*_, **__):
        raise OutOfMemory("a batch of one does not fit")

    with monkeypatch.context() as patch:
        patch.setattr("canary.audits.extracting.shortest_leaves", full)
        assert with_extractions(measured, model, chosen).extractions == ()
    with pytest.raises(InputError, match="budget must be .* got 0"):
        with_extractions(measured, model, chosen, budget=0)


def test_an_audit_refuses_canaries_that_are_not_its_own(case):
    """Other formats, other copies, one canary less: each set of them says which was meant."""
    chosen = canary.generate(TEXT, repetitions=[1], per_repetition=2, controls=1, seed=0)
    audit = canary.audit(case.model, chosen, seed=0)
    for other in (
        replace(chosen, canaries=tuple(chosen)[:-1]),
        canary.generate(TEXT, repetitions=[1], per_repetition=2, controls=1, seed=1),
        canary.generate(TEXT, repetitions=[2], per_repetition=2, controls=1, seed=0),
        canary.generate("a{digit:2}", repetitions=[1], per_repetition=2, controls=1, seed=0),
    ):
        with pytest.raises(InputError, match="not those of the audit") as caught:
            with_extractions(audit, case.model, other)
        assert caught.value.cure.endswith(f"3 canaries of {TEXT!r}")
    assert len(with_extractions(audit, case.model, chosen).extractions) == 1
