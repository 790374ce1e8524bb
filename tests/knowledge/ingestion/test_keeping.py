"""What sources keep on a machine is told to nobody else than those for whom it was read, and never comes back."""

from __future__ import annotations

import json
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from core.storage.engine import Database
from knowledge.ports import Store
from knowledge.sources.kept import find_kept_names, read_kept_label
from tests.support.deployment import commit, make_repository
from tests.support.feeds import rss
from tests.support.knowledge import WordEmbedder
from tests.support.machines import Machine
from tests.support.peers.forge import PROJECT, REPOSITORY, TOKEN, ForgePeer, Ticket
from tests.support.peers.git_server import GitServer
from tests.support.peers.web import Page, WebPeer

SECRET = "The quokka moves to the new house in May."
OPEN_TEXT = "A quokka lives on an island."
PRIVATE = {"allow_private": ["127.0.0.1"]}
CLOSED = {"audience": ["owners"]}
# A port on which nobody listens.
NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture
def machine(store: Store, database: Database, embedder: WordEmbedder, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "data", store, database, embedder)


@pytest.fixture
def other_machine(store: Store, database: Database, embedder: WordEmbedder, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "other", store, database, embedder)


def results(text: str) -> Page:
    body = {"results": [{"title": "Found", "url": f"https://example.org/{len(text)}", "text": text}]}
    return Page(json.dumps(body), headers={"Content-Type": "application/json"})


async def test_a_feed_with_the_name_of_another_has_nothing_of_that(machine: Machine) -> None:
    async with WebPeer() as web:
        web.pages = {"/team": rss(("Team", SECRET, 1)), "/blog": rss(("Blog", OPEN_TEXT, 1))}
        feed = {"kind": "feed", **PRIVATE}
        assert SECRET in await machine.read({**feed, "url": web.url("/team"), **CLOSED})
        told = await machine.read({**feed, "url": web.url("/blog")})
        assert OPEN_TEXT in told
        assert SECRET not in told


async def test_a_site_that_is_away_is_not_the_former_site_of_its_name(machine: Machine) -> None:
    async with WebPeer() as web:
        web.pages["/"] = Page(f"<html><title>Team</title><main><p>{SECRET}</p></main></html>")
        site = {"kind": "website", "sitemap": False, **PRIVATE}
        assert SECRET in await machine.read({**site, "url": web.url("/"), **CLOSED})
        assert SECRET not in await machine.read({**site, "url": NOWHERE})


async def test_standing_queries_of_another_source_have_nothing_of_the_former_one(machine: Machine) -> None:
    async with WebPeer() as web:
        web.pages = {"/inside": results(SECRET), "/outside": results(OPEN_TEXT)}
        fields = {"kind": "http_api", "results": "results", "text": "text", "title": "title", "link": "url", **PRIVATE}
        live = {"inside": {**fields, "url": web.url("/inside"), **CLOSED}}
        live["outside"] = {**fields, "url": web.url("/outside")}
        standing = {"kind": "standing", "queries": ["quokka"]}
        assert SECRET in await machine.read({**standing, "of": "inside", **CLOSED}, **live)
        told = await machine.read({**standing, "of": "outside"}, **live)
        assert OPEN_TEXT in told
        assert SECRET not in told


@pytest.mark.parametrize("has_label", [True, False])
async def test_a_removed_source_that_comes_back_begins_anew(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, has_label: bool
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    forge = ForgePeer()
    async with forge:
        forge.tickets[1] = Ticket(1, "Move", SECRET)
        fields = {"kind": "github", "repository": REPOSITORY, "api_url": forge.url("/api/v3"), "take": ["issues"]}
        assert SECRET in await machine.read({**fields, **PRIVATE, "token": {"env": "FORGE_TOKEN"}, **CLOSED})
        kept = machine.folder.with_name("kept")
        shutil.copytree(machine.folder, kept)
        await machine.remove()
        assert not find_kept_names(machine.folder), "what was read for the source is gone"
        # As if another process had the source while it was removed; earlier versions labelled nothing.
        shutil.rmtree(machine.folder)
        shutil.copytree(kept, machine.folder, ignore=None if has_label else shutil.ignore_patterns("labels"))
        forge.status = 404
        assert SECRET not in await machine.read({**fields, **PRIVATE})


async def test_what_one_machine_found_closed_does_not_come_back_by_another(
    machine: Machine, other_machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    forge = ForgePeer()
    async with forge:
        forge.tickets = {1: Ticket(1, "Move", SECRET), 2: Ticket(2, "Island", OPEN_TEXT)}
        fields: dict[str, Any] = {
            "kind": "gitlab",
            "project": PROJECT,
            "api_url": forge.url("/api/v4"),
            "take": ["issues"],
            **PRIVATE,
        }
        fields["token"] = {"env": "FORGE_TOKEN"}
        assert SECRET in await other_machine.read(fields)
        forge.tickets[1].confidential = True
        forge.tickets[1].age = 0
        assert SECRET not in await machine.read(fields)
        for _ in range(2):
            forge.status = 503
            told = await other_machine.read(fields)
            assert OPEN_TEXT in told, "the store has it from the machine that was there last"
            assert SECRET not in told
        forge.status = 0
        assert OPEN_TEXT in await other_machine.read(fields)
        forge.status = 503
        assert OPEN_TEXT in await other_machine.read(fields), "what this machine read last is listed as it was"


async def test_an_outage_of_a_machines_own_source_keeps_all(machine: Machine) -> None:
    async with WebPeer() as web:
        web.pages["/blog"] = rss(("Blog", OPEN_TEXT, 1))
        feed = {"kind": "feed", "url": web.url("/blog"), **PRIVATE}
        assert OPEN_TEXT in await machine.read(feed)
        label = read_kept_label(machine.folder, "docs")
        assert label
        assert label.success
        assert len(label.fingerprints) == 1
        web.status = 503
        assert OPEN_TEXT in await machine.read(feed)
        # More people see less of it than before: what it held was for others.
        assert OPEN_TEXT in await machine.read({**feed, **CLOSED})
        assert OPEN_TEXT not in await machine.read({**feed, "max_entries": 9})


@pytest.mark.parametrize("kind", ["github", "git"])
async def test_what_was_public_is_known_to_all_machines_and_under_all_names(
    machine: Machine, other_machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    forge = ForgePeer()
    async with AsyncExitStack() as stack:
        if kind == "github":
            await stack.enter_async_context(forge)
            forge.tickets[1] = Ticket(1, "Move", OPEN_TEXT)
            fields = {"kind": "github", "repository": REPOSITORY, "api_url": forge.url("/api/v3"), **PRIVATE}
        else:
            make_repository(tmp_path / "served" / "r.git", {"README.md": OPEN_TEXT})
            server = stack.enter_context(GitServer(tmp_path / "served", "", "git").running())
            fields = {"kind": "git", "url": server.url("r.git")}
        fields["token"] = {"env": "FORGE_TOKEN"}
        assert OPEN_TEXT in await machine.read(fields)
        if kind == "github":
            forge.is_private = True
            forge.tickets[1] = Ticket(1, "Move", SECRET, age=0)
        else:
            server.token = TOKEN
            commit(tmp_path / "served" / "r.git", {"README.md": SECRET})
        assert SECRET not in await other_machine.read(fields)
        await machine.remove()
        assert SECRET not in await machine.read(fields)
        assert SECRET in await machine.read({**fields, **CLOSED})
