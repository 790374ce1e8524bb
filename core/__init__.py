"""The platform-neutral heart: from a message to a cited reply. Imports neither `bots` nor `knowledge`."""
