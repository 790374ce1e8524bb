"""From passages to evidence, and from an answer back to its citations."""
