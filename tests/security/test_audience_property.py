"""Whatever people, owners and configurations do in whatever order: no closed word reaches who may not see it.

A state machine over people, roles, chats, sources, lessons, closings, reloads, renamings, moves and forgettings, on the
bot as the daemon wires it, with the sinks of all platforms, and its API, MCP and page as they are served. What reaches
its model counts as told; its answers have the closed words and the sentences of people that it was told, and are
cached. Lines of the log at all levels, spans and metrics have no word of people or documents.

Each change can happen in the middle of any step as well (`tests/support/interleaving.py`), and several messages are
answered at once. Words are judged at the moment when they leave. After a forgetting, no byte below the data directory
has what the person said. `KIMAS_AUDIENCE_STEPS=10000` makes it long, and
`KIMAS_AUDIENCE_SHRINK=1` looks for a shorter way to the fault that it finds.
"""

from __future__ import annotations

import asyncio
import copy
import io
import os
import shutil
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, redirect_stdout
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings as hypothesis_settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import delete, insert

from bots.cli.backup import backup, restore
from bots.daemon import gap_report
from bots.daemon.alerts import AlertSender
from bots.daemon.gap_report import GapReporter
from core.formatting import INDEFINITELY
from core.llm import repetition
from core.messaging.feedback import rating_buttons
from core.runtime.clock import ClockWatch
from core.settings.audience import Audiences
from core.storage.drafts import DraftRepository
from core.storage.lessons import TaughtAnswerRepository
from core.storage.overrides import AUDIENCES_PREFIX, DEPLOYMENT_SCOPE, override_key
from core.storage.reports import ReportRepository
from core.storage.tables import leases, overrides
from core.types import DOWN, RATING_COMMAND, RETRY, UP, ConversationKey, Message
from tests.support.audience_truth import (
    AUDIENCES,
    IN_PRIVATE,
    MEMBER,
    MOVED_PUBLIC,
    NAMES,
    OWNER,
    PLACES,
    PUBLIC,
    QUESTION,
    TEAM,
    Configuration,
    Truth,
    format_said,
)
from tests.support.interleaving import (
    PLACE,
    POINTS,
    Interruption,
    Interruptions,
    Watch,
    interrupt,
    watch_models,
)
from tests.support.recording_bot import Sender
from tests.support.watched_bot import open_watched_bot, write_documents
from tests.support.watched_doors import PROGRAMS, WAYS, read_metrics, watch_doors, watch_records

STEPS = int(os.environ.get("KIMAS_AUDIENCE_STEPS", "0"))
STEPS_PER_RUN = 30
# Where one of them was answered before, the answer is in the cache.
QUESTIONS = (QUESTION, "Which release date has the launcher?", "Is the release date of the launcher known?")
# Each takes about 3 s of processor time; `KIMAS_AUDIENCE_STEPS` asks for more.
RUNS_IN_BRIEF = 4
COMMANDS = ("sources", "help", "status", "faq", "stats", "audit", "settings", "digest", "nothing", "reload", "escalate")
CHANGES = ("close", "shut", "rename", "elsewhere", "forget", "edit", "demote", "mute", "local", "reject", "move")
# Those after which less may be told of, and what a source is opened to after these.
CLOSINGS = ("close", "shut", "rename", "elsewhere", "local")
OPENINGS = (("everyone",), AUDIENCES[0], ("everyone",), AUDIENCES[5], ("admins",))
Result = TypeVar("Result")


@dataclass(frozen=True)
class Plan:
    """A change in the middle of a step: where, after how many times there, which, and of what."""

    point: str
    count: int
    change: str
    pick: int


SENDERS = st.sampled_from(PLACES)
PLANS = st.builds(
    Plan,
    st.sampled_from(POINTS),
    st.integers(0, 3) | st.integers(0, 25),
    st.sampled_from(CHANGES),
    st.integers(0, len(PLACES) - 1),
)


