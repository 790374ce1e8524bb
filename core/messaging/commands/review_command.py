"""The command `/faq`: looking through what people taught, and deciding what becomes knowledge."""

from __future__ import annotations

from core.errors import UsageError
from core.messaging.commands.context import CommandContext
from core.messaging.commands.form import CommandRequest
from core.messaging.policy.permissions import PermissionDenied
from core.storage.lessons import ReviewState, TaughtAnswer, TaughtAnswerRepository
from core.storage.overrides import new_entry
from core.text.formatting import format_code

MAX_LISTED = 10
DECISIONS: dict[str, ReviewState] = {"approve": "approved", "reject": "rejected"}


async def review_faq(context: CommandContext, request: CommandRequest) -> str:
    """List the answers that wait for a review, decide about one, or put another text in its place.

    What was approved is used in all chats. So those alone decide whom the configuration or an owner names, about what
    was taught in their chat, owners about everything; where others read along, no other chat's answers are listed.
    """
    repository, action = TaughtAnswerRepository(context.journal.database), request.arguments.get("action", "list")
    if action == "list" and "number" not in request.arguments:
        pending_answers = [
            answer
            for answer in await repository.list_answers("pending")
            if request.can_see_all_chats or _is_from_chat(answer, request)
        ]
        return _format_list(pending_answers)
    if action != "list" and context.permissions.cached_role(request.message) == "everyone":
        raise PermissionDenied(
            "Only the owners of this bot, and those whom they have named for this chat, may decide that."
        )
    if "number" not in request.arguments:
        raise UsageError(f"`number` is missing. Write it as `/faq {action} NUMBER`.")
    number = int(float(request.arguments["number"]))
    can_see_all = request.can_see_all_chats if action == "list" else request.role == "owner"
    answers = [
        answer
        for answer in await repository.list_answers()
        if answer.number == number and (can_see_all or _is_from_chat(answer, request))
    ]
    if not answers:
        raise UsageError(f"There is no answer {number} here. `/faq list` shows those that wait for a review.")
    if action == "list":
        return _format_answer(answers[0])
    if action == "edit":
        await repository.edit(number, request.arguments.get("text", ""))
        reply = "Edited; it waits for a review."
    else:
        await repository.decide(number, DECISIONS[action], request.message.author)
        reply = f"{DECISIONS[action].capitalize()}."
    await context.audit.record(new_entry(request.message, "changed", f"faq {number}", "", action))
    if action == "approve" and not any(source.kind == "learned" for source in context.settings.sources.values()):
        reply += " No source of the kind `learned` is configured, so that it is not used (docs/feedback.md)."
    return reply


def _is_from_chat(answer: TaughtAnswer, request: CommandRequest) -> bool:
    return request.chat == f"{answer.platform}:{answer.chat}"


def _format_answer(answer: TaughtAnswer) -> str:
    """Return an answer to its last word: nobody can decide about what a list has cut off."""
    text = answer.answer.replace("```", "'''")
    return (
        f"**{answer.number}** ({answer.state}) {format_code(answer.teacher)}\n\n```\n{answer.question}\n\n{text}\n```"
    )


def _format_list(answers: list[TaughtAnswer]) -> str:
    if not answers:
        return "No answers wait for a review."
    lines = [
        f"- **{answer.number}** {format_code(answer.question)} by {format_code(answer.teacher)}: "
        f"{format_code(answer.answer)}"
        for answer in answers[:MAX_LISTED]
    ]
    more = f"And {len(answers) - MAX_LISTED} more. " if len(answers) > MAX_LISTED else ""
    return "\n".join(["These answers wait for a review:\n", *lines, f"\n{more}`/faq list NUMBER` shows one whole."])
