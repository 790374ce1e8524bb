"""Chats with language models of their own: which of them an answer may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.ports import ChatModel, Reranker
from core.settings import Settings
from core.types import ConversationKey

if TYPE_CHECKING:
    from core.llm.transcription import Transcriber


@dataclass(frozen=True, slots=True)
class ChatModels:
    """The models of chats that have their own.

    `by_name` are those of `models.sets`, None where a set has none; so are the `transcribers` of voice messages.
    `get_settings` returns the settings in force, `local_reranker` orders passages where their text must not leave.
    """

    by_name: Mapping[str, ChatModel | None]
    get_settings: Callable[[], Settings]
    local_reranker: Reranker
    transcribers: Mapping[str, Transcriber | None] = field(default_factory=dict)

    def find_set(self, key: ConversationKey | None) -> str | None:
        """Return the set that the chat of a conversation names, or None where it uses the general models."""
        return self.get_settings().get_chat(f"{key.platform}:{key.chat}").models if key else None
