"""`kimas search` when an agent fails: what the others found is shown, and which one failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.deployment import Deployment

KEY = "hidden-search-key"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "router.md").write_text("# Router\n\nThe router listens on port 8080.\n", "utf-8")
    (tmp_path / "key").write_text(KEY, "utf-8")
    # Nobody may fetch from there, so the agent of this source fails.
    url = "http://127.0.0.1:9/find?q={query}&key={api_key}"
    web = {"kind": "http_api", "url": url, "title": "t", "text": "t", "link": "l", "api_key": {"file": "key"}}
    created = Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": "docs"}, "web": web}})
    created.call("ingest")
    return created


@pytest.mark.parametrize("explain", [[], ["--explain"]])
def test_what_the_others_found_is_shown_with_the_name_of_the_failed_agent(
    deployment: Deployment, explain: list[str]
) -> None:
    result = deployment.call("search", "port of the router", *explain)
    assert result.exit_code == 0
    assert "router.md" in result.stdout
    line = result.stdout.splitlines()[-1]
    assert line.startswith("agent web failed: source web: ")
    assert "private address" in line
    body = deployment.json("search", "port of the router", *explain)
    assert [passage["path"] for passage in body["passages"]] == ["router.md"]
    assert [entry["name"] for entry in body["failed"]] == ["web"]
    assert "private address" in body["failed"][0]["error"]
    assert KEY not in result.stdout + result.stderr + str(body)


def test_nothing_is_said_to_have_failed_where_nothing_did(deployment: Deployment) -> None:
    body = deployment.json("search", "port of the router", "--agent", "docs")
    assert "failed" not in body


def test_when_every_agent_fails_that_is_an_error(deployment: Deployment) -> None:
    result = deployment.call("search", "port of the router", "--agent", "web", code=1)
    assert "private address" in result.stderr
