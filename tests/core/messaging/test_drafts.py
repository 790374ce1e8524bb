"""Drafts: what the bot would answer goes to a team first, which posts it once, replaces it or drops it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from bots.common.connection import Unreachable
from bots.daemon.posting import find_draft_errors
from core.catalogue import ENGLISH, messages_for
from core.errors import PlatformError, PlatformUnavailable
from core.messaging.drafts import MAX_HOURS
from core.messaging.feedback.rating_buttons import get_rating_buttons, to_press, to_reaction
from core.messaging.inbox import Inbox
from core.observability.metrics import DaemonStatus, PrometheusMetrics
from core.ports import Delivery, Sink
from core.settings import Settings
from core.storage.chat_history import ChatHistory
from core.storage.drafts import DraftRepository
from core.storage.feedback import FeedbackRepository
from core.storage.messages import Journal
from core.storage.overrides import Audit
from core.storage.tables import DRAFTED, feedback, messages
from core.storage.usage import StatisticsRepository
from core.types import DROP, POST, Button, Citation, ConversationKey, Message, Question, Reply, SkipReason, ThreadState
from core.types.replies import Trace
from tests.support.fixtures import IdleAdapter, settings
from tests.support.waiting import until
from tests.support.wiring import make_processor

ASKED = ConversationKey("telegram", "-100")
TEAM = ConversationKey("telegram", "-200")
ANN = "42"
BOSS = "1"
CITED = (Citation(1, "install", "docs", "Install", "install.md", ""),)
NUMBERS = count(1000)
CONFIGURED: Mapping[str, Any] = {
    "telegram": {"token": {"env": "TOKEN"}},
    "gate": {"mode": "draft", "drafts_to": "telegram:-200", "wait_s": 0, "cooldown_s": 0},
    "chats": {"telegram:-200": {"mode": "mention"}},
    "administration": {"owners": [f"telegram:{BOSS}"]},
}


@dataclass(frozen=True)
class Post:
    """What is posted, as an answer to a message."""

    id: str
    message: Message
    reply: Reply
    buttons: tuple[Button, ...]


@dataclass
class PostingSink(Sink):
    adapter: PostingAdapter
    message: Message
    delivery: Delivery

    async def open(self) -> None:
        return None

    async def update(self, text: str) -> None:
        return None

    async def finish(self, reply: Reply) -> None:
        if self.message.key.chat == self.adapter.refusing_chat:
            raise PlatformError("the chat is closed to the bot")
        if self.adapter.failures:
            raise self.adapter.failures.pop()
        if self.message.origin.purpose == "draft" and self.adapter.flood:
            self.adapter.is_waiting = True
            await self.adapter.flood.wait()
        # As the client of a platform's sink does (`bots.common.judged_client`).
        await self.delivery.require_rights()
        await self.delivery.mark_posting()
        post = Post(f"r{next(NUMBERS)}", self.message, reply, get_rating_buttons(self.message, reply))
        self.adapter.posts.append(post)
        await self.delivery.mark_posted(post.id)

    async def fail(self, text: str) -> None:
        await self.finish(Reply(text))


@dataclass
class PostingAdapter(IdleAdapter):
    """An adapter that posts, and tells the journal of it as all do."""

    name: str = "telegram"
    posts: list[Post] = field(default_factory=list)
    refusing_chat: str = ""
    failures: list[PlatformError] = field(default_factory=list)
    # Until it is set, the platform takes no notice.
    flood: asyncio.Event | None = None
    is_waiting: bool = False

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        return PostingSink(self, message, delivery)


REPLY = Reply("With pip [1].", CITED, trace=Trace("install", "single", ("docs",), {}))


class Team:
    """A bot whose answers in one chat a team decides about."""

    def __init__(self, journal: Journal, reply: Reply = REPLY, **changes: Any) -> None:
        self.journal = journal
        self.reply = reply
        self.settings: Settings = settings(**{**CONFIGURED, **changes})
        self.adapter = PostingAdapter()
        self.inbox: Inbox = make_processor(self.settings, journal, self._answer)
        self.receive = self.inbox.handler_for(self.adapter)

    async def _answer(self, _: Question, sink: Sink) -> Reply:
        await sink.open()
        await sink.finish(self.reply)
        return self.reply

    async def say(
        self, text: str, key: ConversationKey = ASKED, author: str = ANN, *, is_finished: bool = True, **changes: Any
    ) -> Message:
        message = Message(str(next(NUMBERS)), key, author, "Ann", text, datetime.now(UTC), addressed=True)
        message = replace(message, **changes)
        await self.receive(message)
        if is_finished:
            await self.inbox.join()
        else:
            await asyncio.sleep(0.1)
        return message

    async def ask(self, text: str = "How do I install it?", **changes: Any) -> int:
        """Ask in the chat, and return the number of the draft."""
        question = await self.say(text, **changes)
        return (await self.get_row(question)).number

    async def decide(self, command: str, text: object, author: str = BOSS, **changes: Any) -> str:
        """Give a command in the team's chat, and return the reply."""
        given = await self.say(str(text), TEAM, author, command=command, **changes)
        return next(post.reply.text for post in reversed(self.adapter.posts) if post.message.id == given.id)

    async def get_row(self, message: Message) -> Any:
        query = select(messages).filter_by(platform=message.key.platform, chat=message.key.chat, id=message.id)
        return await self.journal.database.fetch_first(query)

    async def count_inserts(self) -> int:
        row = await self.journal.database.fetch_first(select(func.max(messages.c.number)))
        assert row
        return int(row[0])

    def posts(self, key: ConversationKey = ASKED) -> list[Post]:
        return [post for post in self.adapter.posts if post.message.key.chat == key.chat]

    def texts(self, key: ConversationKey = ASKED) -> list[str]:
        return [post.reply.text for post in self.posts(key)]

    async def get_labels(self) -> list[tuple[str, bool]]:
        repository = FeedbackRepository(self.journal.database)
        return [(label.text, label.is_good) for label in await repository.get_labelled_questions(None)]

    async def get_reason(self, number: int) -> tuple[str, str]:
        query = select(messages.c.state, messages.c.reason).filter_by(number=number)
        row = await self.journal.database.fetch_first(query)
        assert row
        return row.state, row.reason


