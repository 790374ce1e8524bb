"""Values that all parts of the answering pipeline share."""
