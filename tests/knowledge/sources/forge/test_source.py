"""Issues, discussions and releases as a source, against a forge that changes, limits and fails."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from bots.cli.check import check
from core.errors import SourceError
from core.language.tokens import query_tokens
from core.settings import ParsingSettings, Settings, SourceSettings
from core.types.messages import OWN_COMMENT_MARKER
from knowledge.chunking import chunk
from knowledge.formats.posts import clean_markdown
from knowledge.ingestion.sync import SyncOptions, refresh
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import P, Result, ThreadParser
from knowledge.parsing.pool import WorkerPool
from knowledge.ports import Document, Store
from knowledge.sources.forge.source import ForgeProject
from tests.support.peers.forge import NOW, PROJECT, REPOSITORY, TOKEN, ForgePeer, Remark, Ticket, Version
from tests.support.peers.web import WebPeer

ISSUES = f"/v3/repos/{REPOSITORY}/issues"
KINDS = ["github", "gitlab"]


@pytest.fixture
async def forge(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ForgePeer]:
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    async with ForgePeer() as peer:
        peer.tickets = {
            1: Ticket(1, "It crashes", "When I start it.", remarks=[Remark("Update to 2.0."), Remark("Ta!", "ann")]),
            2: Ticket(2, "Dark mode", age=5, state="closed", labels=["wish", "UI"]),
            3: Ticket(3, "Old", age=300),
        }
        peer.versions = [Version("v2.0", "Rocket 2", "New router."), Version("v1.0", None, None)]
        yield peer


class Refusing(ThreadParser):
    """A parser whose every document exceeds a limit."""

    def __init__(self) -> None:
        self.functions: list[str] = []

    async def run(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        self.functions.append(function.__name__)
        raise FormatError("it takes more than 10 s")


def parsed(forge: ForgePeer, kind: str, **changes: Any) -> Any:
    address = {
        "github": {"repository": REPOSITORY, "api_url": forge.url("/api/v3")},
        "gitlab": {"project": PROJECT, "api_url": forge.url("/api/v4")},
    }[kind]
    values = {"kind": kind, **address, "allow_private": ["127.0.0.1"], "token": {"env": "FORGE_TOKEN"}, **changes}
    return TypeAdapter[SourceSettings](SourceSettings).validate_python(values)


def project(forge: ForgePeer, folder: Path, kind: str = "github", **changes: Any) -> ForgeProject:
    return ForgeProject("tickets", parsed(forge, kind, **changes), folder)


async def test_a_long_item_is_written_down_by_a_worker(forge: ForgePeer, tmp_path: Path) -> None:
    """What makes a worker exceed its limits costs this item alone; the others stay readable."""
    forge.tickets[1] = Ticket(1, "Long", "word " * 2000, remarks=[Remark("Update to 2.0.")])
    async with WorkerPool(ParsingSettings()) as pool:
        documents = await read(ForgeProject("tickets", parsed(forge, "github"), tmp_path / "a", pool))
        assert "word word" in documents["issues/1"].text
        assert "Update to 2.0." in documents["issues/1"].text
    refusing = Refusing()
    listing = await ForgeProject("tickets", parsed(forge, "github"), tmp_path / "b", refusing).listing()
    assert listing.stale == "", "the service did not fail"
    assert listing.skipped["unreadable"] == 1
    assert listing.unreadable == {"issues/1": "it takes more than 10 s"}
    assert "issues/1" not in listing.fingerprints
    assert "issues/2" in listing.fingerprints
    assert refusing.functions == ["to_markdown"], "short ones need no worker"


async def read(source: ForgeProject) -> dict[str, Document]:
    listing = await source.listing()
    assert listing.stale == ""
    return {document.path: document async for document in source.documents(listing, listing.fingerprints)}


@pytest.mark.parametrize("kind", KINDS)
async def test_items_are_documents(forge: ForgePeer, tmp_path: Path, kind: str) -> None:
    text = await read(project(forge, tmp_path, kind))
    assert set(text) == {"issues/1", "issues/2", "issues/3", "releases/v2.0", "releases/v1.0"}
    crash = text["issues/1"]
    assert crash.title == "It crashes"
    assert crash.url.startswith(f"https://{kind}.example/")
    assert crash.url.endswith("/issues/1")
    assert crash.text == (
        "When I start it.\n\n(issue #1 by ann, 2026-01-02; open)\n\n"
        "## Comment by bob, 2026-01-03\n\nUpdate to 2.0.\n\n## Comment by ann, 2026-01-03\n\nTa!"
    )
    assert "closed; labels: wish, UI" in text["issues/2"].text
    assert text["releases/v2.0"].title == "Rocket 2 (v2.0)"
    assert text["releases/v2.0"].text == "New router.\n\n(release v2.0 by ann, 2026-02-03)"
    assert text["releases/v2.0"].url.endswith("v2.0")
    titles = [piece.title for piece in chunk(crash)]
    assert all("It crashes" in title for title in titles)


@pytest.mark.parametrize("kind", KINDS)
async def test_all_pages_are_read(forge: ForgePeer, tmp_path: Path, kind: str) -> None:
    forge.page_size = 2
    forge.tickets |= {number: Ticket(number, f"T{number}", age=number) for number in range(4, 12)}
    forge.versions = [Version(f"v{number}") for number in range(5)]
    assert len(await read(project(forge, tmp_path, kind))) == 11 + 5
    assert {request.headers["Authorization"] for request in forge.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("kind", KINDS)
async def test_issues_full_of_commas_do_not_keep_the_others_from_being_read(
    forge: ForgePeer, tmp_path: Path, kind: str
) -> None:
    forge.tickets |= {number: Ticket(number, f"T{number}", "," * 65_000) for number in (4, 5)}
    assert len(await read(project(forge, tmp_path, kind, take=["issues"]))) == 5


@pytest.mark.parametrize("kind", KINDS)
async def test_a_page_that_strangers_made_too_large_is_read_in_small_parts(
    forge: ForgePeer, tmp_path: Path, kind: str
) -> None:
    forge.tickets = {number: Ticket(number, f"T{number}", age=number) for number in range(1, 251)}
    for number in (7, 107, 108, 230):
        forge.tickets[number] = Ticket(number, "Long", "x" * 60_000, age=number)
    # More than may fail before the service is held to have failed.
    for number in range(50, 60):
        forge.tickets[number] = Ticket(number, "Loud", age=number, remarks=[Remark("y" * 60_000)] * 3)
    source = project(forge, tmp_path, kind, take=["issues"], max_page_kb=160, max_items=1000)
    listing = await source.listing()
    assert (len(listing.fingerprints), listing.stale) == (240, "")
    assert sorted(listing.unreadable) == [f"issues/{number}" for number in range(50, 60)]
    # What is larger alone is the fault of nobody else either: it is said.
    forge.tickets[3] = Ticket(3, "Longer", "x" * 200_000, age=0)
    assert "more than the 160 kB" in (await source.listing()).stale


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refresh_asks_only_for_what_changed(forge: ForgePeer, tmp_path: Path, kind: str) -> None:
    listing_before = await project(forge, tmp_path, kind).listing()
    forge.requests.clear()
    assert (await project(forge, tmp_path, kind).listing()).fingerprints == listing_before.fingerprints
    # Whether the project is still public, and a list of each kind.
    assert len(forge.requests) == 3
    assert {"since", "updated_after"} & set(forge.requests[1].query)
    forge.requests.clear()
    forge.statuses.clear()
    assert (await project(forge, tmp_path, kind).listing()).fingerprints == listing_before.fingerprints
    assert forge.statuses == [200, 304, 304]
    forge.requests.clear()
    forge.tickets[1].remarks.append(Remark("Still broken."))
    forge.tickets[1].age = 1
    forge.tickets[9] = Ticket(9, "New", age=0.5)
    text = await read(project(forge, tmp_path, kind))
    assert "Still broken." in text["issues/1"].text
    assert "issues/9" in text
    # The project, the list of issues, the comments of the one that has any, the releases.
    assert len(forge.requests) == 4


async def test_what_was_deleted_goes_with_the_next_full_round(forge: ForgePeer, tmp_path: Path) -> None:
    forge.tickets[2].remarks = [Remark("First words.")]
    await project(forge, tmp_path).listing()
    del forge.tickets[1]
    forge.versions.pop()
    forge.tickets[2].remarks = [Remark("Edited without a trace.")]
    assert len(await read(project(forge, tmp_path))) == 5
    text = await read(project(forge, tmp_path, full_days=1e-9))
    assert set(text) == {"issues/2", "issues/3", "releases/v2.0"}
    assert "Edited without a trace." in text["issues/2"].text


async def test_state_and_labels_choose(forge: ForgePeer, tmp_path: Path) -> None:
    only = {"take": ["issues"]}
    assert set(await read(project(forge, tmp_path / "1", state="closed", **only))) == {"issues/2"}
    assert set(await read(project(forge, tmp_path / "2", labels=["ui", "other"], **only))) == {"issues/2"}
    assert set(await read(project(forge, tmp_path / "3", exclude_labels=["Wish"], **only))) == {"issues/1", "issues/3"}
    open_issues = project(forge, tmp_path / "4", state="open", **only)
    assert set(await read(open_issues)) == {"issues/1", "issues/3"}
    forge.tickets[1].state = "closed"
    forge.tickets[1].age = 1
    assert set(await read(open_issues)) == {"issues/3"}


async def test_the_newest_of_too_many_are_taken(forge: ForgePeer, tmp_path: Path) -> None:
    source = project(forge, tmp_path, max_items=2, take=["issues"])
    listing = await source.listing()
    assert set(listing.fingerprints) == {"issues/1", "issues/2"}
    assert listing.skipped == {"beyond max_items": 1}
    forge.tickets[9] = Ticket(9, "New", age=1)
    assert set((await source.listing()).fingerprints) == {"issues/2", "issues/9"}


async def test_what_nobody_should_read_is_left_out(forge: ForgePeer, tmp_path: Path) -> None:
    forge.tickets[1].remarks = [
        Remark("Automatic.", "stale[bot]"),
        Remark("Machine.", "robot", bot=True),
        Remark("Chatter.", "Troll"),
        # KIMAs with an account like a person's, from a source that this one's readers may not see.
        Remark(f"The roadmap says May.\n\n{OWN_COMMENT_MARKER}1234 -->", "helper"),
        Remark("Kept."),
    ]
    forge.tickets[4] = Ticket(4, "A pull request", pull=True)
    forge.versions.append(Version("v3", draft=True))
    source = project(forge, tmp_path, skip_authors=["troll"])
    listing = await source.listing()
    assert listing.skipped == {"draft": 1}
    assert "issues/4" not in listing.fingerprints
    (issue,) = [document async for document in source.documents(listing, ["issues/1"])]
    assert issue.text.count("## ") == 1
    assert "Kept." in issue.text


async def test_what_gitlab_keeps_to_members_is_left_out(forge: ForgePeer, tmp_path: Path) -> None:
    forge.tickets[1].remarks = [
        Remark("added a label", system=True),
        Remark("The key is 42.", internal=True),
        Remark("Machine.", bot=True),
        Remark(f"The roadmap says May.\n\n{OWN_COMMENT_MARKER}1234 -->", "helper"),
        Remark("Kept."),
    ]
    forge.tickets[4] = Ticket(4, "Hole in the wall", confidential=True)
    source = project(forge, tmp_path, "gitlab")
    listing = await source.listing()
    assert listing.skipped == {"confidential": 1}
    assert "issues/4" not in listing.fingerprints
    (issue,) = [document async for document in source.documents(listing, ["issues/1"])]
    assert issue.text.count("## ") == 1
    assert "Kept." in issue.text
    forge.tickets[3].confidential = True
    forge.tickets[3].age = 1
    assert "issues/3" not in (await source.listing()).fingerprints


async def test_discussions_have_their_accepted_answer_first(forge: ForgePeer, tmp_path: Path) -> None:
    forge.page_size = 2
    forge.talks = {number: Ticket(number, f"Talk {number}", age=number, labels=["howto"]) for number in range(1, 6)}
    forge.talks[1].remarks = [
        Remark("No idea.", replies=[Remark("Nor have I.", "eve")]),
        Remark("Spam.", hidden=True),
        Remark("Turn it off and on.", "carol", accepted=True, replies=[Remark("It works.", "ann")]),
    ]
    source = project(forge, tmp_path, take=["discussions"])
    results = await read(source)
    assert set(results) == {f"discussions/{number}" for number in range(1, 6)}
    text = results["discussions/1"].text
    assert text.index("## Accepted answer by carol") < text.index("No idea.") < text.index("Nor have I.")
    assert text.count("Turn it off and on.") == 1
    assert "It works." in text
    assert "Spam." not in text
    assert results["discussions/1"].url.endswith("/discussions/1")
    assert "labels: howto" in text
    assert len(forge.requests) == 4
    forge.requests.clear()
    forge.talks[9] = Ticket(9, "New talk", age=0.5)
    assert "discussions/9" in await read(source)
    assert len(forge.requests) == 3  # the second page begins with what was known before


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ([{"type": "NOT_FOUND", "message": f"echo {TOKEN}"}], "NOT_FOUND"),
        ([{"message": "Something went wrong"}], "answered with errors"),
        ("odd", "answered with errors"),
        ([{"type": "RATE_LIMITED", "message": "later"}], "rate limit is reached until"),
    ],
)
async def test_errors_of_graphql_are_said(forge: ForgePeer, tmp_path: Path, errors: Any, message: str) -> None:
    forge.errors = errors
    with pytest.raises(SourceError, match=message) as error_info:
        await project(forge, tmp_path / "1", take=["discussions"]).listing()
    assert TOKEN not in str(error_info.value)
    listing = await project(forge, tmp_path / "2", take=["releases", "discussions"]).listing()
    assert message in listing.stale
    assert TOKEN not in listing.stale


@pytest.mark.parametrize("kind", KINDS)
async def test_a_rate_limit_stops_early_and_the_next_goes_on(forge: ForgePeer, tmp_path: Path, kind: str) -> None:
    forge.tickets = {age: Ticket(age, f"T{age}", age=age, remarks=[Remark("Yes.")]) for age in range(1, 9)}
    forge.remaining = 5
    forge.reset = time.time() + 600
    source = project(forge, tmp_path, kind)
    listing = await source.listing()
    assert set(listing.fingerprints) == {"issues/1", "issues/2", "issues/3"}
    assert "rate limit is reached until 20" in listing.stale
    assert len(forge.requests) == 5  # nothing is sent beyond what was left
    assert (await source.listing()).stale
    assert len(forge.requests) == 5
    wait(tmp_path)
    forge.remaining = 100
    forge.requests.clear()
    assert len(await read(source)) == 8 + 2
    assert len(forge.requests) == 1 + 1 + 5 + 1  # what was read before is not asked for again


def wait(folder: Path) -> None:
    """Let the time until the limit ends pass, in the record."""
    file = folder / "items.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {"blocked_until": time.time() - 1}), "utf-8")


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize(("retry_after", "max_s"), [("120", 121), ("", 61), ("1e9", 7201), ("soon", 61), ("nan", 61)])
async def test_a_secondary_limit_is_believed_within_reason(
    forge: ForgePeer, tmp_path: Path, status: int, retry_after: str, max_s: float
) -> None:
    source = project(forge, tmp_path)
    listing_before = await source.listing()
    forge.slow_down = status
    forge.retry_after = retry_after
    listing = await source.listing()
    assert listing.fingerprints == listing_before.fingerprints
    assert "rate limit is reached" in listing.stale
    remaining_s = json.loads((tmp_path / "items.json").read_text("utf-8"))["blocked_until"] - time.time()
    assert max_s - 50 < remaining_s <= max_s
    with pytest.raises(SourceError, match="rate limit"):
        await source.probe()


async def test_a_renamed_repository_is_followed(forge: ForgePeer, tmp_path: Path) -> None:
    forge.renamed = True
    forge.page_size = 1
    source = project(forge, tmp_path)
    assert len(await read(source)) == 5
    assert await source.probe() == "example/renamed"


async def test_the_token_follows_no_redirect_to_another_host(forge: ForgePeer, tmp_path: Path) -> None:
    async with WebPeer() as other:
        forge.redirect_url = other.url("/steal")
        with pytest.raises(SourceError, match="status 404"):
            await project(forge, tmp_path).listing()
        assert other.requests
        assert not any("Authorization" in request.headers for request in other.requests)


@pytest.mark.parametrize(
    ("failure_mode", "message"),
    [
        ("slow", "did not answer within"),
        ("endless", "more than the 256 kB"),
        ("short", "connection failed"),
        ("bomb", "more than the 256 kB"),
        ("drop", "connection failed"),
        ("html", "text/html instead of JSON"),
        ("broken", "instead of JSON"),
    ],
)
async def test_a_server_that_fails_leaves_what_is_known(
    forge: ForgePeer, tmp_path: Path, failure_mode: str, message: str
) -> None:
    changes = {"timeout_s": 0.3 if failure_mode == "slow" else 20, "max_page_kb": 256, "take": ["issues"]}
    listing_before = await project(forge, tmp_path, take=["issues"]).listing()
    forge.failure_mode = failure_mode
    listing = await project(forge, tmp_path, **changes).listing()
    assert listing.fingerprints == listing_before.fingerprints
    assert message in listing.stale
    with pytest.raises(SourceError, match=f"source tickets: .*{message}"):
        await project(forge, tmp_path / "new", **changes).listing()


@pytest.mark.parametrize(("status", "hint"), [(401, "is not accepted"), (404, "not there"), (410, "off"), (503, "")])
async def test_a_refusal_is_said_without_the_token(forge: ForgePeer, tmp_path: Path, status: int, hint: str) -> None:
    forge.status = status
    with pytest.raises(SourceError, match=f"status {status}.*{hint}") as error_info:
        await project(forge, tmp_path).listing()
    assert TOKEN not in str(error_info.value)


async def test_a_wrong_token_is_never_shown(forge: ForgePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong_token in ("wrong-secret", "wrong\r\nX-Evil: secret"):
        monkeypatch.setenv("FORGE_TOKEN", wrong_token)
        with pytest.raises(SourceError) as error_info:
            await project(forge, tmp_path).listing()
        chain: BaseException | None = error_info.value
        while chain is not None:
            assert "secret" not in str(chain)
            chain = chain.__cause__
    assert not any("X-Evil" in request.headers for request in forge.requests)


async def test_one_kind_that_fails_leaves_the_others(forge: ForgePeer, tmp_path: Path) -> None:
    forge.broken.add(f"/api{ISSUES}")
    listing = await project(forge, tmp_path).listing()
    assert set(listing.fingerprints) == {"releases/v1.0", "releases/v2.0"}
    assert "status 500" in listing.stale


async def test_one_item_that_fails_is_tried_again(forge: ForgePeer, tmp_path: Path) -> None:
    forge.broken.add(f"/api{ISSUES}/1/comments")
    source = project(forge, tmp_path)
    listing = await source.listing()
    assert set(listing.fingerprints) == {"issues/2", "issues/3", "releases/v1.0", "releases/v2.0"}
    assert listing.skipped == {"failed": 1}
    assert "status 500" in listing.stale
    forge.broken.clear()
    assert "issues/1" in await read(source)


async def test_what_makes_no_sense_is_passed_over(forge: ForgePeer, tmp_path: Path) -> None:
    forge.raw[f"/api{ISSUES}"] = [
        7,
        None,
        {"number": True},
        {"number": -1, "updated_at": "2026-01-01T00:00:00Z"},
        {"number": 5, "updated_at": "never"},
        {"number": 6, "updated_at": "9999-12-31T23:59:59-12:00", "created_at": "0001-01-01T00:00:00+14:00"},
        {"number": 7, "updated_at": "2026-01-01T00:00:00Z", "title": "half \ud800", "body": ["x"], "labels": {"a": 1}},
        {
            "number": 8,
            "updated_at": "2026-01-01T00:00:00Z",
            "user": "x",
            "html_url": "javascript:a()",
            "body": "\0a",
        },
    ]
    source = project(forge, tmp_path, take=["issues"])
    listing = await source.listing()
    assert set(listing.fingerprints) == {"issues/6", "issues/7", "issues/8"}
    assert listing.skipped == {"not understood": 5}
    documents_by_path = {document.path: document async for document in source.documents(listing, listing.fingerprints)}
    assert documents_by_path["issues/7"].title == "half ?"
    assert (documents_by_path["issues/8"].url, documents_by_path["issues/8"].text[:1]) == ("", "a")
    # A date in the future hides nothing that comes before it.
    del forge.raw[f"/api{ISSUES}"]
    forge.tickets[9] = Ticket(9, "New", age=-(time.time() - NOW) / 86_400)
    assert "issues/9" in (await source.listing()).fingerprints


@pytest.mark.parametrize("reply", [{"message": "hm"}, 7, None, "text"])
async def test_a_reply_of_another_shape_is_said(forge: ForgePeer, tmp_path: Path, reply: Any) -> None:
    forge.raw[f"/api{ISSUES}"] = reply
    with pytest.raises(SourceError, match="something else than a list"):
        await project(forge, tmp_path, take=["issues"]).listing()
    forge.raw["/api/graphql"] = reply
    with pytest.raises(SourceError, match="something else than data"):
        await project(forge, tmp_path, take=["discussions"]).listing()


async def test_everything_gone_at_once_is_no_wish_to_forget(forge: ForgePeer, tmp_path: Path) -> None:
    source = project(forge, tmp_path, take=["issues"], full_days=1e-9)
    listing_before = await source.listing()
    tickets, forge.tickets = forge.tickets, {}
    for _ in range(3):
        listing = await source.listing()
        assert listing.fingerprints == listing_before.fingerprints
        assert "nothing left" in listing.stale
    forge.tickets = {2: tickets[2]}
    assert set(await read(source)) == {"issues/2"}
    forge.tickets = {}
    forge.versions = []
    with pytest.raises(SourceError, match="has no issues or releases"):
        await project(forge, tmp_path / "new").listing()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("gitlab", {"confidential": True}),
        ("gitlab", {"labels": ["security"]}),
        ("github", {"labels": ["security"]}),
        ("github", {"state": "closed"}),
    ],
)
async def test_the_last_item_is_forgotten_once_it_is_not_to_be_told_of(
    forge: ForgePeer, tmp_path: Path, store: Store, kind: str, change: dict[str, Any]
) -> None:
    forge.versions = []
    forge.tickets = {1: Ticket(1, "Numbat", "It digs.")}
    source = project(forge, tmp_path, kind, state="open", exclude_labels=["security"])
    await refresh(source, store, SyncOptions(200))
    assert await store.manifest("tickets")
    forge.tickets = {1: Ticket(1, "Numbat", "It digs.", age=0.1, **change)}
    for _ in range(2):
        assert (await refresh(source, store, SyncOptions(200))).stale == ""
        assert not await store.manifest("tickets")
    forge.tickets[2] = Ticket(2, "Quokka", age=0)
    await refresh(source, store, SyncOptions(200))
    assert set(await store.manifest("tickets")) == {"issues/2"}


@pytest.mark.parametrize("damage", ["", "{", "[]", "7", '{"items": {}}', '{"scope": "x", "items": {"a": {}}}', "odd"])
async def test_a_damaged_record_is_made_anew(forge: ForgePeer, tmp_path: Path, damage: str) -> None:
    source = project(forge, tmp_path)
    listing_before = await source.listing()
    file = tmp_path / "items.json"
    odd_state = json.loads(file.read_text("utf-8")) | {"cursors": {"issues": "now"}, "tags": {"issues": 7}}
    file.write_text(json.dumps(odd_state) if damage == "odd" else damage, "utf-8")
    assert (await source.listing()).fingerprints == listing_before.fingerprints


async def test_passages_lead_to_the_very_item(forge: ForgePeer, tmp_path: Path, store: Store) -> None:
    report = await refresh(project(forge, tmp_path), store, SyncOptions(200))
    assert (report.added, report.stale) == (5, "")
    passages = await store.search(query_tokens("it crashes when I start it"), None, ["tickets"], 5)
    best_passage = max(passages, key=lambda passage: passage.lexical)
    assert (best_passage.path, best_passage.url) == ("issues/1", f"https://github.example/{REPOSITORY}/issues/1")
    forge.tickets[1].body = "When I stop it."
    forge.tickets[1].age = 1
    second_report = await refresh(project(forge, tmp_path), store, SyncOptions(200))
    assert (second_report.updated, second_report.unchanged, second_report.deleted) == (1, 4, 0)


async def test_another_choice_is_another_record(forge: ForgePeer, tmp_path: Path) -> None:
    await project(forge, tmp_path).listing()
    assert set(await read(project(forge, tmp_path, take=["releases"]))) == {"releases/v2.0", "releases/v1.0"}
    assert len(list(tmp_path.glob("*.md"))) == 2


async def test_a_text_that_is_missing_is_read_again(forge: ForgePeer, tmp_path: Path) -> None:
    source = project(forge, tmp_path)
    documents_before = await read(source)
    next(tmp_path.glob("*.md")).unlink()
    (tmp_path / "half.new").write_text("x", "utf-8")
    assert await read(source) == documents_before
    assert not (tmp_path / "half.new").exists()


async def test_a_token_that_is_missing_keeps_what_is_known(
    forge: ForgePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = project(forge, tmp_path)
    listing_before = await source.listing()
    monkeypatch.delenv("FORGE_TOKEN")
    listing = await source.listing()
    assert listing.fingerprints == listing_before.fingerprints
    assert "token: environment variable FORGE_TOKEN is not set" in listing.stale


@pytest.mark.parametrize("kind", KINDS)
async def test_check_asks_once(forge: ForgePeer, tmp_path: Path, kind: str) -> None:
    settings = Settings(data_dir=tmp_path, sources={"tickets": parsed(forge, kind)})
    findings_by_subject = {finding.subject: finding for finding in await check(settings, live=False)}
    assert "visited by a refresh" in findings_by_subject["sources.tickets"].text
    assert not forge.requests
    loud = [finding for finding in await check(settings, live=True) if finding.subject == "sources.tickets"]
    assert loud[-1].level == "ok"
    assert f"answers as {REPOSITORY if kind == 'github' else PROJECT}" in loud[-1].text
    assert len(forge.requests) == 1


async def test_a_first_round_that_is_interrupted_goes_on(forge: ForgePeer, tmp_path: Path) -> None:
    forge.tickets = {age: Ticket(age, f"T{age}", age=age, remarks=[Remark("Yes.")]) for age in range(1, 61)}
    forge.holds = f"/api{ISSUES}/55/comments"
    task = asyncio.create_task(project(forge, tmp_path).listing())
    await asyncio.wait_for(forge.hold_event.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    forge.holds = ""
    forge.requests.clear()
    assert len(await read(project(forge, tmp_path))) == 62
    # Fifty were saved: the rest is asked for, with the project and both lists.
    assert len(forge.requests) == 10 + 3


async def test_a_private_address_is_refused(forge: ForgePeer, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="private address"):
        await project(forge, tmp_path, allow_private=[]).listing()
    assert not forge.requests


def test_discussions_need_a_token() -> None:
    values = {"kind": "github", "repository": REPOSITORY, "take": ["discussions"]}
    with pytest.raises(ValidationError, match="discussions need token"):
        TypeAdapter[SourceSettings](SourceSettings).validate_python(values)


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("a <!-- template --> b", "a b"),
        ("a <!-- never closed", "a <!-- never closed"),
        ("<script>evil()</script>x", "x"),
        ("List<String> and <script> alone", "List\\<String> and \\<script> alone"),
        ("use `<!--` and `-->`", "use `<!--` and `-->`"),
        ("<!-- ` --> seen `", "seen `"),
        (
            "```html\n<script>x</script>\n# no\n```\n# Yes",
            "```html\n<script>x</script>\n# no\n```\n\n### Yes",
        ),
        ("~~~\n# open fence", "```\n# open fence\n```"),
        ("<svg onload=x><g/></SVG >after", "after"),
    ],
)
def test_what_nobody_sees_is_dropped(text: str, expected_text: str) -> None:
    assert clean_markdown(text) == expected_text


@pytest.mark.parametrize("piece", ["<script>", "<!--", "```\n~~~\n", "<svg ", "`", "# ", "<!-- ` "])
def test_cleaning_takes_no_longer_for_odd_texts(piece: str) -> None:
    started_at = time.thread_time()
    clean_markdown(piece * (60_000 // len(piece)))
    assert time.thread_time() - started_at < 1.0
