"""A result made readable: HTML and figures."""
