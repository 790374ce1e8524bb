"""A GitHub App against a peer that checks its proofs and lets tokens expire."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bots.common.connection import TokenRefused
from bots.common.diagnosis import Scope
from bots.forges.adapter import ForgeAdapter, connect
from bots.forges.app_client import App, AppClient
from bots.forges.diagnosis import diagnose
from core.errors import PlatformError
from core.settings import GithubSettings, Secret
from knowledge.web.client import Request
from tests.support.forge_helpers import PACE, ForgeBot
from tests.support.journalled_bot import MemoryPositions
from tests.support.peers.github import REPOSITORY, GithubPeer
from tests.support.peers.github_app import APP_ID, SLUG, PeerApp

H = 3600.0


@pytest.fixture
def app(peer: GithubPeer) -> PeerApp:
    peer.app.is_used = True
    # What GitHub calls the account of an app.
    peer.login = f"{SLUG}[bot]"
    peer.bots.add(peer.login)
    peer.repositories[REPOSITORY].can_write = True
    return peer.app


def credentials(app: PeerApp, folder: Path) -> dict[str, Any]:
    return {"token": None, "app_id": APP_ID, "private_key": Secret(file=app.write_key(folder))}


class Clock:
    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


async def test_an_app_answers_issues_and_discussions(peer: GithubPeer, app: PeerApp, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path, discussions=True, **credentials(app, tmp_path))
    async with bot:
        answer = await bot.ask("@kimas how do I install it?")
        assert bot.questions[0].text.endswith("how do I install it?")
        # An hour later: one new token, and the answers come.
        app.expire()
        follow_up = peer.comment(answer.number, "And how do I install it on Windows?")
        assert await bot.outcome(follow_up) == ("answered", "")
        number = peer.discussions.open("A question", "@kimas how?")
        assert await bot.outcome(f"discussions/{number}") == ("answered", "")
        remark = peer.discussions.comment(number, "And how is that on Windows?", top=peer.discussions.posts()[0])
        assert await bot.outcome(f"comment-{remark.id}") == ("answered", "")
        await bot.skipped("written by the bot itself")
    assert app.granted == 2
    assert (len(peer.posts()), len(peer.discussions.posts())) == (2, 2)
    assert peer.violations == []


@pytest.mark.parametrize(("later_s", "granted"), [(0.8 * H, 1), (56 / 60 * H, 2), (61 / 60 * H, 2), (9 * H, 2)])
async def test_a_token_is_renewed_before_its_end(
    peer: GithubPeer, app: PeerApp, tmp_path: Path, later_s: float, granted: int
) -> None:
    clock = Clock()
    key = app.write_key(tmp_path).read_text()
    client = AppClient(App(APP_ID, key, REPOSITORY), peer.url, PACE, clock)
    try:
        for later in (0.0, later_s, later_s):
            clock.ahead_s = app.ahead_s = later
            headers = {"Accept": "application/vnd.github+json", "User-Agent": "test"}
            response = await client.fetch(Request(f"{peer.url}/repos/{REPOSITORY}", headers=headers))
            assert response.status == 200
    finally:
        await client.close()
    assert app.granted == granted


@pytest.mark.parametrize("ahead_s", [-50.0, -400.0, 50.0])
async def test_a_clock_that_is_a_little_wrong_does_no_harm(
    peer: GithubPeer, app: PeerApp, tmp_path: Path, ahead_s: float
) -> None:
    # As seen from here, that of the server is ahead or behind.
    app.ahead_s = -ahead_s
    settings = GithubSettings(repositories=(REPOSITORY,), api_url=peer.url, **credentials(app, tmp_path))
    client = await connect(settings, PACE)
    try:
        assert (await client.get_identity()).login == f"{SLUG}[bot]"
        await client.get_project(REPOSITORY)
        await client.get_project(REPOSITORY)
    finally:
        await client.close()
    assert app.granted == 1


async def test_the_key_of_another_app_is_refused(peer: GithubPeer, app: PeerApp, tmp_path: Path) -> None:
    section = credentials(PeerApp(), tmp_path)
    adapter = ForgeAdapter(
        GithubSettings(repositories=(REPOSITORY,), api_url=peer.url, **section), MemoryPositions(), intervals=PACE
    )
    with pytest.raises(TokenRefused, match="401"):
        await adapter.open()


async def test_what_is_no_key_is_named(peer: GithubPeer, tmp_path: Path) -> None:
    (tmp_path / "app.pem").write_text("no key")
    section = {"token": None, "app_id": APP_ID, "private_key": Secret(file=tmp_path / "app.pem")}
    settings = GithubSettings(repositories=(REPOSITORY,), api_url=peer.url, **section)
    with pytest.raises(PlatformError, match="private_key is no RSA key"):
        await connect(settings, PACE)


async def test_check_says_where_the_app_is_not_installed(peer: GithubPeer, app: PeerApp, tmp_path: Path) -> None:
    app.not_installed_in.add(REPOSITORY)
    settings = GithubSettings(repositories=(REPOSITORY,), api_url=peer.url, **credentials(app, tmp_path))
    [problem] = (await diagnose(settings, Scope(()))).problems
    assert f"the app is not installed in {REPOSITORY}" in problem.text


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"app_id": APP_ID},
        {"private_key": {"env": "KEY"}},
        {"token": {"env": "TOKEN"}, "app_id": APP_ID, "private_key": {"env": "KEY"}},
        {"token": {"env": "TOKEN"}, "app_id": APP_ID},
    ],
)
def test_either_a_token_or_an_app(section: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give either token, or app_id and private_key"):
        GithubSettings(repositories=(REPOSITORY,), **section)
