"""The Slack adapter: every event is saved before it is acknowledged."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from bots.common.connection import RetryLoop
from bots.common.dry_run import make_read_only
from bots.common.events import IgnoredEvent, MessageDeletion, record_ignored
from bots.slack.commands import ACKNOWLEDGEMENT, MESSAGE_ACTION, AdministratorCache, CommandSink, from_message_shortcut
from bots.slack.connection import RateLimiter, SlackIntervals, TokenRefused
from bots.slack.convert import Identity, from_command, from_event
from bots.slack.feedback import BLOCK_ACTIONS, SlackRatingSink, from_block_action
from bots.slack.settings_modal import (
    FIELD,
    VIEW_SUBMISSION,
    FieldSink,
    Submission,
    SubmissionHandler,
    to_submission,
    to_view,
)
from bots.slack.sink import MissingCapabilities, SlackSink, SlackSinkContext
from bots.slack.thread_cache import HasAnswered, ThreadCache
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import is_press
from core.observability.logs import get_logger
from core.ports import Adapter, ConnectionStatus, Delivery, MessageHandler, SettingsForm, Sink
from core.types import Attachment, Message

if TYPE_CHECKING:
    from bots.slack.client import SlackClient
    from core.settings import Secret, SlackSettings

Result = TypeVar("Result")

UNREADABLE_MESSAGE = "slack.{which} cannot be read: {error}. docs/slack.md says where it comes from"
# The client's calls that show nothing to anybody, and what holds the connection.
READ_ONLY_CALLS = frozenset(("get_identity", "get_socket_url", "is_admin", "download_file", "close", "web", "session"))


class SlackAdapter(Adapter):
    """One Slack app in one workspace.

    Slack takes an event for delivered once it is acknowledged, and delivers it again otherwise. So every message is
    handed to `receive`, which makes it durable, before the acknowledgement. `skipped` counts payloads that became no
    message, by reason; `port` is where HTTP is listened on, once it is. In the channels `bot_message_chats`,
    other bots' messages are delivered as well, to be counted. With `read_only` nothing is ever shown.
    """

    name = "slack"
    can_fetch_attachments = True

    def __init__(
        self,
        settings: SlackSettings,
        has_answered: HasAnswered,
        intervals: SlackIntervals | None = None,
        *,
        bot_message_chats: Collection[str] = (),
        read_only: bool = False,
    ) -> None:
        self._read_only = read_only
        self._settings = settings
        self._bot_message_chats = bot_message_chats
        self._intervals = intervals or SlackIntervals()
        self.connection: ConnectionStatus = ConnectionStatus()
        self._thread_cache = ThreadCache(has_answered)
        self._administrators = AdministratorCache()
        self._submissions = SubmissionHandler(self._intervals.submit_timeout_s)
        self._context: SlackSinkContext | None = None
        self._me = Identity("")
        self._socket_url = ""
        self.skipped: Counter[str] = Counter()
        self.port = 0

    @property
    def bot_id(self) -> str:
        """The bot's own id, once it is open."""
        return self._me.user_id

    async def open(self) -> None:
        """Learn who the bot is, and try the app token where there is one.

        Outages are waited out. Raises `PlatformError` for a token that is missing or refused.
        """
        client = await _connect(self._settings, self._intervals)
        client = make_read_only(client, READ_ONLY_CALLS) if self._read_only else client
        self._context = SlackSinkContext(
            client, self._thread_cache, RateLimiter(), MissingCapabilities(), self._intervals
        )
        try:
            self._me = await self._retry_until_ok(client.get_identity)
            if self._settings.app_token is not None:
                # Good for the first connection; asking for another one right away would be asking too often.
                self._socket_url = await self._retry_until_ok(client.get_socket_url)
        except BaseException:
            await self.close()
            raise
        get_logger(__name__).info("slack.open", bot=self._me.name, workspace=self._me.team)

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked token."""
        from bots.slack.events import EventReceiver

        settings = self._settings
        secret = await _read_secret("signing_secret", settings.signing_secret)
        events = EventReceiver(
            self._get_context().client, secret, lambda payload: self._handle_payload(payload, receive)
        )
        if settings.app_token is not None:
            await self._keep_connected(events.run_socket)
        async with events.serve(settings.host, settings.port, settings.path) as self.port:
            self.connection.mark_connected()
            get_logger(__name__).info("slack.listening", host=settings.host, port=self.port, path=settings.path)
            await asyncio.Event().wait()

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return a sink that answers this message; `previous_reply_id` is the timestamp of an earlier reply."""
        context = self._get_context()
        # Another bot's reply cannot be edited.
        own_reply_ts = previous_reply_id if message.bot in ("", self._me.user_id) else ""
        if is_press(message):
            return SlackRatingSink(context.client, message, self._intervals)
        if FIELD in message.reference:
            return FieldSink(context.client, self._submissions, message)
        if "response_url" in message.reference:
            return CommandSink(context.client, message, delivery, own_reply_ts, self._intervals)
        return SlackSink(context, message, delivery, own_reply_ts)

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return the content of an attachment. Raises `PlatformError`."""
        return await self._get_context().client.download_file(str(attachment.reference["file"]), max_bytes)

    async def is_admin(self, message: Message) -> bool:
        """Return whether the author administers the workspace. Raises `PlatformError`."""
        return await self._administrators.is_admin(self._get_context().client, message)

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Open a form for the author of a slash command. Raises `PlatformError`, also when it is too late for that."""
        await self._get_context().client.open_modal(message.id, to_view(form, message))
        return True

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        context, self._context = self._context, None
        if context is not None:
            await context.client.close()

    def _get_context(self) -> SlackSinkContext:
        if self._context is None:
            raise PlatformError("the Slack adapter is not open")
        return self._context

    async def _keep_connected(
        self, run_connection: Callable[[str, float, Callable[[], None]], Awaitable[None]]
    ) -> None:
        """Keep one Socket Mode connection open."""
        retry_loop = RetryLoop("slack", "listening", self._intervals, _hint, self.connection)
        refusal_count = 0
        while True:
            url, self._socket_url = self._socket_url, ""
            try:
                url = url or await self._get_context().client.get_socket_url()
                refusal_count = 0
                await run_connection(url, self._intervals.ping_s, retry_loop.mark_recovered)
            except TokenRefused as error:
                # A single refusal may be a temporary fault of Slack.
                refusal_count += 1
                if refusal_count > 1:
                    raise
                await retry_loop.wait(error)
            except PlatformError as error:
                await retry_loop.wait(error)

    def _retry_until_ok(self, call: Callable[[], Awaitable[Result]]) -> Awaitable[Result]:
        return RetryLoop("slack", "opening", self._intervals, _hint).retry_until_ok(call)

    async def _handle_payload(self, payload: Mapping[str, Any], receive: MessageHandler) -> Mapping[str, Any]:
        """Save one payload. Return the answer to Slack. Raises the error that prevented it from being saved."""
        incoming = self._convert(payload)
        if isinstance(incoming, MessageDeletion):
            self._thread_cache.mark_deleted(incoming)
        elif isinstance(incoming, IgnoredEvent):
            event_id = str(payload.get("event_id", ""))[:100]
            record_ignored(self.skipped, "slack.event_skipped", incoming, event_id=event_id)
        elif isinstance(incoming, Submission):
            return await self._submissions.handle(incoming, receive)
        elif incoming.command:
            await receive(incoming)
            return {"text": ACKNOWLEDGEMENT} if incoming.command == "ask" and not self._read_only else {}
        elif incoming.is_by_bot:
            await receive(incoming)
        else:
            await receive(await self._thread_cache.with_thread_context(incoming))
        return {}

    def _convert(self, payload: Mapping[str, Any]) -> Message | MessageDeletion | Submission | IgnoredEvent:
        interactive = {
            BLOCK_ACTIONS: from_block_action,
            VIEW_SUBMISSION: to_submission,
            MESSAGE_ACTION: from_message_shortcut,
        }
        kind = str(payload.get("type"))
        try:
            if isinstance(payload.get("command"), str):
                return from_command(payload, self._me)
            if kind in interactive:
                return interactive[kind](payload, self._me)
            if kind == "event_callback":
                return from_event(payload, self._me, self._bot_message_chats)
        except Exception as error:
            # Delivered again it would fail again.
            get_logger(__name__).warning("slack.event_malformed", error=str(error)[:500])
            return IgnoredEvent("malformed", is_expected=False)
        return IgnoredEvent(f"a payload of type {kind[:50]}")


