"""The three deployments of the KIMAs report, from their presets: right file, agents asked, calls, prompt tokens.

Everything of a preset stays as it is written, but for what cannot be had here: repositories are clones of those that
the preset names; the documentation site of AgentScope is the one that its branch `gh-pages` holds, on the loopback;
the embedding model `multilingual` stands for a service, the fused order for a service that reranks, a peer for a search
engine. The language model is scripted: it echoes what it is asked to rephrase, keeps the order of passages and gives
the translation that stands beside a question, so that every call counts and none helps. What a search engine finds
stands beside the questions that it is to answer. Large documents that no question is about are left out.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import statistics
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import App, open_app
from core.settings import Settings
from core.settings.loader import load_settings
from core.settings.yaml_file import read_yaml
from core.types import Question
from tests.lab.quality._retrieval import RememberingEmbedder
from tests.lab.quality.figures import Figure
from tests.support.peers.web import KEY, Hit, Page, WebPeer
from tests.support.scripted import Body, ScriptedPeer

QUESTIONS = Path(__file__).with_name("deployment_questions.jsonl")
PRESETS = Path(__file__).resolve().parents[3] / "config/presets"
TAG = "quality"
# What each repository is read at.
COMMITS = {
    "agentscope-ai/agentscope": "da00849f2c3db60b16edaf2371ae1d863f341ae2",
    "modelscope/modelscope": "2905da12205410de83f2fcdaabb4b505430890d5",
    "modelscope/ms-swift": "3602360a562313afbf2ef6065fdf61f271a2c5b9",
    "modelscope/evalscope": "fde259d2",
    "modelscope/ms-agent": "c9dbd489",
    "modelscope/FunASR": "3c58cb56a",
}
REPOSITORIES = tuple(COMMITS)
SITE_REPOSITORY = "agentscope-ai/agentscope"
SITE_BRANCH = "gh-pages"
# Embedding takes minutes: what no question is about is left out where there is much of it.
LEFT_OUT = (
    # A page for each benchmark, model or method, and plans.
    "**/benchmarks/**",
    "**/third_party/**",
    "**/best_practice/**",
    "**/supported_dataset/**",
    "**/AdvancedResearch/**",
    "**/Megatron-SWIFT/**",
    "**/Supported-models-and-datasets.md",
    *(f"**/BestPractices/{name}*" for name in ("AMD", "Elastic", "GRPO-", "Metax", "More", "Qwen3", "Rapidly", "deep")),
    *(f"**/Instruction/{name}.md" for name in ("Agent-support", "Distillation", "Reinforced-Fine-tuning", "Sample")),
    *(f"**/advanced_guides/{name}" for name in ("add_benchmark.md", "collection/**", "custom_dataset/vlm.md")),
    *(f"**/user_guides/{name}" for name in ("agent/**", "aigc/image_edit.md", "backend/*.md", "**/examples.md")),
    *(f"**/rageval_backend/{name}.md" for name in ("clip_benchmark", "mteb")),
    "**/get_started/visualization.md",
    "**/experiments/**",
    "**/m2met2/**",
    *(
        f"/docs/{name}*"
        for name in ("benchmark", "community_", "operations", "repository_roles", "tutorial", "use_case")
    ),
    # The Chinese half of what is in both languages, which the built-in embedding model does not know.
    *(f"/docs/source/{name}/**" for name in ("BestPractices", "Customization", "GetStarted", "Instruction")),
    "/docs/zh/**",
    # A module for each provider, and what is behind the service.
    *(f"/src/agentscope/{name}/**" for name in ("formatter", "model", "tts", "credential", "state", "event", "agent")),
    *(f"/src/agentscope/{name}/**" for name in ("console", "message", "skill", "types", "tool/_builtin")),
    *(f"/src/agentscope/app/{name}/**" for name in ("storage", "_service", "_manager", "message_bus", "_tool")),
    *(f"/src/agentscope/app/{name}/**" for name in ("workspace_manager", "rag", "hub", "middleware")),
    *(f"/src/agentscope/app/channel/_{name}/**" for name in ("feishu", "discord")),
    "/src/agentscope/app/channel/_*.py",
    *(f"/src/agentscope/middleware/_{name}/**" for name in ("longterm_memory", "tracing")),
    "/src/agentscope/rag/_vdb/**",
    *(f"/src/agentscope/workspace/_{name}/**" for name in ("bubblewrap", "k8s", "e2b", "daytona", "opensandbox")),
    "/src/agentscope/workspace/_applecontainer/**",
    "/src/agentscope/workspace/_*.py",
    "/examples/web_ui/**",
)
DEPLOYMENTS = ("agentscope-qa", "modelscope-qa", "olympic-bot")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one question led to."""

    id: str
    is_right: bool
    agent_count: int
    call_count: int
    search_count: int
    prompt_tokens: int
    first_token_ms: float


