"""Every adapter passes the same checks."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import build

from canary.models import conformance
from canary.models.language_model import Context, Rows


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["table", "lstm", "gru", "gpt2", "llama", "mistral", "by_rows"])
def test_conformance(name: str, check) -> None:
    check(build(name))


def test_reuse_capability_says_what_is_done() -> None:
    """Held states are reused, or no handle is ever given."""
    for name in ("table", "lstm", "gpt2", "llama", "mistral"):
        assert "reuse" in build(name).facts.capabilities
    assert "reuse" not in build("by_rows").facts.capabilities
    assert build("by_rows").open(Context(np.arange(3)), memory_bytes=2**20).room == 0


def test_noise_is_measured() -> None:
    """A table has none; float32 networks have little; it grows with the tokens."""
    assert build("table").facts.noise_bits(1000) == 0.0
    for name in ("lstm", "gpt2"):
        facts = build(name).facts
        assert 0 < facts.noise_bits_per_token < 1e-3
        assert facts.noise_bits(48) == pytest.approx(48 * facts.noise_bits_per_token)
        assert facts.noise_bits(3) == facts.noise_bits(24)


def test_empty_and_unscored_rows_degenerate() -> None:
    for name in ("table", "lstm", "gpt2"):
        model = build(name)
        assert model.score(Rows.of([[3]])).shape == (0,)
        assert model.score(Rows.of([[3, 4], [5]])).shape == (1,)
