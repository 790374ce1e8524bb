"""Slash commands: one table that every platform renders in its own way."""

from __future__ import annotations

from dataclasses import dataclass

from core.settings import Settings


@dataclass(frozen=True, slots=True)
class Command:
    """A command's name without the slash and what the menu says about it."""

    name: str
    summary: str


COMMANDS = (
    Command("ask", "Ask a question: /ask How do I install it?"),
    Command("help", "What this bot knows and how to ask"),
    Command("forget", "Forget what you said to me and what I answered, in this chat"),
    Command("start", "Say hello"),
)


def help_text(settings: Settings) -> str:
    """Return the Markdown that `/help` and `/start` show."""
    agents = settings.retrieval_agents()
    known = "\n".join(
        f"- **{name}**" + (f": {agent.description}" if agent.description else "") for name, agent in agents.items()
    )
    return (
        f"I am {settings.name}. I answer questions from these sources and say where each statement comes from:\n\n"
        f"{known or '- no sources are configured yet'}\n\n"
        "Ask me in a private chat; in a group mention me, reply to one of my messages, or write `/ask` with a question "
        "(`/kimas ask` in Slack)."
    )


def forgotten(messages: int) -> str:
    """Return what `/forget` says when so many messages were emptied."""
    if not messages:
        return "There was nothing to forget: I keep nothing that you said in this chat."
    count = "1 message" if messages == 1 else f"{messages} messages"
    return (
        f"Forgotten: {count} of yours in this chat, with my answers to them. "
        "What the platform itself shows stays until you delete it there."
    )


def unknown_command(name: str) -> str:
    """Return the hint for a command that does not exist."""
    return f"I do not know `/{name}`. I understand: " + ", ".join(f"`/{command.name}`" for command in COMMANDS) + "."
