"""What a conversation costs: first token of a follow-up's answer less the main model's, beside a whole rewrite call.

The peer writes what a prompt asks it for, at 300 ms to the first token and 50 tokens a second. The whole rewrite call
is that of a loop by hand: the model writes the complete question, which is searched then.
"""

from __future__ import annotations

import time
from pathlib import Path

from bots.daemon.bootstrap import open_app
from core.answering.pipeline import answer
from core.runtime.budget import Budget
from core.settings.loader import load_settings
from core.types import Question, Turn
from tests.lab.benchmarks.corpus import ingested
from tests.lab.benchmarks.figures import Figure, median, percentile
from tests.lab.benchmarks.line import RATE, TTFT_S, StopWatch
from tests.lab.comparison.contract import REWRITE_PROMPT
from tests.support.deployment import Deployment
from tests.support.peers.language_model import Body, LanguageModelPeer
from tests.support.peers.rewriting import REWRITE_MARK, to_rewrite_reply

ROUNDS = 3
REWRITES = {
    "How do I change it?": "How do I change the timeout of requests that a session makes?",
    "Does it work with a proxy?": "Does the timeout of requests in a session work with a proxy?",
    "What happens when they fail?": "What happens when requests of a session fail because of the timeout?",
    "And what is the default?": "What is the default timeout of the requests that a session makes?",
}
ALONE = "How does a session keep cookies and connections between several requests to one host?"
HISTORY = (
    Turn("user", "How do I set a timeout for requests in a session?"),
    Turn("assistant", "Pass `timeout` with each of the requests, in seconds [1]."),
    Turn("user", "Which license does it have?"),
    Turn("assistant", "See the license file [1]."),
)
SELECTION = "1, 2\nThe asker wants to know more about the timeout of requests in a session."


def reply_to(body: Body) -> str:
    """Reply as a capable light model does, and as a brief main model."""
    system = body["messages"][0]["content"]
    content = body["messages"][-1]["content"]
    if REWRITE_MARK in system or REWRITE_PROMPT in system:
        question, rewrite = next((pair for pair in REWRITES.items() if pair[0] in content), (ALONE, ALONE))
        return to_rewrite_reply(question, rewrite) if REWRITE_MARK in system else rewrite
    return SELECTION if "indices_of_related_messages" in system else "The timeout is set with each request [p1]."


async def measure(folder: Path) -> list[Figure]:
    source_settings = ingested(folder)
    async with LanguageModelPeer(reply=reply_to, ttft_s=TTFT_S, tokens_per_s=RATE) as peer:
        deployment = Deployment(
            folder, {**source_settings, "models": {"main": {"base_url": peer.base_url, "model": "peer"}}}
        )
        async with open_app(load_settings([deployment.config])) as app:
            model = app.deps.model
            assert model is not None
            await answer(Question(ALONE), StopWatch(), app.deps)
            leaning: list[float] = []
            for question in [*REWRITES] * ROUNDS:
                started_at = time.perf_counter()
                turns = [Turn("user", question)]
                budget = Budget(app.deps.settings.budget)
                await model.complete(REWRITE_PROMPT, turns, role="light", budget=budget)
                whole_s = time.perf_counter() - started_at
                watch = StopWatch()
                await answer(Question(question, HISTORY), watch, app.deps)
                leaning.append((watch.first_ms / 1000 - TTFT_S) / whole_s)
            alone_ms: list[float] = []
            for _ in range(ROUNDS):
                watch = StopWatch()
                await answer(Question(ALONE, HISTORY), watch, app.deps)
                alone_ms.append((watch.first_ms / 1000 - TTFT_S) / whole_s)
    return [
        Figure("history: first token less the model's, of a whole rewrite call, p50", 100 * median(leaning), "%", 40),
        Figure("history: the same, worst", 100 * percentile(leaning, 1), "%"),
        Figure("history: the same of a question that stands alone, p50", 100 * median(alone_ms), "%", 40),
    ]
