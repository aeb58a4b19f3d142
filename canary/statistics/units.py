"""Nats and bits: natural logarithms within, bits at the edge."""

from __future__ import annotations

import math

LN2 = math.log(2.0)
"""Nats in a bit."""
