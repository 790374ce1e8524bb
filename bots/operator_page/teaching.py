"""The changes that an owner may make: teach the answer to a question, and decide about taught answers.

Both go the way of `/learn` and `/faq`: into the same table, with an entry in the audit.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

from aiohttp import web

from bots.operator_page.context import (
    OPERATOR,
    PageContext,
    clean_input,
    get_context,
    get_number,
    require_owner,
    show,
    to_command,
)
from core.errors import MessageDeleted, UsageError
from core.messaging.feedback.handoff import with_author_of_words
from core.ports.refresh import refresh_taught
from core.settings import LearnedSource
from core.storage.lessons import MAX_ANSWER_CHARS, MAX_QUESTION_CHARS, ReviewState
from core.storage.overrides import new_entry
from core.storage.reports import QuestionReport
from core.types import ConversationKey

MAX_DECIDED = 100
NO_QUESTION = "The journal has no such question, or its text was deleted."
DECISIONS: dict[str, ReviewState] = {"approve": "approved", "reject": "rejected"}


async def show_teach_form(request: web.Request) -> web.StreamResponse:
    """Show the form for the answer to a question."""
    report = await _require_question(request)
    return _show_form(request, report, report.message.text)


async def teach(request: web.Request) -> web.StreamResponse:
    """Keep an owner's answer for review, as `/learn` does."""
    context = get_context(request)
    report = await _require_question(request)
    form = await request.post()
    question, answer = (clean_input(form.get(name, "")) for name in ("question", "answer"))
    command = to_command(report.message.key, "learn", question, answer)
    message = replace(
        command, thread_state=replace(command.thread_state, is_restricted=report.message.thread_state.is_restricted)
    )
    session = await require_owner(request, context, message)
    if not (question and answer):
        return _show_form(request, report, question, answer, "Both the question and the answer are needed.")
    # Who asked may have been told what is closed, and the answer may tell it again.
    closed_sources = await context.permissions.read_closed_labels(report.message, report.visible_sources or ())
    asker_id = with_author_of_words(report.message).author_id
    try:
        number = await context.taught_answers.submit(
            message, asker_id, question, answer, closed_sources, words_of=[report.message]
        )
    except MessageDeleted:
        raise web.HTTPNotFound(text=NO_QUESTION) from None
    if number is None:
        session.notice = "This answer was taught before."
    else:
        # The audit outlives what people forget: it has no words of theirs.
        await context.audit.record(new_entry(replace(message, text=""), "changed", f"learned {number}"))
        session.notice = f"The answer is kept as number {number}. It is used once it is approved."
        if form.get("action") == "approve":
            await _decide(context, message.key, number, "approve")
            session.notice = f"Answer {number} is approved."
    raise web.HTTPSeeOther("/taught")


async def show_taught(request: web.Request) -> web.StreamResponse:
    """List what people taught, those that wait for a review first."""
    context = get_context(request)
    answers = await context.taught_answers.list_answers(reader=None)
    values = {
        "pending": [answer for answer in answers if answer.state == "pending"],
        "decided": [answer for answer in reversed(answers) if answer.state != "pending"][:MAX_DECIDED],
        "has_source": any(isinstance(source, LearnedSource) for source in context.settings.sources.values()),
    }
    return show(request, "taught.html", values)


async def review_answer(request: web.Request) -> web.StreamResponse:
    """Approve or reject a taught answer, as `/faq` does."""
    context = get_context(request)
    number = get_number(request)
    form = await request.post()
    action = str(form.get("action", ""))
    answers = [answer for answer in await context.taught_answers.list_answers(reader=None) if answer.number == number]
    if not answers or action not in DECISIONS:
        raise web.HTTPNotFound(text="There is no such answer.")
    key = ConversationKey(answers[0].platform, answers[0].chat)
    session = await require_owner(request, context, to_command(key, "faq", f"{action} {number}"))
    try:
        await _decide(context, key, number, action)
    except UsageError as error:
        raise web.HTTPNotFound(text=str(error)) from error
    session.notice = f"Answer {number} is {DECISIONS[action]}."
    raise web.HTTPSeeOther(f"/taught?{urlencode({'changed': number})}")


async def _decide(context: PageContext, key: ConversationKey, number: int, action: str) -> None:
    """Approve or reject an answer, and write that into the audit. Raises `UsageError`."""
    await context.taught_answers.decide(number, DECISIONS[action], OPERATOR)
    await refresh_taught(context.source_refresher)
    message = to_command(key, "faq", f"{action} {number}")
    await context.audit.record(new_entry(message, "changed", f"faq {number}", "", action))


async def _require_question(request: web.Request) -> QuestionReport:
    report = await get_context(request).reports.get_question(get_number(request))
    if report is None or not report.message.text.strip():
        raise web.HTTPNotFound(text=NO_QUESTION)
    return report


def _show_form(
    request: web.Request, report: QuestionReport, question: str, answer: str = "", problem: str = ""
) -> web.Response:
    values = {"report": report, "question": question, "answer": answer, "problem": problem}
    limits = {"max_question_chars": MAX_QUESTION_CHARS, "max_answer_chars": MAX_ANSWER_CHARS}
    return show(request, "teach.html", {**values, **limits}, status=422 if problem else 200)
