"""The peer must be as strict as Telegram, or the tests that rely on it prove nothing."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiogram import types

from tests.support.peers.telegram import TelegramPeer
from tests.support.peers.telegram_text import ParseError, find_entities, parse_html

GROUP = -100
PERSON = 7


class Raw:
    """A client without any library: parameters go out as they are."""

    def __init__(self, peer: TelegramPeer, session: aiohttp.ClientSession) -> None:
        self.peer = peer
        self.session = session

    async def __call__(self, method: str, token: str = "", **parameters: Any) -> dict[str, Any]:
        url = f"{self.peer.api_url}/bot{token or self.peer.token}/{method}"
        data = {key: value if isinstance(value, str) else json.dumps(value) for key, value in parameters.items()}
        async with self.session.post(url, data=data) as response:
            body: dict[str, Any] = await response.json()
            assert body.get("error_code", 200) == response.status
            return body


@pytest.fixture
async def call() -> AsyncIterator[Raw]:
    async with TelegramPeer() as peer, aiohttp.ClientSession() as session:
        peer.say(GROUP, "hello")
        peer.say(PERSON, "hello")
        yield Raw(peer, session)


@pytest.mark.parametrize(
    ("method", "parameters", "status", "error_text"),
    [
        ("sendMessage", {"text": "x"}, 400, "chat_id is required"),
        ("sendMessage", {"chat_id": "ann", "text": "x"}, 400, "can't parse chat_id"),
        ("sendMessage", {"chat_id": "1.5", "text": "x"}, 400, "wrong type of chat_id"),
        ("sendMessage", {"chat_id": "true", "text": "x"}, 400, "wrong type of chat_id"),
        ("sendMessage", {"chat_id": GROUP}, 400, "message text is empty"),
        ("sendMessage", {"chat_id": GROUP, "text": " \n "}, 400, "message text is empty"),
        ("sendMessage", {"chat_id": GROUP, "text": "<b></b>", "parse_mode": "HTML"}, 400, "message text is empty"),
        ("sendMessage", {"chat_id": GROUP, "text": "🦊" * 2049}, 400, "message is too long"),
        ("sendMessage", {"chat_id": GROUP, "text": "<b>x", "parse_mode": "HTML"}, 400, "can't parse entities"),
        ("sendMessage", {"chat_id": GROUP, "text": "x", "parse_mode": "Word"}, 400, "Unsupported parse_mode"),
        ("sendMessage", {"chat_id": GROUP, "text": "x", "colour": "red"}, 400, "unknown parameter"),
        ("sendMessage", {"chat_id": 999, "text": "x"}, 400, "chat not found"),
        ("sendMessage", {"chat_id": GROUP, "text": "x", "message_thread_id": 5}, 400, "message thread not found"),
        (
            "sendMessage",
            {"chat_id": GROUP, "text": "x", "reply_parameters": {"message_id": 99}},
            400,
            "message to be replied not found",
        ),
        ("sendMessage", {"chat_id": GROUP, "text": "x", "reply_parameters": {"message_id": "1"}}, 400, "ReplyParam"),
        ("sendMessage", {"chat_id": GROUP, "text": "x", "reply_parameters": "nonsense"}, 400, "can't parse"),
        ("sendMessageDraft", {"chat_id": GROUP, "draft_id": 1, "text": "x"}, 400, "PEER_INVALID"),
        ("sendMessageDraft", {"chat_id": PERSON, "draft_id": 0, "text": "x"}, 400, "RANDOM_ID_INVALID"),
        ("editMessageText", {"chat_id": GROUP, "message_id": 1, "text": "x"}, 400, "message can't be edited"),
        ("editMessageText", {"chat_id": GROUP, "message_id": 99, "text": "x"}, 400, "message to edit not found"),
        ("sendChatAction", {"chat_id": GROUP, "action": "sleeping"}, 400, "wrong parameter action"),
        ("getUpdates", {"allowed_updates": ["mesage"]}, 400, "wrong update type"),
        ("setMyCommands", {"commands": [{"command": "Ask", "description": "x"}]}, 400, "BOT_COMMAND_INVALID"),
        *(
            ("sendRichMessage", {"chat_id": GROUP, "rich_message": message}, 400, error_text)
            for message, error_text in (
                ({}, "exactly one of"),
                ({"html": "<p>x</p>", "markdown": "x"}, "exactly one of"),
                ({"html": "<p>x</p>", "colour": "red"}, "wrong field"),
                ({"html": ""}, "non-empty"),
                ({"html": "x"}, "outside of a block"),
                ({"html": "<p>x"}, "end tag"),
                ({"html": "<p><h1>x</h1></p>"}, "within text"),
                ({"html": "<p>&copy;</p>"}, "Unsupported entity"),
                ({"html": "<div>x</div>"}, "Unsupported start tag"),
                ({"html": '<p class="x">x</p>'}, "Unexpected attribute"),
                ({"html": '<p><a href="javascript:x">x</a></p>'}, "Unexpected attribute"),
                ({"html": "<table><tr><td><p>x</p></td></tr></table>"}, "within text"),
                ({"html": f"<table><tr>{'<td>x</td>' * 21}</tr></table>"}, "too many columns"),
                ({"html": "<p>x</p>" * 501}, "BLOCKS_TOO_MUCH"),
                ({"html": f"<p>{'x' * 32769}</p>"}, "TOO_LONG"),
                ({"html": f"<p>{'<b>' * 16}x{'</b>' * 16}</p>"}, "DEPTH"),
            )
        ),
        ("sendRichMessageDraft", {"chat_id": GROUP, "draft_id": 1, "rich_message": {"html": "<p>x</p>"}}, 400, "PEER"),
        ("noSuchMethod", {}, 404, "method not found"),
    ],
)
async def test_refusals(call: Raw, method: str, parameters: dict[str, Any], status: int, error_text: str) -> None:
    body = await call(method, **parameters)
    assert (body["ok"], body["error_code"]) == (False, status)
    assert error_text in body["description"]


async def test_a_rich_message_comes_back_as_its_blocks(call: Raw) -> None:
    html = '<h2>T</h2><p>a @anna <b>b</b><br>c</p><ol start="3"><li>x</li></ol><tg-math-block>y</tg-math-block>'
    body = await call("sendRichMessage", chat_id=GROUP, rich_message={"html": html})
    message = types.Message.model_validate(body["result"])
    assert message.rich_message is not None
    assert [block.type for block in message.rich_message.blocks] == [
        "heading",
        "paragraph",
        "list",
        "mathematical_expression",
    ]
    (posted_message,) = call.peer.messages(GROUP)
    assert posted_message.text == "T\n\na @anna b\nc\n\n3. x\n\ny"
    assert [entity["type"] for entity in posted_message.entities if entity["type"] == "mention"] == ["mention"]
    call.peer.has_rich = False
    assert (await call("sendRichMessage", chat_id=GROUP, rich_message={"html": html}))["error_code"] == 404
    edit = await call("editMessageText", chat_id=GROUP, message_id=posted_message.id, rich_message={"html": html})
    assert edit["description"] == "Bad Request: message text is empty"


async def test_a_wrong_token_is_refused(call: Raw) -> None:
    assert (await call("getMe", token="42:other"))["error_code"] == 401
    assert (await call("getMe"))["result"]["username"] == "kimas_bot"


async def test_updates_come_again_until_a_higher_offset_confirms_them(call: Raw) -> None:
    first, second = call.peer.pending()
    for _ in range(2):
        assert [entry["update_id"] for entry in (await call("getUpdates"))["result"]] == [first, second]
    assert [entry["update_id"] for entry in (await call("getUpdates", limit=1))["result"]] == [first]
    assert [entry["update_id"] for entry in (await call("getUpdates", offset=second))["result"]] == [second]
    assert call.peer.confirmed == [first]
    assert (await call("getUpdates", offset=second + 1))["result"] == []
    assert call.peer.pending() == []


async def test_a_long_poll_waits_and_is_woken(call: Raw) -> None:
    next_update_id = call.peer.pending()[-1] + 1
    started_at = time.monotonic()
    assert (await call("getUpdates", offset=next_update_id, timeout=1))["result"] == []
    assert time.monotonic() - started_at > 0.9
    polled = len(call.peer.offsets)
    polling = asyncio.create_task(call("getUpdates", offset=next_update_id, timeout=60))
    await call.peer.wait_until(lambda: len(call.peer.offsets) > polled, 30)
    call.peer.say(GROUP, "news")
    assert [entry["message"]["text"] for entry in (await polling)["result"]] == ["news"]


async def test_a_second_poller_ends_the_first(call: Raw) -> None:
    next_update_id = call.peer.pending()[-1] + 1
    first = asyncio.create_task(call("getUpdates", offset=next_update_id, timeout=60))
    await call.peer.wait_until(lambda: bool(call.peer.offsets), 30)
    second = asyncio.create_task(call("getUpdates", offset=next_update_id, timeout=1))
    assert (await first)["description"].startswith("Conflict: terminated by other getUpdates")
    assert (await second)["ok"]


async def test_edits_limits_and_what_is_shown(call: Raw) -> None:
    sent_message = (await call("sendMessage", chat_id=GROUP, text="<b>a</b> &lt;", parse_mode="HTML"))["result"]
    assert (sent_message["text"], sent_message["entities"]) == ("a <", [{"type": "bold", "offset": 0, "length": 1}])
    edit = {"chat_id": GROUP, "message_id": sent_message["message_id"], "text": "<b>a</b> &lt;", "parse_mode": "HTML"}
    assert "message is not modified" in (await call("editMessageText", **edit))["description"]
    assert (await call("editMessageText", **{**edit, "text": "b"}))["ok"]
    call.peer.limit_per_chat = (1, 5)
    assert (await call("sendMessage", chat_id=GROUP, text="x"))["ok"]
    response = await call("sendMessage", chat_id=GROUP, text="y")
    assert (response["error_code"], response["parameters"]["retry_after"]) == (429, 5)
    assert (await call("sendMessage", chat_id=PERSON, text="x"))["ok"]
    assert [message.text for message in call.peer.messages(GROUP)] == ["b", "x"]


async def test_faults_are_done_as_told(call: Raw) -> None:
    call.peer.fail("sendMessage", drop="before")
    call.peer.fail("sendMessage", drop="after")
    for number in (0, 1):
        with pytest.raises(aiohttp.ClientError):
            await call("sendMessage", chat_id=GROUP, text="x")
        assert len(call.peer.messages(GROUP)) == number
    call.peer.chats[GROUP].kicked = True
    assert (await call("sendMessage", chat_id=GROUP, text="x"))["error_code"] == 403


@pytest.mark.parametrize(
    "html",
    [
        "<b>x",
        "x</b>",
        "<b><i>x</b></i>",
        "<p>x</p>",
        "a < b",
        "<a>x</a>",
        '<a href="javascript:x">x</a>',
        "<b class='x'>y</b>",
        "<pre><b>x</b></pre>",
        "<code><b>x</b></code>",
        "<blockquote><blockquote>x</blockquote></blockquote>",
    ],
)
def test_bad_html_is_rejected(html: str) -> None:
    with pytest.raises(ParseError):
        parse_html(html)


def test_entities_count_in_utf16() -> None:
    assert parse_html("🦊<b>é</b>&amp;") == ("🦊é&", [{"type": "bold", "offset": 2, "length": 1}])
    assert find_entities("🦊 @kimas_bot a@b.org /ask@x_bot") == [
        {"type": "mention", "offset": 3, "length": 10},
        {"type": "bot_command", "offset": 22, "length": 10},
    ]


async def test_it_runs_as_a_process() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.peers.telegram",
        "--port",
        "0",
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert process.stdout is not None
        data = json.loads(await process.stdout.readline())
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{data['control_url']}/say", json={"chat": -5, "text": "hi"}) as response:
                assert (await response.json()) == {"message_id": 1}
            send = f"{data['api_url']}/bot{data['token']}/sendMessage"
            async with session.post(send, data={"chat_id": "-5", "text": "hello"}) as response:
                assert (await response.json())["ok"]
            async with session.get(f"{data['control_url']}/messages?chat=-5") as response:
                assert [message["text"] for message in await response.json()] == ["hello"]
    finally:
        process.terminate()
        await process.wait()
