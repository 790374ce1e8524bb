"""Looking after the bot by slash commands: who may, what that changes, and the record of it."""
