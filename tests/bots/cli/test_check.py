"""What `kimas check` finds, on real folders, repositories and probes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bots.cli.check import check
from bots.cli.console import Finding
from bots.cli.exposure import find_exposed
from bots.cli.probes import Probe
from bots.cli.stored_state import check_left_journal
from bots.common.open_storage import open_database
from core.settings import JournalSettings, Settings
from core.storage.messages import Journal
from core.storage.moved_chats import record_move
from core.types import Passage
from knowledge.ports import PassageRow
from knowledge.stores.sqlite.store import open_sqlite
from tests.support.peers.discourse import DiscoursePeer, Entry, Topic
from tests.support.peers.service import TOKEN

PROJECT = {"kind": "github", "repository": "example/project"}
WIKI = {"kind": "own", "plugin": "confluence", "token": {"env": "WIKI"}}
NOTION = {"kind": "own", "plugin": "notion", "token": {"env": "WIKI"}}


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init")
    git(folder, "commit", "--allow-empty", "-m", "first")
    git(folder, "remote", "add", "origin", "git@github.com:example/project.git")
    return folder


def settings(tmp_path: Path, **parts: Any) -> Settings:
    return Settings.model_validate({"data_dir": tmp_path / "data", **parts})


async def find_finding(
    configuration: Settings, subject: str, *, is_live: bool = False, probes: tuple[Probe, ...] = ()
) -> Finding:
    findings = [
        finding
        for finding in await check(configuration, live=is_live, probes=probes, probe_timeout_s=5)
        if finding.subject == subject
    ]
    assert findings, f"nothing was said about {subject}"
    return findings[-1]


async def test_a_source_is_named_once(tmp_path: Path) -> None:
    sources = {
        "docs": {"kind": "files", "path": tmp_path / "docs"},
        "code": {"kind": "git", "url": f"file://{tmp_path}/code"},
    }
    configuration = settings(tmp_path, sources=sources)
    assert (await find_finding(configuration, "sources.docs")).text.startswith(f"{tmp_path}/docs does not exist")
    finding = await find_finding(configuration, "sources.code", is_live=True)
    assert finding.text.startswith(f"file://{tmp_path}/code cannot be reached")


async def test_everything_in_order(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is learned of files is worth keeping once they have not changed for a while.
    monkeypatch.setattr("knowledge.sources.common.file_facts._MAX_TICK_NS", 0)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n", "utf-8")
    (tmp_path / "faq.csv").write_text("question,answer\nWhen?,Now.\n", "utf-8")
    sources = {
        "docs": {"kind": "files", "path": tmp_path / "docs"},
        "faq": {"kind": "faq", "path": tmp_path / "faq.csv"},
        "code": {"kind": "git", "url": str(repository)},
    }
    findings = await check(settings(tmp_path, sources=sources), live=True)
    assert [finding for finding in findings if finding.level != "ok"] == []
    subjects = [finding.subject for finding in findings]
    assert subjects == [
        "data_dir",
        "journal",
        "git",
        "sources.docs",
        "sources.faq",
        "sources.code",
        "agents",
        "audience",
        "knowledge.embedding",
        "models",
    ]
    assert "extractive" in findings[-1].text
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("changes", "subjects"),
    [
        ({}, {"administration.owners"}),
        ({"administration": {"owners": ["telegram:1"]}}, set()),
        ({"administration": {"platform_admins": True}}, set()),
        (
            {"administration": {"platform_admins": True}, "handoff": {"trusted": ["telegram:2"]}},
            {"handoff.trusted"},
        ),
        (
            {
                "administration": {"platform_admins": True},
                "handoff": {"trusted": ["telegram:2"]},
                "sources": {"taught": {"kind": "learned"}},
            },
            set(),
        ),
    ],
)
async def test_a_bot_that_obeys_nobody_or_whose_teachers_teach_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], subjects: set[str]
) -> None:
    monkeypatch.setenv("TOKEN", "1:a")
    parts = {"telegram": {"token": {"env": "TOKEN"}}, "sources": {"docs": {"kind": "faq", "path": tmp_path}}, **changes}
    findings = await check(settings(tmp_path, **parts), live=False)
    names = ("administration.owners", "handoff.trusted")
    assert {finding.subject for finding in findings if finding.subject in names} == subjects


@pytest.mark.parametrize("is_denied", [False, True])
def test_readers_of_documents_that_keep_the_network_are_named(tmp_path: Path, is_denied: bool) -> None:
    """As in a container or under the systemd unit, where no namespaces can be made."""
    (tmp_path / "kimas.yaml").write_text(f"data_dir: {tmp_path}")
    limit = "echo 0 > /proc/sys/user/max_user_namespaces && " if is_denied else ""
    command = f'{limit}exec "{sys.executable}" -m kimas --config "{tmp_path}/kimas.yaml" check --json'
    result = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    if "unshare failed" in result.stderr:
        pytest.skip("this system gives nobody a namespace")
    findings = {finding["subject"]: finding["level"] for finding in json.loads(result.stdout)["findings"]}
    assert findings.get("knowledge.parsing") == ("warning" if is_denied else None)


async def test_nothing_to_answer_from(tmp_path: Path) -> None:
    assert (await find_finding(settings(tmp_path), "sources")).level == "warning"


async def test_sources_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init")
    sources = {
        "files": {"kind": "files", "path": tmp_path / "no"},
        "faq": {"kind": "faq", "path": tmp_path / "no.csv"},
        "git": {"kind": "git", "url": str(tmp_path / "no")},
        "empty": {"kind": "git", "url": str(tmp_path / "empty")},
    }
    findings = await check(settings(tmp_path, sources=sources), live=False)
    errors = {finding.subject: finding.text for finding in findings if finding.level == "error"}
    assert set(errors) == {f"sources.{name}" for name in sources}
    assert "Check path, or create the folder" in errors["sources.files"]
    assert "does not exist" in errors["sources.git"]
    assert "has no commits yet" in errors["sources.empty"]


async def test_files_that_are_not_taken(tmp_path: Path) -> None:
    """A folder that is there and of which nothing would ever be known: an ingest fails, and so does the check."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n", "utf-8")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "a.md").write_bytes(bytes(range(256)))
    (tmp_path / "faq.csv").write_text("question,answer\n", "utf-8")
    sources = {
        "taken": {"kind": "files", "path": tmp_path / "docs"},
        "unmatched": {"kind": "files", "path": tmp_path / "docs", "include": ["*.rst"]},
        "nothing": {"kind": "files", "path": tmp_path / "nothing"},
        "binary": {"kind": "files", "path": tmp_path / "binary"},
        "faq": {"kind": "faq", "path": tmp_path / "faq.csv"},
    }
    findings = await check(settings(tmp_path, sources=sources), live=False)
    data = {
        finding.subject.removeprefix("sources."): finding
        for finding in findings
        if finding.subject.startswith("sources.")
    }
    assert {name: finding.level for name, finding in data.items()} == {"taken": "ok"} | dict.fromkeys(
        ["unmatched", "nothing", "binary", "faq"], "error"
    )
    assert data["taken"].text == f"{tmp_path / 'docs'}: 1 file"
    assert "holds no files. Check path, include and exclude." in data["unmatched"].text
    assert "holds no files" in data["nothing"].text
    assert "skipped: 1 binary" in data["binary"].text


