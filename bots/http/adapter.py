"""Any network over plain HTTP as a platform: it posts signed events to us and gets the replies at its callback."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bots.common.connection import Line
from bots.common.proactive import muted
from bots.http.client import Client, Pace
from bots.http.convert import Deleted, content_of, to_message
from bots.http.feedback import PressSink
from bots.http.idempotency import Deletions
from bots.http.server import Server
from bots.http.sink import HttpSink, Shared
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import is_press
from core.observability.logs import logger
from core.types import Attachment, Message

if TYPE_CHECKING:
    from core.ports import Delivery, Receive, Sink
    from core.settings import HttpSettings

UNREADABLE = "http.secret cannot be read: {error}. Make one, for example with: openssl rand -hex 32"
SHORTEST_SECRET = 16


class HttpAdapter:
    """One network.

    An event is confirmed only after `receive` returned. `port` is where it listens, once it does; `taken` counts events
    by their kind. With `mute` no callback is ever sent.
    """

    name = "http"
    bot = ""
    # What one network has said is not for another one.
    inherits = False

    def __init__(self, settings: HttpSettings, pace: Pace | None = None, *, mute: bool = False) -> None:
        self._mute = mute
        self._settings = settings
        self._pace = pace or Pace()
        self._deletions = Deletions()
        self._secret = ""
        self._client: Client | None = None
        self.port = 0
        self.line = Line()
        self.ready = asyncio.Event()
        self.taken: Counter[str] = Counter()

    async def open(self) -> None:
        """Read the secret and check the callback's address. Raises `PlatformError` where either is of no use."""
        try:
            self._secret = await asyncio.to_thread(self._settings.secret.value)
        except (KeyError, OSError, UnicodeDecodeError) as error:
            raise PlatformError(UNREADABLE.format(error=error)) from error
        if len(self._secret) < SHORTEST_SECRET:
            raise PlatformError(f"http.secret is too short: give it at least {SHORTEST_SECRET} characters")
        client = Client(self._settings, self._secret)
        self._client = muted(client, ("close",)) if self._mute else client

    async def listen(self, receive: Receive) -> None:
        """Take events until cancelled. Raises `PlatformError` for an address that cannot be listened on."""

        async def take(event: object) -> None:
            await self._take(event, receive)

        self._opened()
        async with Server(self._settings, self._secret, take).serving() as port:
            self.port = port
            self.line.up()
            self.ready.set()
            logger(__name__).info("http.listening", host=self._settings.host, port=port)
            await asyncio.Event().wait()

    def sink(self, message: Message, delivery: Delivery, previous: str = "") -> Sink:
        """Return a sink that answers this message; `previous` is the id of a reply sent before a crash."""
        if is_press(message):
            return PressSink(self._opened(), message, self._pace)
        shared = Shared(self._opened(), self._deletions, self._pace, self._settings.partials)
        return HttpSink(shared, message, delivery, previous)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return a picture that came with an event. Raises `PlatformError` for one of more than `most` bytes."""
        content = await asyncio.to_thread(content_of, attachment)
        if len(content) > most:
            raise PlatformError(f"the file is larger than {most} bytes")
        return content

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _opened(self) -> Client:
        if self._client is None:
            raise PlatformError("the HTTP adapter is not open")
        return self._client

    async def _take(self, event: object, receive: Receive) -> None:
        found = to_message(event, datetime.now(UTC))
        if isinstance(found, Deleted):
            self._deletions.add((found.chat, found.id))
            self.taken["delete"] += 1
            return
        await receive(found)
        self.taken[str(found.reference["kind"])] += 1
