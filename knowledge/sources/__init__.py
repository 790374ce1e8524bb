"""Stored sources: one module or folder per kind, each behind the `Source` protocol."""
