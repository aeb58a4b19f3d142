"""canary inside other programs: pytest, training loops, the Trainer of `transformers`."""
