"""A journal with something of everything, and the operator's page over it: for its tests and its pictures."""

from __future__ import annotations

from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
from lxml import html
from sqlalchemy import select, update

from bots.operator_page.context import PageContext, make_context
from bots.operator_page.server import serve_operator_page
from bots.operator_page.setup_port import Setup
from core.observability.logs import LogBuffer, buffered_logs
from core.ports import Library
from core.settings import OperatorPageSettings, Secret, Settings
from core.settings.loader import load_settings
from core.storage.engine import Database
from core.storage.feedback import FeedbackRepository
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings, RuntimeOverrides
from core.storage.tables import messages
from core.storage.usage import TokenUsage, UsageRepository
from core.types import (
    DOWN,
    UP,
    Citation,
    ConversationKey,
    Message,
    Passage,
    Question,
    Reply,
    SkipReason,
    SourceState,
    skip,
)
from core.types.replies import Span, Trace, TracedPassage
from tests.support.fixtures import InMemoryLibrary

EVIL = (
    '<script>alert(1)</script><img src=x onerror=alert(2)> "><svg onload=alert(3)> '
    "{{ 7 * 7 }} [here](javascript:alert(4)) invoice\u202efdp.exe \x1b[31m"
)
PAGES = ("/", "/unanswered", "/taught", "/sources", "/feedback", "/usage", "/log", "/setup")
READER = "a-token-to-read-with"
OWNER = "a-token-to-teach-with"
GROUP = ConversationKey("telegram", "-1001957348")
TITLES = {GROUP: "Rocket users"}
CHANNEL = ConversationKey("discord", "1187345023")
SPANS = (
    Span("understand", 4, 310),
    Span("route", 318, 6),
    Span("search", 325, 41),
    Span("search", 326, 88),
    Span("rerank", 418, 230),
    Span("write", 655, 1690),
    Span("verify", 2346, 34),
)


class FixedSources:
    """Sources whose state never changes; `requests` has which of them were to be refreshed."""

    def __init__(self, states: Sequence[SourceState] = ()) -> None:
        self._states = states
        self.requests: list[Sequence[str]] = []

    async def states(self) -> Sequence[SourceState]:
        return self._states

    async def refresh(self, names: Sequence[str] = ()) -> None:
        self.requests.append(names)

    async def pause(self, name: str) -> None:
        raise AssertionError("the page only reads")

    async def resume(self, name: str) -> None:
        raise AssertionError("the page only reads")


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is served: its address, the journal below it, and the log that it shows."""

    url: str
    journal: Journal
    context: PageContext
    log_buffer: LogBuffer


@asynccontextmanager
async def operator_page(
    folder: Path,
    environment: MutableMapping[str, str],
    *,
    states: Sequence[SourceState] = (),
    settings: Settings | None = None,
    secrets: Sequence[str] = (),
    problems: Sequence[str] = (),
    setup: Setup | None = None,
    library: Library | None = None,
) -> AsyncIterator[Page]:
    """Serve the page on loopback. The environment gets both tokens."""
    environment.update({"PAGE_TOKEN": READER, "PAGE_OWNER_TOKEN": OWNER})
    database = await Database.open(folder / "journal.db")

    async def find_problems() -> Sequence[str]:
        return problems

    page_settings = OperatorPageSettings(
        port=0,
        allowed_hosts=("kimas.example",),
        token=Secret(env="PAGE_TOKEN"),
        owner_token=Secret(env="PAGE_OWNER_TOKEN"),
    )
    try:
        with buffered_logs(secrets) as log_buffer:
            context = make_context(
                LiveSettings(settings or load_settings([], (), {}), RuntimeOverrides(database)),
                database,
                FixedSources(states),
                library or InMemoryLibrary(),
                log_buffer,
                secrets=secrets,
                find_problems=find_problems,
                setup=setup,
            )
            async with serve_operator_page(page_settings, context) as port:
                yield Page(f"http://127.0.0.1:{port}", Journal(database), context, log_buffer)
    finally:
        await database.close()


def make_message(number: int, text: str, key: ConversationKey = GROUP, author: str = "Ann") -> Message:
    message = Message(str(number), key, str(40 + number % 7), author, text, datetime.now(UTC), addressed=True, bot="9")
    return replace(message, chat_title=TITLES.get(key, ""))


def make_passage(number: int, title: str, path: str, excerpt: str, score: float) -> TracedPassage:
    url = f"https://example.org/{path}#L{number}"
    scores = {"similarity": round(score * 0.93, 4), "lexical_share": round(score * 0.71, 4), "score": score}
    return TracedPassage(
        f"docs/{path}#{number}", "docs", path, title, url, number, number + 14, **scores, excerpt=excerpt
    )


PASSAGES = (
    make_passage(
        40,
        "Sessions > Rotating keys",
        "docs/sessions.md",
        "Sessions are kept in signed cookies. Call `rotate_keys` to change the signing key without logging anybody "
        "out: sessions that were signed with an older key stay valid until they expire.",
        0.82,
    ),
    make_passage(
        112,
        "rotate_keys",
        "rocket/server.py",
        'def rotate_keys(keys: list[str]) -> list[str]:\n    """Put a fresh signing key in front of the old ones."""\n'
        '    return ["fresh", *keys]',
        0.64,
    ),
    make_passage(9, "Deployment > Behind a proxy", "docs/deploy.md", "Set `trusted_hosts` behind a proxy.", 0.31),
)
ANSWER = """Call `rotate_keys`: it puts a fresh key in front of the old ones, so nobody is logged out. [1]

