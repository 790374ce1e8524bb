"""Slash commands: the dispatcher and the handlers."""
