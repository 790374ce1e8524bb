"""`kimas search` when an agent fails: what the others found is shown, and which one failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deployment import Deployment

KEY = "hidden-search-key"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "router.md").write_text("# Router\n\nThe router listens on port 8080.\n", "utf-8")
    (tmp_path / "key").write_text(KEY, "utf-8")
    # Nobody may fetch from there, so the agent of this source fails.
    url = "http://127.0.0.1:9/find?q={query}&key={api_key}"
    web = {"kind": "http_api", "url": url, "title": "t", "text": "t", "link": "l", "api_key": {"file": "key"}}
    made = Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": "docs"}, "web": web}})
    made.call("ingest")
    return made


@pytest.mark.parametrize("explain", [[], ["--explain"]])
def test_what_the_others_found_is_shown_with_the_name_of_the_failed_agent(
    deployment: Deployment, explain: list[str]
) -> None:
    shown = deployment.call("search", "port of the router", *explain)
    assert shown.exit_code == 0
    assert "router.md" in shown.stdout
    failure = shown.stdout.splitlines()[-1]
    assert failure.startswith("agent web failed: source web: ")
    assert "private address" in failure
    told = deployment.json("search", "port of the router", *explain)
    assert [one["path"] for one in told["passages"]] == ["router.md"]
    assert [one["name"] for one in told["failed"]] == ["web"]
    assert "private address" in told["failed"][0]["error"]
    assert KEY not in shown.stdout + shown.stderr + str(told)


def test_nothing_is_said_to_have_failed_where_nothing_did(deployment: Deployment) -> None:
    told = deployment.json("search", "port of the router", "--agent", "docs")
    assert "failed" not in told


def test_when_every_agent_fails_that_is_an_error(deployment: Deployment) -> None:
    shown = deployment.call("search", "port of the router", "--agent", "web", code=1)
    assert "private address" in shown.stderr
