"""Nothing of a person is left after they were forgotten: a day of mixed life, then all bytes of what is kept.

Ann says a word that nobody else says. It may come back in completed questions, answers to others, quotations, opinions,
lessons, descriptions of her pictures, cached answers, and what is typed behind a command.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from bots.cli.journal import forget
from bots.daemon.posting import start_post
from core.errors import MessageDeleted, PlatformError
from core.settings.messaging import JournalSettings
from core.storage.drafts import DraftRepository
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.storage.moved_chats import record_move
from core.storage.tables import answers, audit, messages, replies
from core.types import RATING_COMMAND, UP, Attachment, ConversationKey, Message, Origin, Reply, SkipReason, skip
from core.types.messages import MAX_QUESTION_CHARS, PERSONAL_THREAD, AttachmentKind
from core.types.replies import SearchRound, Trace
from tests.support.fixtures import MemorySink
from tests.support.forgetting import (
    ANN,
    ANN_ID,
    BOB,
    KEPT_IN_CHAT,
    OWNER,
    OWNER_ALONE,
    SAID,
    WORD,
    find_columns,
    opened,
)
from tests.support.peers.transcription import OGG, TranscriptionPeer
from tests.support.recording_bot import Bot, RecordingAdapter, Sender

pytestmark = pytest.mark.usefixtures("time_lapse")

EDITED = "Carl keeps it in a safe."


async def live_a_day(bot: Bot) -> None:
    """Let Ann say the word in every way there is, and others take it up."""
    said = await bot.deliver(ANN, SAID)
    hint = await bot.deliver(ANN, f"Carl keeps the {WORD} in a box.", addressed=False)
    await bot.deliver(BOB, "Where is it kept?", "learn", reply_to=hint.id, quoted=hint.text)
    await bot.deliver(ANN, f"How does the launcher start with {WORD}?")
    await bot.deliver(ANN, f"How does the launcher start with {WORD}?", "ask")
    for command in ("status", "pause", "faq", "audit", "mode", "nothing", "admins", "why", "refresh", "forge"):
        await bot.deliver(ANN, f"my key is {WORD}", command)
    await bot.deliver(BOB, "and what about it?")
    await bot.deliver(BOB, "what does this mean?", reply_to=said.id, quoted=SAID)
    await bot.deliver(BOB, "", reply_to=said.id, quoted=f"Is {SAID}?")
    picture = (Attachment("picture", f"{WORD}.png", 9, {"file_id": f"file of {WORD}"}),)
    await bot.deliver(ANN, "What is in this picture?", attachments=picture)
    await bot.deliver(BOB, "And in hers?", reply_to=said.id, attachments=picture)
    await bot.deliver(ANN, f"Who knows {WORD}?", "escalate")
    await bot.deliver(BOB, "What starts the launcher?")
    key = ConversationKey("telegram", "-100", "ratings")
    await bot.deliver(ANN, UP, RATING_COMMAND, reply_to=said.id, key=key, id=f"reaction {ANN_ID} 1")
    repository = TaughtAnswerRepository(bot.journal.database)
    for number in [answer.number for answer in await repository.list_answers("pending", reader=None)]:
        await bot.deliver(OWNER, f"edit {number} {EDITED}", "faq")
    hint = await bot.deliver(ANN, f"Dora has a second {WORD}.", addressed=False)
    await bot.deliver(BOB, "Who has another one?", "learn", reply_to=hint.id, quoted=hint.text)


async def leave_traces(journal: Journal) -> None:
    """Put what only some platforms and models do into the journal."""
    chat = ConversationKey("telegram", "-100")
    now = datetime.now(UTC)
    own = Message("own", chat, ANN_ID, f"Ann {WORD}", SAID, now, addressed=True)
    on_slack = replace(
        own, id="slack", command="refresh", key=ConversationKey("telegram", "-100", PERSONAL_THREAD + ANN_ID)
    )
    other = replace(own, author_id="43", author="Bob", text="and it?")
    in_doubt = replace(own, id="in doubt")
    repository = TaughtAnswerRepository(journal.database)
    lesson = replace(on_slack, author_id="43", author="Bob")
    number = await repository.submit(lesson, "43", "Where is it?", "In a box.", (), words_of=())
    await repository.decide(number or 0, "approved", "telegram:1")
    for message in (own, on_slack, in_doubt, *(replace(other, id=f"other {number}") for number in range(3))):
        await journal.record_message(message)
    await journal.mark_skipped(own, skip(SkipReason.UNSURE, probability=0.1, threshold=0.5, explanation=f"has {WORD}"))
    await journal.mark_failed(on_slack, f"no source is named {WORD}")
    await journal.mark_delivery(in_doubt, Reply(SAID), {})
    await journal.mark_posting(in_doubt)
    await journal.fail_uncertain("telegram")
    own_number = await journal.database.fetch_value(select(messages.c.number).filter_by(id="own"))
    for draft in (replace(own, id="draft"), replace(other, id="other draft")):
        await journal.record_message(draft)
        reply = Reply(f"I think that the key of the launcher is {WORD}.")
        await journal.mark_drafted(draft, reply, others=[own_number or 0])
    number = await journal.database.fetch_value(select(messages.c.number).filter_by(id="draft"))
    notice = replace(own, id="notice", key=ConversationKey("telegram", "-200"), author_id="kimas", author="", text="")
    notice = replace(notice, origin=Origin(purpose="draft", root_id=str(number)))
    await journal.record_message(notice, reply=Reply(SAID))
    opinion = skip(SkipReason.MODEL_DECLINED, opinion=f"asks for {WORD}", probability=0.1, threshold=0.5)
    await journal.mark_skipped(replace(other, id="other 0"), opinion)
    search_round = SearchRound((f"key {WORD}",), "good", "")
    await journal.mark_answered(
        replace(other, id="other 1"), Reply("Yes.", trace=Trace(f"{WORD} key", "react", (), {}, rounds=(search_round,)))
    )
    await journal.mark_answered(replace(other, id="other 2"), Reply(f"I think that the key of the launcher is {WORD}."))


def find_word(folder: Path) -> list[str]:
    """Return the files that have the word or the id, in any encoding that a database may use."""
    needles = [text.encode(encoding) for text in (WORD, ANN_ID) for encoding in ("utf-8", "utf-16-le")]
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in paths for needle in needles if needle in path.read_bytes()]


async def test_a_lesson_that_was_taken_back_is_in_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was knowledge for a while. SQLite overwrites nothing by itself, unless it is built to, as here."""
    connect = sqlite3.connect

    def connect_elsewhere(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.execute("PRAGMA secure_delete = OFF")
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_elsewhere)
    async with opened(tmp_path, JournalSettings()) as bot:
        # Among others: a file that is mostly unused would be written anew.
        for number in range(100):
            (tmp_path / "docs" / f"{number}.md").write_text(
                f"# Part {number}\n\nIt is painted by hand.\n" * 20, "utf-8"
            )
        hint = await bot.deliver(ANN, f"Carl keeps the {WORD} in a box.", addressed=False)
        await bot.deliver(BOB, "Where is it kept?", "learn", reply_to=hint.id, quoted=hint.text)
        await bot.deliver(OWNER, "approve 1", "faq")
        await bot.app.refresh()
        assert any("passages.db" in path for path in find_word(tmp_path / "data"))
        await bot.deliver(OWNER, "reject 1", "faq")
        await bot.app.refresh()
        for person in (ANN, BOB):
            await bot.deliver(person, "", "forget")
    assert find_word(tmp_path / "data") == []


