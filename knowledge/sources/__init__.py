"""Bodies of knowledge: one module per kind, each behind the `Source` protocol."""
