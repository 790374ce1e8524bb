"""`/why`: what the journal knows about an answer, or about a silence. No prompts.

What a model thought of the evidence, and what an answer cost, is for those who look after the bot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, or_, select

from core.messaging.commands.context import Office
from core.messaging.commands.form import Request
from core.storage.chat_history import readable
from core.storage.engine import Database
from core.storage.tables import messages
from core.storage.usage import together
from core.text.formatting import code, cost_of
from core.types import Message

_READ = ("state", "reason", "reply", "citations", "trace")
NOTHING = "I have answered nothing here that I remember."
UNKNOWN = "I know nothing of that message: it never reached me, or it is forgotten."
WHYS = {"late": "too late", "failed": "it failed", "unreadable": "its reply made no sense"}
STATES = {
    "received": "That message waits for its answer.",
    "answering": "That message is being answered.",
    "sending": "The answer to that message is being posted.",
}


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one message."""

    state: str
    reason: str
    reply: str
    citations: Sequence[Mapping[str, Any]]
    trace: Mapping[str, Any]


async def why(office: Office, request: Request) -> str:
    """Explain the last answer in the chat or thread, or what became of the message that is meant."""
    message, database = request.message, office.journal.database
    wanted = request.given.get("message", "").rstrip("/").rpartition("/")[2] or message.reply_to
    # On Slack a message in a thread replies to the thread's first message, which is not what is meant by that.
    if wanted and (wanted != message.key.thread or "message" in request.given):
        found = await _about(database, message, wanted)
        return explained(found, inside=request.who != "everyone") if found else UNKNOWN
    last = await _last(database, message)
    return explained(last, inside=request.who != "everyone") if last else NOTHING


def explained(settled: Settled, *, inside: bool = False) -> str:
    """Return the explanation; `inside` is for those only who look after the bot: faults, judgements, cost."""
    if settled.state == "silent":
        return f"I was silent because: {settled.reason or 'no reason is recorded'}."
    if settled.state == "failed":
        reason = code(settled.reason) if inside else "the log says why, to whoever runs me"
        return f"The answer to that message failed: {reason}."
    if settled.state != "answered":
        return STATES.get(settled.state, UNKNOWN)
    if not settled.reply:
        return "That was answered, and the answer is forgotten."
    return "\n".join(_lines(settled, inside))


def _lines(settled: Settled, inside: bool) -> list[str]:
    trace = settled.trace
    if not trace.get("query"):
        return ["That took no search: I said it of my own knowledge of myself."]
    times: Mapping[str, float] = trace.get("timings_ms") or {}
    cited = Counter(str(one.get("source", "")) for one in settled.citations)
    sources = ", ".join(f"{code(name)} ({count})" for name, count in cited.most_common())
    dropped = int(trace.get("dropped_citations") or 0)
    stages = ", ".join(f"{name} {_seconds(spent)}" for name, spent in times.items() if name != "total")
    total = f"{_seconds(times['total'])}: " if "total" in times else ""
    lines = [
        f"- How I searched: {code(str(trace.get('strategy') or 'none'))}",
        f"- Asked: {', '.join(map(code, trace.get('agents') or ())) or 'no agent'}",
        f"- With the query: {code(str(trace['query']))}",
        f"- Cited: {sources or 'nothing'}",
        f"- Time: {total}{stages or 'not recorded'}",
    ]
    if inside:
        lines += [f"- Searched: {one}" for one in map(_round, trace.get("rounds") or ()) if one]
    if trace.get("cut"):
        why: Mapping[str, str] = trace.get("why_cut") or {}
        stages = ", ".join(f"{code(stage)}{_because(why.get(stage, ''))}" for stage in trace["cut"])
        lines.append(f"- Cut short, for lack of time or of a service: {stages}")
    if inside and (consumed := _consumed(trace)):
        lines.append(f"- Consumed: {consumed}")
    if dropped:
        lines.append(f"- Citations taken away, for their passage did not say so: {dropped}")
    if trace.get("cached"):
        lines.append("- An earlier answer to the same question was given again")
    return lines


def _because(why: str) -> str:
    return f" ({WHYS[why]})" if why in WHYS else ""


def _round(judged: Any) -> str:
    """Return what a strategy thought of one round of its searches; empty where it did not judge.

    A trace of the journal has plain JSON for it, one of this process the value itself.
    """
    value = judged if isinstance(judged, Mapping) else asdict(judged)
    if not value.get("quality"):
        return ""
    queries = ", ".join(map(code, value.get("queries") or ()))
    reason = f", for: {code(str(value['reason']))}" if value.get("reason") else ""
    return f"{queries}; the evidence was {value['quality']}{reason}"


def _consumed(trace: Mapping[str, Any]) -> str:
    used = together(trace.get("tokens") or {}, trace.get("cost") or {})
    cost = f", cost {cost_of(used.cost)}" if used.cost else ""
    return f"{used.prompt} tokens read, {used.completion} written{cost}" if used.tokens or used.cost else ""


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"


async def _about(database: Database, message: Message, wanted: str) -> Settled | None:
    """Return what became of a message, or of the question whose answer it is."""
    columns = messages.c
    here = [*_questions(message), or_(columns.id == wanted, columns.reply_id == wanted)]
    if message.bot:
        here.append(columns.bot == message.bot)
    return await _first(database, here)


async def _last(database: Database, message: Message) -> Settled | None:
    """Return the last answer in the thread, or else in the chat: a command may be given outside of any thread."""
    columns = messages.c
    answered = [*_questions(message), columns.state == "answered", columns.reply != ""]
    inside = await _first(database, [*answered, columns.thread == message.key.thread])
    return inside or await _first(database, answered)


def _questions(message: Message) -> list[ColumnElement[bool]]:
    columns, key = messages.c, message.key
    here = (columns.platform == key.platform, columns.chat == key.chat, readable(message))
    return [*here, columns.command.in_(("", "ask"))]


async def _first(database: Database, conditions: Sequence[ColumnElement[bool]]) -> Settled | None:
    columns = messages.c
    query = select(*(columns[name] for name in _READ)).where(*conditions).order_by(columns.number.desc()).limit(1)
    async with database.reading() as connection:
        row = (await connection.execute(query)).first()
    return None if row is None else Settled(row.state, row.reason, row.reply, row.citations or (), row.trace or {})
