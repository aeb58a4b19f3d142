"""Independent jobs, run here or on a cluster."""
