"""A bot that takes commands, in one group with an owner, an administrator and members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from sqlalchemy import text

from core.errors import PlatformError, StoreError, UsageError
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.inbox import Inbox
from core.ports import Delivery, Sink
from core.settings import Settings
from core.storage.messages import Journal
from core.storage.overrides import AuditEntry
from core.types import Citation, ConversationKey, Message, Question, Reply, SourceState
from core.types.replies import Trace
from tests.support.fixtures import IdleAdapter, InMemoryLibrary, MemorySink, settings
from tests.support.waiting import until
from tests.support.wiring import make_processor, wire_dispatcher

GROUP = ConversationKey("test", "room")
PRIVATE = ConversationKey("test", "1")
OWNER = "1"
ADMIN = "2"
BOSS = "3"
ANN = "42"
RIGHTS = {"owners": ["test:1"]}
NUMBERS = count(1)


def says(
    command: str, argument_text: str = "", *, person: str = OWNER, private: bool = False, **changes: object
) -> Message:
    key = replace(PRIVATE, chat=person) if private else GROUP
    message = Message(str(next(NUMBERS)), key, person, f"user {person}", argument_text, datetime.now(UTC))
    return replace(message, addressed=True, private=private, command=command, **changes)  # type: ignore[arg-type]


@dataclass
class FolderRefresher:
    """A refresher over real files: a source per file, its passages are the file's paragraphs."""

    folder: Path
    errors: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, ...]] = field(default_factory=list)
    broken: bool = False
    paused: set[str] = field(default_factory=set)
    # How many documents are read and are to be, and for how many more seconds.
    progress: tuple[int, int, float | None] = (0, 0, None)
    was_ever_read: bool = True

    async def states(self) -> Sequence[SourceState]:
        return [self._state(file) for file in sorted(self.folder.glob("*.md"))]

    def _state(self, file: Path) -> SourceState:
        paragraphs = [paragraph for paragraph in file.read_text("utf-8").split("\n\n") if paragraph.strip()]
        at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        error = self.errors.get(file.stem, "")
        is_paused = file.stem in self.paused
        read, to_read, seconds_left = self.progress
        success_at = at if self.was_ever_read else None
        state = SourceState(file.stem, "files", len(paragraphs), 1, at, success_at, error, is_paused, bool(to_read))
        return replace(state, documents_read=read, documents_to_read=to_read, seconds_left=seconds_left)

    async def refresh(self, names: Sequence[str] = ()) -> None:
        if self.broken:
            raise StoreError("the disk is full")
        self.requests.append(tuple(names))

    async def pause(self, name: str) -> None:
        self._require(name)
        self.paused.add(name)

    async def resume(self, name: str) -> None:
        self._require(name)
        self.paused.discard(name)

    def _require(self, name: str) -> None:
        if not (self.folder / f"{name}.md").exists():
            raise UsageError(f"{name}: asked at question time, so there is nothing to refresh")


@dataclass
class RecordingAdapter(IdleAdapter):
    """An adapter that knows who administers the chat, unless it cannot be reached."""

    name: str = "test"
    sinks: dict[str, MemorySink] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)
    unreachable: bool = False

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        self.sinks[message.id] = MemorySink()
        return self.sinks[message.id]

    async def is_admin(self, message: Message) -> bool:
        self.looked_up.append(message.author_id)
        if self.unreachable:
            raise PlatformError("no route")
        return message.author_id in (BOSS, message.key.chat)


def configured(**changes: object) -> Settings:
    administration = {**RIGHTS, **changes.pop("administration", {})}  # type: ignore[dict-item]
    return settings(administration=administration, **changes)


async def echo(question: Question, sink: Sink) -> Reply:
    reply = Reply(
        f"Answer to {question.text}",
        (Citation(1, "install", "docs", "Install", "install.md", ""),),
        trace=Trace(
            "install package",
            "single",
            ("docs",),
            {"search": 120.0, "total": 900.0},
            degraded=("rerank",),
            saved_searches=2,
        ),
    )
    await sink.finish(reply)
    return reply


@dataclass
class Bot:
    """A message processor with its dispatcher, and its reply to each message."""

    journal: Journal
    processor: Inbox
    dispatcher: CommandDispatcher
    adapter: RecordingAdapter

    @classmethod
    def of(cls, journal: Journal, adapter: RecordingAdapter | None = None, **changes: object) -> Bot:
        refresher = changes.pop("refresher", None)
        reload_settings = changes.pop("reload_settings", None)
        configuration = configured(**changes)
        dispatcher = wire_dispatcher(configuration, journal, refresher=refresher, reload_settings=reload_settings)  # type: ignore[arg-type]
        return cls(
            journal,
            make_processor(configuration, journal, echo, InMemoryLibrary(), dispatcher),
            dispatcher,
            adapter or RecordingAdapter(),
        )

    async def deliver(self, message: Message) -> str:
        """Return what the bot said to a message: a reply, a failure, or nothing."""
        await self.processor.handler_for(self.adapter)(message)
        await until(lambda: not self.processor._tasks)
        sink = self.adapter.sinks.get(message.id)
        return "" if sink is None else "".join([*(reply.text for reply in sink.replies), *sink.failures])

    async def state(self, message: Message) -> tuple[str, str]:
        async with self.journal.database.connect() as connection:
            query = text("SELECT state, reason FROM messages WHERE id = :id")
            row = (await connection.execute(query, {"id": message.id})).one()
        return str(row.state), str(row.reason)

    async def entries(self) -> list[AuditEntry]:
        return list(await self.dispatcher.context.audit.get_newest(100, chat=None))
