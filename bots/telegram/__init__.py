"""Telegram through aiogram: `adapter` (open, listen, close), `convert` (event to message), `render`, `sink`."""
