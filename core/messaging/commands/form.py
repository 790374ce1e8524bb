"""What can be changed in a chat, as a form: shown where the platform has forms, told in words elsewhere.

Every field is a command with a gap for its value. What is filled in is given as that command, so a form permits nothing
that its commands would not, and leaves the same entries in the audit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from core.errors import PlatformError, UsageError
from core.messaging.commands.context import CommandContext
from core.messaging.policy.command_table import AS_CONFIGURED, Command, UserRole
from core.observability.logs import get_logger
from core.ports import VALUE_PLACEHOLDER, Adapter, FormField, SettingsForm
from core.storage.overrides import get_chat_name
from core.types import Message


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command that its author may give: the message, the arguments by name, and the author's standing.

    `adapter` is what the message came through; None in the terminal.
    """

    message: Message
    command: Command
    arguments: Mapping[str, str]
    role: UserRole
    adapter: Adapter | None = None

    @property
    def chat(self) -> str:
        """The chat's name in the configuration: `platform:chat`."""
        return get_chat_name(self.message)

    @property
    def can_see_all_chats(self) -> bool:
        """Whether the answer may tell of other chats: an owner asks where nobody else reads it."""
        return self.role == "owner" and self.message.private


# Returns what the bot says, as Markdown. Raises `UsageError` for arguments that make no sense.
CommandHandler = Callable[[CommandRequest], Awaitable[str]]


_MODE_CHOICES = (("off", "Never"), ("mention", "When I am mentioned"), ("auto", "Also unasked"))


async def show_settings(context: CommandContext, request: CommandRequest) -> str:
    """Show what the author may change in the chat: as a form, with nothing more to say, or in words."""
    form = build_form(context, request)
    if request.adapter is None:
        return to_markdown(form)
    try:
        is_shown = await request.adapter.show_form(request.message, form)
    except PlatformError as error:
        get_logger(__name__).warning("form.not_shown", error=str(error))
        raise UsageError(
            f"I could not open the form: {error}. Nothing was changed. Give the command once more; "
            "`/mode`, `/threshold` and `/sources` change the same."
        ) from error
    return "" if is_shown else to_markdown(form)


def build_form(context: CommandContext, request: CommandRequest) -> SettingsForm:
    """Return what the author of a command may change, and see, in its chat."""
    gate, overrides, chat = context.settings.gate, context.overrides, request.chat
    configured = gate.get_mode(chat, private=request.message.private)
    threshold = overrides.threshold(chat)
    mode_fields = (
        FormField(
            f"mode {VALUE_PLACEHOLDER}",
            "When I speak in this chat",
            overrides.mode(chat) or AS_CONFIGURED,
            ((AS_CONFIGURED, f"As configured ({configured})"), *_MODE_CHOICES),
        ),
        FormField(
            f"threshold {VALUE_PLACEHOLDER}",
            "How sure I must be to speak unasked",
            AS_CONFIGURED if threshold is None else f"{threshold:g}",
            hint=f"0 to 1, or {AS_CONFIGURED} for what is configured ({gate.get_threshold(chat):g})",
        ),
    )
    if request.role == "owner":
        return SettingsForm((*mode_fields, *_source_fields(context)))
    return SettingsForm(mode_fields, tuple(_format_source(context, name) for name in context.settings.sources))


def to_markdown(form: SettingsForm) -> str:
    """Return a form as Markdown, with the commands that fill it in."""
    lines = [
        f"- {field.label}: {dict(field.choices).get(field.value, field.value)}. {_format_command(field)}"
        for field in form.fields
    ]
    return "\n".join([*lines, *(f"- {note}" for note in form.notes)])


def _source_fields(context: CommandContext) -> Sequence[FormField]:
    overrides = context.overrides
    return [
        field
        for name in context.settings.sources
        for field in (
            FormField(
                f"sources {VALUE_PLACEHOLDER} {name}",
                f"{name}: used for answers",
                "off" if overrides.is_off(name) else "on",
                (("on", "On"), ("off", "Off")),
            ),
            FormField(
                f"sources scale {name} {VALUE_PLACEHOLDER}",
                f"{name}: what its passages weigh",
                f"{overrides.scale(name):g}",
                hint="0.1 to 10; 1 is the normal weight",
            ),
        )
    ]


def _format_source(context: CommandContext, name: str) -> str:
    usage = "not used for answers" if context.overrides.is_off(name) else "used for answers"
    return f"{name}: {usage}, weighs {context.overrides.scale(name):g}; owners change that"


def _format_command(field: FormField) -> str:
    values = "|".join(value for value, _ in field.choices) or "VALUE"
    hint = f" ({field.hint})" if field.hint else ""
    return f"`/{field.command.replace(VALUE_PLACEHOLDER, values)}`{hint}"
