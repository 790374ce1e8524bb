"""Mastodon, and servers with its API: `adapter` listens, `convert` makes messages, `sink` posts through `client`."""
