"""Calling people to a question: a message of the bot's own that mentions those who are configured and nobody else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from core.settings import HandoffSettings
from core.settings.messaging import EscalationReason
from core.text.formatting import format_code
from core.types import ESCALATION_COMMAND, ESCALATION_SUFFIX, RETRY_SUFFIX, Message, Reply

# In the reference of a call: whom its sink mentions, as the platform names them.
MENTIONED_USERS = "called"
# There too: that its question was a command, whose words not every platform shows to others.
HIDDEN_QUESTION = "unseen"
MAX_QUESTION_CHARS = 1000
_PLAIN_NAME = re.compile(r"[^\W_]+(?:[ '’-][^\W_]+)*")


def get_people(settings: HandoffSettings, platform: str) -> tuple[str, ...]:
    """Return whom to call on a platform, as it names them."""
    return tuple(person.partition(":")[2] for person in settings.people if person.partition(":")[0] == platform)


def escalation_message(question: Message, people: Sequence[str]) -> Message:
    """Return the call for a question; there is one for each, whoever asks for it."""
    message_id = f"{root_question_id(question.id)}{ESCALATION_SUFFIX}"
    reference = {name: value for name, value in question.reference.items() if name != "edited"}
    reference |= {MENTIONED_USERS: list(people), **({HIDDEN_QUESTION: True} if question.command else {})}
    return replace(question, id=message_id, command=ESCALATION_COMMAND, addressed=True, quoted="", reference=reference)


def root_question_id(message_id: str) -> str:
    """Return the id of the question that a second answer's question or a call belongs to."""
    return message_id.removesuffix(ESCALATION_SUFFIX).removesuffix(RETRY_SUFFIX)


def format_name(name: str) -> str:
    """Return a person's name as a call shows it: as code where it is more than words, for it may hold links."""
    return name if _PLAIN_NAME.fullmatch(name) else format_code(name)


def format_question(escalation: Message) -> str:
    """Return the question below a call, where people may not see it otherwise, as text that can do nothing."""
    is_hidden = escalation.reference.get(HIDDEN_QUESTION) and escalation.text.strip()
    return f"\n\n{format_code(escalation.text, MAX_QUESTION_CHARS)}" if is_hidden else ""


def mentioned_users(message: Message) -> tuple[str, ...]:
    """Return whom the reply to a message mentions; only calls made here mention anybody."""
    return tuple(map(str, message.reference.get(MENTIONED_USERS, ()))) if message.command == ESCALATION_COMMAND else ()


def escalation_reason(reply: Reply) -> EscalationReason | None:
    """Return why a reply is likely not to help, or None."""
    if reply.is_extractive and "write" in reply.trace.cut:
        return "quoted"
    if reply.citations or not reply.trace.query or reply.trace.strategy == "none":
        return None
    if reply.trace.dropped_citations:
        return "unsupported"
    return "nothing_found" if reply.is_extractive or not reply.passages else None
