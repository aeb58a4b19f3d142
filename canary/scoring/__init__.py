"""Rows and nodes to log-probabilities: batching, memory, progress, files of texts."""
