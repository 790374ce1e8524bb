"""The agents of one answer, each a module with one job (KIMAs section 3)."""
