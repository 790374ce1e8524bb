"""`kimas sources`: before the first refresh, after success and failure, beside whoever refreshes."""

from __future__ import annotations

import asyncio
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from bots.cli.options import make_settings_reloader
from bots.cli.sources import format_duration
from core.errors import ConfigurationError
from core.runtime.locks import source_lock
from core.settings.loader import find_missing_sources, load_settings
from core.storage.engine import Database
from core.storage.refresh_state import RefreshStateRepository
from tests.support.deployment import Deployment


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    for name in ("docs", "more"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text("# Rocket\n\nInstall it.\n", "utf-8")
    plan = {"cron": "30 6 * * mon-fri", "timezone": "UTC"}
    web = {"kind": "search_api", "provider": "searxng", "base_url": "http://127.0.0.1:9"}
    sources = {"docs": {"kind": "files", "path": "docs"}, "web": web}
    return Deployment(tmp_path, {"sources": sources | {"more": {"kind": "files", "path": "more", "refresh": plan}}})


def test_before_the_first_refresh_everything_is_due_and_nothing_is_made(deployment: Deployment) -> None:
    sources = deployment.json("sources")["sources"]
    assert [(source["name"], source["kind"], source["live"]) for source in sources] == [
        ("docs", "files", False),
        ("web", "search_api", True),
        ("more", "files", False),
    ]
    assert (sources[0]["last_success"], sources[0]["age_s"], sources[0]["documents"]) == (None, None, 0)
    assert set(sources[1].values()) == {"web", "search_api", True, "everyone", None}
    assert not (deployment.folder / "data").exists()
    text = deployment.call("sources").stdout
    assert "never" in text
    assert "due" in text
    assert "live" in text


def test_what_was_left_out_by_rule_is_counted_later_too(deployment: Deployment) -> None:
    (deployment.folder / "docs" / "picture.foo").write_text("text", "utf-8")
    (deployment.folder / "docs" / "blank.md").write_text(" \n", "utf-8")
    deployment.call("ingest")
    sources = {source["name"]: source for source in deployment.json("sources")["sources"]}
    assert sources["docs"]["skipped"] == {"unknown kind": 1, "empty": 1}
    assert "docs left out: 1 empty, 1 unknown kind" in deployment.call("sources").stdout


def test_what_ingest_did_is_on_record_and_failures_are_told(deployment: Deployment) -> None:
    started_at = datetime.now(UTC) - timedelta(seconds=1)
    deployment.call("ingest")
    first = {source["name"]: source for source in deployment.json("sources")["sources"]}
    assert first["docs"]["passages"] == first["docs"]["documents"] == 1
    assert started_at <= datetime.fromisoformat(first["docs"]["last_success"]) <= datetime.now(UTC)
    assert 0 <= first["docs"]["age_s"] < 60
    next_run = datetime.fromisoformat(first["more"]["next_run"])
    assert (next_run.hour, next_run.minute, next_run.weekday() < 5) == (6, 30, True)

    (deployment.folder / "more" / "a.md").unlink()
    deployment.call("ingest", code=1)
    second = {source["name"]: source for source in deployment.json("sources")["sources"]}
    assert second["docs"]["error"] == ""
    assert "holds no files" in second["more"]["error"]
    assert second["more"]["last_success"] == first["more"]["last_success"]
    assert second["more"]["documents"] == 1
    retry = datetime.fromisoformat(second["more"]["next_run"]) - datetime.fromisoformat(second["more"]["last_try"])
    assert retry < timedelta(minutes=2)
    assert "more failed: " in deployment.call("sources").stdout.replace("\n", " ")


def test_more_passages_than_files_are_made_for_are_told(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    hint = "passages are more than the embedded store is made for"
    # Nothing at all, and then as many as may be.
    assert hint not in deployment.call("sources").stdout
    monkeypatch.setattr("knowledge.stores.MAX_EMBEDDED_PASSAGES", 2)
    deployment.call("ingest")
    assert hint not in deployment.call("sources").stdout
    assert not [finding for finding in deployment.json("check")["findings"] if hint in finding["text"]]
    monkeypatch.setattr("knowledge.stores.MAX_EMBEDDED_PASSAGES", 1)
    assert f"2 {hint}" in deployment.call("sources").stdout
    (finding,) = [finding for finding in deployment.json("check")["findings"] if hint in finding["text"]]
    assert (finding["level"], finding["subject"]) == ("warning", "knowledge.store")
    assert "docs/weaviate.md" in finding["text"]
    deployment.settings["knowledge"] = {"store": {"provider": "weaviate"}}
    assert hint not in deployment.call("sources").stdout


def test_the_last_try_is_in_the_table_where_one_failed(deployment: Deployment) -> None:
    deployment.call("ingest")
    assert "last try" not in deployment.call("sources").stdout
    (deployment.folder / "more" / "a.md").unlink()
    deployment.call("ingest", code=1)
    head, _, web, details_row, output = deployment.call("sources").stdout.splitlines()
    assert " ".join(head.split()) == "source kind documents passages last success last try next refresh"
    assert re.search(r"\d+ s ago +\d+ s ago +in \d+ s", details_row)
    assert output.startswith("more failed: ")
    assert web.split() == ["web", "search_api", "-", "-", "live", "-", "-"]


def test_a_source_is_paused_and_resumed_by_hand_and_that_is_in_the_audit(deployment: Deployment) -> None:
    deployment.call("ingest")
    state_before = deployment.json("sources")["sources"][0]
    assert (state_before["paused"], state_before["next_run"] is None) == (False, False)
    assert "docs is refreshed only on request" in deployment.call("sources", "pause", "docs").stdout
    paused_state = deployment.json("sources")["sources"][0]
    assert (paused_state["paused"], paused_state["next_run"], paused_state["documents"]) == (True, None, 1)
    (docs,) = [line for line in deployment.call("sources").stdout.splitlines() if line.startswith("docs ")]
    assert docs.endswith("paused")
    assert "on schedule again" in deployment.call("sources", "resume", "docs").stdout
    assert deployment.json("sources")["sources"][0]["next_run"] == state_before["next_run"]
    entries = deployment.json("audit")["entries"]
    assert [(entry["command"], entry["before"], entry["after"]) for entry in entries] == [
        ("resume docs", "only when asked", "by its plan"),
        ("pause docs", "by its plan", "only when asked"),
    ]


@pytest.mark.parametrize(
    ("name", "error_text"), [("dcos", "no source is named 'dcos'"), ("web", "asked at question time")]
)
def test_only_a_stored_source_can_be_paused(deployment: Deployment, name: str, error_text: str) -> None:
    result = deployment.call("sources", "pause", name, code=2)
    assert error_text in result.stderr
    assert not (deployment.folder / "data").exists()


async def test_what_another_process_refreshes_is_shown_as_running_and_left_to_it(deployment: Deployment) -> None:
    data = deployment.folder / "data"
    database = await Database.open(data / "journal.db")
    await RefreshStateRepository(database).mark_started("docs", "")
    await database.close()

    async def running() -> bool:
        thread = await asyncio.to_thread(deployment.json, "sources")
        return bool(thread["sources"][0]["running"])

    async with source_lock(data, "docs"):
        assert await running()
        result = await asyncio.to_thread(deployment.call, "ingest", "docs", code=1)
    assert "another process is refreshing source docs" in result.stderr
    assert not await running(), "who began it is gone"


def test_an_emptied_store_makes_all_sources_due(deployment: Deployment) -> None:
    deployment.call("ingest")
    deployment.call("ingest", "--rebuild", "docs")
    sources_by_name = {source["name"]: source for source in deployment.json("sources")["sources"]}
    assert (sources_by_name["docs"]["documents"], sources_by_name["more"]["documents"]) == (1, 0)
    assert datetime.fromisoformat(sources_by_name["more"]["next_run"]) <= datetime.now(UTC)
    shutil.rmtree(deployment.folder / "data")
    assert deployment.json("sources")["sources"][0]["last_try"] is None


def test_lengths_of_time() -> None:
    assert [format_duration(seconds) for seconds in (-3, 0.4, 59, 61, 7300, 200_000)] == [
        "0 s",
        "0 s",
        "59 s",
        "1 min",
        "2 h",
        "2 d",
    ]


def test_a_folder_that_is_not_mounted_costs_its_own_source_alone(tmp_path: Path) -> None:
    for name in ("docs", "mounted"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# {name}\n\nThe {name} say that rockets are red.\n", "utf-8")
    sources = {name: {"kind": "files", "path": str(tmp_path / name)} for name in ("docs", "mounted")}
    deployment = Deployment(tmp_path, {"sources": sources})
    deployment.call("ingest")
    shutil.rmtree(tmp_path / "mounted")
    result = deployment.call("ingest", code=1)
    assert "mounted failed, what was known of it is kept" in result.stdout
    assert "Check path, or create the folder" in result.stdout
    assert "docs" in result.stdout.partition("failed")[0]
    paths = {passage["source"] for passage in deployment.json("search", "rockets are red")["passages"]}
    assert paths == {"docs", "mounted"}
    finding = deployment.call("check", code=1).stdout
    assert "error  sources.mounted: " in finding
    with pytest.raises(ConfigurationError, match="does not exist"):
        load_settings([deployment.config])


async def test_the_daemon_reads_its_files_again_as_it_did_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {name: {"kind": "files", "path": str(tmp_path / name)} for name in ("docs", "mounted")}
    (tmp_path / "docs").mkdir()
    deployment = Deployment(tmp_path, {"sources": sources})
    with click.Context(click.Command("kimas"), obj=((), ())):
        read_again = make_settings_reloader((deployment.config,), ())
    settings = await read_again()
    assert find_missing_sources(settings) == ("mounted",)
    # What the environment has is in no other test's way.
    monkeypatch.setenv("KIMAS_OTHER", "")
    monkeypatch.delenv("KIMAS_OTHER")
    env_file = deployment.config.with_suffix(".env")
    await asyncio.to_thread(env_file.write_text, "KIMAS_OTHER=1\n", "utf-8")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=rf"KIMAS_OTHER, set by {env_file}: names no setting"):
            await read_again()
