"""Which message a command is about: one that it replies to, that was chosen in a menu, or whose link was given."""

from __future__ import annotations

import re
from dataclasses import replace

from core.types import Message

# What the entry in the menu of a message is called, and its name where only programs see it.
LEARN_FROM_THIS, SHORTCUT_ID = "Learn from this", "kimas-learn"
# The link of a message ends with its id. Only ids as long as Discord's and Slack's belong to one message anywhere; any
# page's address may end with a shorter number, and a question may begin with one.
_MESSAGE_LINK = re.compile(r"https://\S+/([\d.]{15,})/?|([\d.]{15,})")


def resolve_target(message: Message) -> Message:
    """Return a command as a reply to the message whose link or id it begins with; what follows is its text.

    What is a reply already stays as it is, and so does what names no message.
    """
    first, *rest = message.text.split(maxsplit=1) or [""]
    match = None if message.reply_to else _MESSAGE_LINK.fullmatch(first)
    return replace(message, reply_to=match[1] or match[2], text="".join(rest)) if match else message


def parent_id(message: Message, target: Message | None) -> str:
    """Return the id of the message to which the one that a command is about replies, or nothing."""
    reply_to = target.reply_to if target else ""
    return reply_to or message.parent_id


def thread_root(message: Message, target: Message | None) -> str:
    """Return the id of the message that began the thread of the one that a command is about, where ids are shared."""
    thread = (target or message).key.thread
    return "" if target and target.id == thread else thread