async def test_the_team_gets_the_answer_and_posts_it_where_it_was_asked(journal: Journal) -> None:
    team = Team(journal)
    number = await team.ask()
    assert team.texts() == []
    [notice] = team.posts(TEAM)
    for part in ("Ann", "telegram:-100", "How do I install it?", "With pip [1].", f"/post {number}", f"/drop {number}"):
        assert part in notice.reply.text
    assert notice.reply.citations == CITED
    assert await team.decide(POST, number) == ENGLISH.draft_decisions[POST].format(number=number)
    [post] = team.posts()
    assert (post.reply.text, post.reply.citations) == ("With pip [1].", CITED)
    assert (await team.get_reason(number))[0] == "answered"
    assert await team.get_labels() == [("How do I install it?", True)]


async def test_what_is_decided_twice_counts_once(journal: Journal) -> None:
    team = Team(journal)
    number = await team.ask()
    await asyncio.gather(*(team.decide(POST, number) for _ in range(3)))
    assert await team.decide(DROP, number) == ENGLISH.draft_unknown.format(number=number)
    assert len(team.posts()) == 1
    entries = await Audit(journal.database).get_newest(10, chat=None)
    assert [(entry.subject, entry.before, entry.after) for entry in entries] == [
        (f"draft {number}", "waiting", "posted")
    ]


async def test_what_is_dropped_is_never_posted(journal: Journal) -> None:
    team = Team(journal)
    number = await team.ask()
    await team.decide(DROP, number)
    assert await team.decide(POST, number) == ENGLISH.draft_unknown.format(number=number)
    assert team.texts() == []
    assert await team.get_reason(number) == ("silent", SkipReason.DRAFT_DROPPED.text)
    assert await team.get_labels() == [("How do I install it?", False)]


async def test_a_draft_begins_the_cooldown_of_the_chat(journal: Journal) -> None:
    team = Team(journal)
    question = await team.say("How do I install it?")
    await journal.database.write(update(messages).filter_by(id=question.id).values(addressed=False))
    later = replace(question, id="later")
    [message] = await ChatHistory(journal.database).get_recent_messages(later, 60)
    assert message.has_unprompted_answer
    assert await StatisticsRepository(journal.database).count_pending() == 1


