"""How evidence is gathered: one module per strategy, each with `gather(question, deps, budget) -> RetrievalResult`."""
