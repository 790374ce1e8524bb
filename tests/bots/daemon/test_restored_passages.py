"""Passages that a source had read when it was another one are told to nobody for whom they were not read."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import ANY

import pytest

from bots.daemon.bootstrap import App, make_live_settings, open_app
from core.settings import Settings
from core.settings.audience import Audiences
from core.storage.engine import Database
from core.storage.lessons import TaughtAnswerRepository
from core.types import ConversationKey, Message
from knowledge.parsing.parser import ThreadParser
from tests.support.knowledge import WordEmbedder
from tests.support.peers.discourse import DiscoursePeer, Entry, Topic
from tests.support.peers.service import TOKEN

CLOSED = {"audience": ["owners"]}


def configure(folder: Path, **sources: dict[str, object]) -> Settings:
    files = {name: {"kind": "files", **source} for name, source in sources.items()}
    return Settings.model_validate(
        {"data_dir": folder / "data", "telegram": {"token": {"env": "TELEGRAM"}}, "sources": files}
    )


async def find(settings: Settings, *, is_refreshed: bool) -> set[str]:
    """Open the daemon's knowledge, and return the texts that the source `docs` has."""
    async with AsyncExitStack() as stack:
        database = await Database.open(settings.data_dir / "journal.db")
        stack.push_async_callback(database.close)
        live = make_live_settings(settings, database)
        async with open_app(
            settings, embedder=WordEmbedder(), parser=ThreadParser(), database=database, live=live
        ) as app:
            if is_refreshed:
                await app.refresh()
            found = await app.store.search("launcher", None, ["docs"], 9)
            # A quote is completed from its page: nothing else of it is told.
            page = await app.library.read_page("docs", "a.md")
            assert {passage.text for passage in page} <= {passage.text for passage in found}
            return {passage.text.strip() for passage in found}


@pytest.mark.parametrize("has_new_journal", [False, True])
@pytest.mark.parametrize("former", [CLOSED, {}])
async def test_what_came_back_is_not_told_before_it_was_read_again(
    tmp_path: Path, former: dict[str, object], has_new_journal: bool
) -> None:
    for name, words in {"team": "The launcher ships a numbat.", "open": "The launcher has a button."}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(words, "utf-8")
    (tmp_path / "data").mkdir()
    team, public = ({"path": tmp_path / name} for name in ("team", "open"))
    assert await find(configure(tmp_path, docs={**team, **former}), is_refreshed=True) == {
        "The launcher ships a numbat."
    }
    stored = tmp_path / "data" / "passages"
    shutil.copytree(stored, tmp_path / "backup")
    now = configure(tmp_path, docs=public, plans={**team, **CLOSED})
    assert await find(now, is_refreshed=True) == {"The launcher has a button."}
    shutil.rmtree(stored)
    shutil.copytree(tmp_path / "backup", stored)
    if has_new_journal:
        for file in (tmp_path / "data").glob("journal.db*"):
            file.unlink()
    assert await find(now, is_refreshed=False) == set()
    assert await find(now, is_refreshed=True) == {"The launcher has a button."}


