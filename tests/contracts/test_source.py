"""The contract of `Source`, run over every implementation."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import SourceError
from core.settings import (
    FaqSource,
    FeedSource,
    FilesSource,
    GithubSource,
    GitlabSource,
    GitSource,
    HttpApiSource,
    LearnedSource,
    OwnSource,
    SourceSettings,
    StandingSource,
    WebsiteSource,
)
from core.storage.engine import Database
from core.storage.lessons import TaughtAnswerRepository
from core.types import ConversationKey, Message
from knowledge.ports import Source
from knowledge.sources.factory import open_source
from tests.support.feeds import rss
from tests.support.peers.forge import NOW, PROJECT, REPOSITORY, ForgePeer, Ticket
from tests.support.peers.web import Page
from tests.support.plugins import install

GIT = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
PLUG_IN = """
import hashlib
from pathlib import Path
from knowledge.ports import Document, Listing

class Texts:
    def __init__(self, name, options, data_dir):
        self.name, self.folder = name, Path(options["folder"])

    async def listing(self):
        files = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        return Listing({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})

    async def documents(self, listing, paths):
        for path in paths:
            if path in listing.fingerprints:
                yield Document(path, (self.folder / path).read_text("utf-8"), "markdown")
"""


KINDS = ["files", "git", "git-remote", "faq", "website", "feed", "forge", "gitlab", "standing", "learned", "own"]
# What is not there any more stays known for a while.
REMEMBERING = {"feed", "standing"}
# They keep what they had while their server is away.
REMOTE = {"git-remote", "website", "feed", "forge", "gitlab", "standing"}
CHUNKED_AS = {"faq": "faq", "learned": "faq", "standing": "web"}
SINCE = time.time() - 86_400.5


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env=os.environ | GIT)


class World:
    """A source, and the means to change what it stands for: entries by name, each with a text."""

    def __init__(self, folder: Path, kind: str, web: ForgePeer) -> None:
        self.folder = folder / "content"
        self.kind = kind
        self.data = folder / "data"
        self.web = web
        self.folder.mkdir()
        if kind in ("git", "git-remote"):
            git(self.folder, "init", "-q")

    @property
    def location(self) -> str:
        """What an error names."""
        pages = {"website": "/", "feed": "/feed", "standing": "/find"}
        if self.kind in pages:
            return self.web.url(pages[self.kind])
        location_names = {"forge": REPOSITORY, "gitlab": PROJECT, "own": "'contract-texts'"}
        return location_names.get(self.kind, str(self.folder))

    def away(self) -> None:
        """Make all of it unreachable."""
        self.web.failure_mode = "drop"
        self.folder.rename(self.folder.with_name("away"))
        if self.kind == "learned":
            self.taught.rename(self.taught.with_name("away.db"))
            self.taught.write_text("This is no database. " * 500)

    def back(self) -> None:
        """Make it reachable again."""
        self.web.failure_mode = ""
        self.folder.with_name("away").rename(self.folder)
        if self.kind == "learned":
            self.taught.with_name("away.db").replace(self.taught)

    @property
    def taught(self) -> Path:
        """The database that people's answers are in."""
        return self.data / "journal.db"

    def publish(self, entries: dict[str, str]) -> None:
        links = "".join(f'<a href="/p/{name}">{name}</a>' for name in entries)
        self.web.pages = {"/": Page(f"<html><body>{links}</body></html>")} | {
            f"/p/{name}": Page(f"<html><body><main><h1>{name}</h1><p>{text}</p></main></body></html>")
            for name, text in entries.items()
        }

    def syndicate(self, entries: dict[str, str]) -> None:
        age = (time.time() - SINCE) / 86_400
        self.web.pages["/feed"] = rss(*((name, text, age) for name, text in entries.items()))

    def find(self, entries: dict[str, str]) -> None:
        results = [
            {"title": name, "url": f"https://e.example.org/{name}", "text": text} for name, text in entries.items()
        ]
        self.web.pages["/find"] = Page(json.dumps({"results": results}), headers={"Content-Type": "application/json"})

    def _teach(self, name: str, entries: dict[str, str]) -> Message:
        return Message(f"m-{name}", ConversationKey("test", "room"), "7", "Ann", entries[name], datetime.now(UTC))

    async def submit_answers(self, entries: dict[str, str]) -> None:
        database = await Database.open(self.taught)
        try:
            taught_answers = TaughtAnswerRepository(database)
            answers_by_question = {answer.question: answer for answer in await taught_answers.list_answers(reader=None)}
            for name, taught_answer in answers_by_question.items():
                if name in entries and taught_answer.answer == entries[name]:
                    continue
                if name in entries:
                    await taught_answers.edit(self._teach(name, entries), taught_answer.number, entries[name], ())
                await taught_answers.decide(
                    taught_answer.number, "approved" if name in entries else "rejected", "owner"
                )
            for name in entries.keys() - answers_by_question.keys():
                taught_message = self._teach(name, entries)
                number = await taught_answers.submit(taught_message, "8", name, entries[name], (), words_of=())
                assert number
                await taught_answers.decide(number, "approved", "owner")
        finally:
            await database.close()

    def post(self, entries: dict[str, str]) -> None:
        tickets_by_title = {ticket.title: ticket for ticket in self.web.tickets.values()}
        highest = max(self.web.tickets, default=0)
        self.web.tickets = {}
        for position, (name, text) in enumerate(entries.items(), 1):
            number = tickets_by_title[name].number if name in tickets_by_title else highest + position
            is_same = name in tickets_by_title and tickets_by_title[name].body == text
            age = tickets_by_title[name].age if is_same else (NOW - time.time()) / 86_400
            self.web.tickets[number] = Ticket(number, name, text, age=age)

    async def write(self, entries: dict[str, str]) -> None:
        if self.kind in ("forge", "gitlab"):
            self.post(entries)
            return
        if self.kind == "learned":
            await self.submit_answers(entries)
            return
        if self.kind in ("website", "feed", "standing"):
            {"website": self.publish, "feed": self.syndicate, "standing": self.find}[self.kind](entries)
            return
        if self.kind == "faq":
            lines = [f"- question: {name}\n  answer: {text}\n" for name, text in entries.items()]
            (self.folder / "faq.yaml").write_text("".join(lines) or "[]", "utf-8")
            return
        for file in self.folder.glob("*.md"):
            file.unlink()
        for name, text in entries.items():
            (self.folder / f"{name}.md").write_text(text + "\n", "utf-8")
        if self.kind in ("git", "git-remote"):
            git(self.folder, "add", "-A")
            git(self.folder, "commit", "-qm", "change", "--allow-empty")

    def open(self) -> Source:
        settings: SourceSettings
        match self.kind:
            case "website":
                site = {"url": self.web.url("/"), "include": ["/p/*"], "delay_s": 0, "allow_private": ["127.0.0.1"]}
                settings = WebsiteSource.model_validate({"kind": "website", **site})
            case "forge":
                fields = {"repository": REPOSITORY, "api_url": self.web.url("/api/v3"), "allow_private": ["127.0.0.1"]}
                # Each visit is a full round: what was deleted is not noticed earlier.
                settings = GithubSource.model_validate({"kind": "github", "full_days": 1e-9, **fields})
            case "gitlab":
                fields = {"project": PROJECT, "api_url": self.web.url("/api/v4"), "allow_private": ["127.0.0.1"]}
                settings = GitlabSource.model_validate({"kind": "gitlab", "full_days": 1e-9, **fields})
            case "feed":
                fields = {"url": self.web.url("/feed"), "allow_private": ["127.0.0.1"]}
                settings = FeedSource.model_validate({"kind": "feed", **fields})
            case "standing":
                settings = StandingSource.model_validate({"kind": "standing", "of": "web", "queries": ["all of it"]})
            case "learned":
                settings = LearnedSource(kind="learned")
            case "faq":
                settings = FaqSource(kind="faq", path=self.folder / "faq.yaml")
            case "own":
                settings = OwnSource(kind="own", plugin="contract-texts", options={"folder": str(self.folder)})
            case "files":
                settings = FilesSource(kind="files", path=self.folder)
            case "git":
                settings = GitSource(kind="git", url=str(self.folder))
            case _:
                settings = GitSource(kind="git", url=f"file://{self.folder}")
        fields = {
            "url": self.web.url("/find"),
            "params": {"q": "{query}"},
            "allow_private": ["127.0.0.1"],
            "cache_s": 0,
        }
        other_sources: dict[str, SourceSettings] = {"web": HttpApiSource.model_validate({"kind": "http_api", **fields})}
        return open_source("docs", settings, self.data, other_sources)


