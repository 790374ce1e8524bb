"""Services that work and refuse us: the owner hears of it at once, and after a week nothing of theirs is told."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from core.errors import SourceError
from core.settings import SourceSettings
from core.storage.engine import Database
from core.storage.refresh_state import RefreshState, RefreshStateRepository
from knowledge.ingestion.refresh import RefreshContext, refresh_source
from knowledge.ingestion.schedule import REFUSED_SINCE
from knowledge.ports import Store
from knowledge.web.refusals import KEPT_S
from tests.support.feeds import rss
from tests.support.git_repositories import commit, git
from tests.support.knowledge import WordEmbedder
from tests.support.peers.confluence import USERNAME, ConfluencePeer, WikiPage
from tests.support.peers.discord_history import DiscordHistoryPeer, DiscordPlace, make_id, say
from tests.support.peers.discourse import DiscoursePeer, Entry, Topic
from tests.support.peers.forge import PROJECT, REPOSITORY, TOKEN as FORGE_TOKEN, ForgePeer, Ticket
from tests.support.peers.git_server import GitServer
from tests.support.peers.google_drive import GOOGLE, DriveFile, GoogleDrivePeer
from tests.support.peers.notion import NotionPage, NotionPeer, make_block
from tests.support.peers.service import TOKEN
from tests.support.peers.slack_history import Channel, SlackHistoryPeer
from tests.support.peers.web import Page, WebPeer

KINDS = (
    "website 401",
    "website 403",
    "website 404",
    "feed 403",
    "feed 410",
    "github",
    "gitlab",
    "git",
    "git 404",
    "discourse 403",
    "confluence 401",
    "confluence 403",
    "notion 401",
    "notion 403",
    "google_drive 401",
    "google_drive 403",
    "slack_channels",
    "discord_channels 401",
    "discord_channels 403",
)
DAY_S = 86_400
WORDS = "The quokka eats eucalyptus at night, and the wombat digs a burrow below the old fence by day. " * 2
TALK = make_id(900 * DAY_S)


@dataclass
class House:
    """A service with one document. `refuse` makes it refuse us, `break_down` makes it answer 500."""

    settings: SourceSettings
    refuse: Callable[[], None]
    allow: Callable[[], None]
    break_down: Callable[[], None]


def own(plugin: str, url: str, **options: Any) -> SourceSettings:
    given = {"url": url, "allow_private": ["127.0.0.1"], **options}
    token = {"env": "SERVICE_TOKEN"}
    return parse({"kind": "own", "plugin": plugin, "token": token, "options": given})


def parse(fields: dict[str, Any]) -> SourceSettings:
    source: SourceSettings = TypeAdapter(SourceSettings).validate_python(fields)
    return source


def by_status(peer: WebPeer, settings: SourceSettings, status: int) -> House:
    return House(
        settings,
        lambda: setattr(peer, "status", status),
        lambda: setattr(peer, "status", 0),
        lambda: setattr(peer, "status", 500),
    )


def by_token(peer: Any, settings: SourceSettings, monkeypatch: pytest.MonkeyPatch, token: str = TOKEN) -> House:
    """Return a house whose token is revoked."""

    def set_state(value: str, status: int) -> None:
        monkeypatch.setenv("SERVICE_TOKEN", value)
        peer.status = status

    monkeypatch.setenv("SERVICE_TOKEN", token)
    return House(settings, lambda: set_state("revoked", 0), lambda: set_state(token, 0), lambda: set_state(token, 500))


@asynccontextmanager
async def open_house(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setenv("SERVICE_TOKEN", TOKEN)
    private = ["127.0.0.1"]
    kind, _, status_text = kind.partition(" ")
    status = int(status_text or 401)
    async with AsyncExitStack() as stack:
        if kind == "website":
            site = await stack.enter_async_context(WebPeer())
            site.pages["/"] = Page(f"<html><title>Home</title><main><p>{WORDS}</p></main></html>")
            settings = parse({"kind": "website", "url": site.url("/"), "allow_private": private, "delay_s": 0})
            yield by_status(site, settings, status)
        elif kind == "feed":
            site = await stack.enter_async_context(WebPeer())
            site.pages["/feed"] = rss(("Night", WORDS, 1))
            yield by_status(site, parse({"kind": "feed", "url": site.url("/feed"), "allow_private": private}), status)
        elif kind in ("github", "gitlab"):
            forge = await stack.enter_async_context(ForgePeer())
            forge.tickets = {1: Ticket(1, "Night", WORDS)}
            place = {"repository": REPOSITORY} if kind == "github" else {"project": PROJECT}
            url = forge.url("/api/v3" if kind == "github" else "/api/v4")
            fields = {"kind": kind, **place, "api_url": url, "allow_private": private, "take": ["issues"]}
            settings = parse({**fields, "token": {"env": "SERVICE_TOKEN"}})
            yield by_token(forge, settings, monkeypatch, FORGE_TOKEN)
        elif kind == "git":
            folder = tmp_path / "served/r.git"
            folder.mkdir(parents=True)
            git(folder, "init", "-q", "-b", "main")
            commit(folder, {"README.md": WORDS})
            server = stack.enter_context(GitServer(folder.parent, TOKEN, "git").running())
            settings = parse({"kind": "git", "url": server.url("r.git"), "token": {"env": "SERVICE_TOKEN"}})
            moved = folder.with_name("moved.git")
            if status == 404:
                refuse, allow = lambda: folder.rename(moved), lambda: moved.rename(folder)
            else:
                house = by_token(server, settings, monkeypatch)
                refuse, allow = house.refuse, house.allow
            yield House(settings, refuse, allow, lambda: None)  # type: ignore[arg-type]
        else:
            async with open_connector(kind, status, monkeypatch) as house:
                yield house


@asynccontextmanager
async def open_connector(kind: str, status: int, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        if kind == "discourse":
            forum = await stack.enter_async_context(DiscoursePeer())
            forum.topics[7] = Topic("Night", [Entry(WORDS)])
            yield by_status(forum, own(kind, forum.url()), status)
        elif kind == "confluence":
            wiki = await stack.enter_async_context(ConfluencePeer())
            wiki.wiki[1] = WikiPage("Night", f"<p>{WORDS}</p>")
            yield by_status(wiki, own(kind, wiki.site(), spaces=["DOC"], username=USERNAME), status)
        elif kind == "notion":
            notion = await stack.enter_async_context(NotionPeer())
            notion.shared["p-1"] = NotionPage("Night", [make_block("paragraph", WORDS)])
            yield by_status(notion, own(kind, notion.url()), status)
        elif kind == "google_drive":
            drive = await stack.enter_async_context(GoogleDrivePeer())
            monkeypatch.setenv("SERVICE_TOKEN", drive.make_key())
            drive.files["folder-a"] = DriveFile("Handbook", "root-1")
            drive.files["doc-1"] = DriveFile("Night", "folder-a", f"{GOOGLE}document", WORDS.encode())
            yield by_status(drive, own(kind, drive.url(), folders=["folder-a"]), status)
        elif kind == "slack_channels":
            slack = await stack.enter_async_context(SlackHistoryPeer())
            slack.channels["C01"] = Channel(messages={f"{int(time.time()) - 300}.000100": {"text": WORDS}})
            yield by_token(slack, own(kind, slack.url(), channels=["C01"]), monkeypatch)
        else:
            discord = await stack.enter_async_context(DiscordHistoryPeer())
            discord.places[TALK] = DiscordPlace(messages=[say(300, WORDS)])
            yield by_status(discord, own(kind, discord.url(), channels=[TALK]), status)


class Keeper:
    """Refreshes a source as the daemon does; each time with a journal that was opened anew."""

    def __init__(self, settings: SourceSettings, store: Store, embedder: WordEmbedder, tmp_path: Path) -> None:
        self._settings = settings
        self._store = store
        self._embedder = embedder
        self._path = tmp_path

    async def refresh(self, *, days: float = 0.0) -> RefreshState:
        """Refresh so many days later, and return what is recorded then."""
        database = await Database.open(self._path / "journal.db")
        try:
            states = RefreshStateRepository(database)
            if since := (await states.get_state("docs")).counts.get(REFUSED_SINCE):
                await states.update_counts("docs", {REFUSED_SINCE: since - days * DAY_S}, changed=False)
            sources = {"docs": self._settings}
            context = RefreshContext(sources, self._store, self._embedder, self._path, 200, states)
            # It is recorded.
            with suppress(SourceError):
                await refresh_source(context, "docs")
            return await states.get_state("docs")
        finally:
            await database.close()

    async def find(self) -> set[str]:
        """Return the documents that questions find."""
        return {passage.path for passage in await self._store.search("quokka", None, ["docs"], 9)}


@pytest.mark.parametrize(
    "kind",
    KINDS,
)
async def test_what_a_service_refuses_for_a_week_is_forgotten(
    kind: str, tmp_path: Path, store: Store, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_house(kind, tmp_path, monkeypatch) as house:
        keeper = Keeper(house.settings, store, embedder, tmp_path / "data")
        assert (await keeper.refresh()).error == ""
        known = await keeper.find()
        assert known
        house.refuse()
        state = await keeper.refresh()
        assert await keeper.find() == known
        assert "unless that ends, what is known of it is forgotten on" in state.error
        await keeper.refresh(days=6)
        assert await keeper.find() == known
        state = await keeper.refresh(days=1.1)
        assert state.error.endswith("what was known of it is forgotten")
        assert await keeper.find() == set()
        assert (await keeper.refresh()).passages == 0, "the record of the connector brought it back"
        assert await keeper.find() == set()
        house.allow()
        state = await keeper.refresh()
        assert (state.error, state.counts.get(REFUSED_SINCE)) == ("", None)
        assert await keeper.find() == known


@pytest.mark.parametrize("kind", ["website", "feed", "discourse", "confluence", "notion", "google_drive"])
async def test_a_service_that_is_down_for_weeks_loses_nothing(
    kind: str, tmp_path: Path, store: Store, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_house(kind, tmp_path, monkeypatch) as house:
        keeper = Keeper(house.settings, store, embedder, tmp_path / "data")
        await keeper.refresh()
        known = await keeper.find()
        house.break_down()
        for _ in range(2):
            state = await keeper.refresh(days=30)
            assert state.error
            assert REFUSED_SINCE not in state.counts
            assert await keeper.find() == known
        house.refuse()
        assert (await keeper.refresh()).counts[REFUSED_SINCE] > time.time() - DAY_S
        house.break_down()
        await keeper.refresh(days=KEPT_S / DAY_S)
        assert await keeper.find() == known, "only another refusal counts"


async def test_a_service_that_lets_us_in_again_has_a_new_week(
    tmp_path: Path, store: Store, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_house("discourse 403", tmp_path, monkeypatch) as house:
        keeper = Keeper(house.settings, store, embedder, tmp_path / "data")
        await keeper.refresh()
        house.refuse()
        await keeper.refresh()
        house.allow()
        await keeper.refresh(days=6)
        house.refuse()
        await keeper.refresh()
        await keeper.refresh(days=2)
        assert await keeper.find()


def give_account_a_login(way: str, home: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the account that runs KIMAs have a login of its own, which git finds by itself."""
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    login = b64encode(f"git:{TOKEN}".encode()).decode()
    texts = {
        "helper": (".gitconfig", "[credential]\n\thelper = store\n"),
        "netrc": (".netrc", f"machine 127.0.0.1 login git password {TOKEN}\n"),
        "header": (
            ".gitconfig",
            f"[http]\n\textraHeader = Authorization: Basic {login}\n",
        ),
    }
    name, text = texts[way]
    (home / name).write_text(text, "utf-8")
    (home / ".git-credentials").write_text(f"http://git:{TOKEN}@127.0.0.1%3a{port}\n", "utf-8")
    (home / name).chmod(0o600)


