"""Whatever people, owners and configurations do in whatever order: no closed word reaches who may not see it.

A state machine over people, roles, chats, sources, lessons, closings, reloads, renamings, moves and forgettings, on the
bot as the daemon wires it, with the sinks of all platforms, and its API, MCP and page as they are served. What reaches
its model counts as told; its answers have the closed words and the sentences of people that it was told, and are
cached. Lines of the log at all levels, spans and metrics have no word of people or documents. What somebody said in a
chat, a closed thread or alone is told nowhere else, and every message that was delivered has an outcome.

The rules are here and, by what they are about, in `tests/security/audience_rules`. Each change can happen in the middle
of any step as well (`tests/support/interleaving.py`), also while an answer waits for its platform or a draft for its
team, and several messages are answered at once. Words are judged at the moment when they leave. After a forgetting, no
byte below the data directory has what the person said.

`KIMAS_AUDIENCE_STEPS=10000` makes it long, and `KIMAS_AUDIENCE_SHRINK=1` looks for a shorter way to the fault that it
finds.
"""

from __future__ import annotations

import asyncio
import copy
import io
import os
import shutil
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings as hypothesis_settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bots.cli.backup import backup, restore
from bots.daemon import gap_report
from bots.daemon.alerts import AlertSender
from bots.daemon.gap_report import GapReporter
from core.llm import repetition
from core.messaging import journaling
from core.messaging.feedback import rating_buttons
from core.runtime.clock import ClockWatch
from core.storage.erasure import erase_on_platform
from core.storage.reports import ReportRepository
from core.types import DOWN, RATING_COMMAND, RETRY, UP, ConversationKey, Origin
from tests.security.audience_rules.files import FileRules
from tests.security.audience_rules.messages import MessageRules
from tests.security.audience_rules.networks import NetworkRules
from tests.security.audience_rules.steps import FELLOWS, KINDS, PLANS, QUESTIONS, SENDERS
from tests.security.audience_rules.threads import ThreadRules
from tests.security.audience_rules.waiting import WaitingRules
from tests.support.audience_changes import CHANGES, RESTRICTIONS, UNRESTRICTED, Plan, attach, is_other
from tests.support.audience_truth import Truth
from tests.support.audience_world import (
    AUDIENCES,
    IN_PRIVATE,
    MEMBER,
    NAMES,
    ON_DISCORD,
    OWNER,
    PARTS_AUDIENCES,
    PLACES,
    PUBLIC,
    QUESTION,
    TEAM,
    Configuration,
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
from tests.support.watched_doors import PROGRAMS, WAYS, watch_doors, watch_records

STEPS = int(os.environ.get("KIMAS_AUDIENCE_STEPS", "0"))
STEPS_PER_RUN = 30
# Each takes about 3 s of processor time; `KIMAS_AUDIENCE_STEPS` asks for more.
RUNS_IN_BRIEF = 4
COMMANDS = ("sources", "help", "status", "faq", "stats", "audit", "settings", "digest", "nothing", "reload", "escalate")


class AudienceMachine(MessageRules, WaitingRules, FileRules, NetworkRules, ThreadRules, RuleBasedStateMachine):
    """The bot, and what everybody does."""

    @initialize()
    def start(self) -> None:
        self.run(self._open())
        self.run(self.bot.app.refresh())
        self.ask(PLACES[2], None)
        self.backup: tuple[Path, Truth, Configuration] | None = None

    def teardown(self) -> None:
        self.loop.run_until_complete(self.stack.aclose())
        self.loop.close()
        shutil.rmtree(self.folder)

    @rule(sender=SENDERS, plan=PLANS)
    def ask(self, sender: Sender, plan: Plan | None) -> None:
        self.last_messages[sender] = self.run(self._deliver(sender, QUESTION), plan)

    @rule(
        sender=SENDERS,
        question=st.sampled_from(QUESTIONS),
        point=st.sampled_from(POINTS),
        count=st.integers(0, 12),
        change=st.sampled_from(("shut", *RESTRICTIONS)),
    )
    def ask_while_it_changes(self, sender: Sender, question: str, point: str, count: int, change: str) -> None:
        """What changes is of the place where the answer is made."""
        plan = Plan(point, count, change, PLACES.index(sender))
        self.last_messages[sender] = self.run(self._deliver(sender, question), plan)

    @rule(sender=SENDERS, point=st.sampled_from(POINTS), count=st.integers(0, 12))
    def say_and_be_forgotten(self, sender: Sender, point: str, count: int) -> None:
        text = format_said(self._say(self._at(sender)))
        self.run(self._deliver(sender, text), Plan(point, count, "forget", PLACES.index(sender)))

    @rule(sender=SENDERS, text=st.sampled_from(("And what else is known about it?", "who?")), plan=PLANS)
    def go_on(self, sender: Sender, text: str, plan: Plan | None) -> None:
        self.run(self._deliver(sender, text), plan)

    @rule(sender=SENDERS, kind=st.sampled_from(("", *KINDS)), plan=PLANS)
    def say(self, sender: Sender, kind: Any, plan: Plan | None) -> None:
        """Say a sentence with a word of one's own, aloud, too, or attach a file or a picture with one."""
        said = format_said(self._say(self._at(sender)))
        changes = {"text": said}
        if kind:
            changes = {"text": "" if kind == "voice" else "What is this?", "attachments": (attach(said, kind),)}
        self.last_messages[sender] = self.run(self._deliver(sender, **changes), plan)

    @rule(count=st.integers(1, 4), which=st.integers(0, 2))
    def refuse(self, count: int, which: int) -> None:
        """Let a model or the moderation refuse the next requests, with a part of what they say."""
        self.models[which].refusals = count

    @rule(
        sender=SENDERS,
        way=st.sampled_from(("quote", "thread", "forward", *KINDS)),
        text=st.sampled_from(("", "Is it this?")),
        plan=PLANS,
    )
    def bring(self, sender: Sender, way: Any, text: str, plan: Plan | None) -> None:
        """Quote or forward what other members of the chat said or attached, whom the platform names."""
        place = self._at(sender)
        others = [(word, said) for word, said in self.truth.said.items() if is_other(said, place)]
        if not others:
            return
        word, said = others[-1]
        last = next((each.id for each in self.last_messages.values() if word in repr(each)), "")
        brought: dict[str, Any] = {"quoted_authors": (said.author,)}
        if way == "forward":
            text = format_said(word)
            brought["is_forwarded"] = True
        elif way in KINDS:
            brought |= {"attachments": (attach(format_said(word), way),), "reply_to": last}
        elif way == "thread":
            told = "\n\n".join(format_said(each) for each, _ in others[-3:])
            brought |= {"quoted": told, "quoted_authors": tuple({each.author for _, each in others[-3:]} | {"99"})}
        else:
            brought |= {"quoted": format_said(word), "reply_to": last}
        self.last_messages[sender] = self.run(self._deliver(sender, text, **brought), plan)

    @rule(
        pair=st.sampled_from(FELLOWS),
        way=st.sampled_from(("go on", "quote", "thread", "forward", *KINDS)),
        is_seen=st.booleans(),
        point=st.sampled_from(POINTS),
        count=st.integers(0, 25),
    )
    def retell(self, pair: tuple[Sender, Sender], way: Any, is_seen: bool, point: str, count: int) -> None:
        """Bring or go on with what a fellow has said, where the bot saw it or not, who is forgotten then or later."""
        fellow, sender = pair
        plan = Plan(point, count, "forget", PLACES.index(fellow))
        if is_seen:
            self.say(fellow, way if way in KINDS else "", None)
        else:
            self._say(self._at(fellow))
        if way == "go on":
            self.go_on(sender, "And what else is known about it?", plan)
        else:
            self.bring(sender, way, "Is it this?", plan)
        self.forget(fellow, None)

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

    @rule(plan=PLANS)
    def post(self, plan: Plan | None) -> None:
        """Publish something that the bot comments on, where nobody has asked it."""
        options: dict[str, Any] = {"addressed": False, "is_post": True}
        self.run(self._deliver(Sender(ON_DISCORD, OWNER, "discord"), f"{QUESTION} It is not known.", **options), plan)

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

    @rule(sender=SENDERS, purpose=st.sampled_from(("welcome", "home", "prompts")), plan=PLANS)
    def open_a_page(self, sender: Sender, purpose: Any, plan: Plan | None) -> None:
        """Open a chat for the first time, Slack's Home tab or its view for agents."""
        self.run(self._deliver(sender, "", "start", origin=Origin(purpose=purpose)), plan)

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
        named = {("telegram", person)}
        self.truth.admins = self.truth.admins | named if action == "add" else self.truth.admins - named
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
        parts=st.sampled_from(PARTS_AUDIENCES),
        sender=SENDERS,
    )
    def restart(
        self,
        audience: tuple[str, ...],
        name: str,
        lessons: tuple[str, ...],
        parts: tuple[str, ...] | None,
        sender: Sender,
    ) -> None:
        self._restart(Configuration(audience, name, lessons, parts))
        self._ask_before_and_after_the_refresh(sender)

    def _ask_before_and_after_the_refresh(self, sender: Sender) -> None:
        # What is stored from before the refresh may be found, too.
        self.go_on(sender, "And what else is known about it?", None)
        self.ask(sender, None)
        self.run(self.bot.app.refresh())
        self.ask(sender, None)

    @rule(
        sender=SENDERS,
        command=st.sampled_from(("", "", "sources", "status", "why")),
        point=st.sampled_from(POINTS),
        count=st.integers(0, 12),
        change=st.sampled_from(("", "forget", "move", *RESTRICTIONS)),
        audience=st.sampled_from(AUDIENCES),
    )
    def restart_in_the_middle(
        self, sender: Sender, command: str, point: str, count: int, change: str, audience: tuple[str, ...]
    ) -> None:
        """End the daemon while it works; the next one, with another file, goes on with what it finds."""
        text = "" if command else QUESTION
        self.run(self._deliver_until(sender, text, command, Interruption(point, count, self._stand_still)))
        self._restart(replace(self.configuration, audience=audience))
        if change:
            self.run(self._change(Plan("", 0, change, PLACES.index(sender))))
        PLACE.set(self._at(sender))
        self.run(self._resume())

    @precondition(lambda self: len(self.daemons) == 1)
    @rule(audience=st.sampled_from(AUDIENCES), sender=SENDERS)
    def join(self, audience: tuple[str, ...], sender: Sender) -> None:
        """Let another daemon of the deployment begin, with a file of its own; it gets what follows."""
        self.loop.run_until_complete(self._join(audience))
        self._ask_before_and_after_the_refresh(sender)

    @precondition(lambda self: len(self.daemons) > 1)
    @rule(sender=SENDERS)
    def take_turns(self, sender: Sender) -> None:
        """Let the other daemon get what follows."""
        self._use(1 - self.daemons.index(self.opened))
        self.ask(sender, None)

    @rule()
    def save(self) -> None:
        """Save a backup, with what was said until then."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.zip"
        with redirect_stdout(io.StringIO()):
            self.run(backup(self.daemons[0].bot.app.settings, path, as_json=True))
        self.backup = (path, copy.deepcopy(self.truth), self.configuration)

    @rule(audience=st.sampled_from(AUDIENCES), sender=SENDERS)
    def restore(self, audience: tuple[str, ...], sender: Sender) -> None:
        """Begin anew with what was saved, and a configuration of today; who was forgotten since is there again."""
        if self.backup is None:
            return
        path, truth, former = self.backup
        truth.names_then, truth.part_number = self.truth.names_then, self.truth.part_number
        self.truth = truth
        self.backup = None
        self.watch.judge = self.truth
        self.last_messages.clear()
        self.loop.run_until_complete(self._end())
        for folder in self.folder.glob("data*"):
            shutil.rmtree(folder)
        self.configuration = replace(self.configuration, audience=audience, lessons=former.lessons, **UNRESTRICTED)
        settings = self.configuration.make_settings(self.folder, self.documents, self.models)
        with redirect_stdout(io.StringIO()):
            self.loop.run_until_complete(restore(settings, path, as_json=True))
        path.unlink()
        self.loop.run_until_complete(self._open())
        self._ask_before_and_after_the_refresh(sender)

    @rule(sender=SENDERS, plan=PLANS)
    def forget(self, sender: Sender, plan: Plan | None) -> None:
        self.run(self._give_forget(sender), plan)

    @rule(sender=SENDERS)
    def erase(self, sender: Sender) -> None:
        """Let the operator erase somebody in all chats of a platform."""
        person = self._at(sender)
        today = datetime.now(UTC).date()
        self.run(erase_on_platform(self.bot.journal.database, person.platform, person.author, today))
        self.truth.forget_everywhere(person)
        self.run(asyncio.sleep(0))

    @invariant()
    def every_message_has_an_outcome(self) -> None:
        self.loop.run_until_complete(self._check_outcomes())

    @invariant()
    def the_owner_sees_it_in_private(self) -> None:
        """The test would prove nothing if nobody saw anything."""
        assert self.truth.sees(IN_PRIVATE)


@pytest.mark.timeout(0 if STEPS else 300)
def test_no_closed_word_reaches_who_may_not_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interruptions = Interruptions()
    watch = Watch(Truth([]))
    interrupt(monkeypatch, interruptions)
    watch_models(monkeypatch, watch)
    watch_doors(monkeypatch, watch, interruptions)
    watch_records(monkeypatch, watch)
    monkeypatch.setattr(repetition, "ECHO_SHARE", 2.0)
    monkeypatch.setattr(journaling, "POSTING_GRACE_S", 0.0)
    # The report is due at any time, and has all that was asked.
    monkeypatch.setattr(gap_report, "_get_monday", lambda now: now.astimezone())
    monkeypatch.setattr(gap_report, "DUE_AFTER", timedelta())
    for name, value in {
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
    for word in ("numbat", "pademelon"):
        assert any(word in text for text in watch.shown)
