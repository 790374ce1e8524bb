"""Text utilities: tokens, keywords, language, question detection, the message catalogue."""
