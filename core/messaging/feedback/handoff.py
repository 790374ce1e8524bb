"""Calling people to a question, and finding the message that such a command is about.

The call is a message of the bot's own. It mentions the people who are configured, and nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from core.catalogue import ENGLISH
from core.formatting import format_code
from core.settings import HandoffSettings
from core.types import FOR_ASKER, HANDOFF_COMMAND, ConversationKey, Message, Origin, PlatformName

MAX_QUESTION_CHARS = 1000
_PLAIN_NAME = re.compile(r"[^\W_]+(?:[ '’-][^\W_]+)*")

# What the entries in the menu of a message are called, and their names where only programs see them.
LEARN_FROM_THIS = ENGLISH.learn_from_this
SHORTCUT_ID = "kimas-learn"
ASK_ABOUT_THIS = ENGLISH.ask_about_this
ASK_SHORTCUT_ID = "kimas-ask"

# The link of a message ends with its id. Only ids as long as those of Discord and Slack are unique: any page's address
# may end with a shorter number, and a question may begin with one.
_MESSAGE_LINK = re.compile(r"https://\S+/([\d.]{15,})/?|([\d.]{15,})")


def get_people(settings: HandoffSettings, key: ConversationKey) -> tuple[str, ...]:
    """Return the ids of the people to mention in a chat: those of its network."""
    network = PlatformName(key.platform, key.chat).network
    return tuple(person.id for person in map(PlatformName.parse, settings.people) if person.network == network)


def make_handoff(question: Message, people: Sequence[str]) -> Message:
    """Return the handoff of a question. Each question has only one, no matter who requests it."""
    return replace(
        question,
        # A retry of the question has the same id, so that the journal accepts only one handoff.
        id=f"{question.question_id}~h",
        origin=Origin(
            root_id=question.question_id,
            purpose="escalation",
            mentioned_users=tuple(people),
            is_question_hidden=bool(question.command),
        ),
        command=HANDOFF_COMMAND,
        addressed=True,
        quoted="",
        reference={name: value for name, value in question.reference.items() if name != FOR_ASKER},
        is_edit=False,
        # Not every platform shows the text of a command to others.
    )


def format_name(name: str) -> str:
    """Return a person's name for an handoff: as code if it is more than plain words, because it may hold links."""
    return name if _PLAIN_NAME.fullmatch(name) else format_code(name)


def format_question(handoff: Message) -> str:
    """Return the question, as code, for a handoff whose readers may not see it otherwise."""
    is_hidden = handoff.origin.is_question_hidden and handoff.text.strip()
    return f"\n\n{format_code(handoff.text, MAX_QUESTION_CHARS)}" if is_hidden else ""


def mentioned_users(message: Message) -> tuple[str, ...]:
    """Return the people whom the reply to a message mentions; only handoffs mention anybody."""
    return message.origin.mentioned_users if message.origin.purpose == "escalation" else ()


def with_author_of_quotation(message: Message) -> Message:
    """Return a message whose quotation is learned from as one of whose words these are, if that is one person."""
    match message.quoted_authors:
        case (author_id,):
            return replace(message, author_id=author_id, author="")
    return message


def with_author_of_words(message: Message) -> Message:
    """Return a message as one of whose words it has: a forward is of whom it is forwarded from, if that is one person.

    What stands beside a quotation is its sender's.
    """
    return with_author_of_quotation(message) if message.is_forwarded and not message.quoted else message


def resolve_target(message: Message) -> Message:
    """Return a command as a reply to the message whose link or id it begins with; what follows is its text.

    A command that is a reply already, or that names no message, stays as it is.
    """
    first, *rest = message.text.split(maxsplit=1) or [""]
    match = None if message.reply_to else _MESSAGE_LINK.fullmatch(first)
    return replace(message, reply_to=match[1] or match[2], text="".join(rest)) if match else message
