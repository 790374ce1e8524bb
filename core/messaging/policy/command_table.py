"""Slash commands: one table that every platform renders in its own way.

An entry here and a handler of the same name in `core.administration` make a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from core.errors import UsageError
from core.settings import Settings
from core.text.formatting import NO_LIMIT

ArgumentKind = Literal["text", "choice", "source", "integer", "number"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, given in the order of the table.

    A `choice` is one of `choices`; of the other kinds `choices` are words that may stand in place of a value. `least`
    and `most` bound a number. A `text` takes all that is left. An `alternative` is given in place of the argument
    before it, a number: a word that is none is taken for it.
    """

    name: str
    summary: str
    kind: ArgumentKind = "text"
    choices: tuple[str, ...] = ()
    is_required: bool = False
    min_value: float | None = None
    max_value: float | None = None
    is_alternative: bool = False


def format_usage(arguments: tuple[Argument, ...]) -> str:
    """Return how arguments are written behind a command; those in brackets may be left out."""
    parts: list[str] = []
    for argument in arguments:
        if argument.is_alternative and parts:
            parts[-1] = f"{parts[-1].removesuffix(']')}|{argument.name.upper()}]"
        else:
            parts.append(_format_argument(argument))
    return " ".join(parts)


def match_argument(arguments: tuple[Argument, ...], index: int, word: str) -> Argument:
    """Return which argument a word in a place is of: the one there, or the alternative behind it."""
    argument = arguments[index]
    next_arguments = arguments[index + 1 : index + 2]
    return (
        next_arguments[0]
        if next_arguments and next_arguments[0].is_alternative and _parse_number(word) is None
        else argument
    )


def parse_value(argument: Argument, word: str, usage: str) -> str:
    """Return what a word stands for. Raises `UsageError`, which says by `usage` how the command is written."""
    lowered = word.lower()
    if lowered in argument.choices:
        return lowered
    if argument.kind == "choice":
        choices_text = ", ".join(f"`{choice}`" for choice in argument.choices)
        raise UsageError(f"`{argument.name}` is one of {choices_text}. Write it as `{usage}`.")
    if argument.kind in ("integer", "number") and not _is_within(argument, word):
        kind_text = "a whole number" if argument.kind == "integer" else "a number"
        bounds = f" from {argument.min_value:g} to {argument.max_value:g}" if argument.min_value is not None else ""
        extra_choices = "".join(f" or `{choice}`" for choice in argument.choices)
        raise UsageError(f"`{argument.name}` is {kind_text}{bounds}{extra_choices}. Write it as `{usage}`.")
    return word


def _parse_number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _is_within(argument: Argument, word: str) -> bool:
    number = _parse_number(word)
    if number is None:
        return False
    is_integral = argument.kind == "number" or number.is_integer()
    # Not a number is neither below nor above anything.
    is_above_min = argument.min_value is None or number >= argument.min_value
    return is_integral and is_above_min and (argument.max_value is None or number <= argument.max_value)


def _format_argument(argument: Argument) -> str:
    label = (
        "|".join(argument.choices)
        if argument.kind == "choice" and len(argument.choices) <= 4
        else argument.name.upper()
    )
    return label if argument.is_required else f"[{label}]"


UserRole = Literal["everyone", "admin", "owner"]

LIMITS = (
    *("daily_tokens", "daily_tokens_per_chat", "daily_tokens_per_user"),
    *("daily_cost", "daily_cost_per_chat", "daily_cost_per_user"),
)
AS_CONFIGURED, FITTED = "default", "auto"


@dataclass(frozen=True, slots=True)
class Command:
    """A command's name without the slash, what the menu says about it, and who may give it.

    With one of `for_owners` as its first argument only owners may. `hidden` says that the answer is for the asker's
    eyes alone where the platform can do that.
    """

    name: str
    summary: str
    required_role: UserRole = "everyone"
    arguments: tuple[Argument, ...] = ()
    is_ephemeral: bool = True
    owner_only_values: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """How it is written."""
        return f"/{self.name} {format_usage(self.arguments)}".rstrip()


