"""`canary membership order`: from a test set to a verdict, by the commands of the guide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from html_pages import Page, check_page, render
from texts_and_models import random_words, trained_on, write_texts

import canary
from canary.gate.verdict import EXIT_CODES
from canary.membership.order import order

TEXTS = random_words(np.random.default_rng(3), 48, words=5, vocabulary=120)
QUICK = {"start_token": "\n", "before": 8, "after": 8}


@pytest.fixture(scope="module")
def found():
    """By one that read the file, and by one that did not; and of a file that is sorted."""
    seen, other = trained_on(["\n".join(TEXTS)] * 3), trained_on([TEXTS[0]])
    sorted_texts = sorted(TEXTS)
    by_heart = trained_on(["\n".join(sorted_texts)] * 3)
    return {
        "seen": order(seen, TEXTS, reference=other, **QUICK),
        "undecided": order(other, TEXTS, **QUICK),
        "void": order(by_heart, sorted_texts, **QUICK),
    }


WORDS = {
    "seen": "the model was trained on these texts",
    "undecided": "never shows that texts were not in the training data",
    "void": "order was drawn at random",
}


@pytest.mark.parametrize(("kind", "code"), [("seen", 1), ("undecided", 3), ("void", 3)])
def test_the_gate_fails_or_is_undecided_and_never_passes(command, workplace, found, kind, code):
    found[kind].save("order.json")
    assert found[kind].outcome == kind
    outcome = command("check", "order.json", "--max-p", "0.01", "--json")
    assert outcome.code == code
    verdict = json.loads(outcome.out)
    assert EXIT_CODES[verdict["outcome"]] == code
    (finding,) = verdict["findings"]
    assert WORDS[kind] in f"{finding['sentence']} {finding['cure']}"
    assert canary.check(found[kind], max_p=0.01).outcome == verdict["outcome"]
    refused = command("check", "order.json", "--max-auc", "0.9")
    assert refused.code == 2
    assert "order test" in refused.err
    assert command("check", "order.json").code == 2


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("seen", "The model was trained on this test set"),
        ("undecided", "nothing shows that the model read"),
        ("void", "the order of the test set is not random"),
    ],
)
def test_the_page_says_it(found, kind, label):
    page = render(found[kind])
    check_page(Page(page))
    assert label in page
    assert not any(text in page for text in TEXTS)


def test_the_command_writes_it(command, workplace, model):
    write_texts("testset.jsonl", [text[:30] for text in TEXTS[:12]])
    words = ("membership", "order", model, "testset.jsonl", "--before", "6")
    outcome = command(*words, "--after", "3", "--start-token", "none", "--out", "o", "--json")
    assert outcome.code == 3, outcome.err
    written = json.loads(outcome.out)
    assert written["preference"]["p"] == canary.read("o/order.json").preference.p
    assert "p = " in outcome.err
    write_texts("few.jsonl", TEXTS[:3])
    refused = command("membership", "order", model, "few.jsonl", "--out", "p")
    assert refused.code == 2
    assert "too few" in refused.err


def test_an_order_that_is_not_random_is_void_whatever_the_model_prefers():
    result = order(trained_on([TEXTS[0]]), sorted(TEXTS), **QUICK)
    assert (result.outcome, result.preference.p > 0.01) == ("void", True)
    page = render(result)
    assert "Nothing can be said of the model, because the order of the file is not random" in page
    assert "who ran this test says so" not in page


def test_annexes_take_it_with_its_verdict(command, workplace, found):
    for kind in found:
        found[kind].save(f"{kind}.json")
        judged = command("check", f"{kind}.json", "--max-p", "0.01", "--json")
        Path(f"{kind}-verdict.json").write_text(judged.out)
    done = command("report", *(f"{kind}.json" for kind in found), "--annex", "annex.md")
    assert done.code == 0, done.err
    annex = Path("annex.md").read_text()
    assert annex.count("Membership inference: the order of a test set") >= 3
    assert "The attacker also has another model for comparison" in annex
    assert not any(text in annex for text in TEXTS)
    for kind in found:
        both = (f"{kind}.json", f"{kind}-verdict.json", "--annex", "annex.md", "--force")
        done = command("report", *both)
        assert done.code == 0, done.err
    assert "p-value of the order above 0.01" in Path("annex.md").read_text()
    card = command("report", "seen.json", "--model-card", "card.md")
    assert card.code == 0, card.err
