"""What KIMAs knows of languages: tokens, questions, follow-ups, courtesies, keywords, facts. English and Chinese."""
