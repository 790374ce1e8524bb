"""Words of a closed answer that somebody carries into a public place are the bot's own, whichever bot is asked."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiogram.types import Update
from sqlalchemy import select, update

from bots.bluesky.client import Identity as BlueskyIdentity
from bots.bluesky.convert import to_message as to_bluesky_message
from bots.common.namespaced import NamespacedAdapter
from bots.discord.convert import Identity as DiscordIdentity, Location, time_snowflake, to_message as to_discord_message
from bots.discord.forwards import ForwardReader
from bots.forges.client import Account, Comment, Identity as ForgeIdentity, Topic
from bots.forges.convert import to_comment_message
from bots.http.convert import to_message as to_http_message
from bots.mastodon.client import Identity as MastodonIdentity
from bots.mastodon.convert import to_message as to_mastodon_message
from bots.slack.commands import from_message_shortcut
from bots.slack.convert import Identity as SlackIdentity, from_event, to_thread_messages
from bots.slack.thread_cache import ThreadCache, ThreadMessage
from bots.telegram.convert import Identity as TelegramIdentity, to_message
from core.errors import PlatformError
from core.messaging.feedback.handoff import ASK_SHORTCUT_ID
from core.settings import Settings
from core.storage.tables import messages
from core.types import ConversationKey, Message
from core.types.messages import OWN_COMMENT_MARKER
from tests.support.recording_bot import Bot, RecordingAdapter, Sender, open_bot

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

TELEGRAM_CHAT = {"id": -100, "type": "supergroup", "title": "p"}
TELEGRAM_BOT = {"id": 900, "is_bot": True, "first_name": "A", "username": "a_bot"}
SHARES = ("is_share", "is_msg_unfurl")
TOLD = "The release date of the launcher is the first of May, numbat."


SLACK_ME = SlackIdentity("UBOT", "kimas", "T1", "t", "BBOT")
# What our bots are called, where they are authors.
OWN_IDS = {
    "telegram": ("900",),
    "discord": ("900",),
    "slack": ("UBOT", "BBOT"),
    "mastodon": ("a_bot@social.example",),
    "bluesky": ("did:plc:a",),
    "github": ("a-bot",),
    "http": (),
}


class OtherBot(RecordingAdapter):
    """The adapter of another bot of the daemon's."""

    label = "another bot"

    @property
    def author_ids(self) -> frozenset[str]:
        return frozenset(OWN_IDS[self.name])


def share_on_slack(kind: str, **fields: Any) -> dict[str, Any]:
    attachment = {"author_id": "UBOT", "text": TOLD, "channel_id": "C200", "ts": "1.1", "fallback": TOLD, kind: True}
    event = {"type": "message", "channel": "C100", "ts": f"{time.time():.6f}", "user": "U42", "team": "T1"}
    return {**event, "text": "<@UBOT> when is the release?", "attachments": [attachment], **fields}


def convert_on_slack(event: Mapping[str, Any]) -> Message:
    message = from_event({"team_id": "T1", "event": event}, SLACK_ME)
    assert isinstance(message, Message)
    return message


async def ask_below_a_share(kind: str, *, is_read: bool, is_root: bool = True) -> Message:
    """Somebody mentions the bot in a thread where somebody else has shared its answer."""
    began, shared = f"{time.time() - 60:.6f}", f"{time.time() - 30:.6f}"
    root = share_on_slack(kind, ts=began, text="Look", **({} if is_root else {"attachments": []}))
    share = share_on_slack(kind, ts=shared, user="U44", text="hm", thread_ts=began)
    asked = share_on_slack(kind, user="U43", thread_ts=began, attachments=[])

    async def read(channel: str, thread: str, before: str) -> Sequence[ThreadMessage]:
        if not is_read:
            raise PlatformError("not now")
        return to_thread_messages([root] if is_root else [root, share], SLACK_ME)

    async def has_answered(key: ConversationKey) -> bool:
        return False

    cache = ThreadCache(has_answered, read)
    await cache.with_thread_context(convert_on_slack(root))
    return await cache.with_thread_context(convert_on_slack(asked))


