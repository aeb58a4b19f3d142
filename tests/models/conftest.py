"""Servers that fail are asked again at once."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr("canary.models.served.client._FIRST_PAUSE", 0.001)
