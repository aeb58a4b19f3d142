"""Results at rest: versioned JSON, atomic files, shards of long runs."""
