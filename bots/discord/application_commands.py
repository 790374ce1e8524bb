"""The command table as Discord's application commands, and what is given back to us of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.messaging.feedback.message_reference import LEARN_FROM_THIS
from core.messaging.policy.command_table import Argument, Command, find

CHAT_INPUT, ON_MESSAGES = 1, 3
STRING, INTEGER, NUMBER = 3, 4, 10
IN_SERVERS, WITH_THE_BOT = 0, 1
LONGEST_DESCRIPTION, LONGEST_TEXT, MOST_CHOICES = 100, 4000, 25
ADMINISTRATOR, MANAGE_GUILD = 1 << 3, 1 << 5

# Discord has a list of commands, so nobody needs to say hello to see one.
ELSEWHERE = ("start",)


def application_commands(commands: Sequence[Command]) -> list[dict[str, Any]]:
    """Return the commands as Discord registers them.

    Those of who looks after the bot are shown, to begin with, to those who manage the server: a server's settings may
    show them to others. What they may do is checked when they do it.
    """
    return [
        {
            "name": command.name,
            "type": CHAT_INPUT,
            "description": command.summary[:LONGEST_DESCRIPTION],
            "options": [_option(one) for one in command.arguments],
            "contexts": [IN_SERVERS, WITH_THE_BOT],
            "integration_types": [0],
            **({} if command.who == "everyone" else {"default_member_permissions": str(MANAGE_GUILD)}),
        }
        for command in commands
        if command.name not in ELSEWHERE
    ]


def message_commands() -> list[dict[str, Any]]:
    """Return the entries in the menu of every message, below Apps; who may use them is checked when they do."""
    where = {"contexts": [IN_SERVERS, WITH_THE_BOT], "integration_types": [0]}
    return [{"name": LEARN_FROM_THIS, "type": ON_MESSAGES, **where}]


def is_hidden(name: str) -> bool:
    """Say whether a command's answer is for the asker's eyes alone."""
    command = find(name)
    return command is not None and command.hidden


def manages(permissions: object) -> bool:
    """Say whether the permissions of a member, as an interaction holds them, are those of an administrator."""
    bits = int(permissions) if isinstance(permissions, str) and permissions.isdecimal() else 0
    return bool(bits & (ADMINISTRATOR | MANAGE_GUILD))


def written(name: str, options: Sequence[Mapping[str, Any]]) -> str:
    """Return the options of an interaction as a command's text: their values in the order of the table."""
    command = find(name)
    order = [one.name for one in command.arguments] if command else []
    given = {str(one["name"]): str(one.get("value", "")) for one in options}
    known = [given[one] for one in order if one in given]
    return " ".join(known or given.values()).strip()


def suggestions(focused: str, sources: Sequence[str]) -> list[dict[str, str]]:
    """Return the sources that begin with what is typed, then those that hold it, as choices."""
    typed = focused.strip().lower()
    found = sorted((one for one in sources if typed in one), key=lambda one: (not one.startswith(typed), one))
    return [{"name": one, "value": one} for one in found[:MOST_CHOICES]]


def _option(argument: Argument) -> dict[str, Any]:
    words = argument.kind in ("integer", "number") and argument.choices
    kinds = {"integer": INTEGER, "number": NUMBER}
    option: dict[str, Any] = {
        "name": argument.name,
        "type": STRING if words else kinds.get(argument.kind, STRING),
        "description": argument.summary[:LONGEST_DESCRIPTION],
        "required": argument.required,
    }
    if argument.kind == "choice":
        return {**option, "choices": [{"name": one, "value": one} for one in argument.choices]}
    if argument.kind == "source":
        return {**option, "autocomplete": True}
    if option["type"] == STRING:
        return {**option, "max_length": LONGEST_TEXT}
    bounds = {"min_value": argument.least, "max_value": argument.most}
    whole = argument.kind == "integer"
    return {**option, **{name: int(one) if whole else one for name, one in bounds.items() if one is not None}}
