"""Slash commands: one table that every platform renders in its own way.

An entry here and a handler of the same name in `core.administration` make a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from core.errors import UsageError
from core.settings import Settings
from core.storage.overrides import NONE

Kind = Literal["text", "choice", "source", "integer", "number"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, given in the order of the table.

    A `choice` is one of `choices`; of the other kinds `choices` are words that may stand in place of a value. `least`
    and `most` bound a number. A `text` takes all that is left. An `alternative` is given in place of the argument
    before it, a number: a word that is none is taken for it.
    """

    name: str
    summary: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    required: bool = False
    least: float | None = None
    most: float | None = None
    alternative: bool = False


def written(arguments: tuple[Argument, ...]) -> str:
    """Return how arguments are written behind a command; those in brackets may be left out."""
    shown: list[str] = []
    for argument in arguments:
        if argument.alternative and shown:
            shown[-1] = f"{shown[-1].removesuffix(']')}|{argument.name.upper()}]"
        else:
            shown.append(_shown(argument))
    return " ".join(shown)


def choose(arguments: tuple[Argument, ...], place: int, word: str) -> Argument:
    """Return which argument a word in a place is of: the one there, or the alternative behind it."""
    there = arguments[place]
    following = arguments[place + 1 : place + 2]
    return following[0] if following and following[0].alternative and _number(word) is None else there


def value_of(argument: Argument, word: str, usage: str) -> str:
    """Return what a word stands for. Raises `UsageError`, which says by `usage` how the command is written."""
    lowered = word.lower()
    if lowered in argument.choices:
        return lowered
    if argument.kind == "choice":
        allowed = ", ".join(f"`{one}`" for one in argument.choices)
        raise UsageError(f"`{argument.name}` is one of {allowed}. Write it as `{usage}`.")
    if argument.kind in ("integer", "number") and not _is_within(argument, word):
        kind = "a whole number" if argument.kind == "integer" else "a number"
        bounds = f" from {argument.least:g} to {argument.most:g}" if argument.least is not None else ""
        words = "".join(f" or `{one}`" for one in argument.choices)
        raise UsageError(f"`{argument.name}` is {kind}{bounds}{words}. Write it as `{usage}`.")
    return word


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _is_within(argument: Argument, word: str) -> bool:
    number = _number(word)
    if number is None:
        return False
    whole = argument.kind == "number" or number.is_integer()
    # Not a number is neither below nor above anything.
    above = argument.least is None or number >= argument.least
    return whole and above and (argument.most is None or number <= argument.most)


def _shown(argument: Argument) -> str:
    words = (
        "|".join(argument.choices)
        if argument.kind == "choice" and len(argument.choices) <= 4
        else argument.name.upper()
    )
    return words if argument.required else f"[{words}]"


Who = Literal["everyone", "admin", "owner"]

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
    who: Who = "everyone"
    arguments: tuple[Argument, ...] = ()
    hidden: bool = True
    for_owners: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """How it is written."""
        return f"/{self.name} {written(self.arguments)}".rstrip()


