"""Text with holes, and the exact space of its fills."""
