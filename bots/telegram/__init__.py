"""Telegram through aiogram: `adapter` (open, listen, close), `convert` (event to message, reply to markup), `sink`."""
