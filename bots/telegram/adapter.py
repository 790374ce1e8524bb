"""The Telegram adapter: our own poll loop, which confirms an update only when it is saved."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bots.common.adapter import ClientAdapter, read_secret
from bots.common.caches import BoundedDict
from bots.common.connection import TokenRefused
from bots.common.events import ChatMove, IgnoredEvent, RecordMove, record_ignored
from bots.common.positions import PositionStore
from bots.common.reply_sink import SilentSink
from bots.common.settings_menu import MENU_FIELD
from bots.telegram.commands import AdministratorCache, build_menus
from bots.telegram.connection import Conflict, ServerCapabilities, TelegramIntervals
from bots.telegram.convert import ALBUM_WAIT_S, Identity, ends_in_album, merge_albums, to_message
from bots.telegram.feedback import TelegramRatingSink, from_callback_query, from_reaction, from_stop
from bots.telegram.settings_menu import TelegramMenuSink, show_menu
from bots.telegram.sink import TelegramSink
from core.catalogue import languages, messages_for
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.policy.command_table import COMMANDS, Command
from core.observability.logs import get_logger
from core.ports import Delivery, MessageHandler, Sink
from core.settings import TelegramSettings
from core.types import Attachment, Message
from core.types.forms import SettingsForm

if TYPE_CHECKING:
    from bots.telegram.client import TelegramClient

_log = get_logger(__name__)

UNREADABLE_MESSAGE = "telegram.token cannot be read: {error}. Get the bot's token from @BotFather (/newbot, or /mybots)"
# How many drafts are remembered.
MAX_DRAFTS = 1000
# Several bots load at once, each in its own thread: none may use a library that is half loaded.
_LOAD_LOCK = threading.Lock()


class TelegramAdapter(ClientAdapter["TelegramClient"]):
    """One Telegram bot.

    Telegram forgets an update as soon as getUpdates asks for a later one. So every message of a batch goes to
    `receive`, which makes it durable; then the offset is saved, and only then the next batch is requested. A group that
    was upgraded goes to `record_move` first. With `read_only`, a webhook is not removed. `commands` are in its menus.
    """

    name = "telegram"
    title = "Telegram"
    can_resolve_doubt = True
    read_only_calls = ("get_identity", "get_updates", "parse_update", "get_administrators", "download_file", "close")
    _intervals: TelegramIntervals

    def __init__(
        self,
        settings: TelegramSettings,
        positions: PositionStore,
        intervals: TelegramIntervals | None = None,
        *,
        record_move: RecordMove | None = None,
        commands: Sequence[Command] = COMMANDS,
        read_only: bool = False,
    ) -> None:
        super().__init__(intervals or TelegramIntervals(), read_only=read_only)
        self._settings = settings
        self._positions = positions
        self._record_move = record_move
        self._commands = commands
        self._me = Identity(0, "")
        self._administrators = AdministratorCache()
        self._capabilities = ServerCapabilities(settings.rich_messages)
        # The questions that drafts answer, by chat and draft: a second answer is a question of its own.
        self._draft_questions = BoundedDict[tuple[int, int], str](MAX_DRAFTS)

    @property
    def bot_id(self) -> str:
        """The bot's own id, once it is open."""
        return str(self._me.id)

    def spell_command(self, usage: str) -> str:
        """Return a command that people can tap: Telegram recognizes none in code."""
        name, _, arguments = usage.partition(" ")
        return f"/{name} `{arguments}`" if arguments else f"/{name}"

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked token."""
        retry_loop = self._make_retry_loop("polling", self.connection)
        offset = await self._positions.load(self.bot_id)
        while True:
            try:
                batch = await self._fetch_updates(offset)
            except PlatformError as error:
                if isinstance(error, TokenRefused):
                    await self._check_token(self._get_client().get_identity)
                await retry_loop.wait(error)
                continue
            next_offset, delivery_error = await self._deliver_batch(batch, offset, receive)
            if delivery_error is None:
                retry_loop.mark_recovered()
            offset = next_offset
            if delivery_error is not None:
                await retry_loop.wait(delivery_error)

    def _make_sink(self, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        if is_press(message):
            if "query" not in message.reference:
                # A draft was stopped.
                return SilentSink()
            return TelegramRatingSink(self._get_client(), message)
        if MENU_FIELD in message.reference:
            return TelegramMenuSink(self._get_client(), message, delivery)
        draft = int(message.reference["chat_id"]), int(message.reference["message_id"])
        self._draft_questions[draft] = message.id
        return TelegramSink(
            self._get_client(), message, delivery, previous_reply_id, self._intervals, capabilities=self._capabilities
        )

    async def is_admin(self, message: Message) -> bool:
        """Return whether the author administers the chat, in person or anonymously. Raises `PlatformError`."""
        return await self._administrators.is_admin(self._get_client(), message)

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show the settings as a menu of buttons. Raises `PlatformError`."""
        await show_menu(self._get_client(), message, form)
        return True

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return the content of an attachment. Raises `PlatformError`."""
        return await self._get_client().download_file(str(attachment.reference["file_id"]), max_bytes)

    async def _connect(self) -> TelegramClient:
        return await asyncio.to_thread(connect, self._settings)

    async def _set_up(self, client: TelegramClient) -> None:
        """Look up the bot's identity, remove a webhook, set the command menu."""
        self._me = await self._retry_until_ok(client.get_identity)
        self.privacy_setting = "" if self._me.can_read_all else "@BotFather, `/setprivacy`"
        webhook = "" if self._read_only else await self._retry_until_ok(client.remove_webhook)
        if webhook:
            _log.warning("telegram.webhook_removed", url=webhook, why="it would keep all updates from us")
        try:
            for language in languages():
                await client.set_commands(*build_menus(self._commands, messages_for(language)), language)
        except PlatformError as error:
            _log.warning("telegram.command_menu_not_set", error=str(error))
        _log.info("telegram.open", bot=self._me.username, reads_all_messages=self._me.can_read_all)

    async def _fetch_updates(self, offset: int | None) -> list[Any]:
        """Return the next updates. If the rest of an album may follow, ask once more."""
        client = self._get_client()
        # At first and after an outage there is no long poll: only an answer shows that the connection works.
        batch = await client.get_updates(offset, self._intervals.poll_s if self.connection.is_connected else 0)
        if not ends_in_album(batch):
            return batch
        await asyncio.sleep(ALBUM_WAIT_S)
        return await client.get_updates(offset, 0)

    def _hint(self, error: Exception) -> str:
        if isinstance(error, Conflict):
            return "stop the other program, or give this one its own bot; retrying until then"
        if isinstance(error, PlatformError):
            return "retrying; messages wait on Telegram's servers for up to 24 hours"
        return "a message could not be made safe; Telegram keeps it until it can"

    async def _deliver_batch(
        self, batch: list[Any], offset: int | None, receive: MessageHandler
    ) -> tuple[int | None, Exception | None]:
        """Deliver a batch. Return the next offset, and the error that stopped the delivery, if there was one."""
        # Not compared with the old offset: after a quiet week Telegram may begin again at a lower number.
        next_offset = 0
        delivery_error: Exception | None = None
        messages = merge_albums([self._convert(raw) for raw in batch], IgnoredEvent("a further picture of an album"))
        for raw, message in zip(batch, messages, strict=True):
            try:
                await self._deliver(raw, message, receive)
            except Exception as error:
                # Any error: a message that is not saved must not be confirmed.
                delivery_error = error
                break
            next_offset = max(next_offset, (_get_update_id(raw) or -1) + 1)
        if not next_offset:
            id_error = PlatformError("Telegram delivers updates without a number") if batch else None
            return offset, delivery_error or id_error
        try:
            await self._positions.save(self.bot_id, next_offset)
        except Exception as error:
            return offset, error
        return next_offset, delivery_error

    async def _deliver(self, raw: object, message: Message | IgnoredEvent, receive: MessageHandler) -> None:
        if isinstance(message, Message):
            await receive(message)
            return
        if isinstance(message, ChatMove) and self._record_move:
            await self._record_move(message.former, message.chat)
        record_ignored(self.skipped, "telegram.update_skipped", message, update_id=_get_update_id(raw))

    def _get_draft_question(self, chat_id: int, draft_id: int) -> str:
        return self._draft_questions.get((chat_id, draft_id), str(draft_id))

    def _convert(self, raw: object) -> Message | IgnoredEvent:
        try:
            if isinstance(raw, dict) and "message_reaction" in raw:
                return from_reaction(raw, self._me)
            if isinstance(raw, dict) and "stopped_message_generation" in raw:
                return from_stop(raw, self._me, self._get_draft_question)
            update = self._get_client().parse_update(raw)
            if update.callback_query is not None:
                return from_callback_query(update.callback_query, self._me)
            return to_message(update, self._me)
        except Exception as error:
            # An update that breaks the conversion would come again for ever, and hold up all others behind it.
            _log.warning("telegram.update_malformed", update_id=_get_update_id(raw), error=str(error)[:500])
            return IgnoredEvent("malformed", is_expected=False)


