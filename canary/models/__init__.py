"""The seam to anything that assigns probabilities, and its adapters."""
