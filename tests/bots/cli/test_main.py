"""The command line as its user meets it: as a process, with bad input, in every exit code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bots.cli.options import PLATFORM_SECTIONS
from core.settings.schema import list_setting_keys
from knowledge.embedding.local import LocalEmbedder
from tests.support.deployment import Deployment, make_repository


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    make_repository(tmp_path / "rocket")
    return Deployment(tmp_path, {"sources": {"rocket": {"kind": "git", "url": str(tmp_path / "rocket")}}})


@pytest.mark.parametrize("arguments", [("ask", "How?"), ("search", "How?"), ("chat",), ("chat", "--group")])
def test_what_is_missing_is_told_before_a_model_is_fetched(
    deployment: Deployment, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalEmbedder, "open", None)
    if arguments[0] == "search" or "--group" in arguments:
        assert "run `kimas ingest` first" in deployment.call(*arguments, code=2).stderr
    assert "no source is named 'nothing'" in deployment.call("ingest", "nothing", code=2).stderr
    deployment.settings["sources"] = {}
    assert "no sources are configured" in deployment.call(*arguments, code=2).stderr


def test_what_cannot_be_done_is_refused_before_a_model_is_fetched(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment.call("ingest")
    monkeypatch.setattr(LocalEmbedder, "open", None)
    assert "question is empty" in deployment.call("ask", "  ", code=2).stderr
    assert "100000 characters; 4000 are allowed" in deployment.call("ask", "why " * 25_000, code=2).stderr
    (deployment.folder / "data" / "passages" / "passages.db").unlink()
    nothing = "there is nothing to copy: sqlite holds nothing of the configured sources"
    assert nothing in deployment.call("store", "copy", "--to", "weaviate", code=2).stderr
    assert not (deployment.folder / "data" / "passages" / "passages.db").exists(), "a copy makes no origin"
    deployment.settings["sources"] = {}
    assert "no sources are configured" in deployment.call("store", "copy", "--to", "weaviate", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "expected_text"),
    [
        (("ask", "   "), 2, "question is empty"),
        (("search", ""), 2, "query is empty"),
        (("search", "x", "--agent", "nobody"), 2, "nobody"),
        (("ingest", "nothing"), 2, "no source is named 'nothing'; the sources are: rocket"),
        (("--set", "sources.rocket.max_file_kb=many", "ask", "How?"), 2, "sources.rocket.max_file_kb"),
        (("--set", "knowlege.search.alpha=1", "ask", "How?"), 2, "knowledge"),
        (("--config", "missing.yaml", "ask", "How?"), 2, "missing.yaml"),
        (("frobnicate",), 2, "No such command"),
        (("run",), 2, "no platform is configured"),
    ],
)
def test_bad_input_is_named_with_a_way_out(
    deployment: Deployment, arguments: tuple[str, ...], code: int, expected_text: str
) -> None:
    deployment.call("ingest")
    result = deployment.call(*arguments, code=code)
    assert expected_text in result.stderr
    assert "Traceback" not in result.stderr


def test_what_is_kept_is_closed_to_other_accounts(deployment: Deployment) -> None:
    deployment.kimas("ingest")
    deployment.kimas("ask", "How does it fly?")
    data = deployment.folder / "data"
    assert data.stat().st_mode & 0o077 == 0
    open_to_others = [path for path in data.rglob("*") if path.stat().st_mode & 0o077]
    assert open_to_others == []
    # One that an earlier version left open to all; its group, perhaps a backup's, keeps what it may.
    data.chmod(0o755)
    deployment.kimas("ingest")
    assert data.stat().st_mode & 0o777 == 0o750


def test_commands_beside_the_service_do_without_its_secrets(deployment: Deployment) -> None:
    """The service's token is a credential of systemd, which other processes cannot read."""
    secret = {"file": "/run/credentials/kimas.service/telegram-token"}
    deployment.settings["telegram"] = {"token": secret}
    deployment.settings["api"] = {"clients": {"webui": {"token": secret}}}
    deployment.settings["models"] = {"main": {"base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": secret}}
    for arguments in (("ingest",), ("sources",), ("search", "install"), ("usage",), ("audit",)):
        deployment.call(*arguments)
    errors = deployment.call("ask", "How is it installed?", code=2).stderr
    assert "models.main.api_key" in errors
    assert "telegram.token" not in errors
    assert "api.clients" not in errors
    for command in ("run", "check"):
        errors = deployment.call(command, code=2).stderr
        assert "telegram.token" in errors
        assert "api.clients.webui.token" in errors
        assert "models.main.api_key" in errors


