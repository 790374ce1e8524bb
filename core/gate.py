"""The gate: should the bot speak? Cheap tests only; every silence has a reason that goes into the journal."""

from __future__ import annotations

from dataclasses import dataclass

from core.settings import GateSettings
from core.types import Message


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to speak. `reason` says why not and is empty otherwise."""

    speak: bool
    reason: str = ""


def decide(message: Message, settings: GateSettings) -> Verdict:
    """Judge one message by where it was said and whether the bot was meant."""
    if message.private and not settings.private:
        return Verdict(False, "private chats are switched off (gate.private)")
    chat = f"{message.key.platform}:{message.key.chat}"
    if not message.private and settings.chats and chat not in settings.chats:
        return Verdict(False, f"{chat} is not among gate.chats")
    if not message.addressed:
        return Verdict(False, "the bot was not addressed")
    return Verdict(True)
