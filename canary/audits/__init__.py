"""One call per question: exposure, and the whole audit."""
