"""Second answers: which one may be shown beside the first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.answering.retry import ExcludingLibrary, is_better, to_retry_question
from core.catalogue import messages_for
from core.types import Citation, Question, Reply, Turn
from tests.support.fixtures import InMemoryLibrary, passage


@pytest.mark.parametrize(("chat_language", "is_shown"), [("zh", True), ("", False)])
def test_a_quoted_first_answer_is_known_by_the_chats_language(chat_language: str, is_shown: bool) -> None:
    question = Question("How is the launcher installed?", author_id="1", language=chat_language)
    turns = (Turn("user", question.text), Turn("assistant", f"{messages_for('zh').extractive}\n\nIt needs Java. [1]"))
    retried_question = to_retry_question(question, turns, ("p1",), "")
    second_answer = Reply("It is a jar [1].", (Citation(1, "p2", "docs", "Launcher", "a.md", ""),), is_extractive=True)
    assert is_better(second_answer, retried_question) == is_shown
    assert retried_question.history[-1].text == messages_for(chat_language).complaints[""]


async def test_a_page_is_read_without_the_excluded_passages() -> None:
    page = [passage("boats", "A lake has seven boats."), passage("lakes", "A boat has a lake.")]
    page = [replace(item, path="guide.md") for item in page]
    library = ExcludingLibrary(InMemoryLibrary(page), frozenset({page[0].id}))
    assert await library.read_page("docs", "guide.md") == [page[1]]
    excluding_all = ExcludingLibrary(InMemoryLibrary(page), frozenset(item.id for item in page))
    assert await excluding_all.read_page("docs", "guide.md") == page, "a page that has nothing else is whole"
