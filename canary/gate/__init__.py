"""A result and a limit or baseline to a verdict: passed, memorized or undecided."""
