"""The operator's page: what the bot did and why, in a browser (docs/operate.md)."""
