"""What the gate looks at before the bot speaks unasked: the words, the knowledge, and what was said in the chat."""
