"""A client of which only the calls that read get through: what a dry run is made with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast

from core.errors import PlatformError


def reference_in(platform: str, chat: str) -> Mapping[str, Any]:
    """Return the reference with which the platform's sink posts a new message into a chat.

    Over HTTP the callback then names no event.
    """
    match platform:
        case "telegram":
            return {"chat_id": int(chat), "message_id": 0, "thread_id": None}
        case "discord":
            return {"channel": chat, "message": ""}
        case "slack":
            return {"channel": chat, "ts": "", "thread_ts": None}
        case _:
            return {"event": ""}


Client = TypeVar("Client")


class _Muted:
    def __init__(self, client: object, reads: Collection[str]) -> None:
        self._client = client
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        if name in self._reads:
            return getattr(self._client, name)

        async def withheld(*_: object, **__: object) -> None:
            raise PlatformError(f"a dry run shows nothing: {name} is not called")

        return withheld


def muted(client: Client, reads: Collection[str]) -> Client:
    """Return the client with every call outside `reads` refused by a `PlatformError`, before anything is sent.

    What is new in a client shows nothing either, as long as nobody names it here.
    """
    return cast(Client, _Muted(client, reads))
