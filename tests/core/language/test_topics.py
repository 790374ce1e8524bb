"""Questions are grouped by what they are about, in a time that does not depend on what they say."""

from __future__ import annotations

import time

from core.language.topics import MAX_QUESTIONS, group_by_topic

QUESTIONS = [
    "Can sessions be kept in Redis?",
    "Does it run on Windows?",
    "Is there a Redis backend for sessions?",
    "Where can I get a commercial licence?",
    "Windows support planned?",
    "How do I share sessions over Redis between two servers?",
    "怎么配置代理？",
    "怎么配置代理服务器",
    "",
    "???",
]


def test_questions_about_the_same_things_are_one_topic() -> None:
    topics = group_by_topic(QUESTIONS)
    members = [topic.members for topic in topics]
    assert members[0] == (0, 2, 5)
    assert {(1, 4), (6, 7), (3,)} < {*members}
    assert sorted(index for topic in members for index in topic) == list(range(len(QUESTIONS)))
    assert {"redis", "sessions"} <= {*topics[0].words}
    assert all(topic.typical in topic.members for topic in topics)


def test_words_of_a_topic_are_words() -> None:
    words = [topic.words for topic in group_by_topic(QUESTIONS) if 6 in topic.members]
    assert words == [()], "pairs of Chinese characters are none"


def test_the_order_matters_little() -> None:
    forward = {frozenset(QUESTIONS[index] for index in topic.members) for topic in group_by_topic(QUESTIONS[:6])}
    reverse = QUESTIONS[5::-1]
    assert forward == {frozenset(reverse[index] for index in topic.members) for topic in group_by_topic(reverse)}


def test_nothing_is_no_topic_and_too_many_are_cut() -> None:
    assert group_by_topic([]) == []
    topics = group_by_topic([f"about thing{number}" for number in range(MAX_QUESTIONS + 5)])
    assert sum(len(topic.members) for topic in topics) == MAX_QUESTIONS


def test_hostile_questions_take_bounded_time() -> None:
    shared = "common shared thing "
    questions = [shared + " ".join(f"u{number}x{word}" for word in range(400)) for number in range(MAX_QUESTIONS)]
    start = time.thread_time()
    assert group_by_topic(questions)
    assert time.thread_time() - start < 20, "it takes about one second"