class AudienceMachine(RuleBasedStateMachine):
    """The bot, and what everybody does."""

    documents: Path
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
        self.teachings = 0
        self.sayings = 0
        self.folder = self.folders / str(len(list(self.folders.iterdir())))
        self.folder.mkdir()

    def run(self, work: Coroutine[Any, Any, Result], plan: Plan | None = None) -> Result:
        """Do something, with a change in the middle of it; then nothing may have leaked, and nobody be remembered."""
        if plan:
            change = partial(self._change, plan)
            self.interruptions.planned.append(Interruption(plan.point, plan.count, change))
        result = self.loop.run_until_complete(work)
        has_happened = bool(plan) and not self.interruptions.planned
        self.interruptions.planned.clear()
        leaks = list(self.watch.leaks)
        self.watch.leaks.clear()
        assert not leaks, f"{leaks} with {plan}"
        counted = self.truth.find_in_records(read_metrics(self.opened.metrics))
        assert not counted, f"/metrics has {counted}"
        if self.truth.forgotten:
            self.loop.run_until_complete(self.bot.journal.database.wipe())
            left = find_bytes(self.folder / "data", sorted(self.truth.forgotten))
            assert not left, f"{left} with {plan}"
        if plan and has_happened and plan.change in CLOSINGS:
            # What is closed stays closed until the next start: there would soon be nothing left to close.
            self._reopen(OPENINGS[plan.pick % len(OPENINGS)])
        return result

    async def _end(self) -> None:
        """End the daemon, and the other one that there may be: it is started again with the same file."""
        async with self.bot.journal.database.transaction() as connection:
            await connection.execute(delete(leases))
        await self.stack.aclose()

    def _reopen(self, audience: tuple[str, ...]) -> None:
        self.loop.run_until_complete(self._end())
        self.configuration = replace(self.configuration, audience=audience, local=frozenset())
        self.loop.run_until_complete(self._open())
        self.loop.run_until_complete(self.bot.app.refresh())

    @initialize()
    def start(self) -> None:
        self.run(self._open())
        self.run(self.bot.app.refresh())
        self.ask(PLACES[2], None)
        self.backup: tuple[Path, Truth, Configuration] | None = None

    async def _open(self) -> None:
        opened = open_watched_bot(self.folder, self.documents, self.configuration, self.interruptions, self.watch)
        self.opened = await self.stack.enter_async_context(opened)
        self.bot = self.opened.bot
        self.models = self.opened.models
        self.truth.own_model = self.models[1].base_url
        self.truth.local.clear()
        self.truth.audiences = [self.configuration.audience]

    def teardown(self) -> None:
        self.loop.run_until_complete(self.stack.aclose())
        self.loop.close()
        shutil.rmtree(self.folder)

    async def _deliver(self, sender: Sender, text: str = "", command: str = "", **changes: Any) -> Message:
        sender = self._at(sender)
        PLACE.set(sender)
        return await self.bot.deliver(sender, text, command, **changes)

    def _at(self, sender: Sender) -> Sender:
        """Return where somebody writes by now."""
        return replace(sender, chat=MOVED_PUBLIC) if sender.chat == PUBLIC and self.truth.has_moved else sender

    async def _change(self, plan: Plan) -> None:
        """Change something, at once; from then on it counts."""
        place = self._at(PLACES[plan.pick])
        audience = ("owners",) if plan.change == "shut" else AUDIENCES[plan.pick % len(AUDIENCES)]
        match plan.change:
            case "close" | "shut":
                await self._reload(replace(self.configuration, audience=audience))
                self.truth.audiences.append(audience)
            case "rename":
                await self._rename(audience)
            case "elsewhere":
                await self._close_elsewhere(audience)
                self.truth.audiences.append(audience)
            case "forget":
                await self._forget(place)
            case "edit":
                await self._edit(place)
            case "demote":
                person = ("43", MEMBER)[plan.pick % 2]
                await self._set(self._at(PLACES[1]), override_key("admin", person), None)
                self.truth.admins.discard(person)
            case "mute":
                await self._set(place, "pause", INDEFINITELY)
                self.truth.muted.add(f"{place.platform}:{place.chat}")
            case "local":
                local = self.configuration.local | {f"{place.platform}:{place.chat}"}
                await self._reload(replace(self.configuration, local=local))
                self.truth.local |= local
            case "reject":
                repository = TaughtAnswerRepository(self.bot.journal.database)
                for answer in (await repository.list_answers(reader=None))[-1:]:
                    await repository.decide(answer.number, "rejected", f"telegram:{OWNER}")
            case "move" if not self.truth.has_moved:
                await self.bot.live.record_move("telegram", PUBLIC, MOVED_PUBLIC)
                self.truth.move()

    async def _reload(self, configuration: Configuration) -> None:
        self.configuration = configuration
        settings = configuration.make_settings(self.folder, self.documents, self.models)
        self.bot.new_settings = settings
        await self.bot.dispatcher.context.reload(settings)

    async def _rename(self, audience: tuple[str, ...]) -> None:
        """Who gives the source another name has closed it, whoever may see that one after the next start."""
        (name,) = set(NAMES) - {self.configuration.name}
        renamed = replace(self.configuration, audience=audience, name=name)
        context = self.bot.dispatcher.context
        # Taken up, the source of the new name would tell the same to its own readers.
        context.take_up = None
        try:
            await context.reload(renamed.make_settings(self.folder, self.documents, self.models))
        finally:
            context.take_up = self.bot.take_up
        self.truth.audiences.append(("owners",))

    async def _close_elsewhere(self, audience: tuple[str, ...]) -> None:
        """Let another daemon of the deployment be the first one that is reloaded with a file that closes more."""
        settings = replace(self.configuration, audience=audience).make_settings(
            self.folder, self.documents, self.models
        )
        values = {"scope": DEPLOYMENT_SCOPE, "name": f"{AUDIENCES_PREFIX}other"}
        async with self.bot.journal.database.transaction() as connection:
            await connection.execute(delete(overrides).filter_by(**values))
            await connection.execute(delete(leases))
            lease = {"name": "daemon:other", "owner": "other", "expires_at": datetime(2999, 1, 1, tzinfo=UTC)}
            await connection.execute(insert(leases).values(lease))
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

    async def _forget(self, place: Sender) -> None:
        """Let somebody say /forget in another thread of a chat."""
        command = make_command(place, "forget")
        journal = self.bot.journal
        await journal.record_message(command)
        await journal.erase_author(command)
        await journal.mark_answered(command, rating_buttons.Reply(""))
        self.truth.forget(place)

    @rule(sender=SENDERS, plan=PLANS)
    def ask(self, sender: Sender, plan: Plan | None) -> None:
        self.last_messages[sender] = self.run(self._deliver(sender, QUESTION), plan)

    @rule(
        sender=SENDERS,
        question=st.sampled_from(QUESTIONS),
        point=st.sampled_from(POINTS),
        count=st.integers(0, 12),
        change=st.sampled_from(("shut", "forget", "mute", "local")),
    )
    def ask_while_it_changes(self, sender: Sender, question: str, point: str, count: int, change: str) -> None:
        """What changes is of the place where the answer is made."""
        plan = Plan(point, count, change, PLACES.index(sender))
        self.last_messages[sender] = self.run(self._deliver(sender, question), plan)

    @rule(sender=SENDERS, text=st.sampled_from(("And what else is known about it?", "who?")), plan=PLANS)
    def go_on(self, sender: Sender, text: str, plan: Plan | None) -> None:
        self.run(self._deliver(sender, text), plan)

    @rule(sender=SENDERS, plan=PLANS)
    def say(self, sender: Sender, plan: Plan | None) -> None:
        text = format_said(self._say(self._at(sender)))
        self.last_messages[sender] = self.run(self._deliver(sender, text), plan)

    @rule(sender=SENDERS, is_forwarded=st.booleans(), text=st.sampled_from(("", "Is it this?")), plan=PLANS)
    def bring(self, sender: Sender, is_forwarded: bool, text: str, plan: Plan | None) -> None:
        """Quote or forward what another member of the chat said, whom the platform names."""
        place = self._at(sender)
        others = [(word, said) for word, said in self.truth.said.items() if _is_other(said, place)]
        if not others:
            return
        word, said = others[-1]
        brought: dict[str, Any] = {"quoted_authors": (said.author,)}
        if is_forwarded:
            text = format_said(word)
            brought["is_forwarded"] = True
        else:
            last = next((each.id for each in self.last_messages.values() if word in each.text), "")
            brought |= {"quoted": format_said(word), "reply_to": last}
        self.last_messages[sender] = self.run(self._deliver(sender, text, **brought), plan)

    @rule(sender=SENDERS)
    def edit(self, sender: Sender) -> None:
        self.run(self._edit(self._at(sender)))

    @rule(program=st.sampled_from(PROGRAMS), way=st.sampled_from(WAYS), question=st.sampled_from(QUESTIONS), plan=PLANS)
    def ask_by_a_door(self, program: Sender, way: str, question: str, plan: Plan | None) -> None:
        self.run(self._ask_by_a_door(program, way, question), plan)

    @rule(
        program=st.sampled_from(PROGRAMS),
        way=st.sampled_from(WAYS),
        point=st.sampled_from(POINTS),
        count=st.integers(0, 8),
        change=st.sampled_from(("shut", "elsewhere", "rename")),
    )
    def ask_by_a_door_while_it_changes(self, program: Sender, way: str, point: str, count: int, change: str) -> None:
        self.run(self._ask_by_a_door(program, way, QUESTION), Plan(point, count, change, 0))

    async def _ask_by_a_door(self, program: Sender, way: str, question: str) -> None:
        PLACE.set(program)
        await self.opened.doors.ask(program, way, question, self.configuration.name)

    @rule(senders=st.lists(SENDERS, min_size=2, max_size=4), plan=PLANS)
    def ask_together(self, senders: Sequence[Sender], plan: Plan | None) -> None:
        async def ask_all() -> None:
            async with asyncio.TaskGroup() as group:
                for sender in senders:
                    group.create_task(self._deliver(sender, QUESTION))

        self.run(ask_all(), plan)

    @rule(sender=SENDERS, text=st.sampled_from(("", "Is it this?")), plan=PLANS)
    def quote(self, sender: Sender, text: str, plan: Plan | None) -> None:
        if last := self.last_messages.get(sender):
            self.run(self._deliver(sender, text, reply_to=last.id, quoted="It"), plan)

    @rule(sender=SENDERS, other=SENDERS, choice=st.sampled_from((DOWN, RETRY, UP)), plan=PLANS)
    def press(self, sender: Sender, other: Sender, choice: str, plan: Plan | None) -> None:
        """Press a button below the answer to somebody, who may be in another chat: who presses may send anything."""
        if last := self.last_messages.get(other):
            key = ConversationKey(sender.platform, self._at(sender).chat, rating_buttons.THREAD)
            self.run(self._deliver(sender, choice, RATING_COMMAND, reply_to=last.id, key=key), plan)

    @rule(sender=SENDERS, other=SENDERS, plan=PLANS)
    def explain(self, sender: Sender, other: Sender, plan: Plan | None) -> None:
        last = self.last_messages.get(other)
        self.run(self._deliver(sender, last.id if last else "", "why"), plan)

    @rule(sender=SENDERS, command=st.sampled_from(COMMANDS), plan=PLANS)
    def command(self, sender: Sender, command: str, plan: Plan | None) -> None:
        self.run(self._deliver(sender, "", command), plan)

    @rule(sender=SENDERS, plan=PLANS)
    def switch(self, sender: Sender, plan: Plan | None) -> None:
        self.run(self._deliver(sender, f"on {self.configuration.name}x", "sources"), plan)

    @rule(sender=st.sampled_from(PLACES[:7]), plan=PLANS)
    def teach(self, sender: Sender, plan: Plan | None) -> None:
        self.teachings += 1
        word = f"kultarr{self.teachings}"
        is_closed = self.truth.sees(sender) and not self.truth.is_open
        self.truth.lessons[word] = (f"{sender.platform}:{self._at(sender).chat}", is_closed)
        question = f"How long is countdown {self.teachings}?"
        self.run(self._deliver(sender, question, "learn", quoted=f"It takes {word}."), plan)

    @rule(sender=SENDERS, plan=PLANS)
    def approve_and_refresh(self, sender: Sender, plan: Plan | None) -> None:
        self.run(self._approve())
        for number in range(1, self.teachings + 1):
            self.run(self._deliver(sender, f"How long is countdown {number}?"), plan)

    async def _approve(self) -> None:
        repository = TaughtAnswerRepository(self.bot.journal.database)
        for answer in await repository.list_answers("pending", reader=None):
            await self._deliver(IN_PRIVATE, f"approve {answer.number}", "faq")
        await self.bot.app.refresh(["taught", "taught-team"])

    @rule(sender=st.sampled_from(PLACES[:2]), plan=PLANS)
    def answer_for_the_bot(self, sender: Sender, plan: Plan | None) -> None:
        """Let somebody who is trusted answer a question of another member: that is a lesson, once it is approved."""
        asked = self.run(self._deliver(sender, f"How long is countdown {self.teachings + 1}?", addressed=False))
        self.teachings += 1
        word = f"kultarr{self.teachings}"
        self.truth.lessons[word] = (f"{sender.platform}:{self._at(sender).chat}", False)
        trusted = replace(sender, author=MEMBER)
        reply = {"reply_to": asked.id, "quoted": asked.text, "addressed": False}
        self.run(self._deliver(trusted, f"It takes {word}.", **reply), plan)

    @rule(number=st.integers(1, 4), action=st.sampled_from(("reject", "edit")), plan=PLANS)
    def take_a_lesson_back(self, number: int, action: str, plan: Plan | None) -> None:
        """Reject a lesson, or give it other words, although it was approved."""
        text = " It takes a while." if action == "edit" else ""
        self.run(self._deliver(IN_PRIVATE, f"{action} {number}{text}", "faq"), plan)
        self.run(self.bot.app.refresh(["taught", "taught-team"]))

    @rule(sender=SENDERS, number=st.integers(1, 4), plan=PLANS)
    def show_a_lesson(self, sender: Sender, number: int, plan: Plan | None) -> None:
        self.run(self._deliver(sender, f"list {number}", "faq"), plan)

    @rule(choice=st.sampled_from(("post", "drop", "edit")), plan=PLANS)
    def decide_drafts(self, choice: str, plan: Plan | None) -> None:
        """The team is told of drafts that it does not know yet, and decides about all of them."""

        async def decide() -> None:
            PLACE.set(Sender(TEAM, OWNER))
            await self.bot.processor.drafts.sweep()
            await self.bot.processor.join()
            for draft in await DraftRepository(self.bot.journal.database).get_waiting():
                text = " It is as the team says [1]." if choice == "edit" else ""
                await self._deliver(Sender(TEAM, OWNER), f"{draft.number}{text}", choice)

        self.run(decide(), plan)

    @rule(plan=PLANS)
    def report(self, plan: Plan | None) -> None:
        """Post the weekly report and an alert to the team."""

        async def post() -> None:
            PLACE.set(Sender(TEAM, OWNER))
            bot = self.bot
            adapter = bot.adapters["telegram"]
            sender = AlertSender(bot.live, bot.processor.handler_for, {adapter: asyncio.create_task(adapter.open())})
            await asyncio.wait(sender.adapters.values())
            library = bot.app.shared_library
            reporter = GapReporter(sender, ReportRepository(bot.journal.database), library, ClockWatch())
            await reporter.check()
            await sender.report({f"source {self.configuration.name}": "It fails."}, datetime.now(UTC))
            await bot.processor.join()

        self.run(post(), plan)

    @rule(action=st.sampled_from(("add", "remove")), person=st.sampled_from((MEMBER, "43")), plan=PLANS)
    def appoint(self, action: str, person: str, plan: Plan | None) -> None:
        self.run(self._deliver(Sender(PUBLIC, OWNER), f"{action} {person}", "admins"))
        self.truth.admins = self.truth.admins | {person} if action == "add" else self.truth.admins - {person}
        self.ask(Sender(person, person, is_private=True), plan)

    @rule(change=st.sampled_from(CHANGES), pick=st.integers(0, len(PLACES) - 1), sender=SENDERS)
    def change(self, change: str, pick: int, sender: Sender) -> None:
        """What is closed further is closed at once; what is opened is so after a restart."""
        self.run(self._change(Plan("", 0, change, pick)))
        self.ask(sender, None)

    @rule()
    def unmute(self) -> None:
        for chat in sorted(self.truth.muted):
            place = Sender(chat.partition(":")[2], OWNER, chat.partition(":")[0])
            self.run(self._set(place, "pause", None))
        self.truth.muted.clear()

    @rule(
        audience=st.sampled_from(AUDIENCES),
        name=st.sampled_from(NAMES),
        lessons=st.sampled_from(AUDIENCES),
        sender=SENDERS,
    )
    def restart(self, audience: tuple[str, ...], name: str, lessons: tuple[str, ...], sender: Sender) -> None:
        self.loop.run_until_complete(self._end())
        self.configuration = Configuration(audience, name, lessons)
        self.loop.run_until_complete(self._open())
        self._ask_before_and_after_the_refresh(sender)

    def _ask_before_and_after_the_refresh(self, sender: Sender) -> None:
        # What is stored from before the refresh may be found, too.
        self.go_on(sender, "And what else is known about it?", None)
        self.ask(sender, None)
        self.run(self.bot.app.refresh())
        self.ask(sender, None)

    @rule()
    def save(self) -> None:
        """Save a backup, with what was said until then."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.zip"
        with redirect_stdout(io.StringIO()):
            self.run(backup(self.bot.app.settings, path, as_json=True))
        self.backup = (path, copy.deepcopy(self.truth), self.configuration)

    @rule(audience=st.sampled_from(AUDIENCES), sender=SENDERS)
    def restore(self, audience: tuple[str, ...], sender: Sender) -> None:
        """Begin anew with what was saved, and a configuration of today; who was forgotten since is there again."""
        if self.backup is None:
            return
        path, self.truth, former = self.backup
        self.backup = None
        self.watch.judge = self.truth
        self.last_messages.clear()
        self.loop.run_until_complete(self._end())
        shutil.rmtree(self.folder / "data")
        self.configuration = replace(self.configuration, audience=audience, lessons=former.lessons, local=frozenset())
        settings = self.configuration.make_settings(self.folder, self.documents, self.models)
        with redirect_stdout(io.StringIO()):
            self.loop.run_until_complete(restore(settings, path, as_json=True))
        path.unlink()
        self.loop.run_until_complete(self._open())
        self._ask_before_and_after_the_refresh(sender)

    @rule(sender=SENDERS, plan=PLANS)
    def forget(self, sender: Sender, plan: Plan | None) -> None:
        self.run(self._give_forget(sender), plan)

    async def _give_forget(self, sender: Sender) -> None:
        place = self._at(sender)
        await self._deliver(sender, "", "forget")
        self.truth.forget(place)

    @invariant()
    def the_owner_sees_it_in_private(self) -> None:
        """The test would prove nothing if nobody saw anything."""
        assert self.truth.sees(IN_PRIVATE)


def make_command(place: Sender, command: str = "pause") -> Message:
    """Return a command that is given in a thread of its own."""
    key = ConversationKey(place.platform, place.chat, "elsewhere")
    now = datetime.now(UTC)
    message = Message(f"in between {now.timestamp()}", key, place.author, "Ann", "", now, command=command)
    return replace(message, addressed=True, private=place.is_private)


def _is_other(said: Sender, place: Sender) -> bool:
    """Return whether something was said in a chat by somebody else."""
    return (said.platform, said.chat) == (place.platform, place.chat) and said.author != place.author


def find_bytes(folder: Path, words: Sequence[str]) -> list[str]:
    """Return the files that have a word, in any encoding that a database may use."""
    needles = [(word, word.encode(encoding)) for word in words for encoding in ("utf-8", "utf-16-le")]
    files = [(path, path.read_bytes()) for path in folder.rglob("*") if path.is_file()]
    return [f"{path.name} has {word}" for path, content in files for word, needle in needles if needle in content]


@pytest.fixture
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    write_documents(folder)
    return folder


@pytest.mark.timeout(0 if STEPS else 300)
def test_no_closed_word_reaches_who_may_not_see_it(
    tmp_path: Path, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interruptions = Interruptions()
    watch = Watch(Truth([]))
    interrupt(monkeypatch, interruptions)
    watch_models(monkeypatch, watch)
    watch_doors(monkeypatch, watch, interruptions)
    watch_records(monkeypatch, watch)
    monkeypatch.setattr(repetition, "ECHO_SHARE", 2.0)
    # The report is due at any time, and has all that was asked.
    monkeypatch.setattr(gap_report, "_get_monday", lambda now: now.astimezone())
    monkeypatch.setattr(gap_report, "DUE_AFTER", timedelta())
    for name, value in {
        "documents": documents,
        "folders": tmp_path,
        "interruptions": interruptions,
        "watch": watch,
    }.items():
        monkeypatch.setattr(AudienceMachine, name, value, raising=False)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        AudienceMachine,
        settings=hypothesis_settings(
            # A shorter way to a fault takes many times as long to find.
            phases=tuple(Phase) if "KIMAS_AUDIENCE_SHRINK" in os.environ else (Phase.generate,),
            max_examples=-(-STEPS // STEPS_PER_RUN) or RUNS_IN_BRIEF,
            stateful_step_count=STEPS_PER_RUN,
            derandomize=not STEPS,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert interruptions.happened
    assert any("numbat" in text for text in watch.shown)
