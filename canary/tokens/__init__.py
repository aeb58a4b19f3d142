"""The tokenizer seam, and the tree that a format becomes under a tokenizer."""
