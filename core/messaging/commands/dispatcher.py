"""The dispatcher: it looks up a command, checks that its author may use it, and calls the handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from core.catalogue import ENGLISH, Messages, messages_for
from core.catalogue.command_spelling import spell_texts, spell_with_slash
from core.messaging.commands import answer_commands, chat_commands, form, source_commands, status_commands
from core.messaging.commands.context import CommandContext, CommandHandler, CommandRequest, Watch, watch_nothing
from core.messaging.commands.digest import show_digest
from core.messaging.policy.command_table import (
    COMMANDS,
    Command,
    UserRole,
    forget_text,
    get_command,
    has_role,
    parse_arguments,
    unknown_command,
)
from core.messaging.policy.permissions import PermissionDenied
from core.observability.logs import get_logger, make_redactor
from core.ports import Adapter
from core.settings.loader import get_secret_values
from core.storage.message_lookup import MessageLookup
from core.storage.overrides import get_chat_name, new_entry
from core.types import Message

_log = get_logger(__name__)

ContextHandler = Callable[[CommandContext, CommandRequest], Awaitable[str]]


def _choose(argument: str, handler: ContextHandler, fallback: ContextHandler) -> ContextHandler:
    """Return a handler that takes `handler` where an argument is given."""

    async def handle(context: CommandContext, request: CommandRequest) -> str:
        return await (handler if argument in request.arguments else fallback)(context, request)

    return handle


async def _handle_forget(context: CommandContext, request: CommandRequest) -> str:
    return forget_text(await context.journal.erase_author(request.message), request.texts)


HANDLERS: Mapping[str, ContextHandler] = {
    "help": status_commands.show_help,
    "start": status_commands.show_help,
    "forget": _handle_forget,
    "why": answer_commands.explain_command,
    "sources": _choose("action", source_commands.switch, status_commands.show_sources),
    "status": status_commands.show_status,
    "stats": status_commands.show_statistics,
    "digest": show_digest,
    "audit": status_commands.show_audit,
    "faq": answer_commands.review_faq,
    "post": answer_commands.decide_draft,
    "edit": answer_commands.decide_draft,
    "drop": answer_commands.decide_draft,
    "refresh": source_commands.refresh,
    "quota": source_commands.quota,
    "reload": source_commands.reload,
    "pause": _choose("source", source_commands.pause, chat_commands.pause),
    "resume": _choose("source", source_commands.resume, chat_commands.resume),
    "mode": chat_commands.change_mode,
    "threshold": chat_commands.change_threshold,
    "admins": chat_commands.change_admins,
    "settings": form.show_settings,
}


class CommandDispatcher:
    """Answers commands. `commands` and `extra_handlers` add to the table and its handlers."""

    def __init__(
        self,
        context: CommandContext,
        commands: Sequence[Command] = COMMANDS,
        extra_handlers: Mapping[str, CommandHandler] | None = None,
    ) -> None:
        self.context = context
        self._commands = commands
        own_handlers: dict[str, CommandHandler] = {
            name: partial(handler, self.context) for name, handler in HANDLERS.items()
        }
        self._handlers: Mapping[str, CommandHandler] = {**own_handlers, **(extra_handlers or {})}

    def is_priority(self, message: Message) -> bool:
        """Return whether a command may overtake answers in progress: those of the bot's administrators."""
        command = get_command(message.command, self._commands)
        if command is None or not message.addressed or message.is_by_bot:
            return False
        # Of a command for everyone, the part that is not.
        return command.required_role != "everyone" or bool(
            {*message.text.lower().split()[:1]} & {*command.owner_only_values}
        )

    async def find_refusal(self, message: Message, adapter: Adapter) -> str:
        """Return why the author of a command may not give it now, or "". Call `LiveSettings.load` before.

        Raises `PlatformError` where nobody knows.
        """
        command = get_command(message.command, self._commands)
        permissions = self.context.permissions
        required_role = command.required_role if command else "everyone"
        if required_role == "everyone" or has_role(await permissions.find_role(message, adapter), required_role):
            return ""
        texts = messages_for(permissions.get_language(message))
        return texts.only_owners if required_role == "owner" else texts.only_admins

    async def dispatch(self, message: Message, adapter: Adapter | None, watch: Watch = watch_nothing) -> str:
        """Return what to say to a command. The right to give it is checked here, wherever it comes from.

        `watch` is told what to ask right before that is shown: whether what it tells of the journal is still so.

        Raises `PermissionDenied` for what its author may not do, after the audit has it, `UsageError` for arguments
        that make no sense, and what the handler raises.
        """
        await self.context.live.load()
        conversation = self.context.session or self.context.journal
        language = self.context.permissions.get_chat_language(get_chat_name(message))
        spell = adapter.spell_command if adapter else spell_with_slash
        language = language or await MessageLookup(conversation.database).get_language(message)
        texts = spell_texts(messages_for(language), spell)
        command = get_command(message.command, self._commands)
        handler = self._handlers.get(message.command)
        if command is None or handler is None:
            return unknown_command(message.command, texts, spell)
        role = self.context.permissions.cached_role(message)
        if not has_role(role, command.required_role):
            role = await self.context.permissions.resolve_role(message, adapter)
        try:
            _require(role, command.required_role, texts)
            arguments = parse_arguments(command, message.text, texts, spell)
            if set(arguments.values()) & set(command.owner_only_values):
                _require(role, "owner", texts)
            reply = await handler(CommandRequest(message, command, arguments, role, adapter, texts, watch))
        except PermissionDenied as error:
            _log.info("command.refused", command=message.command, author_id=message.author_id)
            await self.context.audit.record(new_entry(message, "refused", error.audit_text))
            raise
        return await asyncio.to_thread(self._redact, reply) if role != "everyone" else reply

    def _redact(self, text: str) -> str:
        return make_redactor(get_secret_values(self.context.settings))(text)


def _require(role: UserRole, required_role: UserRole, texts: Messages) -> None:
    if not has_role(role, required_role):
        reasons = [
            messages.only_owners if required_role == "owner" else messages.only_admins for messages in (texts, ENGLISH)
        ]
        raise PermissionDenied(*reasons)
