"""What a person sees is what the model gets: words that are not in a message's own text."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, select

from core.formatting import today
from core.storage.erasure import erase_on_platform
from core.storage.tables import messages
from tests.conformance.bot import Bot
from tests.conformance.platforms import BEN, ROBOT
from tests.conformance.scenarios import HAS_TEXT, ONLY_MENTIONS, ONLY_TEXT, SEEN_AT_ONCE, cannot

WORDS = "How do I reset the password?"
ORIGIN = {"type": "hidden_user", "sender_user_name": "Eve", "date": 1_700_000_000}
POLL = {
    "id": "1",
    "question": WORDS,
    "options": [],
    "total_voter_count": 0,
    "is_closed": False,
    "is_anonymous": True,
    "type": "regular",
    "allows_multiple_answers": False,
    "allows_revoting": False,
    "members_only": False,
}
# A message of another chat that a question is about.
FORWARDED: dict[str, dict[str, Any]] = {
    "telegram": {"external_reply": {"origin": ORIGIN}, "quote": {"text": WORDS, "position": 0}},
    "discord": {"message_snapshots": [{"message": {"content": "", "embeds": [{"description": WORDS}]}}]},
    "slack": {"attachments": [{"is_share": True, "author_name": "Eve", "text": WORDS}]},
    "mastodon": {
        "quote": {"state": "accepted", "quoted_status": {"content": f"<p>{WORDS}</p>", "visibility": "public"}}
    },
    "bluesky": {
        "embed": {
            "$type": "app.bsky.embed.record#view",
            "record": {"uri": "at://x", "author": {"did": "did:plc:eve"}, "value": {"text": WORDS}},
        }
    },
    "github": {"body": f"> {WORDS}"},
    "gitlab": {"body": f"> {WORDS}"},
}
# A message whose words are all in something else than its text.
WORDLESS: dict[str, dict[str, Any]] = {
    "telegram": {"poll": POLL},
    "discord": {"embeds": [{"title": WORDS}]},
    "slack": {"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": WORDS}}]},
}


@cannot(console=ONLY_TEXT)
async def test_a_question_about_a_forwarded_message_comes_with_it(bot: Bot) -> None:
    text = f"{bot.driver.mention}can you answer this one?"
    entry = await bot.say_and_wait(bot.group(), text, **FORWARDED[bot.driver.name])
    assert entry.state == "answered"
    [question] = bot.script.questions
    assert (question.text, [turn.text for turn in question.history]) == ("can you answer this one?", [WORDS])


@cannot(console=ONLY_TEXT)
async def test_a_forwarded_message_alone_is_the_question(bot: Bot) -> None:
    entry = await bot.say_and_wait(bot.group(), bot.driver.mention.strip(), **FORWARDED[bot.driver.name])
    assert (entry.state, bot.script.question_texts) == ("answered", [WORDS])


@cannot(mastodon=HAS_TEXT, github=HAS_TEXT, console=ONLY_TEXT)
async def test_a_question_below_an_alert_comes_with_the_alert(bot: Bot) -> None:
    channel = bot.group()
    alert = await bot.driver.say(channel, "", person=ROBOT, **WORDLESS[bot.driver.name])
    entry = await bot.say_and_wait(channel, f"{bot.driver.mention}what does this mean?", reply_to=alert)
    assert entry.state == "answered"
    [question] = bot.script.questions
    assert [turn.text for turn in question.history] == [WORDS]


@cannot(github=HAS_TEXT, mastodon=ONLY_MENTIONS, console=ONLY_TEXT)
async def test_a_message_without_text_for_nobody_stays_unanswered(bot: Bot) -> None:
    entry = await bot.say_and_wait(bot.group(), "", **WORDLESS[bot.driver.name])
    assert (entry.state, bot.script.questions) == ("silent", [])


@cannot(console=SEEN_AT_ONCE)
async def test_what_somebody_asks_about_goes_with_whose_words_it_is(bot: Bot) -> None:
    """The bot need not have seen them before: it is asked to erase somebody of whom it has nothing else."""
    channel = bot.group()
    words = "numbats sleep below ground"
    await bot.ask(channel, "How do I install it?", person=BEN)
    database = bot.journal.database
    [known_id] = {row.author_id for row in await database.fetch_all(select(messages))}
    said = await bot.driver.say(channel, words, person=BEN)
    entry = await bot.say_and_wait(channel, f"{bot.driver.mention}what does this mean?", reply_to=said)
    assert entry.state == "answered"
    rows = await database.fetch_all(select(messages).where(messages.c.quoted.contains(words)))
    [author_id] = [author_id for row in rows for author_id in row.quoted_authors]
    assert author_id == known_id
    await database.write(delete(messages).filter_by(author_id=author_id))
    await erase_on_platform(database, bot.platform, author_id, today())
    rows = await database.fetch_all(select(messages))
    assert rows
    assert words not in str(rows)
    assert not any(row.quoted_authors for row in rows)


@cannot(
    slack="in a thread of the bot's nothing is quoted; tests/security/test_own_words_elsewhere.py has shared answers",
    console=SEEN_AT_ONCE,
)
async def test_words_of_the_bot_are_nobody_elses(bot: Bot) -> None:
    """The adapter says whose words are quoted, and under the same ids who the bot is."""
    channel = bot.group()
    await bot.ask(channel, "How do I install it?")
    [answer] = bot.messages(channel)
    asked = await bot.driver.reply(channel, answer, "what does this mean?", person=BEN)
    assert (await bot.wait_until_finished(channel, asked)).state == "answered"
    row = await bot.journal.database.fetch_first(select(messages).filter_by(id=asked))
    assert row
    assert "How do I install it?" in row.quoted
    assert (row.quotes_bot, row.quoted_authors) == (True, None)
