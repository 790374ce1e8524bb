"""What members, authors of documents and strangers try on menus, presses, pages, forms and rich messages.

Each attempt is refused, bounded, or without an effect. docs/security.md says what is defended.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bots.common.settings_menu import to_menu_message
from bots.slack.agent_view import from_agent_event
from bots.slack.app_home import to_view
from bots.slack.convert import Identity as SlackIdentity
from bots.slack.render import to_mrkdwn
from bots.telegram.convert import Identity as TelegramIdentity
from bots.telegram.feedback import from_reaction, from_stop
from bots.telegram.render import MAX_RICH_CHARS, render_rich
from core.messaging.feedback.rating_buttons import read_button, to_press
from core.messaging.inbox import Inbox
from core.observability.logs import get_logger
from core.storage.messages import Journal
from core.storage.overrides import Audit
from core.types import STOP, ConversationKey, Message
from tests.support.command_bot import BOSS, RecordingAdapter, echo
from tests.support.fixtures import settings
from tests.support.operator_page import (
    OWNER,
    READER,
    Page,
    answered,
    browser,
    get_form_token,
    make_message,
    operator_page,
    read,
)
from tests.support.waiting import until
from tests.support.wiring import make_processor

CHAT = ConversationKey("test", "-100")
BASE = Message("1", CHAT, BOSS, "Boss", "", datetime(2026, 1, 2, tzinfo=UTC))
SLACK = SlackIdentity("U0BOT", "B0", "T0")
TELEGRAM = TelegramIdentity(7, "bot", True)


async def give(processor: Inbox, adapter: RecordingAdapter, *messages: Message) -> None:
    handler = processor.handler_for(adapter)
    for message in messages:
        await handler(message)
    await processor.join()


@pytest.mark.parametrize(
    "data",
    [
        "set:threshold nan",
        "set:threshold inf",
        "set:threshold 1e999",
        "set:threshold -1",
        "set:threshold 0x1",
        "set:threshold 0.5\n/pause",
        "set:mode \x00active",
        "set:mode ../active",
        "set:mode active; /forget",
        "set:sources use ../../etc",
        "set:sources scale docs nan",
        "set:sources drop docs",
        "set:sources \u202edocs",
        "set:forget all",
        "set:reload x",
        "set:learn a | b",
        "set:settings x",
        "set:",
        "set: ",
        "set:threshold ",
        "field:/forget",
        "field:" + "x" * 5000,
        "set:mode " + "active" * 1000,
    ],
)
async def test_what_stands_behind_a_forged_entry_of_a_menu_changes_nothing(journal: Journal, data: str) -> None:
    """A changed app can send any data; here it is that of somebody who may change the settings."""
    adapter = RecordingAdapter()
    configured = settings(administration={"owners": [f"test:{BOSS}"]})
    processor = make_processor(configured, journal, echo)
    if (message := to_menu_message(BASE, data)) is not None:
        await give(processor, adapter, message)
    entries = await Audit(journal.database).get_newest(99, chat=None)
    assert [entry for entry in entries if entry.outcome == "changed"] == []


async def test_an_entry_that_is_in_the_menu_changes_what_it_says(journal: Journal) -> None:
    """So the attempts above are not refused for another reason."""
    processor = make_processor(settings(administration={"owners": [f"test:{BOSS}"]}), journal, echo)
    message = to_menu_message(BASE, "set:threshold 0.5")
    assert message is not None
    await give(processor, RecordingAdapter(), message)
    assert [entry.outcome for entry in await Audit(journal.database).get_newest(99, chat=None)] == ["changed"]


@pytest.mark.parametrize(
    "data",
    ["thumb:again:", "thumb:stop", "thumb:root:7", "thumb:up:" + "7" * 200, "thumb:\ud800:7", 7, None, ["thumb:up:7"]],
)
def test_a_forged_button_is_none_of_ours(data: object) -> None:
    assert read_button(data) is None


async def test_an_answer_is_stopped_from_no_other_chat_and_by_no_other_member(journal: Journal) -> None:
    adapter = RecordingAdapter()
    start_event = asyncio.Event()
    go_on = asyncio.Event()

    async def answer(question: Any, sink: Any) -> Any:
        start_event.set()
        await go_on.wait()
        return await echo(question, sink)

    processor = make_processor(settings(), journal, answer)
    first_question = replace(
        BASE, id="q", author_id="1", author="Ann", text="How does it work?", private=True, addressed=True
    )
    await processor.handler_for(adapter)(first_question)
    await start_event.wait()
    for number, (author, chat, target) in enumerate(
        [("2", "-100", "q"), ("1", "-200", "q"), ("", "-100", "q"), ("1", "-100", "q' OR 1=1 --"), ("2", "-100", "%")]
    ):
        press = to_press(replace(BASE, id=f"p{number}", key=replace(CHAT, chat=chat), author_id=author), STOP, target)
        await processor.handler_for(adapter)(press)
    await until(lambda: len([item for item in adapter.sinks.values() if item.failures]) >= 5)
    go_on.set()
    await processor.join()
    assert adapter.sinks["q"].replies, "it was written to its end"


@pytest.mark.parametrize(
    "change",
    [
        {"event_ts": "nan"},
        {"event_ts": "1e400"},
        {"event_ts": None},
        {"user": {"id": "U1"}, "event_ts": "x"},
        {"tab": ["home"]},
        {"tab": "about"},
        {"type": "agent_session_stopped", "thread_ts": None, "streaming_message_ts": 7},
    ],
)
def test_a_malformed_event_of_the_agent_view_is_no_message(change: Mapping[str, Any]) -> None:
    event = {"type": "app_home_opened", "user": "U1", "channel": "D1", "tab": "home", "event_ts": "1700000000.1"}
    try:
        result = from_agent_event({**event, **change}, SLACK, {})
    except (KeyError, TypeError, ValueError, OverflowError):
        return  # the adapter's one place for malformed events
    assert not isinstance(result, Message)


@pytest.mark.parametrize(
    "text",
    [
        "<!channel> <!here> <@U1> <#C1>",
        "[click](javascript:alert(1)) [x](data:text/html,x)",
        "[https://bank.example](https://evil.example)",
        "\u202egnp.exe \x07\x1b[2J",
        "`" * 5000,
        "*" * 4000 + "_" * 4000,
        "x" * 500_000,
    ],
)
def test_app_home_shows_a_hostile_name_as_text(text: str) -> None:
    """Names of sources and of a workspace's people are on it."""
    view = to_view(to_mrkdwn(text), "mrkdwn")
    view_json = json.dumps(view, ensure_ascii=False)
    assert len(view["blocks"]) < 100
    assert all(len(block["text"]["text"]) <= 3000 for block in view["blocks"])
    for forbidden in ("<!", "<@", "<#", "<javascript", "<data:", "\u202e", "\\u001b", "\\u0007"):
        assert forbidden not in view_json
    assert "<https://evil.example|https://bank" not in view_json


