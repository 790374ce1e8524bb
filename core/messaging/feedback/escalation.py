"""Calling people to a question: a message of the bot's own that mentions those who are configured and nobody else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from core.settings import HandoffSettings
from core.settings.messaging import Occasion
from core.text.formatting import code
from core.types import CALL, ESCALATION_COMMAND, SECOND, Message, Reply

# In the reference of a call: whom its sink mentions, as the platform names them.
CALLED = "called"
# There too: that its question was a command, whose words not every platform shows to others.
UNSEEN = "unseen"
LONGEST_QUESTION = 1000
_PLAIN = re.compile(r"[^\W_]+(?:[ '’-][^\W_]+)*")


def people_of(settings: HandoffSettings, platform: str) -> tuple[str, ...]:
    """Return whom to call on a platform, as it names them."""
    return tuple(one.partition(":")[2] for one in settings.people if one.partition(":")[0] == platform)


def call_for(question: Message, people: Sequence[str]) -> Message:
    """Return the call for a question; there is one for each, whoever asks for it."""
    number = f"{first_id(question.id)}{CALL}"
    reference = {name: value for name, value in question.reference.items() if name != "edited"}
    reference |= {CALLED: list(people), **({UNSEEN: True} if question.command else {})}
    return replace(question, id=number, command=ESCALATION_COMMAND, addressed=True, quoted="", reference=reference)


def first_id(number: str) -> str:
    """Return the id of the question that a second answer's question or a call belongs to."""
    return number.removesuffix(CALL).removesuffix(SECOND)


def shown_name(name: str) -> str:
    """Return a person's name as a call shows it: as code where it is more than words, for it may hold links."""
    return name if _PLAIN.fullmatch(name) else code(name)


def asked(call: Message) -> str:
    """Return the question below a call, where people may not see it otherwise, as text that can do nothing."""
    unseen = call.reference.get(UNSEEN) and call.text.strip()
    return f"\n\n{code(call.text, LONGEST_QUESTION)}" if unseen else ""


def called(message: Message) -> tuple[str, ...]:
    """Return whom the reply to a message mentions; only calls made here mention anybody."""
    return tuple(map(str, message.reference.get(CALLED, ()))) if message.command == ESCALATION_COMMAND else ()


def occasion(reply: Reply) -> Occasion | None:
    """Return why a reply is likely not to help, or None."""
    if reply.extractive and "write" in reply.trace.cut:
        return "quoted"
    if reply.citations or not reply.trace.query or reply.trace.strategy == "none":
        return None
    if reply.trace.dropped_citations:
        return "unsupported"
    return "nothing_found" if reply.extractive or not reply.passages else None
