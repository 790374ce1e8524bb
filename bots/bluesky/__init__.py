"""Bluesky, and other servers of the AT Protocol: `adapter` polls, `convert` makes messages, `sink` posts."""