@pytest.mark.parametrize(
    "update",
    [
        {"stopped_message_generation": {"chat": {"id": "7; DROP"}, "draft_id": 1}},
        {"stopped_message_generation": {"chat": {"id": 10**400}, "draft_id": "x"}},
        {"message_reaction": {"user": {"id": 1}, "chat": {}, "old_reaction": [], "new_reaction": [{}]}},
        {"message_reaction": {"user": {"id": 1}, "chat": {"id": 1}, "old_reaction": 7, "new_reaction": []}},
    ],
)
def test_a_malformed_event_of_telegram_is_no_message(update: Mapping[str, Any]) -> None:
    convert = from_stop if "stopped_message_generation" in update else from_reaction
    with pytest.raises((KeyError, TypeError, ValueError)):
        convert({"update_id": 1, **update}, TELEGRAM, *([lambda *_: "1"] if convert is from_stop else []))  # type: ignore[operator]


RICH_START = "| a | b |\n|---|---|\n"


@pytest.mark.parametrize(
    "markdown",
    [
        RICH_START + "| <script>alert(1)</script> | <img src=x onerror=y> |",
        RICH_START + "| </td></table><b>out</b> | <tg-math>x</tg-math> |",
        RICH_START + "| [you](tg://user?id=1) | [x](javascript:alert(1)) |",
        RICH_START + "| [https://bank.example](https://evil.example) | [y](tg://resolve?domain=z) |",
        "# </h1><h1>\n$$</tg-math-block><a href='tg://user?id=1'>$$",
        "# Title\n\n```math\n</tg-math-block><b>\n```",
        "# Title\n\n" + "> " * 200 + "deep",
        "# Title\n\n" + "".join(f"{'  ' * depth}- item\n" for depth in range(200)),
        RICH_START + "| x | y |\n" * 5000,
        "|" + " a |" * 2000 + "\n|" + "---|" * 2000 + "\n|" + " b |" * 2000,
        "# " + "x" * 100_000,
        "$$" + "{" * 20_000 + "$$\n\n# T",
        "# T\n\n" + "$$x$$ " * 5000,
    ],
    ids=range(13),
)
def test_a_rich_message_holds_no_markup_of_an_author(markdown: str) -> None:
    started_at = time.thread_time()
    html = render_rich(markdown)
    assert time.thread_time() - started_at < 10
    if html is None:
        return  # it is sent as text messages
    assert len(re.sub(r"<[^>]*>", "", html)) <= MAX_RICH_CHARS
    tags = {match.lower() for match in re.findall(r"</?([A-Za-z-]+)", html)}
    assert not tags & {"script", "img"}
    assert not re.search(r"<a[^>]*href=[\"'](?!https?://|mailto:)", html)
    assert "onerror" not in re.sub(r"&[a-z]+;[^<]*", "", html)
    for tag in tags - {"br", "hr"}:
        assert len(re.findall(rf"<{tag}\b[^>]*[^/]?>", html)) - len(re.findall(rf"<{tag}\b[^>]*/>", html)) == len(
            re.findall(rf"</{tag}>", html)
        ), tag


