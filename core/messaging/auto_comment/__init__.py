"""The auto-comment mode: one comment under a post."""
