"""From an answer back to its passages: citation markers, and whether the passages support it."""
