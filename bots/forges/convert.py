"""From an issue, a comment or a reaction to a message: who wrote what where, and whether the bot was meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from bots.common.events import IgnoredEvent
from bots.forges.client import Account, Comment, Identity, Reaction, Topic
from bots.forges.visible_text import (
    mentions,
    remove_comments,
    remove_mentions,
    shorten_text,
    split_pictures,
    split_quotes,
)
from core.messaging.feedback.rating_buttons import to_reaction
from core.types import ConversationKey, Message, ThreadState
from core.types.messages import OWN_COMMENT_MARKER

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,40})(?:\s+(.*))?", re.DOTALL)
_WORDS = re.compile(r"[^\W_]+")
# So many words of a comment in a row are a quotation of it.
MIN_QUOTED_WORDS = 3


def get_skip_reason(author: Account, text: str, me: Identity, *, is_by_bot: bool) -> str:
    """Return why nothing that an account wrote is answered, or ""."""
    if author.login.casefold() == me.login.casefold() or OWN_COMMENT_MARKER in text:
        return "written by the bot itself"
    return "written by a bot" if is_by_bot or not author.login else ""


def get_closed_reason(topic: Topic) -> str:
    """Return why a topic takes no answers, or ""."""
    if topic.is_confidential:
        return "confidential"
    if topic.is_locked:
        return "locked"
    return "" if topic.is_open else "closed"


def get_answered_reason(topic: Topic, message: Message) -> str:
    """Return why nothing more is said unasked, or "": people have chosen an answer."""
    return "has a chosen answer" if topic.is_answered and not message.addressed else ""


def is_own(comment: Comment, me: Identity) -> bool:
    """Return whether a comment is an answer of the bot's."""
    return comment.author.login.casefold() == me.login.casefold() and OWN_COMMENT_MARKER in comment.text


def has_answer_of_people(topic: Topic, comments: Sequence[Comment], me: Identity) -> bool:
    """Return whether somebody else than the author has said anything below a topic."""
    return any(
        not _is_same(comment.author, topic.author)
        and not get_skip_reason(comment.author, "", me, is_by_bot=comment.is_by_bot)
        for comment in comments
    )


def to_message(platform: str, topic: Topic, me: Identity) -> Message:
    """Convert a topic. It counts as sent when its turn has come: nobody has moved on since.

    It gives no command: forges open issues in somebody's name with the words of others, from a comment, a task of a
    list, or as a copy, and do not say so. The author's id is their number. `reference` holds what a reply needs:
    `project`, `topic`, `comment` (0 for none).
    """
    words, quoted = split_quotes(remove_comments(topic.text))
    is_addressed = mentions(topic.text, me.name) or mentions(topic.title, me.name)
    title, further_attachments = split_pictures(remove_mentions(topic.title, me.name))
    words, attachments = split_pictures(words)
    body = remove_mentions(words, me.name)
    return Message(
        topic.path,
        ConversationKey(platform, topic.project, topic.path),
        str(topic.author.number),
        topic.author.login,
        shorten_text(f"{title}\n\n{body}".strip()),
        datetime.now(UTC),
        addressed=is_addressed,
        quoted=shorten_text(quoted),
        bot=me.login,
        reference={"project": topic.project, "topic": topic.path, "comment": 0},
        attachments=(*attachments, *further_attachments),
        is_forwarded=_may_be_edited(topic),
        is_post=False,
        thread_state=ThreadState(is_topic=True),
    )


