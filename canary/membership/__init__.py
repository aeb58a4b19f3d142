"""Signals -> membership attacks, their evaluation, and privacy risk scores."""
