"""The HTTP adapter: a network posts signed events and gets the replies at its callback."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime

from bots.common.adapter import ClientAdapter, read_secret
from bots.common.caches import BoundedDict
from bots.common.connection import TokenRefused
from bots.common.events import MessageDeletion
from bots.http.client import CallbackClient, HttpIntervals
from bots.http.convert import check_namespace, decode_content, to_message
from bots.http.server import EventServer
from bots.http.signing import EventKey
from bots.http.sink import HttpRatingSink, HttpSink, HttpSinkContext
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import is_press
from core.observability.logs import get_logger
from core.ports import Delivery, MessageHandler, Sink
from core.settings import HttpSettings
from core.types import Attachment, Message

_log = get_logger(__name__)

UNREADABLE_MESSAGE = "http.secret cannot be read: {error}. Make one, for example with: openssl rand -hex 32"
MIN_SECRET_CHARS = 16
MAX_DELETIONS = 10_000


class HttpAdapter(ClientAdapter[CallbackClient]):
    """One network.

    An event is confirmed only after `receive` returned. `port` is where it listens, once it does; `event_counts`
    counts events by kind. The network without a name (`is_unnamed`) may not use ids that end as those of others do.
    """

    name = "http"
    title = "HTTP"
    _intervals: HttpIntervals
    # The messages of one network are not for another one.
    can_take_over = False
    # A repeated request has its old key.
    can_resolve_doubt = True
    # Its network posts events to the daemon that a load balancer chooses.
    needs_leader = False

    def __init__(
        self,
        settings: HttpSettings,
        intervals: HttpIntervals | None = None,
        *,
        read_only: bool = False,
        is_unnamed: bool = True,
    ) -> None:
        super().__init__(intervals or HttpIntervals(), read_only=read_only)
        self._is_unnamed = is_unnamed
        self._settings = settings
        self._deletions = BoundedDict[EventKey, None](MAX_DELETIONS)
        self._secret = ""
        self.port = 0
        self.ready = asyncio.Event()
        self.event_counts: Counter[str] = Counter()

    async def _connect(self) -> CallbackClient:
        self._secret = await asyncio.to_thread(read_secret, self._settings.secret, UNREADABLE_MESSAGE)
        if len(self._secret) < MIN_SECRET_CHARS:
            raise TokenRefused(f"http.secret is too short: give it at least {MIN_SECRET_CHARS} characters")
        return CallbackClient(self._settings, self._secret)

    async def listen(self, receive: MessageHandler) -> None:
        """Handle events until cancelled. Raises `PlatformError` for an address that cannot be listened on."""

        async def handle_event(event: object) -> None:
            await self._handle_event(event, receive)

        self._get_client()
        async with EventServer(self._settings, self._secret, handle_event, self.connection).serve() as port:
            self.port = port
            self.connection.mark_connected()
            self.ready.set()
            _log.info("http.listening", host=self._settings.host, port=port)
            await asyncio.Event().wait()

    def _make_sink(self, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        if is_press(message):
            return HttpRatingSink(self._get_client(), message, delivery, self._intervals)
        context = HttpSinkContext(self._get_client(), self._deletions, self._intervals, self._settings.partials)
        return HttpSink(context, message, delivery, previous_reply_id)

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return a picture that came with an event. Raises `PlatformError` for one of more than `max_bytes` bytes."""
        content = await asyncio.to_thread(decode_content, attachment)
        if len(content) > max_bytes:
            raise PlatformError(f"the file is larger than {max_bytes} bytes")
        return content

    async def _handle_event(self, event: object, receive: MessageHandler) -> None:
        if self._is_unnamed:
            check_namespace(event)
        message = to_message(event, datetime.now(UTC))
        if isinstance(message, MessageDeletion):
            self._deletions[message.chat, message.message_id] = None
            self.event_counts["delete"] += 1
            return
        await receive(message)
        self.event_counts[str(message.reference["kind"])] += 1