def build(mirror: Path, data: Path) -> None:
    for repository, commit in COMMITS.items():
        clone = data / f"{repository.replace('/', '+')}.git"
        shutil.rmtree(clone, ignore_errors=True)
        origin = mirror / repository.replace("/", "+") / "repo"
        subprocess.run(["git", "clone", "-q", "--bare", str(origin), str(clone)], check=True)
        subprocess.run(["git", f"--git-dir={clone}", "tag", TAG, commit], check=True)
    site = data / "site"
    shutil.rmtree(site, ignore_errors=True)
    site.mkdir()
    clone = data / f"{SITE_REPOSITORY.replace('/', '+')}.git"
    archive = subprocess.run(
        ["git", f"--git-dir={clone}", "archive", SITE_BRANCH, "index.html", "tutorial", "zh_CN/tutorial"],
        check=True,
        capture_output=True,
    )
    subprocess.run(["tar", "-x", "-C", str(site)], input=archive.stdout, check=True)


def measure(data: Path) -> list[Figure]:
    return asyncio.run(measure_presets(data, PRESETS))


async def measure_presets(data: Path, presets: Path) -> list[Figure]:
    """Read each deployment anew, ask its questions, print a table, and return the figures."""
    questions = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    outcomes: dict[str, list[Outcome]] = {}
    async with ScriptedPeer() as model, WebPeer() as web:
        _serve_site(data / "site", web)
        for name in DEPLOYMENTS:
            asked = [question for question in questions if question["deployment"] == name]
            settings = make_settings(data, presets / f"{name}.yaml", model, web)
            shutil.rmtree(settings.data_dir, ignore_errors=True)
            model.replies |= _script(asked)
            embedder = await RememberingEmbedder.open(data, settings.knowledge.embedding)
            try:
                async with open_app(settings, embedder=embedder) as app:
                    result = await app.refresh()
                    assert not result.failures, result.failures
                    await app.warm_up()
                    outcomes[name] = [await _ask(question, app, model, web) for question in asked]
            finally:
                await embedder.close()
    (data / "outcomes.json").write_text(
        json.dumps({o.id: [o.is_right, o.agent_count] for name in outcomes for o in outcomes[name]}, indent=1), "utf-8"
    )
    _print(outcomes)
    figures = []
    for name, rows in outcomes.items():
        figures.append(Figure(f"{name}: right file among the passages", _mean(o.is_right for o in rows), 0.85))
        chinese = [o.is_right for o in rows if "-zh-" in o.id]
        figures.append(Figure(f"{name}: the same, Chinese", sum(chinese) / len(chinese), 0.85))
    return figures


def make_settings(data: Path, preset: Path, model: ScriptedPeer, web: WebPeer) -> Settings:
    """Return the settings of a preset whose addresses lead to clones and peers."""
    written: Any = read_yaml(preset).data
    key_file = data / "key"
    key_file.write_text(KEY, "utf-8")
    key_file.chmod(0o600)
    secret = {"file": str(key_file)}
    changes: dict[str, Any] = {"data_dir": str(data / preset.stem), "sources": {}, "models": {}}
    change: dict[str, Any]
    for name, source in written["sources"].items():
        if source["kind"] == "git":
            repository = source["url"].removeprefix("https://github.com/").removesuffix(".git")
            clone = str(data / f"{repository.replace('/', '+')}.git")
            change = {"url": clone, "branch": TAG, "exclude": [*source.get("exclude", ()), *LEFT_OUT]}
        elif source["kind"] == "website":
            change = {"url": web.url("/index.html"), "delay_s": 0, "include": [], "allow_private": ["127.0.0.1"]}
        elif source["kind"] == "search_api":
            change = {"base_url": web.url("/tavily"), "api_key": secret, "allow_private": ["127.0.0.1"]}
        elif source["kind"] == "http_api":
            change = {"url": web.url("/models"), "allow_private": ["127.0.0.1"]}
        else:
            change = {}
        changes["sources"][name] = change
    for role in written["models"]:
        changes["models"][role] = {"base_url": model.base_url, "api_key": secret}
        for fallback in written["models"][role].get("fallbacks", {}):
            changes["models"][role]["fallbacks"] = {fallback: {"base_url": model.base_url, "api_key": secret}}
    # In place of services.
    knowledge = written.get("knowledge", {})
    search = {"rerank": "embedding"} if "search" in knowledge else {}
    changes["knowledge"] = {"embedding": {"provider": "multilingual" if "embedding" in knowledge else "local"}}
    changes["knowledge"]["search"] = search
    changes["cache"] = {"enabled": False}
    overlay = data / f"{preset.stem}.json"
    overlay.write_text(json.dumps(changes), "utf-8")
    return load_settings([preset, overlay], (), {}, require_secrets=False)