@pytest.fixture(params=["sqlite", "postgresql"])
def journal_settings(request: pytest.FixtureRequest) -> Any:
    return JournalSettings() if request.param == "sqlite" else request.getfixturevalue("postgres_journal")


async def test_who_forgets_in_a_chat_leaves_nothing_there(tmp_path: Path, journal_settings: JournalSettings) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        await live_a_day(bot)
        await leave_traces(bot.journal)
        database = bot.journal.database
        before = await find_columns(database)
        assert {"messages.text", "messages.reply", "messages.quoted", "taught_answers.answer"} <= before
        assert {"messages.trace", "messages.reason", "messages.delivery", "messages.thread", "messages.id"} <= before
        await bot.deliver(ANN, WORD, "forget")
        assert await find_columns(database, *KEPT_IN_CHAT) == set()
        # The word is in no file, the log of changes included, while the bot runs. The id is where the table says.
        assert [path for path in find_word(tmp_path / "data") if "journal" not in Path(path).name] == []
        assert all(WORD.encode() not in path.read_bytes() for path in (tmp_path / "data").rglob("journal*"))
        assert EDITED not in str(await database.fetch_all(select(audit))), "the audit outlives the lesson"
        bot.output()
        bot.get_requests()
        await bot.deliver(BOB, "and what about the key?")
        assert WORD not in (bot.output() + bot.get_requests()).lower()


