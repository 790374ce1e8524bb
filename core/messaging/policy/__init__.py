"""Who may do what, and where: commands, permissions, chat policy."""