def write_folders(folder: Path) -> None:
    """Write a folder of everybody's, and one that has something of the team's beside what everybody may know."""
    for path, words in {
        "open/a.md": "The launcher has a button.",
        "all/b.md": "The launcher needs a key.",
        "all/team/c.md": "The launcher ships a numbat.",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(words, "utf-8")
    (folder / "data").mkdir()


@pytest.mark.parametrize("closed_path", ["all", "all/team", ""])
async def test_a_folder_closed_under_another_name_is_told_no_more(tmp_path: Path, closed_path: str) -> None:
    write_folders(tmp_path)
    everything: dict[str, object] = {"path": tmp_path / "all"}
    assert len(await find(configure(tmp_path, docs=everything), is_refreshed=True)) == 2
    closed = {"path": tmp_path / (closed_path or "open"), **CLOSED}
    now = configure(tmp_path, docs={"path": tmp_path / "open"}, plans=closed)
    assert await find(now, is_refreshed=False) == set()
    assert await find(now, is_refreshed=True) == {"The launcher has a button."}


async def test_what_a_failed_refresh_left_is_closed_with_its_folder(tmp_path: Path) -> None:
    write_folders(tmp_path)
    everything: dict[str, object] = {"path": tmp_path / "all"}
    assert len(await find(configure(tmp_path, docs=everything), is_refreshed=True)) == 2
    missing: dict[str, object] = {"path": tmp_path / "missing"}
    assert len(await find(configure(tmp_path, docs=missing), is_refreshed=True)) == 2
    assert await find(configure(tmp_path, docs=missing, plans={**everything, **CLOSED}), is_refreshed=False) == set()


async def test_what_is_left_out_for_a_closed_source_is_told_no_more(tmp_path: Path) -> None:
    write_folders(tmp_path)
    everything: dict[str, object] = {"path": tmp_path / "all"}
    assert len(await find(configure(tmp_path, docs=everything), is_refreshed=True)) == 2
    plans = {"path": tmp_path / "all/team", **CLOSED}
    now = configure(tmp_path, docs={**everything, "exclude": ["team/"]}, plans=plans)
    assert await find(now, is_refreshed=False) == {"The launcher needs a key."}
    assert await find(now, is_refreshed=True) == {"The launcher needs a key."}


@pytest.mark.parametrize("edit", [{"exclude": ["team/"]}, {"max_documents": 1}])
async def test_what_a_source_leaves_out_when_it_is_opened_stays_closed(tmp_path: Path, edit: dict[str, object]) -> None:
    """Nobody knows which passages those are before it was read again."""
    write_folders(tmp_path)
    everything: dict[str, object] = {"path": tmp_path / "all"}
    assert len(await find(configure(tmp_path, docs={**everything, **CLOSED}), is_refreshed=True)) == 2
    now = configure(tmp_path, docs={**everything, **edit})
    assert await find(now, is_refreshed=False) == set()
    assert await find(now, is_refreshed=True) == {"The launcher needs a key."}


@pytest.mark.parametrize(
    ("edit", "is_told"),
    [
        ({"audience": ["telegram"], "max_documents": 1}, False),
        ({"audience": ["telegram"]}, True),
        ({"audience": ["owners"], "max_documents": 1}, True),
    ],
)
async def test_a_source_that_is_opened_to_some_and_reads_less(
    tmp_path: Path, edit: dict[str, object], is_told: bool
) -> None:
    write_folders(tmp_path)
    everything: dict[str, object] = {"path": tmp_path / "all"}
    found = await find(configure(tmp_path, docs={**everything, **CLOSED}), is_refreshed=True)
    now = configure(tmp_path, docs={**everything, **edit})
    assert await find(now, is_refreshed=False) == (found if is_told else set())


async def test_a_source_that_is_opened_as_it_was_goes_on_to_answer(tmp_path: Path) -> None:
    write_folders(tmp_path)
    everything: dict[str, object] = {"path": tmp_path / "all"}
    found = await find(configure(tmp_path, docs={**everything, **CLOSED}), is_refreshed=True)
    assert await find(configure(tmp_path, docs=everything), is_refreshed=False) == found


@pytest.mark.parametrize("other", ["OF_OTHERS", "OF_TEAM"])
async def test_what_was_read_with_the_token_of_a_team_is_not_listed_for_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """The record of a connector has it, and would be listed where the service refuses the other token."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("OF_TEAM", TOKEN)
    async with DiscoursePeer() as forum:
        forum.topics[1] = Topic("Launcher", [Entry("The launcher ships a numbat.")])
        options = {"url": forum.url(), "allow_private": ["127.0.0.1"]}
        topics: dict[str, object] = {"kind": "own", "plugin": "discourse", "options": options}
        team = configure(tmp_path, docs={**topics, "token": {"env": "OF_TEAM"}, **CLOSED})
        assert len(await find(team, is_refreshed=True)) == 1
        # It may stand under the same name.
        monkeypatch.setenv(other, "of others")
        now = configure(tmp_path, docs={**topics, "token": {"env": other}})
        assert await find(now, is_refreshed=False) == set()
        assert await find(now, is_refreshed=True) == set()


@pytest.mark.parametrize(
    ("edit", "others"),
    [
        ({"max_documents": 7, "link": "https://example.org/{path}"}, CLOSED),
        ({"exclude": ["nothing/"]}, CLOSED),
        ({"path": "open"}, {}),
    ],
)
async def test_an_edit_that_closes_nothing_costs_no_passage(
    tmp_path: Path, edit: dict[str, object], others: dict[str, object]
) -> None:
    write_folders(tmp_path)
    docs: dict[str, object] = {"path": tmp_path / "all"}
    plans = {"path": tmp_path / "open", **others}
    found = await find(configure(tmp_path, docs=docs, plans=plans), is_refreshed=True)
    assert len(found) == 2
    if "path" in edit:
        edit = {"path": tmp_path / str(edit["path"])}
    assert await find(configure(tmp_path, docs={**docs, **edit}, plans=plans), is_refreshed=False) == found


@pytest.mark.parametrize(
    ("plans", "others", "is_told"),
    [({}, CLOSED, False), (CLOSED, {}, False), ({}, {}, True)],
    ids=["closed by a newer file", "closed by our own", "all open"],
)
async def test_what_another_process_reads_under_the_name_of_a_source(
    tmp_path: Path, plans: dict[str, object], others: dict[str, object], is_told: bool
) -> None:
    """As `kimas ingest` does with another file than the daemon's, or a daemon with another one on another machine."""
    write_folders(tmp_path)
    everything: dict[str, object] = {"path": tmp_path / "all"}
    own = configure(tmp_path, docs={"path": tmp_path / "open"}, plans={**everything, **plans})
    async with open_app(own, embedder=WordEmbedder(), parser=ThreadParser()) as daemon:

        async def search() -> set[str]:
            match = await daemon.library.match_words("launcher", 9)
            return {passage.path for passage in match.passages if passage.source == "docs"}

        await daemon.refresh()
        assert await search() == {"a.md"}
        await find(configure(tmp_path, docs={**everything, **others}), is_refreshed=True)
        async with asyncio.timeout(20):
            # What was found is kept for a moment.
            while (found := await search()) == {"a.md"}:
                await asyncio.sleep(0.1)
        assert found == ({"b.md", "team/c.md"} if is_told else set())
        await daemon.refresh()
        assert await search() == {"a.md"}


@pytest.mark.parametrize("broken", [False, True], ids=["with vectors", "without"])
async def test_what_a_source_is_about_is_not_told_of_another_one(tmp_path: Path, broken: bool) -> None:
    """Titles go to models and programs, and names of modules into remarks below answers."""
    embedder = WordEmbedder(broken=broken)
    write_folders(tmp_path)
    (tmp_path / "all" / "numbat").mkdir()
    (tmp_path / "all" / "numbat" / "__init__.py").write_text("LAUNCHER = 1\n", "utf-8")
    own = configure(tmp_path, docs={"path": tmp_path / "open"})
    others = configure(tmp_path, docs={"path": tmp_path / "all", **CLOSED})
    async with open_app(own, embedder=embedder, parser=ThreadParser()) as daemon:
        await daemon.refresh()
        async with open_app(others, embedder=embedder, parser=ThreadParser()) as other_process:
            await other_process.refresh()
            library = other_process.library
            assert (library.titles()["docs"], list(library.modules())) == (ANY, ["numbat"])
        library = daemon.library
        await library.load()
        assert (library.titles(), library.modules(), library.passage_count) == ({}, {}, 0)
        assert not await library.route("launcher")


async def test_what_another_process_has_closed_is_about_is_not_told(tmp_path: Path) -> None:
    """A search has found it to be closed before the titles are loaded again."""
    write_folders(tmp_path)
    own = configure(tmp_path, docs={"path": tmp_path / "open"})
    async with open_app(own, embedder=WordEmbedder(), parser=ThreadParser()) as daemon:
        library = daemon.library
        await daemon.refresh()
        assert "docs" in library.titles()
        await find(configure(tmp_path, docs={"path": tmp_path / "all", **CLOSED}), is_refreshed=True)
        async with asyncio.timeout(20):
            while (await library.match_words("launcher", 9)).passages:
                await asyncio.sleep(0.1)
        assert "docs" not in library.titles()


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[App]:
    database = await Database.open(settings.data_dir / "journal.db")
    try:
        live = make_live_settings(settings, database)
        async with open_app(
            settings, embedder=WordEmbedder(), parser=ThreadParser(), database=database, live=live
        ) as app:
            yield app
    finally:
        await database.close()


async def tell(app: App, source: str, stored_count: int) -> set[str]:
    """Return the texts that answers may have of a source, once another process has stored so many of it."""
    async with asyncio.timeout(60):
        # Files are looked at again every second.
        while len(await app.store.search("launcher", None, [source], 9)) != stored_count:
            await asyncio.sleep(0.1)
    await app.library.reload([source])
    passages = await app.library.search(source, "launcher", 9)
    assert set(app.library.titles().get(source, ())) == {passage.title for passage in passages}
    return {passage.text.strip() for passage in passages}


async def test_what_an_older_configuration_read_meanwhile_is_told_no_more(tmp_path: Path) -> None:
    """Another daemon, or a command, still has the file of before: a folder is left out and closed by now."""
    write_folders(tmp_path)
    everything: dict[str, object] = {"path": tmp_path / "all"}
    plans = {"path": tmp_path / "all/team", **CLOSED}
    older = configure(tmp_path, docs=everything)
    now = configure(tmp_path, docs={**everything, "exclude": ["team/"]}, plans=plans)
    async with opened(now) as app:
        await app.refresh(["docs"])
        async with opened(older) as other:
            await other.refresh(["docs"])
        assert await tell(app, "docs", 2) == {"The launcher needs a key."}


@pytest.mark.parametrize("is_closed", [True, False])
async def test_lessons_that_were_chosen_for_others_meanwhile_are_told_no_more(
    tmp_path: Path, *, is_closed: bool
) -> None:
    """The team sees a source no more, and another daemon with the file of before reads what was taught about it."""
    write_folders(tmp_path)
    team = {"audience": ["telegram:-200"]}

    def configure_lessons(audience: dict[str, list[str]]) -> Settings:
        settings = configure(tmp_path, plans={"path": tmp_path / "all", **audience})
        values = settings.model_dump(mode="json")
        values["sources"]["taught"] = {"kind": "learned", **team}
        return Settings.model_validate(values)

    older = configure_lessons(team)
    async with opened(configure_lessons(CLOSED if is_closed else team)) as app, opened(older) as other:
        audiences = Audiences.from_settings(older)
        labels = audiences.closed_labels(audiences.make_asker("telegram", "-200"))
        database = await Database.open(older.data_dir / "journal.db")
        repository = TaughtAnswerRepository(database)
        lesson = Message("9", ConversationKey("telegram", "-200"), "8", "Cleo", "", datetime.now(UTC))
        number = await repository.submit(
            lesson, "7", "What has the launcher?", "It ships a numbat.", labels, words_of=()
        )
        await repository.decide(number or 0, "approved", "telegram:1")
        await database.close()
        await other.refresh(["taught"])
        assert (await tell(app, "taught", 1) == set()) == is_closed