async def test_what_was_said_before_a_group_was_upgraded_goes_with_the_rest(
    tmp_path: Path, journal_settings: JournalSettings
) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        await live_a_day(bot)
        await leave_traces(bot.journal)
        database = bot.journal.database
        await record_move(database, "telegram", ANN.chat, "-1009")
        await bot.deliver(replace(ANN, chat="-1009"), f"What about {WORD}?")
        await bot.deliver(replace(ANN, chat="-1009"), WORD, "forget")
        assert await find_columns(database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("error", [PlatformError("not a member"), MessageDeleted("gone")], ids=["refused", "deleted"])
async def test_who_is_not_told_is_forgotten_too(tmp_path: Path, error: Exception) -> None:
    """The bot was removed from the chat, or Ann has deleted her command: nobody can forget that row any more."""
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, SAID)
        bot.adapter("telegram").sink_error = error
        await bot.deliver(ANN, WORD, "forget")
        database = bot.journal.database
        assert await find_columns(database, *KEPT_IN_CHAT) == set()
        assert all(WORD.encode() not in path.read_bytes() for path in (tmp_path / "data").rglob("journal*"))


@dataclass
class ForgettingSink(MemorySink):
    """Ann says /forget in another thread while an answer of hers is shown."""

    bot: Any = None

    async def finish(self, reply: Reply) -> None:
        key = ConversationKey("telegram", ANN.chat, "elsewhere")
        command = Message("forget", key, ANN_ID, "Ann", "", datetime.now(UTC), addressed=True, command="forget")
        await self.bot.journal.record_message(command)
        assert await self.bot.journal.erase_author(command) == 1
        self.replies.append(reply)


async def test_who_forgets_while_an_answer_is_shown_is_in_no_byte(
    tmp_path: Path, journal_settings: JournalSettings
) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        sink = ForgettingSink(bot=bot)
        bot.adapters["telegram"] = adapter = RecordingAdapter()
        adapter.sink = lambda *_: sink  # type: ignore[method-assign]
        await bot.deliver(ANN, f"How does the launcher start with {WORD}?")
        assert WORD in sink.replies[0].text, "what has begun is shown"
        assert sink.replies[0].citations
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        assert all(WORD.encode() not in path.read_bytes() for path in (tmp_path / "data").rglob("journal*"))


async def test_what_an_answer_that_waits_knows_of_somebodys_picture_goes(tmp_path: Path) -> None:
    """The answer itself has none of her words, and is still posted."""
    async with opened(tmp_path, JournalSettings()) as bot:
        said = await bot.deliver(ANN, "Look.", addressed=False)
        key = ConversationKey("telegram", ANN.chat)
        asked = Message("asked", key, BOB.author, "Bob", "What starts it?", datetime.now(UTC), reply_to=said.id)
        await bot.journal.record_message(asked)
        await bot.journal.mark_drafted(asked, Reply("A button does.", image_description=f"A letter. {SAID}"))
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        _, draft, *_ = await bot.journal.get_delivery(asked, None)
        assert draft == Reply("A button does.")