COMMANDS = (
    Command(
        "ask",
        "Ask a question: /ask How do I install it?",
        arguments=(Argument("question", "Your question", is_required=True),),
        is_ephemeral=False,
    ),
    Command("help", "What this bot knows and how to ask"),
    Command(
        "sources",
        "What I know, how much and how old; owners switch a source on or off, or weigh it",
        arguments=(
            Argument("action", "What to do; nothing lists them", "choice", ("on", "off", "scale")),
            Argument("source", "The source", "source"),
            Argument("factor", "For scale: what its passages weigh, 0.1 to 10", "number", min_value=0.1, max_value=10),
        ),
        owner_only_values=("on", "off", "scale"),
    ),
    Command(
        "why",
        "Explain my last answer here, or the message that this replies to",
        arguments=(Argument("message", "The id or the link of another message in this chat"),),
    ),
    Command("forget", "Forget what you said to me and what I answered, in this chat"),
    Command(
        "escalate",
        "Call somebody who can help: reply to the question with it, or write the question behind it",
        arguments=(Argument("question", "The question; nothing means the one replied to, or your last one"),),
    ),
    Command("start", "Say hello"),
    Command("status", "How I am: platforms, sources, answers and cost of today", "admin"),
    Command(
        "refresh",
        "Refresh a source now, or all",
        "admin",
        (Argument("source", "The source; none means all", "source"),),
    ),
    Command(
        "pause",
        "Be silent in this chat, for some minutes or until /resume; or refresh a source only when asked",
        "admin",
        (
            Argument("minutes", "For how long; none means until /resume", "integer", min_value=1, max_value=43200),
            Argument("source", "The source that is not to be refreshed by its plan", "source", is_alternative=True),
        ),
    ),
    Command(
        "resume",
        "Speak again in this chat, or refresh a source by its plan again",
        "admin",
        (Argument("source", "The source; none means this chat", "source"),),
    ),
    Command(
        "mode",
        "When I speak in this chat: off, when mentioned, or also unasked (auto)",
        "admin",
        (Argument("mode", "default goes back to the configuration", "choice", ("off", "mention", "auto", "default")),),
    ),
    Command(
        "threshold",
        "For the mode auto: how sure I must be to speak in this chat",
        "admin",
        (
            Argument(
                "value",
                "0 to 1; default goes back to the configuration, auto fits it to the thumbs here",
                "number",
                (AS_CONFIGURED, FITTED),
                min_value=0,
                max_value=1,
            ),
        ),
    ),
    Command(
        "stats",
        "Questions, answers, tokens and cost by day",
        "admin",
        (Argument("days", "How many days, with today; 7 if none is given", "integer", min_value=1, max_value=366),),
    ),
    Command(
        "quota",
        "Show the daily limits; owners change one",
        "admin",
        (
            Argument("limit", "The limit to change; nothing shows them all", "choice", LIMITS),
            Argument(
                "value",
                "A number, none, or default for the configured one",
                "number",
                (NO_LIMIT, AS_CONFIGURED),
                min_value=0,
                max_value=1e12,
            ),
        ),
        owner_only_values=LIMITS,
    ),
    Command(
        "admins",
        "Who may give these commands in this chat; owners add and remove people",
        "admin",
        (
            Argument("action", "What to do; nothing lists them", "choice", ("list", "add", "remove")),
            Argument("user", "The user's id, a number or a code; no name"),
        ),
        owner_only_values=("add", "remove"),
    ),
    Command(
        "learn",
        "Keep the message replied to, or linked, as an answer to be reviewed, if you are trusted with that",
        arguments=(
            Argument(
                "question",
                "The link of the answer where this replies to none, and its question where that replies to none",
            ),
        ),
    ),
    Command(
        "faq",
        "Answers that people gave: list those that wait for a review, approve, reject or edit one",
        "admin",
        (
            Argument("action", "What to do; nothing lists them", "choice", ("list", "approve", "reject", "edit")),
            Argument("number", "The number of the answer", "integer", min_value=1),
            Argument("text", "For edit: the new answer"),
        ),
    ),
    Command("settings", "What can be changed in this chat, and how it stands; a form in Slack", "admin"),
    Command("reload", "Read the configuration again", "owner"),
    Command(
        "audit",
        "Who changed what, and who was refused",
        "admin",
        (Argument("entries", "How many; 10 if none is given", "integer", min_value=1, max_value=100),),
    ),
)


