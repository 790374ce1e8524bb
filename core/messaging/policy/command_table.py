"""Slash commands: one table that every platform renders in its own way.

An entry here, its texts in `core.catalogue` and a handler of the same name in `core.messaging.commands` make a
command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from core.answering.introduction import describe_agents, list_agents
from core.catalogue import ENGLISH, Messages
from core.catalogue.command_spelling import Spell, spell_with_slash
from core.errors import UsageError
from core.formatting import NO_LIMIT
from core.language.questions import ends_with_question_mark
from core.language.spelling import MAX_WORD_LETTERS, iter_near_words
from core.ports import Library
from core.settings import Settings
from core.settings.limits import DAILY_LIMITS
from core.types import ASK_COMMANDS

ArgumentKind = Literal["text", "choice", "source", "integer", "number"]

CONFIGURED_VALUE = "default"
CALIBRATED_VALUE = "auto"
# The commands that may change what may be told of in the reply to them.
RIGHTS_COMMANDS = ("admins", "reload")
# The commands about drafts, which there are where a team gets them.
DRAFT_COMMANDS = ("post", "edit", "drop")
# What an integer of every database holds.
MAX_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, given in the order of the table.

    A `choice` is one of `choices`; for other kinds `choices` are words that may replace a value. `min_value`
    and `max_value` bound a number. A `text` takes the rest. One that `is_alternative` stands in place of the argument
    before it, a number: a word that is none is taken for it.
    """

    name: str
    summary: str = ""
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
    """Return the argument that a word at a position is for: the one there, or the alternative after it."""
    argument = arguments[index]
    next_arguments = arguments[index + 1 : index + 2]
    return (
        next_arguments[0]
        if next_arguments and next_arguments[0].is_alternative and _parse_number(word) is None
        else argument
    )


def parse_value(argument: Argument, word: str, usage: str, texts: Messages) -> str:
    """Return the value of a word. Raises `UsageError`, which says by `usage` how the command is written."""
    lower_word = word.lower()
    if lower_word in argument.choices:
        return lower_word
    if argument.kind == "choice":
        choices_text = ", ".join(f"`{choice}`" for choice in argument.choices)
        raise UsageError(texts.choice_expected.format(name=argument.name, choices=choices_text, usage=usage))
    if argument.kind in ("integer", "number") and not _is_within(argument, word):
        template = texts.whole_number_expected if argument.kind == "integer" else texts.number_expected
        limits = [f"{limit:.10g}" for limit in (argument.min_value, argument.max_value) if limit is not None]
        bounds = texts.bounds.format(min=limits[0], max=limits[-1]) if len(limits) == 2 else ""
        choices = "".join(texts.or_choice.format(choice=choice) for choice in argument.choices)
        raise UsageError(template.format(name=argument.name, bounds=bounds, choices=choices, usage=usage))
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
    # NaN is neither below nor above any bound.
    is_above_min = argument.min_value is None or number >= argument.min_value
    return is_integral and is_above_min and (argument.max_value is None or number <= argument.max_value)


def _format_argument(argument: Argument) -> str:
    label = (
        "|".join(argument.choices)
        if argument.kind == "choice" and len(argument.choices) <= 5
        else argument.name.upper()
    )
    return label if argument.is_required else f"[{label}]"