def test_secrets_are_of_the_service_alone_or_of_sections_that_commands_use() -> None:
    sections = {key.path[0] for key in list_setting_keys() if key.is_secret()}
    assert sections - set(PLATFORM_SECTIONS) == {"sources", "knowledge", "models", "journal", "outgoing"}


@pytest.mark.parametrize("command", [("ask", "How?"), ("ingest",), ("ingest", "--rebuild"), ("run",)])
def test_a_data_directory_below_a_file_is_named(deployment: Deployment, command: tuple[str, ...]) -> None:
    (deployment.folder / "file").write_text("")
    deployment.settings["data_dir"] = str(deployment.folder / "file" / "data")
    result = deployment.call(*command, code=1)
    assert f"data_dir {deployment.settings['data_dir']} cannot be used" in result.stderr
    assert "choose a folder" in result.stderr


def test_a_question_of_100_000_characters_is_refused_from_standard_input(deployment: Deployment) -> None:
    deployment.call("ingest")
    result = deployment.call("ask", "-", code=2, stdin="why " * 25_000)
    assert "100000 characters; 4000 are allowed" in result.stderr


def test_search_shows_agents_and_passages(deployment: Deployment) -> None:
    deployment.call("ingest")
    body = deployment.json("search", "default port of the server", "--top-k", "2")
    assert body["query"] == "default port of the server"
    assert body["agents"][0]["name"] == "rocket"
    assert body["passages"][0]["path"] == "rocket/server.py"
    assert len(body["passages"]) == 2
    assert set(body["passages"][0]) == {"passage_id", "source", "path", "url", "score"}
    assert "rocket: rocket/server.py:" in deployment.call("search", "default port of the server").stdout


def test_a_failing_source_keeps_its_knowledge_and_the_others_go_on(deployment: Deployment, tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("question,answer\nWho made Rocket?,The Rocket team made it.\n", "utf-8")
    deployment.settings["sources"]["faq"] = {"kind": "faq", "path": "faq.csv"}
    deployment.call("ingest")
    os.rename(tmp_path / "rocket", tmp_path / "gone")
    (tmp_path / "rocket").mkdir()
    (tmp_path / "faq.csv").write_text("question,answer\nWho made Rocket?,The Rocket guild made it.\n", "utf-8")
    result = deployment.call("ingest", code=1)
    assert "rocket failed, what was known of it is kept" in result.stdout
    assert "guild" in deployment.json("ask", "Who made Rocket?")["answer"]
    assert deployment.json("search", "default port of the server")["passages"][0]["path"] == "rocket/server.py"


def test_another_embedding_model_is_a_clear_error_with_the_way_out(deployment: Deployment) -> None:
    deployment.call("ingest")
    deployment.settings["knowledge"] = {
        "embedding": {"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "other", "dimension": 8}
    }
    result = deployment.call("ask", "How?", code=1)
    assert "kimas ingest --rebuild" in result.stderr
    assert "other" in result.stderr


def test_a_rebuild_empties_nothing_for_a_model_that_does_not_answer(deployment: Deployment) -> None:
    deployment.call("ingest")
    other = ("provider=openai", "base_url=http://127.0.0.1:9/v1", "model=other", "dimension=8")
    options = [part for text in other for part in ("--set", f"knowledge.embedding.{text}")]
    assert "connection failed" in deployment.call("ingest", "--rebuild", *options, code=69).stderr
    assert deployment.json("search", "default port of the server")["passages"]


def test_a_chat_remembers_the_conversation(deployment: Deployment) -> None:
    deployment.call("ingest")
    result = deployment.call(
        "chat", stdin="How do I rotate the signing keys of sessions?\nwhat about its port?\nexit\n"
    )
    assert "rotate_keys" in result.stdout
    assert "8000" in result.stdout


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_command_runs_without_the_streams_that_a_supervisor_closed(tmp_path: Path, closed: str) -> None:
    deployment = Deployment(tmp_path, {})
    command = ["sh", "-c", f'"$@" {closed}', "sh", *deployment.command("sources")]
    assert subprocess.run(command, check=False, env=deployment.variables(), cwd=tmp_path).returncode == 0


def test_output_to_a_full_disk_is_one_line_that_says_so(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": str(tmp_path)}}})
    with Path("/dev/full").open("w") as full_disk:
        result = subprocess.run(
            deployment.command("sources"),
            check=False,
            env=deployment.variables(),
            stdout=full_disk,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (result.returncode, result.stderr) == (1, "kimas: No space left on device; free some space\n")


def test_a_file_that_may_not_be_read_is_one_line_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", "/srv/models")

    monkeypatch.setattr("bots.cli.sources.sources", refuse)
    error_text = Deployment(tmp_path, {}).call("sources", code=1).stderr
    assert error_text == "kimas: /srv/models: Permission denied; check the permissions, and which account runs KIMAs\n"