async def test_a_reply_with_other_words_and_edit_post_these(journal: Journal) -> None:
    team = Team(journal)
    first = await team.ask()
    await team.say("Ask Carl.", TEAM, BOSS, reply_to=team.posts(TEAM)[0].id)
    second = await team.ask()
    await team.decide("edit", f"{second} With apt, not as in [1].")
    assert team.texts() == ["Ask Carl.", "With apt, not as in [1]."]
    assert [post.reply.citations for post in team.posts()] == [(), CITED]
    entries = await Audit(journal.database).get_newest(10, chat=None)
    assert {(entry.subject, entry.after) for entry in entries} == {(f"draft {n}", "edited") for n in (first, second)}
    assert "Carl" not in repr(entries)


async def test_the_team_reads_what_the_chat_is_called(journal: Journal) -> None:
    team = Team(journal, outgoing={"words": ["acme"]})
    for title, shown in (("", "in `telegram:-100`"), ("Rocket users", "in Rocket users (`telegram:-100`)")):
        await team.ask(chat_title=title)
        assert f"for Ann {shown} (message" in team.texts(TEAM)[-1]
    await team.ask(chat_title="Acme merger")
    assert "Acme" not in team.texts(TEAM)[-1]


async def test_notices_and_labels_are_in_the_language_of_the_chat(journal: Journal) -> None:
    chats = {
        "telegram:-200": {"mode": "mention", "language": "zh"},
        "telegram:-300": {"mode": "mention", "language": "zh"},
    }
    team = Team(journal, chats=chats)
    chinese = messages_for("zh")
    number = await team.ask()
    [notice] = team.posts(TEAM)
    assert notice.reply.text.startswith(f"**草稿 {number}**")
    assert [button.label for button in notice.buttons] == list(chinese.draft_buttons.values())
    assert await team.decide(POST, number) == chinese.draft_decisions[POST].format(number=number)
    # Where it was asked, nothing is configured.
    assert team.posts()[0].message.reply_options.stop_button.label == ENGLISH.stop_button
    asked = ConversationKey("telegram", "-300")
    question = await team.say("How do I install it?", asked)
    options = team.posts(asked)[0].message.reply_options
    assert (options.language, options.stop_button.label) == ("zh", chinese.stop_button)
    press = replace(question, id="press", text="", command="", addressed=False)
    await team.receive(to_press(press, "down", question.id))
    await team.inbox.join()
    rated = team.posts(asked)[-1]
    assert [button.label for button in rated.message.reply_options.buttons] == list(chinese.buttons.values())


async def test_a_slow_pattern_in_a_notice_holds_up_nothing_else(journal: Journal) -> None:
    team = Team(journal, reply=Reply(f"{'a' * 60}!"), outgoing={"patterns": ["(a|aa)+$"]})
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while not team.posts(TEAM):
            await asyncio.sleep(0.01)
            turns += 1

    counting = asyncio.create_task(count_turns())
    await team.ask()
    await counting
    assert "the search took too long" in team.texts(TEAM)[0]
    assert turns > 20, "the search takes a second"


async def test_a_posted_draft_keeps_what_it_lacks_and_own_words_lack_nothing(journal: Journal) -> None:
    poor = replace(REPLY, is_extractive=True, found_nothing=True, nearest_pages=CITED)
    team = Team(journal, reply=poor, handoff={"when": ["nothing_found"], "people": ["telegram:7"]})
    first = await team.ask()
    draft = await DraftRepository(journal.database).find_waiting(first)
    assert draft
    assert (draft.reply.is_extractive, draft.reply.nearest_pages) == (True, CITED)
    await team.decide("edit", f"{first} Ask Carl.")
    assert team.texts() == ["Ask Carl."]
    second = await team.ask()
    await team.decide(POST, second)
    assert "your help" in team.texts()[-1]
    query = select(messages.c.detail).filter(messages.c.number.in_((first, second))).order_by(messages.c.number)
    assert [row.detail for row in await journal.database.fetch_all(query)] == ["", "nothing_found"]


async def test_a_reply_to_the_draft_needs_no_number(journal: Journal) -> None:
    team = Team(journal)
    await team.ask()
    await team.decide(POST, "", reply_to=team.posts(TEAM)[0].id)
    assert team.texts() == ["With pip [1]."]


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("/drop he is the one who did not pay", "silent"),
        ("drop", "silent"),
        ("Drop, he did not pay.", "silent"),
        ("drop 99", "drafted"),
        ("/why", "drafted"),
        ("What does the numbat plan say of it?", "drafted"),
        # A voice message, or a picture.
        ("", "drafted"),
    ],
)
async def test_words_for_the_bot_below_a_draft_are_not_posted(journal: Journal, words: str, state: str) -> None:
    team = Team(journal)
    number = await team.ask()
    said = await team.say(words, TEAM, BOSS, reply_to=team.posts(TEAM)[0].id)
    assert team.texts() == []
    assert (await team.get_reason(number))[0] == state
    assert (await team.get_row(said)).command != "edit"


