"""A group played in the terminal as a platform: lines that are typed, and what is printed below them."""
