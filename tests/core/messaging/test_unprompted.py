"""What the bot does when nobody asked it and it finds nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from core.ports import AnswerFunction, Sink
from core.storage.labelling import LabellingRepository
from core.storage.messages import Journal
from core.storage.reports import QuestionFilter, ReportRepository
from core.types import Citation, Question, Reply
from core.types.replies import Trace
from tests.support.processing import automatic, make_unaddressed, wait_until_finished

SEARCHED = Trace("pip", "single", (), {})
NOTHING = Reply("The documentation does not mention it. You could ask the maintainers.", trace=SEARCHED)
QUOTED_NOTHING = Reply("I found nothing about this in the sources I know (docs).", is_extractive=True, trace=SEARCHED)
CITATION = Citation(1, "p1", "docs", "Install", "install.md", "")
UNWRITTEN = Reply(
    "The language model could not answer.", is_extractive=True, trace=SEARCHED, failure="connection refused"
)
ANSWER = Reply("Run `pip install` [1]. The documentation does not mention conda.", (CITATION,), trace=SEARCHED)
# As the model marked it.
BESIDE = Reply("Of conda nothing is said. pip is described. [1]", (CITATION,), trace=SEARCHED, found_nothing=True)


def stream(reply: Reply) -> AnswerFunction:
    async def answer(question: Question, sink: Sink) -> Reply:
        await sink.open()
        for end in range(4, len(reply.text), 4):
            await sink.update(reply.text[:end])
        await sink.finish(reply)
        return reply

    return answer


@pytest.mark.parametrize("reply", [NOTHING, QUOTED_NOTHING, BESIDE])
async def test_who_did_not_ask_is_not_told_that_nothing_was_found(journal: Journal, reply: Reply) -> None:
    adapter, processor = automatic(journal, stream(reply), wait_s=0, cooldown_s=600)
    first = make_unaddressed(1)
    second = make_unaddressed(2, author_id="43", author="Bob")
    for message in (first, second):
        await processor.handler_for(adapter)(message)
        # The first one began no cooldown.
        assert await wait_until_finished(journal, message) == [
            ("silent", "nobody had asked the bot, and it found no answer")
        ]
        sink = adapter.sinks[message.id]
        assert (sink.opened, sink.updates, sink.replies, sink.failures) == (0, [], [], [])
    recent = QuestionFilter(datetime.now(UTC) - timedelta(hours=1), None, outcome="unanswered")
    unanswered = await ReportRepository(journal.database).list_questions(recent, 9)
    assert [row.detail for row in unanswered] == ["no_answer", "no_answer"]
    proposed = await LabellingRepository(journal.database).get_unanswered_questions(None, 9)
    assert [question.id for question in proposed] == ["test:room:2", "test:room:1"]
    assert await processor.drain(60) == 0


async def test_who_did_not_ask_is_not_told_that_the_model_is_away(journal: Journal) -> None:
    adapter, processor = automatic(journal, stream(UNWRITTEN), wait_s=0, cooldown_s=600)
    for message in (make_unaddressed(1), make_unaddressed(2, author_id="43", author="Bob")):
        await processor.handler_for(adapter)(message)
        # The first one began no cooldown.
        assert await wait_until_finished(journal, message) == [("failed", "connection refused")]
        sink = adapter.sinks[message.id]
        assert (sink.opened, sink.replies, sink.failures) == (0, [], [])
    assert await processor.drain(60) == 0


async def test_who_asked_is_told_that_nothing_was_found(journal: Journal) -> None:
    adapter, processor = automatic(journal, stream(NOTHING), wait_s=0)
    message = make_unaddressed(1, addressed=True)
    await processor.handler_for(adapter)(message)
    assert await wait_until_finished(journal, message) == [("answered", "")]
    assert (adapter.sinks["1"].opened, adapter.sinks["1"].replies) == (1, [NOTHING])
    assert await processor.drain(60) == 0


async def test_an_answer_that_says_something_is_shown_while_it_is_written(journal: Journal) -> None:
    adapter, processor = automatic(journal, stream(ANSWER), wait_s=0)
    message = make_unaddressed(1)
    await processor.handler_for(adapter)(message)
    assert await wait_until_finished(journal, message) == [("answered", "")]
    sink = adapter.sinks["1"]
    assert (sink.opened, sink.replies) == (1, [ANSWER])
    assert sink.updates[0].startswith("Run `pip install` [1]"), "the first citation shows that it found something"
    assert len(sink.updates) > 5
    assert await processor.drain(60) == 0