UserRole = Literal["everyone", "admin", "owner"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command's name without the slash, what the menu says about it, and who may give it.

    Only owners may use it with one of `owner_only_values` as its first argument. If `is_ephemeral`, only its author
    sees the answer, where the platform can do that.
    """

    name: str
    summary: str = ""
    required_role: UserRole = "everyone"
    arguments: tuple[Argument, ...] = ()
    is_ephemeral: bool = True
    owner_only_values: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """How it is written."""
        return f"/{self.name} {format_usage(self.arguments)}".rstrip()

    def get_usage(self, role: UserRole) -> str:
        """Return how people of a role write it: without the arguments, where these are for owners."""
        return f"/{self.name}" if self.owner_only_values and role != "owner" else self.usage


_DRAFT_NUMBER = Argument("number", kind="integer", is_required=True, min_value=1, max_value=MAX_NUMBER)
_TABLE = (
    Command("ask", arguments=(Argument("question", is_required=True),), is_ephemeral=False),
    Command("help"),
    Command(
        "sources",
        arguments=(
            Argument("action", kind="choice", choices=("on", "off", "scale")),
            Argument("source", kind="source"),
            Argument("factor", kind="number", min_value=0.1, max_value=10),
        ),
        owner_only_values=("on", "off", "scale"),
    ),
    Command("why", arguments=(Argument("message"),)),
    Command("forget"),
    Command("escalate", arguments=(Argument("question"),)),
    Command("start"),
    Command("status", required_role="admin"),
    Command("refresh", required_role="admin", arguments=(Argument("source", kind="source"),)),
    Command(
        "pause",
        required_role="admin",
        arguments=(
            Argument("minutes", kind="integer", min_value=1, max_value=43200),
            Argument("source", kind="source", is_alternative=True),
        ),
    ),
    Command("resume", required_role="admin", arguments=(Argument("source", kind="source"),)),
    Command(
        "mode",
        required_role="admin",
        arguments=(Argument("mode", kind="choice", choices=("off", "mention", "auto", "draft", "default")),),
    ),
    Command(
        "threshold",
        required_role="admin",
        arguments=(
            Argument("value", kind="number", choices=(CONFIGURED_VALUE, CALIBRATED_VALUE), min_value=0, max_value=1),
        ),
    ),
    Command("stats", required_role="admin", arguments=(Argument("days", kind="integer", min_value=1, max_value=366),)),
    Command("digest", required_role="admin", arguments=(Argument("days", kind="integer", min_value=1, max_value=366),)),
    Command(
        "quota",
        required_role="admin",
        arguments=(
            Argument("limit", kind="choice", choices=DAILY_LIMITS),
            Argument("value", kind="number", choices=(NO_LIMIT, CONFIGURED_VALUE), min_value=0, max_value=1e12),
        ),
        owner_only_values=DAILY_LIMITS,
    ),
    Command(
        "admins",
        required_role="admin",
        arguments=(Argument("action", kind="choice", choices=("list", "add", "remove")), Argument("user")),
        owner_only_values=("add", "remove"),
    ),
    Command("learn", arguments=(Argument("question"),)),
    Command(
        "faq",
        required_role="admin",
        arguments=(
            Argument("action", kind="choice", choices=("list", "approve", "reject", "edit")),
            Argument("number", kind="integer", min_value=1, max_value=MAX_NUMBER),
            Argument("text"),
        ),
    ),
    Command("post", required_role="admin", arguments=(_DRAFT_NUMBER,)),
    Command("edit", required_role="admin", arguments=(_DRAFT_NUMBER, Argument("text", is_required=True))),
    Command("drop", required_role="admin", arguments=(_DRAFT_NUMBER,)),
    Command("settings", required_role="admin"),
    Command("reload", required_role="owner"),
    Command(
        "audit", required_role="admin", arguments=(Argument("entries", kind="integer", min_value=1, max_value=100),)
    ),
)


def _with_summaries(command: Command) -> Command:
    arguments = tuple(
        replace(argument, summary=ENGLISH.argument_summaries[f"{command.name} {argument.name}"])
        for argument in command.arguments
    )
    return replace(command, summary=ENGLISH.command_summaries[command.name], arguments=arguments)


COMMANDS = tuple(map(_with_summaries, _TABLE))


def get_command(name: str, commands: Sequence[Command] = COMMANDS) -> Command | None:
    """Return the command of this name, or None."""
    return next((command for command in commands if command.name == name), None)


def find_near_command(word: str) -> Command | None:
    """Return the command whose name is one typing error away from a word, or None.

    >>> find_near_command("statsu").name, find_near_command("status"), find_near_command("install")
    ('status', None, None)
    """
    # Foreign text, and each of its letters makes 50 words. What has other signs, as a question mark, is meant so.
    if len(word) > MAX_WORD_LETTERS or not word.isalpha() or get_command(word):
        return None
    near_words = set(iter_near_words(word))
    return next((command for command in COMMANDS if command.name in near_words), None)


def is_ask_command(message_command: str) -> bool:
    """Return whether a message with this command is a question: it has no command, or `/ask`."""
    return message_command in ASK_COMMANDS


def parse_arguments(
    command: Command, text: str, texts: Messages = ENGLISH, spell: Spell = spell_with_slash
) -> Mapping[str, str]:
    """Return the values by the names of the arguments; arguments that were left out are absent.

    What follows a command without arguments is ignored. Raises `UsageError` that says how the command is written.

    >>> parse_arguments(get_command("pause"), "30")
    {'minutes': '30'}
    """
    values: dict[str, str] = {}
    rest = text.strip()
    usage = spell(command.usage.removeprefix("/"))
    for index, argument in enumerate(command.arguments):
        if not rest:
            if argument.is_required:
                raise UsageError(texts.argument_missing.format(name=argument.name, usage=usage))
            break
        if argument.is_alternative:
            continue
        word, *remainder = [rest] if argument.kind == "text" else rest.split(maxsplit=1)
        matched_argument = match_argument(command.arguments, index, word)
        values[matched_argument.name] = parse_value(matched_argument, word, usage, texts)
        rest = "".join(remainder)
    if rest and command.arguments:
        raise UsageError(texts.too_many_arguments.format(usage=usage))
    return values


def looks_like_arguments(command: Command, text: str) -> bool:
    """Return whether words after a command's name can be its arguments, not a question that begins with it."""
    words = text.split()
    if words and command.arguments and words[0].lower() in command.arguments[0].choices:
        return True
    # The text after these commands is a question.
    if command.name in ("ask", "escalate", "learn"):
        return True
    max_words = sum(not argument.is_alternative for argument in command.arguments)
    return len(words) <= max_words and not ends_with_question_mark(text)


def list_commands(settings: Settings) -> tuple[Command, ...]:
    """Return the commands that people are told of: those about drafts only where a team gets any."""
    has_drafts = bool(settings.gate.drafts_to) or any(chat.drafts_to for chat in settings.chats.values())
    return tuple(command for command in COMMANDS if has_drafts or command.name not in DRAFT_COMMANDS)


def help_text(
    settings: Settings,
    role: UserRole = "everyone",
    texts: Messages = ENGLISH,
    spell: Spell = spell_with_slash,
    library: Library | None = None,
) -> str:
    """Return the Markdown that `/help` and `/start` show to people of a role; `spell` says how a command is given."""
    commands = "\n".join(
        f"- {spell(command.get_usage(role).removeprefix('/'))}: {texts.command_summaries[command.name]}"
        for command in list_commands(settings)
        if command.name != "start" and has_role(role, command.required_role)
    )
    intro = texts.help_intro.format(name=settings.name)
    agents = describe_agents(list_agents(settings, library), texts)
    how_to_ask = texts.help_how_to_ask.format(ask=spell("ask"))
    paragraphs = (intro, agents, how_to_ask, texts.help_commands, commands)
    return "\n\n".join(paragraphs)


def has_role(role: UserRole, required_role: UserRole) -> bool:
    """Return whether a role is enough."""
    order = ("everyone", "admin", "owner")
    return order.index(role) >= order.index(required_role)


def forget_text(message_count: int, texts: Messages = ENGLISH) -> str:
    """Return the reply to `/forget`, with the number of erased messages."""
    if not message_count:
        return texts.nothing_to_forget
    count = texts.message_count_one if message_count == 1 else texts.message_count.format(count=message_count)
    return texts.forgotten.format(count=count)


def unknown_command(name: str, texts: Messages = ENGLISH, spell: Spell = spell_with_slash) -> str:
    """Return the hint for a command that does not exist; where the name was mistyped, only what was meant."""
    if command := find_near_command(name):
        return texts.near_command.format(name=name, command=spell(command.name), ask=spell(f"ask {name}"))
    command_names = ", ".join(spell(command.name) for command in COMMANDS if command.required_role == "everyone")
    return texts.unknown_command.format(name=name, commands=command_names)