async def test_what_was_heard_is_posted_and_kept_as_no_words_of_the_bot(journal: Journal) -> None:
    heard = "I heard: “My key is numbat.”\n\n"
    team = Team(journal, replace(REPLY, text=f"{heard}With pip [1].", heard=heard))
    number = await team.ask()
    await team.decide(POST, number)
    assert team.texts() == [f"{heard}With pip [1]."]
    query = select(messages.c.reply).filter_by(number=number)
    assert await journal.database.fetch_value(query) == "With pip [1]."


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("post", "With pip [1]."),
        ("Post your log first.", "Post your log first."),
        ("edit: Ask Carl.", "Ask Carl."),
        ("/edit Ask Carl.", "Ask Carl."),
        ("Edit the file.", "Edit the file."),
    ],
)
async def test_decisions_may_be_typed_as_words(journal: Journal, words: str, text: str) -> None:
    team = Team(journal)
    await team.ask()
    await team.say(words, TEAM, BOSS, reply_to=team.posts(TEAM)[0].id)
    assert team.texts() == [text]


@pytest.mark.parametrize("is_forgotten", [True, False])
async def test_an_announcement_that_waits_is_judged_again(journal: Journal, is_forgotten: bool) -> None:
    team = Team(journal)
    team.adapter.flood = asyncio.Event()
    asking = asyncio.create_task(team.ask("Where is the numbat?"))
    async with asyncio.timeout(20):
        while not team.adapter.is_waiting:
            await asyncio.sleep(0.01)
        if is_forgotten:
            forget = Message("forget", ASKED, ANN, "Ann", "", datetime.now(UTC), addressed=True, command="forget")
            await team.receive(forget)
            await until(team.texts)
        team.adapter.flood.set()
        await asking
    assert bool(team.posts(TEAM)) != is_forgotten


@pytest.mark.parametrize(("choice", "texts"), [(POST, ["With pip [1]."]), (DROP, [])])
async def test_buttons_decide_as_the_commands_do(journal: Journal, choice: str, texts: list[str]) -> None:
    team = Team(journal)
    number = await team.ask()
    [notice] = team.posts(TEAM)
    assert [button.data for button in notice.buttons] == [f"thumb:{name}:{notice.message.id}" for name in (POST, DROP)]
    for author in ("7", BOSS, BOSS):
        press = Message(str(next(NUMBERS)), TEAM, author, author, "", datetime.now(UTC))
        await team.receive(to_press(press, choice, notice.message.id))
        await team.inbox.join()
    replies = team.texts(TEAM)[1:]
    unknown = ENGLISH.draft_unknown.format(number=number)
    assert replies == [ENGLISH.only_admins, ENGLISH.draft_decisions[choice].format(number=number), unknown]
    assert team.texts() == texts


async def test_only_admins_of_the_teams_chat_decide_and_only_there(journal: Journal) -> None:
    team = Team(journal)
    number = await team.ask()
    assert await team.decide(POST, number, author="7") == ENGLISH.only_admins
    await team.say("Hello", TEAM, "7", reply_to=team.posts(TEAM)[0].id)
    assert team.texts(TEAM)[-1] == ENGLISH.only_admins
    await team.say(str(number), ASKED, BOSS, command=POST)
    assert team.texts() == [ENGLISH.draft_unknown.format(number=number)]
    outcomes = [(entry.outcome, entry.author_id) for entry in await Audit(journal.database).get_newest(10, chat=None)]
    assert outcomes == [("refused", "7")] * 2


@pytest.mark.parametrize("number", ["1.5", "abc", "0", "99999999999"])
async def test_what_is_no_number_of_a_draft_is_said(journal: Journal, number: str) -> None:
    team = Team(journal)
    for command in (POST, DROP, "edit"):
        assert "a whole number from 1 to 2147483647" in await team.decide(command, number)


