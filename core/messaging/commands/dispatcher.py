"""The desk: every command is looked up, its author's right is checked, and its handler is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from core.messaging.commands import chat_commands as in_chat
from core.messaging.commands import explain_command as explaining
from core.messaging.commands import form
from core.messaging.commands import review_command as reviewing
from core.messaging.commands import source_commands as everywhere
from core.messaging.commands import status_commands as looking
from core.messaging.commands.context import Office, Reread
from core.messaging.commands.form import Handler, Request
from core.messaging.policy.command_table import (
    COMMANDS,
    Command,
    Who,
    find,
    forgotten,
    read_arguments,
    stands,
    unknown_command,
)
from core.messaging.policy.permissions import Permissions, Refused
from core.messaging.policy.posts import by_bot
from core.observability.logs import logger, redactor
from core.ports import Library, Upkeep
from core.settings import AdministrationSettings, Settings
from core.settings.loader import secret_values
from core.storage.audit import Audit, entry
from core.storage.messages import Journal
from core.storage.overrides import Steering
from core.types import Message

OfOffice = Callable[[Office, Request], Awaitable[str]]
WHOM: Mapping[Who, str] = {"owner": "the owners of this bot", "admin": "those who look after this bot here"}


async def _sources(office: Office, request: Request) -> str:
    return await (everywhere.switch if "action" in request.given else looking.sources)(office, request)


async def _pause(office: Office, request: Request) -> str:
    return await (everywhere.pause if "source" in request.given else in_chat.pause)(office, request)


async def _resume(office: Office, request: Request) -> str:
    return await (everywhere.resume if "source" in request.given else in_chat.resume)(office, request)


async def _forget(office: Office, request: Request) -> str:
    return forgotten(await office.journal.forget_author(request.message))


HANDLERS: Mapping[str, OfOffice] = {
    "help": looking.help_,
    "start": looking.help_,
    "forget": _forget,
    "why": explaining.why,
    "sources": _sources,
    "status": looking.status,
    "stats": looking.stats,
    "audit": looking.audit,
    "faq": reviewing.faq,
    "refresh": everywhere.refresh,
    "quota": everywhere.quota,
    "reload": everywhere.reload,
    "pause": _pause,
    "resume": _resume,
    "mode": in_chat.mode,
    "threshold": in_chat.threshold,
    "admins": in_chat.admins,
    "settings": form.settings,
}


class Desk:
    """Answers commands. `commands` and `more` add to the table and its handlers."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        *,
        upkeep: Upkeep | None = None,
        reread: Reread | None = None,
        library: Library | None = None,
        commands: Sequence[Command] = COMMANDS,
        more: Mapping[str, Handler] | None = None,
    ) -> None:
        administration = settings.administration
        self.steering = Steering(journal.database)
        self.permissions = Permissions(administration, self.steering)
        audit = Audit(journal.database, administration.audit_days)
        self.office = Office(settings, journal, self.steering, audit, self.permissions, upkeep, reread, library)
        self.office.adopters["administration"] = lambda new: self._adopt(new.administration)
        self._commands = commands
        own: dict[str, Handler] = {name: partial(handler, self.office) for name, handler in HANDLERS.items()}
        self._handlers: Mapping[str, Handler] = {**own, **(more or {})}

    def takes_at_once(self, message: Message) -> bool:
        """Say whether a command may overtake what is being answered: those of who looks after the bot."""
        command = find(message.command, self._commands)
        if command is None or not message.addressed or by_bot(message):
            return False
        # Of a command for everyone, the part that is not.
        return command.who != "everyone" or bool({*message.text.lower().split()[:1]} & {*command.for_owners})

    async def answer(self, message: Message, adapter: object) -> str:
        """Return what to say to a command. The right to give it is checked here, wherever it comes from.

        Raises `Refused` for what its author may not do, after that is written down, `UsageError` for arguments that
        make no sense, and what the handler raises.
        """
        await self.steering.load()
        command = find(message.command, self._commands)
        handler = self._handlers.get(message.command)
        if command is None or handler is None:
            return unknown_command(message.command)
        who = self.permissions.known(message)
        if not stands(who, command.who):
            who = await self.permissions.standing(message, adapter)
        try:
            _require(who, command.who)
            given = read_arguments(command, message.text)
            if set(given.values()) & set(command.for_owners):
                _require(who, "owner")
            told = await handler(Request(message, command, given, who, adapter))
        except Refused as refusal:
            logger(__name__).warning("command.refused", command=message.command, author_id=message.author_id)
            await self.office.audit.record(entry(message, "refused", str(refusal)))
            raise
        return await asyncio.to_thread(self._without_secrets, told) if who != "everyone" else told

    def _adopt(self, new: AdministrationSettings) -> None:
        self.permissions.adopt(new)
        self.office.audit.adopt(new.audit_days)

    def _without_secrets(self, text: str) -> str:
        return redactor(secret_values(self.office.settings))(text)


def _require(who: Who, needed: Who) -> None:
    if not stands(who, needed):
        raise Refused(f"Only {WHOM[needed]} may do that.")
