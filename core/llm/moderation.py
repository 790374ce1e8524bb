"""Asks an OpenAI-compatible moderation endpoint whether a text may be said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import ModelError, ServiceError
from core.llm.client import OpenAIClient
from core.settings import ModerationSettings


@dataclass(slots=True)
class Moderator:
    """One endpoint. `problem` says why its last judgement failed, "" after one that did not."""

    settings: ModerationSettings
    client: OpenAIClient
    problem: str = ""

    @classmethod
    def open(cls, settings: ModerationSettings) -> Moderator:
        """Prepare the client without sending anything."""
        api_key = settings.api_key.value() if settings.api_key else ""
        return cls(settings, OpenAIClient.open(settings.base_url or "", api_key, settings.timeout_s))

    async def judge(self, text: str) -> Sequence[str]:
        """Return the categories for which a text is flagged. Raises `ServiceError`."""
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                categories = await self.client.moderate(self.settings.model, text)
        except TimeoutError as error:
            self.problem = f"{self.settings.base_url} did not answer within {self.settings.timeout_s:g} s"
            raise ModelError(self.problem) from error
        except ServiceError as error:
            self.problem = str(error)
            raise
        self.problem = ""
        return categories

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self.client.close()
