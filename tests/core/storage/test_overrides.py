"""What a reload applies at once, and what it leaves to a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from core.errors import StoreError
from core.settings import Settings
from core.settings.audience import OWNERS
from core.storage.engine import Database
from core.storage.overrides import LiveSettings, RuntimeOverrides, override_key
from core.types import ConversationKey, Message

DOCS = {"kind": "faq", "path": "docs.yaml"}
MORE = {"kind": "faq", "path": "more.yaml"}
OTHER = {"kind": "faq", "path": "other.yaml"}
WEB = {"kind": "search_api", "provider": "searxng", "base_url": "https://searx.example.org"}
ROOM = "telegram:-100"


def configured(sources: dict[str, dict[str, str]], **changes: object) -> Settings:
    return Settings.model_validate({"sources": sources, "telegram": {"token": {"env": "TELEGRAM"}}, **changes})


async def take_up(*_: object) -> None:
    return None


@pytest_asyncio.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveSettings]:
    database = await Database.open(tmp_path / "journal.db")
    try:
        yield LiveSettings(configured({"docs": DOCS}), RuntimeOverrides(database, 0))
    finally:
        await database.close()


async def test_a_failing_reload_leaves_closed_what_another_one_closed_meanwhile(live: LiveSettings) -> None:
    closed = configured({"docs": {**DOCS, "audience": OWNERS}})

    async def fail(*_: object) -> None:
        await live.publish_audiences(closed)
        raise StoreError("the disk is full")

    with pytest.raises(StoreError):
        await live.reload(configured({"docs": DOCS, "more": MORE}), fail)
    # What opens it needs a restart.
    await live.publish_audiences(live.settings)
    assert live.audiences.by_source == {"docs": {frozenset({OWNERS})}}
    assert live.settings.sources.keys() == {"docs"}


async def test_whom_the_configuration_or_a_command_gives_rights_is_listed(live: LiveSettings) -> None:
    github = {"token": {"env": "GITHUB"}, "repositories": ["a/b"]}
    handoff = {"people": ["github:ben"], "trusted": ["github:cat+7"]}
    owners = {"owners": ["github:ann", "telegram:42"]}
    key = ConversationKey("github", "a/b")
    command = Message("1", key, "ann", "Ann", "", datetime.now(UTC))
    await live.overrides.change(command, "github:a/b", override_key("admin", "dan"), "added")
    await live.reload(configured({"docs": DOCS}, github=github, handoff=handoff, administration=owners), take_up)
    named = LiveSettings(configured({"docs": DOCS}, github=github, handoff=handoff, administration=owners))
    assert named.list_privileged("github") == {"ann", "ben", "cat+7"}
    assert "dan" in live.list_privileged("github")
    assert live.list_privileged("gitlab") == set()


async def test_a_chat_is_searched_in_no_source_that_waits_for_a_restart(live: LiveSettings) -> None:
    chats = {ROOM: {"sources": ["more"]}}
    more = configured({"docs": OTHER, "more": MORE}, chats=chats)
    for taker in (None, take_up):
        result = await live.reload(more, taker)
        assert (result.live, set(result.restart)) == ([], {"sources", "chats"})
        assert not live.settings.chats
    result = await live.reload(configured({"docs": DOCS, "more": MORE}, chats=chats), take_up)
    assert (set(result.live), result.restart) == ({"sources", "chats"}, [])
    result = await live.reload(configured({"docs": OTHER, "more": MORE}, chats={ROOM: {"sources": ["docs"]}}), take_up)
    assert (result.live, result.restart) == (["chats"], ["sources"])


async def test_a_source_that_comes_back_stays_closed_and_holds_nothing_up(live: LiveSettings) -> None:
    both = configured({"docs": DOCS, "more": MORE})
    for new_settings in (both, configured({"docs": DOCS}), both):
        await live.publish_audiences(new_settings)
        result = await live.reload(new_settings, take_up)
        assert (result.live, result.restart, result.replaced) == (["sources"], [], [])
    assert (result.added, result.kept_closed) == (["more"], ["more"])
    assert live.audiences.by_source["more"] == {frozenset({OWNERS})}
    await live.reload(configured({"docs": DOCS}), take_up)
    result = await live.reload(configured({"docs": DOCS, "more": OTHER}), take_up)
    assert (result.replaced, result.restart) == (["more"], ["sources"])


async def test_a_live_source_is_added_and_nobody_reads_it(live: LiveSettings) -> None:
    result = await live.reload(configured({"docs": DOCS, "more": MORE, "web": WEB}), take_up)
    assert (result.live, result.added) == (["sources"], ["more"])
    assert "web" in live.settings.sources
