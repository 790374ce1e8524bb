"""The one gate before words: a platform's client that asks before each call whether they may be shown now."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from core.ports import Delivery

Client = TypeVar("Client")

# How the calls begin that bring no words to a platform.
WORDLESS = (
    "add_label",
    "add_reaction",
    "at",
    "check",
    "close",
    "connect",
    "create",
    "defer",
    "delete",
    "download",
    "find_",
    "forget_",
    "get_",
    "is_",
    "list_",
    "listen",
    "parse_",
    "read_",
    "remove_",
    "send_typing",
    "session",
    "stop_stream",
    "stream",
    "try_empty",
    "wait_",
    "web",
)


def judge_calls(client: Client, delivery: Delivery) -> Client:
    """Return a client for one reply: before each call that brings words, its `delivery` says whether they may be shown.

    Whatever a sink waits for before a call, such as its turn or another call, has passed by then. The calls also raise
    what `Delivery.require_rights` raises.
    """
    return cast("Client", _JudgedClient(client, delivery))


class _JudgedClient:
    def __init__(self, client: object, delivery: Delivery) -> None:
        self._client = client
        self._delivery = delivery

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)
        if name.startswith(WORDLESS) or not callable(attribute):
            return attribute

        async def judged(*arguments: Any, **options: Any) -> Any:
            await self._delivery.require_rights()
            return await attribute(*arguments, **options)

        return judged