@dataclass
class LateSink(ForgettingSink):
    """Ann says /forget in another thread while an answer to Bob is written."""

    async def open(self) -> None:
        await ForgettingSink.finish(self, Reply(""))
        self.replies.clear()

    async def finish(self, reply: Reply) -> None:
        self.replies.append(reply)


@pytest.mark.parametrize(
    "brought",
    [{"text": SAID, "is_forwarded": True}, {"text": "What starts the launcher?", "attachments": ("picture", "file")}],
    ids=["forwarded", "attached"],
)
async def test_an_answer_from_what_was_brought_is_not_shown_once_it_is_forgotten(
    tmp_path: Path, brought: dict[str, Any]
) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        said = await bot.deliver(ANN, SAID, addressed=False)
        bot.adapters["telegram"] = adapter = FetchingAdapter(content=f"ERROR {SAID}\n".encode())
        sink = LateSink(bot=bot)
        adapter.sink = lambda *_: sink  # type: ignore[method-assign]
        kinds = brought.get("attachments", ())
        attached = tuple(Attachment(kind, "error.log", 9, {"file_id": kind}) for kind in kinds)
        await bot.deliver(BOB, **{**brought, "attachments": attached, "reply_to": said.id if attached else ""})
        assert (sink.replies, len(sink.failures)) == ([], 1)
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_a_cached_answer_to_a_masked_question_goes(tmp_path: Path) -> None:
    """A model reads the question masked, so that it is another text than the one that the person wrote."""
    async with opened(tmp_path, JournalSettings(), privacy={"mask": "always"}) as bot:
        await bot.deliver(ANN, f"How does the launcher start with {WORD} for ann@example.org?")
        assert "ann@example.org" not in bot.get_requests()
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@dataclass
class FetchingAdapter(RecordingAdapter):
    """Every attachment has the same content."""

    content: bytes = b""
    can_fetch_attachments = True

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        return self.content