def ask_about_a_share(kind: str) -> Message:
    payload = {
        "callback_id": ASK_SHORTCUT_ID,
        "message": share_on_slack(kind),
        "message_ts": "2.2",
        "channel": {"id": "C100"},
        "user": {"id": "U43", "name": "eve"},
        "trigger_id": "t.1",
        "response_url": "https://h.example/x",
    }
    message = from_message_shortcut(payload, SLACK_ME)
    assert isinstance(message, Message)
    return message


def convert_on_telegram(**fields: Any) -> Message:
    event = {"message_id": 77, "date": int(time.time()), "chat": TELEGRAM_CHAT, **fields}
    event["from"] = {"id": 42, "is_bot": False, "first_name": "Ann"}
    message = to_message(Update.model_validate({"update_id": 1, "message": event}), TelegramIdentity(901, "b_bot"))
    assert isinstance(message, Message)
    return message


def reply_on_telegram() -> Message:
    answer = {"message_id": 55, "date": int(time.time()), "chat": TELEGRAM_CHAT, "text": TOLD, "from": TELEGRAM_BOT}
    entities = [{"type": "mention", "offset": 0, "length": 6}]
    return convert_on_telegram(text="@b_bot is this right?", entities=entities, reply_to_message=answer)


def forward_on_telegram() -> Message:
    origin = {"type": "user", "date": int(time.time()), "sender_user": TELEGRAM_BOT}
    return convert_on_telegram(text=TOLD, forward_origin=origin)


def reply_on_mastodon() -> Message:
    now = datetime.now(UTC).isoformat()

    def post(number: str, account: str, name: str, content: str, **fields: Any) -> dict[str, Any]:
        author = {"id": account, "username": name, "acct": name, "display_name": name, "bot": name.endswith("_bot")}
        shown = {"visibility": "public", "created_at": now, "mentions": [], "in_reply_to_id": None}
        return {"id": number, "account": author, "content": content, **shown, **fields}

    answer = post("55", "900", "a_bot", f"<p>{TOLD}</p>")
    mention = {"id": "901", "acct": "b_bot", "url": "https://social.example/@b_bot", "username": "b_bot"}
    status = post("77", "42", "eve", "<p>@b_bot is this right?</p>", in_reply_to_id="55", mentions=[mention])
    message = to_mastodon_message(status, [answer], MastodonIdentity("901", "b_bot", "social.example"), 9)
    assert isinstance(message, Message)
    return message


def reply_on_bluesky(**fields: Any) -> Message:
    now = datetime.now(UTC).isoformat()

    def post(author: str, text: str, **record: Any) -> dict[str, Any]:
        record = {"text": text, **record}
        uri = f"at://{author}/app.bsky.feed.post/1"
        return {"uri": uri, "cid": "c", "author": {"did": author, "handle": "h"}, "record": record, "indexedAt": now}

    answer = post("did:plc:a", TOLD)
    reference = {"uri": answer["uri"], "cid": "c"}
    asked = post("did:plc:eve", "is this right?", reply={"root": reference, "parent": reference})
    thread = {"post": asked | fields, "parent": {"post": answer}}
    message = to_bluesky_message(thread, BlueskyIdentity(did="did:plc:b", handle="b"), 9)
    assert isinstance(message, Message)
    return message


def quote_on_github() -> Message:
    now = time.time()
    eve = Account("eve", 42)
    topic = Topic("a/b", "issues/1", 1, "Release", "When is it?", eve, now - 60)
    answer = Comment(5, topic.path, f"{TOLD}\n{OWN_COMMENT_MARKER}1 -->", Account("A-bot", 900), now - 50, now - 50)
    asked = Comment(6, topic.path, f"> {TOLD}\n\n@b-bot is this right?", Account("bob", 43), now, now)
    me = ForgeIdentity("b-bot", "github.com")
    return to_comment_message("github", topic, asked, [answer], me, is_edit=False)


def share_over_http(**fields: Any) -> Message:
    event = {"id": "e1", "chat": "lobby", "kind": "message", "author": {"id": "bob"}, "addressed": True, **fields}
    message = to_http_message(event, datetime.now(UTC))
    assert isinstance(message, Message)
    return message


