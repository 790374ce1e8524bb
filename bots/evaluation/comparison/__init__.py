"""`kimas eval compare`: the same questions through several strategies, judged side by side (SRSA's evaluation)."""