async def identify(settings: SlackSettings) -> str:
    """Return the names of the bot and the workspace that the token belongs to. Raises `PlatformError`."""
    client = await _connect(settings, SlackIntervals())
    try:
        me = await client.get_identity()
        return f"{me.name} in {me.team}"
    finally:
        await client.close()


def _hint(error: Exception) -> str:
    return "retrying" if isinstance(error, PlatformError) else "an event could not be made safe"


async def _connect(settings: SlackSettings, intervals: SlackIntervals) -> SlackClient:
    """Read the tokens and load slack_sdk in a worker thread, and make a client."""
    bot_token = await _read_secret("bot_token", settings.bot_token)
    app_token = await _read_secret("app_token", settings.app_token)
    client_class = await asyncio.to_thread(_load_client)
    return client_class.connect(bot_token, app_token, settings.api_url, intervals.request_timeout_s)


async def _read_secret(setting: str, secret: Secret | None) -> str:
    try:
        return "" if secret is None else (await asyncio.to_thread(secret.value)).strip()
    except (KeyError, OSError, UnicodeDecodeError) as error:
        raise PlatformError(UNREADABLE_MESSAGE.format(which=setting, error=error)) from error


def _load_client() -> type[SlackClient]:
    import bots.slack.events  # noqa: F401 - slack_bolt too takes its time
    from bots.slack.client import SlackClient

    return SlackClient
