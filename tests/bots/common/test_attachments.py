"""Screenshots, voice messages and files on all platforms: looked at, said plainly, or silent with a recorded reason."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bots.discord.adapter import DiscordAdapter
from bots.discord.convert import get_file_url as discord_address
from bots.http.adapter import HttpAdapter
from bots.slack.adapter import SlackAdapter
from bots.slack.convert import get_file_url as slack_address
from bots.telegram.adapter import TelegramAdapter
from core.catalogue import ENGLISH
from core.catalogue.zh import MESSAGES as CHINESE
from core.errors import PlatformError
from core.llm.images import MAX_BYTES
from core.settings import Secret, TelegramSettings
from core.storage.message_rows import to_message
from core.storage.tables import messages
from core.types import Attachment
from tests.support import discord_helpers, slack_helpers
from tests.support.http_helpers import QUICK, event, http_settings
from tests.support.image_helpers import IMAGE_DESCRIPTION, Harness, open_harness
from tests.support.images import png
from tests.support.peers.callback import CallbackPeer
from tests.support.peers.discord import DiscordPeer
from tests.support.peers.slack import SlackPeer
from tests.support.peers.telegram import Author, TelegramPeer
from tests.support.telegram_helpers import PACE, Offsets

GROUP = -100
ANN = 7


def telegram(peer: TelegramPeer, folder: Path) -> TelegramAdapter:
    (folder / "token").write_text(peer.token)
    return TelegramAdapter(TelegramSettings(token=Secret(file=folder / "token"), api_url=peer.api_url), Offsets(), PACE)


def photo(peer: TelegramPeer, name: str = "big", **extra_fields: Any) -> dict[str, Any]:
    """Return the fields of a photo message, in three sizes, without a text."""
    peer.files[name] = png()
    sizes = [("small", 90, 1000), (name, 1280, 90_000), ("huge", 9000, MAX_BYTES + 1)]
    messages = [
        {"file_id": text, "file_unique_id": text, "width": side, "height": side, "file_size": size}
        for text, side, size in sizes
    ]
    return {"photo": messages, **extra_fields}


def count_sent_images(harness: Harness) -> int:
    return sum(len(body["messages"][-1]["content"]) - 1 for body in harness.model.sent("see"))


async def test_telegram_photos_documents_and_replied_photos(tmp_path: Path) -> None:
    async with TelegramPeer() as peer, open_harness(tmp_path, telegram(peer, tmp_path)) as harness:
        entity = [{"type": "mention", "offset": 0, "length": 10}]
        peer.say(GROUP, "", **photo(peer, caption="@kimas_bot what is this?", caption_entities=entity))
        await peer.wait_for_reply(GROUP, 30, containing="Install it")
        assert peer.fetched == ["big"]
        # Nothing but a picture, in a private chat.
        peer.files["doc"] = png()
        document = {"file_id": "doc", "file_unique_id": "doc", "mime_type": "image/png", "file_name": "shot.png"}
        peer.say(ANN, "", document=document)
        await peer.wait_for_reply(ANN, 30)
        request_count = peer.say(GROUP, "", author=Author(2002, "Bea", "bea"), **photo(peer, "hers"))
        message_fields = {
            "message_id": request_count,
            "date": 1,
            "chat": {"id": GROUP, "type": "supergroup", "title": "Team"},
        }
        message_fields |= {"from": Author(2002, "Bea", "bea").user(), **photo(peer, "hers")}
        peer.say(GROUP, "@kimas_bot what does she see?", reply_to_message=message_fields)
        await peer.wait_for_reply(GROUP, 30, count=2)
        results = await harness.wait_until_finished(4)
        assert peer.fetched == ["big", "doc", "hers"]
        assert results[2] == ("silent", "a picture without text, and the bot was not addressed")
        assert f"> {IMAGE_DESCRIPTION}" in harness.model.sent("write")[0]["messages"][-1]["content"]


async def test_a_telegram_album_is_one_question(tmp_path: Path) -> None:
    async with TelegramPeer() as peer:
        for name, caption in (("a", None), ("b", "What do these say?"), ("c", None)):
            extra_sources = {"media_group_id": "album", **({"caption": caption} if caption else {})}
            peer.say(ANN, "", **photo(peer, name, **extra_sources))
        async with open_harness(tmp_path, telegram(peer, tmp_path)) as harness:
            await peer.wait_for_reply(ANN, 30)
            assert await harness.wait_until_finished(1) == [("answered", "")]
            assert (sorted(peer.fetched), count_sent_images(harness)) == (["a", "b", "c"], 3)
            assert "What do these say?" in str(harness.model.sent("see")[0]["messages"][-1]["content"])


async def test_the_parts_of_an_album_may_come_one_by_one(tmp_path: Path) -> None:
    async with TelegramPeer() as peer, open_harness(tmp_path, telegram(peer, tmp_path)) as harness:
        await peer.wait_until(lambda: bool(peer.get_calls("getMe")), 30)
        count = len(peer.get_calls("getUpdates"))
        peer.say(ANN, "", **photo(peer, "a", caption="What do these say?", media_group_id="album"))
        await peer.wait_until(lambda: len(peer.get_calls("getUpdates")) > count, 30)
        peer.say(ANN, "", **photo(peer, "b", media_group_id="album"))
        await peer.wait_for_reply(ANN, 30)
        assert await harness.wait_until_finished(1) == [("answered", "")]
        assert (sorted(peer.fetched), peer.pending()) == (["a", "b"], [])


@pytest.mark.parametrize(
    ("media", "notice"),
    [
        ({"voice": {"file_id": "v", "file_unique_id": "v", "duration": 3}}, ENGLISH.voice),
        ({"video_note": {"file_id": "v", "file_unique_id": "v", "duration": 3, "length": 9}}, ENGLISH.video),
        ({"location": {"latitude": 1.0, "longitude": 2.0}}, ENGLISH.other),
        ({"dice": {"emoji": "🎲", "value": 3}}, ENGLISH.other),
    ],
)
async def test_telegram_says_plainly_what_it_cannot_read_once(
    tmp_path: Path, media: dict[str, Any], notice: str
) -> None:
    async with TelegramPeer() as peer, open_harness(tmp_path, telegram(peer, tmp_path)) as harness:
        peer.say(ANN, "", **media)
        peer.say(ANN, "", **media)
        peer.say(GROUP, "", **media)
        peer.say(GROUP, "", new_chat_title="Rockets")
        (output, *_), second_row, unaddressed = await harness.wait_until_finished(3)
        assert [message.text for message in peer.messages(ANN)] == [notice]
        assert peer.messages(GROUP) == []
        assert output == "answered"
        assert second_row[1].endswith("was recently told that it cannot be read")
        assert unaddressed[1].endswith("without text, and the bot was not addressed")
        assert harness.model.requests == []


async def test_a_sticker_in_answer_to_the_bot_is_a_gesture(tmp_path: Path) -> None:
    async with TelegramPeer() as peer, open_harness(tmp_path, telegram(peer, tmp_path)) as harness:
        request_count = peer.say(GROUP, "@kimas_bot How do I install it?")
        reply = await peer.wait_for_reply(GROUP, 30)
        await harness.wait_until_finished(1)
        kind = {"type": "regular", "width": 9, "height": 9, "is_animated": False, "is_video": False}
        sticker = {"file_id": "s", "file_unique_id": "s", **kind}
        peer.say(GROUP, "", reply_to=reply.id, sticker=sticker)
        assert (await harness.wait_until_finished(2))[1] == ("silent", "a sticker")
        assert request_count in peer.chats[GROUP].messages


async def test_telegram_without_eyes_says_so_in_the_askers_language(tmp_path: Path) -> None:
    async with TelegramPeer() as peer, open_harness(tmp_path, telegram(peer, tmp_path), sees=False) as harness:
        chinese = {**Author(ANN, "Li").user(), "language_code": "zh-hans"}
        peer.say(ANN, "", **photo(peer), **{"from": chinese})
        await peer.wait_for_reply(ANN, 30)
        peer.say(ANN, "", **photo(peer, caption="How do I install it?"))
        await peer.wait_for_reply(ANN, 30, count=2)
        first, second = [message.text for message in peer.messages(ANN)]
        assert first == CHINESE.picture
        assert ENGLISH.images_unsupported.strip("*") in second
        assert (peer.fetched, await harness.wait_until_finished(2)) == ([], [("answered", "")] * 2)


async def test_what_a_picture_showed_is_remembered(tmp_path: Path) -> None:
    async with TelegramPeer() as peer, open_harness(tmp_path, telegram(peer, tmp_path)) as harness:
        peer.say(ANN, "", **photo(peer, caption="What is this?"))
        await peer.wait_for_reply(ANN, 30)
        await harness.wait_until_finished(1)
        peer.say(ANN, "And how do I get rid of it?")
        await peer.wait_for_reply(ANN, 30, count=2)
        assert any(
            IMAGE_DESCRIPTION in str(turn["content"]) for turn in harness.model.sent("write")[-1]["messages"][1:-1]
        )
        assert peer.fetched == ["big"]


async def test_telegram_hands_over_no_more_than_asked_for_and_no_token_in_errors(tmp_path: Path) -> None:
    async with TelegramPeer() as peer:
        adapter = telegram(peer, tmp_path)
        await adapter.open()
        try:
            peer.files["f"] = b"x" * 100
            assert await adapter.fetch_attachment(Attachment("picture", reference={"file_id": "f"}), 100) == b"x" * 100
            with pytest.raises(PlatformError, match="larger than 99"):
                await adapter.fetch_attachment(Attachment("picture", reference={"file_id": "f"}), 99)
            with pytest.raises(PlatformError) as error_info:
                await adapter.fetch_attachment(Attachment("picture", reference={"file_id": "unknown"}), 99)
            assert peer.token not in str(error_info.value)
        finally:
            await adapter.close()


SERVED = [f"2026-11-01 08:{number // 60:02d}:{number % 60:02d} INFO request {number} served" for number in range(3600)]
TRACEBACK = ["Traceback (most recent call last):", '  File "app.py", line 3', "ValueError: bad port, password=hunter22"]
LOG = "\n".join([*SERVED, *TRACEBACK])
READ_NOTE = "*Of `error.log` I read "


def assert_read(harness: Harness) -> None:
    """The model got the end of the log, as data, and nothing that is secret reached it or the journal."""
    prompt = harness.model.sent("write")[-1]["messages"][-1]["content"]
    assert "> 3603: ValueError: bad port, password=[secret 1]" in prompt
    assert "hunter22" not in str(harness.model.requests)


async def assert_forgotten(harness: Harness, word: str = "bad port") -> None:
    """What was read is in the journal, until its author's words are forgotten."""
    rows = await harness.journal.database.fetch_all(select(messages).order_by(messages.c.number))
    assert word in str(rows)
    assert "hunter22" not in str(rows)
    for row in rows:
        await harness.journal.erase_author(to_message(row))
    assert word not in str(await harness.journal.database.fetch_all(select(messages)))


