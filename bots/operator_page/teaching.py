"""The changes that an owner may make: teach the answer to a question, and decide about taught answers.

Both go the way of `/learn` and `/faq`: into the same table, with an entry in the audit.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from aiohttp import web

from bots.operator_page.context import PageContext, clean_input, get_context, get_number, get_session, show
from bots.operator_page.sessions import Session
from core.errors import UsageError
from core.settings import LearnedSource
from core.storage.lessons import MAX_ANSWER_CHARS, MAX_QUESTION_CHARS, ReviewState
from core.storage.overrides import AuditOutcome, new_entry
from core.storage.reports import QuestionReport
from core.types import ConversationKey, Message

MAX_DECIDED = 100
OPERATOR_ID = "operator-page"
OPERATOR = "the operator's page"
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
    command = _to_message(report.message.key, "learn", question, answer)
    message = replace(
        command, thread_state=replace(command.thread_state, is_restricted=report.message.thread_state.is_restricted)
    )
    session = await _require_owner(request, context, message)
    if not (question and answer):
        return _show_form(request, report, question, answer, "Both the question and the answer are needed.")
    # Who asked may have been told what is closed, and the answer may tell it again.
    closed_sources = await context.permissions.read_closed_labels(report.message, report.visible_sources or ())
    number = await context.taught_answers.submit(message, report.message.author_id, question, answer, closed_sources)
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
    answers = await context.taught_answers.list_answers()
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
    answers = [answer for answer in await context.taught_answers.list_answers() if answer.number == number]
    if not answers or action not in DECISIONS:
        raise web.HTTPNotFound(text="There is no such answer.")
    key = ConversationKey(answers[0].platform, answers[0].chat)
    session = await _require_owner(request, context, _to_message(key, "faq", f"{action} {number}"))
    try:
        await _decide(context, key, number, action)
    except UsageError as error:
        raise web.HTTPNotFound(text=str(error)) from error
    session.notice = f"Answer {number} is {DECISIONS[action]}."
    raise web.HTTPSeeOther(f"/taught?{urlencode({'changed': number})}")


async def _decide(context: PageContext, key: ConversationKey, number: int, action: str) -> None:
    """Approve or reject an answer, and write that into the audit. Raises `UsageError`."""
    await context.taught_answers.decide(number, DECISIONS[action], OPERATOR)
    message = _to_message(key, "faq", f"{action} {number}")
    await context.audit.record(new_entry(message, "changed", f"faq {number}", "", action))


async def _require_question(request: web.Request) -> QuestionReport:
    report = await get_context(request).reports.get_question(get_number(request))
    if report is None or not report.message.text.strip():
        raise web.HTTPNotFound(text="The journal has no such question, or its text was deleted.")
    return report


async def _require_owner(request: web.Request, context: PageContext, message: Message) -> Session:
    """Return the owner's session. Raises `HTTPForbidden` for anybody else, after the audit has it."""
    session = get_session(request)
    if session is None or not session.is_owner:
        outcome: AuditOutcome = "refused"
        await context.audit.record(new_entry(message, outcome, "the session was not opened with the owner's token"))
        raise web.HTTPForbidden(text="Only an owner may do this: sign in with the owner's token.")
    return session


def _to_message(key: ConversationKey, command: str, text: str, answer: str = "") -> Message:
    """Return the command that an action on the page amounts to. The same answer has the same id: it is kept once."""
    digest = hashlib.sha256(f"{text}\n{answer}".encode("utf-8", "replace")).hexdigest()[:32]
    at = datetime.now(UTC)
    return Message(f"{OPERATOR_ID}-{digest}", key, OPERATOR_ID, OPERATOR, text, at, command=command)


def _show_form(
    request: web.Request, report: QuestionReport, question: str, answer: str = "", problem: str = ""
) -> web.Response:
    values = {"report": report, "question": question, "answer": answer, "problem": problem}
    limits = {"max_question_chars": MAX_QUESTION_CHARS, "max_answer_chars": MAX_ANSWER_CHARS}
    return show(request, "teach.html", {**values, **limits}, status=422 if problem else 200)
