"""What the clients may see, and the answers that are written for them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from bots.api.running import RunningAnswer, RunningAnswers
from core.answering.context import AnswerDependencies
from core.messaging.policy.permissions import Permissions
from core.settings.base import API_PLATFORM
from core.storage.overrides import LiveSettings
from core.types import ConversationKey, Message, Question, Reply


class ClientAnswers:
    """Answers questions of clients, each from what its audience may see: that of the chat `api:NAME`."""

    def __init__(self, live: LiveSettings, running: RunningAnswers) -> None:
        self._live = live
        self._permissions = Permissions(live)
        self._running = running

    async def restrict(self, deps: AnswerDependencies, client: str) -> AnswerDependencies:
        """Return dependencies with what a client may see, of that what its chat searches, by its chat's own models.

        Raises `StoreError`.
        """
        await self._live.load()
        message = self.make_message(client, "")
        sources = self._permissions.searched_sources(message)
        deps = deps.for_chat(message.key)
        return deps if sources is None else deps.restricted_to(sources)

    @staticmethod
    def make_message(client: str, text: str) -> Message:
        """Return a question as a message of the chat that stands for a client."""
        key = ConversationKey(API_PLATFORM, client)
        return Message(uuid.uuid4().hex, key, client, client, text, datetime.now(UTC), addressed=True)

    def find_visible_labels(self, message: Message) -> frozenset[str]:
        """Return the labels of the sources that may be told of in the reply to a message."""
        return self._permissions.visible_labels(message)

    @asynccontextmanager
    async def join(
        self, client: str, request_key: Hashable, question: Question
    ) -> AsyncIterator[tuple[RunningAnswer, asyncio.Task[Reply]]]:
        """Have the answer to a question of a client; requests of the same key wait for the same answer.

        Not so where a source was closed or opened since, or other words may not leave: what is written already may tell
        of it. Raises `TooManyAnswers`, `StoreError`.
        """
        await self._live.load()
        message = self.make_message(client, question.text)
        visible_labels = self.find_visible_labels(message)

        async def may_tell() -> bool:
            await self._live.load()
            has_models = self._permissions.get_chat_settings(message).models == chat_settings.models
            has_words = self._live.settings.outgoing == outgoing
            return has_models and has_words and visible_labels <= self._permissions.visible_labels(message)

        chat_settings = self._permissions.get_chat_settings(message)
        outgoing = self._live.settings.outgoing
        asked = Question(
            question.text,
            question.history,
            id=message.id,
            author=client,
            author_id=client,
            key=message.key,
            files=question.files,
            visible_sources=self._permissions.searched_sources(message),
            persona=chat_settings.persona,
            language=chat_settings.language,
        )
        key = (client, request_key, visible_labels, outgoing.model_dump_json())
        async with self._running.join(key, asked, may_tell) as joined:
            yield joined
