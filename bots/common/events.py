"""Events of a platform that become no message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.observability.logs import get_logger

_log = get_logger(__name__)

# Records the former and the present id of a chat. Raises `StoreError`.
RecordMove = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class IgnoredEvent:
    """An event that is no message for us. `is_expected` is false for events that nobody asked for."""

    reason: str
    is_expected: bool = True


@dataclass(frozen=True, slots=True)
class ChatMove(IgnoredEvent):
    """The platform says that a chat has another id from now on."""

    former: str = ""
    chat: str = ""


@dataclass(frozen=True, slots=True)
class MessageDeletion:
    """Somebody deleted a message."""

    chat: str
    message_id: str


def record_ignored(counts: Counter[str], log_event: str, ignored: IgnoredEvent, **details: object) -> None:
    """Count an ignored event by its reason, and log it: as a warning unless it is expected."""
    counts[ignored.reason] += 1
    log = _log.debug if ignored.is_expected else _log.warning
    log(log_event, reason=ignored.reason, **details)