async def test_words_that_never_leave_are_not_posted_by_an_edit(journal: Journal) -> None:
    team = Team(journal, outgoing={"words": ["quoll"]})
    number = await team.ask()
    assert "outgoing.words.0" in await team.decide("edit", f"{number} Ask the quoll.")
    assert team.texts() == []
    await team.decide(POST, number)
    assert team.texts() == ["With pip [1]."]


async def test_a_question_with_words_that_never_leave_can_be_decided_about(journal: Journal) -> None:
    team = Team(journal, outgoing={"words": ["quoll"]})
    question = await team.say("How do I install the quoll?")
    [notice] = team.posts(TEAM)
    for part in ("outgoing.words.0", "With pip [1]."):
        assert part in notice.reply.text
    await team.receive(replace(question, text="How do I remove the quoll?", is_edit=True))
    await team.inbox.drafts.sweep()
    await team.inbox.join()
    assert all("quoll" not in text for text in team.texts(TEAM))
    await team.decide(POST, "", reply_to=notice.id)
    assert team.texts() == ["With pip [1]."]


async def test_a_restart_loses_no_draft_and_posts_none_twice(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path / "journal.db")
    team = Team(journal)
    number = await team.ask()
    await journal.close()

    # Killed between the decision and the post.
    journal = await Journal.open(tmp_path / "journal.db")
    team = Team(journal)
    await team.inbox.resume(team.adapter)
    await team.inbox.join()
    await team.inbox.drafts.sweep()
    assert team.adapter.posts == []
    team.inbox.drafts.start_answer = lambda *_: None
    await team.decide(POST, number)
    assert team.texts() == []
    await journal.close()

    journal = await Journal.open(tmp_path / "journal.db")
    for posts in (["With pip [1]."], []):
        team = Team(journal)
        await team.inbox.resume(team.adapter)
        await team.inbox.join()
        assert team.texts() == posts
    await journal.close()


async def test_a_draft_that_the_team_was_not_told_of_is_told_after_a_restart(journal: Journal) -> None:
    team = Team(journal)
    start_post = team.inbox.drafts.start_post
    team.inbox.drafts.start_post = lambda *_: None
    await team.ask()
    team.inbox.drafts.start_post = start_post
    for _ in range(2):
        await team.inbox.drafts.sweep()
        await team.inbox.join()
    assert len(team.posts(TEAM)) == 1


async def test_a_draft_expires_with_a_reason(journal: Journal) -> None:
    team = Team(journal)
    number = await team.ask()
    old = datetime.now(UTC) - timedelta(hours=MAX_HOURS + 1)
    await journal.database.write(update(messages).filter_by(number=number).values(settled_at=old))
    await team.inbox.drafts.sweep()
    assert await team.get_reason(number) == ("silent", SkipReason.DRAFT_EXPIRED.text.format(hours=MAX_HOURS))
    assert await team.decide(POST, number) == ENGLISH.draft_unknown.format(number=number)
    assert await team.get_labels() == []


@pytest.mark.parametrize(
    ("text", "author", "reason"),
    [
        ("Never mind, I found it myself.", ANN, SkipReason.TAKEN_BACK),
        ("You have to run the setup program twice.", "7", SkipReason.HUMAN_REPLIED),
    ],
)
async def test_what_people_say_meanwhile_is_noted_once(
    journal: Journal, text: str, author: str, reason: SkipReason
) -> None:
    team = Team(journal)
    question = await team.say("How do I install it?")
    number = (await team.get_row(question)).number
    await team.say("We all like it here very much.", author="8", addressed=False)
    await team.say(text, author=author, addressed=False, reply_to=question.id)
    for _ in range(2):
        await team.inbox.drafts.sweep()
        await team.inbox.join()
    assert team.texts(TEAM)[1:] == [ENGLISH.draft_note.format(number=number, note=reason.text)]


async def test_an_edited_question_is_noted_and_is_what_counts(journal: Journal) -> None:
    team = Team(journal)
    question = await team.say("How do I install it?")
    for text in ("How do I move it?", "How do I remove it?"):
        await team.receive(replace(question, text=text, is_edit=True))
    last_number = await team.count_inserts()
    for _ in range(3):
        await team.inbox.drafts.sweep()
        await team.inbox.join()
    assert await team.count_inserts() == last_number + 1
    [_, note] = team.posts(TEAM)
    assert "How do I remove it?" in note.reply.text
    await team.say("Thanks, leave it.", TEAM, BOSS, reply_to=note.id)
    assert team.texts() == []
    await team.decide(POST, "", reply_to=team.posts(TEAM)[1].id)
    assert await team.get_labels() == [("How do I remove it?", True)]


