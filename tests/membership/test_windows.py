"""Windows that vote, against a slow count; and the losses of tokens that they look at."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import build
from texts_and_models import random_words, trained_on

from canary.errors import InputError
from canary.membership.aggregate import evaluate_models
from canary.membership.references import resolve
from canary.membership.token_lira import attack_tokens
from canary.membership.voting import SIZES, attack_windows, votes
from canary.scoring.texts import score
from canary.signals.token_losses import TokenLosses, token_losses


def slow_votes(easier):
    shares = []
    for size in SIZES:
        width = min(size, len(easier))
        sums = [sum(easier[at : at + width]) for at in range(len(easier) - width + 1)]
        shares.append(sum((s > 0) + 0.5 * (s == 0) for s in sums) / len(sums))
    return sum(shares) / len(shares)


def test_votes_are_those_that_are_counted_one_by_one():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 60, 20)
    texts = [rng.integers(-3, 4, count).astype(float) for count in counts]
    assert votes(np.concatenate(texts), counts) == pytest.approx([slow_votes(t) for t in texts])


@pytest.mark.parametrize("online", [True, False])
def test_references_are_the_other_models(online):
    """As many for members as for others, and never the target: one by one."""
    rng = np.random.default_rng(1)
    counts = rng.integers(3, 12, 6)
    tokens = TokenLosses(rng.gamma(2.0, size=(6, counts.sum())), counts)
    member = np.array([rng.permutation(6) < 3 for _ in range(6)]).T
    found = attack_windows(tokens, member, online=online)
    bench = resolve(tokens.table(member), "windows")
    ends = np.cumsum(counts)
    for target in range(6):
        for text, (start, end) in enumerate(zip(ends - counts, ends, strict=True)):
            means = []
            for kind in ("outside", "inside")[: 1 + online]:
                compared = bench.compared(slice(0, 6), kind)
                left = set(np.flatnonzero(compared.flags[:, text]).tolist())
                left -= {int(row) for row in compared.less[:, target, text]}
                assert target not in left
                assert len(left) == compared.count[target, text] >= 1
                means.append(tokens.losses[sorted(left), start:end].mean(axis=0))
            easier = sum(means) / len(means) - tokens.losses[target, start:end]
            assert found.scores[target, text] == pytest.approx(slow_votes(easier.tolist()))


@pytest.mark.parametrize("attack", [attack_windows, attack_tokens])
def test_members_are_found_and_nothing_in_nothing(attack):
    rng = np.random.default_rng(2)
    texts = random_words(rng, 40, vocabulary=60)
    member = np.array([rng.permutation(10) < 5 for _ in range(40)]).T
    models = [trained_on([t for t, m in zip(texts, row, strict=True) if m]) for row in member]
    tokens = token_losses(models, texts, start_token="\n", progress=False)
    assert evaluate_models(attack(tokens, member)).auc.mean > 0.9
    dealt = np.array([rng.permutation(row) for row in member.T]).T
    assert 0.4 < evaluate_models(attack(tokens, dealt)).auc.mean < 0.6


def test_losses_are_those_of_each_model():
    texts = ["abc de", "f gh"]
    tokens = token_losses([build("table")] * 2, texts, start_token="\n", progress=False)
    sums = np.add.reduceat(tokens.losses[0].astype(float), np.cumsum(tokens.counts) - tokens.counts)
    assert sums / np.log(2) == pytest.approx(
        score(build("table"), texts, start_token="\n"), rel=1e-5
    )
    with pytest.raises(InputError, match="no model"):
        token_losses([], texts)
    with pytest.raises(InputError, match="shape"):
        TokenLosses(tokens.losses, tokens.counts[:1])
