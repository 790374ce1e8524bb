"""The command table as Discord's application commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.commands import Command

CHAT_INPUT, STRING = 1, 3
IN_SERVERS, WITH_THE_BOT = 0, 1
LONGEST_DESCRIPTION, LONGEST_TEXT = 100, 4000

# Discord has a list of commands, so nobody needs to say hello to see one.
ELSEWHERE = ("start",)
WITHOUT_TEXT = ("help", "forget")
# Only who asked sees the answer.
HIDDEN = ("help", "forget")


def application_commands(commands: Sequence[Command]) -> list[dict[str, Any]]:
    """Return the commands as Discord registers them: each with one text, which only `ask` must have."""
    return [
        {
            "name": command.name,
            "type": CHAT_INPUT,
            "description": command.summary[:LONGEST_DESCRIPTION],
            "options": [] if command.name in WITHOUT_TEXT else [_text(required=command.name == "ask")],
            "contexts": [IN_SERVERS, WITH_THE_BOT],
            "integration_types": [0],
        }
        for command in commands
        if command.name not in ELSEWHERE
    ]


def _text(*, required: bool) -> dict[str, Any]:
    return {
        "name": "question" if required else "text",
        "type": STRING,
        "description": "Your question" if required else "What the command is about",
        "required": required,
        "max_length": LONGEST_TEXT,
    }
