"""The walks over one tree: what was seen, and at what cost."""
