"""The Slack adapter: every event is saved before it is acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bots.common.adapter import ClientAdapter, read_secret
from bots.common.asker_only import for_asker
from bots.common.caches import BoundedDict, TtlCache
from bots.common.connection import TokenRefused
from bots.common.events import ChatMove, IgnoredEvent, MessageDeletion, RecordMove, record_ignored
from bots.common.reply_sink import SilentSink
from bots.slack.agent_view import AGENT_EVENTS, STOPPED_THREAD, StopSink, from_agent_event
from bots.slack.app_home import HomeSink
from bots.slack.channel_directory import MOVE_EVENT, RENAME_EVENTS, ChannelDirectory
from bots.slack.commands import ACKNOWLEDGEMENT, MESSAGE_ACTION, AskerSink, CommandSink, from_message_shortcut
from bots.slack.connection import RateLimiter, SlackIntervals
from bots.slack.convert import (
    Identity,
    from_command,
    from_event,
    is_from_other_workspace,
    spell_command,
    to_thread_messages,
)
from bots.slack.feedback import (
    BLOCK_ACTIONS,
    REACTION_EVENTS,
    SlackRatingSink,
    from_block_action,
    from_reaction,
)
from bots.slack.settings_modal import (
    FIELD,
    VIEW_SUBMISSION,
    FieldSink,
    Submission,
    SubmissionHandler,
    to_submission,
    to_view,
)
from bots.slack.sink import SlackSink, SlackSinkContext
from bots.slack.status import MissingCapabilities
from bots.slack.thread_cache import MAX_ENTRIES, HasAnswered, ThreadCache, ThreadMessage
from core.errors import PlatformError, PlatformUnavailable
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.policy.command_table import is_ask_command
from core.observability.logs import get_logger
from core.ports import Delivery, MessageHandler, Sink
from core.settings import Secret, SlackSettings
from core.types import FOR_ASKER, Attachment, Message
from core.types.forms import SettingsForm

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

_log = get_logger(__name__)

# How long it may take until the bot knows that somebody became an administrator, or is none any more.
ADMINISTRATOR_TTL_S = 30.0
# How long it is remembered whether somebody belongs to the workspace.
MEMBER_TTL_S = 300.0
MAX_USERS = 1000


class SlackAdapter(ClientAdapter["SlackClient"]):
    """One Slack app in one workspace.

    Slack delivers an event again until it is acknowledged. So every message goes to `receive`, which makes it durable,
    before the acknowledgement. `port` is the HTTP port while the adapter listens on one. In the channels
    `bot_message_chats`, messages of other bots are delivered, too: they are counted.
    """

    name = "slack"
    title = "Slack"
    can_resolve_doubt = True
    # The submission of a form waits here for its result.
    binding_references = frozenset({FIELD})
    # The task that keeps the connection open is one of them.
    read_only_calls = (
        "get_identity",
        "get_socket_url",
        "get_channel",
        "is_admin",
        "is_member",
        "read_thread",
        "download_file",
        "close",
        "web",
        "session",
    )
    _intervals: SlackIntervals

    def __init__(
        self,
        settings: SlackSettings,
        has_answered: HasAnswered,
        intervals: SlackIntervals | None = None,
        *,
        bot_message_chats: Collection[str] = (),
        is_for_asker: Callable[[str], bool] = lambda _channel: False,
        record_move: RecordMove | None = None,
        read_only: bool = False,
    ) -> None:
        super().__init__(intervals or SlackIntervals(), read_only=read_only)
        self._settings = settings
        # Over HTTP, a load balancer chooses the daemon that gets an event.
        self.needs_leader = settings.app_token is not None
        self._bot_message_chats = bot_message_chats
        self._is_for_asker = is_for_asker
        self._record_move = record_move
        self._thread_cache = ThreadCache(has_answered, self._read_thread)
        self._rate_limiter = RateLimiter()
        self._missing_capabilities = MissingCapabilities()
        self._administrators = TtlCache[bool](ADMINISTRATOR_TTL_S, MAX_USERS)
        self._members = TtlCache[bool](MEMBER_TTL_S, MAX_USERS)
        self._channels = ChannelDirectory()
        self._open_questions = BoundedDict[tuple[str, str], str](MAX_ENTRIES)
        self._untitled_threads = BoundedDict[tuple[str, str], None](MAX_ENTRIES)
        self._submissions = SubmissionHandler(self._intervals.submit_timeout_s)
        self._me = Identity("")
        self._socket_url = ""
        self.port = 0

    @property
    def bot_id(self) -> str:
        """The bot's own id, once it is open."""
        return self._me.user_id

    @property
    def author_ids(self) -> frozenset[str]:
        """The bot's ids as a member and as an app, once it is open."""
        return frozenset((self._me.user_id, self._me.bot_id)) - {""}

    def spell_command(self, usage: str) -> str:
        """Return how a command is typed in Slack: behind the name of the app's own command."""
        return spell_command(usage)

    async def _connect(self) -> SlackClient:
        return await connect(self._settings, self._intervals)

    async def _set_up(self, client: SlackClient) -> None:
        """Look up the bot's identity, and test the app token if there is one."""
        self._me = await self._retry_until_ok(client.get_identity)
        if self._settings.app_token is not None:
            # Used for the first connection: a second request right away would exceed Slack's rate limit.
            self._socket_url = await self._retry_until_ok(client.get_socket_url)
        _log.info("slack.open", bot=self._me.name, workspace=self._me.team)

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked token."""
        from bots.slack.events import EventReceiver

        settings = self._settings
        secret = await _read_secret("signing_secret", settings.signing_secret)
        events = EventReceiver(self._get_client(), secret, lambda payload: self._handle_payload(payload, receive))
        if settings.app_token is not None:
            await self._keep_connected(events.run_socket)
        async with events.serve(settings.host, settings.port, settings.path) as self.port:
            self.connection.mark_connected()
            _log.info("slack.listening", host=settings.host, port=self.port, path=settings.path)
            await asyncio.Event().wait()

    def _make_sink(self, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        client = self._get_client()
        if sink := self._make_note_sink(client, message, delivery):
            return sink
        if FOR_ASKER in message.reference and "response_url" not in message.reference:
            is_deleted = partial(self._thread_cache.is_deleted, message.key.chat, str(message.reference["ts"]))
            return AskerSink(client, message, delivery, previous_reply_id, self._intervals, is_deleted=is_deleted)
        if "response_url" in message.reference:
            return CommandSink(client, message, delivery, previous_reply_id, self._intervals)
        context = SlackSinkContext(
            client,
            self._thread_cache,
            self._rate_limiter,
            self._missing_capabilities,
            self._intervals,
            self._me,
            self._open_questions,
            self._untitled_threads,
        )
        return SlackSink(context, message, delivery, previous_reply_id)

    def _make_note_sink(self, client: SlackClient, message: Message, delivery: Delivery) -> Sink | None:
        """Return a sink for forms and pages; None for messages of a conversation."""
        if message.origin.purpose == "prompts":
            return SilentSink()
        if message.origin.purpose == "home":
            return HomeSink(client, self._members, message, delivery)
        if STOPPED_THREAD in message.reference:
            return StopSink(client, message)
        if is_press(message):
            return SlackRatingSink(client, message, delivery, self._intervals)
        return FieldSink(client, self._submissions, message, delivery) if FIELD in message.reference else None

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return the content of an attachment. Raises `PlatformError`."""
        return await self._get_client().download_file(str(attachment.reference["file"]), max_bytes)

    async def is_admin(self, message: Message) -> bool:
        """Return whether the author administers the workspace. Raises `PlatformError`."""
        client = self._get_client()
        return await self._administrators.get(message.author_id, lambda: client.is_admin(message.author_id))

    async def has_guests(self, chat: str) -> bool:
        """Return whether a channel is shared, or a person of another workspace. Raises `PlatformUnavailable`."""
        client = self._get_client()
        if not chat.startswith(("U", "W")):
            return await self._channels.has_guests(client, chat)
        try:
            return not await self._members.get(chat, lambda: client.is_member(chat))
        except PlatformUnavailable:
            raise
        except PlatformError as error:
            _log.info("slack.person_unknown", user=chat, error=str(error))
            return True

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Open a form for the author of a slash command. Raises `PlatformError`, also when it is too late for that."""
        await self._get_client().open_modal(message.id, to_view(form, message))
        return True

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        """Suggest questions in the conversation that a person opened. Raises `PlatformError`."""
        channel = str(message.reference["channel"])
        thread_ts = str(message.reference["thread_ts"])
        await self._get_client().suggest(channel, thread_ts, title, prompts)
        return True

    async def _keep_connected(
        self, run_connection: Callable[[str, float, Callable[[], None]], Awaitable[None]]
    ) -> None:
        """Keep one Socket Mode connection open."""
        retry_loop = self._make_retry_loop("listening", self.connection)
        refusal_count = 0
        while True:
            url = self._socket_url
            self._socket_url = ""
            try:
                url = url or await self._get_client().get_socket_url()
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

    async def _read_thread(self, channel: str, thread_ts: str, before_ts: str) -> list[ThreadMessage]:
        return to_thread_messages(await self._get_client().read_thread(channel, thread_ts, before_ts), self._me)

    def _hint(self, error: Exception) -> str:
        return "retrying" if isinstance(error, PlatformError) else "an event could not be made safe"

    async def _handle_payload(self, payload: Mapping[str, Any], receive: MessageHandler) -> Mapping[str, Any]:
        """Save one payload. Return the answer to Slack. Raises the error that prevented it from being saved."""
        message = self._convert(payload)
        if isinstance(message, MessageDeletion):
            self._thread_cache.mark_deleted(message)
        elif isinstance(message, IgnoredEvent):
            if isinstance(message, ChatMove) and self._record_move:
                await self._record_move(message.former, message.chat)
            event_id = str(payload.get("event_id", ""))[:100]
            record_ignored(self.skipped, "slack.event_skipped", message, event_id=event_id)
        elif isinstance(message, Submission):
            return await self._submissions.handle(message, lambda each: self._describe_and_receive(each, receive))
        elif message.command:
            if message.origin.purpose == "prompts":
                self._untitled_threads[message.key.chat, str(message.reference["thread_ts"])] = None
            await self._describe_and_receive(message, receive)
            return {"text": ACKNOWLEDGEMENT} if message.command == "ask" and not self._read_only else {}
        else:
            if not message.is_by_bot:
                message = await self._thread_cache.with_thread_context(message)
            await self._describe_and_receive(message, receive)
        return {}

    async def _describe_and_receive(self, message: Message, receive: MessageHandler) -> None:
        """Pass on a message with what Slack says of its channel."""
        await receive(self._restrict(await self._channels.describe(self._get_client(), message)))

    def _restrict(self, message: Message) -> Message:
        """Return a question to the bot with its answer for the asker's eyes alone, where answers are to be so."""
        is_question = message.addressed and is_ask_command(message.command) and not message.origin.purpose
        if not is_question or message.private or message.is_by_bot or not self._is_for_asker(message.key.chat):
            return message
        return for_asker(message)

    def _convert(self, payload: Mapping[str, Any]) -> Message | MessageDeletion | Submission | IgnoredEvent:
        interactive = {
            BLOCK_ACTIONS: from_block_action,
            VIEW_SUBMISSION: to_submission,
            MESSAGE_ACTION: from_message_shortcut,
        }
        kind = str(payload.get("type"))
        try:
            if is_from_other_workspace(payload, self._me):
                return IgnoredEvent("from another workspace", is_expected=False)
            if isinstance(payload.get("command"), str):
                return from_command(payload, self._me)
            if kind in interactive:
                return interactive[kind](payload, self._me)
            if kind == "event_callback":
                return self._convert_event(payload)
        except Exception as error:
            # If Slack delivered it again, it would fail again.
            _log.warning("slack.event_malformed", error=str(error)[:500])
            return IgnoredEvent("malformed", is_expected=False)
        return IgnoredEvent(f"a payload of type {kind[:50]}")

    def _convert_event(self, payload: Mapping[str, Any]) -> Message | MessageDeletion | IgnoredEvent:
        event = payload.get("event") or {}
        event_type = event.get("type")
        # The older view of assistants has it within.
        channel = event.get("channel") or (event.get("assistant_thread") or {}).get("channel_id")
        if isinstance(channel, str):
            self._channels.note_event(channel, payload.get("is_ext_shared_channel"))
        if event_type in REACTION_EVENTS:
            return from_reaction(payload["event"], self._me)
        if event_type in RENAME_EVENTS:
            self._channels.forget(str(payload["event"]["channel"]["id"]))
            return IgnoredEvent("a channel that was renamed")
        if event_type == MOVE_EVENT:
            # A private channel that is shared with another organization has another id from then on.
            return ChatMove(
                "a channel that has another id", former=event["old_channel_id"], chat=event["new_channel_id"]
            )
        if event_type in AGENT_EVENTS:
            return from_agent_event(payload["event"], self._me, self._open_questions)
        return from_event(payload, self._me, self._bot_message_chats)


async def connect(settings: SlackSettings, intervals: SlackIntervals) -> SlackClient:
    """Read the tokens and load slack_sdk in a worker thread, and make a client."""
    bot_token = await _read_secret("bot_token", settings.bot_token)
    app_token = await _read_secret("app_token", settings.app_token)
    client_class = await asyncio.to_thread(_load_client)
    return client_class.connect(bot_token, app_token, settings.api_url, intervals.request_timeout_s)


async def _read_secret(setting: str, secret: Secret | None) -> str:
    message = f"slack.{setting} cannot be read: {{error}}. docs/slack.md says where it comes from"
    return "" if secret is None else (await asyncio.to_thread(read_secret, secret, message)).strip()


def _load_client() -> type[SlackClient]:
    from bots.slack import events  # noqa: F401 - slack_bolt too takes its time
    from bots.slack.client import SlackClient

    return SlackClient
