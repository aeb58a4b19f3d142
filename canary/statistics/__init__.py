"""Numbers to exposure, intervals and p-values. Pure functions of arrays."""