async def test_telegram_documents_are_read(tmp_path: Path) -> None:
    async with TelegramPeer() as peer, open_harness(tmp_path, telegram(peer, tmp_path)) as harness:
        peer.files |= {"log": LOG.encode(), "zip": b"PK\x03\x04" + bytes(range(256)), "big": b""}
        document = {"file_id": "log", "file_unique_id": "u", "mime_type": "text/x-log", "file_name": "error.log"}
        peer.say(ANN, "", document=document, caption="Why does it not start?")
        reply = await peer.wait_for_reply(ANN, 30)
        assert "Of error.log I read" in reply.text.replace("`", "")
        assert_read(harness)
        # Nothing but a file, in a private chat; and what cannot be read.
        peer.say(ANN, "", document=document)
        await peer.wait_for_reply(ANN, 30, count=2)
        assert_read(harness)
        peer.say(ANN, "", document={**document, "file_id": "zip", "file_name": "a.log"})
        await peer.wait_for_reply(ANN, 30, count=3)
        assert ENGLISH.file_problems["binary"] in peer.messages(ANN)[-1].text
        large = {**document, "file_id": "big", "file_size": 5 << 20}
        peer.say(ANN, "", document=large, caption="How do I install it?")
        await peer.wait_for_reply(ANN, 30, count=4)
        text = peer.messages(ANN)[-1].text
        assert ENGLISH.file_problems["too_large"] in text
        assert "Install it" in text, "the words are answered all the same"
        assert peer.fetched == ["log", "log", "zip"]
        await harness.wait_until_finished(4)
        await assert_forgotten(harness)


