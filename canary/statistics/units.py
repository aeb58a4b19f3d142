"""Nats and bits: natural logarithms within, bits at the edge."""

from __future__ import annotations

import math

__all__ = ["LN2"]

LN2 = math.log(2.0)
"""Nats in a bit."""
