"""Feedback on answers: ratings, retries, handoff to people, taught answers."""
