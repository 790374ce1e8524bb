"""Follow-ups by rules, in English and Chinese: which questions depend on the conversation, and what completes them."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from importlib import resources

import pytest

from core.answering.agents.context_manager import rule_based_query
from core.answering.agents.conversation import is_apology, relevant_turns
from core.catalogue import languages, messages_for
from core.language.follow_ups import (
    depends_on_history,
    expand_with_history,
    names_own_subject,
    strip_chinese_function_words,
)
from core.language.question_matching import is_self_contained
from core.language.tokens import simplify
from core.types import Question, Turn
from tests.lab.quality.follow_ups import PAIRS, Pair, _figures, _load

ANN = (
    Turn("user", "记忆模块是做什么的？", "Ann", "1"),
    Turn("assistant", "它保存会话里的消息 [1]。"),
)


def pairs(language: str) -> list[Pair]:
    return [pair for pair in _load(PAIRS) if pair.language == language]


def test_the_set_has_two_languages_and_two_halves() -> None:
    counts = Counter((pair.language, pair.half, pair.leans) for pair in _load(PAIRS))
    assert sum(counts.values()) >= 120
    assert len(counts) == 8
    assert min(counts.values()) >= 14


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_half_held_out_is_understood(language: str) -> None:
    missed = [figure for figure in _figures("own", pairs(language), "held out") if not figure.reaches_goal()]
    assert missed == []


def to_traditional(text: str) -> str:
    """Return a text in traditional characters; where several became one, in any of them."""
    lines = resources.files("core.language").joinpath("traditional_characters.txt").read_text("utf-8").splitlines()
    pairs_of_characters = (pair for line in lines if not line.startswith("#") for pair in line.split())
    return text.translate({ord(simplified): traditional for traditional, simplified in pairs_of_characters})


def test_traditional_chinese_is_understood_like_simplified() -> None:
    changed_count = 0
    for pair in pairs("zh"):
        history = pair.turns()
        traditional_history = [replace(turn, text=to_traditional(turn.text)) for turn in history]
        question = to_traditional(pair.question)
        changed_count += question != pair.question
        assert depends_on_history(question) == depends_on_history(pair.question), question
        assert names_own_subject(question) == names_own_subject(pair.question), question
        query = expand_with_history(question, traditional_history)
        assert simplify(query) == simplify(expand_with_history(pair.question, history))
        assert strip_chinese_function_words(question) == to_traditional(strip_chinese_function_words(pair.question))
    assert changed_count >= 50


@pytest.mark.parametrize(
    ("question", "leans"),
    [
        ("And on Windows?", True),
        ("Is it possible to skip the slow integration suite?", False),
        ("If a job fails, does it restart?", False),
        ("Where does the crawler keep its logs?", False),
        ("How do I change the thing?", True),
        ("What about rate limits?", True),
        ("And straight into a folder on the server?", True),
        ("Can it be called twice to be sure?", True),
        ("Is it possible to skip the slow suite in one run?", False),
        ("How do I merge two documents into one?", False),
        ("difference between it and an option?", True),
        ("两者有什么区别？", True),
        ("Windows 呢？", True),
        ("任务失败后它会自动重启吗？", False),
        ("怎么卸载？", True),
        ("为什么？", True),
    ],
)
def test_a_question_depends_on_the_conversation_or_names_its_subject(question: str, leans: bool) -> None:
    assert depends_on_history(question) == leans
    assert not (leans and names_own_subject(question))


def test_a_follow_up_to_a_follow_up_has_the_first_subject() -> None:
    history = (*ANN, Turn("user", "它需要数据库吗？", "Ann", "1"), Turn("assistant", "不需要。"))
    assert {"记忆模块", "数据库"} <= set(expand_with_history("那怎么关闭？", history).split())


@pytest.mark.parametrize(
    ("earlier_questions", "question", "carried"),
    [
        (["How do I optimise two objectives?"], "Does it take long?", "optimise two objectives"),
        (["Can I read options from a file?"], "Is it slow?", "file"),
        (["How do I renew a passport?", "What do children pay?"], "Is it refunded?", "children renew passport"),
        (["How do I renew a passport?", "How do I pause a crawl?"], "Is it refunded?", "pause crawl"),
    ],
    ids=["its verb", "no common verb", "hardly any subject", "a new subject"],
)
def test_a_follow_up_carries_what_the_questions_before_it_are_about(
    earlier_questions: list[str], question: str, carried: str
) -> None:
    assert not any(map(depends_on_history, earlier_questions))
    history = [turn for text in earlier_questions for turn in (Turn("user", text), Turn("assistant", "Yes."))]
    assert expand_with_history(question, history) == f"{question} {carried}"


def test_another_members_follow_up_is_completed_with_the_first_question() -> None:
    question = Question("怎么关闭它？", ANN, author="Bob", author_id="2")
    assert relevant_turns(question) == list(ANN)
    assert "记忆模块" in rule_based_query(question)
    own_question = Question("怎么读取密码？", ANN, author="Bob", author_id="2")
    assert relevant_turns(own_question) == []
    assert rule_based_query(own_question) == own_question.text


def test_an_asker_with_a_conversation_follows_up_on_that() -> None:
    history = (Turn("user", "怎么导出仪表盘？", "Bob", "2"), Turn("assistant", "用分享菜单。"), *ANN)
    query = rule_based_query(Question("那有大小限制吗？", history, author="Bob", author_id="2"))
    assert "仪表盘" in query
    assert "记忆" not in query


@pytest.mark.parametrize("language", languages())
def test_an_apology_is_carried_by_nothing(language: str) -> None:
    texts = messages_for(language)
    assert is_apology(Turn("assistant", texts.nearest_pages.format(pages="- **[Heating](<https://example.org>)**")))
    apology = texts.no_evidence.format(sources="docs, gunicorn")
    history = (Turn("user", "Where is the sauna?", "Ann", "1"), Turn("assistant", apology))
    assert is_apology(history[1])
    assert not is_apology(replace(history[1], text="I found the key."))
    question = Question("Does it open on Sundays?", history, author_id="1")
    assert relevant_turns(question) == [history[0]]
    assert rule_based_query(question) == "Does it open on Sundays? sauna"


@pytest.mark.parametrize("text", ["那它怎么关闭？", "怎么卸载？", "学生有优惠吗？", "Windows 呢", "需要本人去吗？"])
def test_a_cached_answer_is_never_given_to_a_chinese_follow_up(text: str) -> None:
    assert not is_self_contained(Question(text, ANN, author="Bob", author_id="2"))
    assert is_self_contained(Question("怎么给智能体添加自定义工具？", ANN, author="Bob", author_id="2"))


@pytest.mark.parametrize(
    ("history", "question"),
    [
        ("怎么取消会员订阅？", "怎么取消订单？"),
        ("为什么要这样配置代理？", "为什么要这样签名提交？"),
    ],
)
def test_question_words_do_not_make_a_chinese_question_the_last_one_again(history: str, question: str) -> None:
    turns = (Turn("user", history), Turn("assistant", "好的。"))
    assert "会员" not in rule_based_query(Question(question, turns))
    assert "聊天" not in rule_based_query(Question(question, turns))


@pytest.mark.parametrize("text", ["the " * 20_000, "that " * 20_000, "它" * 40_000, "这个" * 20_000, "a," * 20_000])
def test_long_texts_take_no_time(text: str) -> None:
    started_at = time.thread_time()
    depends_on_history(text)
    expand_with_history("Why is it so?", (Turn("user", text),))
    assert time.thread_time() - started_at < 2


def test_a_compound_of_common_words_is_a_subject() -> None:
    assert names_own_subject("How do I change the signing key?")
    assert depends_on_history("How do I change the key?")