class ClosedChannel:
    """Has the answer that was forwarded."""

    async def get_message(self, channel: str, message: str) -> dict[str, Any]:
        assert (channel, message) == ("200", "5")
        return {"id": message, "author": {"id": "900", "username": "kimas"}, "content": TOLD}


async def forward_on_discord(*, is_reply: bool) -> Message:
    """Forward the answer with a question, or ask in reply to a forward of somebody else's."""
    forward: dict[str, Any] = {"message_reference": {"type": 1, "channel_id": "200", "message_id": "5"}}
    forward |= {"message_snapshots": [{"message": {"content": TOLD, "type": 0}}], "content": "", "type": 0}
    forward |= {"id": "7", "channel_id": "300", "author": {"id": "43", "username": "bob"}}
    asked = {"content": "<@900> what does this mean?", "mentions": [{"id": "900", "username": "kimas"}]}
    asked |= {"id": str(time_snowflake(datetime.now(UTC))), "author": {"id": "42", "username": "ann"}}
    event = {**forward, **asked} if not is_reply else {**asked, "type": 19, "referenced_message": forward}
    message = to_discord_message(event, DiscordIdentity("900", "kimas", "900"), Location("300", "300", guild="1"))
    assert isinstance(message, Message)
    reader = ForwardReader(cast("DiscordClient", ClosedChannel()))
    return await reader.with_origins(message, event, event.get("referenced_message"))


MAKERS: dict[str, Callable[[], Message | Awaitable[Message]]] = {
    **{kind: partial(lambda kind: convert_on_slack(share_on_slack(kind)), kind) for kind in SHARES},
    **{f"asked below {kind}": partial(ask_below_a_share, kind, is_read=True) for kind in SHARES},
    **{
        f"asked in a thread with {kind}": partial(ask_below_a_share, kind, is_read=True, is_root=False)
        for kind in SHARES
    },
    **{f"asked below {kind}, not read": partial(ask_below_a_share, kind, is_read=False) for kind in SHARES},
    **{f"asked about {kind}": partial(ask_about_a_share, kind) for kind in SHARES},
    "reply to another bot": reply_on_telegram,
    "forward alone": forward_on_telegram,
    "forward": partial(forward_on_discord, is_reply=False),
    "reply to a forward": partial(forward_on_discord, is_reply=True),
    "reply on Mastodon": reply_on_mastodon,
    "reply on Bluesky": reply_on_bluesky,
    "quotation on a forge": quote_on_github,
    "share over HTTP": partial(share_over_http, text="what does this mean?", quoted=TOLD, quotes_bot=True),
    "forward over HTTP": partial(share_over_http, text=TOLD, forwarded=True, quotes_bot=True),
}


async def make(kind: str) -> Message:
    message = MAKERS[kind]()
    return message if isinstance(message, Message) else await message


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Bot]:
    """Run a bot for a public and a closed source, over the journal of the folder."""
    sources = {name: {"kind": "files", "path": folder / name} for name in ("docs", "team")}
    for name, source in sources.items():
        source["path"].mkdir(exist_ok=True)
        (source["path"] / "a.md").write_text(f"# Launcher\n\nThe launcher has a button for the {name}.\n", "utf-8")
    values = {"data_dir": folder / "data", "telegram": {"token": {"env": "TELEGRAM"}}}
    values["sources"] = {**sources, "team": {**sources["team"], "audience": ["owners"]}}
    async with open_bot(Settings.model_validate(values), is_read=True) as bot:
        yield bot


async def receive(bot: Bot, message: Message) -> tuple[bool, str, Any]:
    """Give the bot a message; return whether it has words of the bot's, what was written beside them, and by whom."""
    await bot.processor.handler_for(bot.adapter(message.key.platform))(message)
    await bot.processor.join()
    names = ("quotes_bot", "text", "quoted", "quoted_authors")
    own_row = select(*(messages.c[name] for name in names)).filter_by(id=message.id, platform=message.key.platform)
    [row] = await bot.journal.database.fetch_all(own_row)
    assert "numbat" in row.quoted
    return row.quotes_bot, row.text, row.quoted_authors


