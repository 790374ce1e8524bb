"""Every preset, from its own file to a cited answer: the command line over real repositories, searches and models."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bots.cli.main import main
from core.runtime.budget import Budget
from core.settings import SearchApiSource
from core.settings.loader import load_settings
from core.settings.yaml_file import read_yaml
from knowledge.retrieval.library import LIVE_TIME_SHARE
from tests.support.deployment import README, ROOT, SERVER, logging_as_it_was, make_repository
from tests.support.peers.reranker import KEY as RERANK_KEY, RerankPeer
from tests.support.peers.web import KEY, Hit, Page, WebPeer
from tests.support.scripted import Body, ScriptedPeer

PRESETS = sorted((ROOT / "config/presets").glob("*.yaml"))
KEYS = ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "TAVILY_API_KEY")
DECIDING = {
    "choose": '{"strategy": "single"}',
    "rewrite_keyword": lambda body: f'{{"terms": ["{get_subject(body)}"]}}',
    "write": lambda body: quoting(body),  # noqa: PLW0108 (it is defined below)
    "rewrite_prompt": lambda body: json.dumps({"query": get_subject(body)}),
    "rewrite_translation": '{"query": "model for Chinese speech recognition"}',
    "react": lambda body: (
        "[answer]" if "<evidence>" in str(body["messages"]) else "[retrieve_knowledge: Rocket sessions]"
    ),
}


def get_subject(body: Body) -> str:
    """Return what a request asks about, as a model that picks key terms would: without the small words."""
    message = re.search(r"<(?:question|query)>\n?(.*?)</", body["messages"][-1]["content"], re.DOTALL)
    assert message is not None
    return " ".join(word for word in message[1].replace("?", "").split() if len(word) > 3) or message[1].strip()


def quoting(body: Body) -> str:
    """Answer with what the first passage says, as a model would that keeps to its evidence."""
    passage = re.search(r'<passage id="(p\d+)"[^>]*>\n(.*?)\n</passage>', body["messages"][-1]["content"], re.DOTALL)
    assert passage is not None, body["messages"][-1]["content"]
    message = next(line for line in reversed(passage[2].splitlines()) if len(line) > 5)
    return f"{message.strip(' .#')} [{passage[1]}]."


@dataclass
class Peers:
    model: ScriptedPeer
    web: WebPeer
    reranker: RerankPeer
    repository: Path


@pytest.fixture
async def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Peers]:
    for key in KEYS:
        monkeypatch.setenv(key, KEY)
    monkeypatch.setenv("RERANK_KEY", RERANK_KEY)
    files = {
        "README.md": README,
        "docs/guide.md": README,
        "docs/source/guide.md": README,
        "src/rocket/server.py": SERVER,
        "src/agentscope/app/server.py": SERVER,
        "examples/serve.py": "from rocket.server import Server\n\nServer().listen(9000)\n",
    }
    async with ScriptedPeer(**DECIDING) as model, WebPeer() as web:
        model.dimension = 1024
        model.api_key = KEY
        web.hits = [
            Hit("Final", "https://news.example.org/final", "Ann Runner won the 100 m final in 9.99 s tonight."),
            Hit("Tiny", "https://news.example.org/tiny", "tiny-asr 适合中文语音识别，模型很小。"),
        ]
        web.pages["/"] = Page("<html><title>Guide</title><main><h1>Guide</h1><p>Rocket needs Python.</p></main></html>")
        async with RerankPeer(lambda query, text: float(query in text)) as reranker:
            yield Peers(model, web, reranker, make_repository(tmp_path / "rocket", files))


def overlay(preset: Path, peers: Peers, folder: Path) -> Path:
    """Point a preset at the peers; everything else stays as it is written there."""
    data: Any = read_yaml(preset).data
    changes: dict[str, Any] = {"data_dir": str(folder / "data"), "sources": {}, "models": {}}
    for name, source in data["sources"].items():
        address = {
            "git": {"url": str(peers.repository)},
            "search_api": {"base_url": peers.web.url("/tavily"), "allow_private": ["127.0.0.1"]},
            "website": {"url": peers.web.url("/"), "include": [], "delay_s": 0, "allow_private": ["127.0.0.1"]},
        }
        changes["sources"][name] = address.get(source["kind"], {})
    for role in data["models"]:
        changes["models"][role] = {"base_url": peers.model.base_url, "api_key": {"env": "OPENAI_API_KEY"}}
    if "embedding" in data.get("knowledge", {}):
        changes["knowledge"] = {"embedding": {"base_url": peers.model.base_url}}
    if "reranker" in data.get("knowledge", {}).get("search", {}):
        secret = {"env": "RERANK_KEY"}
        changes["knowledge"]["search"] = {"reranker": {"url": peers.reranker.address("cohere"), "api_key": secret}}
    path = folder / "overlay.yaml"
    path.write_text(json.dumps(changes), "utf-8")
    return path


async def call(*arguments: str) -> Any:
    def run() -> str:
        with logging_as_it_was():
            result = CliRunner().invoke(main, [*arguments, "--json"], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return json.loads(await asyncio.to_thread(run))


QUESTIONS = {
    "agentscope-qa": "Which port does the server listen on by default?",
    "modelscope-qa": "有没有适合中文语音识别的模型？",
    "olympic-bot": "Who won the 100 m final tonight?",
}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
async def test_a_preset_answers_from_end_to_end(preset: Path, peers: Peers, tmp_path: Path) -> None:
    files = ("--config", str(preset), "--config", str(overlay(preset, peers, tmp_path)))
    ingested = await call(*files, "ingest")
    assert all(source["passages"] > 0 for source in ingested["sources"])
    assert ingested["sources"] or preset.stem == "olympic-bot"
    question = QUESTIONS.get(preset.stem, "How does Rocket keep its sessions?")
    reply = await call(*files, "ask", question)
    allowed_strategies = load_settings([preset], (), {}, require_secrets=False).strategies.allowed
    assert reply["strategy"] in allowed_strategies
    assert reply["cut"] == []
    assert not reply["extractive"]
    assert [citation["n"] for citation in reply["citations"]] == [1]
    assert reply["passages"]
    if preset.stem == "olympic-bot":
        assert reply["citations"][0]["url"] == "https://news.example.org/final"
        assert reply["agents"] == ["news"]
        assert [(body or {})["query"] for body in peers.web.bodies] == ["final tonight"]
        assert (peers.web.bodies[0] or {})["topic"] == "news"
        assert peers.model.agents == ["rewrite_keyword", "write"]
    if preset.stem == "modelscope-qa":
        assert "models" in reply["agents"]
        assert {"models"} <= {passage["source"] for passage in reply["passages"]}
        assert peers.reranker.bodies, "the provider's rerank endpoint puts the passages in order"
        assert ["modelscope.cn/models"] in [body["include_domains"] for body in peers.web.bodies if body]
        prompt = peers.model.sent("write")[-1]["messages"][0]["content"]
        assert "根据给定的资料" in prompt
    if preset.stem == "agentscope-qa":
        assert {passage["source"] for passage in reply["passages"]} >= {"code"}
        prompts = [body["messages"][0]["content"] for body in peers.model.sent("rewrite_prompt")]
        assert all("AgentScope" in prompt for prompt in prompts)
        assert len(set(prompts)) == len(reply["agents"]), "each agent has a prompt of its own"


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_a_preset_is_complete_and_explained(preset: Path) -> None:
    """It loads as it is, names what it needs, and says at its head what it is for."""
    settings = load_settings([preset], (), {}, require_secrets=False)
    assert settings.sources
    assert settings.models.main
    assert settings.models.light or preset.stem == "simple"
    head = [line for line in preset.read_text("utf-8").splitlines()[:12] if line.startswith("# ")]
    assert len(" ".join(head)) > 150


CHINESE = "# 会话\n\n## 签名密钥\n\n要轮换签名密钥，请调用 `rotate_keys`，用户不会因此退出登录。\n"


@pytest.mark.parametrize(
    ("question", "pages"),
    [
        ("如何轮换签名密钥？", {"docs/source/zh.md", "docs/source/guide.md"}),
        ("How do I change the signing key?", {"docs/source/guide.md"}),
    ],
)
async def test_a_chinese_question_finds_pages_in_both_languages(
    question: str, pages: set[str], peers: Peers, tmp_path: Path
) -> None:
    other_presets = {
        f"docs/source/{number}.md": f"# Page {number}\n\nMessage {number} of the logbook, 日志 {number}.\n"
        for number in range(80)
    }
    files = {"docs/source/guide.md": README, "docs/source/zh.md": CHINESE, **other_presets}
    peers = replace(peers, repository=make_repository(tmp_path / "both", files))
    peers.model.replies["rewrite_translation"] = '{"query": "How do I change the signing key?"}'
    preset = ROOT / "config/presets/modelscope-qa.yaml"
    # The peer's vectors mean nothing: they would route at random.
    routing = ("--set", "knowledge.routing.enabled=false")
    configured = ("--config", str(preset), "--config", str(overlay(preset, peers, tmp_path)), *routing)
    await call(*configured, "ingest", "docs")
    reply = await call(*configured, "ask", question)
    assert {passage["path"] for passage in reply["passages"]} >= pages
    assert reply["cut"] == []


def test_the_auto_comment_bot_is_done_in_time() -> None:
    settings = load_settings([ROOT / "config/presets/olympic-bot.yaml"], (), {}, require_secrets=False)
    assert settings.budget.deadline_s <= 10
    assert settings.strategies.allowed == ("single",)
    news = settings.sources["news"]
    assert isinstance(news, SearchApiSource)
    patience_s = LIVE_TIME_SHARE * settings.budget.search * settings.budget.deadline_s
    assert patience_s >= news.timeout_s, "the search service is not left before its own time is over"
    budget = Budget(settings.budget)
    earlier_s = sum(budget.share(stage) for stage in ("rewrite", "route", "requery", "search", "rerank"))
    assert earlier_s <= 0.7 * settings.budget.deadline_s, "what is left is for writing"