def get_command(name: str, commands: Sequence[Command] = COMMANDS) -> Command | None:
    """Return the command of this name, or None."""
    return next((command for command in commands if command.name == name), None)


def is_question(message_command: str) -> bool:
    """Say whether what carries this command is a question to be answered, as a plain message is."""
    return message_command in ("", "ask")


def parse_arguments(command: Command, text: str) -> Mapping[str, str]:
    """Return what was given by the arguments' names; those not given are absent.

    What follows a command without arguments is ignored. Raises `UsageError` that says how the command is written.
    """
    values: dict[str, str] = {}
    rest = text.strip()
    for index, argument in enumerate(command.arguments):
        if not rest:
            if argument.is_required:
                raise UsageError(f"`{argument.name}` is missing. Write it as `{command.usage}`.")
            break
        if argument.is_alternative:
            continue
        word, *remainder = [rest] if argument.kind == "text" else rest.split(maxsplit=1)
        matched_argument = match_argument(command.arguments, index, word)
        values[matched_argument.name] = parse_value(matched_argument, word, command.usage)
        rest = "".join(remainder)
    if rest and command.arguments:
        raise UsageError(f"That is too much. Write it as `{command.usage}`.")
    return values


def looks_like_arguments(command: Command, text: str) -> bool:
    """Say whether words after a command's name can be its arguments, and are no question that begins with that word."""
    words = text.split()
    if words and command.arguments and words[0].lower() in command.arguments[0].choices:
        return True
    # What follows these is a question by itself.
    if command.name in ("ask", "escalate", "learn"):
        return True
    max_words = sum(not argument.is_alternative for argument in command.arguments)
    return len(words) <= max_words and not text.rstrip().endswith(("?", "？"))


def help_text(settings: Settings, role: UserRole = "everyone") -> str:
    """Return the Markdown that `/help` and `/start` show to people of a standing."""
    agents = settings.retrieval_agents()
    sources_text = "\n".join(
        f"- **{name}**" + (f": {agent.description}" if agent.description else "") for name, agent in agents.items()
    )
    commands = [command for command in COMMANDS if command.name != "start" and has_role(role, command.required_role)]
    return (
        f"I am {settings.name}. I answer questions from these sources and say where each statement comes from:\n\n"
        f"{sources_text or '- no sources are configured yet'}\n\n"
        "Ask me in a private chat; in a group mention me, reply to one of my messages, or write `/ask` with a question "
        "(`/kimas ask` in Slack).\n\nI also understand:\n\n"
        + "\n".join(f"- `{command.usage}`: {command.summary}" for command in commands)
    )


def has_role(role: UserRole, required_role: UserRole) -> bool:
    """Say whether a standing is enough."""
    order = ("everyone", "admin", "owner")
    return order.index(role) >= order.index(required_role)


def forget_text(message_count: int) -> str:
    """Return what `/forget` says when so many messages were emptied."""
    if not message_count:
        return "There was nothing to forget: I keep nothing that you said in this chat."
    count = "1 message" if message_count == 1 else f"{message_count} messages"
    return (
        f"Forgotten: {count} of yours in this chat, with my answers to them. "
        "What the platform itself shows stays until you delete it there."
    )


def unknown_command(name: str) -> str:
    """Return the hint for a command that does not exist."""
    command_names = ", ".join(f"`/{command.name}`" for command in COMMANDS if command.required_role == "everyone")
    return f"I do not know `/{name}`. I understand: {command_names}."
