"""Many models on many splits -> signals."""
