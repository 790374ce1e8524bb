"""Feedback on answers: ratings, retries, escalation to people, taught answers."""
