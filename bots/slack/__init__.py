"""Slack through slack-bolt: `adapter` (open, listen, close), `convert` (event to message), `sink` (reply to posts)."""
