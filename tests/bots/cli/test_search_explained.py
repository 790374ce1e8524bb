"""`kimas search --explain`: every score on the way, as tables and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.deployment import Deployment, make_repository


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    make_repository(tmp_path / "rocket")
    (tmp_path / "garden.csv").write_text("question,answer\nWhen do roses bloom?,Roses bloom in June.\n", "utf-8")
    settings = {
        "sources": {
            "rocket": {"kind": "git", "url": str(tmp_path / "rocket")},
            "garden": {"kind": "faq", "path": "garden.csv"},
        },
        "agents": {
            "developer": {"sources": ["rocket"], "description": "ports, servers and keys", "mix_in_weight": 0.25},
            "gardener": {"sources": ["garden"], "scale": 0.5},
        },
        "knowledge": {"routing": {"agents": 1}, "search": {"kind_weights": {"code": 0.5}}},
    }
    created = Deployment(tmp_path, settings)
    created.call("ingest")
    return created


def test_every_score_adds_up(deployment: Deployment) -> None:
    plain_output = deployment.json("search", "default port of the server")
    body = deployment.json("search", "default port of the server", "--explain")
    assert {key: body[key] for key in plain_output} == plain_output, "it explains, and changes nothing"
    assert set(body) - set(plain_output) == {"routing", "scores"}
    routing = body["routing"]
    assert (routing["by"], routing["limit"], routing["threshold"]) == ("vectors", 1, 0.2)
    developer, gardener = routing["agents"]
    assert (developer["name"], developer["asked"]) == ("developer", True)
    assert (gardener["name"], gardener["asked"]) == ("gardener", False)
    mixed = 0.75 * developer["centroid"] + 0.25 * developer["mix_in"]
    assert (
        developer["score"]
        == pytest.approx(mixed, abs=2e-4)
        == pytest.approx(plain_output["agents"][0]["score"], abs=2e-4)
    )
    assert developer["mix_in_part"] == pytest.approx(0.25 * developer["mix_in"], abs=2e-4)
    assert developer["matched"] == {"kind": "description", "text": "ports, servers and keys", "weight": 1.0}
    assert gardener["mix_in"] is gardener["mix_in_part"] is gardener["matched"] is None
    assert gardener["score"] == pytest.approx(gardener["centroid"] * 0.5, abs=2e-4)

    assert [score["passage_id"] for score in body["scores"]] == [
        passage["passage_id"] for passage in plain_output["passages"]
    ]
    code = next(score for score in body["scores"] if score["kind"] == "python")
    assert code["kind_weight"] == 0.5
    assert code["score"] == pytest.approx(code["fused"] * 0.5, abs=2e-4)
    assert -1 <= code["similarity"] <= 1
    assert code["lexical"] > 0
    assert set(code["agents"]) == {"developer"}


def test_the_tables_stand_below_each_other(deployment: Deployment) -> None:
    lines = deployment.call("search", "default port of the server", "--explain").stdout.splitlines()
    assert lines[0].startswith("routed by meaning")
    assert lines[0].endswith("threshold 0.2; 1 of 2 searches saved")
    assert lines[2].split() == ["agent", "score", "centroid", "mix-in", "weight", "mixed", "in", "scale", "asked"]
    assert lines[3].split()[0] == "developer"
    assert lines[3].endswith("yes")
    assert lines[4].endswith("no")
    assert len({len(line) for line in lines[2:5]}) == 1
    assert lines[6] == "developer: best of the mix-in (description, weight 1): ports, servers and keys"
    text = next(line for line in lines if line.startswith("rocket: rocket/server.py:"))
    assert "python x0.5" in text


def test_words_and_the_option_route_too(deployment: Deployment) -> None:
    # The built-in model does not know Japanese.
    assert deployment.json("search", "ポートは何番ですか", "--explain")["routing"]["by"] == "words"
    body = deployment.json("search", "default port", "--explain", "--agent", "gardener")
    assert body["routing"]["by"] == "option"
    assert [agent["name"] for agent in body["routing"]["agents"] if agent["asked"]] == ["gardener"]


def test_without_routing_every_agent_is_asked_and_the_table_says_why(deployment: Deployment) -> None:
    off = ("--set", "knowledge.routing.enabled=false")
    routing = deployment.json("search", "default port of the server", "--explain", *off)["routing"]
    assert routing["by"] == "off"
    assert [agent["asked"] for agent in routing["agents"]] == [True, True]
    lines = deployment.call("search", "default port of the server", "--explain", *off).stdout.splitlines()
    assert lines[0] == "not routed: knowledge.routing is off, so every agent is asked"


def test_below_the_threshold_the_best_agent_is_searched_all_the_same(deployment: Deployment) -> None:
    high = ("--set", "knowledge.routing.threshold=0.9")
    # Far from the least nearness of a quote: processors round vectors differently.
    question = "listen on the default port"
    body = deployment.json("search", question, "--explain", *high)
    assert len(body["agents"]) == 1
    assert body["passages"]
    assert [agent["name"] for agent in body["routing"]["agents"] if agent["asked"]] == [body["agents"][0]["name"]]
    assert all(agent["score"] < 0.9 for agent in body["routing"]["agents"])
    answer_body = json.loads(deployment.call("ask", question, "--json", *high).stdout)
    assert answer_body["agents"] == [body["agents"][0]["name"]]
    assert "8000" in answer_body["answer"]