COMMANDS = (
    Command(
        "ask",
        "Ask a question: /ask How do I install it?",
        arguments=(Argument("question", "Your question", required=True),),
        hidden=False,
    ),
    Command("help", "What this bot knows and how to ask"),
    Command(
        "sources",
        "What I know, how much and how old; owners switch a source on or off, or weigh it",
        arguments=(
            Argument("action", "What to do; nothing lists them", "choice", ("on", "off", "scale")),
            Argument("source", "The source", "source"),
            Argument("factor", "For scale: what its passages weigh, 0.1 to 10", "number", least=0.1, most=10),
        ),
        for_owners=("on", "off", "scale"),
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
            Argument("minutes", "For how long; none means until /resume", "integer", least=1, most=43200),
            Argument("source", "The source that is not to be refreshed by its plan", "source", alternative=True),
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
                least=0,
                most=1,
            ),
        ),
    ),
    Command(
        "stats",
        "Questions, answers, tokens and cost by day",
        "admin",
        (Argument("days", "How many days, with today; 7 if none is given", "integer", least=1, most=366),),
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
                (NONE, AS_CONFIGURED),
                least=0,
                most=1e12,
            ),
        ),
        for_owners=LIMITS,
    ),
    Command(
        "admins",
        "Who may give these commands in this chat; owners add and remove people",
        "admin",
        (
            Argument("action", "What to do; nothing lists them", "choice", ("list", "add", "remove")),
            Argument("user", "The user's id, a number or a code; no name"),
        ),
        for_owners=("add", "remove"),
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
            Argument("number", "The number of the answer", "integer", least=1),
            Argument("text", "For edit: the new answer"),
        ),
    ),
    Command("settings", "What can be changed in this chat, and how it stands; a form in Slack", "admin"),
    Command("reload", "Read the configuration again", "owner"),
    Command(
        "audit",
        "Who changed what, and who was refused",
        "admin",
        (Argument("entries", "How many; 10 if none is given", "integer", least=1, most=100),),
    ),
)


def find(name: str, commands: Sequence[Command] = COMMANDS) -> Command | None:
    """Return the command of this name, or None."""
    return next((one for one in commands if one.name == name), None)


def is_question(message_command: str) -> bool:
    """Say whether what carries this command is a question to be answered, as a plain message is."""
    return message_command in ("", "ask")


def read_arguments(command: Command, text: str) -> Mapping[str, str]:
    """Return what was given by the arguments' names; those not given are absent.

    What follows a command without arguments is ignored. Raises `UsageError` that says how the command is written.
    """
    given: dict[str, str] = {}
    rest = text.strip()
    for place, argument in enumerate(command.arguments):
        if not rest:
            if argument.required:
                raise UsageError(f"`{argument.name}` is missing. Write it as `{command.usage}`.")
            break
        if argument.alternative:
            continue
        word, *others = [rest] if argument.kind == "text" else rest.split(maxsplit=1)
        chosen = choose(command.arguments, place, word)
        given[chosen.name] = value_of(chosen, word, command.usage)
        rest = "".join(others)
    if rest and command.arguments:
        raise UsageError(f"That is too much. Write it as `{command.usage}`.")
    return given


def may_be(command: Command, text: str) -> bool:
    """Say whether words after a command's name can be its arguments, and are no question that begins with that word."""
    words = text.split()
    if words and command.arguments and words[0].lower() in command.arguments[0].choices:
        return True
    # What follows these is a question by itself.
    if command.name in ("ask", "escalate", "learn"):
        return True
    most = sum(not one.alternative for one in command.arguments)
    return len(words) <= most and not text.rstrip().endswith(("?", "？"))


def help_text(settings: Settings, who: Who = "everyone") -> str:
    """Return the Markdown that `/help` and `/start` show to people of a standing."""
    agents = settings.retrieval_agents()
    known = "\n".join(
        f"- **{name}**" + (f": {agent.description}" if agent.description else "") for name, agent in agents.items()
    )
    shown = [one for one in COMMANDS if one.name != "start" and stands(who, one.who)]
    return (
        f"I am {settings.name}. I answer questions from these sources and say where each statement comes from:\n\n"
        f"{known or '- no sources are configured yet'}\n\n"
        "Ask me in a private chat; in a group mention me, reply to one of my messages, or write `/ask` with a question "
        "(`/kimas ask` in Slack).\n\nI also understand:\n\n"
        + "\n".join(f"- `{one.usage}`: {one.summary}" for one in shown)
    )


def stands(who: Who, needed: Who) -> bool:
    """Say whether a standing is enough."""
    order = ("everyone", "admin", "owner")
    return order.index(who) >= order.index(needed)


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
    known = ", ".join(f"`/{command.name}`" for command in COMMANDS if command.who == "everyone")
    return f"I do not know `/{name}`. I understand: {known}."
