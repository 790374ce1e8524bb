"""What a question costs with each preset: calls, searches, prompt tokens, and those of the main model.

    python -m tests.lab.preset_costs [PRESET ...]

Twelve questions (six short ones, two long and chatty ones, two comparisons, a follow-up, thanks) about six pages of the
guide, which stand for whatever a preset reads. The model is scripted: it replies to every call, and names half of the
passages that it is to order. docs/decisions.md has the figures.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import open_app
from core.settings import Settings
from core.settings.loader import load_settings
from core.settings.yaml_file import read_yaml
from core.types import Question, Turn
from knowledge.ports import Embedder
from tests.lab.quality._retrieval import RememberingEmbedder
from tests.support.deployment import make_repository
from tests.support.peers.web import KEY, Hit, Page, WebPeer
from tests.support.scripted import Body, ScriptedPeer

ROOT = Path(__file__).resolve().parents[2]
PRESETS = sorted((ROOT / "config/presets").glob("*.yaml"))
PAGES = ("answering", "groups", "install", "http", "slack", "models")
# Where the presets look for pages; the last three hold two of them.
FOLDERS = ("docs", "docs/source", "docs/tutorial", "docs/en")
CODE = '"""A server."""\n\ndef serve(port: int = 8000) -> None:\n    """Listen on a port."""\n'
CHATTY = (
    "Hi all, my boss wants a bot for our group until {day} and my colleague Lisa thinks that it must not speak all the "
    "time, since people hate that, and I have no idea: how do I make it answer only when somebody asks it directly?"
)
FOUND = "Result {} of the search engine says something about bots, groups and servers in two sentences. So it is."
LONG_CHARS = 150
ENOUGH_SEARCHES = 4
QUESTIONS = (
    Question("How do I install it?"),
    Question("Which port does the HTTP server listen on?"),
    Question("What does the option min_fit do?"),
    Question("How is a question routed to an agent?"),
    Question("How do I reload the configuration?"),
    Question("Where are the logs?"),
    Question(CHATTY.format(day="Friday")),
    Question(CHATTY.format(day="Monday")),
    Question("Compare the strategies parallel and planning: calls and purpose?"),
    Question("What is the difference between Telegram groups and Slack channels for the bot?"),
    Question(
        "And for Slack?",
        (Turn("user", "How do I create the app for Telegram?"), Turn("assistant", "Talk to BotFather [1].")),
    ),
    Question("thanks!"),
)


def get_request(body: Body) -> str:
    return str(body["messages"][-1]["content"])


def get_subject(body: Body) -> str:
    found = re.search(r"<(?:question|query)[^>]*>\n?(.*?)\n?</", get_request(body), re.DOTALL)
    assert found is not None
    return found[1].strip()


def get_ids(body: Body) -> list[str]:
    return re.findall(r'<passage id="(p\d+)"', get_request(body))


def choose(body: Body) -> str:
    question = get_subject(body)
    if len(question) > LONG_CHARS:
        return json.dumps({"strategy": "single", "query": "answer only when addressed"})
    if "ompare" in question or "difference" in question:
        is_allowed = ". parallel: " in body["messages"][0]["content"]
        return json.dumps({"strategy": "parallel" if is_allowed else "planning"})
    return json.dumps({"strategy": "single"})


def order(body: Body) -> str:
    ids = get_ids(body)
    return json.dumps({"order": ids[: (len(ids) + 1) // 2]})


def decide(body: Body) -> str:
    if get_request(body).count("searched:") >= ENOUGH_SEARCHES:
        return json.dumps({"quality": "good", "action": "answer"})
    reason = "one part is missing"
    return json.dumps({"quality": "poor", "reason": reason, "action": "search", "query": "what each costs"})


def search_once(body: Body) -> str:
    return "[answer]" if "<evidence>" in str(body["messages"]) else f"[retrieve_knowledge: {get_subject(body)}]"


def quote_first(body: Body) -> str:
    found = re.search(r'<passage id="(p\d+)"[^>]*>\n(.*?)\n</passage>', get_request(body), re.DOTALL)
    return f"{found[2].splitlines()[-1].strip(' .')} [{found[1]}]." if found else "Nothing is known [p0]."


REPLIES: dict[str, Any] = {
    "choose": choose,
    "split": '{"questions": ["strategy parallel calls", "strategy planning calls"]}',
    "plan": '{"steps": ["strategy parallel", "strategy planning"]}',
    "filter": lambda body: json.dumps({"keep": get_ids(body)[:3], "missing": "what it costs"}),
    "decide": decide,
    "react": search_once,
    "rerank": order,
    "rewrite": "+ Telegram app",
    "context": "1, 2\nThe asker wants the same for Slack.",
    "rewrite_prompt": lambda body: json.dumps({"query": get_subject(body)}),
    "rewrite_keyword": lambda body: json.dumps({"terms": get_subject(body).split()[:6]}),
    "rewrite_translation": lambda body: json.dumps({"query": get_subject(body)}),
    "look_back": "1: p1",
    "write": quote_first,
    "talk": "You are welcome.",
}


def make_pages(folder: Path) -> Path:
    """Return a repository with the pages, and some code, in all places where the presets look for them."""
    files = {"README.md": "# KIMAs\n\nA bot that answers from knowledge.\n"}
    for place in FOLDERS:
        names = PAGES if place == FOLDERS[0] else ("answering", "install")
        files |= {f"{place}/{name}.md": (ROOT / f"docs/{name}.md").read_text("utf-8") for name in names}
    for path in ("src/agentscope/agent/server.py", "src/agentscope/app/server.py", "examples/serve.py"):
        files[path] = CODE
    return make_repository(folder, files)


def make_settings(preset: Path, folder: Path, repository: Path, model: ScriptedPeer, web: WebPeer) -> Settings:
    """Return the settings of a preset whose addresses lead to the repository and the peers."""
    written: Any = read_yaml(preset).data
    key = folder / "key"
    key.write_text(KEY, "utf-8")
    key.chmod(0o600)
    secret = {"file": str(key)}
    kinds: dict[str, Any] = {
        "git": {"url": str(repository)},
        "search_api": {"base_url": web.url("/tavily"), "api_key": secret, "allow_private": ["127.0.0.1"]},
        "website": {"url": web.url("/"), "include": [], "delay_s": 0, "allow_private": ["127.0.0.1"]},
    }
    endpoint = {"base_url": model.base_url, "api_key": secret}
    models = {
        role: endpoint | {"fallbacks": dict.fromkeys(values.get("fallbacks", {}), endpoint)}
        for role, values in written["models"].items()
    }
    search = {"rerank": "embedding"} if written.get("knowledge", {}).get("search", {}).get("rerank") == "api" else {}
    changes = {
        "data_dir": str(folder / preset.stem),
        "sources": {name: kinds.get(source["kind"], {}) for name, source in written["sources"].items()},
        "models": models,
        "knowledge": {"embedding": {"provider": "local"}, "search": search},
        "cache": {"enabled": False},
    }
    overlay = folder / f"{preset.stem}.json"
    overlay.write_text(json.dumps(changes), "utf-8")
    return load_settings([preset, overlay], (), {}, require_secrets=False)


async def measure(preset: Path, folder: Path, repository: Path, embedder: Embedder) -> dict[str, float]:
    """Return the means over the questions: calls, searches, prompt tokens, and those of the main model."""
    rows: list[dict[str, float]] = []
    async with ScriptedPeer() as model, WebPeer() as web:
        model.api_key = KEY
        model.replies |= REPLIES
        web.hits = [Hit(f"Found {number}", f"https://e.org/{number}", FOUND.format(number)) for number in range(6)]
        web.pages["/"] = Page("<title>Guide</title><main><h1>Guide</h1><p>The server listens on port 8000.</p></main>")
        async with open_app(make_settings(preset, folder, repository, model, web), embedder=embedder) as app:
            result = await app.refresh()
            assert not result.failures, result.failures
            await app.warm_up()
            for question in QUESTIONS:
                model.requests.clear()
                web.bodies.clear()
                tokens = (await app.answer(question, SilentSink())).trace.tokens
                rows.append(
                    {
                        "calls": len(model.requests),
                        "searches": len(web.bodies),
                        "prompt tokens": sum(count for name, count in tokens.items() if name.endswith(".prompt")),
                        "main model": tokens.get("summarizer.prompt", 0),
                    }
                )
    return {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}


async def main(names: Sequence[str]) -> None:
    table = Table("preset", "calls", "searches", "prompt tokens", "main model")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        repository = make_pages(folder / "pages")
        # All presets read the same pages.
        embedder = await RememberingEmbedder.open(folder)
        for preset in PRESETS:
            if preset.stem in names or not names:
                means = await measure(preset, folder, repository, embedder)
                calls = (f"{means[key]:.2f}" for key in ("calls", "searches"))
                tokens = (f"{means[key]:,.0f}" for key in ("prompt tokens", "main model"))
                table.add_row(preset.stem, *calls, *tokens)
        await embedder.close()
    Console().print(table)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
