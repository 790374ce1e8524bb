"""Which message a command is about: one that it replies to, that was chosen in a menu, or whose link was given."""

from __future__ import annotations

import re
from dataclasses import replace

from core.types import Message

# What the entry in the menu of a message is called, and its name where only programs see it.
LEARN_FROM_THIS, SHORTCUT = "Learn from this", "kimas-learn"
# In the reference of a command that was given in such a menu: the message to which the chosen one replies.
BEFORE = "before"
# The link of a message ends with its id. Only ids as long as Discord's and Slack's belong to one message anywhere; any
# page's address may end with a shorter number, and a question may begin with one.
_POINTED = re.compile(r"https://\S+/([\d.]{15,})/?|([\d.]{15,})")


def pointed(message: Message) -> Message:
    """Return a command as a reply to the message whose link or id it begins with; what follows is its text.

    What is a reply already stays as it is, and so does what names no message.
    """
    first, *rest = message.text.split(maxsplit=1) or [""]
    found = None if message.reply_to else _POINTED.fullmatch(first)
    return replace(message, reply_to=found[1] or found[2], text="".join(rest)) if found else message


def before(message: Message, chosen: Message | None) -> str:
    """Return the id of the message to which the one that a command is about replies, or nothing."""
    known = chosen.reply_to if chosen else ""
    return known or str(message.reference.get(BEFORE, ""))


def began(message: Message, chosen: Message | None) -> str:
    """Return the id of the message that began the thread of the one that a command is about, where ids are shared."""
    thread = (chosen or message).key.thread
    return "" if chosen and chosen.id == thread else thread
