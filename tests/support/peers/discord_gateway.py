"""The gateway of the Discord peer: hello, identify, heartbeat, resume, zlib-stream, and everything that goes wrong."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

Json = dict[str, Any]

GUILDS = 1 << 0
GUILD_MESSAGES = 1 << 9
GUILD_TYPING = 1 << 11
DIRECT_MESSAGES = 1 << 12
MESSAGE_CONTENT = 1 << 15
KNOWN_INTENTS = (1 << 26) - 1
PRIVILEGED = 1 << 1 | 1 << 8 | MESSAGE_CONTENT
DISPATCH = 0
HEARTBEAT = 1
IDENTIFY = 2
PRESENCE = 3
RESUME = 6
RECONNECT = 7
INVALID = 9
HELLO = 10
ACK = 11


class Closing(Exception):
    """The gateway closes the connection with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


@dataclass(slots=True)
class Session:
    """A session: what it may see, all it was sent, and its connection while it has one."""

    id: str
    intents: int
    sent: list[str] = field(default_factory=list)
    connection: Connection | None = None
    sequence: int = 0


class Connection:
    """One WebSocket with its compression."""

    def __init__(self, socket: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        self.socket = socket
        self.transport = transport
        self.beats = 0
        self.last_beat = time.monotonic()
        self._deflate = zlib.compressobj()

    async def send(self, text: str) -> None:
        """Send a payload as the next piece of the compressed stream."""
        packed = self._deflate.compress(text.encode()) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        if not self.socket.closed:
            await self.socket.send_bytes(packed)

    async def say(self, op: int, d: object = None) -> None:
        """Send an operation that is no event."""
        await self.send(json.dumps({"op": op, "d": d, "s": None, "t": None}))


class Gateway:
    """The gateway. `ready` makes the payload of READY, `welcome` the events after it.

    `granted` are the privileged intents that the developer portal allows; `identified` and `resumed` count what
    clients did, `closed` holds the codes with which connections were closed for a client's mistake.
    """

    def __init__(self, token: str, ready: Callable[[], Json], welcome: Callable[[], list[tuple[str, Json]]]) -> None:
        self.token = token
        self.url = ""
        self.granted = MESSAGE_CONTENT
        self.beat_ms = 5000
        self.sessions: dict[str, Session] = {}
        self.identified = 0
        self.resumed = 0
        self.handshakes: list[float] = []
        self.closed: list[int] = []
        self.refuse_handshakes = 0
        self.drop_after_hello = 0
        self.silent_hello = 0
        self.malformed_hello = 0
        self.close_with: list[int] = []
        self.invalidate_identify = 0
        self.acknowledge = True
        self.beats = 0
        self.changed = asyncio.Event()
        self._ready = ready
        self._welcome = welcome
        self._connections: set[Connection] = set()

    @property
    def live(self) -> list[Session]:
        """Return the sessions with a connection."""
        return [session for session in self.sessions.values() if session.connection is not None]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one WebSocket."""
        self.handshakes.append(time.monotonic())
        self.changed.set()
        if self.refuse_handshakes:
            self.refuse_handshakes -= 1
            return web.Response(status=503)
        expected = {"v": "10", "encoding": "json", "compress": "zlib-stream"}
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if {key: request.query.get(key) for key in expected} != expected:
            await socket.close(code=4012, message=b"Invalid API version")
            return socket
        connection = Connection(socket, request.transport)
        self._connections.add(connection)
        session: Session | None = None
        watch = asyncio.create_task(self._watch(connection))
        try:
            if not await self._greet(connection):
                return socket
            async for message in socket:
                if message.type is not WSMsgType.TEXT:
                    raise Closing(4002, "Error while decoding payload.")
                session = await self._take(connection, session, message.data)
        except Closing as closing:
            self.closed.append(closing.code)
            await socket.close(code=closing.code, message=closing.reason.encode())
        finally:
            watch.cancel()
            self._connections.discard(connection)
            if session is not None and session.connection is connection:
                session.connection = None
            self.changed.set()
        return socket

    async def _greet(self, connection: Connection) -> bool:
        if self.silent_hello:
            self.silent_hello -= 1
            await asyncio.sleep(3600)
        if self.malformed_hello:
            self.malformed_hello -= 1
            await connection.say(HELLO, {"interval": "soon"})
            return True
        await connection.say(HELLO, {"heartbeat_interval": self.beat_ms, "_trace": []})
        if self.drop_after_hello:
            self.drop_after_hello -= 1
            self._abort(connection)
            return False
        return True

    async def _take(self, connection: Connection, session: Session | None, text: str) -> Session | None:
        try:
            payload = json.loads(text)
            op = payload["op"]
            data = payload["d"]
        except (ValueError, KeyError, TypeError):
            raise Closing(4002, "Error while decoding payload.") from None
        if op == HEARTBEAT:
            self.beats += 1
            connection.last_beat = time.monotonic()
            if self.acknowledge:
                await connection.say(ACK)
            return session
        if op == IDENTIFY:
            if session is not None:
                raise Closing(4005, "Already authenticated.")
            return await self._identify(connection, data)
        if op == RESUME:
            return await self._resume(connection, data)
        if session is None:
            raise Closing(4003, "Not authenticated.")
        if op != PRESENCE:
            raise Closing(4001, "Unknown opcode.")
        return session

    async def _identify(self, connection: Connection, data: Json) -> Session | None:
        self.identified += 1
        if self.close_with:
            code = self.close_with.pop(0)
            raise Closing(code, "told to")
        if data.get("token") != self.token:
            raise Closing(4004, "Authentication failed.")
        if not {"os", "browser", "device"} <= set(data.get("properties", {})):
            raise Closing(4002, "Error while decoding payload.")
        intents = data.get("intents")
        if not isinstance(intents, int) or intents & ~KNOWN_INTENTS:
            raise Closing(4013, "Invalid intent(s).")
        if intents & PRIVILEGED & ~self.granted:
            raise Closing(4014, "Disallowed intent(s).")
        if self.invalidate_identify:
            self.invalidate_identify -= 1
            await connection.say(INVALID, False)
            return None
        session = Session(f"session-{len(self.sessions) + 1}", intents, connection=connection)
        self.sessions[session.id] = session
        ready = {"v": 10, "session_id": session.id, "resume_gateway_url": self.url, **self._ready()}
        await self._dispatch(session, "READY", ready)
        for kind, event in self._welcome():
            await self._dispatch(session, kind, event)
        self.changed.set()
        return session

    async def _resume(self, connection: Connection, data: Json) -> Session | None:
        if data.get("token") != self.token:
            raise Closing(4004, "Authentication failed.")
        session = self.sessions.get(str(data.get("session_id")))
        if session is None:
            await connection.say(INVALID, False)
            return None
        if not isinstance(data.get("seq"), int) or data["seq"] > session.sequence:
            raise Closing(4007, "Invalid seq.")
        self.resumed += 1
        for text in session.sent[data["seq"] :]:
            await connection.send(text)
        session.connection = connection
        await self._dispatch(session, "RESUMED", {"_trace": []})
        self.changed.set()
        return session

    async def _watch(self, connection: Connection) -> None:
        """Close a connection whose client has stopped its heartbeat."""
        while True:
            await asyncio.sleep(self.beat_ms / 1000)
            if time.monotonic() - connection.last_beat > 3 * self.beat_ms / 1000 + 2:
                self.closed.append(4009)
                await connection.socket.close(code=4009, message=b"Session timed out.")
                return

    async def _dispatch(self, session: Session, kind: str, event: object) -> None:
        session.sequence += 1
        text = json.dumps({"op": DISPATCH, "t": kind, "s": session.sequence, "d": event})
        session.sent.append(text)
        if session.connection is not None:
            await session.connection.send(text)

    async def emit(self, kind: str, event: object, make_event: Callable[[int], object | None] | None = None) -> None:
        """Send an event to every session; `seen` returns what intents allow to see of it, None for nothing."""
        for session in list(self.sessions.values()):
            output = event if make_event is None else make_event(session.intents)
            if output is not None:
                await self._dispatch(session, kind, output)

    async def raw(self, text: str) -> None:
        """Send any text as a payload to all that are connected."""
        for session in self.live:
            assert session.connection is not None
            await session.connection.send(text)

    async def tell(self, op: int, d: object = None) -> None:
        """Send an operation to all that are connected: RECONNECT, INVALID (and whether it can be resumed)."""
        for session in self.live:
            assert session.connection is not None
            if op == INVALID and not d:
                self.sessions.pop(session.id)
            await session.connection.say(op, d)

    def drop(self) -> None:
        """Break every connection without a farewell."""
        for connection in list(self._connections):
            self._abort(connection)

    async def close(self, code: int = WSCloseCode.GOING_AWAY) -> None:
        """Close every connection with a code."""
        for connection in list(self._connections):
            await connection.socket.close(code=code)

    def forget(self) -> None:
        """Forget every session: none can be resumed."""
        self.sessions.clear()

    def _abort(self, connection: Connection) -> None:
        for session in self.sessions.values():
            if session.connection is connection:
                session.connection = None
        if connection.transport is not None:
            connection.transport.abort()
