"""Every text of a lesson is known by who wrote it, also where somebody else has taught it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from core.settings.messaging import JournalSettings
from core.storage.erasure import erase_on_platform
from core.storage.forgettable import has_something_of
from core.storage.lessons import TaughtAnswerRepository
from core.storage.tables import messages, taught_answers
from tests.support.forgetting import (
    ANN,
    ANN_ID,
    BOB,
    KEPT_IN_CHAT,
    OWNER,
    SAID,
    WORD,
    find_columns,
    forget_ann,
    opened,
)
from tests.support.recording_bot import Bot, RecordingAdapter, Sender

HANDOFF = {"people": ["telegram:7"], "trusted": ["telegram:43", f"telegram:{ANN_ID}"]}


@pytest.fixture(params=["sqlite", "postgresql"])
def journal_settings(request: pytest.FixtureRequest) -> Any:
    return JournalSettings() if request.param == "sqlite" else request.getfixturevalue("postgres_journal")


async def say_forget(bot: Bot) -> None:
    await bot.deliver(ANN, "", "forget")


async def erase_everywhere(bot: Bot) -> None:
    await erase_on_platform(bot.journal.database, "telegram", ANN_ID, date.today())


FORGET = pytest.mark.parametrize("forget", [say_forget, erase_everywhere], ids=["in the chat", "by the operator"])


async def list_lessons(bot: Bot) -> list[tuple[str, str]]:
    answers = await TaughtAnswerRepository(bot.journal.database).list_answers(reader=None)
    return [(answer.question, answer.answer) for answer in answers]


async def find_lesson_columns(bot: Bot) -> set[str]:
    """Return the columns of lessons that have her word or her id: commands of owners name her, too."""
    return {name for name in await find_columns(bot.journal.database) if name.startswith("taught_answers.")}


async def teach_as_bob(bot: Bot) -> None:
    said = await bot.deliver(BOB, "Carl keeps it in a box.", addressed=False)
    await bot.deliver(BOB, "Where is it kept?", "learn", reply_to=said.id, quoted=said.text)


@FORGET
async def test_a_question_behind_a_lesson_goes_with_who_typed_it(
    tmp_path: Path, journal_settings: JournalSettings, forget: Callable[[Bot], Awaitable[None]]
) -> None:
    async with opened(tmp_path, journal_settings, handoff=HANDOFF) as bot:
        said = await bot.deliver(BOB, "Carl keeps it in a box.", addressed=False)
        await bot.deliver(ANN, f"Where is my {WORD} key kept?", "learn", reply_to=said.id, quoted=said.text)
        assert len(await list_lessons(bot)) == 1
        await forget(bot)
        assert await list_lessons(bot) == []
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@FORGET
@pytest.mark.parametrize("is_approved", [False, True], ids=["pending", "approved"])
async def test_a_lesson_goes_with_who_has_edited_it(
    tmp_path: Path,
    journal_settings: JournalSettings,
    forget: Callable[[Bot], Awaitable[None]],
    *,
    is_approved: bool,
) -> None:
    """Bob's words may still be in it, and Olga's: each of them can take it back until it is approved."""
    text = f"Carl keeps my {WORD} in a box."
    async with opened(tmp_path, journal_settings, handoff=HANDOFF) as bot:
        await teach_as_bob(bot)
        await bot.deliver(OWNER, f"add {ANN_ID}", "admins")
        await bot.deliver(ANN, f"edit 1 {text}", "faq")
        await bot.deliver(OWNER, f"edit 1 {text} So they say.", "faq")
        if is_approved:
            await bot.deliver(OWNER, "approve 1", "faq")
        await forget(bot)
        assert bool(await list_lessons(bot)) == is_approved
        rows = await bot.journal.database.fetch_all(select(taught_answers.c.editors, taught_answers.c.taught_by))
        assert ANN_ID not in str(rows)
        assert await find_lesson_columns(bot) == ({"taught_answers.answer"} if is_approved else set())


@pytest.mark.parametrize("person", [BOB, OWNER], ids=["taught", "edited"])
async def test_an_edited_lesson_is_of_all_who_wrote_it(tmp_path: Path, person: Sender) -> None:
    async with opened(tmp_path, JournalSettings(), handoff=HANDOFF) as bot:
        await teach_as_bob(bot)
        await bot.deliver(OWNER, "edit 1 Carl keeps it in a large box.", "faq")
        await bot.deliver(person, "", "forget")
        assert await list_lessons(bot) == []


async def test_who_edited_a_lesson_of_another_chat_forgets_where_they_did(tmp_path: Path) -> None:
    """The message of the command may be gone for long."""
    owner_alone = Sender(ANN_ID, ANN_ID, is_private=True)
    administration = {"owners": [f"telegram:{ANN_ID}"]}
    async with opened(tmp_path, JournalSettings(), handoff=HANDOFF, administration=administration) as bot:
        await teach_as_bob(bot)
        command = await bot.deliver(owner_alone, f"edit 1 Carl keeps my {WORD} in a box.", "faq")
        await bot.journal.database.write(update(messages).filter_by(id=command.id).values(author_id=""))
        assert await has_something_of(bot.journal.database, command)
        await bot.deliver(ANN, "", "forget")
        assert len(await list_lessons(bot)) == 1, "she wrote it in another chat"
        await bot.deliver(owner_alone, "", "forget")
        assert await list_lessons(bot) == []
        assert not await has_something_of(bot.journal.database, command)


class AskedAdapter(RecordingAdapter):
    """Something happens while the platform is asked who is an administrator."""

    happen: Callable[[], Awaitable[None]]

    async def is_admin(self, message: object) -> bool:
        await self.happen()
        return True


@pytest.mark.parametrize(
    ("person", "text", "quoted"),
    [
        (ANN, f"Where is my {WORD} key kept?", {"quoted": "Carl keeps it in a box."}),
        (Sender(ANN.chat, "46"), "Where is it?", {"quoted": SAID, "quoted_authors": (ANN_ID,)}),
    ],
    ids=["the question is hers", "the answer is hers"],
)
async def test_nothing_is_learned_of_a_person_forgotten_meanwhile(
    tmp_path: Path, person: Sender, text: str, quoted: dict[str, Any]
) -> None:
    administration = {"owners": ["telegram:1"], "platform_admins": True}
    async with opened(tmp_path, JournalSettings(), administration=administration, handoff={}) as bot:
        bot.adapters["telegram"] = adapter = AskedAdapter()
        adapter.happen = lambda: forget_ann(bot)
        await bot.deliver(person, text, "learn", reply_to="unseen", **quoted)
        assert await list_lessons(bot) == []
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_no_lesson_is_edited_by_a_person_forgotten_meanwhile(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, journal_settings, handoff=HANDOFF) as bot:
        await teach_as_bob(bot)
        await bot.deliver(OWNER, f"add {ANN_ID}", "admins")
        edit = TaughtAnswerRepository.edit

        async def forget_and_edit(repository: TaughtAnswerRepository, *arguments: Any) -> Any:
            await forget_ann(bot)
            return await edit(repository, *arguments)

        monkeypatch.setattr(TaughtAnswerRepository, "edit", forget_and_edit)
        await bot.deliver(ANN, f"edit 1 I keep my {WORD} in a box.", "faq")
        assert await list_lessons(bot) == [("Where is it kept?", "Carl keeps it in a box.")]
        assert await find_lesson_columns(bot) == set()


@pytest.mark.parametrize("decision", ["reject 1", "edit 1 Carl keeps the key."], ids=["rejected", "edited"])
@pytest.mark.parametrize("is_first", [True, False], ids=["forgotten first", "decided first"])
@FORGET
async def test_what_was_told_from_a_lesson_goes_whenever_it_is_taken_back(
    tmp_path: Path,
    journal_settings: JournalSettings,
    forget: Callable[[Bot], Awaitable[None]],
    decision: str,
    *,
    is_first: bool,
) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        hint = await bot.deliver(ANN, f"Carl keeps the {WORD} in a box.", addressed=False)
        await bot.deliver(BOB, "Where is it kept?", "learn", reply_to=hint.id, quoted=hint.text)
        await bot.deliver(OWNER, "approve 1", "faq")
        await bot.app.refresh()
        await bot.deliver(Sender("-300", "44"), "What is kept in a box?")
        assert WORD in bot.output()
        for step in (True, False):
            if step == is_first:
                await forget(bot)
            else:
                await bot.deliver(OWNER, decision, "faq")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        has_new_text = is_first and decision.startswith("edit")
        assert await list_lessons(bot) == ([("Where is it kept?", "Carl keeps the key.")] if has_new_text else [])


async def test_a_lesson_stays_when_a_person_of_nearly_the_same_id_forgets(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(BOB, "Where is it kept?", "learn", quoted=SAID, quoted_authors=("Ann",))
        await erase_on_platform(bot.journal.database, "telegram", "ann", date.today())
        assert len(await list_lessons(bot)) == 1
        await erase_on_platform(bot.journal.database, "telegram", "Ann", date.today())
        assert await list_lessons(bot) == []