@pytest.mark.parametrize("kind", ["github", "gitlab", "git", "git helper", "git netrc", "git header"])
async def test_what_is_made_private_below_our_token_is_told_no_more(
    kind: str, store: Store, embedder: WordEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, _, account = kind.partition(" ")
    monkeypatch.setenv("SERVICE_TOKEN", FORGE_TOKEN if kind != "git" else TOKEN)
    async with AsyncExitStack() as stack:
        if kind == "git":
            folder = tmp_path / "served/r.git"
            folder.mkdir(parents=True)
            git(folder, "init", "-q", "-b", "main")
            commit(folder, {"README.md": WORDS})
            server = stack.enter_context(GitServer(folder.parent, "", "git").running())
            settings = parse({"kind": "git", "url": server.url("r.git"), "token": {"env": "SERVICE_TOKEN"}})
            if account:
                give_account_a_login(account, tmp_path / "home", server.port, monkeypatch)
            make_private = partial(setattr, server, "token", TOKEN)
        else:
            forge = ForgePeer()
            await stack.enter_async_context(forge)
            forge.tickets = {1: Ticket(1, "Night", WORDS)}
            place = {"repository": REPOSITORY} if kind == "github" else {"project": PROJECT}
            url = forge.url("/api/v3" if kind == "github" else "/api/v4")
            fields = {"kind": kind, **place, "api_url": url, "allow_private": ["127.0.0.1"], "take": ["issues"]}
            settings = parse({**fields, "token": {"env": "SERVICE_TOKEN"}})
            make_private = partial(setattr, forge, "is_private", True)
        keeper = Keeper(settings, store, embedder, tmp_path)
        await keeper.refresh()
        assert await store.manifest("docs")
        make_private()
        state = await keeper.refresh()
        assert not await store.manifest("docs")
        assert "is private now" in state.error
        assert "what was known of it is forgotten" in state.error
        assert state.documents == 0
