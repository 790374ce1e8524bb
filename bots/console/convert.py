"""From a typed line to what somebody says: who, where, in reply to what. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from bots.console.commands import OWNER
from bots.console.rating import AGAIN, BAD, GOOD, USAGE
from core.messaging.feedback import rating_buttons as thumbs
from core.messaging.policy import command_table as commands
from core.storage.chat_history import FOLLOWED
from core.types import AGAIN as TRY_AGAIN
from core.types import DOWN, UP, ConversationKey, Message

PLATFORM, GROUP, YOU = "console", "group", "You"
EDIT, DELETE = "/edit", "/delete"
BY_BOT = "written by a bot"
NOTHING_TO_CHANGE = f"nothing of theirs stands here that {EDIT} or {DELETE} could be about"
NO_NEW_TEXT = f"write the new text behind {EDIT}"
ABOUT_ANSWERS = {GOOD: UP, BAD: DOWN, AGAIN: TRY_AGAIN}

# What stands in brackets behind a name is none of what is said.
# The thread of presses is nobody's to speak in.
_MARK = r"(?:bot|alone|in\s+(?!thumbs[,)])\w[\w.-]{0,39})"
_SAID = re.compile(
    rf"(?:(?P<name>[^\W\d_][\w-]{{0,30}})(?:\s+\((?P<marks>{_MARK}(?:,\s*{_MARK})*)\))?:\s+)?"
    r"(?P<reply>\^\s*)?(?P<text>.*)",
    re.DOTALL,
)
# A command for another bot is left to that. The second name is how a command is copied from Telegram.
_COMMAND = re.compile(r"/(?P<name>[A-Za-z_]+)(?i:@kimas(?:_bot)?)?(?:\s+(?P<text>.*))?", re.DOTALL)
_MENTION = re.compile(r"@kimas\b[,:]?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """What somebody says.

    `alone` is what only the bot reads, `thread` the thread it stands in, "" for none, `bot` says that another bot wrote
    it, and `replies` that it is a reply to what was said there last.
    """

    name: str
    text: str
    alone: bool = False
    thread: str = ""
    bot: bool = False
    replies: bool = False

    @property
    def author_id(self) -> str:
        """Who says it, as the configuration names people."""
        if self.name == YOU:
            return OWNER
        lowered = self.name.lower()
        # No name has a dot, so that this is nobody else either.
        return f"{lowered}." if lowered == OWNER else lowered

    @property
    def key(self) -> ConversationKey:
        """Where it is said. No name begins with an @, so that no private chat is the group."""
        return ConversationKey(PLATFORM, f"@{self.author_id}" if self.alone else GROUP, self.thread)

    @property
    def word(self) -> str:
        """The word with which it says something about a message, as a button or a menu does elsewhere, or ""."""
        first = self.text.lower().split(maxsplit=1)[:1]
        return next((one for one in (*ABOUT_ANSWERS, EDIT, DELETE) if [one] == first), "")

    @property
    def rest(self) -> str:
        """What stands behind the first word."""
        return "".join(self.text.split(maxsplit=1)[1:])


@dataclass(frozen=True, slots=True)
class Last:
    """What was said last in a place: its id, its text, and whether the bot said it."""

    id: str = ""
    text: str = ""
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Ignored:
    """A line that is no message, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """Somebody deleted a message."""

    id: str


def read(line: str) -> Line:
    """Return what a line says: `Ben: text`, with brackets behind the name for where, or any other text, by you."""
    found = _SAID.fullmatch(line)
    if found is None:
        return Line(YOU, line)
    marks = [mark.split() for mark in (found["marks"] or "").split(",")]
    return Line(
        name=found["name"] or YOU,
        text=found["text"],
        alone=["alone"] in marks,
        thread=next((mark[1] for mark in marks if mark[:1] == ["in"]), ""),
        bot=["bot"] in marks,
        replies=bool(found["reply"]),
    )


def to_message(line: Line, number: str, last: Last) -> Message | Ignored:
    """Return a line as a message with this id; `last` is what it replies to where it is a reply."""
    if line.bot:
        return Ignored(BY_BOT)
    before = last if line.replies else Last()
    order = _COMMAND.fullmatch(line.text)
    # Alone with the bot nothing else can be meant by it.
    command = order["name"].lower() if order and (line.alone or commands.find(order["name"].lower())) else ""
    return Message(
        id=number,
        key=line.key,
        author_id=line.author_id,
        author=line.name,
        text=(order["text"] or "") if order and command else _MENTION.sub("", line.text),
        sent_at=datetime.now(UTC),
        private=line.alone,
        addressed=bool(line.alone or command or before.ours or _MENTION.search(line.text)),
        command=command,
        reply_to=before.id,
        quoted=before.text,
        reference={FOLLOWED: True} if line.thread and not line.alone else {},
    )


def to_press(line: Line, number: str, answer: str) -> Message | Ignored:
    """Return what a line says about an answer as a press of a button. `answer` is the answer's id, "" for none."""
    if line.bot:
        return Ignored(BY_BOT)
    choice, given = ABOUT_ANSWERS[line.word], line.rest.lower()
    if given and (choice != DOWN or given not in thumbs.REASONS):
        return Ignored(USAGE)
    return thumbs.press(
        given or choice,
        answer,
        number=number,
        platform=PLATFORM,
        chat=line.key.chat,
        author_id=line.author_id,
        author=line.name,
        at=datetime.now(UTC),
        reference={},
        private=line.alone,
    )


def to_change(line: Line, number: str) -> Message | Deleted | Ignored:
    """Return what a line makes of a message of its author's, whose id is "" where there is none."""
    text = _MENTION.sub("", line.rest)
    if line.bot:
        return Ignored(BY_BOT)
    if not number:
        return Ignored(NOTHING_TO_CHANGE)
    if line.word == DELETE:
        return Deleted(number)
    if not text:
        return Ignored(NO_NEW_TEXT)
    return Message(
        id=number,
        key=line.key,
        author_id=line.author_id,
        author=line.name,
        text=text,
        sent_at=datetime.now(UTC),
        private=line.alone,
        reference={"edited": True},
    )


def typed(choice: str) -> str:
    """Return how a choice below an answer is typed."""
    return next((word for word, made in ABOUT_ANSWERS.items() if made == choice), f"{BAD} {choice}")