- New sessions are signed with the **first** key. [2]
- Sessions of older keys stay valid until they expire. [1]

```python
app.keys = rotate_keys(app.keys)
```
"""
CITED = (
    Citation(1, PASSAGES[0].id, "docs", PASSAGES[0].title, PASSAGES[0].path, PASSAGES[0].url),
    Citation(2, PASSAGES[1].id, "docs", PASSAGES[1].title, PASSAGES[1].path, PASSAGES[1].url),
)
TRACE = Trace(
    "rotate the signing key of sessions without logging users out",
    "single",
    ("docs", "code"),
    {"total": 2410.0, "first_token": 935.0},
    degraded=("rerank",),
    degrade_reasons={"rerank": "late"},
    dropped_citations=1,
    tokens={"answer.prompt": 3120, "answer.completion": 184, "rewrite.prompt": 410, "rewrite.completion": 22},
    cost={"answer": 0.0021, "rewrite": 0.0001},
    models={"answer": "qwen3:32b", "rewrite": "qwen3:4b"},
    scores={"docs": 0.61, "code": 0.34},
    spans=SPANS,
    passages=PASSAGES,
)
ANSWERED_REPLY = Reply(ANSWER, CITED, trace=TRACE)
NOTHING = Reply(
    "The documentation does not mention it.",
    passages=(Passage("p", "docs", "a.md", "A", "text"),),
    trace=Trace("redis sessions", "single", ("docs",), {"total": 1320.0}, spans=SPANS[:4], scores={"docs": 0.24}),
)


async def answered(journal: Journal, message: Message, reply: Reply = ANSWERED_REPLY) -> Message:
    await journal.record_message(message)
    await journal.begin_answer(message, None)
    await journal.mark_answered(message, reply)
    return message


async def silenced(journal: Journal, message: Message, reason: SkipReason = SkipReason.UNSURE) -> None:
    await journal.record_message(message)
    values = {"probability": 0.31, "threshold": 0.5, "explanation": "few words of the knowledge"}
    await journal.mark_skipped(message, skip(reason, **(values if reason is SkipReason.UNSURE else {})))


ANSWERED = (
    ("How do I rotate the signing key without logging everybody out?", "Ann", GROUP),
    ("Which Python versions are supported?", "Maya", CHANNEL),
    ("What is the default port of the server?", "Tom", GROUP),
    ("How do I deploy it behind a proxy?", "Lin", GROUP),
    (
        "Can I stream a response, and what happens when the client goes away before its end?",
        "Ben",
        CHANNEL,
    ),
)
UNANSWERED = (
    ("Can sessions be kept in Redis?", "Ivo", GROUP),
    ("Is there a Redis backend for sessions?", "Ruth", CHANNEL),
    ("How do I share sessions over Redis between two servers?", "Lea", GROUP),
    ("Does it run on Windows?", "Kim", GROUP),
    ("Windows support planned?", "Pia", CHANNEL),
    ("Where can I get a commercial licence?", "Sam", GROUP),
)
STATES = (
    SourceState("docs", "git", 412, 38, None, None, next_run=None),
    SourceState("code", "git", 1893, 120, running=True, seconds_left=50.0),
    SourceState("issues", "github", 640, 311, error="api.github.com answered 403: the rate limit is used up"),
    SourceState("website", "website", 77, 19, paused=True),
    SourceState("forum", "website", 96, 12, running=True, documents_read=12, documents_to_read=60, seconds_left=130.0),
    SourceState("handbook", "files", 210, 16, unreadable={"minutes.pdf": "encrypted", "logo.docx": "empty"}),
)


def make_states() -> list[SourceState]:
    now = datetime.now(UTC)
    last_try = now - timedelta(minutes=18)
    return [
        replace(
            state,
            last_try=last_try,
            last_success=now - timedelta(hours=9) if state.error else last_try,
            next_run=None if state.paused else now + timedelta(minutes=42),
        )
        for state in STATES
    ]


async def fill(journal: Journal) -> None:
    """Write a few days of a small community into the journal."""
    number = 100
    for text, author, key in ANSWERED[1:]:
        number += 1
        await answered(journal, make_message(number, text, key, author))
    for text, author, key in UNANSWERED:
        number += 1
        if number % 2:
            await answered(journal, make_message(number, text, key, author), NOTHING)
        else:
            await silenced(journal, make_message(number, text, key, author))
    failing_message = make_message(number + 1, "How large may an upload be?", CHANNEL, "Noa")
    await journal.record_message(failing_message)
    await journal.mark_failed(failing_message, "the model did not answer: connection refused")
    await journal.record_message(make_message(number + 2, "And is there a changelog?", GROUP, "Uli"))
    text, author, key = ANSWERED[0]
    question = await answered(journal, make_message(number + 3, text, key, author))
    feedback = FeedbackRepository(journal.database)
    for press_number, (rating, reason) in enumerate([(UP, ""), (UP, ""), (DOWN, "outdated")]):
        press = make_message(900 + press_number, "", key)
        await feedback.rate(replace(press, author_id=str(press_number)), question.id, rating, reason)
    await _spread(journal.database)
    usage = UsageRepository(journal.database)
    for days_ago in range(14):
        for index, chat in enumerate((GROUP, CHANNEL)):
            asked_question = Question("?", id=str(days_ago), author_id="1", key=chat)
            amount = 9000 + 2600 * ((days_ago * 7 + index * 3) % 9)
            shares = {"answer": TokenUsage(amount, amount // 14, amount / 1.6e6), "rewrite": TokenUsage(900, 60, 2e-4)}
            day = (datetime.now(UTC) - timedelta(days=days_ago)).date()
            await usage.record(
                asked_question, "answered", shares, day, models={"answer": "qwen3:32b", "rewrite": "qwen3:4b"}
            )


async def _spread(database: Database) -> None:
    """Let the messages have come one after the other within the last day."""
    now = datetime.now(UTC)
    for row in await database.fetch_all(select(messages.c.number)):
        received_at = now - timedelta(minutes=3 + (14 - row.number) * 41)
        change = update(messages).filter_by(number=row.number)
        await database.write(change.values(received_at=received_at, settled_at=received_at + timedelta(seconds=3)))


@asynccontextmanager
async def browser(page: Page, token: str = "") -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps cookies, and has signed in with the token if there is one."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(page.url, cookie_jar=jar) as client:
        if token:
            async with client.post("/sign-in", data={"token": token}, allow_redirects=False) as response:
                assert (response.status, response.headers["Location"]) == (303, "/")
        yield client


async def read(client: aiohttp.ClientSession, path: str, status: int | None = 200) -> str:
    async with client.get(path, allow_redirects=False) as response:
        assert status in (None, response.status), path
        return await response.text()


async def get_form_token(client: aiohttp.ClientSession) -> str:
    return str(html.fromstring(await read(client, "/")).xpath("//input[@name='form_token']/@value")[0])
