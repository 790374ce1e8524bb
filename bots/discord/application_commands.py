"""The command table as Discord's application commands, and their options as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.catalogue import messages_for
from core.messaging.feedback.handoff import ASK_ABOUT_THIS, LEARN_FROM_THIS
from core.messaging.policy.command_table import Argument, Command, get_command
from core.types import FOR_ASKER, Message

CHAT_INPUT = 1
MESSAGE_COMMAND = 3
STRING = 3
INTEGER = 4
NUMBER = 10
GUILD_CONTEXT = 0
BOT_DM_CONTEXT = 1
MAX_DESCRIPTION_CHARS = 100
MAX_TEXT_CHARS = 4000
MAX_CHOICES = 25
ADMINISTRATOR = 1 << 3
MANAGE_GUILD = 1 << 5

# The languages of Discord's clients that we have texts in, besides English.
LOCALES = {"zh-CN": "zh", "zh-TW": "zh"}
# Discord has a list of commands, so nobody needs to say hello to see one.
EXCLUDED_COMMANDS = ("start",)


def build_slash_commands(commands: Sequence[Command]) -> list[dict[str, Any]]:
    """Return the commands as Discord registers them.

    Administrators' commands are shown to those who manage the server, unless its settings show them to others. The
    right to use a command is checked when it is used.
    """
    return [
        {
            "name": command.name,
            "type": CHAT_INPUT,
            "description": command.summary[:MAX_DESCRIPTION_CHARS],
            "description_localizations": _localize("command_summaries", command.name),
            "options": [_to_option(command, argument) for argument in command.arguments],
            "contexts": [GUILD_CONTEXT, BOT_DM_CONTEXT],
            "integration_types": [0],
            **({} if command.required_role == "everyone" else {"default_member_permissions": str(MANAGE_GUILD)}),
        }
        for command in commands
        if command.name not in EXCLUDED_COMMANDS
    ]


def build_message_commands() -> list[dict[str, Any]]:
    """Return the entries in the menu of every message, below Apps; the right to use one is checked when it is used."""
    scope = {"contexts": [GUILD_CONTEXT, BOT_DM_CONTEXT], "integration_types": [0]}
    names = {LEARN_FROM_THIS: "learn_from_this", ASK_ABOUT_THIS: "ask_about_this"}
    return [
        {
            "name": name,
            "name_localizations": {locale: getattr(messages_for(code), key) for locale, code in LOCALES.items()},
            "type": MESSAGE_COMMAND,
            **scope,
        }
        for name, key in names.items()
    ]


def _localize(table: str, key: str) -> dict[str, str]:
    """Return a text of the catalogue in the languages of Discord's clients other than English."""
    return {
        locale: str(getattr(messages_for(code), table)[key])[:MAX_DESCRIPTION_CHARS] for locale, code in LOCALES.items()
    }


def has_ephemeral_reply(message: Message) -> bool:
    """Return whether only the asker sees a command's answer."""
    command = get_command(message.command)
    return FOR_ASKER in message.reference or (command is not None and command.is_ephemeral)


def is_server_admin(permissions: object) -> bool:
    """Return whether the permissions of a member, as an interaction holds them, are those of an administrator."""
    bits = int(permissions) if isinstance(permissions, str) and permissions.isdecimal() else 0
    return bool(bits & (ADMINISTRATOR | MANAGE_GUILD))


def format_options(name: str, options: Sequence[Mapping[str, Any]]) -> str:
    """Return the options of an interaction as a command's text: their values in the order of the table."""
    command = get_command(name)
    argument_names = [argument.name for argument in command.arguments] if command else []
    values = {str(option["name"]): str(option.get("value", "")) for option in options}
    ordered_values = [values[argument_name] for argument_name in argument_names if argument_name in values]
    return " ".join(ordered_values or values.values()).strip()


def suggest_sources(text: str, sources: Sequence[str]) -> list[dict[str, str]]:
    """Return the sources that begin with the typed text, then those that contain it, as choices."""
    prefix = text.strip().lower()
    matches = sorted(
        (source for source in sources if prefix in source), key=lambda source: (not source.startswith(prefix), source)
    )
    return [{"name": source, "value": source} for source in matches[:MAX_CHOICES]]


def _to_option(command: Command, argument: Argument) -> dict[str, Any]:
    takes_text = argument.kind in ("integer", "number") and argument.choices
    kinds = {"integer": INTEGER, "number": NUMBER}
    option: dict[str, Any] = {
        "name": argument.name,
        "type": STRING if takes_text else kinds.get(argument.kind, STRING),
        "description": argument.summary[:MAX_DESCRIPTION_CHARS],
        "description_localizations": _localize("argument_summaries", f"{command.name} {argument.name}"),
        "required": argument.is_required,
    }
    if argument.kind == "choice":
        return {**option, "choices": [{"name": choice, "value": choice} for choice in argument.choices]}
    if argument.kind == "source":
        return {**option, "autocomplete": True}
    if option["type"] == STRING:
        return {**option, "max_length": MAX_TEXT_CHARS}
    bounds = {"min_value": argument.min_value, "max_value": argument.max_value}
    is_integer = argument.kind == "integer"
    return {
        **option,
        **{name: int(bound) if is_integer else bound for name, bound in bounds.items() if bound is not None},
    }
