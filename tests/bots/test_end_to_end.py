"""From a real repository to a cited answer: in the terminal, and in a Telegram group through the daemon."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.lab.quality.quoted_answers import split_quotes
from tests.lab.screenshots.clients import DEMO
from tests.support.deployment import ROOT, Deployment, commit, git, make_rocket_deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.posted import posted

pytestmark = pytest.mark.slow

GROUP = -100200300
READY_S = 60


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A deployment that knows its repository; made once, copied for every test."""
    return make_rocket_deployment(tmp_path_factory.mktemp("ingested"))


@pytest.fixture
def deployment(ingested: Deployment, tmp_path: Path) -> Deployment:
    folder = shutil.copytree(ingested.folder, tmp_path / "deployment")
    source = {**ingested.settings["sources"]["rocket"], "url": str(folder / "rocket")}
    return Deployment(folder, {"sources": {"rocket": source}})


@pytest.fixture
def connected_deployment(deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer) -> Deployment:
    deployment.settings["telegram"] = {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url}
    deployment.settings["models"] = {"main": {"base_url": model.base_url, "model": "peer"}}
    deployment.environment["BOT_TOKEN"] = telegram.token
    return deployment


def test_a_repository_becomes_a_cited_answer(deployment: Deployment) -> None:
    answer = deployment.json("ask", "How do I change the signing key of sessions?")
    assert answer["extractive"]
    named_paths = {page["path"] for page in answer["nearest"]}
    assert named_paths.isdisjoint(citation["path"] for citation in answer["citations"])
    assert "rotate_keys" in answer["answer"]
    assert "[1]" in answer["answer"]
    citation = answer["citations"][0]
    commit_id = git(deployment.folder / "rocket", "rev-parse", "HEAD")
    assert citation["path"] in ("README.md", "rocket/server.py")
    assert citation["url"].startswith(f"https://example.org/rocket/blob/{commit_id}/{citation['path']}#L")
    assert {"rewrite", "route", "search", "rerank", "total"} <= set(answer["timings_ms"])
    output = deployment.kimas("ask", "How do I change the signing key of sessions?").stdout
    assert "\x1b[" not in output, "no colours where nobody is watching"
    assert "[1]" in output


def test_knowledge_follows_the_repository(deployment: Deployment) -> None:
    repository = deployment.folder / "rocket"
    git(repository, "rm", "--quiet", "rocket/server.py")
    commit(repository, {"README.md": "# Rocket\n\nRocket is a gardening handbook about tomatoes and compost.\n"})
    report = deployment.json("ingest")["sources"][0]
    assert (report["added"], report["updated"], report["deleted"], report["unchanged"]) == (0, 1, 1, 0)
    passages = deployment.json("search", "tomatoes and compost")["passages"]
    assert [passage["path"] for passage in passages] == ["README.md"]
    assert deployment.json("search", "signing key sessions")["passages"] == passages or all(
        passage["path"] == "README.md" for passage in deployment.json("search", "signing key sessions")["passages"]
    )
    assert deployment.json("ingest")["sources"][0]["unchanged"] == 1


async def test_a_group_member_gets_a_streamed_cited_answer(
    connected_deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer
) -> None:
    model.tokens_per_s = 5
    async with connected_deployment.daemon() as process:
        telegram.say(GROUP, "@kimas_bot How do I change the signing key?")
        await telegram.wait_for_reply(GROUP, READY_S, containing="rotate_keys")
        await telegram.wait_until(lambda: bool(telegram.get_calls("editMessageText")), READY_S)
        reply = await telegram.wait_for_reply(GROUP, READY_S, containing="nobody is logged out")
        assert any("rocket" in link for link in reply.links())
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    assert telegram.pending() == []
    assert telegram.token not in connected_deployment.log()


