"""What may not leave does not, on any way out: real wiring, a scripted model, a strict moderation over a socket."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner
from sqlalchemy import text as sql

from bots.api.mcp.knowledge import Knowledge
from bots.api.mcp.server import RUN_TOOLS
from bots.cli.main import main
from bots.cli.probes import make_probes, run_probe
from bots.daemon.bootstrap import open_app
from core.settings import OutgoingSettings, Settings
from core.storage.messages import Journal
from core.types import Citation, ConversationKey, FeedEntry, Message, Reply
from core.types.replies import SearchRound, Trace
from knowledge.parsing.parser import ThreadParser
from tests.support.api_helpers import CLIENTS, WEBUI, served, set_tokens
from tests.support.fixtures import INSTALL, InMemoryLibrary, MemorySink, parts, settings
from tests.support.knowledge import WordEmbedder
from tests.support.recording_bot import Bot, Sender
from tests.support.scripted import ScriptedPeer

QUESTION = "When is the release date of the launcher?"
WITHHELD = "I am not allowed to answer this."
GROUP = Sender("-100")
TOOT = Sender("anna@example.org", platform="mastodon")
OWNER = Sender("1", "1", is_private=True)
BEGINNING = "The release date of the launcher is the first of May [p1], and it is written by the "


@asynccontextmanager
async def opened(
    folder: Path,
    model: ScriptedPeer | None = None,
    moderation: dict[str, Any] | None = None,
    gate: dict[str, Any] | None = None,
    **outgoing: Any,
) -> AsyncIterator[Bot]:
    (folder / "docs").mkdir()
    launcher = "# Launcher\n\nThe release date of the launcher is the first of May, says the numbat.\n"
    (folder / "docs" / "launcher.md").write_text(launcher, "utf-8")
    configuration = Settings.model_validate(
        {
            "data_dir": str(folder / "data"),
            "sources": {"docs": {"kind": "files", "path": str(folder / "docs")}},
            "knowledge": {"routing": {"threshold": 0}, "parsing": {"workers": 1}},
            "models": {"main": {"base_url": model.base_url, "model": "m"}} if model else {},
            "administration": {"owners": ["telegram:1"]},
            "gate": {"answers_in_10_min": 200, **(gate or {})},
            "auto_comment": {"chats": ["telegram:-300"], "needs_citation": False, "deadline_s": 600},
            "outgoing": {**outgoing, "moderation": moderation or {}},
        }
    )
    configuration.data_dir.mkdir()
    journal = await Journal.open(configuration.data_dir / "journal.db")
    try:
        async with open_app(
            configuration, embedder=WordEmbedder(), parser=ThreadParser(), database=journal.database
        ) as app:
            await app.refresh()
            bot = Bot(app, journal, None, model)
            yield bot
            await bot.processor.drain(60)
    finally:
        await journal.close()


async def ask(bot: Bot, sender: Sender = GROUP, **changes: Any) -> tuple[MemorySink, str, str]:
    """Return what is shown of an answer, and what the journal says of the question."""
    message = await bot.deliver(sender, QUESTION, **changes)
    sinks = bot.adapter(sender.platform).sinks
    return sinks[-1] if sinks else MemorySink(), *await read_outcome(bot, message)


async def read_outcome(bot: Bot, message: Message) -> tuple[str, str]:
    async with bot.journal.database.connect() as connection:
        query = sql("SELECT state, reason FROM messages WHERE id = :id")
        row = (await connection.execute(query, {"id": message.id})).one()
    return str(row.state), str(row.reason)


def seen(sink: MemorySink) -> str:
    return "\n".join([*sink.updates, *(reply.text for reply in sink.replies), *sink.failures])


@pytest.mark.parametrize("word", ["numbat", "num\u200bbat", "ｎｕｍｂａｔ", "num**bat**", "NUMBAT"])
async def test_a_word_cut_over_two_chunks_is_never_shown(tmp_path: Path, word: str) -> None:
    # The peer sends at most six characters at once: the word comes in two.
    async with ScriptedPeer(write=f"{BEGINNING}{word} itself, and that is all there is.") as model:
        model.tokens_per_s = 100
        async with opened(tmp_path, model, words=["numbat"]) as bot:
            sink, state, reason = await ask(bot)
    assert "first of May" in seen(sink)
    assert not any(part in text.lower().replace("\u200b", "") for text in sink.updates for part in ("num", "ｎｕｍ"))
    assert (sink.replies, sink.failures) == ([], [WITHHELD])
    assert (state, reason) == ("failed", "it has something that may not leave (outgoing.words.0)")


async def test_what_only_looks_like_a_word_is_shown(tmp_path: Path) -> None:
    async with ScriptedPeer(write=f"{BEGINNING}numbats.") as model, opened(tmp_path, model, words=["numbat"]) as bot:
        sink, state, _ = await ask(bot)
    assert state == "answered"
    assert sink.replies[0].text.endswith("numbats.")


async def test_quotes_without_a_model_are_judged(tmp_path: Path) -> None:
    async with opened(tmp_path, words=["numbat"]) as bot:
        sink, _, _ = await ask(bot)
        assert seen(sink) == WITHHELD
        assert "numbat" not in str((await read_outcome(bot, await bot.deliver(GROUP, QUESTION)))[1])


async def test_a_pattern_and_a_text_of_the_owner(tmp_path: Path) -> None:
    async with (
        ScriptedPeer(write=f"{BEGINNING}team: call 0170-5551234 for it.") as model,
        opened(tmp_path, model, patterns=[r"\d{4}-\d{7}"], replacement="Ask the office.") as bot,
    ):
        sink, _, reason = await ask(bot)
    assert "0170" not in seen(sink)
    assert sink.failures == ["Ask the office."]
    assert "outgoing.patterns.0" in reason


async def test_the_title_of_a_source_is_judged(tmp_path: Path) -> None:
    async with (
        ScriptedPeer(write="It is the first of May [p1].") as model,
        opened(tmp_path, model, words=["Launcher"]) as bot,
    ):
        sink, _, _ = await ask(bot)
    assert sink.failures == [WITHHELD]


async def test_words_hold_where_they_are_to(tmp_path: Path) -> None:
    async with (
        ScriptedPeer(write=f"{BEGINNING}numbat.") as model,
        opened(tmp_path, model, words=["numbat"], platforms=["mastodon"]) as bot,
    ):
        assert (await ask(bot))[1] == "answered"
        assert (await ask(bot, TOOT))[0].failures == [WITHHELD]


async def test_a_comment_is_silence_with_its_reason(tmp_path: Path) -> None:
    async with ScriptedPeer(write=f"{BEGINNING}numbat.") as model, opened(tmp_path, model, words=["numbat"]) as bot:
        sink, state, reason = await ask(bot, Sender("-300"), addressed=False, is_post=True)
    assert seen(sink) == ""
    assert (state, reason) == ("silent", "it has something that may not leave (outgoing.words.0)")


MODERATION = {"api_key": {"env": "MODERATION"}, "timeout_s": 0.5}


@asynccontextmanager
async def moderated(folder: Path, **moderation: Any) -> AsyncIterator[tuple[Bot, ScriptedPeer]]:
    async with ScriptedPeer() as moderator, ScriptedPeer(write=f"{BEGINNING}numbat.") as model:
        moderator.api_key = "key-of-the-moderation"
        settings_ = {"base_url": moderator.base_url, **MODERATION, **moderation}
        async with opened(folder, model, settings_) as bot:
            yield bot, moderator


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODERATION", "key-of-the-moderation")


async def test_a_flagged_answer_is_withheld_on_social_networks(tmp_path: Path) -> None:
    async with moderated(tmp_path) as (bot, moderator):
        sink, state, _ = await ask(bot, TOOT)
        # Whole, once it is judged.
        assert (state, sink.updates, len(sink.replies)) == ("answered", [], 1)
        moderator.flagged_words = {"violence": "numbat", "hate": "quokka"}
        sink, _, reason = await ask(bot, TOOT)
        assert (seen(sink), moderator.requests[-1]["path"]) == (WITHHELD, "/v1/moderations")
        assert reason == "the moderation endpoint flagged it: violence (outgoing.moderation)"
        asked = len(moderator.requests)
        assert (await ask(bot))[1] == "answered"
        assert len(moderator.requests) == asked, "a chat is not moderated unless it is named"


@pytest.mark.parametrize(
    ("fault", "sender", "on_failure", "state"),
    [
        ("hang", TOOT, "auto", "failed"),
        ("status", TOOT, "auto", "failed"),
        ("unreadable", TOOT, "auto", "failed"),
        ("key", TOOT, "auto", "failed"),
        ("hang", GROUP, "auto", "answered"),
        ("status", GROUP, "withhold", "failed"),
        ("status", TOOT, "pass", "answered"),
    ],
)
async def test_an_endpoint_that_fails(tmp_path: Path, fault: str, sender: Sender, on_failure: str, state: str) -> None:
    platforms = ["mastodon", "telegram"]
    async with moderated(tmp_path, platforms=platforms, on_failure=on_failure) as (bot, moderator):
        match fault:
            case "hang":
                moderator.hang = True
            case "status":
                moderator.status = 500
            case "key":
                moderator.api_key = "another"
            case _:
                moderator.moderation = {"results": [{"categories": {}}]}
        started_at = time.monotonic()
        sink, outcome, reason = await ask(bot, sender)
        assert time.monotonic() - started_at < 10
        assert (outcome, len(sink.replies)) == (state, int(state == "answered"))
        assert ("could not be moderated" in reason) == (state == "failed")
        assert "127.0.0.1" not in reason
        await bot.deliver(OWNER, "", "status")
        status = bot.adapter("telegram").sinks[-1].replies[0].text
        assert "could not be judged" in status
        assert "key-of-the-moderation" not in status + reason


async def test_why_an_answer_could_not_be_judged_is_for_who_sees_all_chats(tmp_path: Path) -> None:
    """It was given in any of them."""
    async with moderated(tmp_path) as (bot, moderator):
        moderator.moderation = {"error": {"message": "a quokka"}}
        await ask(bot, TOOT)
        for sender, is_told in ((replace(OWNER, chat="-300", is_private=False), False), (OWNER, True)):
            await bot.deliver(sender, "", "status")
            status = bot.adapter("telegram").sinks[-1].replies[0].text
            assert "could not be judged" in status
            assert ("quokka" in status) == is_told


async def test_the_status_says_that_answers_are_moderated(tmp_path: Path) -> None:
    async with moderated(tmp_path) as (bot, _):
        await bot.deliver(OWNER, "", "status")
        assert "answers on mastodon, bluesky, http are judged" in bot.adapter("telegram").sinks[-1].replies[0].text


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_programs_get_no_word(is_streaming: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    set_tokens(monkeypatch)
    api = {"port": 0, "clients": CLIENTS}
    configuration = settings(api=api, outgoing={"words": ["numbat"]})
    body = {"model": "kimas", "messages": [{"role": "user", "content": "How do I install it?"}]}
    async with served(configuration, write="Install it with pip [p1], says the numbat.") as program:
        if not is_streaming:
            status, value = await program.post("/v1/chat/completions", body)
            assert (status, value["error"]["code"], value["error"]["message"]) == (400, "content_filter", WITHHELD)
            return
        events = await read_events(program.url, body)
    assert "numbat" not in "".join(events).replace('"}', "")
    assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "content_filter"


async def read_events(url: str, body: dict[str, Any]) -> Sequence[str]:
    headers = {"Authorization": f"Bearer {WEBUI}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{url}/v1/chat/completions", json={**body, "stream": True}) as response,
    ):
        return [line for line in (await response.text()).splitlines() if line.startswith("data: ")]


async def test_a_heading_of_a_feed_is_searched_before_anything_is_written(tmp_path: Path) -> None:
    async with ScriptedPeer(write=f"{BEGINNING}team.") as model, opened(tmp_path, model, words=["numbat"]) as bot:
        entry = FeedEntry("news", "A num\u200bbat at last", "https://example.org/1")
        sink, state, reason = await ask(bot, Sender("-300"), addressed=False, is_post=True, feed_entry=entry)
        assert model.sent("write") == []
    assert (seen(sink), state) == ("", "silent")
    assert "outgoing.words.0" in reason


async def test_nobody_is_told_of_an_answer_that_nobody_asked_for(tmp_path: Path) -> None:
    gate = {"mode": "auto", "grey": "suggest", "threshold": 0.01, "wait_s": 0, "cooldown_s": 0}
    async with (
        ScriptedPeer(write=f"It is as the numbat says [p1]: {BEGINNING}team.") as model,
        opened(tmp_path, model, gate=gate, words=["numbat"]) as bot,
    ):
        sink, state, reason = await ask(bot, addressed=False)
    assert (seen(sink), state) == ("", "silent")
    assert "outgoing.words.0" in reason


@pytest.mark.parametrize("grey", ["suggest", "clarify"])
async def test_no_title_is_named_by_an_offer(tmp_path: Path, grey: str) -> None:
    gate = {"mode": "auto", "grey": grey, "threshold": 0.999, "wait_s": 0, "cooldown_s": 0}
    for words, outcome in ((["launcher"], "silent"), (["numbat"], "answered")):
        folder = tmp_path / words[0]
        folder.mkdir()
        async with opened(folder, gate=gate, words=words) as bot:
            message = await bot.deliver(GROUP, "when is the release of the launcher of the team", addressed=False)
            state, reason = await read_outcome(bot, message)
        assert state == outcome
        assert ("outgoing.words.0" in reason) == (state == "silent")


@pytest.mark.parametrize("way", ["a repeated question", "an answer that was not delivered", "a comment"])
async def test_what_was_said_before_is_judged_by_the_words_of_today(tmp_path: Path, way: str) -> None:
    gate = {"mode": "auto", "repeated": "point", "wait_s": 0, "cooldown_s": 0, "threshold": 0.1}
    async with opened(tmp_path, gate=gate) as bot:
        first = await bot.deliver(GROUP, QUESTION)
        assert "numbat" in seen(bot.adapter("telegram").sinks[-1])
        outgoing = OutgoingSettings(words=("numbat",))
        configuration = bot.app.settings.model_copy(update={"outgoing": outgoing})
        async with open_app(
            configuration, embedder=WordEmbedder(), parser=ThreadParser(), database=bot.journal.database
        ) as app:
            later_bot = Bot(app, bot.journal, None, None)
            if way == "a repeated question":
                message = await later_bot.deliver(replace(GROUP, author="43"), QUESTION, addressed=False)
            else:
                is_comment = way == "a comment"
                key = ConversationKey("telegram", "-300" if is_comment else "-100")
                message = replace(first, id="new", key=key, addressed=not is_comment, is_post=is_comment)
                await bot.journal.record_message(message)
                await bot.journal.mark_delivery(message, Reply("It is the numbat."), {})
                await later_bot.processor.resume(later_bot.adapter("telegram"))
                await later_bot.processor.join()
            state, reason = await read_outcome(later_bot, message)
            told_text = "".join(map(seen, later_bot.adapter("telegram").sinks))
    assert (told_text, state) == ((WITHHELD, "failed") if "delivered" in way else ("", "silent"))
    assert "outgoing.words.0" in reason


async def test_programs_are_told_nothing_beside_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    set_tokens(monkeypatch)
    library = InMemoryLibrary((INSTALL, replace(INSTALL, id="2", path="numbat.md", text="Install the package first.")))
    question = {"question": "How do I install the package?"}
    for words, is_told in ((["quokka"], True), (["numbat"], False)):
        configuration = settings(api={"port": 0, "clients": CLIENTS}, outgoing={"words": words})
        async with served(configuration, library, write="Install it with pip [p1].") as program:
            status, values = await program.post("/ask", question)
            assert (status, len(values["passages"])) == (200, 1 + is_told)
            assert ("numbat" in str(values)) == is_told


async def test_what_a_model_thought_is_told_to_no_program() -> None:
    search_round = SearchRound(("How do I install it?",), "good", "the numbat says so")
    trace = Trace("install the numbat", "react", (), {}, rounds=(search_round,))
    page = Citation(1, "p1", "docs", "The numbat", "a.md", "")
    reply = Reply("Install it with pip.", trace=trace, nearest_pages=(page,))

    async def ask(_text: str) -> Reply:
        return reply

    for words, count in ((["quokka"], 3), (["numbat"], 0)):
        deps = parts(InMemoryLibrary(), None, settings(outgoing={"words": words}))
        result = await RUN_TOOLS["ask"](Knowledge(deps, ask), {"question": "How?"})
        assert str(result.structured_content).count("numbat") == count


async def test_tools_of_programs_find_no_passage_with_a_word(tmp_path: Path) -> None:
    async with opened(tmp_path, words=["numbat"]) as bot:
        for platforms, is_found in (((), False), (("telegram",), True)):
            changes = {"platforms": platforms}
            outgoing = bot.app.settings.outgoing.model_copy(update=changes)
            deps = replace(bot.app.deps, settings=bot.app.settings.model_copy(update={"outgoing": outgoing}))
            knowledge = Knowledge(deps, unasked)
            assert ("numbat" in await knowledge.search({"query": QUESTION})) == is_found


async def unasked(_text: str) -> Reply:
    raise AssertionError


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("patterns", "[ok, '(']", r"outgoing\.patterns\.1.*missing \)"), ("words", '["\\u200b"]', r"outgoing\.words\.0")],
)
def test_check_names_what_cannot_be_searched(tmp_path: Path, key: str, value: str, words: str) -> None:
    configuration = tmp_path / "kimas.yaml"
    configuration.write_text(f"outgoing:\n  {key}: {value}\n", "utf-8")
    result = CliRunner().invoke(main, ("--config", str(configuration), "check"))
    assert result.exit_code == 2
    assert re.search(words, result.output, re.DOTALL)


async def test_a_probe_asks_the_moderation() -> None:
    async with ScriptedPeer() as peer:
        configuration = settings(outgoing={"moderation": {"base_url": peer.base_url}})
        probe = next(probe for probe in make_probes(configuration) if probe.subject == "outgoing.moderation")
        assert [finding.level for finding in await run_probe(probe, 20)] == ["ok"]
        peer.status = 500
        assert [finding.level for finding in await run_probe(probe, 20)] == ["error"]