async def test_a_question_about_somebodys_file_reads_it(tmp_path: Path) -> None:
    async with TelegramPeer() as peer, open_harness(tmp_path, telegram(peer, tmp_path)) as harness:
        peer.files["log"] = LOG.encode()
        document = {"file_id": "log", "file_unique_id": "u", "mime_type": "text/plain", "file_name": "error.log"}
        bea = Author(2002, "Bea", "bea")
        number = peer.say(GROUP, "", author=bea, document=document)
        chat = {"id": GROUP, "type": "supergroup", "title": "Team"}
        hers = {"message_id": number, "date": 1, "chat": chat, "from": bea.user(), "document": document}
        peer.say(GROUP, "@kimas_bot what does this mean?", reply_to_message=hers)
        await peer.wait_for_reply(GROUP, 30)
        assert_read(harness)
        results = await harness.wait_until_finished(2)
        assert results[0] == ("silent", "a file without text, and the bot was not addressed")


async def test_discord_files_are_read(tmp_path: Path) -> None:
    async with DiscordPeer() as peer:
        settings = discord_helpers.settings(peer, tmp_path)
        adapter = DiscordAdapter(settings, discord_helpers.Positions(), discord_helpers.PACE)
        async with open_harness(tmp_path, adapter) as harness:
            await peer.connected()
            channel_id = peer.channel()
            log = peer.add_attachment("error.log", LOG.encode(), "text/plain; charset=utf-8")
            await peer.say(channel_id, f"{peer.mention} why does it not start?", attachments=[log])
            await peer.wait_for_reply(channel_id, 30)
            await harness.wait_until_finished(1)
            assert READ_NOTE in peer.messages(channel_id)[-1].content
            assert_read(harness)
            await assert_forgotten(harness)


