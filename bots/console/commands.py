"""Commands in the terminal: the same table as on every platform, and who sits there is the owner."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bots.common.open_storage import open_journal
from bots.daemon.bootstrap import make_dispatcher, make_live_settings
from core.messaging.policy.command_table import get_command
from core.ports import SourceRefresher
from core.settings import Settings
from core.types import ConversationKey, Message, Reply

if TYPE_CHECKING:
    from core.messaging.commands.context import SettingsLoader
    from core.storage.engine import Database
    from core.storage.messages import Journal

TERMINAL_KEY = ConversationKey("console", "terminal")
OWNER_ID = "owner"


class TerminalCommands:
    """Answers commands over the deployment's database; a daemon beside it sees a change within seconds.

    `upkeep` returns what keeps the sources up to date, over that database.
    """

    def __init__(
        self,
        settings: Settings,
        make_source_refresher: Callable[[Database], SourceRefresher] | None = None,
        reload_settings: SettingsLoader | None = None,
    ) -> None:
        owners = (*settings.administration.owners, f"{TERMINAL_KEY.platform}:{OWNER_ID}")
        administration = settings.administration.model_copy(update={"owners": owners})
        self._settings = settings.model_copy(update={"administration": administration})
        self._make_source_refresher = make_source_refresher
        self._reload_settings = reload_settings
        self._last_reply: Reply | None = None

    def record_answer(self, reply: Reply) -> None:
        """Note the newest answer, which `/why` explains: no journal has it."""
        self._last_reply = reply

    def clear_last_answer(self) -> None:
        """Let go of the newest answer."""
        self._last_reply = None

    async def get_skip_reason(self) -> str:
        """Return why nothing is answered here, as commands or the configuration have it, or nothing.

        Whether private chats are answered at all is no matter: who sits here runs the bot. Raises `StoreError`.
        """
        from core.messaging.policy.chat_policy import ChatPolicy, disabled_reason
        from core.storage.live_settings import LiveSettings

        message = self._make_message("", "")
        chat_policy = ChatPolicy(LiveSettings(self._settings))
        # Nobody can have given a command before there is a journal.
        if not await asyncio.to_thread((self._settings.data_dir / "journal.db").exists):
            return str(disabled_reason(message)) if chat_policy.is_off(message) else ""
        journal = await open_journal(self._settings)
        try:
            chat_policy = ChatPolicy(make_live_settings(self._settings, journal.database))
            await chat_policy.refresh()
            skip = disabled_reason(message) if chat_policy.is_off(message) else chat_policy.paused_reason(message)
            return str(skip or "")
        finally:
            await journal.close()

    async def handle_line(self, line: str) -> str | None:
        """Return what to say to a command, or None for any other line, a question that follows `/ask` too.

        Raises `UsageError` for arguments that make no sense, `StoreError`.
        """
        name, *rest = line.strip().split(maxsplit=1)
        command = get_command(name.removeprefix("/").lower())
        if not line.startswith("/") or command is None or (command.name == "ask" and rest):
            return None
        arguments = "".join(rest)
        if command.name == "why" and self._last_reply is not None and not arguments:
            return _explain_reply(self._last_reply)
        journal = await open_journal(self._settings)
        try:
            return await self._answer_command(command.name if command.name != "ask" else "help", arguments, journal)
        finally:
            await journal.close()

    async def _answer_command(self, name: str, arguments: str, journal: Journal) -> str:
        source_refresher = self._make_source_refresher(journal.database) if self._make_source_refresher else None
        live = make_live_settings(self._settings, journal.database)
        dispatcher = make_dispatcher(live, journal, refresher=source_refresher, reload_settings=self._reload_settings)
        dispatcher.context.platforms.add(TERMINAL_KEY.platform)
        return await dispatcher.dispatch(self._make_message(name, arguments), None)

    @staticmethod
    def _make_message(name: str, arguments: str) -> Message:
        message_id, now = uuid.uuid4().hex, datetime.now(UTC)
        return Message(
            message_id, TERMINAL_KEY, OWNER_ID, OWNER_ID, arguments, now, private=True, addressed=True, command=name
        )


def extract_question(line: str) -> str:
    """Return the question of a line: what follows `/ask`, or all of it."""
    name, *rest = line.split(maxsplit=1) or [""]
    return rest[0] if name.lower() == "/ask" and rest else line


def _explain_reply(reply: Reply) -> str:
    from core.messaging.commands.explain_command import format_explanation
    from core.storage.message_lookup import MessageOutcome

    trace = {name: getattr(reply.trace, name) for name in type(reply.trace).__slots__}
    citations = [{"source": citation.source} for citation in reply.citations]
    return format_explanation(MessageOutcome("answered", "", reply.text, citations, trace), is_admin=True)
