"""A deployment of the bot that is watched, and what can change in it at any moment, also in the middle of a step."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Row, delete, insert, select

from core.formatting import INDEFINITELY
from core.messaging.feedback import rating_buttons
from core.settings.audience import Audiences
from core.storage.closed_threads import close_thread
from core.storage.erasure import erase_on_platform
from core.storage.lessons import TaughtAnswerRepository
from core.storage.overrides import AUDIENCES_PREFIX, override_key
from core.storage.statements import UNFINISHED_STATES
from core.storage.tables import DEPLOYMENT_SCOPE, leases, messages, overrides
from core.types import Attachment, AttachmentKind, ConversationKey, Message, ThreadState
from tests.support.audience_truth import Truth
from tests.support.audience_world import (
    AUDIENCES,
    MEMBER,
    MOVED_PUBLIC,
    NAMES,
    OWNER,
    OWNERS,
    PARTS_AUDIENCES,
    PICTURE,
    PLACES,
    PUBLIC,
    RECORDING,
    Configuration,
    format_said,
    write_closed,
    write_documents,
    write_part,
)
from tests.support.interleaving import PLACE, THREAD, Interruption, Interruptions, Watch
from tests.support.recording_bot import Sender
from tests.support.watched_bot import WatchedBot, note_daemon, open_watched_bot
from tests.support.watched_doors import read_metrics

# Where the bot says less, or to fewer.
RESTRICTIONS = ("mute", "local", "off", "asker", "share")
PART_CLOSINGS = ("shut parts", "close parts", "parts elsewhere")
SOURCE_CLOSINGS = ("close", "shut", "rename", "elsewhere", "remove", *PART_CLOSINGS)
CHANGES = (*SOURCE_CLOSINGS, "forget", "edit", "delete", "demote", "dismiss", *RESTRICTIONS, "reject", "move")
# Those after which less may be told of, and what a source is opened to after these.
CLOSINGS = (*SOURCE_CLOSINGS, "local", "off", "asker")
OPENINGS = (("everyone",), AUDIENCES[0], ("everyone",), AUDIENCES[5], ("admins",))
UNRESTRICTED: dict[str, Any] = {
    **dict.fromkeys(("local", "off", "asker"), frozenset()),
    "is_removed": False,
    "owners": OWNERS,
}
Result = TypeVar("Result")
# How often an answer waits for a platform that is away, beside the first time.
MOST_WAITS = 2
# How the ids of commands begin that are given in the middle of something.
BETWEEN = "in between"
# What the other daemon is called.
SECOND = "second"


@dataclass(frozen=True)
class Plan:
    """A change in the middle of a step: where, after how many times there, which, and of what."""

    point: str
    count: int
    change: str
    pick: int


class Deployment:
    """The bot of one configuration after the other, over one data directory."""

    folders: Path
    interruptions: Interruptions
    watch: Watch

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.configuration = Configuration(OPENINGS[0])
        self.truth = self.watch.judge = Truth([self.configuration.audience])
        self.watch.leaks.clear()
        self.interruptions.planned.clear()
        self.last_messages: dict[Sender, Message] = {}
        # Those whose outcome is still to be looked at.
        self.delivered: list[Message] = []
        self.teachings = 0
        self.sayings = 0
        # The last one that somebody has begun.
        self.thread = ConversationKey("telegram", PUBLIC, "")
        self.has_stopped = asyncio.Event()
        self.folder = self.folders / str(len(list(self.folders.iterdir())))
        self.folder.mkdir()
        self.documents = self.folder / "documents"
        self.documents.mkdir()
        write_documents(self.documents)
        self.written = self.closed_number = 1

    def run(self, work: Coroutine[Any, Any, Result], plan: Plan | None = None) -> Result:
        """Do something, with a change in the middle of it; then nothing may have leaked, and nobody be remembered."""
        if plan:
            change = partial(self._change, plan)
            is_waiting = plan.point == "wait"
            count = min(plan.count, MOST_WAITS) if is_waiting else plan.count
            self.interruptions.planned.append(Interruption(plan.point, count, change))
            # What is shown while it is written, and the reply: each try takes up to two.
            self.interruptions.refusals = 2 * count + 2 if is_waiting else 0
        result = self.loop.run_until_complete(work)
        has_happened = bool(plan) and not self.interruptions.planned
        self.interruptions.planned.clear()
        self.interruptions.refusals = 0
        leaks = list(self.watch.leaks)
        self.watch.leaks.clear()
        assert not leaks, f"{leaks} with {plan}"
        counted = self.truth.find_in_records(read_metrics(self.opened.metrics))
        assert not counted, f"/metrics has {counted}"
        if self.truth.forgotten:
            # A task that was ended in the middle may still have held a reader, for which the first wipe had to wait.
            self.loop.run_until_complete(self.bot.journal.database.wipe())
            left = find_bytes(self.folder.glob("data*/**/*"), sorted(self.truth.forgotten))
            assert not left, f"{left} with {plan}"
        if plan and has_happened and plan.change in CLOSINGS:
            # What is closed stays closed until the next start: there would soon be nothing left to close.
            self._reopen(plan.pick)
        return result

    async def _end(self) -> None:
        """End the daemon, and the other one that there may be: it is started again with the same file."""
        async with self.bot.journal.database.transaction() as connection:
            await connection.execute(delete(leases))
        await self.stack.aclose()

    def _reopen(self, pick: int) -> None:
        audience, parts = OPENINGS[pick % len(OPENINGS)], PARTS_AUDIENCES[pick % len(PARTS_AUDIENCES)]
        self._restart(replace(self.configuration, audience=audience, parts=parts, **UNRESTRICTED))
        self.loop.run_until_complete(self.bot.app.refresh())

    def _restart(self, configuration: Configuration) -> None:
        """End the daemon, and begin with another file. Under another name, the closed source has other words."""
        self.loop.run_until_complete(self._end())
        self._write(configuration)
        self.configuration = configuration
        self.loop.run_until_complete(self._open())

    def _write(self, configuration: Configuration) -> None:
        """Write new words where a source has another name, and where included files are open to fewer."""
        self.written += 1
        if configuration.name != self.configuration.name:
            if not self.truth.is_open:
                self.truth.names_then[self.closed_number] = self.configuration.name
            self.closed_number = self.written
            write_closed(self.documents, self.written)
        if configuration.parts != self.configuration.parts:
            self.truth.part_number = self.written
            write_part(self.documents, self.written)

    async def _open(self) -> None:
        opened = open_watched_bot(self.folder, self.documents, self.configuration, self.interruptions, self.watch)
        self.daemons = [await self.stack.enter_async_context(opened)]
        self._use(0)
        self.truth.read(self.configuration)

    async def _join(self, audience: tuple[str, ...]) -> None:
        """Let another daemon begin, whose file has another audience: closed is what either closes."""
        self.configuration = replace(self.configuration, audience=audience)
        parts = (self.folder, self.documents, self.configuration, self.interruptions, self.watch)
        self.daemons.append(await self.stack.enter_async_context(open_watched_bot(*parts, SECOND)))
        self._use(1)
        self.truth.audiences.append(audience)

    def _use(self, number: int) -> None:
        """Let a daemon get what follows."""
        self.opened = self.daemons[number]
        self.bot = self.opened.bot
        self.models = self.opened.models
        self.truth.general_models = tuple(daemon.models[0].base_url for daemon in self.daemons)

    async def _deliver(self, sender: Sender, text: str = "", command: str = "", **changes: Any) -> Message:
        sender = self._at(sender)
        PLACE.set(sender)
        changes = {"author": self.truth.get_name(sender), **changes}
        self.truth.note_writer(sender)
        THREAD.set(changes.get("key", ConversationKey(sender.platform, sender.chat)).thread)
        message = await self.bot.deliver(sender, text, command, **changes)
        self.delivered.append(message)
        return message

    async def _deliver_again(self, message: Message) -> None:
        """Deliver a message, or a change of it, as a platform may at any time."""
        PLACE.set(Sender(message.key.chat, message.author_id, message.key.platform, message.private))
        await self.bot.processor.handler_for(self.bot.adapters[message.key.platform])(message)
        await self.bot.processor.join()

    async def _find_answers(self, place: Sender) -> Sequence[Row[Any]]:
        """Return what the bot answered in a chat, as far as somebody there could have read it, oldest first."""
        query = select(messages).filter_by(platform=place.platform, chat=place.chat).order_by(messages.c.number)
        rows = await self.bot.journal.database.fetch_all(query.where(messages.c.reply != ""))
        return [row for row in rows if not row.private or row.author_id == place.author]

    async def _check_outcomes(self) -> None:
        """Raise `AssertionError` where what was delivered is neither answered nor left unanswered for a reason."""
        delivered, self.delivered = self.delivered, []
        unfinished = select(messages).where(messages.c.state.in_(UNFINISHED_STATES))
        # A change may end with the request in the middle of which it is.
        unfinished = unfinished.where(~messages.c.id.startswith(BETWEEN))
        left = await self.bot.journal.database.fetch_all(unfinished)
        assert not left, f"nothing became of {left}"
        by_id = {(message.key.platform, message.key.chat, message.id): message for message in delivered}
        query = select(messages).where(messages.c.id.in_([message.id for message in delivered]))
        rows = await self.bot.journal.database.fetch_all(query)
        outcomes = {(row.platform, row.chat, row.id): row for row in rows}
        for key, message in by_id.items():
            row = outcomes.get(key)
            # Presses and commands of one person beyond a limit are not journalled.
            assert row or message.command, f"{message} is in no journal"
            is_finished = row is None or row.state in ("answered", "failed", "drafted")
            is_silence = row is not None and row.state == "silent" and row.reason != ""
            assert is_finished or is_silence, f"{message} is {row and (row.state, row.reason)}"

    async def _deliver_until(self, sender: Sender, text: str, command: str, interruption: Interruption) -> None:
        """Deliver a message, and end its work where it stands still, as the end of the process would."""
        self.has_stopped.clear()
        self.interruptions.planned.append(interruption)
        work = asyncio.create_task(self._deliver(sender, text, command))
        stop = asyncio.create_task(self.has_stopped.wait())
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        await self.bot.processor.drain(0)
        for task in (work, stop):
            task.cancel()
        await asyncio.gather(work, stop, return_exceptions=True)

    async def _stand_still(self) -> None:
        self.has_stopped.set()
        await asyncio.Event().wait()

    async def _resume(self) -> None:
        """Go on with what the last run did not finish."""
        for adapter in self.bot.adapters.values():
            await self.bot.processor.resume(adapter)
        await self.bot.processor.join()

    def _at(self, sender: Sender) -> Sender:
        """Return where somebody writes by now."""
        return replace(sender, chat=MOVED_PUBLIC) if sender.chat == PUBLIC and self.truth.has_moved else sender

    async def _change(self, plan: Plan) -> None:
        """Change something, at once; from then on it counts."""
        place = self._at(PLACES[plan.pick])
        name = f"{place.platform}:{place.chat}"
        audience = ("owners",) if plan.change == "shut" else AUDIENCES[plan.pick % len(AUDIENCES)]
        match plan.change:
            case "shut parts" | "close parts":
                await self._close_parts(("owners",) if plan.change == "shut parts" else audience)
            case "parts elsewhere":
                await self._close_elsewhere(replace(self.configuration, parts=audience))
                if plan.point:
                    await self.bot.live.load()
                self._note_parts(audience)
            case "remove":
                await self._reload(replace(self.configuration, is_removed=True))
                self.truth.audiences.append(("owners",))
            case "dismiss":
                # An owner of a network is none any more.
                await self._reload(replace(self.configuration, owners=OWNERS[:1]))
                self.truth.owners = OWNERS[:1]
            case "erase":
                today = datetime.now(UTC).date()
                await erase_on_platform(self.bot.journal.database, place.platform, place.author, today)
                self.truth.forget_everywhere(place)
            case "close thread":
                if self.thread not in self.truth.closed_threads:
                    thread = self.thread
                    await close_thread(self.bot.journal.database, thread.platform, thread.chat, thread.thread)
                    self.truth.closed_threads.add(thread)
            case "intrude":
                # Somebody else is alone with the bot in a chat that was another person's.
                await self._intrude(Sender("talk", "88", "http", is_private=True))
            case "delete":
                await self._delete(place)
            case "close" | "shut":
                await self._reload(replace(self.configuration, audience=audience))
                self.truth.audiences.append(audience)
            case "rename":
                await self._rename(audience)
            case "elsewhere":
                await self._close_elsewhere(replace(self.configuration, audience=audience))
                if plan.point:
                    # An answer beside this one may have read it just before: it counts once this daemon knows it.
                    await self.bot.live.load()
                self.truth.audiences.append(audience)
            case "forget":
                await self._forget(place)
            case "edit":
                await self._edit(place)
            case "demote":
                person = ("43", MEMBER)[plan.pick % 2]
                await self._set(self._at(PLACES[1]), override_key("admin", person), None)
                self.truth.admins.discard(("telegram", person))
            case "mute":
                await self._set(place, "pause", INDEFINITELY)
                self.truth.muted.add(name)
            case "local":
                local = self.configuration.local | {name}
                await self._reload(replace(self.configuration, local=local))
                self.truth.local |= local
            case "off":
                await self._reload(replace(self.configuration, off=self.configuration.off | {name}))
                self.truth.silent.add(name)
            case "asker" if place.platform in ("slack", "discord"):
                # No answer there came by a command.
                await self._reload(replace(self.configuration, asker=self.configuration.asker | {name}))
                self.truth.silent.add(name)
            case "share" if place.platform == "slack":
                self.truth.shared.add(name)
            case "reject":
                repository = TaughtAnswerRepository(self.bot.journal.database)
                for answer in (await repository.list_answers(reader=None))[-1:]:
                    await repository.decide(answer.number, "rejected", f"telegram:{OWNER}")
            case "move" if not self.truth.has_moved:
                await self.bot.live.record_move("telegram", PUBLIC, MOVED_PUBLIC)
                self.truth.move()

    async def _reload(self, configuration: Configuration) -> None:
        self.configuration = configuration
        for daemon in self.daemons:
            await self._apply(daemon, configuration)

    async def _apply(self, daemon: WatchedBot, configuration: Configuration) -> None:
        """Let a daemon read its file again; where another one was told to, it does so at once."""
        settings = configuration.make_settings(self.folder, self.documents, daemon.models)
        settings = settings.model_copy(update={"data_dir": daemon.bot.app.settings.data_dir})
        daemon.bot.new_settings = settings
        context = daemon.bot.dispatcher.context
        await (context.reload if daemon is self.opened else context.apply)(settings)

    async def _rename(self, audience: tuple[str, ...]) -> None:
        """Who gives the source another name has closed it, whoever may see that one after the next start."""
        (name,) = set(NAMES) - {self.configuration.name}
        renamed = replace(self.configuration, audience=audience, name=name)
        # Taken up, the source of the new name would tell the same to its own readers.
        for daemon in self.daemons:
            daemon.bot.dispatcher.context.take_up = None
        try:
            # The other one has not read its file yet.
            await self._apply(self.opened, renamed)
        finally:
            for daemon in self.daemons:
                daemon.bot.dispatcher.context.take_up = daemon.bot.take_up
        self.truth.audiences.append(("owners",))

    async def _close_parts(self, audience: tuple[str, ...]) -> None:
        """Let a source read what pages include, for these people."""
        await self._reload(replace(self.configuration, parts=audience))
        self._note_parts(audience)

    def _note_parts(self, audience: tuple[str, ...]) -> None:
        """Note who may read the included file from now on. New words of it are told to nobody else."""
        self.truth.parts.append(audience)
        self.written += 1
        self.truth.part_number = self.written
        write_part(self.documents, self.written)

    def begin_thread(self, place: Sender, *, is_closed: bool) -> None:
        """Begin a thread, which only a part of the chat can read if it is closed."""
        self.sayings += 1
        self.thread = ConversationKey(place.platform, place.chat, f"issues/{self.sayings}")
        if is_closed:
            self.truth.closed_threads.add(self.thread)

    def _within(self) -> dict[str, Any]:
        """Return what a message in the last thread has beside its words."""
        is_closed = self.thread in self.truth.closed_threads
        return {"key": self.thread, "thread_state": ThreadState(is_restricted=is_closed)}

    async def _intrude(self, person: Sender) -> None:
        message = replace(make_command(person, ""), text="Hello?", author=self.truth.get_name(person))
        await self.bot.processor.handler_for(self.bot.adapters[person.platform])(message)
        self.truth.note_writer(person)

    async def _delete(self, place: Sender) -> None:
        """Let somebody delete what is being answered to them, where a network says so at once."""
        deleted = select(messages.c.chat, messages.c.id).filter_by(platform="http", chat=place.chat)
        for row in await self.bot.journal.database.fetch_all(deleted.where(messages.c.state == "answering")):
            self.bot.adapters["http"].deletions[row.chat, row.id] = None
            self.truth.deleted.add((row.chat, row.id))

    async def _close_elsewhere(self, configuration: Configuration) -> None:
        """Let another daemon of the deployment be the first one that is reloaded with a file that closes more.

        Each time it is another one: none opens what it has closed before it is started again.
        """
        self.written += 1
        name = f"other{self.written}"
        settings = configuration.make_settings(self.folder, self.documents, self.models)
        values = {"scope": DEPLOYMENT_SCOPE, "name": f"{AUDIENCES_PREFIX}{name}"}
        await note_daemon(self.bot.journal.database, name)
        async with self.bot.journal.database.transaction() as connection:
            await connection.execute(delete(overrides).filter_by(**values))
            told = Audiences.from_settings(settings).to_json()
            await connection.execute(insert(overrides).values(**values, value=told))

    async def _set(self, place: Sender, name: str, value: str | None) -> None:
        await self.bot.live.overrides.change(make_command(place), f"{place.platform}:{place.chat}", name, value)

    async def _edit(self, place: Sender) -> None:
        """Let somebody give their last message another sentence, with a word of theirs."""
        last = self.last_messages.get(place)
        # What was asked in a chat before it got another id cannot be found there.
        if last and last.key.chat == place.chat:
            text = format_said(self._say(place))
            await self.bot.processor.handler_for(self.bot.adapters[place.platform])(
                replace(last, text=text, is_edit=True)
            )

    def _say(self, place: Sender) -> str:
        """Return a word that nobody else says, and that comes back in answers."""
        self.sayings += 1
        word = f"potoroo{self.sayings}x"
        self.truth.said[word] = place
        return word

    async def _give_forget(self, sender: Sender) -> None:
        place = self._at(sender)
        await self._deliver(sender, "", "forget")
        self.truth.forget(place)

    async def _forget(self, place: Sender) -> None:
        """Let somebody say /forget in another thread of a chat."""
        command = replace(make_command(place, "forget"), author=self.truth.get_name(place))
        journal = self.bot.journal
        await journal.record_message(command)
        await journal.erase_author(command)
        await journal.mark_answered(command, rating_buttons.Reply(""))
        self.truth.forget(place)


def make_command(place: Sender, command: str = "pause") -> Message:
    """Return a command that is given in a thread of its own."""
    key = ConversationKey(place.platform, place.chat, "elsewhere")
    now = datetime.now(UTC)
    message = Message(f"{BETWEEN} {now.timestamp()}", key, place.author, "Ann", "", now, command=command)
    return replace(message, addressed=True, private=place.is_private)


def is_other(said: Sender, place: Sender) -> bool:
    """Return whether something was said in a chat by somebody else who was not alone with the bot there."""
    is_here = (said.platform, said.chat) == (place.platform, place.chat)
    return is_here and said.author != place.author and not said.is_private


def attach(text: str, kind: AttachmentKind = "file") -> Attachment:
    """Return a file with a text, a picture that shows it, or a voice message that says it."""
    starts = {"picture": PICTURE, "voice": RECORDING}
    content = starts[kind] + text.encode() if kind in starts else f"ERROR: it failed\n{text}\n".encode()
    return Attachment(kind, "error.log", len(content), {"content": content.hex()})


def find_bytes(paths: Iterable[Path], words: Sequence[str]) -> list[str]:
    """Return the files that have a word, in any encoding that a database may use."""
    needles = [(word, word.encode(encoding)) for word in words for encoding in ("utf-8", "utf-16-le")]
    files = [(path, path.read_bytes()) for path in paths if path.is_file()]
    return [f"{path.name} has {word}" for path, content in files for word, needle in needles if needle in content]