def _serve_site(folder: Path, web: WebPeer) -> None:
    for file in folder.rglob("*.html"):
        web.pages[f"/{file.relative_to(folder)}"] = Page(file.read_bytes())
    places = "".join(f"<url><loc>{web.url(path)}</loc></url>" for path in web.pages)
    sitemap = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>'
    web.pages["/sitemap.xml"] = Page(sitemap, headers={"Content-Type": "application/xml"})
    found = {"data": {"models": [{"name": "lab/model", "description": "A model.", "url": "https://example.org/m"}]}}
    web.pages["/models"] = Page(json.dumps(found), headers={"Content-Type": "application/json"})


def _script(questions: list[dict[str, Any]]) -> Mapping[str, Any]:
    translations = {question["question"]: question.get("translation", "") for question in questions}

    def get_subject(body: Body) -> str:
        message = re.search(r"<(?:question|query)[^>]*>\n?(.*?)\n?</", body["messages"][-1]["content"], re.DOTALL)
        assert message is not None
        return message[1].strip()

    def quote_first(body: Body) -> str:
        found = re.search(r'<passage id="(p\d+)"[^>]*>\n(.*?)\n</passage>', body["messages"][-1]["content"], re.DOTALL)
        return f"{found[2].splitlines()[-1].strip(' .')} [{found[1]}]." if found else "Nothing is known [p0]."

    def reply_with(key: str, value: Any) -> str:
        return json.dumps({key: value}, ensure_ascii=False)

    def keep_order(body: Body) -> str:
        return reply_with("order", re.findall(r'<passage id="(p\d+)"', body["messages"][-1]["content"]))

    return {
        "choose": '{"strategy": "single"}',
        "rerank": keep_order,
        "rewrite_prompt": lambda body: reply_with("query", get_subject(body)),
        "rewrite_keyword": lambda body: reply_with("terms", get_subject(body).split()[:8]),
        "rewrite_translation": lambda body: reply_with(
            "query", translations.get(get_subject(body)) or get_subject(body)
        ),
        "write": quote_first,
    }


async def _ask(question: dict[str, Any], app: App, model: ScriptedPeer, web: WebPeer) -> Outcome:
    model.requests.clear()
    web.bodies.clear()
    title, text = question.get("found", ("Found", "What the search engine found."))
    web.hits = [Hit(title, "https://example.org/found", text)]
    reply = await app.answer(Question(question["question"]), SilentSink())
    places = {f"/{passage.path}" for passage in reply.passages} | {f"/source:{p.source}" for p in reply.passages}
    return Outcome(
        question["id"],
        any(place.endswith(f"/{file}") for place in places for file in question["files"]),
        len(reply.trace.agents),
        len(model.requests),
        len(web.bodies),
        sum(count for name, count in reply.trace.tokens.items() if name.endswith(".prompt")),
        reply.trace.timings_ms.get("first_token", 0.0),
    )


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def _print(outcomes: Mapping[str, list[Outcome]]) -> None:
    table = Table("deployment", "right file", "agents asked", "calls", "searches", "prompt tokens", "first token, ms")
    for name, rows in outcomes.items():
        table.add_row(
            name,
            f"{_mean(o.is_right for o in rows):.2f}",
            f"{_mean(o.agent_count for o in rows):.2f}",
            f"{_mean(o.call_count for o in rows):.2f}",
            f"{_mean(o.search_count for o in rows):.2f}",
            f"{_mean(o.prompt_tokens for o in rows):.0f}",
            f"{max(o.first_token_ms for o in rows):.0f}",
        )
    Console().print(table)
