"""Canary sets, and their way into and out of corpora."""