def to_comment_message(
    platform: str,
    topic: Topic,
    comment: Comment,
    above: Sequence[Comment],
    me: Identity,
    *,
    is_edit: bool,
) -> Message:
    """Convert a comment with those above it, the first one at their head.

    Ids of people are their numbers, those of bots like this one their logins.
    """
    words, quoted = split_quotes(remove_comments(comment.text))
    own_comments = [other for other in above if is_own(other, me)]
    answers = [other for other in reversed(above) if OWN_COMMENT_MARKER in other.text and _is_quoted(quoted, other)]
    quoted_comment = next((own for own in answers if is_own(own, me)), None)
    is_addressed = quoted_comment is not None or mentions(comment.text, me.name)
    words, attachments = split_pictures(words)
    command, text = _split_command(remove_mentions(words, me.name), is_addressed=is_addressed)
    # Below an answer the opening post is a part of the conversation.
    opening_post = "" if own_comments else f"{topic.title}\n\n{remove_comments(topic.text)}".strip()
    is_of_topic = bool(opening_post) and not quoted and not _is_same(topic.author, comment.author)
    quoted_authors = [str(topic.author.number)] if is_of_topic else [other.author.login.lower() for other in answers]
    conversation, parent = _place(topic, above, me)
    return Message(
        comment.id,
        ConversationKey(platform, topic.project, conversation),
        str(comment.author.number),
        comment.author.login,
        shorten_text(text),
        datetime.fromtimestamp(comment.created_at, UTC),
        addressed=is_addressed,
        command=command,
        reply_to=quoted_comment.id if quoted_comment else parent,
        quoted=shorten_text(quoted or opening_post),
        quoted_authors=tuple(dict.fromkeys(quoted_authors)),
        bot=me.login,
        reference={"project": topic.project, "topic": topic.path, "comment": comment.number},
        attachments=attachments,
        is_edit=is_edit,
        is_forwarded=_may_be_edited(comment),
        is_post=False,
        thread_state=ThreadState(is_shared=True if own_comments else None, is_topic=True),
    )


def to_rating(
    platform: str, project: str, comment: Comment, reaction: Reaction, me: Identity, *, is_removed: bool = False
) -> Message | IgnoredEvent:
    """Convert a reaction to an answer."""
    if reason := get_skip_reason(reaction.author, "", me, is_by_bot=reaction.is_by_bot):
        return IgnoredEvent(reason)
    press = Message(
        f"reaction {reaction.id}{' off' if is_removed else ''}",
        ConversationKey(platform, project),
        str(reaction.author.number),
        reaction.author.login,
        "",
        datetime.now(UTC),
        bot=me.login,
        reference={"project": project, "topic": comment.topic_path, "comment": comment.number},
    )
    rating = to_reaction(press, reaction.emoji, comment.id, is_removed=is_removed)
    return rating or IgnoredEvent("a reaction that rates nothing")


def _is_same(one: Account, other: Account) -> bool:
    return one.number == other.number if one.number else one.login == other.login


def _may_be_edited(item: Topic | Comment) -> bool:
    """Return whether the words may be another's: maintainers edit what others wrote, and no forge says who did.

    The two times of what is new differ by a moment on GitLab.
    """
    return item.is_relayed or item.updated_at >= item.created_at + 1


def _place(topic: Topic, above: Sequence[Comment], me: Identity) -> tuple[str, str]:
    """Return the conversation that a comment belongs to, and the id of the message that it replies to.

    Below an answer to a discussion, the thread goes on with that conversation.
    """
    discussion, _, thread = topic.path.rpartition("/") if topic.path.count("/") > 1 else (topic.path, "", "")
    if not thread or (above and is_own(above[0], me)):
        return discussion, discussion
    return topic.path, above[0].id if above else discussion


def _split_command(text: str, *, is_addressed: bool) -> tuple[str, str]:
    match = _COMMAND.fullmatch(text) if is_addressed else None
    return (match[1].lower(), match[2] or "") if match else ("", text)


def _is_quoted(quoted: str, comment: Comment) -> bool:
    """Return whether a quotation begins with a line of a comment, or a part of one, whatever its markup."""
    first_line = next((line for line in quoted.split("\n") if line.strip()), "")
    quoted_words = _WORDS.findall(first_line)
    lines = [_WORDS.findall(line) for line in comment.text.split("\n")]
    if not quoted_words or quoted_words in lines:
        return bool(quoted_words)
    words = f" {' '.join(quoted_words)} "
    return len(quoted_words) >= MIN_QUOTED_WORDS and any(words in f" {' '.join(line)} " for line in lines)
