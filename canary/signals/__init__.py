"""Models x samples -> the one table of signals that membership attacks read."""
