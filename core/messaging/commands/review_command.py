"""The command `/faq`: looking through what people taught, and deciding what becomes knowledge."""

from __future__ import annotations

from core.errors import UsageError
from core.messaging.commands.context import CommandContext, CommandRequest
from core.messaging.policy.permissions import PermissionDenied
from core.storage.lessons import ReviewState, TaughtAnswer, TaughtAnswerRepository
from core.storage.overrides import new_entry
from core.text.catalogue import ENGLISH, Messages
from core.text.formatting import format_code

MAX_LISTED = 10
DECISIONS: dict[str, ReviewState] = {"approve": "approved", "reject": "rejected"}


async def review_faq(context: CommandContext, request: CommandRequest) -> str:
    """List the answers that wait for a review, decide about one, or put another text in its place.

    What was approved is used in all chats. So those alone decide whom the configuration or an owner names, about what
    was taught in their chat, owners about everything; where others read along, no other chat's answers are listed.
    """
    repository, texts = TaughtAnswerRepository(context.journal.database), request.texts
    action = request.arguments.get("action", "list")
    if action == "list" and "number" not in request.arguments:
        pending_answers = [
            answer
            for answer in await repository.list_answers("pending")
            if request.can_see_all_chats or _is_from_chat(answer, request)
        ]
        return _format_list(pending_answers, texts)
    if action != "list" and context.permissions.cached_role(request.message) == "everyone":
        raise PermissionDenied(texts.only_reviewers, ENGLISH.only_reviewers)
    if "number" not in request.arguments:
        raise UsageError(texts.argument_missing.format(name="number", usage=f"/faq {action} NUMBER"))
    number = int(float(request.arguments["number"]))
    can_see_all = request.can_see_all_chats if action == "list" else request.role == "owner"
    answers = [
        answer
        for answer in await repository.list_answers()
        if answer.number == number and (can_see_all or _is_from_chat(answer, request))
    ]
    if not answers:
        raise UsageError(texts.no_such_answer.format(number=number))
    if action == "list":
        return _format_answer(answers[0], texts)
    if action == "edit":
        if not request.arguments.get("text", "").strip():
            raise UsageError(texts.new_answer_missing)
        await repository.edit(number, request.arguments["text"])
        reply = texts.answer_edited
    else:
        await repository.decide(number, DECISIONS[action], request.message.author)
        reply = texts.answer_approved if action == "approve" else texts.answer_rejected
    await context.audit.record(new_entry(request.message, "changed", f"faq {number}", "", action))
    if action == "approve" and not any(source.kind == "learned" for source in context.settings.sources.values()):
        reply += texts.no_learned_source
    return reply


def _is_from_chat(answer: TaughtAnswer, request: CommandRequest) -> bool:
    return request.chat == f"{answer.platform}:{answer.chat}"


def _format_answer(answer: TaughtAnswer, texts: Messages) -> str:
    """Return an answer to its last word: nobody can decide about what a list has cut off."""
    text = answer.answer.replace("```", "'''")
    state = {"pending": texts.pending, "approved": texts.approved, "rejected": texts.rejected}[answer.state]
    return f"**{answer.number}** ({state}) {format_code(answer.teacher)}\n\n```\n{answer.question}\n\n{text}\n```"


def _format_list(answers: list[TaughtAnswer], texts: Messages) -> str:
    if not answers:
        return texts.no_pending_answers
    lines = [
        texts.pending_answer.format(
            number=answer.number,
            question=format_code(answer.question),
            teacher=format_code(answer.teacher),
            answer=format_code(answer.answer),
        )
        for answer in answers[:MAX_LISTED]
    ]
    more = texts.more_answers.format(count=len(answers) - MAX_LISTED) if len(answers) > MAX_LISTED else ""
    return "\n".join([f"{texts.pending_answers}\n", *lines, f"\n{more}{texts.show_whole_answer}"])