@pytest.fixture
async def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Page]:
    for name in ("PAGE_TOKEN", "PAGE_OWNER_TOKEN"):
        monkeypatch.setenv(name, "")
    async with operator_page(tmp_path, os.environ) as served:
        yield served


@pytest.mark.parametrize(
    "path",
    [
        "/?days=99999999999999999999&before=-1&outcome=x",
        "/?before=%D9%A3&days=%D9%A3",
        "/?text=%25%25%25_%5C%27%22--&chat=%00&platform=%ED%A0%80",
        "/?text=" + "%25_" * 900,
        "/questions/999999999",
        "/questions/%D9%A1",
        "/questions/1/teach?x=%0d%0aSet-Cookie:a=b",
        "/unanswered?days=-5",
        "/usage?days=1e9",
        "/feedback?days=%27",
        "/static/..%2f..%2fserver.py",
        "/static/%2e%2e/server.py",
        "//evil.example/",
    ],
)
async def test_no_address_of_the_page_fails_it(page: Page, path: str) -> None:
    await answered(page.journal, make_message(1, "What is <b>this</b>?"))
    async with browser(page, READER) as client:
        url = aiohttp.client.URL(page.url + path, encoded=True)
        async with client.get(url, allow_redirects=False) as response:
            assert response.status in (200, 404), await response.text()
            assert "Set-Cookie" not in response.headers
            assert "<b>this</b>" not in await response.text()


@pytest.mark.parametrize(
    "origin", ["null", "http://[", "https://evil.example", "http://127.0.0.1.evil.example", "\u00e9"]
)
async def test_a_form_of_another_site_is_refused(page: Page, origin: str) -> None:
    async with browser(page, OWNER) as client:
        token = await get_form_token(client)
        async with client.post("/sign-out", data={"form_token": token}, headers={"Origin": origin}) as response:
            assert response.status in (400, 403)
        assert "Sign in" not in await read(client, "/")


@pytest.mark.parametrize("token", ["\u00e9" * 20, "\U0001f600", "\x00", "x" * 60_000, ""])
async def test_no_token_of_a_stranger_fails_the_sign_in(page: Page, token: str) -> None:
    async with browser(page) as client, client.post("/sign-in", data={"token": token}) as response:
        assert response.status == 403


