"""Chats with language models of their own: what is written there reaches these alone, whatever an answer needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bots.cli.chat_check import check_chat_models
from bots.daemon.bootstrap import App, make_live_settings, open_app
from core.answering.withholding import OutgoingFilter
from core.messaging.gate.second_opinion import Opinion, SecondOpinion
from core.settings import Settings
from core.storage.engine import Database
from core.storage.overrides import LiveSettings
from core.types import ConversationKey, Message, Question, Reply, Turn
from knowledge.ports import Store
from tests.support.fixtures import MemorySink
from tests.support.images import png
from tests.support.knowledge import WordEmbedder
from tests.support.peers.reranker import RerankPeer
from tests.support.scripted import ScriptedPeer

pytestmark = pytest.mark.usefixtures("time_lapse")

TEAM = ConversationKey("slack", "C1")
PUBLIC = ConversationKey("slack", "C2")
SECRET = "How is the walrus installed?"


@pytest.fixture
async def general() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer(write="From the provider [p1].") as peer:
        yield peer


@pytest.fixture
async def team() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer(write="From the cellar [p1].", see="A walrus.") as peer:
        yield peer


def endpoint(peer: ScriptedPeer, model: str = "m", **changes: object) -> dict[str, object]:
    return {"base_url": peer.base_url, "model": model, **changes}


def configure(tmp_path: Path, general: ScriptedPeer, team: dict[str, object], **changes: Any) -> Settings:
    (tmp_path / "docs").mkdir(exist_ok=True)
    (tmp_path / "docs" / "a.md").write_text("# Walrus\n\nThe walrus is installed with pip.")
    (tmp_path / "docs" / "b.md").write_text("# Seal\n\nHow a walrus and a seal are installed together is unknown.")
    values = {
        "data_dir": tmp_path / "data",
        "sources": {"docs": {"kind": "files", "path": tmp_path / "docs"}},
        "models": {"main": endpoint(general), "light": endpoint(general), "sets": {"team": team}},
        "chats": {str_key(TEAM): {"models": "team"}},
        **changes,
    }
    return Settings.model_validate(values)


def str_key(key: ConversationKey) -> str:
    return f"{key.platform}:{key.chat}"


@asynccontextmanager
async def opened(
    settings: Settings, store: Store, embedder: WordEmbedder, database: Database
) -> AsyncIterator[tuple[App, LiveSettings]]:
    live = make_live_settings(settings, database)
    async with open_app(settings, store=store, embedder=embedder, database=database, live=live) as app:
        await app.refresh()
        yield app, live


async def ask(app: App, key: ConversationKey | None, text: str = SECRET, **fields: Any) -> Reply:
    sink = MemorySink()
    sources = frozenset(app.settings.sources)
    await app.answer(Question(text, key=key, author_id="ann", visible_sources=sources, **fields), sink)
    return sink.replies[-1]


async def test_all_steps_of_an_answer_ask_the_models_of_its_chat_alone(
    tmp_path: Path, general: ScriptedPeer, team: ScriptedPeer, store: Store, embedder: WordEmbedder, database: Database
) -> None:
    strategies = {"allowed": ["single", "planning", "parallel"]}
    agents = {"docs": {"sources": ["docs"], "rewrites": ["retrieval", "hyde"], "compression": "model"}}
    models = {"main": endpoint(team), "vision": endpoint(team)}
    search = {"search": {"rerank": "model"}}
    changes: dict[str, Any] = {"strategies": strategies, "agents": agents, "knowledge": search}
    settings = configure(tmp_path, general, models, **changes, context={"select_min_tokens": 0})

    async def fetch() -> bytes:
        return png()

    history = (Turn("user", "Tell me of the walrus.", "Ann", "ann"), Turn("assistant", "It is big."))
    async with opened(settings, store, embedder, database) as (app, _):
        reply = await ask(app, TEAM, "And how is it installed?", history=history, image_loaders=(fetch,))
        assert reply.text == "From the cellar [1]."
        assert {"write", "see", "choose", "rewrite"} <= set(team.agents)
        assert general.requests == []
        assert (await ask(app, PUBLIC)).text == "From the provider [1]."
        assert (await ask(app, None)).text == "From the provider [1]."


async def test_a_set_that_fails_is_followed_by_quotes_and_never_by_another_model(
    tmp_path: Path, general: ScriptedPeer, team: ScriptedPeer, store: Store, embedder: WordEmbedder, database: Database
) -> None:
    team.failing = {"write"}
    settings = configure(tmp_path, general, {"main": endpoint(team)})
    async with opened(settings, store, embedder, database) as (app, _):
        reply = await ask(app, TEAM)
        assert "installed with pip" in reply.text
        assert team.sent("write")
        assert general.requests == []
        breakers = {item.client.base_url: item.circuit_breaker for item in app.models.deployments()}
        assert breakers[general.base_url] is not breakers[team.base_url]


async def test_a_set_without_models_quotes(
    tmp_path: Path, general: ScriptedPeer, store: Store, embedder: WordEmbedder, database: Database
) -> None:
    async with opened(configure(tmp_path, general, {}), store, embedder, database) as (app, _):
        assert "installed with pip" in (await ask(app, TEAM)).text
        assert general.requests == []


async def test_only_a_set_has_a_model_and_limits_count_it(
    tmp_path: Path, general: ScriptedPeer, team: ScriptedPeer, store: Store, embedder: WordEmbedder, database: Database
) -> None:
    models = {"sets": {"team": {"main": endpoint(team, price_prompt=1.0, price_completion=1.0)}}}
    settings = configure(tmp_path, general, {}, models=models, limits={"daily_tokens": None})
    assert settings.models.find_paid() == ["models.sets.team.main"]
    async with opened(settings, store, embedder, database) as (app, _):
        reply = await ask(app, TEAM)
        assert reply.text == "From the cellar [1]."
        assert sum(reply.trace.cost.values()) > 0
        assert "installed with pip" in (await ask(app, PUBLIC)).text
        service = app.answer_service
        assert service.usage_repository
        assert (await service.usage_repository.get_average()) is not None


async def test_an_answer_in_the_cache_is_one_of_the_chats_present_models(
    tmp_path: Path, general: ScriptedPeer, team: ScriptedPeer, store: Store, embedder: WordEmbedder, database: Database
) -> None:
    settings = configure(tmp_path, general, {"main": endpoint(team)}, cache={"enabled": True})
    async with opened(settings, store, embedder, database) as (app, live):
        assert (await ask(app, TEAM)).text == "From the cellar [1]."
        assert (await ask(app, TEAM)).trace.cached
        reloaded = await live.reload(settings.model_copy(update={"chats": {}}))
        assert reloaded.live == ["chats"]
        reply = await ask(app, TEAM)
        assert (reply.text, reply.trace.cached) == ("From the provider [1].", False)


async def test_a_reranker_elsewhere_is_not_asked_where_all_models_are_local(
    tmp_path: Path, general: ScriptedPeer, team: ScriptedPeer, store: Store, embedder: WordEmbedder, database: Database
) -> None:
    # Nobody can be reached there: whoever asks is degraded.
    search = {"search": {"rerank": "api", "reranker": {"url": "http://rerank.invalid/v2/rerank"}}}
    settings = configure(tmp_path, general, {"main": endpoint(team)}, knowledge=search)
    async with opened(settings, store, embedder, database) as (app, _):
        assert "rerank" not in (await ask(app, TEAM)).trace.degraded
        assert "rerank" in (await ask(app, PUBLIC)).trace.degraded


async def test_a_local_reranker_is_asked_everywhere(
    tmp_path: Path, general: ScriptedPeer, team: ScriptedPeer, store: Store, embedder: WordEmbedder, database: Database
) -> None:
    async with RerankPeer(lambda _query, _text: 0.5) as reranker:
        search = {"search": {"rerank": "api", "reranker": {"url": reranker.address("cohere")}}}
        settings = configure(tmp_path, general, {"main": endpoint(team)}, knowledge=search)
        async with opened(settings, store, embedder, database) as (app, _):
            await ask(app, TEAM)
            await ask(app, PUBLIC)
            assert len(reranker.bodies) == 2


async def test_whether_to_speak_is_judged_by_the_models_of_the_chat(
    tmp_path: Path, general: ScriptedPeer, team: ScriptedPeer, store: Store, embedder: WordEmbedder, database: Database
) -> None:
    team.replies["second_opinion"] = '{"reason": "p1 says it", "action": "answer"}'
    settings = configure(tmp_path, general, {"main": endpoint(team)})
    async with opened(settings, store, embedder, database) as (app, live):
        service = app.answer_service
        assert service.quota_limiter
        assert service.usage_repository
        second_opinion = SecondOpinion(live, service.deps, service.quota_limiter, service.usage_repository)
        message = Message("1", TEAM, "ann", "Ann", SECRET, datetime.now(UTC))
        assert await second_opinion.ask(message, (), ()) == Opinion(should_speak=True, reason="p1 says it")
        assert team.agents == ["second_opinion"]
        assert general.requests == []


async def test_chats_wait_for_a_restart_with_models_that_are_not_open(
    tmp_path: Path, general: ScriptedPeer, team: ScriptedPeer, database: Database
) -> None:
    settings = configure(tmp_path, general, {"main": endpoint(team)}, chats={})
    named = {str_key(TEAM): {"models": "team"}}
    live = make_live_settings(settings, database)
    # What is called `team` in the file now is not what is called so here.
    other = configure(tmp_path, general, {"main": endpoint(general)}, chats=named)
    assert (await live.reload(other)).restart == ["models", "chats"]
    assert live.settings.chats == {}
    same = configure(tmp_path, general, {"main": endpoint(team)}, chats=named)
    assert (await live.reload(same)).live == ["chats"]
    assert live.settings.with_models_of(str_key(TEAM)).models.main == settings.models.sets["team"].main


def test_unknown_sets_are_refused_and_settings_without_models_have_none(tmp_path: Path) -> None:
    models = {"sets": {"team": {}}}
    with pytest.raises(
        ValueError, match=r"chats.slack:C1.models: no set of models.sets is named 'tem' \(known: team\)"
    ):
        Settings.model_validate({"models": models, "chats": {"slack:C1": {"models": "tem"}}})
    settings = Settings.model_validate({"models": models, "chats": {"slack:C1": {"models": "team"}}})
    assert settings.without_models().with_models_of("slack:C1").models.main is None


@pytest.mark.parametrize(
    ("address", "is_left_out"), [("https://api.example.org/v1", True), ("http://localhost:8000/v1", False)]
)
async def test_a_moderation_elsewhere_judges_no_chat_with_local_models(address: str, *, is_left_out: bool) -> None:
    outgoing = {"words": ["walrus"], "moderation": {"base_url": address, "platforms": ["slack"]}}
    local = {"base_url": "http://localhost:1/v1", "model": "m"}
    remote = {"base_url": "https://api.example.org/v1", "model": "m"}
    models = {"main": remote, "sets": {"team": {"main": local}, "guests": {"main": remote}}}
    chats = {"slack:C1": {"models": "team"}, "slack:C3": {"models": "guests"}}
    settings = Settings.model_validate({"models": models, "chats": chats, "outgoing": outgoing})
    judges = []
    for chat in ("slack:C1", "slack:C2", "slack:C3"):
        outgoing_filter = OutgoingFilter.open(settings.outgoing)
        own_filter = replace(outgoing_filter, settings=settings.with_models_of(chat).outgoing)
        judges.append(own_filter.get_judge("slack"))
        await outgoing_filter.close()
    assert [judge.moderator is None for judge in judges] == [is_left_out, False, False]
    assert all(judge.words for judge in judges)
    findings = [finding for finding in check_chat_models(settings) if finding.level == "warning"]
    assert [finding.subject for finding in findings] == (["chats.slack:C1.models"] if is_left_out else [])


def test_check_says_what_else_reads_a_chat_and_which_set_nobody_uses() -> None:
    local = {"base_url": "http://localhost:1/v1", "model": "m"}
    embedding = {"provider": "openai", "base_url": "https://e.example.org/v1", "model": "e", "dimension": 3}
    search = {"kind": "search_api", "provider": "searxng", "base_url": "https://s.example.org"}
    settings = Settings.model_validate(
        {
            "models": {"sets": {"team": {"main": local}, "spare": {}}},
            "chats": {"slack:C1": {"models": "team"}},
            "knowledge": {"embedding": embedding},
            "sources": {"web": search, "docs": {"kind": "files", "path": "docs"}},
        }
    )
    texts = [f"{finding.level} {finding.subject}: {finding.text}" for finding in check_chat_models(settings)]
    assert texts == [
        "ok chats.slack:C1.models: team: m answers; no language model outside of your network reads this chat",
        "warning chats.slack:C1.models: questions of this chat still go to knowledge.embedding, "
        "https://e.example.org/v1 (its other providers run on this machine); the live source web (leave it out in the "
        "chat's sources)",
        "warning models.sets.spare: no chat uses it: name it in chats.CHAT.models",
    ]


@pytest.mark.parametrize(("team_models", "is_warned"), [("", True), ("local", False), ("remote", True)])
def test_check_says_that_drafts_go_where_another_model_reads(team_models: str, *, is_warned: bool) -> None:
    local = {"base_url": "http://localhost:1/v1", "model": "m"}
    remote = {"base_url": "https://api.example.org/v1", "model": "m"}
    chats = {"slack:C1": {"models": "local", "mode": "draft", "drafts_to": "slack:C2"}}
    if team_models:
        chats["slack:C2"] = {"models": team_models}
    models = {"main": remote, "sets": {"local": {"main": local}, "remote": {"main": remote}}}
    settings = Settings.model_validate({"models": models, "chats": chats})
    texts = [finding.text for finding in check_chat_models(settings) if "still go to" in finding.text]
    expected = "questions of this chat still go to the models of slack:C2, where its drafts are decided about"
    assert [text.partition(" (")[0] for text in texts] == [expected] * is_warned
