"""Messages that answer nobody, and read-only clients for the dry run."""

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
    """Return the client with every call but `allowed_calls` refused by a `PlatformError`, before anything is sent.

    A call that is added to a client later is refused too, as long as it is not allowed here.
    """
    return cast(Client, _ReadOnlyClient(client, allowed_calls))
