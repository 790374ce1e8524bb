"""Webhooks over real sockets: signed ones make the bot look at once, and nothing else does."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import select

from bots.daemon.adapters import find_port_conflicts
from core.errors import PlatformError
from core.settings import Secret
from core.storage.tables import messages
from tests.support.fixtures import settings as make_settings
from tests.support.forge_helpers import ForgeBot
from tests.support.peers.github import REPOSITORY, GithubPeer
from tests.support.waiting import until

SECRET = "a-secret-of-the-webhook"


def write_secret(folder: Path, secret: str = SECRET) -> Secret:
    (folder / "webhook-secret").write_text(secret)
    return Secret(file=folder / "webhook-secret")


def sign(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def send(bot: ForgeBot, body: bytes, signature: str, **headers: str) -> int:
    url = f"http://127.0.0.1:{bot.adapter.port}/github"
    headers = {"X-Hub-Signature-256": signature, "Content-Type": "application/json", **headers}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers={key: value for key, value in headers.items() if value}) as response,
    ):
        return response.status


def make_body(**event: Any) -> bytes:
    return json.dumps({"repository": {"full_name": REPOSITORY}, **event}).encode()


@pytest.fixture
async def bot(peer: GithubPeer, tmp_path: Path) -> AsyncIterator[ForgeBot]:
    """A bot that is polling so seldom that nothing comes without webhooks, once it has looked around."""
    bot = ForgeBot(peer, tmp_path, webhook_secret=write_secret(tmp_path), port=0)
    async with bot:
        await bot.restart(poll_s=3600)
        await settle(peer)
        yield bot


async def settle(peer: GithubPeer) -> None:
    """Wait until the bot asks nothing any more."""
    count = -1
    while count != len(peer.calls):
        count = len(peer.calls)
        await asyncio.sleep(0.3)


async def test_an_event_makes_the_bot_look_at_once(bot: ForgeBot, peer: GithubPeer) -> None:
    number = peer.open("A question", "@kimas how?")
    body = make_body(action="opened")
    assert await send(bot, body, sign(body)) == 202
    assert await bot.outcome(f"issues/{number}") == ("answered", "")


@pytest.mark.parametrize("text", ["plain", "\u001b[31m😀", "中文", '\\ud800 "quoted"'])
async def test_the_signature_is_that_of_the_bytes(bot: ForgeBot, text: str) -> None:
    escaped = make_body(comment={"body": text})
    raw = json.dumps({"comment": {"body": text}}, ensure_ascii=False, indent=3).encode("utf-8", "replace")
    for body in (escaped, raw, b"no JSON at all", b"[" * 100_000):
        assert await send(bot, body, sign(body)) == 202
        changed = bytes([body[0] ^ 1]) + body[1:]
        assert await send(bot, changed, sign(body)) == 401


@pytest.mark.parametrize("signature", ["", "sha256=", "sha1=abc", "sha256=é", "x" * 5000])
async def test_without_its_signature_an_event_changes_nothing(bot: ForgeBot, peer: GithubPeer, signature: str) -> None:
    calls = len(peer.calls)
    assert await send(bot, make_body(), signature) == 401
    assert await send(bot, make_body(), sign(make_body(), "another secret")) == 401
    await settle(peer)
    assert len(peer.calls) == calls


async def test_no_body_is_read_for_strangers_nor_a_huge_one_for_anybody(bot: ForgeBot) -> None:
    large = b" " * 2**20
    assert await send(bot, large, "sha256=no") == 401
    assert await send(bot, large, sign(large)) == 413


async def test_the_same_event_by_two_hooks_gives_one_answer(bot: ForgeBot, peer: GithubPeer) -> None:
    answered = peer.open("A question", "@kimas how?")
    comment = peer.comment(answered, "@kimas and why?")
    body = make_body(action="created")
    for delivery in ("1", "1", "2"):
        assert await send(bot, body, sign(body), **{"X-GitHub-Delivery": delivery}) == 202
    assert await bot.outcome(comment) == ("answered", "")
    await bot.restart()
    assert await send(bot, body, sign(body)) == 202
    await settle(peer)
    assert len(peer.posts()) == 2


async def test_the_bots_own_comment_wakes_nobody_twice(bot: ForgeBot, peer: GithubPeer) -> None:
    number = peer.open("A question", "@kimas how?")
    body = make_body()
    await send(bot, body, sign(body))
    assert await bot.outcome(f"issues/{number}") == ("answered", "")
    # As its author's type is User, only its name and its marker say whose it is.
    await send(bot, body, sign(body))
    await bot.skipped("written by the bot itself")
    assert len(peer.posts()) == 1


async def test_every_signed_event_is_taken_and_other_repositories_are_left_alone(
    bot: ForgeBot, peer: GithubPeer
) -> None:
    calls = len(peer.calls)
    body = json.dumps({"repository": {"full_name": "other/project"}}).encode()
    assert await send(bot, body, sign(body), **{"X-GitHub-Event": "something_new"}) == 202
    await settle(peer)
    assert len(peer.calls) == calls


async def test_an_event_wakes_its_own_repository_alone(bot: ForgeBot, peer: GithubPeer) -> None:
    peer.repositories["example/other"].can_write = True
    await bot.restart(repositories=(REPOSITORY, "example/other"))
    await settle(peer)
    count = peer.calls.count("GET issues")
    body = make_body(repository={"full_name": REPOSITORY.upper()})
    assert await send(bot, body, sign(body)) == 202
    await settle(peer)
    assert peer.calls.count("GET issues") == count + 1


async def test_the_answer_does_not_hold_up_the_webhook(bot: ForgeBot, peer: GithubPeer) -> None:
    bot.hold = asyncio.Event()
    number = peer.open("A question", "@kimas how?")
    body = make_body()
    for _ in range(3):
        assert await asyncio.wait_for(send(bot, body, sign(body)), 8) == 202
    await bot.heard(f"issues/{number}")
    bot.hold.set()
    assert await bot.outcome(f"issues/{number}") == ("answered", "")


async def test_what_was_noted_before_a_crash_is_read_after_the_start(bot: ForgeBot, peer: GithubPeer) -> None:
    peer.watch = hang
    number = peer.open("A question", "@kimas how?")
    body = make_body()
    assert await send(bot, body, sign(body)) == 202
    await bot.stop()
    peer.watch = None
    await bot.start()
    assert await bot.outcome(f"issues/{number}") == ("answered", "")


async def hang(name: str, phase: str) -> None:
    """Let no request come to its end."""
    await asyncio.Event().wait()


async def test_a_short_secret_is_refused(peer: GithubPeer, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path, webhook_secret=write_secret(tmp_path, "short"), port=0)
    with pytest.raises(PlatformError, match="webhook_secret is too short"):
        await bot.listen()


def test_two_parts_on_one_port_are_named(tmp_path: Path) -> None:
    section = {
        "token": {"env": "T"},
        "repositories": [REPOSITORY],
        "webhook_secret": {"env": "S"},
        "port": 8088,
    }
    network = {"secret": {"env": "N"}, "callback_url": "https://example.org"}
    assert find_port_conflicts(make_settings(github=section, http=network)) == [
        "http listens on port 8088 as github does: give one of them another port"
    ]


async def test_an_event_lends_nobody_a_name_or_a_repository(bot: ForgeBot, peer: GithubPeer) -> None:
    body = make_body(action="opened", sender={"login": "ann", "id": peer.get_number("ann")})
    numbers = []
    for author in ("ann", "stranger"):
        numbers.append(peer.open("A question", "@kimas how?", author))
        assert await send(bot, body, sign(body)) == 202
        assert await bot.outcome(f"issues/{numbers[-1]}") == ("answered", "")
        peer.logins |= {"ann": "annie", "stranger": "ann"}
    async with bot.journal.database.connect() as connection:
        rows = await connection.execute(select(messages.c.author_id).order_by(messages.c.number))
        assert [row.author_id for row in rows] == ["ann", f"ann+{peer.get_number('stranger')}"]
    peer.handbook.number = 77
    number = peer.open("A question", "@kimas how?")
    assert await send(bot, body, sign(body)) == 202
    await until(lambda: "another one has the name" in bot.adapter.connection.warning)
    assert f"issues/{number}" not in await bot.list_messages()
