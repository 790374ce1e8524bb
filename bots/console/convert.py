"""Converts typed lines to messages: who writes, where, in reply to what. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from core.messaging.feedback import rating_buttons
from core.messaging.policy import command_table as commands
from core.types import DOWN, RETRY as TRY_AGAIN, UP, ConversationKey, Message, ThreadState

PLATFORM = "console"
GROUP_CHAT = "group"
DEFAULT_SPEAKER = "You"
# `kimas chat`: the conversation of one person, who owns the bot.
TERMINAL_KEY = ConversationKey(PLATFORM, "terminal")
OWNER_ID = "owner"
GOOD = "/good"
BAD = "/bad"
AGAIN = "/again"
HINT = f"{GOOD}, {BAD} or {AGAIN} say what an answer was worth."
NO_ANSWER = "There is no answer yet that this could be about."
USAGE = f"Write it as {GOOD}, {BAD} or {BAD} with one of: {', '.join(rating_buttons.REASONS)}."
EDIT = "/edit"
DELETE = "/delete"
WRITTEN_BY_BOT = "written by a bot"
NOTHING_TO_CHANGE = f"nothing of theirs stands here that {EDIT} or {DELETE} could be about"
NO_NEW_TEXT = f"write the new text behind {EDIT}"
RATING_CHOICES = {GOOD: UP, BAD: DOWN, AGAIN: TRY_AGAIN}

# Brackets behind a name are not part of the text.
# Nobody writes in the thread of button presses.
_MARKER_PATTERN = r"(?:bot|alone|in\s+(?!thumbs[,)])\w[\w.-]{0,39})"
_LINE_PATTERN = re.compile(
    rf"(?:(?P<name>[^\W\d_][\w-]{{0,30}})(?:\s+\((?P<marks>{_MARKER_PATTERN}(?:,\s*{_MARKER_PATTERN})*)\))?:\s+)?"
    r"(?P<reply>\^\s*)?(?P<text>.*)",
    re.DOTALL,
)
# A command for another bot is left to that. The second name is how a command is copied from Telegram.
_COMMAND_PATTERN = re.compile(r"/(?P<name>[A-Za-z_]+)(?i:@kimas(?:_bot)?)?(?:\s+(?P<text>.*))?", re.DOTALL)
_MENTION_PATTERN = re.compile(r"@kimas\b[,:]?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TypedLine:
    """What somebody says.

    `is_private` means that only the bot reads it, `thread` is its thread or "", `is_bot` means that another bot wrote
    it, and `is_reply` that it replies to the last message there.
    """

    name: str
    text: str
    is_private: bool = False
    thread: str = ""
    is_bot: bool = False
    is_reply: bool = False

    @property
    def author_id(self) -> str:
        """Who says it, as the configuration names people."""
        if self.name == DEFAULT_SPEAKER:
            return OWNER_ID
        lower_name = self.name.lower()
        # No name has a dot, so that this is nobody else either.
        return f"{lower_name}." if lower_name == OWNER_ID else lower_name

    @property
    def key(self) -> ConversationKey:
        """Where it is said. No name begins with an @, so that no private chat is the group."""
        return ConversationKey(PLATFORM, f"@{self.author_id}" if self.is_private else GROUP_CHAT, self.thread)

    @property
    def action(self) -> str:
        """The word with which it says something about a message, as a button or a menu does elsewhere, or ""."""
        first = self.text.lower().split(maxsplit=1)[:1]
        return next((command for command in (*RATING_CHOICES, EDIT, DELETE) if [command] == first), "")

    @property
    def argument(self) -> str:
        """The text after the first word."""
        return "".join(self.text.split(maxsplit=1)[1:])


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The last message in a place: its id, its text, and whether the bot said it."""

    id: str = ""
    text: str = ""
    is_from_bot: bool = False


@dataclass(frozen=True, slots=True)
class IgnoredLine:
    """A line that is no message, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Deletion:
    """Somebody deleted a message."""

    id: str


def to_typed_line(line: str) -> TypedLine:
    """Return what a line says: `Ben: text`, with brackets behind the name for where, or any other text, by you."""
    match = _LINE_PATTERN.fullmatch(line)
    if match is None:
        return TypedLine(DEFAULT_SPEAKER, line)
    markers = [marker.split() for marker in (match["marks"] or "").split(",")]
    return TypedLine(
        name=match["name"] or DEFAULT_SPEAKER,
        text=match["text"],
        is_private=["alone"] in markers,
        thread=next((marker[1] for marker in markers if marker[:1] == ["in"]), ""),
        is_bot=["bot"] in markers,
        is_reply=bool(match["reply"]),
    )


def to_message(line: TypedLine, message_id: str, last_message: LastMessage) -> Message | IgnoredLine:
    """Return a line as a message with this id; a reply refers to `last_message`."""
    if line.is_bot:
        return IgnoredLine(WRITTEN_BY_BOT)
    quoted_message = last_message if line.is_reply else LastMessage()
    command_match = _COMMAND_PATTERN.fullmatch(line.text)
    # Alone with the bot nothing else can be meant by it.
    command = (
        command_match["name"].lower()
        if command_match and (line.is_private or commands.get_command(command_match["name"].lower()))
        else ""
    )
    return replace(
        _to_base_message(line, message_id),
        text=(command_match["text"] or "") if command_match and command else _MENTION_PATTERN.sub("", line.text),
        addressed=bool(line.is_private or command or quoted_message.is_from_bot or _MENTION_PATTERN.search(line.text)),
        command=command,
        reply_to=quoted_message.id,
        quoted=quoted_message.text,
        thread_state=ThreadState(is_shared=True if line.thread and not line.is_private else None),
    )


def _to_base_message(line: TypedLine, message_id: str) -> Message:
    now = datetime.now(UTC)
    return Message(message_id, line.key, line.author_id, line.name, line.text, now, private=line.is_private)


def to_rating(line: TypedLine, message_id: str, answer_id: str) -> Message | IgnoredLine:
    """Return what a line says about an answer as a press of a button. `answer_id` is "" for none."""
    if line.is_bot:
        return IgnoredLine(WRITTEN_BY_BOT)
    choice = RATING_CHOICES[line.action]
    reason = line.argument.lower()
    if reason and (choice != DOWN or reason not in rating_buttons.REASONS):
        return IgnoredLine(USAGE)
    return rating_buttons.to_press(_to_base_message(line, message_id), reason or choice, answer_id)


def to_change(line: TypedLine, message_id: str) -> Message | Deletion | IgnoredLine:
    """Return what a line makes of a message of its author's, whose id is "" where there is none."""
    text = _MENTION_PATTERN.sub("", line.argument)
    if line.is_bot:
        return IgnoredLine(WRITTEN_BY_BOT)
    if not message_id:
        return IgnoredLine(NOTHING_TO_CHANGE)
    if line.action == DELETE:
        return Deletion(message_id)
    if not text:
        return IgnoredLine(NO_NEW_TEXT)
    return replace(_to_base_message(line, message_id), text=text, is_edit=True)


def to_rating_command(choice: str) -> str:
    """Return how a choice below an answer is typed."""
    return next(
        (command for command, mapped_choice in RATING_CHOICES.items() if mapped_choice == choice), f"{BAD} {choice}"
    )