@pytest.fixture(params=KINDS)
async def make_world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[[], World]]:
    if request.param == "own":
        packages = tmp_path / "packages"
        packages.mkdir()
        install(packages, "contract_texts", PLUG_IN, **{"contract-texts": "Texts"})
        monkeypatch.syspath_prepend(packages)
    async with ForgePeer() as web:
        yield lambda: World(tmp_path, request.param, web)


async def texts(source: Source, *, of: set[str] | None = None) -> dict[str, str]:
    listing = await source.listing()
    paths = set(listing.fingerprints) if of is None else of
    return {document.path: document.text async for document in source.documents(listing, paths)}


async def test_every_listed_path_is_a_document(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.write({"one": "First text", "two": "Second text"})
    source = world.open()
    listing = await source.listing()
    documents = [document async for document in source.documents(listing, listing.fingerprints)]
    assert source.name == "docs"
    assert sorted(document.path for document in documents) == sorted(listing.fingerprints)
    assert len(documents) == 2
    assert all(document.kind == CHUNKED_AS.get(world.kind, "markdown") for document in documents)
    assert "First text" in "".join(document.text for document in documents)
    assert listing.stale == ""
    assert not listing.skipped


async def test_only_asked_paths_are_read(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.write({"one": "First text", "two": "Second text"})
    source = world.open()
    first = sorted((await source.listing()).fingerprints)[0]
    assert list(await texts(source, of={first})) == [first]
    assert await texts(source, of=set()) == {}
    assert await texts(source, of={"never/was.md"}) == {}


async def test_fingerprints_follow_the_content_alone(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.write({"one": "First text", "two": "Second text"})
    listing_before = dict((await world.open().listing()).fingerprints)
    await world.write({"two": "Second text", "one": "First text"})
    assert dict((await world.open().listing()).fingerprints) == listing_before
    await world.write({"one": "First text", "two": "Changed text", "three": "Third text"})
    fingerprints_after = dict((await world.open().listing()).fingerprints)
    changed_paths = {path for path in listing_before if fingerprints_after.get(path) != listing_before[path]}
    assert len(changed_paths) == 1
    assert len(fingerprints_after) == 3


async def test_one_source_sees_what_changed_later(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.write({"one": "First text", "two": "Second text"})
    source = world.open()
    assert len(await texts(source)) == 2
    await world.write({"one": "New text"})
    remaining_texts = list((await texts(source)).values())
    assert len(remaining_texts) == (2 if world.kind in REMEMBERING else 1)
    assert any("New text" in text for text in remaining_texts)
    assert not any("First text" in text for text in remaining_texts)


async def test_nothing_at_all_is_an_error_with_the_place(make_world: Callable[[], World]) -> None:
    world = make_world()
    if world.kind == "learned":
        # Before anybody taught anything, that is so; and what was rejected is to be forgotten.
        assert (await world.open().listing()).fingerprints == {}
        return
    with pytest.raises(SourceError, match="docs") as error_info:
        await world.open().listing()
    assert world.location in str(error_info.value)
    await world.write({})
    with pytest.raises(SourceError) as error_info:
        await world.open().listing()
    assert world.location in str(error_info.value)


async def test_what_is_gone_is_an_error_and_can_come_back(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.write({"one": "First text"})
    source = world.open()
    await source.listing()
    world.away()
    if world.kind in REMOTE:
        assert (await source.listing()).stale
    else:
        with pytest.raises(SourceError, match="docs"):
            await source.listing()
    world.back()
    listing = await source.listing()
    assert listing.stale == ""
    assert len(listing.fingerprints) == 1
