"""Results at rest: versioned JSON, atomic files."""