@pytest.mark.parametrize(("kind", "content"), [("file", f"ERROR {SAID}\n".encode()), ("voice", OGG)])
async def test_answers_to_others_with_what_somebody_attached_go(
    tmp_path: Path, kind: AttachmentKind, content: bytes
) -> None:
    async with TranscriptionPeer(SAID) as service:
        hearing = {"transcription": service.configuration()}
        async with opened(tmp_path, JournalSettings(), models=hearing) as bot:
            bot.adapters["telegram"] = FetchingAdapter(content=content)
            attached = (Attachment(kind, "error.log", len(content), {"file_id": "1"}),)
            await bot.deliver(ANN, "What does this error of the launcher mean?", attachments=attached)
            await bot.deliver(BOB, "and what about it?")
            query = select(messages.c.reply).where(messages.c.author_id == BOB.author)
            assert WORD in str(await bot.journal.database.fetch_all(query)), "the answer to Bob repeats hers"
            await bot.deliver(ANN, "", "forget")
            assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_what_others_asked_about_somebody_elses_file_goes(tmp_path: Path) -> None:
    """Bob replies to Ann's file, of which she has asked nothing."""
    content = f"ERROR {SAID}\n".encode()
    async with opened(tmp_path, JournalSettings()) as bot:
        bot.adapters["telegram"] = FetchingAdapter(content=content)
        attached = (Attachment("file", "error.log", len(content), {"file_id": "1"}),)
        posted = await bot.deliver(ANN, "", addressed=False, attachments=attached)
        await bot.deliver(BOB, "What is this error of the launcher?", reply_to=posted.id, attachments=attached)
        query = select(messages.c.reply).where(messages.c.author_id == BOB.author)
        assert WORD in str(await bot.journal.database.fetch_all(query))
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("text", ["What is this about the launcher?", ""])
async def test_what_others_asked_about_somebody_elses_recording_goes(tmp_path: Path, text: str) -> None:
    """Bob shares Ann's recording, which the bot has heard nowhere else."""
    async with TranscriptionPeer(SAID) as service:
        hearing = {"transcription": service.configuration()}
        async with opened(tmp_path, JournalSettings(), models=hearing) as bot:
            bot.adapters["telegram"] = FetchingAdapter(content=OGG)
            attached = (Attachment("voice", "note.ogg", len(OGG), {"file_id": "1"}),)
            await bot.deliver(BOB, text, attachments=attached, quoted_authors=(ANN_ID,))
            await bot.deliver(BOB, "and what about it?")
            query = select(messages.c.reply).where(messages.c.author_id == BOB.author)
            assert WORD in str(await bot.journal.database.fetch_all(query))
            await bot.deliver(ANN, "", "forget")
            assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_a_name_that_a_model_wrote_into_a_reason_goes(tmp_path: Path) -> None:
    """It is told the names of those who wrote."""
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, "It is done.", addressed=False)
        question = await bot.deliver(BOB, "What starts the launcher?")
        search_round = SearchRound(("start launcher",), "good", "Ann asked for it")
        trace = Trace("launcher of Ann", "react", (), {}, rounds=(search_round,), opinion="ann has no answer")
        await bot.journal.mark_answered(question, Reply("It starts by a button.", trace=trace))
        await bot.deliver(ANN, "", "forget")
        row = await bot.journal.database.fetch_first(select(messages).filter_by(id=question.id))
        assert row
        assert (row.trace, row.reply) == (None, "It starts by a button.")


def bring_words(**fields: Any) -> list[dict[str, Any]]:
    """Return what others bring of Ann's that the bot has seen nowhere else: in a reply, a thread, and forwarded."""
    picture = (Attachment("picture", f"{WORD}.png", 9, {"file_id": "1"}),)
    own = {"quoted_authors": (ANN_ID,), **fields}
    return [
        {
            "text": "What is this error of the launcher?",
            "quoted": SAID,
            "reply_to": "501",
            "attachments": picture,
            **own,
        },
        {"text": SAID, "is_forwarded": True, **own},
        {"text": "", "quoted": SAID, **own},
        {"text": "And what?", "quoted": f"It is.\n\n{WORD}", **own, "quoted_authors": ("44", ANN_ID)},
    ]


async def test_what_others_brought_of_messages_that_the_bot_has_not_seen_goes(
    tmp_path: Path, journal_settings: JournalSettings
) -> None:
    """The bot sees what is addressed to it alone, or one message of an album."""
    async with opened(tmp_path, journal_settings) as bot:
        for fields in bring_words():
            await bot.deliver(BOB, **fields)
        await bot.deliver(BOB, "and what about the key?")
        typed = await bot.deliver(BOB, "What starts it?", is_forwarded=True, quoted=SAID, quoted_authors=(ANN_ID,))
        database = bot.journal.database
        assert {"messages.text", "messages.quoted", "messages.reply", "messages.quoted_authors"} <= await find_columns(
            database
        )
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(database, *KEPT_IN_CHAT) == set()
        query = select(messages.c.text).filter_by(id=typed.id)
        assert await database.fetch_value(query) == "What starts it?", "what stands beside a quotation is Bob's"


