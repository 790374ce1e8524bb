"""Answers without a configuration: which source a folder or an address is, and what the commands say."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bots.cli.main import main
from bots.cli.trial import guess_source
from core.errors import UsageError
from tests.support.deployment import git, logging_as_it_was
from tests.support.peers.web import Page, WebPeer

SAFE = "# Rocket\n\nThe launch key is kept in the blue safe.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "place"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "rocket.md").write_text(SAFE, "utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def call(*arguments: str, stdin: str | None = None) -> Result:
    with logging_as_it_was():
        return CliRunner().invoke(main, arguments, input=stdin, catch_exceptions=False)


@pytest.mark.parametrize(("location", "kind"), [
    ("https://github.com/agentscope-ai/agentscope", "git"),
    ("https://gitlab.com/group/project/", "git"),
    ("https://git.example.org/team/project.git", "git"),
    ("git@example.org:team/project", "git"),
    ("ssh://git@example.org/team/project", "git"),
    ("https://github.com/agentscope-ai", "website"),
    ("https://docs.example.org/en/latest/", "website"),
])  # fmt: skip
def test_addresses(location: str, kind: str) -> None:
    assert guess_source(location) == {"kind": kind, "url": location}


def test_who_types_a_private_address_means_it_and_a_page_in_the_browser_does_not() -> None:
    for location, host in (("http://127.0.0.1:8000/", "127.0.0.1"), ("http://localhost:3000/docs", "localhost")):
        site = {"kind": "website", "url": location}
        assert guess_source(location, at_terminal=True) == {**site, "allow_private": [host]}
        assert guess_source(location) == site
    assert "allow_private" not in guess_source("https://docs.example.org/", at_terminal=True)


async def test_a_site_on_this_machine_can_be_asked(folder: Path) -> None:
    async with WebPeer() as web:
        web.pages["/"] = Page("<html><body><main><p>The launch key is in the blue safe.</p></main></body></html>")
        url = f"http://127.0.0.1:{web.port}/"
        result = await asyncio.to_thread(call, "ask", "--source", url, "Where is the launch key?")
    assert "blue safe" in result.output


@pytest.mark.parametrize(("name", "text", "kind"), [
    ("faq.yaml", "- question: How do I log in?\n  answer: With a token.\n", "faq"),
    ("faq.csv", "question,answer\nHow do I log in?,With a token.\n", "faq"),
    ("compose.yaml", "name: rocket\nimage: rocket:1\n", "files"),
    ("broken.yaml", "a: [", "files"),
    ("prices.csv", "item,price\nrocket,5\n", "files"),
])  # fmt: skip
def test_a_file_of_questions_is_read_as_one(folder: Path, name: str, text: str, kind: str) -> None:
    (folder / name).write_text(text, "utf-8")
    assert guess_source(name)["kind"] == kind


def test_paths(folder: Path) -> None:
    assert guess_source("docs")["kind"] == "files"
    file = {"kind": "files", "path": str(folder / "docs"), "include": ["/rocket.md"]}
    assert guess_source("docs/rocket.md") == file
    git(folder, "init", "--quiet")
    assert guess_source(".") == {"kind": "git", "url": str(folder)}
    git(folder, "init", "--quiet", "--bare", "bare.git")
    assert guess_source("bare.git") == {"kind": "git", "url": str(folder / "bare.git")}
    for location in ("no/such", ""):
        with pytest.raises(UsageError, match="name a folder, a file or an address"):
            guess_source(location)


def test_a_conversation_about_a_folder_notices_what_is_new(folder: Path) -> None:
    question = "Where is the launch key kept?\n"
    assert "blue safe" in call("chat", "--source", "docs", stdin=question).output
    (folder / "docs" / "rocket.md").write_text(SAFE.replace("blue", "green"), "utf-8")
    assert "green safe" in call("chat", "--source", "docs", stdin=question).output
    assert not (folder / ".kimas").exists()


def test_a_folder_without_anything_to_read(folder: Path) -> None:
    (folder / "docs" / "rocket.md").unlink()
    result = call("ask", "--source", "docs", "Where?")
    assert (result.exit_code, "there is nothing to answer from:\n" in result.output) == (2, True)
    assert "what was known of it is kept" not in result.output, "nothing was"


def test_what_cannot_be_read_of_a_place_does_not_hide_the_answer(folder: Path) -> None:
    (folder / "docs" / "empty.html").write_text("<html><body></body></html>", "utf-8")
    result = call("ask", "--source", "docs", "Where is the launch key kept?")
    assert "blue safe" in result.output
    assert "empty.html" not in result.output + result.stderr


def test_a_source_that_fails_is_named_once(folder: Path) -> None:
    result = call("ask", "--source", "https://127.0.0.1:9/none", "Where?")
    assert (result.exit_code, "the connection failed" in result.output) == (2, True)
    assert "source source" not in result.output + result.stderr
    assert result.output.count("the connection failed") == 1, "neither in the log"


@pytest.mark.parametrize("word", ["/quit", "exit"])
def test_a_conversation_ends_when_asked_to(folder: Path, word: str) -> None:
    assert "blue safe" not in call("chat", "--source", "docs", stdin=f"{word}\nWhere is the launch key kept?\n").output


def test_a_configuration_and_a_source_exclude_each_other(folder: Path) -> None:
    (folder / "kimas.yaml").write_text("sources: {docs: {kind: files, path: docs}}\n", "utf-8")
    result = call("ask", "--config", "kimas.yaml", "--source", "docs", "Where?")
    assert (result.exit_code, "exclude each other" in result.output) == (2, True)
    result = call("chat", "--group", "--source", "docs", stdin="")
    assert (result.exit_code, "exclude each other" in result.output) == (2, True)
    # A configuration in the folder is used.
    assert "run `kimas ingest` first" in call("search", "Where?").output
