"""How evidence is gathered: one function per strategy, all of the same signature."""
