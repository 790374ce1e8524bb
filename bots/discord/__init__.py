"""Discord through discord.py: `adapter` (open, listen, close), `convert` (event to message), `render`, `sink`."""
