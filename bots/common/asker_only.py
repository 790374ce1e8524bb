"""Questions whose answers only the asker sees, in a group where the configuration wants that."""

from __future__ import annotations

from dataclasses import replace

from core.types import FOR_ASKER, Message
from core.types.messages import PERSONAL_THREAD


def for_asker(message: Message) -> Message:
    """Return a message that is answered to its author alone.

    It belongs to a conversation of theirs: others who ask in the same place are not answered from what it says.
    """
    return replace(
        message,
        key=replace(message.key, thread=PERSONAL_THREAD + message.author_id),
        reference={**message.reference, FOR_ASKER: True},
        thread_state=replace(message.thread_state, is_restricted=True),
    )
