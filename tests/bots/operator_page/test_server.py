"""The operator's page over HTTP: who gets in, what is shown, and that what strangers wrote is only text."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from lxml import html
from sqlalchemy import text as text_query, update

from bots.daemon.runner import run
from bots.operator_page import sessions
from bots.operator_page.render import PageRenderer
from bots.operator_page.sessions import COOKIE, MAX_FAILURES, Sessions
from bots.operator_page.waterfall import to_rows
from core.errors import ConfigurationError, UsageError
from core.formatting import today
from core.observability.logs import get_logger
from core.settings import OperatorPageSettings, Settings
from core.settings.loader import load_settings
from core.storage.erasure import erase_on_platform
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.storage.overrides import Audit
from core.storage.tables import identity_values, messages
from core.storage.usage import NO_ANSWERS, TokenUsage, UsageRepository
from core.types import Citation, ConversationKey, Question, Reply, SkipReason, SourceState, ThreadState
from tests.support.deployment import README, Deployment
from tests.support.free_ports import free_port
from tests.support.operator_page import (
    ANSWERED_REPLY,
    EVIL,
    GROUP,
    NOTHING,
    OWNER,
    PAGES,
    READER,
    TRACE,
    Page,
    answered,
    browser,
    fill,
    get_form_token,
    make_message,
    make_states,
    operator_page,
    read,
    silenced,
)
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer

SECRET = "s3cret&<token>-of-the-bot"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    for name in ("PAGE_TOKEN", "PAGE_OWNER_TOKEN"):
        monkeypatch.setenv(name, "")
    return os.environ


@pytest.fixture
async def page(tmp_path: Path, environment: Any) -> AsyncIterator[Page]:
    async with operator_page(tmp_path, environment, states=make_states(), secrets=[SECRET]) as served:
        yield served


def to_text(element: Any) -> str:
    return " ".join(" ".join(element.itertext()).split())


class TestWhoGetsIn:
    async def test_nothing_is_shown_without_a_token(self, page: Page) -> None:
        await answered(page.journal, make_message(1, "What is the secret plan?"))
        async with browser(page) as client:
            for path in (*PAGES, "/questions/1", "/questions/1/teach", "/nowhere"):
                async with client.get(path, allow_redirects=False) as response:
                    assert (response.status, response.headers["Location"]) == (303, "/sign-in")
                    assert "secret plan" not in await response.text()
            assert "secret plan" not in await read(client, "/log/stream", 403)
            assert "secret plan" not in await read(client, "/sign-in")

    async def test_a_wrong_token_opens_nothing_and_many_have_to_wait(
        self, page: Page, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with browser(page) as client:
            for number in range(MAX_FAILURES):
                async with client.post("/sign-in", data={"token": f"{READER}{number}"}) as response:
                    assert response.status == 403
                    assert not client.cookie_jar.filter_cookies(response.url)
            async with client.post("/sign-in", data={"token": READER}) as response:
                assert response.status == 429, "even the right one"
            monkeypatch.setattr(sessions, "FAILURE_WINDOW_S", 0)
            async with client.post("/sign-in", data={"token": READER}, allow_redirects=False) as response:
                assert response.status == 303
            assert "operator_page.too_many_attempts" in str(page.log_buffer.lines_after())
            assert READER not in str(page.log_buffer.lines_after())

    async def test_the_cookie_is_for_this_page_alone(self, page: Page) -> None:
        async with browser(page) as client:
            async with client.post("/sign-in", data={"token": READER}, allow_redirects=False) as response:
                cookie = response.headers["Set-Cookie"]
            assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
            assert READER not in cookie
            headers = {"X-Forwarded-Proto": "https"}
            async with client.post(
                "/sign-in", data={"token": READER}, headers=headers, allow_redirects=False
            ) as response:
                assert "Secure" in response.headers["Set-Cookie"]

    async def test_a_session_ends(self, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        async with browser(page, READER) as client:
            token = await get_form_token(client)
            assert (await client.post("/sign-out", data={"form_token": token})).url.path == "/sign-in"
            await read(client, "/", 303)
        monkeypatch.setattr(sessions, "SESSION_S", 0.0)
        async with browser(page, READER) as client:
            await read(client, "/", 303)
        async with browser(page) as client:
            client.cookie_jar.update_cookies({COOKIE: "guessed"})
            await read(client, "/", 303)

    async def test_other_hosts_are_refused(self, page: Page) -> None:
        async with (
            browser(page, READER) as client,
            client.get("/", headers={"Host": "rebound.example"}) as response,
        ):
            assert response.status == 421
            assert "operator_page.allowed_hosts" in await response.text()

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
    )
    async def test_forms_of_other_sites_are_refused(self, page: Page, headers: dict[str, str]) -> None:
        await answered(page.journal, make_message(1, "How?"), NOTHING)
        async with browser(page, OWNER) as client:
            form = {"form_token": await get_form_token(client), "question": "How?", "answer": "So."}
            for path, data in (("/questions/1/teach", form), ("/sign-out", form), ("/sign-in", {"token": OWNER})):
                async with client.post(path, data=data, headers=headers, allow_redirects=False) as response:
                    assert response.status == 403
            assert await page.context.taught_answers.list_answers(reader=None) == []
            await read(client, "/")

    async def test_it_works_behind_a_proxy_that_speaks_tls(self, page: Page) -> None:
        headers = {"Host": "kimas.example", "Origin": "https://kimas.example", "X-Forwarded-Proto": "https"}
        async with (
            browser(page) as client,
            client.post("/sign-in", data={"token": READER}, headers=headers, allow_redirects=False) as response,
        ):
            assert (response.status, "Secure" in response.headers["Set-Cookie"]) == (303, True)

    async def test_a_form_that_does_not_arrive_is_given_up(self, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bots.operator_page.server.READ_TIMEOUT_S", 0.2)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(page.url.rpartition(":")[2]))
        head = "POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
        writer.write(f"{head}Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken=".encode())
        async with asyncio.timeout(20):
            assert b" 408 " in await reader.readline()
        writer.close()

    @pytest.mark.parametrize("form_token", ["", "guessed"])
    async def test_forms_without_the_sessions_token_are_refused(self, page: Page, form_token: str) -> None:
        await answered(page.journal, make_message(1, "How?"), NOTHING)
        async with browser(page, OWNER) as client:
            form = {"form_token": form_token, "question": "How?", "answer": "So."}
            async with client.post("/questions/1/teach", data=form, allow_redirects=False) as response:
                assert response.status == 403
            async with client.post("/taught/1", data={**form, "action": "approve"}) as response:
                assert response.status == 403
        assert await page.context.taught_answers.list_answers(reader=None) == []

    async def test_every_response_is_locked_down(self, page: Page) -> None:
        async with browser(page, READER) as client:
            for path in (*PAGES, "/sign-in", "/static/page.css", "/static/page.js", "/nowhere", "/questions/99"):
                async with client.get(path, allow_redirects=False) as response:
                    policy = response.headers["Content-Security-Policy"]
                    assert "default-src 'none'" in policy
                    assert "unsafe" not in policy
                    assert "frame-ancestors 'none'" in policy
                    assert response.headers["X-Frame-Options"] == "DENY"
                    assert response.headers["X-Content-Type-Options"] == "nosniff"
                    assert response.headers["Referrer-Policy"] == "same-origin"

    def test_short_tokens_are_refused(self) -> None:
        with pytest.raises(UsageError, match=r"operator_page\.owner_token must have at least 16 characters"):
            Sessions("", "short")

    def test_sessions_are_few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
        reader_sessions = Sessions(READER, "")
        ids = [reader_sessions.sign_in(READER, "a") for _ in range(3)]
        assert [bool(reader_sessions.get(session_id or "")) for session_id in ids] == [False, True, True]

    def test_a_port_needs_a_token(self) -> None:
        assert load_settings([], (), {}).operator_page == OperatorPageSettings(port=None)
        with pytest.raises(ConfigurationError, match="give a token or an owner_token"):
            load_settings([], ["operator_page.port=8080"], {})


class TestWhatIsShown:
    async def test_questions_and_their_filters(self, page: Page) -> None:
        await fill(page.journal)
        async with browser(page, READER) as client:
            text = await read(client, "/")
            assert "How do I rotate the signing key" in text
            for query, expected, unexpected in (
                ("?outcome=failed", "How large may an upload be", "Windows"),
                ("?text=redis", "Redis backend", "Windows"),
                ("?platform=discord", "Windows support planned", "changelog"),
                ("?chat=-1001957348", "changelog", "Windows support planned"),
                ("?outcome=waiting", "changelog", "Redis"),
                ("?days=1&before=4", "Which Python versions", "Redis"),
            ):
                text = await read(client, f"/{query}")
                assert expected in text, query
                assert unexpected not in text, query
            assert "Nothing matches" in await read(client, "/?text=zzz")
            for query in (
                "?days=x&before=y&outcome=z",
                f"?days={'9' * 12}&before={'9' * 20}",
                "?days=0&text=%00%ED%A0%80",
            ):
                await read(client, f"/{query}")

    async def test_pages_go_on_where_the_last_one_ended(self, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bots.operator_page.views.PAGE_SIZE", 4)
        await fill(page.journal)
        links: list[str] = []
        async with browser(page, READER) as client:
            path = "/?text=&days=7"
            while path:
                tree = html.fromstring(await read(client, path))
                links += tree.xpath("//ol[@class='list']//a[@class='line']/@href")
                path = next(iter(tree.xpath("//nav[@class='pager']/a[@rel='next']/@href")), "")
        assert links == [f"/questions/{number}" for number in range(13, 0, -1)]

    async def test_one_question_shows_how_its_answer_was_made(self, page: Page) -> None:
        await fill(page.journal)
        async with browser(page, READER) as client:
            tree = html.fromstring(await read(client, "/questions/13"))
        text = to_text(tree)
        for part in (
            "puts a fresh key in front",
            "Sessions > Rotating keys",
            "docs/sessions.md:40–54",
            "meaning 0.76",
            "rotate the signing key of sessions",
            "rerank (late)",
            "too late",
            "docs 0.61",
            "qwen3:32b",
            "3,120",
            "0.0022",
            "2 up, 1 down; outdated (1)",
            "2.4 s in all",
            "Citations removed 1",
        ):
            assert part in text, part
        assert tree.xpath("//div[@class='answer']//a[@class='cite']/@href") == [
            "#citation-1",
            "#citation-2",
            "#citation-1",
        ]
        assert tree.xpath("//*[@id='citation-1']//a/@href") == ["https://example.org/docs/sessions.md#L40"]
        assert "Teach an answer" not in text

    async def test_a_silence_and_a_failure_have_their_reason(self, page: Page) -> None:
        await fill(page.journal)
        async with browser(page, READER) as client:
            assert "not sure enough to help: 0.31, threshold 0.50" in await read(client, "/questions/6")
            assert "the model did not answer: connection refused" in await read(client, "/questions/11")
            assert "not finished yet" in await read(client, "/questions/12")
            assert "no such question" in await read(client, "/questions/99", 404)

    async def test_a_trace_of_an_earlier_version_is_shown_as_far_as_it_goes(self, page: Page) -> None:
        message = await answered(page.journal, make_message(1, "How?"))
        trace_values = {
            name: TRACE.to_json()[name] for name in ("query", "strategy", "agents", "timings_ms", "cut", "rounds")
        }
        await page.journal.database.write(
            update(messages)
            .filter_by(**identity_values(message))
            .values(trace={**trace_values, "timings_ms": {"search": 40}})
        )
        async with browser(page, READER) as client:
            text = await read(client, "/questions/1")
        assert "search" in text
        assert "40 ms" in text

    async def test_topics_sources_feedback_and_usage(self, page: Page) -> None:
        await fill(page.journal)
        async with browser(page, READER) as client:
            topics = html.fromstring(await read(client, "/unanswered")).xpath("//ol[@class='topics']/li")
            assert "3 questions, 0 in the 30 days before" in to_text(topics[0])
            sources = await read(client, "/sources")
            assert "api.github.com answered 403" in sources
            assert "minutes.pdf" in sources
            assert "encrypted" in sources
            assert "12 of 60 documents read, 2 min left" in to_text(html.fromstring(sources))
            assert ">50 s left<" in sources
            feedback = await read(client, "/feedback?verdict=down")
            assert "Down: outdated" in feedback
            assert ">Up<" not in feedback
            usage = to_text(html.fromstring(await read(client, "/usage?days=30")))
            assert "qwen3:32b" in usage
            assert "discord 1187345023" in usage, "nobody said what it is called"
            assert "telegram Rocket users" in usage
            for path in ("/", "/unanswered", "/feedback"):
                text = to_text(html.fromstring(await read(client, path)))
                assert "telegram Rocket users" in text, path
                assert GROUP.chat not in text, path
            assert GROUP.chat in to_text(html.fromstring(await read(client, "/questions/2")))
            lines = html.fromstring(await read(client, "/?chat=rocket%20users")).xpath("//ol[@class='list']/li")
            assert lines
            assert all("telegram Rocket users" in to_text(line) for line in lines)
            assert "Answers 28" in usage
            assert "answered nobody" not in usage

    async def test_what_is_unanswered_is_no_chatter_and_what_stopped_says_so(self, page: Page) -> None:
        async def come(number: int, days_ago: float) -> None:
            query = update(messages).filter_by(number=number)
            await page.journal.database.write(query.values(received_at=datetime.now(UTC) - timedelta(days=days_ago)))

        old = [
            ("redis for sessions?", NOTHING, 40),
            ("windows support?", NOTHING, 40),
            ("windows support now?", ANSWERED_REPLY, 2),
        ]
        for number, (text, reply, days_ago) in enumerate(old, 1):
            await answered(page.journal, make_message(number, text), reply)
            await come(number, days_ago)
        chatter = replace(make_message(4, "lol same here, going for lunch"), addressed=False)
        await silenced(page.journal, chatter)
        await answered(page.journal, make_message(5, f"licence {SECRET} {EVIL}?"), NOTHING)
        async with browser(page, READER) as client:
            document = html.fromstring(await read(client, "/unanswered?days=30"))
            assert "lunch" not in to_text(document)
            assert len(document.xpath("//ol[@class='topics']/li")) == 1
            stopped = [to_text(line) for line in document.xpath("//ul[@class='list']/li")]
            assert [re.findall("(redis|windows|Answered 1 time since|Not asked since)", line) for line in stopped] == [
                ["windows", "Answered 1 time since"],
                ["redis", "Not asked since"],
            ]
            async with client.get("/unanswered/patch?days=30") as response:
                assert response.headers["Content-Disposition"] == 'attachment; filename="gaps.md"'
                assert response.content_type == "text/plain"
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                text = await response.text()
            assert "redis" not in text, "that has stopped"
            assert "licence" in text
            assert SECRET not in text
            assert "\u202e" not in text
            assert re.search(r"(?<![\\(])<", text) is None, "no markup but links of ours"

    async def test_a_patch_is_for_those_who_signed_in(self, page: Page) -> None:
        await answered(page.journal, make_message(1, "What is the secret plan?"), NOTHING)
        async with browser(page) as client:
            assert "secret plan" not in await read(client, "/unanswered/patch", 303)

    async def test_chats_of_one_name_are_found_together(self, page: Page) -> None:
        places = [("discord", "1"), ("discord", "2"), ("slack", "3"), ("discord", "general")]
        for number, (platform, chat) in enumerate(places):
            message = make_message(number, f"Question in {chat}?", ConversationKey(platform, chat))
            await page.journal.record_message(replace(message, chat_title="#General" if number < 3 else "#other"))
        async with browser(page, READER) as client:
            for query, chats in (
                ("chat=general", "3 2 1"),
                ("chat=%23general&platform=discord", "2 1"),
                ("chat=2", "2"),
                ("chat=general&platform=telegram", ""),
            ):
                text = await read(client, f"/?outcome=all&{query}")
                assert re.findall(r"Question in (\w+)", text) == chats.split(), query
            assert 'name="chat" value="#general"' in await read(client, "/?chat=%23general")

    async def test_a_thread_is_called_by_its_first_message(self, page: Page) -> None:
        thread = replace(GROUP, thread="issues/12")
        first = replace(make_message(1, "Build fails\n\nOn Windows.", thread), id="issues/12")
        for message in (first, make_message(2, "Any news?", thread)):
            await page.journal.record_message(message)
        async with browser(page, READER) as client:
            texts = [to_text(html.fromstring(await read(client, f"/questions/{number}"))) for number in (1, 2)]
        assert "Thread issues/12 Received" in texts[0]
        assert "Thread issues/12 : Build fails Received" in texts[1]

    async def test_calls_that_answered_nobody_are_no_answers(self, page: Page) -> None:
        question = Question("?", id="1", author_id="1", key=GROUP)
        tokens = TokenUsage(700, 10)
        repository = UsageRepository(page.journal.database)
        outcomes = ("answered", *NO_ANSWERS)
        for outcome in outcomes:
            await repository.record(question, outcome, {"answer": tokens}, today())
        async with browser(page, READER) as client:
            text = to_text(html.fromstring(await read(client, "/usage?days=30")))
        assert "Answers 1 " in text
        assert "Tokens 2,130" in text
        assert "include 2 calls that answered nobody" in text

    async def test_problems_are_on_every_page(self, tmp_path: Path, environment: Any) -> None:
        problem = "telegram is not connected"
        async with (
            operator_page(tmp_path, environment, problems=[problem]) as page,
            browser(page, READER) as client,
            browser(page) as stranger,
        ):
            for path in PAGES:
                assert problem in await read(client, path)
            assert problem not in await read(stranger, "/sign-in")
            async with client.post("/questions/1/teach", data={"form_token": "old"}) as response:
                assert (response.status, problem in await response.text()) == (403, True)

    async def test_a_journal_that_cannot_be_read_is_told(self, page: Page) -> None:
        async with browser(page, READER) as client:
            await page.journal.database.write(text_query("ALTER TABLE messages RENAME TO lost"))
            text = await read(client, "/", 503)
        assert "cannot be read now" in text
        assert "lost" not in text
        assert "operator_page.unreadable" in str(page.log_buffer.lines_after())


@pytest.mark.parametrize(
    ("degraded", "label"), [(("write",), "Quoted: its model failed"), ((), "Answered, quoted")], ids=["failed", "none"]
)
async def test_an_answer_that_is_quoted_says_whether_a_model_failed(
    page: Page, degraded: tuple[str, ...], label: str
) -> None:
    citation = Citation(1, "1", "docs", "a.md", "A", "https://docs.example/a")
    reply = Reply("So. [1]", (citation,), is_extractive=True, trace=replace(TRACE, degraded=degraded))
    await answered(page.journal, make_message(1, "How?"), reply)
    async with browser(page, READER) as client:
        assert label in await read(client, "/")


class TestWhatStrangersWrote:
    async def test_it_is_only_text_on_every_page(self, page: Page) -> None:
        message = replace(make_message(1, f"How? {EVIL}"), author=EVIL, quoted=EVIL)
        citation = Citation(1, EVIL, EVIL, EVIL, EVIL, "javascript:alert(5)")
        passage = replace(TRACE.passages[0], id=EVIL, title=EVIL, path=EVIL, excerpt=EVIL, url="javascript:alert(6)")
        trace = replace(TRACE, query=EVIL, agents=(EVIL,), scores={EVIL: 0.5}, passages=(passage,), degraded=(EVIL,))
        await answered(page.journal, message, Reply(f"{EVIL} [1]", (citation,), trace=trace, image_description=EVIL))
        await silenced(page.journal, replace(make_message(2, f"Why? {EVIL}"), author=EVIL))
        await page.context.taught_answers.submit(message, "1", EVIL, EVIL, (), words_of=())
        get_logger("core.x").warning(EVIL, value=EVIL)
        async with browser(page, OWNER) as client:
            for path in (
                *PAGES,
                "/questions/1",
                "/questions/2",
                "/questions/2/teach",
                "/?outcome=all&text=%3Cscript%3E",
            ):
                text = await read(client, path)
                tree = html.fromstring(text)
                assert tree.xpath("//script[not(@src='/static/page.js')]") == [], path
                assert tree.xpath("//*[@*[starts-with(name(), 'on')]]") == [], path
                assert tree.xpath("//*[@*[contains(., 'javascript:')]][not(self::input)]") == [], path
                assert tree.xpath("//img[not(starts-with(@src, '/static/'))] | //iframe | //object | //*[@style]") == []
                assert "\u202e" not in text
                assert "\x1b" not in text
                assert "49" not in tree.text_content().split("alert(4)")[0][-20:], "no template is run"

    def test_answers_are_markup_of_few_kinds(self) -> None:
        renderer = PageRenderer(["hunter2hunter2"])
        markdown = (
            "# Head\n\nText **bold**, *em*, ~~gone~~, `a<b>` and [a link](https://example.org/?a=1&b=2) [1] [7]\n\n"
            "1. one\n2. two\n   - inner\n\n> quoted\n\n| a | b |\n|---|---|\n| <i> | 2 |\n\n---\n\n"
            "```html\n<script>\n```\n\n![pic](https://tracker.example/x.png) hunter2hunter2\n\n<b>raw</b>"
        )
        text = renderer.render_answer(markdown, [Citation(1, "p", "docs", "T", "t.md", "")])
        tree = html.fragment_fromstring(text, create_parent=True)
        kinds = {element.tag for element in tree.iter()}
        assert kinds == {
            "div",
            "h3",
            "p",
            "strong",
            "em",
            "s",
            "code",
            "a",
            "ol",
            "li",
            "ul",
            "blockquote",
            "table",
            "tr",
            "th",
            "td",
            "hr",
            "pre",
        }
        assert tree.xpath("//a/@href") == [
            "https://example.org/?a=1&b=2",
            "#citation-1",
            "https://tracker.example/x.png",
        ]
        assert "hunter2" not in text
        assert "<b>raw</b>" in tree.text_content()
        assert "[7]" in tree.text_content()

    @pytest.mark.parametrize(
        "markdown",
        [
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html,<script>1</script>)",
            "[x](vbscript:x)",
            "<javascript:alert(1)>",
            "![x](javascript:alert(1))",
            '[x](https://a.example/"onmouseover="alert(1))',
            '<a href="javascript:alert(1)">x</a>',
            "[https://bank.example](https://evil.example)",
            '```"><script>alert(1)</script>\nx\n```',
            "[x]: javascript:alert(1)\n\n[x]",
        ],
    )
    def test_links_lead_only_to_web_addresses(self, markdown: str) -> None:
        tree = html.fragment_fromstring(PageRenderer().render_answer(markdown), create_parent=True)
        for element in tree.iter():
            assert element.tag in ("div", "p", "a", "pre", "code"), element.tag
            assert set(element.keys()) <= {"href", "rel", "target", "tabindex"}
        for link in tree.xpath("//a"):
            is_honest = link.text_content() == link.get("href")
            assert is_honest or re.match(r"https://a\.example/", link.get("href")), "none has another's address as text"

    async def test_secrets_are_on_no_page(self, page: Page) -> None:
        message = await answered(
            page.journal, make_message(1, f"Is {SECRET} right?"), replace(ANSWERED_REPLY, text=f"`{SECRET}`")
        )
        await page.journal.record_message(failed_message := make_message(2, "And this?"))
        await page.journal.mark_failed(failed_message, f"https://api.example/bot?token={SECRET} failed")
        await page.context.taught_answers.submit(message, "1", "How?", f"With {SECRET}", (), words_of=())
        get_logger("core.x").warning("leak", value=SECRET)
        pages_text = ""
        async with browser(page, OWNER) as client:
            for path in (*PAGES, "/questions/1", "/questions/2", "/questions/1/teach"):
                pages_text += await read(client, path)
        assert "s3cret" not in pages_text
        assert "[redacted]" in pages_text
        assert READER not in pages_text
        assert OWNER not in pages_text


class TestTeaching:
    async def test_an_owner_teaches_and_approves_and_the_audit_has_it(self, page: Page) -> None:
        await answered(page.journal, make_message(1, "Does it use Redis?"), NOTHING)
        async with browser(page, OWNER) as client:
            assert "/questions/1/teach" in await read(client, "/questions/1")
            assert "Does it use Redis?" in await read(client, "/questions/1/teach")
            form = {
                "form_token": await get_form_token(client),
                "question": "Is Redis used?",
                "answer": "No: signed cookies.",
            }
            async with client.post("/questions/1/teach", data=form) as response:
                text = await response.text()
                assert (response.status, response.url.path) == (200, "/taught")
            assert "The answer is kept as number 1" in text
            assert "The answer is kept" not in await read(client, "/taught"), "once"
            async with client.post("/questions/1/teach", data=form) as response:
                assert "This answer was taught before" in await response.text()
            (answer,) = await TaughtAnswerRepository(page.journal.database).list_answers("pending", reader=None)
            assert (answer.question, answer.answer, answer.chat) == (
                "Is Redis used?",
                "No: signed cookies.",
                GROUP.chat,
            )
            async with client.post("/taught/1", data={**form, "action": "approve"}) as response:
                assert "Answer 1 is approved" in await response.text()
        (answer,) = await TaughtAnswerRepository(page.journal.database).list_answers("approved", reader=None)
        assert answer.reviewer == "the operator's page"
        entries = await Audit(page.journal.database).get_newest(9, chat=None)
        assert [(entry.outcome, entry.subject, entry.after, entry.author_id) for entry in entries] == [
            ("changed", "faq 1", "approve", "operator-page"),
            ("changed", "learned 1", "", "operator-page"),
        ]
        assert entries[0].chat == GROUP.chat

    async def test_an_approved_answer_is_read_at_once(self, tmp_path: Path, environment: Any) -> None:
        states = [SourceState("docs", "git"), SourceState("people", "learned")]
        async with operator_page(tmp_path, environment, states=states) as page:
            await answered(page.journal, make_message(1, "Does it use Redis?"), NOTHING)
            async with browser(page, OWNER) as client:
                form = {"form_token": await get_form_token(client), "question": "Is Redis used?", "answer": "No."}
                await client.post("/questions/1/teach", data={**form, "action": "approve"})
            assert page.context.source_refresher.requests == [["people"]]  # type: ignore[attr-defined]

    async def test_an_owner_approves_what_they_write_at_once(self, page: Page) -> None:
        await answered(page.journal, make_message(1, "Does it use Redis?"), NOTHING)
        async with browser(page, OWNER) as client:
            form = {"form_token": await get_form_token(client), "question": "Is Redis used?", "answer": "No."}
            async with client.post("/questions/1/teach", data={**form, "action": "approve"}) as response:
                assert "Answer 1 is approved" in await response.text()
        assert len(await TaughtAnswerRepository(page.journal.database).list_answers("approved", reader=None)) == 1
        entries = await Audit(page.journal.database).get_newest(9, chat=None)
        assert [(entry.subject, entry.after) for entry in entries] == [("faq 1", "approve"), ("learned 1", "")]

    async def test_an_answer_taught_to_a_closed_thread_stays_in_that_thread(self, page: Page) -> None:
        closed = {"key": replace(GROUP, thread="t"), "thread_state": ThreadState(is_restricted=True)}
        question = replace(make_message(1, "Whom do we lay off?"), **closed)  # type: ignore[arg-type]
        await answered(page.journal, question, NOTHING)
        async with browser(page, OWNER) as client:
            token = await get_form_token(client)
            form = {"form_token": token, "question": "Whom do we lay off?", "answer": "Everybody."}
            async with client.post("/questions/1/teach", data=form) as response:
                assert "The answer is kept as number 1" in await response.text()
        taught_answers = TaughtAnswerRepository(page.journal.database)
        assert await taught_answers.list_answers(reader=make_message(2, "")) == []
        assert len(await taught_answers.list_answers(reader=question)) == 1
        (entry,) = await Audit(page.journal.database).get_newest(9, chat=(GROUP.platform, GROUP.chat))
        assert (entry.command, entry.subject, entry.after) == ("learn", "learned 1", "")

    async def test_a_question_that_was_forwarded_goes_with_whose_it_is(self, page: Page) -> None:
        text = "Who keeps the key of the launcher?"
        forward = replace(make_message(1, text), is_forwarded=True, quoted_authors=("44",))
        await answered(page.journal, forward, NOTHING)
        async with browser(page, OWNER) as client:
            form = {"form_token": await get_form_token(client), "question": text, "answer": "Carl has it."}
            async with client.post("/questions/1/teach", data=form) as response:
                assert "The answer is kept as number 1" in await response.text()
        await erase_on_platform(page.journal.database, "telegram", "44", datetime.now(UTC).date())
        assert not await page.context.taught_answers.list_answers(reader=None)

    async def test_a_reader_may_not(self, page: Page) -> None:
        await answered(page.journal, make_message(1, "Does it use Redis?"), NOTHING)
        await page.context.taught_answers.submit(make_message(2, ""), "1", "How?", "So.", (), words_of=())
        async with browser(page, READER) as client:
            assert "<textarea" not in await read(client, "/questions/1/teach")
            assert 'value="approve"' not in await read(client, "/taught")
            form = {"form_token": await get_form_token(client), "question": "?", "answer": "!", "action": "approve"}
            for path in ("/questions/1/teach", "/taught/1"):
                async with client.post(path, data=form) as response:
                    assert response.status == 403
                    assert "Only an owner" in await response.text()
        assert [answer.state for answer in await page.context.taught_answers.list_answers(reader=None)] == ["pending"]
        assert [entry.outcome for entry in await Audit(page.journal.database).get_newest(9, chat=None)] == [
            "refused",
            "refused",
        ]

    async def test_what_makes_no_sense_is_told(self, page: Page) -> None:
        await answered(page.journal, make_message(1, "Does it use Redis?"), NOTHING)
        async with browser(page, OWNER) as client:
            form = {"form_token": await get_form_token(client), "question": "Kept?", "answer": " ", "action": "burn"}
            async with client.post("/questions/1/teach", data=form) as response:
                text = await response.text()
                assert response.status == 422
            assert "answer are needed" in text
            assert "Kept?" in text, "what was typed is not lost"
            for path in ("/questions/77/teach", "/taught/1", "/taught/77"):
                async with client.post(path, data=form) as response:
                    assert response.status == 404
            async with client.post("/questions/1/teach", data={**form, "answer": "x" * 70_000}) as response:
                assert response.status == 413


class TestLiveLog:
    async def test_new_lines_arrive_as_they_are_written(self, page: Page) -> None:
        get_logger("core.x").warning("before")
        async with browser(page, READER) as client:
            text = await read(client, "/log")
            assert "before" in text
            last = int(html.fromstring(text).xpath("//ol[@id='log']/@data-last")[0])
            async with client.get(f"/log/stream?after={last}") as response, asyncio.timeout(20):
                assert response.headers["Content-Type"].startswith("text/event-stream")
                get_logger("core.x").warning("later", value=SECRET, text="a\nb")
                number, data = [(await response.content.readline()).decode().strip() for _ in range(2)]
            entry = json.loads(data.removeprefix("data: "))
            assert number == f"id: {last + 1}"
            assert (entry["event"], entry["level"]) == ("later", "warning")
            assert entry["details"] == [["value", "[redacted]"], ["text", "a\nb"]]
            get_logger("core.x").warning("missed")
            async with client.get("/log/stream", headers={"Last-Event-ID": str(last + 1)}) as response:
                async with asyncio.timeout(20):
                    assert (await response.content.readline()).decode().strip() == f"id: {last + 2}"

    async def test_readers_are_few_and_leave(self, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bots.operator_page.live_log.MAX_STREAMS", 1)
        monkeypatch.setattr("bots.operator_page.live_log.HEARTBEAT_S", 0.5)
        async with browser(page, READER) as client, browser(page, READER) as other:
            response = await client.get("/log/stream")
            await read(other, "/log/stream", 503)
            response.close()
            async with asyncio.timeout(20):
                while page.context.streams:
                    await asyncio.sleep(0.05)
                async with other.get("/log/stream") as second:
                    assert second.status == 200

    async def test_it_ends_with_the_session(self, page: Page) -> None:
        async with browser(page, READER) as client:
            response = await client.get("/log/stream")
            assert page.context.streams
            await client.post("/sign-out", data={"form_token": await get_form_token(client)})
            async with asyncio.timeout(20):
                await response.content.read()
            assert response.content.at_eof()

    async def test_the_end_does_not_wait_for_readers(self, tmp_path: Path, environment: Any) -> None:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
            async with operator_page(tmp_path, environment) as page:
                await client.post(f"{page.url}/sign-in", data={"token": READER})
                response = await client.get(f"{page.url}/log/stream")
                assert response.status == 200
            async with asyncio.timeout(20):
                await response.content.read()
            assert not page.context.streams


def test_the_waterfall_has_each_stage_once_on_one_scale() -> None:
    rows = {row.stage: row for row in to_rows(TRACE.to_json())}
    assert list(rows) == ["understand", "route", "search", "rerank", "write", "verify"]
    assert len(rows["search"].runs) == 2
    assert (rows["search"].start_ms, rows["search"].spent_ms) == (325, 88)
    assert (rows["rerank"].degraded, rows["write"].degraded) == ("late", "")
    assert all(run.start >= 0 and run.start + run.width <= 100.01 for row in rows.values() for run in row.runs)
    assert rows["write"].runs[0].width == pytest.approx(100 * 1690 / 2410, abs=0.01)
    assert to_rows({}) == []
    assert [row.degraded for row in to_rows({"cut": ["plan"], "why_cut": {"plan": "failed"}})] == ["failed"]


async def test_private_settings_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_TOKEN", READER)
    settings: Settings = load_settings(
        [], ["operator_page.port=0", 'operator_page.token={"env": "PAGE_TOKEN"}'], dict(os.environ)
    )
    assert [secret.value() for secret in settings.secrets().values()] == [READER], "the log redacts it"


async def test_skip_reasons_fit_their_column(page: Page) -> None:
    assert max(len(reason.label) for reason in SkipReason) <= 16
    journal: Journal = page.journal
    await silenced(journal, make_message(1, "x"), SkipReason.COURTESY)
    async with browser(page, READER) as client:
        assert "Silent: not a question" in await read(client, "/?outcome=silent")


async def test_a_daemon_serves_it_with_what_it_has_just_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    async with TelegramPeer() as telegram, LanguageModelPeer(reply="Call `rotate_keys` [p1].") as model:
        for name, value in (("BOT_TOKEN", telegram.token), ("PAGE_TOKEN", READER)):
            monkeypatch.setenv(name, value)
        port = free_port()
        deployment = Deployment(
            tmp_path,
            {
                "sources": {"rocket": {"kind": "files", "path": "docs"}},
                "models": {"main": {"base_url": model.base_url, "model": "peer-8b"}},
                "telegram": {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url},
                "operator_page": {"port": port, "token": {"env": "PAGE_TOKEN"}},
                "budget": {"deadline_s": 120},
            },
        )
        daemon_task = asyncio.create_task(run(load_settings([deployment.config])))
        try:
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", cookie_jar=jar) as client, asyncio.timeout(60):
                while not await is_signed_in(client) or ">Up to date<" not in await read(client, "/sources"):
                    await asyncio.sleep(0.1)
                telegram.say(-100200300, "@kimas_bot How do I change the signing key?")
                while "Answered" not in (text := await read(client, "/questions/1", None)):
                    await asyncio.sleep(0.1)
            page_text = to_text(html.fromstring(text))
            for part in ("Call rotate_keys", "rocket.md", "peer-8b", "route", "search", "Routing rocket", "cited [1]"):
                assert part in page_text, part
            os.kill(os.getpid(), signal.SIGTERM)
            assert await asyncio.wait_for(daemon_task, 60) == 0
        finally:
            daemon_task.cancel()
            await asyncio.gather(daemon_task, return_exceptions=True)


async def is_signed_in(client: aiohttp.ClientSession) -> bool:
    try:
        async with client.post("/sign-in", data={"token": READER}) as response:
            return response.status == 200
    except aiohttp.ClientConnectionError:
        return False
