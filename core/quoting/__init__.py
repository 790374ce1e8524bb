"""The answer without a model: what can be quoted of passages, and which of it answers the question."""