async def test_the_operator_erases_what_others_brought_into_other_chats(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        for fields in bring_words():
            await bot.deliver(TEAM, **fields)
        assert await forget(bot.app.settings, f"telegram:{ANN_ID}", is_confirmed=True, as_json=True) == 0
        assert await find_columns(bot.journal.database) == set()


async def test_a_quoted_thread_goes_with_the_few_words_of_one_of_its_people(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, f"key {WORD}", addressed=False)
        for quoted in (f"Where?\n\nkey {WORD}\n\nAh.", f"Where?\nkey {WORD}"):
            await bot.deliver(BOB, "What starts the launcher?", quoted=quoted)
        await bot.deliver(ANN, "", "forget")
        assert "messages.quoted" not in await find_columns(bot.journal.database)


async def test_forwarded_words_go_though_nobody_says_whose_they_are(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, SAID, addressed=False)
        await bot.deliver(BOB, SAID, is_forwarded=True)
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


TEAM = Sender("-200", "1")
REPORTED = f"What people asked, and I could not answer well: 1x `Is it true that {SAID}?`"


async def retell(bot: Bot, reader: Sender) -> None:
    """Let people ask the bot about what it has told them of Ann in another chat, and go on from there."""
    await bot.deliver(reader, "What does this mean?", reply_to="777", quoted=REPORTED)
    assert WORD in bot.output()
    await bot.deliver(reader, "and what about the key?")
    assert WORD in bot.output()


async def test_what_owners_were_told_in_private_goes(tmp_path: Path) -> None:
    """The list of lessons, the report and the audit tell of all chats; an owner asks the bot about them, too."""
    async with opened(tmp_path, JournalSettings()) as bot:
        await live_a_day(bot)
        told = []
        for command in ("faq", "faq list 2", "digest", "audit 50"):
            name, _, arguments = command.partition(" ")
            bot.output()
            await bot.deliver(OWNER_ALONE, arguments, name)
            told.append(bot.output())
        assert WORD in told[1]
        assert ANN_ID in told[3]
        await retell(bot, OWNER_ALONE)
        await bot.deliver(ANN, WORD, "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        bot.output()
        bot.get_requests()
        await bot.deliver(OWNER_ALONE, "and what about the key?")
        assert WORD not in (bot.output() + bot.get_requests()).lower()


@pytest.mark.parametrize("purpose", ["draft", "report"])
async def test_what_a_team_asked_about_a_notice_goes(
    tmp_path: Path, journal_settings: JournalSettings, purpose: Any
) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        question = await bot.deliver(ANN, f"Is it true that {SAID}?")
        database = bot.journal.database
        number = await database.fetch_value(select(messages.c.number).filter_by(id=question.id))
        key = ConversationKey("telegram", TEAM.chat)
        origin = Origin(purpose=purpose, root_id=str(number))
        notice = Message("notice", key, "kimas", "", "", datetime.now(UTC), addressed=True, origin=origin)
        await bot.journal.record_message(notice)
        await bot.journal.mark_posted(notice, "777")
        await bot.journal.mark_answered(notice, Reply(""))
        bot.output()
        await retell(bot, TEAM)
        kept = await bot.deliver(TEAM, "What starts the launcher?", key=replace(key, thread="9"))
        await bot.deliver(ANN, WORD, "forget")
        assert await find_columns(database, *KEPT_IN_CHAT) == set()
        assert await database.fetch_value(select(messages.c.reply).filter_by(id=kept.id)), "without her words it stays"


async def test_a_reply_to_a_command_that_waits_is_not_posted(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, SAID)
        key = ConversationKey("telegram", "1")
        command = Message(
            "c1", key, "1", "Owner", "", datetime.now(UTC), addressed=True, command="digest", private=True
        )
        await bot.journal.record_message(command)
        await bot.journal.mark_delivery(command, Reply(f"1x `{SAID}`"), {})
        await bot.deliver(ANN, WORD, "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        assert await bot.journal.find_unfinished(command) is None


async def test_who_is_erased_by_the_operator_is_in_no_byte(tmp_path: Path, journal_settings: JournalSettings) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        await live_a_day(bot)
        await leave_traces(bot.journal)
        database = bot.journal.database
        await database.write(update(answers).values(day="2020-01-01"))
        await database.write(insert(answers).values({**EMPTY_USAGE, "author_id": ANN_ID, "day": "2020-01-01"}))
        assert await forget(bot.app.settings, f"telegram:{ANN_ID}", is_confirmed=True, as_json=True) == 0
        assert await find_columns(database, "audit.author_id") == set()
        settings = bot.app.settings
    assert all(WORD.encode() not in path.read_bytes() for path in settings.data_dir.rglob("*") if path.is_file())
    async with opened(tmp_path, journal_settings) as bot:
        await bot.deliver(BOB, "and what about the key?")
        assert WORD not in bot.output().lower()
        assert WORD not in bot.get_requests().lower()
        rows = await bot.journal.database.fetch_all(select(messages.c.reply).where(messages.c.author_id == "43"))
        assert any(row.reply for row in rows), "what others were answered without her words stays"


EMPTY_USAGE = {"platform": "telegram", "chat": "-100", "question_id": "1", "outcome": "answered", "prompt": 1}
EMPTY_USAGE |= {"completion": 1, "cost": 0.0}


async def test_answers_in_other_chats_that_nobody_asked_with_her_words_stay(tmp_path: Path) -> None:
    """They have three words of hers by chance: an owner uses the same bot in private, and another group does."""
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, "How does the launcher start?")
        await bot.deliver(OWNER_ALONE, "", "why")
        await bot.deliver(TEAM, "", "why")
        kept = [await bot.deliver(sender, "What is here?") for sender in (OWNER_ALONE, TEAM)]
        database = bot.journal.database
        reply = "Nobody knows how does the launcher start."
        for message in kept:
            await database.write(update(messages).filter_by(id=message.id).values(reply=reply))
        await bot.deliver(ANN, "", "forget")
        query = select(messages.c.reply).where(messages.c.id.in_([message.id for message in kept]))
        assert [row.reply for row in await database.fetch_all(query)] == [reply, reply]


async def test_nothing_is_left_of_what_was_asked_before_a_draft_was_edited(tmp_path: Path) -> None:
    """The answer is in the cache with the words that the question had when it was answered."""
    gate = {"mode": "draft", "drafts_to": "telegram:-200", "wait_s": 0}
    async with opened(tmp_path, JournalSettings(), gate=gate) as bot:
        bot.processor.drafts.start_post = start_post
        bot.adapter("telegram")
        asked = await bot.deliver(ANN, f"How does the launcher start, {WORD}?")
        assert [row.text for row in await bot.journal.database.fetch_all(select(replies))] == [asked.text]
        await bot.deliver(ANN, "How does the launcher start?", id=asked.id, is_edit=True)
        await bot.deliver(ANN, command="forget")
        assert WORD not in str(await bot.journal.database.fetch_all(select(replies)))


@pytest.mark.parametrize(("is_follow_up", "is_left"), [(False, True), (True, False)], ids=["of its own", "follow-up"])
async def test_a_draft_goes_with_whose_messages_it_was_made_from(
    tmp_path: Path, *, is_follow_up: bool, is_left: bool
) -> None:
    """Anybody can say what the sources say, and take it back: no draft for others goes with it."""
    gate = {"mode": "auto", "drafts_to": "telegram:-200", "wait_s": 0}
    async with opened(tmp_path, JournalSettings(), gate=gate) as bot:
        bot.processor.drafts.start_post = start_post
        key = ConversationKey("telegram", ANN.chat, "topic")
        said = await bot.deliver(ANN, "It starts by a button [1]? How does the launcher start?", key=key)
        assert await bot.journal.database.fetch_value(select(messages.c.reply).filter_by(id=said.id))
        await bot.deliver(Sender(ANN.chat, "1"), "draft", "mode", key=key)
        asked = await bot.deliver(
            BOB, "What starts the launcher?", key=key if is_follow_up else replace(key, thread="other")
        )
        repository = DraftRepository(bot.journal.database)
        draft = await repository.find_of(asked)
        assert draft is not None
        assert "starts by a button" in draft.reply.text
        await bot.deliver(ANN, command="forget")
        left = await repository.find_of(asked)
        assert (left is not None and left.reply.text == draft.reply.text) == is_left


async def test_an_answer_that_a_team_has_replaced_is_in_no_cache(tmp_path: Path) -> None:
    """Who asks the same gets none that the team found wrong."""
    gate = {"mode": "draft", "drafts_to": "telegram:-200", "wait_s": 0}
    async with opened(tmp_path, JournalSettings(), gate=gate) as bot:
        bot.processor.drafts.start_post = start_post
        bot.adapter("telegram")
        await bot.deliver(ANN, f"How does the launcher start, {WORD}?")
        assert await bot.journal.database.fetch_all(select(replies))
        await bot.deliver(Sender("-200", "1"), "1 By a lever.", "edit")
        assert not await bot.journal.database.fetch_all(select(replies))
        assert "By a lever." in bot.output()


async def test_nothing_is_left_of_a_long_post_that_was_commented_on(tmp_path: Path) -> None:
    """Only its beginning is asked, and kept with the answer."""
    comments = {"chats": ["telegram:-100"], "needs_citation": False, "deadline_s": 600}
    async with opened(tmp_path, JournalSettings(), auto_comment=comments) as bot:
        text = f"How does the launcher start, {WORD}? {'x' * MAX_QUESTION_CHARS}"
        await bot.deliver(ANN, text, addressed=False, is_post=True)
        assert len(await bot.journal.database.fetch_all(select(replies))) == 1
        await bot.deliver(ANN, command="forget")
        assert not await bot.journal.database.fetch_all(select(replies))


@pytest.mark.parametrize("authors", [(ANN_ID,), (ANN_ID, "44")], ids=["hers", "of several"])
async def test_a_lesson_from_a_quotation_is_whose_words_it_has(tmp_path: Path, authors: tuple[str, ...]) -> None:
    """The bot has not seen the message, but the platform says who wrote it, or that several people did."""
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(BOB, "Where is it?", "learn", reply_to="unseen", quoted=SAID, quoted_authors=authors)
        await bot.deliver(ANN, command="forget")
        assert not await TaughtAnswerRepository(bot.journal.database).list_answers(reader=None)


@pytest.mark.parametrize("is_edited", [False, True], ids=["as it was", "edited"])
async def test_nothing_is_left_of_what_a_team_asked_about_a_draft(tmp_path: Path, *, is_edited: bool) -> None:
    """The answer has words that its announcement quoted, and that the question has no more."""
    gate = {"mode": "mention", "drafts_to": "telegram:-200"}
    chats = {"telegram:-100": {"mode": "draft"}}
    async with opened(tmp_path, JournalSettings(), gate=gate, chats=chats) as bot:
        bot.processor.drafts.start_post = start_post
        bot.processor.handler_for(bot.adapter("telegram"))
        asked = await bot.deliver(ANN, f"{SAID}, how does the launcher start?")
        notice = select(messages.c.number).filter_by(purpose="draft")
        await bot.journal.database.write(update(messages).where(messages.c.number.in_(notice)).values(reply_id="n1"))
        member = Sender("-200", "43")
        values = {"reply_to": "n1", "quotes_bot": True}
        about = await bot.deliver(member, "Why is it so?", quoted=f"Ann asks: {asked.text}", **values)
        row = select(messages).filter_by(id=about.id)
        assert WORD in (await bot.journal.database.fetch_all(row))[0].reply
        if is_edited:
            await bot.deliver(ANN, "How does the launcher start?", id=asked.id, is_edit=True)
        await bot.deliver(ANN, command="forget")
        assert WORD not in str(await bot.journal.database.fetch_all(select(messages)))
        assert "Why is it so?" in str(await bot.journal.database.fetch_all(row))
