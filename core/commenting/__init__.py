"""The auto-comment mode: comments of the bot's own accord below posts, in time, few, and never one too many."""
