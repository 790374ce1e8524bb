"""How evidence is gathered: one module per strategy, each with `gather(question, parts, budget) -> Gathered`."""
