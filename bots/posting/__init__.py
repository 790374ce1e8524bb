"""What the replies of every platform have in common: a post whose outcome is known, patience, and showing states."""
