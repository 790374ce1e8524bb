"""What somebody meets who tries KIMAs for the first time: every message is true, and says what to do next."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest

from bots.cli import first_reading
from bots.cli.init_template import SCHEMA_NAME
from bots.cli.main import main
from tests.support.deployment import README, ROOT, Deployment
from tests.support.peers.language_model import LanguageModelPeer

HALF_A_TERMINAL = 80


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    return Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": str(tmp_path / "docs")}}})


def groups(group: click.Group) -> list[click.Group]:
    context = click.Context(group)
    commands = [group.get_command(context, name) for name in group.list_commands(context)]
    return [group, *(command for command in commands if isinstance(command, click.Group))]


@pytest.mark.parametrize("group", groups(main), ids=lambda group: group.name)
def test_the_list_of_commands_says_whole_sentences(group: click.Group) -> None:
    context = click.Context(group, info_name="kimas", terminal_width=HALF_A_TERMINAL)
    assert "..." not in group.get_help(context).partition("Commands:")[2]


def test_a_source_that_fails_is_told_in_one_line_without_an_empty_table(deployment: Deployment) -> None:
    (deployment.folder / "docs" / "rocket.md").unlink()
    result = deployment.call("ingest", code=1)
    [line] = result.stdout.splitlines()
    folder = deployment.folder / "docs"
    assert line.startswith(f"docs failed, what was known of it is kept: {folder} holds no files")
    assert f"docs failed: {folder} holds no files" in deployment.call("sources").stdout


def test_refresh_in_a_conversation_is_done_at_once(deployment: Deployment) -> None:
    deployment.call("ingest")
    (deployment.folder / "docs" / "colour.md").write_text("# Colour\n\nThe rocket is painted in a dark green.\n")
    result = deployment.call("chat", stdin="/refresh\nWhich colour is the rocket painted in?\n")
    assert "dark green" in result.output
    [source_state] = deployment.json("sources")["sources"]
    assert (source_state["documents"], source_state["age_s"] < 60) == (2, True)


def test_a_refresh_that_fails_does_not_end_the_conversation(deployment: Deployment) -> None:
    deployment.call("ingest")
    (deployment.folder / "docs" / "rocket.md").unlink()
    result = deployment.call("chat", stdin="/refresh docs\nHow do I install Rocket?\n")
    assert "docs failed, what was known of it is kept" in result.output
    assert "pip install rocket" in result.output


def test_what_looks_like_a_command_and_is_none_is_no_question(deployment: Deployment) -> None:
    deployment.call("ingest")
    result = deployment.call("chat", stdin="/instal\n/Escalate How?\n/learn\n/install: how do I install Rocket?\n")
    assert "I do not know `/instal`. `/help` shows the commands." in result.output
    assert "`/Escalate` concerns other people" in result.output
    assert "`/learn` concerns other people" in result.output
    assert result.output.count("Quoted from the sources") == 1, "a path is a question"


def test_options_that_would_do_nothing_are_refused(deployment: Deployment) -> None:
    assert (
        "give --labels or --calibrate with it" in deployment.call("feedback", "--chat", "telegram:-100", code=2).stderr
    )


def test_the_command_line_speaks_of_itself(deployment: Deployment) -> None:
    deployment.call("ingest")
    assert "no answers wait for a review" in deployment.call("faq", "list").output
    assert "there are no such answers" in deployment.call("faq", "list", "--state", "rejected").output
    error_output = deployment.call("faq", "approve", "7", code=2).stderr
    assert "`kimas faq list --state all`" in error_output


def test_init_tells_of_all_that_it_writes(deployment: Deployment) -> None:
    file = deployment.folder / "new" / "kimas.yaml"
    result = deployment.call("init", str(file))
    assert "beside it a schema for editors" in result.output
    assert (deployment.folder / "new" / SCHEMA_NAME).exists()
    assert f"`kimas --config {file} check --live`" in result.output


def test_every_command_is_in_the_contract() -> None:
    table = (ROOT / "docs" / "commands.md").read_text("utf-8").partition("## The command line")[2]
    assert [name for name in main.list_commands(click.Context(main)) if f"| `kimas {name}" not in table] == []


def test_the_first_question_reads_first_by_words_and_says_so(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_reading, "MAX_FILLED_FIRST", 0)
    result = deployment.call("ask", "How do I change the signing key?")
    assert "[1]" in result.stdout
    assert "Reading the sources for the first time." in result.stderr
    assert "Found by words alone so far: 1 of 1 passage; `kimas ingest`" in result.stderr
    assert "docs: 1 passage by words, 0 by meaning so far" in deployment.call("sources").stdout
    assert deployment.json("ingest")["sources"][0]["by_meaning"] == 1
    assert deployment.json("sources")["sources"][0]["by_meaning"] == 1
    result = deployment.call("ask", "How do I change the signing key?")
    assert "words" not in result.stderr
    assert "first time" not in result.stderr


def test_a_live_source_does_not_keep_the_first_question_from_reading_the_others(deployment: Deployment) -> None:
    deployment.settings["sources"]["api"] = {"kind": "http_api", "url": "http://127.0.0.1:9/?q={query}"}
    result = deployment.call("ask", "How do I change the signing key?")
    assert "Reading the sources for the first time." in result.stderr
    assert "[1]" in result.stdout


async def test_an_embedding_endpoint_that_is_down_costs_no_answer(deployment: Deployment) -> None:
    async with LanguageModelPeer() as peer:
        endpoint = {"provider": "openai", "base_url": peer.base_url, "model": "embedder", "dimension": peer.dimension}
        deployment.settings["knowledge"] = {"embedding": endpoint}
        peer.status = 500
        result = await asyncio.to_thread(deployment.call, "ask", "How do I change the signing key?")
        assert "[1]" in result.stdout
        assert "docs is found by words alone: " in result.stderr
        assert "Found by words alone so far: 1 of 1 passage" in result.stderr
        sources = (await asyncio.to_thread(deployment.call, "sources")).stdout
        assert "docs: 1 passage by words, 0 by meaning so far; the embedding model fails: " in sources
        assert "docs is found by words alone: " in (await asyncio.to_thread(deployment.call, "ingest", code=1)).stdout
        peer.status = 0
        assert (await asyncio.to_thread(deployment.json, "ingest"))["sources"][0]["by_meaning"] == 1
        assert "by meaning" not in (await asyncio.to_thread(deployment.call, "sources")).stdout