async def test_slack_files_are_read_and_no_page_to_log_in(tmp_path: Path) -> None:
    async with SlackPeer() as peer:
        settings = slack_helpers.settings(peer, tmp_path)
        adapter = SlackAdapter(settings, slack_helpers.Threads().answered_in, slack_helpers.PACE)
        async with open_harness(tmp_path, adapter) as harness:
            log = {**peer.add_attachment("F1", LOG.encode(), "text/plain"), "name": "error.log"}
            peer.say("C1", "<@UBOT> why does it not start?", files=[log], subtype="file_share")
            await peer.wait_for_reply("C1", 30, containing="error.log")
            assert_read(harness)
            peer.lacking.add("files:read")
            peer.say("D2", "How do I install it?", files=[{**log, "id": "F1"}], subtype="file_share")
            await peer.wait_for_reply("D2", 30, containing=ENGLISH.file_problems["failed"])
            assert "Log in" not in str(harness.model.requests)
            await harness.wait_until_finished(2)
            await assert_forgotten(harness)


async def test_discord_attachments(tmp_path: Path) -> None:
    async with DiscordPeer() as peer:
        settings = discord_helpers.settings(peer, tmp_path)
        adapter = DiscordAdapter(settings, discord_helpers.Positions(), discord_helpers.PACE)
        async with open_harness(tmp_path, adapter) as harness:
            await peer.connected()
            channel_id = peer.channel()
            home = peer.channel(private=True)
            shot = peer.add_attachment("shot.png", png())
            await peer.say(channel_id, f"{peer.mention} what is this?", attachments=[shot])
            await peer.wait_for_reply(channel_id, 30)
            await peer.say(home, "", attachments=[peer.add_attachment("only.png", png())])
            await peer.wait_for_reply(home, 30)
            hers = await peer.say(channel_id, "look", attachments=[peer.add_attachment("hers.png", png())])
            await peer.say(channel_id, f"{peer.mention} what does she mean?", reply_to=hers)
            await peer.wait_for_reply(channel_id, 30, count=2)
            await peer.say(home, "", attachments=[peer.add_attachment("a.ogg", b"", "audio/ogg")])
            await peer.wait_for_reply(home, 30, count=2)
            await peer.say(channel_id, "", attachments=[peer.add_attachment("a.log", b"", "text/plain")])
            results = await harness.wait_until_finished(6)
            assert peer.fetched == ["shot.png", "only.png", "hers.png"]
            assert peer.messages(home)[-1].content == ENGLISH.voice
            assert results[-1] == ("silent", "a file without text, and the bot was not addressed")


