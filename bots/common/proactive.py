"""A client of which only the calls that read get through: what a dry run is made with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast

from core.errors import PlatformError


def make_reference(platform: str, chat: str) -> Mapping[str, Any]:
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


class _ReadOnlyClient:
    def __init__(self, client: object, allowed_calls: Collection[str]) -> None:
        self._client = client
        self._allowed_calls = allowed_calls

    def __getattr__(self, name: str) -> Any:
        if name in self._allowed_calls:
            return getattr(self._client, name)

        async def refuse(*_: object, **__: object) -> None:
            raise PlatformError(f"a dry run shows nothing: {name} is not called")

        return refuse


def make_read_only(client: Client, allowed_calls: Collection[str]) -> Client:
    """Return the client with every call outside `reads` refused by a `PlatformError`, before anything is sent.

    What is new in a client shows nothing either, as long as nobody names it here.
    """
    return cast(Client, _ReadOnlyClient(client, allowed_calls))
