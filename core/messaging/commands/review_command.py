"""The command `/faq`: looking through what people taught, and deciding what becomes knowledge."""

from __future__ import annotations

from core.errors import UsageError
from core.messaging.commands.context import Office
from core.messaging.commands.form import Request
from core.messaging.policy.permissions import Refused
from core.storage.audit import entry
from core.storage.lessons import Lesson, Lessons, State
from core.text.formatting import code

SHOWN = 10
DECISIONS: dict[str, State] = {"approve": "approved", "reject": "rejected"}


async def faq(office: Office, request: Request) -> str:
    """List the answers that wait for a review, decide about one, or put another text in its place.

    What was approved is used in all chats. So those alone decide whom the configuration or an owner names, about what
    was taught in their chat, owners about everything; where others read along, no other chat's answers are listed.
    """
    lessons, action = Lessons(office.journal.database), request.given.get("action", "list")
    if action == "list" and "number" not in request.given:
        here = [one for one in await lessons.list("pending") if request.sees_all or _here(one, request)]
        return _listed(here)
    if action != "list" and office.permissions.known(request.message) == "everyone":
        raise Refused("Only the owners of this bot, and those whom they have named for this chat, may decide that.")
    if "number" not in request.given:
        raise UsageError(f"`number` is missing. Write it as `/faq {action} NUMBER`.")
    number = int(float(request.given["number"]))
    everything = request.sees_all if action == "list" else request.who == "owner"
    found = [one for one in await lessons.list() if one.number == number and (everything or _here(one, request))]
    if not found:
        raise UsageError(f"There is no answer {number} here. `/faq list` shows those that wait for a review.")
    if action == "list":
        return _whole(found[0])
    if action == "edit":
        await lessons.edit(number, request.given.get("text", ""))
        said = "Edited; it waits for a review."
    else:
        await lessons.decide(number, DECISIONS[action], request.message.author)
        said = f"{DECISIONS[action].capitalize()}."
    await office.audit.record(entry(request.message, "changed", f"faq {number}", "", action))
    if action == "approve" and not any(one.kind == "learned" for one in office.settings.sources.values()):
        said += " No source of the kind `learned` is configured, so that it is not used (docs/feedback.md)."
    return said


def _here(lesson: Lesson, request: Request) -> bool:
    return request.chat == f"{lesson.platform}:{lesson.chat}"


def _whole(lesson: Lesson) -> str:
    """Return an answer to its last word: nobody can decide about what a list has cut off."""
    text = lesson.answer.replace("```", "'''")
    return f"**{lesson.number}** ({lesson.state}) {code(lesson.teacher)}\n\n```\n{lesson.question}\n\n{text}\n```"


def _listed(waiting: list[Lesson]) -> str:
    if not waiting:
        return "No answers wait for a review."
    lines = [
        f"- **{one.number}** {code(one.question)} by {code(one.teacher)}: {code(one.answer)}" for one in waiting[:SHOWN]
    ]
    more = f"And {len(waiting) - SHOWN} more. " if len(waiting) > SHOWN else ""
    return "\n".join(["These answers wait for a review:\n", *lines, f"\n{more}`/faq list NUMBER` shows one whole."])
