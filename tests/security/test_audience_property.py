"""Whatever people, owners and configurations do in whatever order: no closed word reaches who may not see it.

A state machine over people, roles, chats, sources, lessons, closings, reloads, renamings, moves and forgettings, on the
bot as the daemon wires it. What reaches its model counts as told; its answers have the closed words that it was told,
and are cached.
`KIMAS_AUDIENCE_STEPS=10000` makes it long.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings as hypothesis_settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bots.daemon.bootstrap import make_live_settings, open_app
from core.llm import repetition
from core.messaging.feedback import rating_buttons
from core.settings import Settings
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.types import DOWN, RATING_COMMAND, RETRY, ConversationKey, Message
from knowledge.parsing.parser import ThreadParser
from tests.support.knowledge import WordEmbedder
from tests.support.recording_bot import Bot, Sender
from tests.support.scripted import Body, ScriptedPeer

STEPS = int(os.environ.get("KIMAS_AUDIENCE_STEPS", "0"))
STEPS_PER_RUN = 30
# Each takes about 3 s of processor time; `KIMAS_AUDIENCE_STEPS` asks for more.
RUNS_IN_BRIEF = 4
OWNER = "1"
MEMBER = "42"
PUBLIC = "-100"
TEAM = "-200"
MOVED_TEAM = "-250"
CHOICE = '{"strategy": "single", "query": ""}'
QUESTION = "When is the release date of the launcher?"
# In the closed folder; nobody says them.
CLOSED_WORDS = ("numbat", "bilby", "dunnart", "quoll")
NAMES = ("quokka", "wombat")
PLACES = (
    Sender(PUBLIC, MEMBER),
    Sender(PUBLIC, OWNER),
    Sender(TEAM, MEMBER),
    Sender(TEAM, OWNER),
    Sender(MOVED_TEAM, MEMBER),
    Sender(MEMBER, MEMBER, is_private=True),
    Sender("43", "43", is_private=True),
    Sender(OWNER, OWNER, is_private=True),
    Sender("C9", MEMBER, platform="slack"),
)
IN_PRIVATE = PLACES[7]
# A word of a lesson, too.
_SECRET = re.compile("|".join((*CLOSED_WORDS, *NAMES, r"kultarr\d+")))
AUDIENCES = ((f"telegram:{TEAM}", "owners"), ("owners",), (f"telegram:{MOVED_TEAM}",), ("admins",), ("everyone",))
COMMANDS = ("sources", "help", "status", "faq", "stats", "audit", "settings", "digest", "nothing", "reload", "escalate")
Result = TypeVar("Result")


def tell(body: Body) -> str:
    """Answer with the closed words that were told."""
    told = sorted(set(_SECRET.findall(str(body["messages"]).lower())))
    return f"The release date of the launcher is {' '.join(told)} [p1][p2][p3]."


@dataclass
class Configuration:
    """What the file says."""

    audience: tuple[str, ...] = AUDIENCES[0]
    name: str = NAMES[0]
    # Of the source of taught answers.
    lessons: tuple[str, ...] = AUDIENCES[0]

    def make_settings(self, folder: Path, documents: Path, model: ScriptedPeer) -> Settings:
        closed = {"audience": self.audience}
        return Settings.model_validate(
            {
                "data_dir": str(folder / "data"),
                "sources": {
                    "docs": {"kind": "files", "path": str(documents / "docs")},
                    self.name: {"kind": "files", "path": str(documents / "team"), **closed},
                    "taught": {"kind": "learned"},
                    "taught-team": {"kind": "learned", "audience": self.lessons},
                },
                "agents": {
                    "manual": {"sources": ["docs", "taught"], "description": "The launcher, for everyone"},
                    "quoll": {"sources": [self.name], "description": "release date of the launcher"},
                    "lessons": {"sources": ["taught-team"]},
                },
                "knowledge": {"routing": {"threshold": 0}, "parsing": {"workers": 1}},
                "models": {"main": {"base_url": model.base_url, "model": "peer"}},
                "telegram": {"token": {"env": "TELEGRAM"}},
                "slack": {"bot_token": {"env": "SLACK"}, "app_token": {"env": "SLACK_APP"}},
                "administration": {"owners": [f"telegram:{OWNER}"]},
                "handoff": {"people": ["telegram:7"], "trusted": [f"telegram:{MEMBER}"]},
                "gate": {"mode": "mention", "answers_in_10_min": 200, "wait_s": 0, "cooldown_s": 0},
                "budget": {"deadline_s": 6000},
                "cache": {"enabled": True},
            }
        )


@dataclass
class Truth:
    """Who may see what, kept apart from the bot."""

    # Of the configuration at the start, and of all that were loaded since.
    audiences: list[tuple[str, ...]]
    admins: set[str] = field(default_factory=set)
    # The words of lessons: the chat in which people said them, and whether they may tell of the closed source.
    lessons: dict[str, tuple[str, bool]] = field(default_factory=dict)

    def sees(self, sender: Sender) -> bool:
        """Return whether somebody may see the closed source where they write."""
        return all(self._belongs(sender, audience) for audience in self.audiences)

    def _belongs(self, sender: Sender, audience: tuple[str, ...]) -> bool:
        if "everyone" in audience or f"{sender.platform}:{sender.chat}" in audience:
            return True
        if not sender.is_private or sender.platform != "telegram":
            return False
        return sender.author == OWNER or ("admins" in audience and sender.author in self.admins)

    def find_leaks(self, sender: Sender, text: str) -> set[str]:
        """Return the words in what was shown or asked for somebody that they may not see."""
        text = text.lower()
        is_insider = self.sees(sender)
        words = set() if is_insider else {word for word in (*CLOSED_WORDS, *NAMES) if word in text}
        chat = f"{sender.platform}:{sender.chat}"
        for word, (origin, is_closed) in self.lessons.items():
            if is_closed and word in text and not is_insider and origin != chat:
                words.add(word)
        return words


class AudienceMachine(RuleBasedStateMachine):
    """The bot, and what everybody does."""

    documents: Path
    folders: Path

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.configuration = Configuration()
        self.truth = Truth([self.configuration.audience])
        self.last_messages: dict[Sender, Message] = {}
        self.teachings = 0
        self.folder = self.folders / str(len(list(self.folders.iterdir())))
        self.folder.mkdir()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(work)

    @initialize()
    def start(self) -> None:
        self.run(self._open())
        self.run(self.bot.app.refresh())
        self.ask(PLACES[2])

    async def _open(self) -> None:
        model = await self.stack.enter_async_context(ScriptedPeer(write=tell, talk=tell, choose=CHOICE))
        settings = self.configuration.make_settings(self.folder, self.documents, model)
        settings.data_dir.mkdir(exist_ok=True)
        journal = await Journal.open(settings.data_dir / "journal.db")
        self.stack.push_async_callback(journal.close)
        live = make_live_settings(settings, journal.database)
        app = await self.stack.enter_async_context(
            open_app(settings, embedder=WordEmbedder(), database=journal.database, live=live, parser=ThreadParser())
        )
        await live.publish_audiences(settings)
        self.bot = Bot(app, journal, None, model, live)
        self.truth.audiences = [self.configuration.audience]

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.loop.close()
        shutil.rmtree(self.folder)

    async def _deliver(self, sender: Sender, text: str = "", command: str = "", **changes: Any) -> Message:
        message = await self.bot.deliver(sender, text, command, **changes)
        shown_text = self.bot.output() + self.bot.get_requests()
        leaks = self.truth.find_leaks(sender, shown_text)
        assert not leaks, f"{sender} gets {leaks} by /{command} {text}"
        return message

    @rule(sender=st.sampled_from(PLACES))
    def ask(self, sender: Sender) -> None:
        self.last_messages[sender] = self.run(self._deliver(sender, QUESTION))

    @rule(sender=st.sampled_from(PLACES), text=st.sampled_from(("And what else is known about it?", "who?")))
    def go_on(self, sender: Sender, text: str) -> None:
        self.run(self._deliver(sender, text))

    @rule(sender=st.sampled_from(PLACES), text=st.sampled_from(("", "Is it this?")))
    def quote(self, sender: Sender, text: str) -> None:
        if last := self.last_messages.get(sender):
            self.run(self._deliver(sender, text, reply_to=last.id, quoted="It"))

    @rule(sender=st.sampled_from(PLACES), choice=st.sampled_from((DOWN, RETRY)))
    def press(self, sender: Sender, choice: str) -> None:
        if last := self.last_messages.get(sender):
            key = ConversationKey(sender.platform, sender.chat, rating_buttons.THREAD)
            self.run(self._deliver(sender, choice, RATING_COMMAND, reply_to=last.id, key=key))

    @rule(sender=st.sampled_from(PLACES), other=st.sampled_from(PLACES))
    def explain(self, sender: Sender, other: Sender) -> None:
        last = self.last_messages.get(other)
        self.run(self._deliver(sender, last.id if last else "", "why"))

    @rule(sender=st.sampled_from(PLACES), command=st.sampled_from(COMMANDS))
    def command(self, sender: Sender, command: str) -> None:
        self.run(self._deliver(sender, "", command))

    @rule(sender=st.sampled_from(PLACES))
    def switch(self, sender: Sender) -> None:
        self.run(self._deliver(sender, f"on {self.configuration.name}x", "sources"))

    @rule(sender=st.sampled_from(PLACES[:7]))
    def teach(self, sender: Sender) -> None:
        self.teachings += 1
        word = f"kultarr{self.teachings}"
        self.truth.lessons[word] = (f"{sender.platform}:{sender.chat}", self.truth.sees(sender) and not self._is_open())
        self.run(self._deliver(sender, f"How long is countdown {self.teachings}?", "learn", quoted=f"It takes {word}."))

    def _is_open(self) -> bool:
        return all("everyone" in audience for audience in self.truth.audiences)

    @rule(sender=st.sampled_from(PLACES))
    def approve_and_refresh(self, sender: Sender) -> None:
        self.run(self._approve())
        for number in range(1, self.teachings + 1):
            self.run(self._deliver(sender, f"How long is countdown {number}?"))

    async def _approve(self) -> None:
        repository = TaughtAnswerRepository(self.bot.journal.database)
        for answer in await repository.list_answers("pending"):
            await self._deliver(IN_PRIVATE, f"approve {answer.number}", "faq")
        await self.bot.app.refresh(["taught", "taught-team"])

    @rule(sender=st.sampled_from(PLACES), number=st.integers(1, 4))
    def show_a_lesson(self, sender: Sender, number: int) -> None:
        self.run(self._deliver(sender, f"list {number}", "faq"))

    @rule(action=st.sampled_from(("add", "remove")), person=st.sampled_from((MEMBER, "43")))
    def appoint(self, action: str, person: str) -> None:
        self.run(self._deliver(Sender(PUBLIC, OWNER), f"{action} {person}", "admins"))
        self.truth.admins = self.truth.admins | {person} if action == "add" else self.truth.admins - {person}
        self.ask(Sender(person, person, is_private=True))

    @rule(audience=st.sampled_from(AUDIENCES), sender=st.sampled_from(PLACES))
    def reload(self, audience: tuple[str, ...], sender: Sender) -> None:
        """What is closed further is closed at once; what is opened is so after a restart."""
        self.configuration.audience = audience
        assert self.bot.model
        self.bot.new_settings = self.configuration.make_settings(self.folder, self.documents, self.bot.model)
        self.truth.audiences.append(audience)
        self.bot.dispatcher.context.take_up = self.bot.take_up
        self.run(self._deliver(IN_PRIVATE, "", "reload"))
        self.ask(sender)

    @rule(audience=st.sampled_from(AUDIENCES), sender=st.sampled_from(PLACES))
    def rename(self, audience: tuple[str, ...], sender: Sender) -> None:
        """Who gives the source another name has closed it, whoever may see that one after the next start."""
        assert self.bot.model
        (name,) = set(NAMES) - {self.configuration.name}
        renamed = Configuration(audience, name, self.configuration.lessons)
        self.bot.new_settings = renamed.make_settings(self.folder, self.documents, self.bot.model)
        self.truth.audiences.append(("owners",))
        # Taken up, the source of the new name would tell the same to its own readers.
        self.bot.dispatcher.context.take_up = None
        self.run(self._deliver(IN_PRIVATE, "", "reload"))
        self.ask(sender)

    @rule(
        audience=st.sampled_from(AUDIENCES),
        name=st.sampled_from(NAMES),
        lessons=st.sampled_from(AUDIENCES),
        sender=st.sampled_from(PLACES),
    )
    def restart(self, audience: tuple[str, ...], name: str, lessons: tuple[str, ...], sender: Sender) -> None:
        self.run(self.stack.aclose())
        self.configuration = Configuration(audience, name, lessons)
        self.run(self._open())
        # What is stored from before the refresh may be found, too.
        self.go_on(sender, "And what else is known about it?")
        self.ask(sender)
        self.run(self.bot.app.refresh())
        self.ask(sender)

    @rule(sender=st.sampled_from(PLACES))
    def forget(self, sender: Sender) -> None:
        self.run(self._deliver(sender, "", "forget"))

    @invariant()
    def the_owner_sees_it_in_private(self) -> None:
        """The test would prove nothing if nobody saw anything."""
        assert self.truth.sees(IN_PRIVATE)


@pytest.fixture
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    (folder / "docs").mkdir()
    (folder / "docs" / "start.md").write_text("# Launcher\n\nIts release date is announced on the site.\n", "utf-8")
    (folder / "team").mkdir()
    text = "# bilby\n\nThe release date of the launcher is the first of May, numbat.\n"
    (folder / "team" / "dunnart.md").write_text(text, "utf-8")
    return folder


@pytest.mark.timeout(0 if STEPS else 300)
def test_no_closed_word_reaches_who_may_not_see_it(
    tmp_path: Path, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repetition, "ECHO_SHARE", 2.0)
    monkeypatch.setattr(AudienceMachine, "documents", documents, raising=False)
    monkeypatch.setattr(AudienceMachine, "folders", tmp_path, raising=False)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        AudienceMachine,
        settings=hypothesis_settings(
            # A shorter way to a fault takes long to find: the longer run looks for it.
            phases=tuple(Phase) if STEPS else (Phase.generate,),
            max_examples=-(-STEPS // STEPS_PER_RUN) or RUNS_IN_BRIEF,
            stateful_step_count=STEPS_PER_RUN,
            derandomize=not STEPS,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
