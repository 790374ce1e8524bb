"""Evidence fits the model that reads it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.answering.pipeline import answer
from core.evidence.rendering import max_length_within, render_to_budget
from core.language.tokens import estimate_tokens
from core.llm.role_models import RoleChatModel
from core.settings import ModelsSettings
from core.types import Passage, Question
from tests.support.fixtures import InMemoryLibrary, MemorySink, parts, passage, settings
from tests.support.scripted import ScriptedPeer

LIGHT_TOKENS = 600
MAIN_TOKENS = 6000
# About 700 tokens each.
LONG = [
    passage(name, f"The memory module of part {name} stores messages. " + "It keeps them in a database on disk. " * 75)
    for name in ("one", "two", "three")
]
QUESTION = Question("What does the memory module store?")


def test_short_passages_stay_whole_and_long_ones_share_what_is_left() -> None:
    assert max_length_within([10, 20, 30], 60) == 30
    assert max_length_within([10, 500, 500], 210) == 100
    assert max_length_within([], 100) > 0
    assert max_length_within([500, 500], -20) > 0


@pytest.mark.parametrize("tokens", [300, 1000, 10_000])
def test_the_context_fits_with_its_headers(tokens: int) -> None:
    rendered = render_to_budget([*LONG, passage("short", "Short.")], tokens)
    assert "\nShort.\n" in rendered
    # What ends a passage is not counted, and a cut leaves its mark.
    assert estimate_tokens(rendered) <= tokens + 4 * 6
    assert render_to_budget(LONG, 10_000, max_passage_tokens=50).count(" …\n") == len(LONG)


def evidence_in(messages: Sequence[dict[str, str]]) -> int:
    """Return the tokens of all evidence in a conversation."""
    fences = [part for message in messages for part in message["content"].split("<evidence>")[1:]]
    return sum(estimate_tokens(part.split("</evidence>")[0]) for part in fences)


@pytest.mark.parametrize(
    ("strategy", "agents"),
    [("planning", {"filter", "decide", "compress", "look_back"}), ("react", {"react", "compress"})],
)
async def test_the_light_model_gets_what_fits_it_and_the_main_one_all(strategy: str, agents: set[str]) -> None:
    searches = iter(["[search: memory module]", "[search: messages database]", "[search: disk memory]", "[answer]"])
    replies = {
        "write": "It stores messages.",
        "look_back": "1: p1",
        "plan": '["memory messages"]',
        "filter": '{"keep": "all", "missing": "everything"}',
        "decide": "[answer]",
        "compress": "Nothing to say.",
        "rerank": '["p1", "p2", "p3"]',
        "react": lambda _body: next(searches),
    }
    async with ScriptedPeer(**replies) as peer:
        configured = ModelsSettings.model_validate(
            {
                "main": {"base_url": peer.base_url, "model": "large", "context_tokens": MAIN_TOKENS},
                "light": {"base_url": peer.base_url, "model": "small", "context_tokens": LIGHT_TOKENS},
            }
        )
        chat_model = RoleChatModel.open(configured)
        assert chat_model is not None
        configuration = settings(
            models=configured.model_dump(),
            agents={"docs": {"sources": ["docs"], "compression": "model"}},
            strategies={"allowed": [strategy], "default": strategy},
            knowledge={"search": {"rerank": "model"}},
        )
        reply = await answer(QUESTION, MemorySink(), parts(InMemoryLibrary(LONG), chat_model, configuration))
        await chat_model.close()
        token_counts = {agent: max(evidence_in(body["messages"]) for body in peer.sent(agent)) for agent in agents}
        prompt = evidence_in(peer.sent("write")[0]["messages"])
    assert {item.id for item in reply.passages} == {item.id for item in LONG}
    # Names in headers and ends of passages weigh a little.
    assert {agent: tokens for agent, tokens in token_counts.items() if tokens > LIGHT_TOKENS * 1.1} == {}
    assert min(token_counts.values()) > LIGHT_TOKENS * 0.4
    assert prompt > 2000


def test_a_model_alone_reads_for_both_roles() -> None:
    model = {"base_url": "http://localhost:1", "model": "one", "context_tokens": 77}
    for role in ("main", "light"):
        configuration = settings(models={role: model})
        assert (configuration.evidence_tokens(), configuration.evidence_tokens("light")) == (77, 77)
    assert isinstance(LONG[0], Passage)