@pytest.mark.parametrize("target", [None, "telegram:-100"])
async def test_without_a_chat_for_them_there_are_no_drafts(journal: Journal, target: str | None) -> None:
    team = Team(journal, gate={"mode": "draft", "drafts_to": target})
    number = await team.ask()
    assert team.adapter.posts == []
    assert await team.get_reason(number) == ("silent", SkipReason.DRAFTS_GO_NOWHERE.text)


@pytest.mark.parametrize("is_open", [True, False])
async def test_the_team_has_to_see_what_the_chat_may_see(journal: Journal, tmp_path: Path, is_open: bool) -> None:
    audience = ["telegram:-100", *(["telegram:-200"] if is_open else [])]
    sources = {"docs": {"kind": "files", "path": str(tmp_path), "audience": audience}}
    team = Team(journal, sources=sources)
    number = await team.ask()
    assert len(team.posts(TEAM)) == is_open
    if not is_open:
        assert await team.get_reason(number) == ("silent", SkipReason.DRAFTS_SEEN_BY_OTHERS.text)


class UnknownReaders(PostingAdapter):
    """The platform does not say who reads one chat."""

    unknown_chat = ""

    async def has_guests(self, chat: str) -> bool:
        if chat == self.unknown_chat:
            raise PlatformUnavailable("it took too long")
        return False


async def test_while_nobody_knows_who_reads_a_chat_drafts_wait(
    journal: Journal, tmp_path: Path, time_lapse: object
) -> None:
    sources = {"docs": {"kind": "files", "path": str(tmp_path), "audience": "telegram"}}
    team = Team(journal, sources=sources)
    team.adapter = adapter = UnknownReaders()
    team.receive = team.inbox.handler_for(adapter)
    number = await team.ask()
    adapter.unknown_chat = ASKED.chat
    assert "that platform is not connected now" in await team.decide("post", number)
    adapter.unknown_chat = TEAM.chat
    question = await team.say("Where is the log?", is_finished=False)
    assert (await team.get_row(question)).state == "received", "it is judged later"
    adapter.unknown_chat = ""
    await team.inbox.join()
    assert (await team.get_row(question)).state == DRAFTED


async def test_what_is_asked_in_a_closed_place_is_not_shown_to_the_team(journal: Journal) -> None:
    team = Team(journal)
    number = await team.ask(thread_state=ThreadState(is_restricted=True))
    assert team.adapter.posts == []
    assert await team.get_reason(number) == ("silent", SkipReason.DRAFTS_NOT_IN_CLOSED_PLACES.text)


async def test_commands_are_answered_where_they_are_given(journal: Journal) -> None:
    team = Team(journal)
    await team.say("", command="help")
    assert len(team.posts()) == 1
    assert team.posts(TEAM) == []


async def test_too_many_questions_and_an_empty_one_make_no_drafts(journal: Journal) -> None:
    team = Team(journal, gate={**CONFIGURED["gate"], "answers_in_10_min": 1})
    await team.ask()
    number = await team.ask()
    assert (len(team.posts(TEAM)), team.texts()) == (1, [])
    assert await team.get_reason(number) == ("silent", SkipReason.ANSWER_LOOP.text.format(count=1))
    await team.say("", command="ask", author="8")
    assert (len(team.posts(TEAM)), len(team.texts())) == (1, 1)


async def test_a_reaction_below_a_notice_rates_nothing(journal: Journal) -> None:
    team = Team(journal)
    await team.ask()
    [notice] = team.posts(TEAM)
    press = Message(str(next(NUMBERS)), TEAM, BOSS, BOSS, "", datetime.now(UTC))
    reaction = to_reaction(press, "\N{THUMBS UP SIGN}", notice.id)
    assert reaction
    await team.receive(reaction)
    await team.inbox.join()
    assert await journal.database.fetch_all(select(feedback)) == []