async def test_an_unknown_branch(tmp_path: Path, repository: Path) -> None:
    valid_sources = {"a": {"kind": "git", "url": str(repository), "branch": "main"}}
    invalid_sources = {"a": {"kind": "git", "url": str(repository), "branch": "nope"}}
    assert (await find_finding(settings(tmp_path, sources=valid_sources), "sources.a")).level == "ok"
    assert (
        "has no branch or tag 'nope'"
        in (await find_finding(settings(tmp_path, sources=invalid_sources), "sources.a")).text
    )


async def test_a_repository_of_somebody_else_is_read_as_by_ingest(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Git's own switch for its tests: it takes every repository for somebody else's.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    configuration = settings(tmp_path, sources={"a": {"kind": "git", "url": str(repository)}})
    finding = await find_finding(configuration, "sources.a")
    assert (finding.level, "HEAD is at" in finding.text) == ("ok", True)


async def test_globs_and_branches_that_cannot_be_used_are_found_before_an_ingest(tmp_path: Path) -> None:
    glob = {"kind": "files", "path": tmp_path, "exclude": ["!"]}
    branch = {"kind": "git", "url": "https://example.org/x.git", "branch": "-x"}
    configuration = settings(tmp_path, sources={"glob": glob, "branch": branch})
    assert (await find_finding(configuration, "sources.glob")).level == "error"
    assert (await find_finding(configuration, "sources.branch")).level == "error"


async def test_a_remote_without_the_branch(tmp_path: Path, repository: Path) -> None:
    source = {"kind": "git", "url": f"file://{repository}", "branch": "nope"}
    finding = await find_finding(settings(tmp_path, sources={"a": source}), "sources.a", is_live=True)
    assert (finding.level, "no branch or tag 'nope'" in finding.text) == ("error", True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_an_unreadable_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir(mode=0)
    sources = {"a": {"kind": "files", "path": tmp_path / "docs"}}
    assert (await find_finding(settings(tmp_path, sources=sources), "sources.a")).level == "error"
    (tmp_path / "docs").chmod(0o700)


async def test_remote_repositories_are_asked_only_live(tmp_path: Path, repository: Path) -> None:
    link = {"link": "https://git.example.org/{path}"}
    configuration = settings(tmp_path, sources={"a": {"kind": "git", "url": f"file://{repository}", **link}})
    missing_settings = settings(tmp_path, sources={"a": {"kind": "git", "url": f"file://{tmp_path}/gone", **link}})
    assert "--live" in (await find_finding(missing_settings, "sources.a")).text
    assert (await find_finding(missing_settings, "sources.a")).level == "ok"
    assert "HEAD is at" in (await find_finding(configuration, "sources.a", is_live=True)).text
    assert (await find_finding(missing_settings, "sources.a", is_live=True)).level == "error"


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize(
    ("globs", "level"),
    [
        ({"include": ["docs/**"]}, "ok"),
        ({"include": ["bock/**"]}, "error"),
        ({"exclude": ["*"]}, "error"),
        ({"exclude": ["*.md"]}, "error"),
        ({"exclude": ["*.png"]}, "ok"),
        ({"include": ["bock/**"], "branches": ["main", "other"]}, "ok"),
        ({}, "ok"),
    ],
)
async def test_globs_that_let_nothing_of_a_repository_through(
    tmp_path: Path, repository: Path, globs: dict[str, Any], level: str, is_remote: bool
) -> None:
    (repository / "docs").mkdir()
    for name in ("docs/a.md", "logo.png"):
        (repository / name).write_text("# A\n", "utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "second")
    git(repository, "branch", "other")
    source = {"kind": "git", "url": f"file://{repository}" if is_remote else str(repository), **globs}
    finding = await find_finding(
        settings(tmp_path, sources={"a": {**source, "link": "{path}"}}), "sources.a", is_live=is_remote
    )
    assert finding.level == level
    assert ("Check branch, include and exclude" if level == "error" else " is at ") in finding.text


async def test_globs_are_not_judged_where_no_file_can_be_listed(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.cli.git_check.LISTING_TIMEOUT_S", 0)
    sources = {"a": {"kind": "git", "url": f"file://{repository}", "include": ["docs/**"], "link": "{path}"}}
    finding = await find_finding(settings(tmp_path, sources=sources), "sources.a", is_live=True)
    assert (finding.level, "include and exclude are not checked" in finding.text) == ("ok", True)


@pytest.mark.parametrize(
    ("origin", "source", "is_warned"),
    [
        ("git@github.com:example/project.git", {}, False),
        ("https://git.example.org/team/project.git", {}, True),
        ("https://git.example.org/team/project.git", {"link": "https://git.example.org/{path}"}, False),
        ("", {}, True),
        ("", {"url": "https://git.example.org/team/project.git"}, True),
        ("", {"url": "https://github.com/example/project"}, False),
        ("", {"branch": "nope"}, False),
    ],
)
async def test_a_repository_to_whose_pages_no_answer_links(
    tmp_path: Path, repository: Path, origin: str, source: dict[str, Any], is_warned: bool
) -> None:
    git(repository, *(("remote", "set-url", "origin", origin) if origin else ("remote", "remove", "origin")))
    sources = {"a": {"kind": "git", "url": str(repository), **source}}
    findings = await check(settings(tmp_path, sources=sources), live=False)
    warnings = [finding for finding in findings if finding.subject == "sources.a" and finding.level == "warning"]
    assert ["set link" in finding.text for finding in warnings] == [True] * is_warned


async def test_a_missing_git_command(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    configuration = settings(tmp_path, sources={"a": {"kind": "git", "url": str(repository)}})
    assert (await find_finding(configuration, "git")).level == "error"
    assert (await find_finding(configuration, "sources.a")).level == "error"


async def test_a_data_directory_that_cannot_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    (tmp_path / "a.md").write_text("# A\n", "utf-8")
    sources = {"docs": {"kind": "files", "path": tmp_path}}
    configuration = settings(tmp_path, data_dir=tmp_path / "file" / "data", sources=sources)
    finding = await find_finding(configuration, "data_dir")
    assert finding.level == "error"
    assert "cannot be written" in finding.text
    assert "not_saved" not in caplog.text, "it is said once, by the finding"


async def test_a_source_that_no_agent_uses(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n", "utf-8")
    source = {"kind": "files", "path": tmp_path}
    configuration = settings(tmp_path, sources={"a": source, "b": source}, agents={"x": {"sources": ["a"]}})
    assert (await find_finding(configuration, "sources.b")).level == "warning"
    assert (await find_finding(configuration, "sources.a")).level == "ok"


async def test_a_page_behind_a_web_server_that_is_not_named(tmp_path: Path) -> None:
    api = {"port": 8090, "allowed_hosts": ["ask.example.org"], "page": {"enabled": True}}
    finding = await find_finding(settings(tmp_path, api=api), "api.page.trusted_proxies")
    assert finding.level == "warning"
    api["page"] = {"enabled": True, "trusted_proxies": ["127.0.0.1"]}
    findings = await check(settings(tmp_path, api=api), live=False)
    assert all(finding.subject != "api.page.trusted_proxies" for finding in findings)


async def test_models_and_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERE", "value-of-it")
    monkeypatch.delenv("NOT_THERE", raising=False)
    light = {"base_url": "http://h/value-of-it", "model": "m", "api_key": {"env": "THERE"}}
    configuration = settings(tmp_path, models={"light": light}, telegram={"token": {"env": "NOT_THERE"}})
    assert (await find_finding(configuration, "models.main")).level == "warning"
    assert (await find_finding(configuration, "models.light.api_key")).text == "from environment variable THERE"
    assert await find_finding(configuration, "telegram.token") == Finding(
        "error", "telegram.token", "environment variable NOT_THERE is not set"
    )
    assert (await find_finding(configuration, "models.light")).text == "m at http://h/[redacted]"


async def test_a_token_that_the_daemon_would_refuse_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT", "hunter2")
    clients = {"webui": {"token": {"env": "SHORT"}}}
    configuration = settings(tmp_path, operator_page={"owner_token": {"env": "SHORT"}}, api={"clients": clients})
    for subject in ("operator_page.owner_token", "api.clients.webui.token"):
        finding = await find_finding(configuration, subject)
        assert finding == Finding("error", subject, "is too short: give it at least 16 characters")


@pytest.mark.parametrize(
    ("main", "limits", "text"),
    [
        ({}, {}, "none per day; no model is paid (its prices are 0, or it has none and a private address)"),
        (
            {"base_url": "https://api.example.org/v1"},
            {"daily_tokens": None, "daily_cost": 5},
            "daily_tokens_per_chat 1,507,200, daily_tokens_per_user 301,440, daily_cost 5; daily_tokens_per_chat, "
            "daily_tokens_per_user: for 150, 30 questions of 10,048 tokens, because models.main is paid (it has a "
            "price, or is outside of your network); a number or null changes that, prices of 0 say it is free",
        ),
        (
            {"base_url": "https://api.example.org/v1", "price_prompt": 0, "price_completion": 0},
            {"daily_tokens": 5000},
            "daily_tokens 5,000; no model is paid (its prices are 0, or it has none and a private address)",
        ),
    ],
)
async def test_the_limits_in_force_and_why(
    tmp_path: Path, main: dict[str, Any], limits: dict[str, Any], text: str
) -> None:
    model = {"base_url": "http://localhost:11434/v1", "model": "m", **main}
    finding = await find_finding(settings(tmp_path, models={"main": model}, limits=limits), "limits")
    assert finding == Finding("ok", "limits", text)


async def test_probes_run_together_and_their_failures_are_findings(tmp_path: Path) -> None:
    barrier = asyncio.Barrier(3)

    async def good() -> str:
        await barrier.wait()
        return "answered"

    async def bad() -> str:
        await barrier.wait()
        raise RuntimeError("refused by https://api.telegram.org/bot123456:ABCDEF/getMe")

    async def fail_without_text() -> str:
        raise ConnectionResetError

    async def slow() -> str:
        await barrier.wait()
        await asyncio.Event().wait()
        return ""

    probes = (Probe("good", good), Probe("bad", bad), Probe("wordless", fail_without_text), Probe("slow", slow))
    findings = await check(settings(tmp_path), live=True, probes=probes, probe_timeout_s=2)
    assert findings[-4:] == [
        Finding("ok", "good", "answered"),
        Finding("error", "bad", "refused by https://api.telegram.org/bot[redacted]/getMe"),
        Finding("error", "wordless", "ConnectionResetError"),
        Finding("error", "slow", "no answer within 2 s"),
    ]
    assert not any(finding.subject == "good" for finding in await check(settings(tmp_path), live=False, probes=probes))


async def make_journal(configuration: Settings) -> Path:
    database = await open_database(configuration)
    await database.close()
    return configuration.data_dir / "journal.db"


async def test_a_login_with_rights_that_another_account_has_is_named(tmp_path: Path) -> None:
    configuration = settings(
        tmp_path,
        github={"token": {"env": "NONE"}, "repositories": ["example/project"]},
        administration={"owners": ["github:ann", "github:ben", "github:cat", "github:dan"]},
    )
    database = await open_database(configuration)
    names = {"login:ann": 1, "person:ann": 1, "person:ann+5": 5, "login:ben": 0}
    names |= {"login:cat": 7, "person:kate": 7, "login:dan": 8, "person:dan": 8}
    for name, number in names.items():
        await Journal(database).set_cursor(f"github:github.com:{name}", number)
    await database.close()
    findings = await check(configuration, live=False)
    texts = [finding.text for finding in findings if finding.subject == "github" and finding.level == "warning"]
    assert [text for text in texts if "github:" in text] == [
        "somebody else is called github:ann now, and has none of the rights of that name here. Is it the same person "
        "with a new account? Then write github:ann+5",
        "nobody can tell who github:ben is, and the name has no rights: write github:ben+NUMBER, with the number of "
        "the account",
        "github:cat is the account that is known here as kate: write github:kate",
    ]


async def test_an_audience_with_a_chat_that_has_another_id_by_now_is_named(tmp_path: Path) -> None:
    source = {"kind": "files", "path": str(tmp_path), "audience": ["telegram:-1"]}
    configuration = settings(tmp_path, sources={"plans": source}, telegram={"token": {"env": "TELEGRAM"}})
    journal = await Journal.open(await make_journal(configuration))
    await record_move(journal.database, "telegram", "-1", "-1001")
    await journal.close()
    finding = await find_finding(configuration, "sources.plans")
    assert (finding.level, "telegram:-1 has become telegram:-1001" in finding.text) == ("warning", True)


async def test_a_journal_that_keeps_the_daemon_from_starting_is_an_error(tmp_path: Path) -> None:
    configuration = settings(tmp_path)
    path = await make_journal(configuration)
    assert (await find_finding(configuration, "journal")).level == "ok"
    path.write_bytes(b"no database" * 1000)
    findings = await check(configuration, live=False)
    [finding] = [finding for finding in findings if "journal.db" in finding.text]
    assert (finding.level, finding.subject) == ("error", "journal")
    assert "Restore a backup" in finding.text


async def test_a_journal_that_was_copied_to_a_server_is_named(tmp_path: Path) -> None:
    """Nobody is forgotten in it any more."""
    journal = {"journal": {"url": "postgresql://kimas@127.0.0.1:9/kimas"}}
    configuration = Settings.model_validate({"data_dir": str(tmp_path / "data"), **journal})
    assert not check_left_journal(configuration)
    path = await make_journal(configuration.model_copy(update={"journal": JournalSettings()}))
    [finding] = check_left_journal(configuration)
    assert (finding.level, str(path) in finding.text) == ("warning", True)


@pytest.mark.parametrize(("content", "hint"), [(b"no database" * 1000, "it is damaged"), (None, "was built with")])
async def test_passages_that_keep_the_daemon_from_starting_are_an_error(
    tmp_path: Path, content: bytes | None, hint: str
) -> None:
    configuration = settings(tmp_path)
    folder = configuration.data_dir / "passages"
    store = await open_sqlite(folder, "another model", 2)
    await store.replace(
        "docs", [], [PassageRow(Passage("1", "docs", "a.md", "", "A."), "1", "a", np.zeros(2, np.float32))]
    )
    await store.close()
    if content:
        (folder / "passages.db").write_bytes(content)
    finding = await find_finding(configuration, "knowledge.store")
    assert (finding.level, hint in finding.text, "kimas ingest --rebuild" in finding.text) == ("error", True, True)
    unknown = {"embedding": {"provider": "fastembed", "model": "BAAI/bge-small-en-v1.5"}}
    subjects = {item.subject for item in await check(settings(tmp_path, knowledge=unknown), live=False)}
    assert ("knowledge.store" in subjects) == bool(content), "a model that is not loaded may be the right one"


@pytest.mark.parametrize(
    ("outer", "inner", "is_exposed"),
    [
        ({"path": "all"}, {"path": "all/team"}, True),
        ({"path": "all"}, {"path": "all"}, True),
        ({"path": "all"}, {"path": "all/../all/team/x"}, True),
        ({"path": "all/team"}, {"path": "all"}, False),
        ({"path": "all"}, {"path": "allied"}, False),
        ({"path": "all", "exclude": ["team/"]}, {"path": "all/team"}, False),
        ({"path": "all", "exclude": ["team/**"]}, {"path": "all/team"}, False),
        ({"path": "all", "exclude": ["other/"]}, {"path": "all/team"}, True),
        ({"path": "all", "audience": "owners"}, {"path": "all/team"}, False),
        ({"path": "all", "audience": "telegram"}, {"path": "all/team"}, True),
        ({"kind": "website", "url": "https://a.example"}, {"kind": "website", "url": "https://a.example/team/"}, True),
        # A crawl comes to the whole host, wherever it begins.
        (
            {"kind": "website", "url": "https://a.example/handbook/"},
            {"kind": "website", "url": "http://A.example:80/team/"},
            True,
        ),
        (
            {"kind": "website", "url": "https://a.example/handbook/", "exclude": ["/team/"]},
            {"kind": "website", "url": "https://a.example/team/"},
            False,
        ),
        (
            {"kind": "website", "url": "https://a.example/", "include": ["/handbook/**"]},
            {"kind": "website", "url": "https://a.example/", "include": ["/team/**", "/rules/**"]},
            False,
        ),
        (
            {"kind": "website", "url": "https://a.example/", "include": ["/handbook/**", "*.pdf"]},
            {"kind": "website", "url": "https://a.example/team/"},
            True,
        ),
        ({"kind": "website", "url": "https://a.example/"}, {"kind": "website", "url": "https://b.example/"}, False),
        ({"kind": "website", "url": "https://a.example/"}, {"kind": "feed", "url": "https://a.example/team.xml"}, True),
        (
            {"kind": "git", "url": "https://a.example/all.git"},
            {"kind": "git", "url": "https://a.example/all", "include": ["team/"]},
            True,
        ),
        (
            {"kind": "git", "url": "https://a.example/all", "exclude": ["team/"]},
            {"kind": "git", "url": "https://a.example/all", "include": ["team/"]},
            False,
        ),
        ({"kind": "git", "url": "git@a.example:t/all.git"}, {"kind": "git", "url": "https://A.example/t/all"}, True),
        ({"kind": "git", "url": "git@a.example:t/all.git"}, {"kind": "git", "url": "https://a.example/t/other"}, False),
        ({**WIKI, "options": {"spaces": ["A", "B"]}}, {**WIKI, "options": {"spaces": ["B"]}}, True),
        ({**WIKI, "options": {"spaces": ["A"]}}, {**WIKI, "options": {"spaces": ["B"]}}, False),
        (WIKI, {**WIKI, "options": {"spaces": ["B"]}}, True),
        (WIKI, {**WIKI, "plugin": "other"}, False),
        (WIKI, WIKI, True),
        (WIKI, {**WIKI, "token": {"env": "OTHER"}}, False),
        (NOTION, {**NOTION, "options": {"url": "https://api.notion.com/"}}, True),
        (NOTION, {**NOTION, "options": {"url": "https://proxy.example"}}, False),
        (PROJECT, {**PROJECT, "repository": "Example/Project", "labels": ["internal"]}, True),
        ({**PROJECT, "exclude_labels": ["internal"]}, {**PROJECT, "labels": ["internal"]}, False),
        (PROJECT, {**PROJECT, "repository": "example/other"}, False),
        (PROJECT, {**PROJECT, "api_url": "https://git.example/api/v3"}, False),
        ({**PROJECT, "take": ["releases"]}, {**PROJECT, "take": ["issues"]}, False),
        ({"kind": "gitlab", "project": "a/b"}, {"kind": "gitlab", "project": "a/b", "labels": ["internal"]}, True),
    ],
)
def test_a_closed_folder_within_an_open_one_is_found(
    tmp_path: Path, outer: dict[str, Any], inner: dict[str, Any], is_exposed: bool
) -> None:
    sources = {"open": outer, "closed": {"audience": "owners", **inner}}
    sources = {
        name: {"kind": "files", **source, **({"path": str(tmp_path / source["path"])} if "path" in source else {})}
        for name, source in sources.items()
    }
    telegram = {"token": {"env": "TELEGRAM"}}
    agents = {name: {"sources": [name]} for name in sources}
    found = list(find_exposed(Settings.model_validate({"sources": sources, "agents": agents, "telegram": telegram})))
    assert [path for path, _ in found] == (["sources.closed.audience"] if is_exposed else [])
    assert all("sources.open reads" in text for _, text in found)


@pytest.mark.parametrize(
    ("changes", "is_between"), [({}, True), ({"include": ["guide/"]}, True), ({"exclude": ["keys/"]}, False)]
)
async def test_a_secret_in_the_folder_of_a_source_is_found(
    tmp_path: Path, changes: dict[str, Any], is_between: bool
) -> None:
    file = tmp_path / "docs" / "keys" / "forum.txt"
    file.parent.mkdir(parents=True)
    file.write_text(TOKEN, "utf-8")
    options = {"url": "https://forum.example"}
    sources = {
        "forum": {"kind": "own", "plugin": "discourse", "token": {"file": str(file)}, "options": options},
        "docs": {"kind": "files", "path": str(tmp_path / "docs"), **changes},
    }
    found = await check(settings(tmp_path, sources=sources), live=False)
    warned = [item.subject for item in found if item.level == "warning" and "folder of sources.docs" in item.text]
    assert warned == ["sources.forum.token"] * is_between


async def test_a_connector_says_what_its_token_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network it is known that everybody would see what the token reads; with it, whether it is let in."""
    monkeypatch.setenv("FORUM_TOKEN", TOKEN)
    async with DiscoursePeer() as forum:
        forum.is_closed = True
        forum.topics[1] = Topic("Closed", [Entry("Inside.")])
        options = {"url": forum.url(), "allow_private": ["127.0.0.1"]}
        source = {"kind": "own", "plugin": "discourse", "options": options}
        finding = await find_finding(settings(tmp_path, sources={"forum": source}), "sources.forum", is_live=True)
        assert finding.level == "error"
        assert finding.text.endswith("status 403: the token may not read it")
        source |= {"token": {"env": "FORUM_TOKEN"}}
        configuration = settings(tmp_path, sources={"forum": source})
        finding = await find_finding(configuration, "sources.forum", is_live=True)
        assert finding == Finding("ok", "sources.forum", f"{forum.url()}: answers with topics of 1 list")
        finding = await find_finding(configuration, "sources.forum.audience")
        assert (finding.level, finding.text[:41]) == ("warning", "everybody may see what its token reads: n")
        closed = settings(tmp_path, sources={"forum": {**source, "audience": ["owners"]}})
        assert not [item for item in await check(closed, live=False) if item.subject == "sources.forum.audience"]


@pytest.mark.parametrize(
    ("plugin", "options", "words"),
    [
        ("confluence", {"url": "https://wiki.example.org", "space": ["DOC"]}, "space: Extra inputs"),
        ("notion", {}, "token: Field required"),
        ("slack_channels", {"token": "plain", "channels": ["#general"]}, "channels.0"),
    ],
)
async def test_options_of_connectors_are_judged_without_a_network(
    tmp_path: Path, plugin: str, options: dict[str, object], words: str
) -> None:
    source = {"kind": "own", "plugin": plugin, "options": options}
    finding = await find_finding(settings(tmp_path, sources={"wiki": source}), "sources.wiki")
    assert (finding.level, words in finding.text) == ("error", True), finding


async def test_a_token_among_the_options_opens_its_source_as_well(tmp_path: Path) -> None:
    source = {"kind": "own", "plugin": "notion", "options": {"token": "plain"}}
    finding = await find_finding(settings(tmp_path, sources={"notes": source}), "sources.notes.audience")
    assert finding.text.startswith("everybody may see what its token reads")


async def test_sources_may_share_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARED_TOKEN", TOKEN)
    source = {"kind": "own", "plugin": "notion", "token": {"env": "SHARED_TOKEN"}}
    slack = {"bot_token": {"env": "SHARED_TOKEN"}, "app_token": {"env": "SHARED_TOKEN"}}
    configuration = settings(tmp_path, sources={"one": source, "two": source}, slack=slack)
    assert not [item for item in await check(configuration, live=False) if "give each its own" in item.text]
