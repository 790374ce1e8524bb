"""A served API with a scripted model behind it, and requests to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest
from openai import AsyncOpenAI

from bots.api.server import serve_api
from core.answering.service import AnswerService
from core.answering.withholding import OutgoingFilter
from core.settings import Settings
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings
from knowledge.formats.attached import AttachedFileReader
from knowledge.parsing.parser import ThreadParser
from tests.support.fixtures import InMemoryLibrary, parts, settings
from tests.support.scripted import ScriptedPeer, models

WEBUI = "a-token-of-the-web-ui"
TEAM = "a-token-of-the-team's-tool"
CLIENTS = {"webui": {"token": {"env": "KIMAS_API_WEBUI"}}, "team": {"token": {"env": "KIMAS_API_TEAM"}}}


def set_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the tokens of `CLIENTS`."""
    monkeypatch.setenv("KIMAS_API_WEBUI", WEBUI)
    monkeypatch.setenv("KIMAS_API_TEAM", TEAM)


@dataclass
class Api:
    """A served API: where it is, the model behind it, and a client."""

    url: str
    peer: ScriptedPeer
    library: InMemoryLibrary
    clients: AsyncExitStack

    def client(self, token: str = WEBUI) -> AsyncOpenAI:
        client = AsyncOpenAI(api_key=token, base_url=f"{self.url}/v1", max_retries=0)
        self.clients.push_async_callback(client.close)
        return client

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {WEBUI}", **headers}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url + path, data=json.dumps(body), headers=headers) as response,
        ):
            return response.status, json.loads(await response.text())


@asynccontextmanager
async def served(
    configuration: Settings | None = None,
    library: InMemoryLibrary | None = None,
    *,
    journal: Journal | None = None,
    **replies: str,
) -> AsyncIterator[Api]:
    configuration = configuration or settings(api={"port": 0, "clients": CLIENTS})
    library = library or InMemoryLibrary()
    async with ScriptedPeer(**{"write": "Install it with pip [p1].", **replies}) as peer:
        chat_model = models(peer)
        await chat_model.warm_up()
        deps = replace(parts(library, chat_model, configuration), file_reader=AttachedFileReader(ThreadParser()))
        outgoing = OutgoingFilter.open(configuration.outgoing)
        service = AnswerService(deps, outgoing=outgoing)
        live = LiveSettings(configuration)
        try:
            async with (
                serve_api(configuration.api, live, service.answer, lambda: service.deps, 4, journal=journal) as port,
                AsyncExitStack() as clients,
            ):
                yield Api(f"http://127.0.0.1:{port}", peer, library, clients)
        finally:
            await chat_model.close()
