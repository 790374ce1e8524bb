"""Silence: every reason for it, and a reason with its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum


class SkipReason(Enum):
    """Why the bot is silent: a label for metrics, and a text for people with placeholders for its values."""

    NOT_ADDRESSED = "not_addressed", "the bot was not addressed"
    FOR_ASKER_ONLY = "not_addressed", "the bot was not addressed, and answers askers alone there (chats.{chat}.answers)"
    ATTACHMENT_ONLY = "no_text", "{attachment} without text, and the bot was not addressed"
    NOTICE_GIVEN = "no_text", "{attachment}, and its author was recently told that it cannot be read"
    STICKER = "other", "{attachment}"
    EDIT = "other", "a new text of an earlier message"
    EMPTY_POST = "no_text", "the post has no text"
    PRIVATE_CHATS_OFF = "switched_off", "private chats are switched off (gate.private)"
    CHAT_NOT_LISTED = "switched_off", "{chat} is not among gate.chats"
    CHAT_OFF = "switched_off", "{chat} is switched off (gate.mode)"
    RIGHTS_CHANGED = "switched_off", "who may see what has changed while it was answered"
    PAUSED = "paused", "{chat} is paused by a command {until}"
    WRITTEN_BY_BOT = "other_bot", "written by another bot"
    COMMAND_FOR_OTHER_BOT = "other_bot", "a command for another bot"
    OTHER_BOT_ADDRESSED = "other_bot", "another bot of ours was addressed"
    OTHER_BOT_FIRST = "other_bot", "another bot of ours took it first"
    OTHER_BOT_NAMED = "other_bot", "another bot of ours was named"
    REPLY_TO_OTHER_BOT = "other_bot", "a reply to another bot of ours"
    CONTINUES_WITH_OTHER_BOT = "other_bot", "it continues a conversation with another bot of ours"
    PERSON_MENTIONED = "somebody_else", "somebody else is mentioned"
    PERSON_NAMED = "somebody_else", "somebody else is called by name"
    REPLY_TO_PERSON = "somebody_else", "a reply to somebody else"
    HUMAN_REPLIED = "human_activity", "a human replied"
    HUMAN_DIALOGUE = "human_activity", "people are already talking with the asker"
    TAKEN_BACK = "human_activity", "the asker took the question back"
    COOLDOWN = "rate_limit", "the bot spoke unprompted less than {seconds:g} s ago (gate.cooldown_s)"
    ANSWER_LOOP = "rate_limit", "{count} answers to this account within ten minutes (gate.answers_in_10_min)"
    COMMENT_LIMIT = "rate_limit", "{count} comments within the last hour (auto_comment.per_hour)"
    QUIET_HOURS = "rate_limit", "quiet hours ({hours})"
    UNSURE = "unsure", "not sure enough to help: {probability:.2f}, threshold {threshold:.2f} ({explanation})"
    MODEL_DECLINED = "unsure", "the model judged it: {opinion} ({probability:.2f}, threshold {threshold:.2f})"
    IRRELEVANT_POST = "unsure", "outside our knowledge: {score:.2f}, at least {minimum:g} is required"
    NOTHING_FOUND = "no_answer", "nobody had asked the bot, and it found no answer"
    REPEATED = "repeated", "the same was answered in this chat before"
    NO_KNOWLEDGE = "not_judged", "there is no knowledge to judge by"
    RELEVANCE_UNKNOWN = "not_judged", "it could not be computed whether this is about the knowledge"
    NO_KNOWLEDGE_FOR_POST = "not_judged", "no knowledge to compare the post with (auto_comment.min_relevance)"
    TOO_OLD = "too_late", "it is too old for an unprompted answer"
    ENTRY_TOO_OLD = "too_late", "too old to be answered: the entry appeared while the feed was not fetched"
    DEADLINE = "too_late", "not finished within {seconds:g} s after the post (auto_comment.deadline_s)"
    BEFORE_RESTART = "too_late", "the comment was posted before a restart"
    TOPIC_NOT_INCLUDED = "topic", "another topic: none of auto_comment.include is in the post"
    TOPIC_EXCLUDED = "topic", "the post mentions {word!r} (auto_comment.exclude)"
    AUTHOR_NOT_AGREED = "not_addressed", "its author has not agreed to comments (bluesky.comment_below)"
    COMPETITORS = "competing_bots", "{count} replies of bots below the post already ({limit} at most)"
    COMPETITORS_ON_NETWORK = "competing_bots", "the network has enough replies of bots below this post"
    EMPTY_COMMENT = "unfit", "the comment is empty"
    UNFINISHED_COMMENT = "unfit", "the language model did not finish it"
    UNCITED_COMMENT = "unfit", "the comment would cite nothing (auto_comment.needs_citation)"
    WORD_WITHHELD = "unfit", "it has something that may not leave ({rule})"
    MODERATION_FLAGGED = "unfit", "the moderation endpoint flagged it: {categories} (outgoing.moderation)"
    MODERATION_FAILED = "unfit", "it could not be moderated (outgoing.moderation.on_failure)"
    COMMENT_FAILED = "other", "the comment failed: {error}"
    COMMENT_REFUSED = "other", "{error}"
    POST_DELETED = "deleted", "{error}"
    THREAD_CLOSED = "deleted", "the thread is {state} now"
    DELETED = "deleted", "the question was deleted before it was answered"
    DRAFTS_GO_NOWHERE = "switched_off", "no chat for drafts is configured (gate.drafts_to), or it is this one"
    DRAFTS_SEEN_BY_OTHERS = "switched_off", "the chat for drafts may not see all that this chat may (audience)"
    DRAFTS_NOT_IN_CLOSED_PLACES = "switched_off", "a question in a closed thread, or for followers, gets no draft"
    DRAFT_DROPPED = "draft_dropped", "the team dropped the draft"
    DRAFT_FORGOTTEN = "deleted", "what it was about is forgotten"
    DRAFT_EXPIRED = "too_late", "the team did not decide about the draft within {hours:g} h"
    ANSWER_CAPTURED = "taught_answer", "kept as an answer to be reviewed"
    RATED = "feedback", "feedback on {question}: {rating}"
    RETRIED = "feedback", "{question} is answered once more"
    NOT_RETRIED = "feedback", "{question} is not answered once more"
    STOPPED = "stopped", "the answer to {question} is stopped"
    NOT_STOPPED = "feedback", "the answer to {question} is not stopped"
    NOTHING_TO_RATE = "feedback", "the button is not below an answer of ours"
    NO_WORDS = "not_a_question", "no words"
    CODE_ONLY = "not_a_question", "no words but code or links"
    COURTESY = "not_a_question", "a courtesy"
    TOO_SHORT = "not_a_question", "too short"
    STATEMENT = "not_a_question", "it asks nothing: {probability:.2f}, threshold {threshold:.2f} ({explanation})"

    def __init__(self, label: str, text: str) -> None:
        self.label = label
        self.text = text


@dataclass(frozen=True, slots=True)
class Skip:
    """A silence with its reason and the values of its text, which is for the journal. Created by `skip`."""

    reason: SkipReason
    values: Mapping[str, object]

    def __str__(self) -> str:
        return self.reason.text.format(**self.values)

    def without_opinion(self) -> Skip:
        """Return the same without a model's words, which may repeat those of people."""
        return replace(self, values={**self.values, "opinion": "silent"}) if "opinion" in self.values else self


def skip(reason: SkipReason, **values: object) -> Skip:
    """Return a silence for a reason, with the values of its text.

    >>> str(skip(SkipReason.CHAT_NOT_LISTED, chat="telegram:5"))
    'telegram:5 is not among gate.chats'
    """
    return Skip(reason, values)