@pytest.mark.parametrize(
    ("target", "changes"),
    [(None, {}), ("telegram:-100", {}), ("telegram:-200", {"private": True}), ("telegram:-200", {})],
)
async def test_drafts_begin_only_where_a_team_gets_them(
    journal: Journal, target: str | None, changes: dict[str, Any]
) -> None:
    team = Team(journal, gate={"mode": "mention", "drafts_to": target})
    await team.say("draft", ASKED, BOSS, command="mode", **changes)
    [text] = team.texts()
    is_possible = target == "telegram:-200" and not changes
    assert (text == ENGLISH.mode_draft_impossible) is not is_possible


async def test_a_posted_draft_is_delivered_for_hours_after_the_decision(journal: Journal, time_lapse: object) -> None:
    team = Team(journal)
    number = await team.ask(sent_at=datetime.now(UTC) - timedelta(hours=20))
    # By the question's age, two minutes would be left of the six hours.
    team.adapter.failures = [Unreachable("away") for _ in range(40)]
    await team.decide(POST, number)
    assert team.texts() == ["With pip [1]."]


async def test_drafts_that_nobody_lets_be_posted_are_counted(journal: Journal) -> None:
    metrics = PrometheusMetrics(30)
    team = Team(Journal(journal.database, metrics))
    await team.decide(DROP, await team.ask())
    number = await team.ask()
    old = datetime.now(UTC) - timedelta(hours=MAX_HOURS + 1)
    await journal.database.write(update(messages).filter_by(number=number).values(settled_at=old))
    await team.inbox.drafts.sweep()
    counts = [
        line for line in metrics.render(DaemonStatus()).decode().splitlines() if line.startswith("kimas_messages_total")
    ]
    for reason in (SkipReason.DRAFT_DROPPED, SkipReason.DRAFT_EXPIRED):
        assert f'kimas_messages_total{{outcome="silent",platform="telegram",reason="{reason.label}"}} 1.0' in counts


async def test_a_paused_chat_gets_no_draft_posted(journal: Journal) -> None:
    team = Team(journal)
    number = await team.ask()
    await team.say("", ASKED, BOSS, command="pause")
    assert "paused" in await team.decide(POST, number)
    await team.say("", ASKED, BOSS, command="resume")
    await team.decide(POST, number)
    assert team.texts()[-1] == "With pip [1]."


async def test_the_team_is_told_once_what_was_not_posted(journal: Journal) -> None:
    team = Team(journal)
    number = await team.ask()
    dropped_number = await team.ask("How do I remove it?")
    team.adapter.refusing_chat = ASKED.chat
    assert await team.decide(POST, number) == ENGLISH.draft_decisions[POST].format(number=number)
    await team.decide(DROP, dropped_number)
    assert (await team.get_reason(number))[0] == "failed"
    for _ in range(3):
        await team.inbox.drafts.sweep()
        await team.inbox.join()
    assert team.texts() == []
    [note] = [text for text in team.texts(TEAM) if "was not posted" in text]
    assert note.startswith(f"Draft {number}: it was not posted: ")
    assert "the chat is closed to the bot" in note


async def test_who_forgets_takes_back_the_draft(journal: Journal) -> None:
    team = Team(journal)
    number = await team.ask("Where is the numbat?")
    notice = team.posts(TEAM)[0]
    await team.say("Who is that?", TEAM, BOSS, reply_to=notice.id, quoted=notice.reply.text)
    await team.say("", command="forget")
    assert await team.decide(POST, number) == ENGLISH.draft_unknown.format(number=number)
    assert await team.get_reason(number) == ("silent", SkipReason.DRAFT_FORGOTTEN.text)
    for row in await journal.database.fetch_all(select(messages)):
        assert "numbat" not in repr(row)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, ""),
        ({"gate": {"mode": "draft"}}, "nobody gets the drafts"),
        ({"chats": {}}, "whose own mode is draft"),
        (
            {"gate": {"mode": "draft", "drafts_to": "telegram:-200", "chats": ["telegram:-100"]}},
            "not among gate.chats",
        ),
        ({"gate": {"mode": "draft", "drafts_to": "slack:C1"}}, "there is no slack bot"),
        ({"gate": {"mode": "auto"}, "chats": {"telegram:-5": {"mode": "draft"}}}, "chats.telegram:-5.mode is draft"),
    ],
)
def test_a_check_finds_drafts_that_nobody_can_decide_about(changes: dict[str, Any], error: str) -> None:
    errors = find_draft_errors(settings(**{**CONFIGURED, **changes}))
    assert errors == [] if not error else error in errors[0]
