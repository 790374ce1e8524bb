"""`kimas ask`, `POST /ask`, the endpoint, MCP and the page give one answer, from a real store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI

from bots.api.server import serve_api
from bots.daemon.bootstrap import open_app
from core.settings.loader import load_settings
from core.storage.overrides import LiveSettings
from tests.support.api_helpers import CLIENTS, WEBUI, set_tokens
from tests.support.deployment import Deployment
from tests.support.peers.language_model import Body, LanguageModelPeer

PAGES = {
    "proxy.md": "# Behind a proxy\n\nSet `ROCKET_PROXY` to the address of the proxy, and restart the server.\n",
    "keys.md": "# Keys\n\nCall `rotate_keys` to change the signing key without logging anybody out.\n",
    "代理.md": "# 代理服务器\n\n在代理后面运行时，把 `ROCKET_PROXY` 设置为代理的地址，然后重启服务器。\n",
    "密钥.md": "# 密钥\n\n调用 `rotate_keys` 可以更换签名密钥，用户不会被登出。\n",
}
QUESTIONS = {"en": "How do I run the server behind a proxy?", "zh": "怎么在代理后面运行服务器？"}
NAMES = ("answer", "citations")


def write(body: Body) -> str:
    """Answer in the language of the question, with a citation, and one that is not supported."""
    is_chinese = "怎么" in str(body["messages"][-1]["content"])
    return (
        "把 `ROCKET_PROXY` 设置为代理的地址。[p1] 密钥会自动更换。[p9]"
        if is_chinese
        else "Set `ROCKET_PROXY` to the address of the proxy [p1]. Keys rotate by themselves [p9]."
    )


@pytest.fixture
async def model() -> AsyncIterator[LanguageModelPeer]:
    async with LanguageModelPeer(reply=write, tokens_per_s=200) as peer:
        yield peer


async def ask_everywhere(url: str, question: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the answer and the citations that each way in gives."""
    headers = {"Authorization": f"Bearer {WEBUI}"}
    turns = [{"role": "user", "content": question}]
    found: dict[str, Mapping[str, Any]] = {}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/ask", json={"question": question}, headers=headers) as response:
            found["POST /ask"] = await response.json()
        async with session.post(f"{url}/ask/answer", json={"messages": turns}, headers={"Origin": url}) as response:
            found["page"] = await response.json()
        body = {"messages": turns, "stream": True}
        async with session.post(f"{url}/ask/answer", json=body, headers={"Origin": url}) as response:
            events = [line for line in (await response.text()).splitlines() if line.startswith("data:")]
        found["page, streamed"] = json.loads(events[-1].removeprefix("data:"))
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http_client,
        Client(streamable_http_client(f"{url}/mcp", http_client=http_client)) as client,
    ):
        result = await client.call_tool("ask", {"question": question})
        found["MCP"] = result.structured_content or {}
    return found


async def complete(url: str, question: str) -> tuple[Any, str]:
    """Return the completion of the endpoint, and the text of its stream."""
    async with AsyncOpenAI(api_key=WEBUI, base_url=f"{url}/v1", max_retries=0) as client:
        whole = await client.chat.completions.create(model="kimas", messages=[{"role": "user", "content": question}])
        chunks = await client.chat.completions.create(
            model="kimas", messages=[{"role": "user", "content": question}], stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])
    return whole, text


@pytest.mark.parametrize("language", QUESTIONS)
@pytest.mark.parametrize("has_model", [True, False])
async def test_every_way_in_gives_the_answer_of_kimas_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: LanguageModelPeer, language: str, has_model: bool
) -> None:
    set_tokens(monkeypatch)
    (tmp_path / "docs").mkdir()
    for name, text in PAGES.items():
        (tmp_path / "docs" / name).write_text(text, "utf-8")
    deployment = Deployment(
        tmp_path,
        {
            "sources": {"docs": {"kind": "files", "path": str(tmp_path / "docs")}},
            "api": {"port": 0, "clients": CLIENTS, "page": {"enabled": True}},
            # A stored answer would be the same without effort.
            "cache": {"enabled": False},
            **({"models": {"main": {"base_url": model.base_url, "model": "peer"}}} if has_model else {}),
        },
    )
    question = QUESTIONS[language]
    await asyncio.to_thread(deployment.call, "ingest")
    asked = await asyncio.to_thread(deployment.json, "ask", question)
    expected = {name: asked[name] for name in NAMES}
    assert "ROCKET_PROXY" in expected["answer"]
    assert expected["citations"]
    assert asked["extractive"] is not has_model
    settings = load_settings([deployment.config])
    async with open_app(settings) as app:
        live = LiveSettings(settings)
        async with serve_api(settings.api, live, app.answer, app.get_deps, 4) as port:
            url = f"http://127.0.0.1:{port}"
            found = await ask_everywhere(url, question)
            whole, streamed = await complete(url, question)
    assert {way: {name: answer.get(name) for name in NAMES} for way, answer in found.items()} == dict.fromkeys(
        found, expected
    )
    text = whole.choices[0].message.content
    assert text.startswith(expected["answer"])
    assert whole.model_extra["citations"] == expected["citations"]
    assert streamed.endswith(text), "what was sent before the check is replaced by the answer"
