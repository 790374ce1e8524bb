"""Secrets planted in every place that takes one are found in nothing that the bot shows, logs, counts, traces or asks.

They have no known shape, so that no pattern helps. Every service that takes one answers an error that repeats what the
request said, as careless services do.
"""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web
from click.testing import CliRunner

from bots.cli.main import main
from core.settings.loader import load_settings
from tests.support.collector import collecting
from tests.support.deployment import README, Deployment, logging_as_it_was
from tests.support.free_ports import free_port
from tests.support.operator_page import OWNER, READER
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer

GROUP = -100
SECRET_NAMES = (
    "TELEGRAM",
    "TELEGRAM_2",
    "DISCORD",
    "SLACK_BOT",
    "SLACK_APP",
    "SLACK_SIGNING",
    "HTTP_NETWORK",
    "CALLBACK_QUERY",
    "MODEL_MAIN",
    "MODEL_LIGHT",
    "MODEL_VISION",
    "MODEL_JUDGE",
    "MODEL_FALLBACK",
    "EMBEDDING",
    "RERANKER",
    "SEARCH_API",
    "HTTP_API_QUERY",
    "HTTP_API_HEADER",
    "REMOTE_RAG",
    "MCP_KEY",
    "MCP_ENV",
    "GITHUB",
    "GITLAB",
    "GIT_TOKEN",
    "GIT_URL",
    "FEED_QUERY",
    "SITE_QUERY",
    "TRACING_HEADER",
    "PAGE_READER",
    "PAGE_OWNER",
    "JOURNAL",
    "UNRELATED_VARIABLE",
)
PLANTED = {name: f'{name.lower().replace("_", "")}-Zq{number:02}"wä' for number, name in enumerate(SECRET_NAMES)}
# In an address they are written as it asks for; a header takes no other letters.
PLANTED |= {name: f"{name.lower().replace('_', '')}Zq7wd" for name in SECRET_NAMES if not name.endswith("VARIABLE")}


def secret(name: str) -> dict[str, str]:
    return {"env": name}


def leaks(text: str) -> set[str]:
    """Return the places whose secrets stand in a text, in whatever spelling."""
    return {
        name
        for name, value in PLANTED.items()
        if any(spelling in text for spelling in (value, quote(value, safe=""), repr(value)[1:-1]))
    }


class Parrot:
    """A service that refuses every request and repeats its address and its headers, as an error of a proxy may."""

    def __init__(self) -> None:
        self.url = ""
        self.output = ""

    async def answer(self, request: web.Request) -> web.Response:
        echo = f"refused {request.url} {dict(request.headers)}"
        self.output += echo
        return web.Response(status=400, text=echo, reason="refused")


@pytest.fixture
async def parrot() -> AsyncIterator[Parrot]:
    peer = Parrot()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", peer.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    peer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield peer
    await runner.cleanup()


def sources(url: str) -> dict[str, Any]:
    connection = {"allow_private": ["127.0.0.1"]}
    host = url.removeprefix("http://")
    planted = PLANTED
    return {
        "docs": {"kind": "files", "path": "docs"},
        "search": {
            "kind": "search_api",
            "provider": "brave",
            "base_url": url,
            "api_key": secret("SEARCH_API"),
            **connection,
        },
        "api": {
            "kind": "http_api",
            "url": f"{url}/find?q={{query}}&token={{api_key}}",
            **connection,
            "api_key": secret("HTTP_API_QUERY"),
        },
        "head": {
            "kind": "http_api",
            "url": f"{url}/find",
            "headers": {"X-Own": "{api_key}"},
            **connection,
            "api_key": secret("HTTP_API_HEADER"),
        },
        "rag": {
            "kind": "remote_rag",
            "base_url": url,
            "bases": {"b": 1},
            "api_key": secret("REMOTE_RAG"),
            **connection,
        },
        "tool": {"kind": "mcp", "url": url, "tool": "search", "api_key": secret("MCP_KEY"), **connection},
        "program": {"kind": "mcp", "command": ["false"], "tool": "search", "environment": {"KEY": secret("MCP_ENV")}},
        "hub": {"kind": "github", "repository": "a/b", "api_url": url, "token": secret("GITHUB"), **connection},
        "lab": {"kind": "gitlab", "project": "a/b", "api_url": url, "token": secret("GITLAB"), **connection},
        "code": {"kind": "git", "url": "https://127.0.0.1:9/a.git", "token": secret("GIT_TOKEN")},
        "fork": {"kind": "git", "url": f"http://bot:{planted['GIT_URL']}@{host}/b.git"},
        "news": {"kind": "feed", "url": f"{url}/news?access_token={planted['FEED_QUERY']}", **connection},
        "site": {"kind": "website", "url": f"{url}/site?key={planted['SITE_QUERY']}", **connection},
    }


