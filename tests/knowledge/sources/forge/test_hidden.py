"""Issues that are hidden without a change are told no more, long before everything is read again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from core.settings import SourceSettings
from knowledge.sources.forge import gitlab
from knowledge.sources.forge.source import CHECK_AFTER_S, ForgeProject
from tests.support.peers.forge import PROJECT, REPOSITORY, TOKEN, ForgePeer, Ticket

HOUR_S = 3600.0


@pytest.fixture
async def forge(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ForgePeer]:
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    forge = ForgePeer()
    async with forge:
        forge.tickets = {number: Ticket(number, f"Issue {number}", age=30) for number in range(1, 31)}
        yield forge


class Clock:
    """The time of day, which goes on by itself and in leaps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead_s = 0.0
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + self._ahead_s)

    def leap(self, seconds: float) -> None:
        self._ahead_s += seconds


def open_project(forge: ForgePeer, folder: Path, kind: str, **changes: Any) -> ForgeProject:
    place = {"repository": REPOSITORY} if kind == "github" else {"project": PROJECT}
    api_url = forge.url("/api/v3" if kind == "github" else "/api/v4")
    fields = {"kind": kind, **place, "api_url": api_url, "allow_private": ["127.0.0.1"], "take": ["issues"], **changes}
    settings: Any = TypeAdapter[SourceSettings](SourceSettings).validate_python(fields)
    return ForgeProject("tickets", settings, folder)


async def list_numbers(project: ForgeProject) -> set[int]:
    listing = await project.listing()
    assert listing.stale == ""
    return {int(path.partition("/")[2]) for path in listing.fingerprints}


@pytest.mark.parametrize("kind", ["github", "gitlab"])
async def test_an_issue_that_is_there_no_more_is_forgotten_within_hours(
    forge: ForgePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    clock = Clock(monkeypatch)
    project = open_project(forge, tmp_path, kind, token={"env": "FORGE_TOKEN"})
    assert await list_numbers(project) == set(range(1, 31))
    del forge.tickets[5]
    del forge.tickets[28]
    requests_before = len(forge.requests)
    assert await list_numbers(project) == set(range(1, 31))
    assert len(forge.requests) == requests_before + 2, "what was listed a moment ago is not asked for"
    clock.leap(HOUR_S)
    assert 5 not in await list_numbers(project)
    clock.leap(HOUR_S)
    assert await list_numbers(project) == set(range(1, 31)) - {5, 28}
    clock.leap(HOUR_S)
    await list_numbers(project)
    clock.leap(CHECK_AFTER_S / 2)
    requests_before = len(forge.requests)
    await list_numbers(project)
    # On GitHub 20 are asked for each time.
    assert len(forge.requests) == requests_before + (2 if kind == "gitlab" else 10), "the others were seen meanwhile"


async def test_an_issue_that_is_confidential_for_our_token_is_forgotten(
    forge: ForgePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    project = open_project(forge, tmp_path, "gitlab", token={"env": "FORGE_TOKEN"})
    await list_numbers(project)
    # Its time of change is not another one.
    forge.tickets[5].confidential = True
    clock.leap(HOUR_S)
    assert await list_numbers(project) == set(range(1, 31)) - {5}


async def test_what_a_list_lacks_alone_stays(forge: ForgePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is not there by its own number is gone; what is too much to ask has its turn later."""
    monkeypatch.setattr(gitlab, "MAX_DOUBTFUL_ISSUES", 2)
    clock = Clock(monkeypatch)
    project = open_project(forge, tmp_path, "gitlab")
    await list_numbers(project)
    path = f"/api/v4/projects/{PROJECT}/issues"
    forge.raw[path] = []
    clock.leap(HOUR_S)
    assert await list_numbers(project) == set(range(1, 31)), "the list was cut"
    del forge.raw[path]
    for number in (7, 8, 9):
        del forge.tickets[number]
    clock.leap(HOUR_S)
    assert await list_numbers(project) == set(range(1, 31)) - {7, 8}
    assert await list_numbers(project) == set(range(1, 31)) - {7, 8, 9}


async def test_the_last_issue_that_is_hidden_is_forgotten_too(
    forge: ForgePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    forge.tickets = {1: forge.tickets[1]}
    project = open_project(forge, tmp_path, "gitlab")
    assert await list_numbers(project) == {1}
    forge.tickets.clear()
    clock.leap(HOUR_S)
    assert await list_numbers(project) == set()


async def test_few_requests_a_day_are_not_spent_on_it(
    forge: ForgePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    project = open_project(forge, tmp_path, "github")
    await list_numbers(project)
    clock.leap(HOUR_S)
    requests_before = len(forge.requests)
    await list_numbers(project)
    assert len(forge.requests) == requests_before + 1