@pytest.mark.parametrize("kind", MAKERS)
async def test_words_of_a_closed_answer_are_not_taken_up(tmp_path: Path, kind: str) -> None:
    message = await make(kind)
    async with opened(tmp_path) as bot:
        bot.processor.handler_for(OtherBot(message.key.platform))
        quotes_bot, text, authors = await receive(bot, message)
        assert (quotes_bot, "numbat" in text) == (True, False)
        # Others say more in the same thread.
        assert set(authors or ()) <= {"U42", "U44"}


@pytest.mark.parametrize(
    "kind", ["is_share", "reply to another bot", "forward", "reply on Mastodon", "reply on Bluesky"]
)
async def test_words_of_a_former_bot_are_the_bots(tmp_path: Path, kind: str) -> None:
    message = await make(kind)
    async with opened(tmp_path) as bot:
        for _ in range(2):
            await bot.processor.resume(OtherBot(message.key.platform))
    async with opened(tmp_path) as bot:
        assert (await receive(bot, message))[0]


async def test_a_former_bot_is_known_by_what_it_received(tmp_path: Path) -> None:
    """From a time when it was not kept which accounts are the bot's."""
    async with opened(tmp_path) as bot:
        await bot.deliver(Sender("-200"), "Hello", bot="900")
        assert (await receive(bot, reply_on_telegram()))[0]


async def test_a_person_called_like_a_network_is_nobody_of_ours(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        shop = NamespacedAdapter("shop", RecordingAdapter("http"))
        bot.processor.handler_for(shop)
        await bot.processor.resume(shop)
        await bot.deliver(Sender("lobby@shop", platform="http"), "Hello", bot="shop")
        message = share_over_http(text="what does this mean?", quoted=TOLD, quoted_author="shop")
        assert await receive(bot, message) == (False, "what does this mean?", ["shop"])


async def test_a_forward_of_a_closed_answer_is_not_told_of_later(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        bot.processor.handler_for(OtherBot("telegram"))
        await receive(bot, forward_on_telegram())
        await bot.deliver(Sender(str(TELEGRAM_CHAT["id"]), "42"), "what does this mean?", bot="901")
        assert "numbat" not in bot.output()


async def test_a_closed_answer_quoted_with_an_open_one_is_not_asked(tmp_path: Path) -> None:
    """Somebody shares it below the open one, and somebody mentions the bot there without a word."""
    async with opened(tmp_path) as bot:
        asked = await bot.deliver(Sender("lobby", "carl", platform="http"), "What does the launcher have?")
        await bot.journal.database.write(update(messages).filter_by(id=asked.id).values(reply_id="r1"))
        bot.output()
        await receive(bot, share_over_http(text="", quoted=f"A button.\n\n{TOLD}", quotes_bot=True, reply_to="r1"))
        output = bot.output()
        assert "button" in output
        assert "numbat" not in output


async def test_an_edit_into_a_forward_of_a_closed_answer_has_the_words_of_the_bot(tmp_path: Path) -> None:
    asked = share_over_http(text="what does this mean?")
    edit = {"kind": "edit", "id": "e2", "changes": "e1", "text": TOLD, "forwarded": True, "quotes_bot": True}
    async with opened(tmp_path) as bot:
        await bot.journal.record_message(asked)
        await bot.processor.handler_for(bot.adapter("http"))(share_over_http(**edit))
        [row] = await bot.journal.database.fetch_all(select(messages).filter_by(id="e1"))
        assert (row.quotes_bot, row.text) == (True, "")


async def test_what_is_quoted_below_an_answer_is_of_who_wrote_it() -> None:
    """The words of the answer itself are not brought then."""
    record = {"uri": "at://x", "author": {"did": "did:plc:ann"}, "value": {"text": "I think so"}}
    message = reply_on_bluesky(embed={"$type": "app.bsky.embed.record#view", "record": record})
    assert (message.quoted, message.quoted_authors) == ("I think so", ("did:plc:ann",))