def make_models(url: str, main: str) -> dict[str, Any]:
    def model(name: str, base_url: str = url) -> dict[str, Any]:
        return {"base_url": base_url, "model": name.lower(), "api_key": secret(name), "timeout_s": 5}

    return {
        "main": {**model("MODEL_MAIN", main), "fallbacks": {"second": model("MODEL_FALLBACK")}},
        **{role: model(f"MODEL_{role.upper()}") for role in ("light", "vision", "judge")},
    }


@pytest.fixture
def deployment(tmp_path: Path, parrot: Parrot, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    callback = f"{parrot.url}/replies?token={PLANTED['CALLBACK_QUERY']}"
    network = {"secret": secret("HTTP_NETWORK"), "callback_url": callback, "allow_private": ["127.0.0.1"]}
    settings = {
        "sources": sources(parrot.url),
        "models": make_models(parrot.url, parrot.url),
        "http": {**network, "port": free_port()},
        "log": {"level": "debug", "format": "console"},
    }
    return Deployment(tmp_path, settings, dict(PLANTED))


def call(deployment: Deployment, *arguments: str) -> str:
    """Run the command line and return all that it says, with the traceback of what it did not expect."""
    with logging_as_it_was():
        result = CliRunner().invoke(main, ("--config", str(deployment.config), *arguments))
    trace = "".join(traceback.format_exception(*result.exc_info)) if result.exc_info else ""
    return f"{result.output}{trace}"


COMMANDS = (
    ("check",),
    ("check", "--live"),
    ("ingest",),
    ("ingest", "--json"),
    ("sources",),
    ("sources", "--json"),
    ("ask", "How do I install Rocket?"),
    ("ask", "--json", "What is it?"),
    ("search", "Rocket"),
    ("usage",),
)


def test_enough_places_are_planted(deployment: Deployment) -> None:
    """Every secret of a configuration with all of its sections is one of them."""
    assert len(set(PLANTED.values())) == len(PLANTED) >= 20
    variables = {own.env for own in load_settings([deployment.config]).secrets().values()}
    assert variables <= set(PLANTED)
    assert leaks(f"a {PLANTED['GITHUB']} b {quote(PLANTED['UNRELATED_VARIABLE'], safe='')}") == {
        "GITHUB",
        "UNRELATED_VARIABLE",
    }


async def test_the_command_line_shows_none(deployment: Deployment, parrot: Parrot) -> None:
    for form, commands in (("console", COMMANDS), ("json", COMMANDS[1:3])):
        deployment.settings["log"]["format"] = form
        for arguments in commands:
            output = await asyncio.to_thread(call, deployment, *arguments)
            assert leaks(output) == set(), f"{arguments} as {form}: {output}"
    sent_names = {"SEARCH_API", "HTTP_API_QUERY", "HTTP_API_HEADER", "GITHUB", "GITLAB", "FEED_QUERY", "MODEL_MAIN"}
    assert sent_names <= leaks(parrot.output), "they were used, and the refusals repeated them"


async def test_what_stands_beside_the_sources_shows_none(deployment: Deployment, parrot: Parrot) -> None:
    """Platforms, embedding, reranker and a journal on a server, none of which can be reached."""
    port = free_port()
    bots = {
        "discord": {"discord": {"token": secret("DISCORD"), "api_url": parrot.url}},
        "slack": {"slack": {"bot_token": secret("SLACK_BOT"), "app_token": secret("SLACK_APP")}},
        "signed": {
            "slack": {"bot_token": secret("SLACK_BOT"), "signing_secret": secret("SLACK_SIGNING"), "port": port},
        },
        "telegram": {"telegram": {"token": secret("TELEGRAM_2"), "api_url": parrot.url}},
    }
    embedding = {
        "provider": "openai",
        "base_url": parrot.url,
        "model": "e",
        "dimension": 8,
        "api_key": secret("EMBEDDING"),
    }
    reranker = {"url": f"{parrot.url}/rerank", "api_key": secret("RERANKER")}
    for section in bots["slack"], bots["signed"]:
        section["slack"]["api_url"] = f"{parrot.url}/api/"
    deployment.settings |= {
        "bots": bots,
        "knowledge": {"embedding": embedding, "search": {"rerank": "api", "reranker": reranker}},
        "journal": {"url": "postgresql://bot@127.0.0.1:9/kimas", "password": secret("JOURNAL")},
    }
    for arguments in COMMANDS:
        output = await asyncio.to_thread(call, deployment, *arguments)
        assert leaks(output) == set(), f"{arguments}: {output}"
    assert {"EMBEDDING", "DISCORD"} <= leaks(parrot.output)


async def until_shown(client: aiohttp.ClientSession, url: str, words: str) -> str:
    """Return a page as soon as it holds some words, within a minute."""
    text = ""
    async with asyncio.timeout(60):
        while words not in text:
            with suppress(aiohttp.ClientError):
                async with client.get(url) as response:
                    text = await response.text()
            await asyncio.sleep(0.1)
    return text


async def test_a_daemon_shows_none(deployment: Deployment, parrot: Parrot) -> None:
    metrics_port = free_port()
    page_port = free_port()
    async with TelegramPeer() as telegram, LanguageModelPeer() as model, collecting() as collector:
        deployment.environment |= {"TELEGRAM": telegram.token, "PAGE_READER": READER, "PAGE_OWNER": OWNER}
        deployment.settings |= {
            "telegram": {"token": secret("TELEGRAM"), "api_url": telegram.api_url},
            "models": make_models(parrot.url, model.base_url),
            "administration": {"owners": ["telegram:1"]},
            "tracing": {"endpoint": collector.endpoint, "headers": {"X-Token": secret("TRACING_HEADER")}},
            "metrics": {"port": metrics_port},
            "operator_page": {"port": page_port, "token": secret("PAGE_READER"), "owner_token": secret("PAGE_OWNER")},
            "log": {"level": "debug", "format": "json"},
        }
        async with deployment.daemon() as process, aiohttp.ClientSession() as client:
            metrics = f"http://127.0.0.1:{metrics_port}/metrics"
            await until_shown(client, metrics, 'kimas_source_documents{source="docs"} 1')
            telegram.say(GROUP, "@kimas_bot How do I install Rocket?")
            answer = await telegram.wait_for_reply(GROUP, 60)
            outputs = {"answer": str(answer)}
            for command in ("/sources", "/why", "/status", "/settings", "/help"):
                telegram.say(GROUP, f"{command}@kimas_bot")
            outputs["metrics"] = await until_shown(client, metrics, "kimas_answers_total")
            page = f"http://127.0.0.1:{page_port}"
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(cookie_jar=jar) as browser:
                await (await browser.post(f"{page}/sign-in", data={"token": OWNER})).read()
                for path in ("/", "/unanswered", "/taught", "/sources", "/feedback", "/usage", "/log"):
                    async with browser.get(page + path) as response:
                        assert response.status == 200
                        outputs[path] = await response.text()
            await asyncio.sleep(1)
            process.terminate()
            await process.wait()
        outputs |= {
            "log": deployment.log(),
            "traces": collector.raw.decode("latin-1"),
            "prompts": str([body["messages"] for body in model.requests]),
            "posts": str(telegram.calls),
        }
    own_secrets = re.compile("|".join(map(re.escape, (telegram.token, READER, OWNER))))
    assert collector.raw
    assert "message.answered" in outputs["log"]
    assert outputs["prompts"] != "[]"
    for name, text in outputs.items():
        assert leaks(text) == set(), f"{name}: {text}"
        assert not own_secrets.search(text), f"{name}: {text}"