def connect(settings: TelegramSettings) -> TelegramClient:
    """Read the token and load aiogram, which takes seconds: for a worker thread. Raises `PlatformError`."""
    token = read_secret(settings.token, UNREADABLE_MESSAGE)
    return load_client().connect(token, settings.api_url)


def _get_update_id(raw: object) -> int | None:
    update_id = raw.get("update_id") if isinstance(raw, dict) else None
    return update_id if isinstance(update_id, int) and not isinstance(update_id, bool) else None


def load_client() -> type[TelegramClient]:
    """Return the client's class. Takes seconds the first time: for a worker thread.

    When it is imported, aiogram completes the validators of all its models, some 440: 4.8 s and 133 MB on the machine
    this was measured on. We use about twenty of them. So only those that the client names are completed: 1.6 s and
    27 MB. Any other model of aiogram says "not fully defined" when it is used.
    """
    with _LOAD_LOCK:
        if "aiogram" not in sys.modules:
            with _defer_model_rebuild("aiogram."):
                import aiogram  # noqa: F401
        from bots.telegram.client import TelegramClient, rebuild_models

        rebuild_models()
    return TelegramClient


@contextmanager
def _defer_model_rebuild(prefix: str) -> Iterator[None]:
    """Leave the models of these modules as they are when they ask to be completed; all others are completed."""
    from pydantic import BaseModel

    original_rebuild = BaseModel.__dict__["model_rebuild"]

    def rebuild_unless_deferred(model: type[BaseModel], /, **options: Any) -> bool | None:
        if model.__module__.startswith(prefix):
            return None
        is_complete: bool | None = original_rebuild.__func__(model, **options)
        return is_complete

    BaseModel.model_rebuild = classmethod(rebuild_unless_deferred)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        BaseModel.model_rebuild = original_rebuild  # type: ignore[method-assign]
