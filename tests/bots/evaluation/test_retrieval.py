"""`kimas eval retrieval` and `kimas eval routing` as their user meets them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bots.evaluation.missing_documents import describe_missing, find_similar_name
from core.settings.loader import load_settings
from tests.support.deployment import Deployment
from tests.support.scripted import ScriptedPeer

ANIMALS = ["owl", "fox", "bear", "wolf", "otter", "heron", "badger", "lynx"]
TOOLS = ["hammer", "chisel", "saw", "drill", "plane", "vice", "lathe", "file"]
HISTORY = [{"role": "user", "text": "Tell me about the otter."}, {"role": "assistant", "text": "The otter swims."}]


def write(path: Path, lines: Iterable[Mapping[str, Any]]) -> str:
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return str(path)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path, {})


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    animals = [
        {
            "id": f"{name}.md",
            "source": "animals",
            "title": name,
            "text": f"The {name} is a wild animal that lives here.",
        }
        for name in ANIMALS
    ]
    tools = [
        {
            "id": f"{name}.md",
            "source": "tools",
            "title": name,
            "text": f"A {name} is a tool that a carpenter works with.",
        }
        for name in TOOLS
    ]
    return write(tmp_path / "corpus.jsonl", [*animals, *tools])


def questions(label: str) -> list[dict[str, Any]]:
    """Return a question for every document, and one that leans on its conversation."""
    cases = []
    for source, names, template in (
        ("animals", ANIMALS, "Where does the {} live?"),
        ("tools", TOOLS, "What is a {} for?"),
    ):
        for name in names:
            truth = {"relevant": [f"{name}.md"]} if label == "relevant" else {"agents": [source]}
            cases.append({"id": name, "question": template.format(name), **truth})
    truth = {"relevant": ["otter.md"]} if label == "relevant" else {"agents": ["animals"]}
    return [*cases, {"id": "leaning", "question": "Where does it live?", "history": HISTORY, **truth}]


def test_retrieval_on_a_corpus(deployment: Deployment, corpus: str, tmp_path: Path) -> None:
    cases = [*questions("relevant"), {"id": "lost", "question": "Which unicorn?", "relevant": ["unicorn.md"]}]
    data = write(tmp_path / "data.jsonl", cases)
    measurement = deployment.json("eval", "retrieval", data, "--corpus", corpus)
    assert set(measurement) == {"kind", "cases", "level", "missing", "cut", "ways"}
    assert (measurement["kind"], measurement["cases"], measurement["missing"], measurement["cut"]) == (
        "retrieval",
        18,
        1,
        0,
    )
    assert set(measurement["ways"]) == {"raw", "rule"}, "no model is configured"
    raw = measurement["ways"]["raw"]
    rule = measurement["ways"]["rule"]
    # The word that the question leans on is in its conversation alone.
    assert (raw["changed"], rule["changed"]) == (0, 1)
    assert rule["measures"]["hit@1"]["value"] == pytest.approx(17 / 18, abs=1e-4)
    assert raw["measures"]["hit@1"]["value"] == pytest.approx(16 / 18, abs=1e-4)
    assert rule["differences"]["hit@1"]["value"] == pytest.approx(1 / 18, abs=1e-4)
    assert rule["measures"]["hit@1"]["low"] < 17 / 18 < rule["measures"]["hit@1"]["high"]
    assert not (tmp_path / "data" / "passages").exists(), "nothing of a corpus stays"

    lines = deployment.call("eval", "retrieval", data, "--corpus", corpus).stdout.splitlines()
    assert lines[0].startswith("18 cases")
    assert lines[1].startswith("1 relevant document is not in the knowledge: nothing can find it")
    assert lines[1].endswith("Not there: unicorn.md")
    assert lines[2].startswith("`kimas search` shows how documents are named")
    assert lines[3].split("  ")[-1].strip() == "rule (1 changed)"
    assert [line.split()[0] for line in lines[4:12]] == list(raw["measures"])
    assert lines[-1].startswith("rule against raw: nDCG@10 +0.0")


def test_a_document_that_is_named_wrong_is_told_with_its_name(
    deployment: Deployment, corpus: str, tmp_path: Path
) -> None:
    cases = [{"id": str(number), "question": "Where is the heron?", "relevant": ["hern.md"]} for number in range(2)]
    data = write(tmp_path / "data.jsonl", cases)
    lines = deployment.call("eval", "retrieval", data, "--corpus", corpus).stdout.splitlines()
    assert lines[1].startswith("2 relevant documents are not in the knowledge")
    assert lines[1].endswith("Not there: hern.md (there is heron.md)")


@pytest.mark.parametrize(
    ("name", "similar_name"),
    [
        ("install.md", "guide/install.md"),
        ("site/guide/install.md", "guide/install.md"),
        ("guide/instal.md", "guide/install.md"),
        ("guides/install.md", "guide/install.md"),
        ("docs: guide/instal.md", "docs: guide/install.md"),
        ("api/class_43210.htm", "api/class_43210.html"),
        ("nothing like it", ""),
    ],
)
def test_the_name_that_may_be_meant_is_found_at_once_among_many(name: str, similar_name: str) -> None:
    document_names = {f"{source}api/class_{number}.html" for number in range(50_000) for source in ("", "docs: ")}
    document_names |= {"guide/install.md", "docs: guide/install.md"}
    started_at = time.thread_time()
    assert find_similar_name(name, document_names) == similar_name
    assert time.thread_time() - started_at < 2


def test_of_many_missing_documents_the_first_are_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"missing {number}" for number in range(11)]
    assert describe_missing(["a.md", "b.md", "a.md"], {"docs/a.md"}) == ". Not there: a.md (there is docs/a.md), b.md"
    assert describe_missing(names, ()) == f", such as {', '.join(names[:10])}"
    compared_names = []

    def find(name: str, _: object) -> str:
        compared_names.append(name)
        return ""

    monkeypatch.setattr("bots.evaluation.missing_documents.find_similar_name", find)
    describe_missing(names, ())
    assert compared_names == names[:2]


def test_routing_on_a_corpus_with_a_fit_that_can_be_pasted(deployment: Deployment, corpus: str, tmp_path: Path) -> None:
    foreign = ["How is the weather?", "Who won the match?", "What does the stock cost?", "Is the train late?"]
    cases = questions("agents") + [{"id": text, "question": text, "agents": []} for text in foreign]
    data = write(tmp_path / "data.jsonl", cases)
    open_to_all = ("--set", "knowledge.routing.threshold=-1")
    measurement = deployment.json("eval", "routing", data, "--corpus", corpus, "--fit", *open_to_all)
    assert (measurement["kind"], measurement["cases"], measurement["agents"]) == ("routing", 21, 2)
    measures_by_variant = {variant: entry["measures"] for variant, entry in measurement["ways"].items()}
    assert set(measures_by_variant) == {"raw", "rule"}
    assert measures_by_variant["rule"]["coverage"]["value"] == 1
    assert measures_by_variant["rule"]["saved"]["value"] == 0, "both agents are asked every time"
    assert measures_by_variant["rule"]["irrelevant"]["value"] == 0
    fitted_values = measurement["fitted"]
    assert set(fitted_values["scales"]) == {"animals", "tools"}
    assert fitted_values["threshold"] > 0.1
    assert fitted_values["saved"]["fitted"]["value"] > 0.3, "most questions go to one agent, or to none"
    assert fitted_values["accuracy"]["difference"]["value"] > 0

    output = deployment.call("eval", "routing", data, "--corpus", corpus, "--fit", *open_to_all).stdout
    assert "saved" in output
    pasted = tmp_path / "pasted.yaml"
    pasted.write_text(output.split("# Fitted to all questions:\n")[1], "utf-8")
    own_file = tmp_path / "mine.yaml"
    own_file.write_text("sources: {animals: {kind: files, path: .}, tools: {kind: files, path: .}}", "utf-8")
    settings = load_settings([own_file, pasted], (), {})
    assert settings.knowledge.routing.threshold == fitted_values["threshold"]
    assert {
        name: agent_settings.scale for name, agent_settings in settings.retrieval_agents().items()
    } == fitted_values["scales"]


def test_the_weight_of_meaning_is_fitted(deployment: Deployment, corpus: str, tmp_path: Path) -> None:
    cases = questions("relevant") + [
        {"id": f"{name}-2", "question": f"{name}?", "relevant": [f"{name}.md"]} for name in ANIMALS[:4]
    ]
    data = write(tmp_path / "data.jsonl", cases)
    fitted_result = deployment.json("eval", "retrieval", data, "--corpus", corpus, "--fit")["fitted"]
    assert 0 <= fitted_result["alpha"] <= 1
    assert set(fitted_result["nDCG@10"]) == {"configured", "fitted", "difference"}
    worse = ("--set", "knowledge.search.alpha=0", "--set", "knowledge.search.kind_weights.text=0.9")
    output = deployment.call("eval", "retrieval", data, "--corpus", corpus, "--fit", *worse).stdout
    assert "knowledge:\n  search:\n    alpha: " in output


async def test_the_models_rewrite_is_measured_too(deployment: Deployment, corpus: str, tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", questions("relevant"))
    async with ScriptedPeer(rewrite="otter\n") as peer:
        deployment.settings["models"] = {"main": {"base_url": peer.base_url, "model": "test-model"}}
        thread = await asyncio.to_thread(deployment.json, "eval", "retrieval", data, "--corpus", corpus)
    variants = thread["ways"]
    assert set(variants) == {"raw", "rule", "model"}
    assert variants["model"]["changed"] == 1
    assert variants["model"]["measures"]["hit@1"]["value"] == 1
    assert peer.agents == ["rewrite"], "only the question that leans on its conversation costs a call"


def test_the_configured_knowledge_is_measured_without_its_live_sources(deployment: Deployment, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ANIMALS:
        (tmp_path / "docs" / f"{name}.md").write_text(f"# {name}\n\nThe {name} is a wild animal.", "utf-8")
    live_source = {"kind": "http_api", "url": "http://127.0.0.1:9/?q={query}", "allow_private": ["127.0.0.1"]}
    deployment.settings["sources"] = {"docs": {"kind": "files", "path": "docs"}, "live": live_source}
    cases = [
        {"id": name, "question": f"the {name}", "relevant": [f"{name}.md", f"docs: {name}.md"][:1]} for name in ANIMALS
    ]
    data = write(tmp_path / "data.jsonl", cases)
    assert "kimas ingest" in deployment.call("eval", "retrieval", data, code=2).stderr
    deployment.call("ingest", "docs")
    measurement = deployment.json("eval", "retrieval", data)
    assert (measurement["missing"], measurement["ways"]["rule"]["measures"]["hit@1"]["value"]) == (0, 1)
    routed = write(tmp_path / "routed.jsonl", [{"id": "1", "question": "the owl", "agents": ["docs"]}])
    assert deployment.json("eval", "routing", routed)["agents"] == 1
    unknown = write(tmp_path / "unknown.jsonl", [{"id": "1", "question": "the owl", "agents": ["live", "nobody"]}])
    output = deployment.call("eval", "routing", unknown, code=2).stderr
    assert "live, nobody" in output
    assert "docs" in output


def test_bad_data_is_refused_before_anything_is_opened(deployment: Deployment, corpus: str, tmp_path: Path) -> None:
    bad_file = write(tmp_path / "bad.jsonl", [{"id": "1", "question": "How?"}])
    small_file = write(tmp_path / "few.jsonl", questions("relevant"))
    assert "line 1: relevant is missing" in deployment.call("eval", "retrieval", bad_file, code=2).stderr
    assert "line 1: agents is missing" in deployment.call("eval", "routing", bad_file, code=2).stderr
    assert (
        "line 1: text is missing"
        in deployment.call("eval", "retrieval", small_file, "--corpus", bad_file, code=2).stderr
    )
    assert "--fit needs 20" in deployment.call("eval", "retrieval", small_file, "--fit", code=2).stderr
    assert not (tmp_path / "data").exists()
