"""What the bot says of itself: from the configuration, with and without a model, with every strategy, never cited."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from core.answering.service import AnswerService
from core.answering.small_talk import courtesy_reply
from core.catalogue import ENGLISH
from core.language.courtesies import find_courtesy
from core.language.languages import get_asker_language
from core.language.questions import (
    continues_question,
    is_question,
    unanswerable_reason,
)
from core.messaging.policy.command_table import help_text
from core.settings import Settings, Strategy
from core.storage.engine import Database
from core.types import ConversationKey, Question, Reply, Turn
from tests.support.answering import answering
from tests.support.fixtures import InMemoryLibrary, MemorySink, parts, settings
from tests.support.scripted import ScriptedPeer, models

KNOWLEDGE = "How to install and configure it"
COURTESIES = {
    "hello": "I am KIMAs helper",
    "Hi there!": "I am KIMAs helper",
    "thanks": "You are welcome!",
    "Thank you so much for your help 🙏": "You are welcome!",
    "bye": "Goodbye!",
    "who are you?": "I am KIMAs helper",
    "Who made you?": "I am KIMAs helper",
    "Is this thing on?": "I am KIMAs helper",
    "lol ok": "You are welcome!",
    "thx, that fixed it": "You are welcome!",
    "ok thanks works now": "You are welcome!",
    "Hi! Are you a bot?": "say where each statement comes from",
    "What can you do?": "say where each statement comes from",
    "help": "say where each statement comes from",
    "你好": "我是 KIMAs helper",
    "谢谢！": "不客气！",
    "你是谁？": "我是 KIMAs helper",
    "是谁开发的你？": "我是 KIMAs helper",
    "哈哈": "不客气！",
    "谢谢大佬": "不客气！",
    "感谢感谢！": "不客气！",
    "好滴，明白了": "不客气！",
    "666": "You are welcome!",
    "👍🏻": "You are welcome!",
    "早啊": "我是 KIMAs helper",
    "謝謝！": "不客气！",
    "辛苦了，有空再聊": "不客气！",
    "下次再聊": "再见！",
    "你能做什么？": "我根据以下资料回答问题",
    "帮助": "我根据以下资料回答问题",
    "再见": "再见！",
    "大家好吗？": "我是 KIMAs helper",
    "你好吗？": "我是 KIMAs helper",
    "有人吗": "我是 KIMAs helper",
    "你是机器人吗？": "我是 KIMAs helper",
    "能帮帮我吗？": "我根据以下资料回答问题",
    "你知道些什么吗": "我根据以下资料回答问题",
}
QUESTIONS = (
    "help me with the installation",
    "Thanks, but how do I install it?",
    "What can you do about error 5?",
    "Hello world",
    "Who are the maintainers?",
    "Who made this website?",
    "lol why does it crash",
    "thx, but that fixed nothing",
    "works now only on Linux",
    "what do you know about memory?",
    "谢谢，怎么安装？",
    "早期版本怎么安装",
    "好的，怎么安装",
    " ",
    "👎",
    "帮我安装",
    "你能做什么样的检索",
    "解决了吗？",
    "问题解决了吗？",
    "问题解决了吗，大佬",
    "可以了吗？",
    "懂了吗大佬",
    "這樣可以了嗎？",
    "谢谢，收到了吗？",
    "",
    "?",
)


def named_settings(**changes: object) -> Settings:
    agents = {"guide": {"sources": ["docs"], "description": KNOWLEDGE}}
    return settings(name="KIMAs helper", agents=agents, **changes)


async def ask(text: str, peer: ScriptedPeer | None, configuration: Settings, library: InMemoryLibrary) -> Reply:
    model = models(peer) if peer else None
    service = AnswerService(parts(library, model, configuration))
    try:
        return await service.answer(Question(text), MemorySink())
    finally:
        if model:
            await model.close()


@pytest.mark.parametrize("has_model", [True, False])
@pytest.mark.parametrize("text", COURTESIES)
async def test_a_courtesy_is_answered_from_the_configuration(text: str, has_model: bool, peer: ScriptedPeer) -> None:
    for strategy in get_args(Strategy):
        library = InMemoryLibrary()
        reply = await ask(
            text, peer if has_model else None, named_settings(strategies={"allowed": [strategy]}), library
        )
        assert COURTESIES[text] in reply.text
        assert (reply.citations, reply.passages, reply.trace.query, library.queries) == ((), (), "", [])
        assert reply.shortfall is None
    assert peer.requests == []


@pytest.mark.parametrize("text", ["hello", "who are you?", "what can you do?", "help", "你好", "你会什么"])
async def test_what_the_sources_know_is_told(text: str) -> None:
    reply = await ask(text, None, named_settings(), InMemoryLibrary())
    assert f"- **guide**: {KNOWLEDGE}" in reply.text
    assert f"- **guide**: {KNOWLEDGE}" in help_text(named_settings())


async def test_lessons_are_named_once_there_is_one() -> None:
    sources = {"docs": {"kind": "files", "path": "docs"}, "lessons": {"kind": "learned"}}
    for agents in ({}, {"guide": {"sources": ["docs", "lessons"]}, "lessons": {"sources": ["lessons"]}}):
        configuration = settings(sources=sources, agents=agents)
        for empty in ({"lessons"}, {"docs", "lessons"}, {"docs"}):
            library = InMemoryLibrary((), empty=empty)
            is_named = "lessons" not in empty
            for text in ("hello", "help", "Who won the chess olympiad?"):
                assert ("lessons" in (await ask(text, None, configuration, library)).text) == is_named
            assert ("lessons" in help_text(configuration, library=library)) == is_named
            unread = InMemoryLibrary((), is_empty=True, empty=empty)
            assert ("lessons" in (await ask("How do I install it?", None, configuration, unread)).text) == is_named
    alone = settings(sources={"lessons": {"kind": "learned"}}, agents={})
    reply = await ask("hello", None, alone, InMemoryLibrary((), empty={"lessons"}))
    assert "- **lessons**" in reply.text


@pytest.mark.parametrize("text", QUESTIONS)
def test_more_than_a_courtesy_is_a_question(text: str) -> None:
    assert find_courtesy(text) is None


async def test_a_courtesy_is_answered_when_the_limit_is_used_up(peer: ScriptedPeer, tmp_path: Path) -> None:
    """It costs nothing, so that no limit refuses it; and it is no answer that anybody could be given again."""
    database = await Database.open(tmp_path / "journal.db")
    model = models(peer)
    service = answering(database, model, limits={"daily_tokens": 1}, cache={"enabled": True})
    sink = MemorySink()
    for _ in range(2):
        reply = await service.answer(Question("thanks!"), sink)
        assert (reply.text, reply.trace.cached) == ("You are welcome!", False)
    assert (len(sink.replies), sink.opened, peer.requests) == (2, 2, [])
    await model.close()
    await database.close()


@pytest.mark.parametrize("text", COURTESIES)
def test_in_a_group_who_is_polite_to_others_gets_no_answer(text: str) -> None:
    assert unanswerable_reason(text) or not is_question(text)
    assert not continues_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "/help",
        "OOM?",
        "？？？",
        "👍",
        "v2.1 nginx?",
        "pip install torch",
        "docker compose up",
        "Permission denied",
        "docs/how/to",
        "how_to",
        "what-is.md",
        "https://example.org/how-to-do",
        "`Where is it?`",
        "```\nhow to do it\n```",
    ],
)
def test_a_message_without_language_is_answered_in_its_authors_last_one(text: str) -> None:
    own = Turn("user", "怎么安装？", author_id="1")
    other = Turn("user", "How do I install it?", author_id="2")
    reply = Turn("assistant", "I found nothing about this in the sources.", author_id="1")
    assert get_asker_language(Question(text, history=(own, other, reply), author_id="1")) == "zh"
    assert get_asker_language(Question(text, history=(own, other, reply), author_id="2")) == ""
    assert get_asker_language(Question("How do I install it?", history=(own,), author_id="1")) == ""


@pytest.mark.parametrize(
    "text",
    [
        "How to upgrade?",
        "Where is it?",
        "Thank you",
        "Use English please",
        "Does it scale",
        "why?",
        "Can I?",
        "And on Windows?",
        "More details",
        "What’s new?",
        "It doesn't",
        "Danke, wie geht das?",
    ],
)
def test_a_short_question_in_latin_script_is_not_answered_in_chinese(text: str) -> None:
    own = Turn("user", "怎么安装？", author_id="1")
    assert get_asker_language(Question(text, history=(own,), author_id="1")) == ""


@pytest.mark.parametrize(
    ("platform", "expected"), [("telegram", "write `/ask` with"), ("slack", "write `/kimas ask` with")]
)
def test_what_it_can_do_says_how_to_ask_on_that_platform(platform: str, expected: str) -> None:
    question = Question("What can you do?", key=ConversationKey(platform, "1"))
    assert expected in courtesy_reply(question, settings(), InMemoryLibrary(), ENGLISH)