async def test_slack_files(tmp_path: Path) -> None:
    async with SlackPeer() as peer:
        settings = slack_helpers.settings(peer, tmp_path)
        adapter = SlackAdapter(settings, slack_helpers.Threads().answered_in, slack_helpers.PACE)
        async with open_harness(tmp_path, adapter) as harness:
            share = {"subtype": "file_share"}
            peer.say("C1", "<@UBOT> what is this?", files=[peer.add_attachment("F1", png())], **share)
            await peer.wait_for_reply("C1", 30, containing="Install")
            peer.say("D1", "", files=[peer.add_attachment("F2", png())], **share)
            await peer.wait_for_reply("D1", 30, containing="Install")
            peer.say("D1", "", files=[{**peer.add_attachment("F3", b""), "mimetype": "video/mp4"}], **share)
            await peer.wait_for_reply("D1", 30, containing=ENGLISH.video)
            assert peer.fetched == ["F1", "F2"]
            # Without the scope Slack shows a page to log in: no picture, told plainly.
            peer.lacking.add("files:read")
            peer.say("D2", "How do I install it?", files=[peer.add_attachment("F4", png())], **share)
            await peer.wait_for_reply("D2", 30, containing=ENGLISH.image_failed_text_only.strip("*"))
            assert {state for state, _ in await harness.wait_until_finished(4)} == {"answered"}


async def test_http_events_carry_their_pictures(tmp_path: Path) -> None:
    async with CallbackPeer() as peer:
        adapter = HttpAdapter(http_settings(peer, tmp_path), QUICK)
        async with open_harness(tmp_path, adapter) as harness:
            await adapter.ready.wait()
            data = base64.b64encode(png()).decode()

            async def send(number: str, **changes: object) -> int:
                return (await peer.send(adapter.port, event(number, **changes)))[0]

            assert await send("1", attachments=[{"kind": "picture", "data": data}]) == 202
            assert (
                await send("2", text="", attachments=[{"kind": "picture", "data": f"data:image/png;base64,{data}"}])
                == 202
            )
            assert await send("3", text="", attachments=[{"kind": "voice"}]) == 202
            assert await harness.wait_until_finished(3) == [("answered", "")] * 3
            assert count_sent_images(harness) == 2
            invalid_attachments = [
                [{"kind": "picture", "url": "https://example.org/a.png"}],
                [{"kind": "picture", "data": "https://example.org/a.png"}],
                [{"kind": "picture"}],
                [{"kind": "hologram"}],
                {"kind": "voice"},
                [{"kind": "voice"}] * 11,
            ]
            assert [await send(f"bad {at}", attachments=group) for at, group in enumerate(invalid_attachments)] == [
                422
            ] * len(invalid_attachments)
            assert await send("empty", text="", attachments=[]) == 422


@pytest.mark.parametrize(
    "url",
    [
        "http://cdn.discordapp.com/a.png",
        "https://cdn.discordapp.com.example.org/a.png",
        "https://example.org/cdn.discordapp.com",
        "https://cdn.discordapp.com@example.org/a.png",
        "",
    ],
)
def test_discord_files_come_from_discord_alone(url: str) -> None:
    event = {"attachments": [{"id": "1", "url": url}]}
    assert discord_address(event, "1", "https://discord.com/api/v10") == ""
    valid_url = "https://cdn.discordapp.com/attachments/1/2/a.png?ex=1"
    assert (
        discord_address({"attachments": [{"id": "1", "url": valid_url}]}, "1", "https://discord.com/api/v10")
        == valid_url
    )


@pytest.mark.parametrize(
    "url",
    ["http://files.slack.com/a", "https://slack.com.example.org/a", "https://evilslack.com/a", "https://x@y/a", ""],
)
def test_the_slack_token_goes_to_slack_alone(url: str) -> None:
    assert slack_address({"url_private": url}, "https://slack.com/api/") == ""
    valid_url = "https://files.slack.com/files-pri/T1-F1/a.png"
    assert slack_address({"url_private": valid_url}, "https://slack.com/api/") == valid_url
