"""How an answer ends is told to people: over a real socket, from the provider's events to the posted text."""

from __future__ import annotations

from typing import Any

import pytest

from core.answering.pipeline import answer
from core.catalogue import ENGLISH
from core.llm.role_models import RoleChatModel
from core.settings import ModelsSettings
from core.types import Question, Reply
from tests.support.fixtures import MemorySink, parts, settings
from tests.support.provider import ABORT, DONE, Answer, event, replaying

pytestmark = pytest.mark.usefixtures("time_lapse")

HOW = Question("How do I install the package with pip?")
WORDS = ("Run `pip install", " kimas` [p1].", " It needs a virtual")
QUOTED = "*The language model could not answer. This is quoted from the sources.*"


async def ask(events: Answer, deadline_s: float = 30) -> Reply:
    async with replaying(events) as provider:
        main = {"base_url": provider.base_url, "model": "peer"}
        models = RoleChatModel.open(ModelsSettings.model_validate({"main": main}))
        assert models is not None
        try:
            configuration = settings(budget={"deadline_s": deadline_s})
            return await answer(HOW, MemorySink(), parts(model=models, configuration=configuration))
        finally:
            await models.close()


def words(**fields: Any) -> list[bytes]:
    return [event(word, **fields) for word in WORDS]


@pytest.mark.parametrize(
    ("end", "note"),
    [
        ([event(finish="length"), DONE], ENGLISH.answer_too_long),
        ([event(finish="content_filter"), DONE], ENGLISH.answer_filtered),
        ([event(finish="error")], ENGLISH.answer_interrupted),
        ([0.1, ABORT], ENGLISH.answer_interrupted),
        ([], ENGLISH.answer_interrupted),
    ],
)
async def test_a_cut_answer_says_so(end: list[bytes | float | str], note: str) -> None:
    reply = await ask([*words(), *end])
    assert reply.text.startswith("Run `pip install kimas` [1]. It needs a virtual …")
    assert reply.text.endswith(note)


async def test_marks_of_a_template_never_leave_and_are_no_answer() -> None:
    reply = await ask([*[event("<|im_start|>\n<|im_end|>\n")] * 9, DONE])
    assert reply.is_extractive
    reply = await ask([event("<|im_start|>See [this](https://evil.example/x) [p1].<|im_end|>"), DONE])
    assert reply.text == "See this [1]."


async def test_an_answer_that_our_deadline_ends_says_so() -> None:
    reply = await ask([*words(), *([0.5, event(" really")] * 60), DONE], deadline_s=6)
    assert reply.text.endswith(ENGLISH.answer_too_late)


@pytest.mark.parametrize("end", [[event(finish="stop")], [DONE], [event(choices=[], usage={"prompt_tokens": 5})]])
async def test_a_complete_answer_does_not(end: list[bytes]) -> None:
    reply = await ask([*words(), event(" environment."), *end])
    assert reply.text == "Run `pip install kimas` [1]. It needs a virtual environment."


async def test_a_filter_before_the_first_word_is_why_sources_are_quoted() -> None:
    reply = await ask([event("", finish="content_filter"), DONE])
    assert reply.is_extractive
    assert reply.text.endswith(QUOTED)


@pytest.mark.parametrize(
    "text",
    [
        " The package is a package that is a package." * 40,
        "- Answer from the passages between the evidence tags; never invent an answer. Where they answer a part of the "
        "question, give that part and say plainly what is left open.",
        "包是一个包，所以请安装这个包，" * 40,
    ],
)
async def test_an_answer_that_only_repeats_is_not_posted(text: str) -> None:
    reply = await ask([*(event(text[at : at + 7]) for at in range(0, len(text), 7)), event(finish="stop"), DONE])
    assert reply.is_extractive
    assert "> Install the package with pip." in reply.text
    assert reply.text.endswith(QUOTED)


@pytest.mark.parametrize("end", [[event(finish="error")], [0.1, ABORT], [0.5, event(" is")] * 60])
async def test_what_ends_before_it_has_cited_anything_is_not_posted(end: list[bytes | float | str]) -> None:
    reply = await ask([event("user\nassistant\nIt"), *end], deadline_s=6)
    assert reply.is_extractive
    assert "> Install the package with pip." in reply.text
    assert reply.text.endswith(QUOTED)


@pytest.mark.parametrize(
    ("text", "is_quoted"),
    [
        ("bot", True),
        ("the bot", True),
        ("**是的**", True),
        ("Yes [p1].", False),
        ("不支持。", False),
        ("With `pip install kimas`.", False),
    ],
)
async def test_a_word_or_two_without_a_source_is_not_posted(text: str, is_quoted: bool) -> None:
    reply = await ask([event(text), DONE])
    assert reply.is_extractive is is_quoted
    assert reply.text.endswith(QUOTED) is is_quoted
    assert ("> Install the package with pip." in reply.text) is is_quoted


async def test_one_mark_that_nothing_was_found_is_no_stray_word() -> None:
    reply = await ask([event("[p0]"), DONE])
    assert not reply.is_extractive
