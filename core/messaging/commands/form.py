"""What can be changed in a chat, as a form: shown where the platform has forms, told in words elsewhere.

Every field is a command with a gap for its value. What is filled in is given as that command, so a form permits nothing
that its commands would not, and leaves the same entries in the audit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from core.errors import PlatformError, UsageError
from core.messaging.commands.context import Office
from core.messaging.policy.command_table import AS_CONFIGURED, Command, Who
from core.observability.logs import logger
from core.storage.overrides import chat_of
from core.types import Message


@dataclass(frozen=True, slots=True)
class Request:
    """A command that its author may give: the message, the arguments by name, and the author's standing.

    `adapter` is what the message came through; None in the terminal.
    """

    message: Message
    command: Command
    given: Mapping[str, str]
    who: Who
    adapter: object = None

    @property
    def chat(self) -> str:
        """The chat's name in the configuration: `platform:chat`."""
        return chat_of(self.message)

    @property
    def sees_all(self) -> bool:
        """Whether the answer may tell of other chats: an owner asks where nobody else reads it."""
        return self.who == "owner" and self.message.private


# Returns what the bot says, as Markdown. Raises `UsageError` for arguments that make no sense.
Handler = Callable[[Request], Awaitable[str]]


GAP = "{}"
_SPEAKING = (("off", "Never"), ("mention", "When I am mentioned"), ("auto", "Also unasked"))


@dataclass(frozen=True, slots=True)
class Field:
    """One value: the command that sets it, with `GAP` in the place of the value, and how it stands.

    `choices` are values with their labels; without any the value is written freely, and `hint` says how.
    """

    command: str
    label: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """What its reader may change, and in `notes`, a line each, what they may only see. All of it is plain text."""

    fields: tuple[Field, ...]
    notes: tuple[str, ...] = ()


@runtime_checkable
class ShowsForms(Protocol):
    """What an adapter can do on a platform that has forms."""

    async def show_form(self, message: Message, form: Form) -> bool:
        """Show a form to the author of a command and nobody else; no where that cannot be. Raises `PlatformError`."""
        ...


async def settings(office: Office, request: Request) -> str:
    """Show what the author may change in the chat: as a form, with nothing more to say, or in words."""
    form = form_of(office, request)
    if not isinstance(request.adapter, ShowsForms):
        return in_words(form)
    try:
        shown = await request.adapter.show_form(request.message, form)
    except PlatformError as fault:
        logger(__name__).warning("form.not_shown", error=str(fault))
        raise UsageError(
            f"I could not open the form: {fault}. Nothing was changed. Give the command once more; "
            "`/mode`, `/threshold` and `/sources` change the same."
        ) from fault
    return "" if shown else in_words(form)


def form_of(office: Office, request: Request) -> Form:
    """Return what the author of a command may change, and see, in its chat."""
    gate, steering, chat = office.settings.gate, office.steering, request.chat
    configured = gate.mode_of(chat, private=request.message.private)
    threshold = steering.threshold(chat)
    speaking = (
        Field(
            f"mode {GAP}",
            "When I speak in this chat",
            steering.mode(chat) or AS_CONFIGURED,
            ((AS_CONFIGURED, f"As configured ({configured})"), *_SPEAKING),
        ),
        Field(
            f"threshold {GAP}",
            "How sure I must be to speak unasked",
            AS_CONFIGURED if threshold is None else f"{threshold:g}",
            hint=f"0 to 1, or {AS_CONFIGURED} for what is configured ({gate.threshold_of(chat):g})",
        ),
    )
    if request.who == "owner":
        return Form((*speaking, *_sources(office)))
    return Form(speaking, tuple(_standing(office, name) for name in office.settings.sources))


def in_words(form: Form) -> str:
    """Return a form as Markdown, with the commands that fill it in."""
    lines = [f"- {one.label}: {dict(one.choices).get(one.value, one.value)}. {_how(one)}" for one in form.fields]
    return "\n".join([*lines, *(f"- {one}" for one in form.notes)])


def _sources(office: Office) -> Sequence[Field]:
    steering = office.steering
    return [
        field
        for name in office.settings.sources
        for field in (
            Field(
                f"sources {GAP} {name}",
                f"{name}: used for answers",
                "off" if steering.is_off(name) else "on",
                (("on", "On"), ("off", "Off")),
            ),
            Field(
                f"sources scale {name} {GAP}",
                f"{name}: what its passages weigh",
                f"{steering.scale(name):g}",
                hint="0.1 to 10; 1 is the normal weight",
            ),
        )
    ]


def _standing(office: Office, name: str) -> str:
    used = "not used for answers" if office.steering.is_off(name) else "used for answers"
    return f"{name}: {used}, weighs {office.steering.scale(name):g}; owners change that"


def _how(field: Field) -> str:
    values = "|".join(value for value, _ in field.choices) or "VALUE"
    hint = f" ({field.hint})" if field.hint else ""
    return f"`/{field.command.replace(GAP, values)}`{hint}"
