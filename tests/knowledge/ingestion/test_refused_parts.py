"""A part of a service that refuses us, beside others that do not: a category, a space, a page, a kind, a branch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from pydantic import TypeAdapter

from core.errors import MadePrivate, SourceError
from core.settings import GithubSource, GitlabSource, GitSource, OwnSource, SourceSettings, WebsiteSource
from knowledge.connectors.channels import PRIVATE
from knowledge.ingestion.sync import SyncOptions, SyncReport, refresh
from knowledge.ports import Store
from knowledge.sources.factory import open_source
from knowledge.sources.kept import delete_source_state
from tests.support.git_repositories import commit, git
from tests.support.peers.confluence import USERNAME, ConfluencePeer, WikiPage
from tests.support.peers.discord_history import DiscordHistoryPeer, DiscordPlace, make_id, say
from tests.support.peers.discourse import DiscoursePeer, Entry, Topic
from tests.support.peers.forge import PROJECT, REPOSITORY, TOKEN as FORGE_TOKEN, ForgePeer, Ticket, Version
from tests.support.peers.git_server import GitServer
from tests.support.peers.service import TOKEN, reply
from tests.support.peers.slack_history import Channel, SlackHistoryPeer
from tests.support.peers.web import Page, WebPeer

DAY_S = 86_400.0
WORDS = "The quokka eats eucalyptus at night, and the wombat digs a burrow below the old fence by day. " * 2
PRIVATE_HOSTS = ["127.0.0.1"]
OPEN, CLOSED = make_id(900 * 86_400), make_id(901 * 86_400)
Settings = SourceSettings


class Reader:
    """Refreshes the source `docs` into the store; `later` moves the clock."""

    def __init__(self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store = store
        self._path = tmp_path
        self._monkeypatch = monkeypatch

    def later(self, days: float) -> None:
        at = time.time
        self._monkeypatch.setattr(time, "time", lambda: at() + days * DAY_S)

    async def refresh(self, settings: Settings, name: str = "docs") -> SyncReport:
        return await refresh(open_source(name, settings, self._path / "data"), self._store, SyncOptions(200))

    async def find(self, name: str = "docs") -> set[str]:
        return {passage.path for passage in await self._store.search("quokka", None, [name], 9)}

    async def watch(self, settings: Settings, closed: str, *, days: float = 6.5) -> None:
        """Require that what is refused now is told for a week, and then no more, whatever else is read."""
        known = await self.find()
        assert closed in known
        await self.refresh(settings)
        assert await self.find() == known
        self.later(days)
        await self.refresh(settings)
        assert await self.find() == known
        self.later(7.1 - days)
        await self.refresh(settings)
        assert await self.find() == known - {closed}
        await self.refresh(settings)
        assert await self.find() == known - {closed}


@pytest.fixture
def reader(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.setenv("SERVICE_TOKEN", TOKEN)
    return Reader(store, tmp_path, monkeypatch)


def own(plugin: str, url: str, **options: object) -> OwnSource:
    given = {"url": url, "allow_private": PRIVATE_HOSTS, **options}
    return OwnSource.model_validate(
        {"kind": "own", "plugin": plugin, "token": {"env": "SERVICE_TOKEN"}, "options": given}
    )


async def test_a_category_of_a_forum_that_is_closed(reader: Reader) -> None:
    async with DiscoursePeer() as forum:
        forum.topics = {1: Topic("Help", [Entry(WORDS)], "support/5"), 2: Topic("Team", [Entry(WORDS)], "team/7")}
        source = own("discourse", forum.url(), categories=["team/7", "support/5"])
        await reader.refresh(source)
        forum.broken = {"/c/team/7/l/latest.json": 403, "/t/2.json": 403}
        forum.topics[3] = Topic("New", [Entry("An emu.")], "support/5")
        report = await reader.refresh(source)
        assert report.added == 1, "one category costs the others nothing"
        assert "team/7" in report.stale
        await reader.watch(source, "topics/2")
        forum.broken = {}
        await reader.refresh(source)
        assert await reader.find() == {"topics/1", "topics/2"}


def fill_two_spaces(wiki: ConfluencePeer) -> SourceSettings:
    wiki.wiki = {1: WikiPage("Open", f"<p>{WORDS}</p>"), 2: WikiPage("Ops", f"<p>{WORDS}</p>", space="OPS")}
    return own("confluence", wiki.site(), spaces=["DOC", "OPS"], username=USERNAME)


async def test_a_space_that_is_forbidden(reader: Reader) -> None:
    async with ConfluencePeer() as wiki:
        source = fill_two_spaces(wiki)
        await reader.refresh(source)
        wiki.forbidden_spaces = {"OPS"}
        await reader.watch(source, "pages/2")


async def test_a_space_whose_index_alone_fails_stays(reader: Reader) -> None:
    async with ConfluencePeer() as wiki:
        source = fill_two_spaces(wiki)
        await reader.refresh(source)
        wiki.hidden_spaces = {"OPS"}
        for _ in range(3):
            await reader.refresh(source)
            reader.later(8)
        assert await reader.find() == {"pages/1", "pages/2"}


async def test_pages_that_are_forbidden_at_once(reader: Reader) -> None:
    async with ConfluencePeer() as wiki:
        wiki.wiki = {number: WikiPage(f"Page {number}", f"<p>{WORDS}</p>") for number in range(1, 7)}
        source = own("confluence", wiki.site(), spaces=["DOC"], username=USERNAME)
        await reader.refresh(source)
        wiki.wiki = {number: WikiPage(f"Page {number}", f"<p>{WORDS}</p>", version=2) for number in range(1, 7)}
        wiki.status = 0
        search = wiki.answer

        def refuse_reading(request: web.Request) -> web.Response:
            if request.query.get("cql", "").startswith("id=") or "/content/search" not in request.path:
                return reply({"message": "forbidden"}, 403)
            return search(request)

        wiki.answer = refuse_reading  # type: ignore[method-assign]
        await reader.refresh(source)
        reader.later(6)
        await reader.refresh(source)
        assert len(await reader.find()) == 6
        reader.later(2)
        await reader.refresh(source)
        assert await reader.find() == set()


async def test_a_channel_of_discord_that_refuses(reader: Reader) -> None:
    async with DiscordHistoryPeer() as discord:
        discord.places = {number: DiscordPlace(messages=[say(300, WORDS)]) for number in (OPEN, CLOSED)}
        source = own("discord_channels", discord.url(), channels=[OPEN, CLOSED], days=3650)
        await reader.refresh(source)
        (closed,) = (path for path in await reader.find() if path.startswith(CLOSED))
        discord.broken = {f"/api/v10/channels/{CLOSED}": 403}
        await reader.watch(source, closed)


async def test_a_channel_of_slack_that_refuses(reader: Reader) -> None:
    async with SlackHistoryPeer() as slack:
        messages = {f"{int(time.time()) - 300}.000100": {"text": WORDS}}
        slack.channels = {"C01": Channel(messages=messages), "C02": Channel(messages=messages)}
        source = own("slack_channels", slack.url(), channels=["C01", "C02"])
        await reader.refresh(source)
        slack.scopes_missing, slack.scoped_prefix = {"conversations.info"}, "C02"
        await reader.watch(source, f"C02/{next(iter(messages))}")


async def test_a_channel_of_slack_that_is_made_private(reader: Reader) -> None:
    async with SlackHistoryPeer() as slack:
        messages = {f"{int(time.time()) - 300}.000100": {"text": WORDS}}
        slack.channels = {"C01": Channel(messages=messages), "C02": Channel(messages=messages)}
        source = own("slack_channels", slack.url(), channels=["C01", "C02"])
        await reader.refresh(source)
        slack.channels["C02"].is_private = True
        report = await reader.refresh(source)
        assert {path.partition("/")[0] for path in await reader.find()} == {"C01"}
        assert report.unreadable == {"C02": PRIVATE}
        await reader.refresh(own("slack_channels", slack.url(), channels=["C01", "C02"], private_channels=["C02"]))
        assert {path.partition("/")[0] for path in await reader.find()} == {"C01", "C02"}


async def test_a_channel_of_discord_that_is_made_private(reader: Reader) -> None:
    async with DiscordHistoryPeer() as discord:
        discord.places = {number: DiscordPlace(messages=[say(300, WORDS)]) for number in (OPEN, CLOSED)}
        channels = [OPEN, CLOSED]
        source = own("discord_channels", discord.url(), channels=channels)
        await reader.refresh(source)
        discord.places[CLOSED].is_private = True
        report = await reader.refresh(source)
        assert {path.partition("/")[0] for path in await reader.find()} == {OPEN}
        assert report.unreadable == {CLOSED: PRIVATE}
        await reader.refresh(own("discord_channels", discord.url(), channels=channels, private_channels=[CLOSED]))
        assert {path.partition("/")[0] for path in await reader.find()} == {OPEN, CLOSED}


async def test_channels_of_a_server_of_discord_that_hides_all_but_some(reader: Reader) -> None:
    """The role of everybody may see no channel any more, but for those that say otherwise."""
    async with DiscordHistoryPeer() as discord:
        discord.places = {number: DiscordPlace(messages=[say(300, WORDS)]) for number in (OPEN, CLOSED)}
        discord.places[OPEN].is_shown = True
        source = own("discord_channels", discord.url(), channels=[OPEN, CLOSED])
        await reader.refresh(source)
        assert {path.partition("/")[0] for path in await reader.find()} == {OPEN, CLOSED}
        discord.rights = 0
        report = await reader.refresh(source)
        assert {path.partition("/")[0] for path in await reader.find()} == {OPEN}
        assert report.unreadable == {CLOSED: PRIVATE}


async def test_issues_of_gitlab_that_are_for_members_in_a_public_project(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", FORGE_TOKEN)
    async with ForgePeer() as forge:
        forge.tickets = {1: Ticket(1, "Night", WORDS)}
        forge.levels = {"issues": "enabled", "releases": "private"}
        given = {"project": PROJECT, "api_url": forge.url("/api/v4"), "allow_private": PRIVATE_HOSTS}
        source = GitlabSource.model_validate(
            {"kind": "gitlab", **given, "take": ["issues"], "token": {"env": "FORGE_TOKEN"}}
        )
        assert not (await reader.refresh(source)).stale
        forge.levels["issues"] = "private"
        forge.tickets[2] = Ticket(2, "Secret", f"{WORDS} numbat")
        with pytest.raises(MadePrivate, match="is private now: give this source the audience"):
            await reader.refresh(source)
        assert await reader.find() == {"issues/1"}, "nothing new is read"


@pytest.mark.parametrize("kind", ["github", "gitlab"])
async def test_issues_that_are_closed_while_releases_are_open(reader: Reader, kind: str) -> None:
    async with ForgePeer() as forge:
        forge.tickets = {1: Ticket(1, "Night", WORDS)}
        forge.versions = [Version("v2.0", "Two", WORDS)]
        place = {"repository": REPOSITORY} if kind == "github" else {"project": PROJECT}
        api = "/api/v3" if kind == "github" else "/api/v4"
        given = {**place, "api_url": forge.url(api), "allow_private": PRIVATE_HOSTS, "take": ["issues", "releases"]}
        source: Settings = (
            GithubSource.model_validate({"kind": kind, **given})
            if kind == "github"
            else GitlabSource.model_validate({"kind": kind, **given})
        )
        await reader.refresh(source)
        (issue,) = (path for path in await reader.find() if path.startswith("issues/"))
        project = f"/projects/{PROJECT.replace('/', '%2F')}" if kind == "gitlab" else f"/repos/{REPOSITORY}"
        forge.closed = {f"{api}{project}/issues"}
        await reader.watch(source, issue)


@pytest.mark.parametrize("kind", ["github", "gitlab"])
async def test_a_project_that_is_made_private_below_our_token(
    reader: Reader, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", FORGE_TOKEN)
    async with ForgePeer() as forge:
        forge.tickets = {1: Ticket(1, "Night", WORDS)}

        def make_source(**fields: object) -> SourceSettings:
            place = {"repository": REPOSITORY} if kind == "github" else {"project": PROJECT}
            api_url = forge.url("/api/v3" if kind == "github" else "/api/v4")
            given = {"kind": kind, **place, "api_url": api_url, "allow_private": PRIVATE_HOSTS, "take": ["issues"]}
            source: SourceSettings = TypeAdapter(SourceSettings).validate_python(
                {**given, "token": {"env": "FORGE_TOKEN"}, **fields}
            )
            return source

        forge.is_private = True
        await reader.refresh(make_source(), "always-private")
        assert await reader.find("always-private"), "whoever configures a private one may want it told"
        forge.is_private = False
        await reader.refresh(make_source())
        forge.is_private = True
        forge.tickets[2] = Ticket(2, "Secret", f"{WORDS} numbat")
        with pytest.raises(MadePrivate, match="is private now: give this source the audience"):
            await reader.refresh(make_source())
        assert await reader.find() == {"issues/1"}, "nothing new is read"
        # What is known goes, and that it was public is known all the same.
        delete_source_state(tmp_path / "data", "docs")
        with pytest.raises(SourceError, match="is private now"):
            await reader.refresh(make_source())
        await reader.refresh(make_source(audience=["owners"]))
        assert await reader.find() == {"issues/1", "issues/2"}
        forge.is_private = False
        assert not (await reader.refresh(make_source())).stale


async def test_a_page_that_is_closed_while_others_are_open(reader: Reader) -> None:
    async with WebPeer() as site:
        names = ("team", "a", "b", "c", "d")
        links = "".join(f"<a href='/{name}'>x</a>" for name in names)
        site.pages["/"] = Page(f"<html><title>Home</title><main><p>{WORDS}</p>{links}</main></html>")
        for name in names:
            site.pages[f"/{name}"] = Page(f"<html><title>{name}</title><main><p>{WORDS} {name}</p></main></html>")
        fields = {"kind": "website", "url": site.url("/"), "allow_private": PRIVATE_HOSTS, "delay_s": 0}
        source = WebsiteSource.model_validate(fields)
        await reader.refresh(source)
        site.pages["/team"] = Page("", 403)
        await reader.watch(source, "/team")


async def test_a_page_that_opens_again_has_a_new_week(reader: Reader) -> None:
    async with WebPeer() as site:
        links = "".join(f"<a href='/{name}'>x</a>" for name in "abc")
        site.pages["/"] = Page(f"<html><title>Home</title><main><p>{WORDS}</p>{links}</main></html>")
        for name in "abc":
            site.pages[f"/{name}"] = Page(f"<html><title>{name}</title><main><p>{WORDS} {name}</p></main></html>")
        site.tagged = True
        fields = {"kind": "website", "url": site.url("/"), "allow_private": PRIVATE_HOSTS, "delay_s": 0}
        source = WebsiteSource.model_validate(fields)
        await reader.refresh(source)
        page = site.pages["/a"]
        for _ in range(3):
            site.pages["/a"] = Page("", 403)
            await reader.refresh(source)
            reader.later(5)
            site.pages["/a"] = page
            await reader.refresh(source)
            assert "/a" in await reader.find()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "served/r.git"
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {"README.md": WORDS})
    git(folder, "branch", "v1")
    commit(folder, {"README.md": f"{WORDS} main"})
    return folder


@pytest.fixture
def serve(repository: Path) -> Iterator[Callable[[], GitServer]]:
    with GitServer(repository.parent, "", "git").running() as server:
        yield lambda: server


async def test_one_branch_of_several_that_is_deleted(
    reader: Reader, repository: Path, serve: Callable[[], GitServer], tmp_path: Path
) -> None:
    server = serve()
    source = GitSource.model_validate({"kind": "git", "url": server.url("r.git"), "branches": ["v1", "main"]})
    await reader.refresh(source)
    assert await reader.find() == {"v1:README.md", "main:README.md"}
    git(repository, "branch", "-D", "v1")
    commit(repository, {"new.md": WORDS})
    report = await reader.refresh(source)
    assert await reader.find() == {"main:README.md", "main:new.md"}, "the others are read on"
    assert "no branch or tag v1 any more" in report.stale
    repository.rename(repository.with_name("moved.git"))
    with pytest.raises(Exception, match="not found"):
        await reader.refresh(source)
    assert await reader.find() == {"main:README.md", "main:new.md"}, "the clone brought the branch back"
    repository.with_name("moved.git").rename(repository)
    git(repository, "branch", "v1")
    await reader.refresh(source)
    assert "v1:README.md" in await reader.find()


async def test_a_clone_is_told_to_no_source_with_another_token(
    reader: Reader, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GitServer(repository.parent, TOKEN, "git").running() as server:
        url = server.url("r.git")
        await reader.refresh(GitSource.model_validate({"kind": "git", "url": url, "token": {"env": "SERVICE_TOKEN"}}))
        monkeypatch.setenv("OTHER_TOKEN", "of-somebody-who-may-not")
        for access in ({}, {"token": {"env": "OTHER_TOKEN"}}):
            source = GitSource.model_validate({"kind": "git", "url": url, **access})
            with pytest.raises(Exception, match=r"token|login"):
                await reader.refresh(source, "other")
            assert await reader.find("other") == set()


async def test_a_repository_that_is_made_private_below_our_token(
    reader: Reader, repository: Path, tmp_path: Path
) -> None:
    with GitServer(repository.parent, TOKEN, "git").running() as server:
        fields = {"kind": "git", "url": server.url("r.git"), "token": {"env": "SERVICE_TOKEN"}}
        source = GitSource.model_validate(fields)
        await reader.refresh(source, "always-private")
        assert await reader.find("always-private"), "whoever configures a private one may want it told"
        server.token = ""
        await reader.refresh(source)
        server.token = TOKEN
        commit(repository, {"secret.md": WORDS})
        for _ in range(2):
            with pytest.raises(MadePrivate, match="is private now: give this source the audience"):
                await reader.refresh(source)
            assert await reader.find() == {"README.md"}, "nothing new is read"
            # What is known goes, and that it was public is known all the same.
            delete_source_state(tmp_path / "data", "docs")
        await reader.refresh(GitSource.model_validate({**fields, "audience": ["owners"]}))
        assert await reader.find() == {"README.md", "secret.md"}
