"""Where sources lie, and what is not told of a place where something was closed, until it is taken up."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from core.settings.audience import Audiences
from core.settings.connectors import CONNECTORS
from tests.support.audiences import get_audiences


@pytest.mark.parametrize(
    ("docs", "secret", "is_closed"),
    [
        # It was moved, and what lay within it is closed now.
        ({"path": "/new"}, {"path": "/kb/team"}, True),
        ({"exclude": ["team/"]}, {"path": "/kb/team"}, True),
        ({"path": "/kb/public"}, {"path": "/"}, True),
        # The newer file shows it as before, and its owner was warned.
        ({}, {"path": "/kb/team"}, False),
        ({"path": "/new"}, {"path": "/other"}, False),
        ({"path": "/new"}, {"path": "/kbteam"}, False),
        # The older one knew it closed, and read of it what the newer one leaves out.
        ({"path": "/new"}, {"path": "/kb/known"}, True),
        ({}, {"path": "/kb/known"}, False),
    ],
)
def test_a_daemon_with_an_older_file_tells_nothing_of_a_folder_that_is_closed_now(
    docs: dict[str, Any], secret: dict[str, Any], is_closed: bool
) -> None:
    team = {"audience": ["telegram:-1"]}
    known = {"known": {"path": "/kb/known", **team}} if secret["path"] == "/kb/known" else {}
    older = get_audiences(docs={}, **known)
    other = known or {"secret": {**secret, **team}}
    newer = Audiences.from_json(get_audiences(docs=docs, **other).to_json())
    closed = older.closed_further(newer, older)
    assert ("docs" not in closed.visible_sources(closed.make_asker("telegram", "-9"))) == is_closed
    assert "docs" in closed.visible_sources(closed.make_asker("telegram", "-1"))


ISSUES = {"kind": "github", "repository": "example/launcher", "path": None}
PAGES = {"kind": "website", "url": "https://example.org/", "path": None}
REPO = {"kind": "git", "url": "https://example.org/a.git", "token": {"env": "OF_TEAM"}, "path": None}
SEARCH = {"kind": "http_api", "url": "https://example.org/?q={query}", "path": None}


@pytest.mark.parametrize(
    ("base", "docs", "less", "secret", "more"),
    [
        (
            {},
            {"include": ["docs/**", "b/**"]},
            {"include": ["docs/**"]},
            {"include": ["hr/**"]},
            {"include": ["hr/**", "b/**"]},
        ),
        (
            PAGES,
            {"exclude": ["/hr/**"]},
            {"exclude": ["/hr/**", "/b/**"]},
            {"include": ["/hr/**"]},
            {"include": ["/hr/**", "/b/**"]},
        ),
        (
            ISSUES,
            {"exclude_labels": ["hr"]},
            {"exclude_labels": ["hr", "b"]},
            {"labels": ["hr"]},
            {"labels": ["hr", "b"]},
        ),
        (
            SEARCH,
            {"params": {"space": "a,b"}},
            {"params": {"space": "a"}},
            {"params": {"space": "hr"}},
            {"params": {"space": "hr,b"}},
        ),
        (REPO, {"exclude": ["hr/"]}, {"exclude": ["hr/", "b/"]}, {"token": {"env": "OF_OTHERS"}}, {}),
        (
            PAGES,
            {"depth": 3},
            {"depth": 1},
            {"depth": 0, "include": ["/hr/**"]},
            {"depth": 2, "include": ["/hr/**"]},
        ),
    ],
    ids=["files", "website", "github", "http_api", "git", "depth"],
)
def test_a_part_that_moves_to_a_source_that_was_closed_is_closed(
    base: dict[str, Any], docs: dict[str, Any], less: dict[str, Any], secret: dict[str, Any], more: dict[str, Any]
) -> None:
    """A closed source that keeps its name and place may read more; while that waits, another one may still tell it."""
    team = {**base, "audience": ["telegram:-1"]}
    older = get_audiences(docs={**base, **docs}, secret={**team, **secret})
    newer = get_audiences(docs={**base, **less}, secret={**team, **more})
    stranger = older.make_asker("telegram", "-9")
    closed = older.closed_further(Audiences.from_json(newer.to_json()), older)
    assert "docs" not in closed.visible_sources(stranger)
    # A page may include a file of it, also where the other source is as before.
    same = get_audiences(docs={**base, **docs}, secret={**team, **more})
    waiting = older.closed_further(Audiences.from_json(same.to_json()), older)
    assert (waiting.narrowed, "docs" in waiting.visible_sources(stranger)) == ({"docs"}, True)
    assert older.get_scoped_label("docs") != waiting.get_scoped_label("docs")
    # Once it is taken up.
    assert not newer.closed_further(newer, newer).narrowed


def test_what_another_daemon_keeps_private_is_private() -> None:
    files = frozenset({Path("/etc/kimas/write#1.md"), Path("/etc/kimas/%2e.yaml"), Path(os.fsdecode(b"/etc/\xff"))})
    older = get_audiences(docs={})
    newer = Audiences.from_json(replace(get_audiences(docs={}), private_files=files).to_json())
    assert newer.private_files == files
    assert older.closed_further(newer, older).private_files == files | older.private_files
    assert newer.by_source.keys() == newer.labels.keys() == older.by_source.keys()


TEAM_FAQ = {"kind": "faq", "path": "kb/team/faq.yaml"}
TEAM_PAGES = {"kind": "website", "url": "https://example.org/team/"}


@pytest.mark.parametrize(
    ("docs", "secret"),
    [
        ({"path": "current"}, {"path": "kb/team"}),
        ({"path": "other/../kb"}, {"path": "kb/team"}),
        ({"path": "kb/team/open"}, {"path": "current"}),
        (TEAM_FAQ, {"path": "kb/team"}),
        ({"path": "kb"}, TEAM_FAQ),
        ({"kind": "git", "url": "kb"}, {"path": "kb/team"}),
        ({"path": "kb"}, {"kind": "git", "url": "file://kb/team"}),
        ({"kind": "website", "url": "https://example.org/"}, TEAM_PAGES),
    ],
)
def test_a_place_is_the_same_whichever_way_it_is_written(
    tmp_path: Path, docs: dict[str, Any], secret: dict[str, Any]
) -> None:
    (tmp_path / "kb").mkdir()
    (tmp_path / "current").symlink_to(tmp_path / "kb")

    def place(source: dict[str, Any]) -> dict[str, Any]:
        """Put what a source reads into the folder, but for what is on the web."""
        if source.get("kind") == "website":
            return {**source, "path": None}
        if "url" in source:
            return {**source, "path": None, "url": source["url"].replace("kb", str(tmp_path / "kb"))}
        return {**source, "path": tmp_path / source["path"]}

    older = get_audiences(docs=place(docs))
    newer = get_audiences(docs={"path": "/new"}, secret={**place(secret), "audience": ["telegram:-1"]})
    closed = older.closed_further(Audiences.from_json(newer.to_json()), older)
    assert "docs" not in closed.visible_sources(closed.make_asker("telegram", "-9"))


GITLAB = {"kind": "gitlab", "project": "team/plans", "api_url": "https://lab.example/api/v4"}
GITHUB = {"kind": "github", "repository": "Example/plans"}
SEARXNG = {"kind": "search_api", "provider": "searxng", "base_url": "https://find.example"}
TAVILY = {"kind": "search_api", "provider": "tavily", "api_key": {"env": "KEY"}}
SLACK = {"kind": "own", "plugin": "slack_channels"}


def ask(url: str) -> dict[str, Any]:
    return {"kind": "http_api", "url": url}


def crawl(url: str) -> dict[str, Any]:
    return {"kind": "website", "url": url}


def clone(url: str) -> dict[str, Any]:
    return {"kind": "git", "url": url}


@pytest.mark.parametrize(
    ("docs", "secret", "is_same"),
    [
        # One host, read in several ways.
        (ask("https://lab.example/api/v4/search?q={query}"), GITLAB, True),
        (crawl("https://lab.example/team/plans"), GITLAB, True),
        ({"kind": "feed", "url": "https://lab.example/team/plans/-/issues.atom"}, GITLAB, True),
        (crawl("https://lab.example/"), clone("git@lab.example:team/plans.git"), True),
        (ask("https://api.github.com/search?q={query}"), GITHUB, True),
        (crawl("https://github.com/example"), GITHUB, True),
        (ask("https://lab.example:8443/?q={query}"), {**GITLAB, "api_url": "https://lab.example:8443/api/v4"}, True),
        (crawl("https://other.example/"), GITLAB, False),
        (crawl("https://lab.example:8443/"), crawl("https://lab.example/"), False),
        # One project, read in several ways.
        (clone("https://lab.example/team/plans.git"), GITLAB, True),
        (clone("ssh://git@lab.example:2222/Team/plans"), GITLAB, True),
        (clone("git@lab.example:team/plans.git"), {**GITLAB, "api_url": "https://lab.example:8443/api/v4"}, True),
        (clone("https://lab.example/lab/team/plans"), {**GITLAB, "api_url": "https://lab.example/lab/api/v4"}, True),
        (clone("https://lab.example/team/plans.git"), {**GITLAB, "project": "42"}, True),
        (clone("git@github.com:example/plans.git"), GITHUB, True),
        (clone("https://lab.example/team/docs.git"), GITLAB, False),
        ({**GITLAB, "project": "41"}, {**GITLAB, "project": "42"}, False),
        # What a search engine finds.
        ({**SEARXNG, "sites": ["wiki.example/docs"]}, crawl("https://wiki.example/team/"), True),
        ({**TAVILY, "sites": ["wiki.example"]}, {"kind": "feed", "url": "https://news.wiki.example/feed"}, True),
        ({**SEARXNG, "sites": ["*.lab.example", "x.example"]}, GITLAB, True),
        (crawl("https://wiki.example/"), {**TAVILY, "sites": ["https://wiki.example/docs"]}, True),
        ({**SEARXNG, "sites": ["example"]}, {**TAVILY, "sites": ["wiki.example"]}, True),
        ({**SEARXNG, "sites": ["wiki.example"]}, crawl("https://otherwiki.example/"), False),
        # A service that names no address, and one that does.
        (TAVILY, {**TAVILY, "base_url": "https://api.tavily.com"}, True),
        (SLACK, {**SLACK, "options": {"url": "https://slack.com"}}, True),
        ({**SLACK, "options": {"url": ""}}, {**SLACK, "options": {"url": "https://SLACK.com/"}}, True),
        (crawl("https://slack.com/help"), SLACK, True),
        (
            {"kind": "own", "plugin": "wiki"},
            {"kind": "own", "plugin": "wiki", "options": {"server": "https://w"}},
            True,
        ),
        (
            {"kind": "own", "plugin": "wiki", "options": {"server": "https://w.example"}},
            crawl("https://w.example"),
            True,
        ),
        (
            {"kind": "own", "plugin": "discourse", "options": {"url": "https://a"}},
            {"kind": "own", "plugin": "wiki"},
            False,
        ),
        (SLACK, {"kind": "own", "plugin": "discord_channels"}, False),
    ],
)
def test_a_place_is_the_same_in_whatever_way_it_is_read(
    docs: dict[str, Any], secret: dict[str, Any], is_same: bool
) -> None:
    """What reads less of it now is not told where something of it was closed, until it is taken up."""
    check_place(docs, secret, is_same=is_same)


def check_place(docs: dict[str, Any], secret: dict[str, Any], *, is_same: bool) -> None:
    older = get_audiences(docs={**docs, "path": None})
    narrower = {**docs, "path": None, **narrow(docs)}
    newer = get_audiences(docs=narrower, secret={"path": None, **secret, "audience": ["telegram:-1"]})
    closed = older.closed_further(Audiences.from_json(newer.to_json()), older)
    assert ("docs" not in closed.visible_sources(closed.make_asker("telegram", "-9"))) == is_same
    assert bool(newer.closed_inside["docs"]) == is_same


TOOL = {"kind": "mcp", "tool": "search"}
OWN = {"kind": "own", "plugin": "wiki"}


@pytest.mark.parametrize(
    ("docs", "secret", "is_same"),
    [
        ({**TOOL, "command": ["npx", "files", "/kb"]}, {"path": "/kb/team"}, True),
        ({**TOOL, "command": ["files", "--root=/kb/team/open"]}, {"path": "/kb/team"}, True),
        ({**TOOL, "command": ["docker", "run", "-v", "/kb:/data:ro", "files"]}, {"path": "/kb/team"}, True),
        ({**TOOL, "command": ["files", "file:///kb"]}, {"kind": "git", "url": "/kb"}, True),
        ({**TOOL, "command": ["files", '{"root": "/kb"}']}, {"path": "/kb"}, True),
        ({**TOOL, "command": ["files"], "arguments": {"in": [{"folder": "/kb"}]}}, {"path": "/kb/team"}, True),
        ({**TOOL, "command": ["files", "tests"]}, {"path": str(Path("tests/core").absolute())}, True),
        ({**TOOL, "command": ["files", "~/kb"]}, {"path": "~/kb/team"}, True),
        ({**TOOL, "command": ["files", "/kb"]}, {"path": "/kbteam"}, False),
        ({**TOOL, "command": ["files", "https://kb.example/kb"]}, {"path": "/kb"}, False),
        ({**TOOL, "command": ["npx", "remote", "https://wiki.example/mcp"]}, crawl("https://wiki.example/team"), True),
        ({**TOOL, "command": ["remote", "--url=https://wiki.example"]}, crawl("https://wiki.example/team"), True),
        ({**TOOL, "command": ["remote", "https://a.example"]}, {**TOOL, "url": "https://b.example"}, True),
        ({**TOOL, "url": "https://a.example"}, {**TOOL, "url": "https://b.example"}, False),
        ({**TOOL, "url": "http://127.0.0.1:8000", "arguments": {"folder": "/kb"}}, {"path": "/kb/team"}, True),
        ({**OWN, "options": {"path": "/kb"}}, {"path": "/kb/team"}, True),
        ({**OWN, "options": {"urls": ["https://wiki.example/a"]}}, crawl("https://wiki.example/team"), True),
        ({**OWN, "options": {"spaces": {"https://wiki.example/a": 5}}}, crawl("https://wiki.example/team"), True),
        (crawl("https://wiki.example/"), {**OWN, "options": {"urls": ["https://wiki.example/a"]}}, True),
        ({**OWN, "options": {"urls": ["https://a.example"]}}, crawl("https://wiki.example/team"), False),
    ],
)
def test_what_a_program_or_plug_in_is_told_names_places(
    docs: dict[str, Any], secret: dict[str, Any], is_same: bool
) -> None:
    check_place(docs, secret, is_same=is_same)


def narrow(source: dict[str, Any]) -> dict[str, Any]:
    """Return settings by which a source reads less."""
    by_kind = {
        "http_api": {"params": {"space": "public"}},
        "search_api": {"topic": "news"},
        "feed": {"max_entries": 1},
        "gitlab": {"exclude_labels": ["internal"]},
        "mcp": {"results": "public"},
        "own": {"token": {"env": "OF_OTHERS"}},
    }
    return by_kind.get(source["kind"], {"exclude": ["team/"]})


def test_every_connector_of_ours_says_where_it_reads_by_default() -> None:
    own = {entry.name for entry in entry_points(group="kimas.sources") if entry.value.startswith("kimas.connectors:")}
    assert own == CONNECTORS.keys()


@pytest.mark.parametrize(
    "secret",
    [{"path": "/kb/a#b"}, {**GITLAB, "project": "42", "path": None}, {"path": "/kb/c d#e f"}, {"path": "/#"}],
)
def test_other_daemons_are_told_places_with_any_sign(secret: dict[str, Any]) -> None:
    here = get_audiences(secret={**secret, "audience": ["telegram:-1"]}, docs={})
    told = Audiences.from_json(here.to_json())
    assert (told.by_source, told.labels) == (here.by_source, here.labels)
    assert (told.scopes, told.areas) == (here.scopes, here.areas)
