"""Passages of real text: which of them a model repeats, and with what probability."""