async def test_a_kill_between_receipt_and_reply_leads_to_one_answer(
    connected_deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer
) -> None:
    model.hang = True
    async with connected_deployment.daemon() as process:
        telegram.say(GROUP, "@kimas_bot How do I change the signing key?")
        await telegram.wait_until(lambda: bool(model.requests), READY_S)
        process.kill()
        await process.wait()
    model.hang = False
    async with connected_deployment.daemon():
        await telegram.wait_for_reply(GROUP, READY_S, containing="rotate_keys")
        telegram.say(GROUP, "/help@kimas_bot")
        await telegram.wait_for_reply(GROUP, READY_S, containing="I answer questions from")
    answers = [message for message in telegram.messages(GROUP) if "rotate_keys" in message.text and message.from_bot]
    assert len(answers) == 1


async def test_a_kill_in_the_middle_of_the_reply_continues_the_same_message(
    connected_deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer
) -> None:
    model.stall_after = 3
    async with connected_deployment.daemon() as process:
        telegram.say(GROUP, "@kimas_bot How do I change the signing key?")
        first_reply = await telegram.wait_for_reply(GROUP, READY_S)
        await posted(connected_deployment)
        process.kill()
        await process.wait()
    model.stall_after = None
    async with connected_deployment.daemon():
        reply = await telegram.wait_for_reply(GROUP, READY_S, containing="nobody is logged out")
    assert reply.id == first_reply.id


async def test_under_a_service_manager_the_last_answer_is_finished(
    connected_deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer
) -> None:
    model.tokens_per_s = 5
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{folder}/notify")
        manager.setblocking(False)
        connected_deployment.environment["NOTIFY_SOCKET"] = f"{folder}/notify"
        async with connected_deployment.daemon() as process:
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(manager, 100), READY_S) == b"READY=1"
            telegram.say(GROUP, "@kimas_bot How do I change the signing key?")
            first_reply = await telegram.wait_for_reply(GROUP, READY_S)
            assert "nobody is logged out" not in first_reply.history[0][1]
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 60) == 0
        assert manager.recv(100) == b"STOPPING=1"
    assert "nobody is logged out" in telegram.messages(GROUP)[-1].text
    assert telegram.messages(GROUP)[-1].id == first_reply.id
    assert "daemon.messages_left" not in connected_deployment.log()


async def test_sigterm_hands_back_what_it_cannot_finish(
    connected_deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer
) -> None:
    connected_deployment.settings["run"] = {"grace_s": 0.5}
    model.hang = True
    async with connected_deployment.daemon() as process:
        telegram.say(GROUP, "@kimas_bot How do I change the signing key?")
        await telegram.wait_until(lambda: bool(model.requests), READY_S)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    assert "daemon.messages_left" in connected_deployment.log()
    model.hang = False
    async with connected_deployment.daemon():
        await telegram.wait_for_reply(GROUP, READY_S, containing="rotate_keys")


async def test_a_dead_model_is_told_as_quotes_and_chatter_gets_no_reply(
    connected_deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer
) -> None:
    model.status = 500
    async with connected_deployment.daemon():
        telegram.say(GROUP, "nice weather today")
        telegram.say(GROUP, "@kimas_bot How do I change the signing key of sessions?")
        reply = await telegram.wait_for_reply(GROUP, READY_S, containing="could not answer")
    assert reply.links()
    assert len([message for message in telegram.messages(GROUP) if message.from_bot]) == 1


def test_the_demo_quotes_a_command_in_a_code_block(tmp_path: Path) -> None:
    folder = tmp_path / "guide"
    folder.mkdir()
    # Whole pages take seconds to embed.
    for page in ("README.md", "docs/configure.md", "docs/discord.md", "docs/telegram.md"):
        text = (ROOT / page).read_text("utf-8")
        (folder / Path(page).name).write_text("".join(text.splitlines(keepends=True)[:80]), "utf-8")
    deployment = Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": str(folder)}}})
    deployment.call("ingest")
    answer = deployment.json("ask", DEMO)["answer"]
    quotes = split_quotes(answer)
    assert any(re.search(r"```\w+\n[^`]*kimas check", quote) for quote in quotes)
    assert all("check" in quote or "configuration" in quote for quote in quotes), "no irrelevant quote"