PART = b'--b\r\nContent-Disposition: form-data; name="token"%s\r\n%s\r\n'
MULTIPART = "multipart/form-data; boundary=b"
FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        *(
            (f"{FORM}; charset={name}", b"token=" + b"a" * 65_000)
            for name in ("punycode", "nosuch", "zlib", "undefined")
        ),
        (FORM, b"a&" * 32_000),
        (MULTIPART, (PART % (b"", b"")) * 1200 + b"--b--"),
        (MULTIPART, b"--b\r\nX: y\r\n\r\nz\r\n--b--"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=" + "b" * 90, b"x"),
        (MULTIPART, PART % (b"", b"Content-Type: multipart/mixed; boundary=c\r\n") + b"--c\r\n\r\nx\r\n--c--\r\n--b--"),
        (MULTIPART, PART % (b"", b"Content-Type: text/plain; charset=nosuch\r\n") + b"a" * 60_000 + b"\r\n--b--"),
        (MULTIPART, PART % (b"", b"Content-Encoding: deflate\r\n") + zlib.compress(bytes(60_000_000))[:60_000]),
        (MULTIPART, PART % (b"", b"Content-Encoding: br\r\n") + b"a" * 60_000 + b"\r\n--b--"),
        (MULTIPART, PART % (b"", b"Content-Transfer-Encoding: x\r\n") + b"a\r\n--b--"),
    ],
    ids=range(14),
)
async def test_what_is_no_form_writes_no_error_into_the_log(
    page: Page, content_type: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever has not signed in could fill the log with tracebacks."""
    async with browser(page) as client:
        began_at = time.thread_time()
        async with client.post("/sign-in", data=body, headers={"Content-Type": content_type}) as response:
            assert response.status in (400, 403, 413)
        assert time.thread_time() - began_at < 1.0
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_question_that_is_a_file_is_taught_as_nothing(page: Page) -> None:
    await answered(page.journal, make_message(1, "What is this?"))
    async with browser(page, OWNER) as client:
        form = aiohttp.FormData()
        form.add_field("form_token", await get_form_token(client))
        form.add_field("question", b"\xff\xfe", filename="../../x", content_type="text/html")
        form.add_field("answer", "yes")
        async with client.post("/questions/1/teach", data=form, allow_redirects=False) as response:
            assert response.status == 422
    assert await page.context.taught_answers.list_answers(reader=None) == []


async def test_a_reader_teaches_nothing_and_the_audit_has_the_attempt(page: Page) -> None:
    await answered(page.journal, make_message(1, "What is this?"))
    async with browser(page, READER) as client:
        form = {"form_token": await get_form_token(client), "question": "a", "answer": "b"}
        for path, values in (("/questions/1/teach", form), ("/taught/1", {**form, "action": "approve"})):
            async with client.post(path, data=values, allow_redirects=False) as response:
                assert response.status in (403, 404)
    assert await page.context.taught_answers.list_answers(reader=None) == []
    assert [entry.outcome for entry in await page.context.audit.get_newest(9, chat=None)] == ["refused"]


async def test_what_an_owner_is_made_to_teach_is_kept_as_text_for_review(page: Page) -> None:
    hostile = "<script>x</script>\u202e\x00 [x](javascript:alert(1))\r\nSet-Cookie: a=b"
    await answered(page.journal, make_message(1, hostile, author="<i>Eve</i>"))
    async with browser(page, OWNER) as client:
        form = {"form_token": await get_form_token(client), "question": hostile, "answer": hostile}
        async with client.post("/questions/1/teach", data=form, allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (303, "/taught")
        page_text = await read(client, "/taught")
    (answer,) = await page.context.taught_answers.list_answers(reader=None)
    assert answer.state == "pending"
    assert "\x00" not in answer.answer + answer.question
    assert "\u202e" not in answer.answer + answer.question
    for forbidden in ("<script>x", "<i>Eve", 'href="javascript'):
        assert forbidden not in page_text


async def test_a_message_writes_no_event_of_its_own_into_the_live_log(page: Page) -> None:
    get_logger("tests").warning("hostile", text='x\n\ndata: {"event": "forged"}\n\n\u2028id: 9', chat="\r\ndata: y")
    async with browser(page, READER) as client, client.get("/log/stream?after=0") as response:
        content = b""
        async with asyncio.timeout(20):
            while b"hostile" not in content or not content.endswith(b"\n\n"):
                content += await response.content.readany()
    lines = [line for line in content.decode().split("\n") if line and not line.startswith((":", "id: ", "data: "))]
    assert lines == []
    assert all(isinstance(json.loads(line[6:]), dict) for line in content.decode().split("\n") if line[:6] == "data: ")
    assert "\ndata: y" not in content.decode()
