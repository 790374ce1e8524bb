"""The kinds of silence: a recorded reason names chats and numbers, its kind is one of a few words."""

from __future__ import annotations

OTHER = "other"
# What a reason of each kind says, the first that fits: the kind, then words of which one is in the reason.
SKIP_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("feedback", ("feedback on ", "a press under", " answered once more")),
    ("wordless", ("without words, and the bot", "told lately that it cannot be read", "the post has no words")),
    ("not_addressed", ("the bot was not addressed",)),
    ("switched_off", ("is switched off", "are switched off", "is not among gate.chats")),
    ("paused", ("is paused",)),
    ("other_bot", ("written by another bot", "a command for another bot", "another bot of ours")),
    ("somebody_else", ("somebody else",)),
    ("people", ("a human replied", "a human is talking with the asker", "the asker took the question back")),
    ("rate", ("(gate.cooldown_s)", "(gate.answers_in_10_min)", "(auto_comment.per_hour)", "quiet hours (")),
    ("unsure", ("not sure enough to help", "outside our knowledge")),
    ("repeated", ("answered in this chat before",)),
    ("not_judged", ("knowledge to judge by", "knowledge could not be told", "knowledge to compare the post with")),
    ("too_late", ("too old to be answered", "(auto_comment.deadline_s)", "posted before a restart")),
    ("topic", ("auto_comment.include", "(auto_comment.exclude)")),
    ("rivals", ("replies of bots below the post",)),
    ("unfit", ("the comment is empty", "did not write it to its end", "(auto_comment.needs_citation)")),
    ("deleted", ("the question was deleted",)),
    ("kept", ("kept as an answer",)),
    ("not_a_question", ("not a question", "a courtesy", "too short", "no words", "a question about people or plans")),
)


def get_skip_kind(reason: str) -> str:
    """Return the kind of a recorded reason for silence, `other` for one of no known kind."""
    return next((kind for kind, words in SKIP_KINDS if any(word in reason for word in words)), OTHER)
