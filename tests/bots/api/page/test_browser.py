"""The page and the widget in a real browser, on pages of other sites too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, Page as Tab, Route, expect
from sqlalchemy import select

from bots.api.server import serve_api
from bots.common.web_server import serve_application
from core.errors import UsageError
from core.ports import AnswerFunction, Sink
from core.settings import ApiSettings, Settings
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings
from core.storage.tables import feedback, messages
from core.types import Citation, Question, Reply
from tests.support.chromium import AXE, browser, needs_chromium
from tests.support.fixtures import parts, settings

__all__ = ["browser"]
pytestmark = [needs_chromium, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

QUESTION = "How do I install it?"
CITATION = Citation(1, "p1", "docs", "Installation", "install.md", "https://example.org/install")
ANSWER = Reply("Run `pip install rocket` [1].", citations=(CITATION,))


async def answer_well(question: Question, sink: Sink) -> Reply:
    await sink.update("Run `pip install")
    await asyncio.sleep(0.2)
    return ANSWER


@dataclass
class Site:
    """A page of somebody else that embeds the widget."""

    url: str = ""
    html: str = ""
    policy: str = ""
    requests: list[str] = field(default_factory=list)

    async def show(self, request: web.Request) -> web.Response:
        self.requests.append(request.path_qs)
        headers = {"Content-Security-Policy": self.policy} if self.policy else {}
        return web.Response(text=self.html, content_type="text/html", headers=headers)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    served_site = Site()
    application = web.Application()
    application.router.add_get("/{path:.*}", served_site.show)
    async with serve_application(application, "127.0.0.1", 0, section="site", error_class=UsageError) as port:
        served_site.url = f"http://127.0.0.1:{port}"
        yield served_site


@asynccontextmanager
async def asking(
    answer: AnswerFunction = answer_well,
    *origins: str,
    live: LiveSettings | None = None,
    journal: Journal | None = None,
) -> AsyncIterator[str]:
    section = {"port": 0, "page": {"enabled": True, "allowed_origins": origins, "per_minute": 1000}}
    configuration = ApiSettings.model_validate(section)
    async with serve_api(configuration, live or LiveSettings(settings()), answer, parts, 4, journal=journal) as port:
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def opened(
    browser: Browser, url: str, may_request: Callable[[str], bool] = lambda _: False, **options: Any
) -> AsyncIterator[Tab]:
    """A tab at an address. It may have no errors, no dialogs, no cookies, and no requests to anywhere else."""
    async with await browser.new_context(**options) as context:
        tab = await context.new_page()
        errors: list[str] = []
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("dialog", lambda dialog: errors.append(dialog.message))
        tab.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((url, url.removesuffix("/ask"))) or may_request(request.url)
                else errors.append(request.url)
            ),
        )
        await tab.goto(url)
        yield tab
        assert await context.cookies() == []
        assert await tab.evaluate("localStorage.length + sessionStorage.length") == 0
        assert errors == []


async def ask(tab: Tab, question: str = QUESTION) -> None:
    await tab.get_by_label("Your question").fill(question)
    await tab.get_by_role("button", name="Ask", exact=True).click()


async def test_a_visitor_asks_and_sees_where_it_is_from(browser: Browser) -> None:
    async with asking() as url, opened(browser, f"{url}/ask") as tab:
        await ask(tab)
        await expect(tab.locator(".answer code")).to_have_text("pip install rocket")
        mark = tab.get_by_role("link", name="[1]")
        assert await mark.get_attribute("href") == "https://example.org/install"
        source = tab.get_by_role("link", name="Installation")
        assert await source.get_attribute("target") == "_blank"
        assert await source.get_attribute("rel") == "noopener noreferrer"
        await expect(tab.locator(".host")).to_have_text("(example.org)")


async def test_follow_ups_carry_what_was_said(browser: Browser) -> None:
    questions: list[Question] = []

    async def answer(question: Question, sink: Sink) -> Reply:
        questions.append(question)
        return ANSWER

    async with asking(answer) as url, opened(browser, f"{url}/ask") as tab:
        await ask(tab)
        await expect(tab.get_by_role("link", name="[1]")).to_have_count(1)
        await tab.get_by_label("Your question").fill("and on Windows?")
        await tab.keyboard.press("Enter")
        await expect(tab.get_by_role("link", name="[1]")).to_have_count(2)
    assert [turn.text for turn in questions[1].history] == [QUESTION, ANSWER.text]


async def test_long_conversations_go_on_with_their_first_words_and_their_end(browser: Browser) -> None:
    questions: list[Question] = []

    async def answer(question: Question, sink: Sink) -> Reply:
        questions.append(question)
        return Reply("字" * 12_000)

    async with asking(answer) as url, opened(browser, f"{url}/ask") as tab:
        for count in range(1, 4):
            await ask(tab, f"question {count}")
            await expect(tab.locator(".answer p", has_text="字字")).to_have_count(count)
    assert [turn.text[:10] for turn in questions[2].history] == ["question 1", "question 2", "字" * 10]


@pytest.mark.parametrize("end", ["\r", "\u2028", "\u2029"])
async def test_every_end_of_a_line_is_one(browser: Browser, end: str) -> None:
    async def answer(question: Question, sink: Sink) -> Reply:
        return Reply(f"# First{end}Second `code`")

    async with asking(answer) as url, opened(browser, f"{url}/ask") as tab:
        await ask(tab)
        await expect(tab.locator(".answer h2")).to_have_text("First")
        await expect(tab.locator(".answer code")).to_have_text("code")


HOSTILE = """
<svg onload=alert(1)> <img src=x onerror=alert(1)> <script>alert(1)</script>
[click](javascript:alert(1)) [data](data:text/html,x) [\u0000x](java\tscript:alert(1))
![a](https://evil.example/?q=secret) ![](https://evil.example/?q=secret)
```
</code></pre><script>alert(1)</script>
```
> <iframe src=javascript:alert(1)>
- <b onclick=alert(1)>x</b>
# <style>*{display:none}</style>
[https://bank.example](https://evil.example/login)
[mail](mailto:a@example.org) `<svg onload=alert(1)>` **<u>x</u>**
"""


async def test_nothing_that_is_shown_runs_or_loads(browser: Browser) -> None:
    title = "<svg onload=alert(1)>"
    citations = (
        Citation(1, "p1", "docs", title, "a.md", "javascript:alert(1)"),
        Citation(2, "p2", "docs", "https://bank.example", "b.md", "https://evil.example/login"),
    )

    async def answer(question: Question, sink: Sink) -> Reply:
        await sink.update(HOSTILE)
        await asyncio.sleep(0.2)
        return Reply(HOSTILE, citations=citations)

    async with asking(answer) as url, opened(browser, f"{url}/ask") as tab:
        await ask(tab, "<img src=x onerror=alert(1)>")
        # They come with the whole answer; what was streamed before has none.
        await expect(tab.get_by_role("heading", name="Sources")).to_be_visible()
        await expect(tab.get_by_text("<svg onload=alert(1)>").last).to_be_visible()
        answer_box = tab.locator(".answer")
        foreign = "svg, img, script, iframe, style, b, u, [onclick], [onload], [onerror]"
        assert await answer_box.locator(foreign).count() == 0
        links = await answer_box.locator("a").evaluate_all("links => links.map(link => link.href)")
        assert {link.partition(":")[0] for link in links} == {"https", "mailto"}
        shown = await answer_box.inner_text()
        assert shown.count("https://bank.example (evil.example)") == 2, "the text of a link hides no address"
        assert "a (evil.example)" in shown, "of a picture its text, with a link"


async def test_a_long_line_of_brackets_does_not_hang_the_page(browser: Browser) -> None:
    hostile = "[" * 20_000 + "\n" + "![" * 10_000 + "\n" + "**" * 10_000 + "\n" + "https://" * 5_000 + "`" * 10_001

    async def answer(question: Question, sink: Sink) -> Reply:
        return Reply(f"{hostile}\n\nThe end.")

    async with asking(answer) as url, opened(browser, f"{url}/ask") as tab:
        await ask(tab)
        await expect(tab.get_by_text("The end.")).to_be_visible(timeout=10_000)


@pytest_asyncio.fixture(loop_scope="module")
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = await Journal.open(tmp_path / "journal.db")
    yield journal
    await journal.close()


async def read_verdicts(journal: Journal) -> list[str]:
    return [row.verdict for row in await journal.database.fetch_all(select(feedback.c.verdict))]


async def test_a_thumb_is_given_changed_and_taken_back_by_keyboard(browser: Browser, journal: Journal) -> None:
    async with asking(journal=journal) as url, opened(browser, f"{url}/ask") as tab:
        await ask(tab)
        group = tab.get_by_role("group", name="Did this help?")
        up, down = (group.get_by_role("button", name=name) for name in ("Yes, it helped", "No, it did not help"))
        await expect(group.get_by_text("A rating keeps your question and this answer")).to_be_visible()
        await up.focus()
        await tab.keyboard.press("Enter")
        await expect(up).to_have_attribute("aria-pressed", "true")
        await expect(group.get_by_text("Noted, thank you.")).to_be_visible()
        await expect(up).to_be_focused()
        assert await read_verdicts(journal) == ["up"]
        await tab.keyboard.press("Tab")
        await expect(down).to_be_focused()
        await tab.keyboard.press("Space")
        await expect(down).to_have_attribute("aria-pressed", "true")
        await expect(up).to_have_attribute("aria-pressed", "false")
        assert await read_verdicts(journal) == ["down"]
        await tab.keyboard.press("Space")
        await expect(down).to_have_attribute("aria-pressed", "false")
        await expect(group.get_by_text("Taken back.")).to_be_visible()
        assert await read_verdicts(journal) == [""]


async def test_each_answer_has_its_own_thumbs(browser: Browser, journal: Journal) -> None:
    async with asking(journal=journal) as url, opened(browser, f"{url}/ask") as tab:
        for number in range(1, 3):
            await ask(tab, f"question {number}")
            await expect(tab.get_by_role("group", name="Did this help?")).to_have_count(number)
        await tab.get_by_role("button", name="No, it did not help").last.click()
        await expect(tab.get_by_role("button", pressed=True)).to_have_count(1)
    rows = await journal.database.fetch_all(select(messages.c.text))
    assert [row.text for row in rows] == ["question 2"]


async def fulfill(route: Route, *, status: int, body: str) -> None:
    await route.fulfill(status=status, body=body)


async def test_a_rating_that_fails_says_so_and_is_not_shown_as_given(browser: Browser, journal: Journal) -> None:
    async with asking(journal=journal) as url, await browser.new_page() as tab:
        await tab.goto(f"{url}/ask")
        await ask(tab)
        up = tab.get_by_role("button", name="Yes, it helped")
        await expect(up).to_be_visible()
        for status, body, text in (
            (502, "<h1>Bad gateway</h1>", "No answer came. Please try again."),
            (410, '{"error": {"message": "this answer can no longer be rated"}}', "can no longer be rated"),
        ):
            await tab.route("**/ask/rating", partial(fulfill, status=status, body=body))
            await up.click()
            await expect(tab.locator(".note")).to_contain_text(text)
            await expect(up).to_have_attribute("aria-pressed", "false")
            await tab.unroute("**/ask/rating")
        await up.click()
        await expect(up).to_have_attribute("aria-pressed", "true")


async def test_thumbs_work_in_the_widget_of_another_site(browser: Browser, journal: Journal) -> None:
    async with site() as host, asking(answer_well, host.url, journal=journal) as url:
        host.policy = f"default-src 'none'; script-src {url}; connect-src {url}"
        host.html = f'<!doctype html><title>Docs</title><script src="{url}/ask/widget.js" defer></script>'
        async with opened(browser, host.url, lambda address: address.startswith(url)) as tab:
            await tab.get_by_role("button", name="Ask a question").click()
            await ask(tab)
            await tab.get_by_role("button", name="Yes, it helped").click()
            await expect(tab.get_by_role("button", pressed=True)).to_have_count(1)
    assert await read_verdicts(journal) == ["up"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
async def test_everybody_can_use_it(browser: Browser, journal: Journal, scheme: str, width: int) -> None:
    viewport = {"width": width, "height": 800}
    async with (
        asking(journal=journal) as url,
        # The checker is a script of its own, which the page's policy would refuse.
        opened(browser, f"{url}/ask", color_scheme=scheme, viewport=viewport, bypass_csp=True) as tab,
    ):
        await ask(tab)
        await expect(tab.get_by_role("link", name="[1]")).to_be_visible()
        await tab.get_by_role("button", name="Yes, it helped").click()
        await expect(tab.get_by_role("button", pressed=True)).to_have_count(1)
        await tab.add_script_tag(path=AXE)
        report = await tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
        violations = [(item["id"], item["nodes"][0]["html"]) for item in report["violations"]]
        assert violations == []
        assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_it_works_on_a_site_with_a_strict_policy(browser: Browser) -> None:
    async with site() as host, asking(answer_well, host.url) as url:
        host.policy = f"default-src 'none'; script-src {url}; connect-src {url}"
        host.html = (
            f"""<!doctype html><title>Docs</title><h1>Docs</h1><script src="{url}/ask/widget.js" defer></script>"""
        )
        async with opened(browser, host.url, lambda address: address.startswith(url)) as tab:
            await tab.get_by_role("button", name="Ask a question").click()
            await expect(tab.get_by_label("Your question")).to_be_focused()
            await ask(tab)
            await expect(tab.get_by_role("link", name="[1]")).to_be_visible()
            radius = await tab.locator(".question").evaluate("element => getComputedStyle(element).borderRadius")
            assert radius == "12px", "its style sheet applies"
            await tab.keyboard.press("Escape")
            await expect(tab.get_by_role("button", name="Ask a question")).to_be_focused()
        assert all(not path.startswith("/?") for path in host.requests)


async def test_a_site_that_is_not_listed_gets_no_answer(browser: Browser) -> None:
    async with site() as host, asking() as url:
        host.html = f'<!doctype html><title>Evil</title><script src="{url}/ask/widget.js" defer></script>'
        async with await browser.new_page() as tab:
            await tab.goto(host.url)
            await tab.get_by_role("button", name="Ask a question").click()
            await ask(tab)
            await expect(tab.get_by_role("alert")).to_have_text("No answer came. Please try again.")


async def test_site_and_widget_leave_each_other_alone(browser: Browser) -> None:
    async with site() as host, asking(answer_well, host.url) as url:
        host.html = f"""<!doctype html><title>Docs</title>
            <style>* {{ font: 40px serif !important; color: red; display: block }} button {{ opacity: 0 }}</style>
            <p id=p onclick="this.textContent = 'clicked'" style="position:fixed;inset:0;margin:0">Text</p>
            <script src="{url}/ask/widget.js" defer></script>"""
        viewport = {"width": 800, "height": 600}
        async with opened(browser, host.url, lambda address: address.startswith(url), viewport=viewport) as tab:
            button = tab.get_by_role("button", name="Ask a question")
            await expect(button).to_be_visible()
            assert await button.evaluate("element => getComputedStyle(element).fontSize") == "16px"
            box = await button.bounding_box()
            assert box
            await tab.mouse.click(box["x"] - 12, box["y"] + 10)
            await expect(tab.locator("#p")).to_have_text("clicked")
            color = await tab.locator("#p").evaluate("element => getComputedStyle(element).color")
            assert color == "rgb(255, 0, 0)"


async def test_a_keyboard_does_not_cover_the_field(browser: Browser) -> None:
    # A phone whose keyboard takes 336 px of its 844.
    async with asking() as url, opened(browser, f"{url}/ask", viewport={"width": 390, "height": 844}) as tab:
        field_size = await tab.get_by_label("Your question").evaluate("element => getComputedStyle(element).fontSize")
        assert float(field_size.removesuffix("px")) >= 16, "a smaller one makes iPhones zoom"
        assert "maximum-scale" not in await tab.content()
        await tab.set_viewport_size({"width": 390, "height": 844 - 336})
        await tab.get_by_label("Your question").focus()
        box = await tab.get_by_label("Your question").bounding_box()
        assert box
        assert box["y"] + box["height"] <= 844 - 336
        assert box["y"] > 0


class MeetingRequests(LiveSettings):
    """Tells when a second request has come. Each reads the settings once, at its beginning."""

    def __init__(self, configuration: Settings) -> None:
        super().__init__(configuration)
        self.have_met = asyncio.Event()
        self._count = 0

    async def load(self) -> None:
        await super().load()
        self._count += 1
        if self._count == 2:
            self.have_met.set()


async def test_what_a_proxy_holds_back_comes_whole_and_once(browser: Browser) -> None:
    count = 0
    begun = asyncio.Event()
    live = MeetingRequests(settings())

    async def answer(question: Question, sink: Sink) -> Reply:
        nonlocal count
        count += 1
        begun.set()
        await live.have_met.wait()
        return ANSWER

    async with asking(answer, live=live) as url, opened(browser, f"{url}/ask", bypass_csp=True) as tab:

        async def hold_back(route: Any) -> None:
            if '"stream":true' in (route.request.post_data or ""):
                # As a buffering proxy: the question goes on, and nothing comes back for long.
                response = asyncio.ensure_future(route.fetch())
                held.append(response)
                return
            await route.continue_()

        held: list[asyncio.Future[Any]] = []
        await tab.route("**/ask/answer", hold_back)
        # The page waits 20 s for the first byte.
        await tab.clock.install()
        await ask(tab)
        await begun.wait()
        await tab.clock.fast_forward(21_000)
        await expect(tab.get_by_role("link", name="[1]")).to_have_count(1, timeout=30_000)
        await expect(tab.locator(".answer")).to_have_count(1)
        await asyncio.gather(*held, return_exceptions=True)
    assert count == 1, "both requests waited for one answer"


async def test_a_failure_is_told_and_the_next_question_answered(browser: Browser) -> None:
    is_broken = True

    async def answer(question: Question, sink: Sink) -> Reply:
        if is_broken:
            await sink.update("The first part")
            raise ZeroDivisionError
        return ANSWER

    async with asking(answer) as url, opened(browser, f"{url}/ask") as tab:
        await ask(tab)
        await expect(tab.get_by_role("alert")).to_have_text("the answer failed; the log says why")
        is_broken = False
        await ask(tab)
        await expect(tab.get_by_role("link", name="[1]")).to_be_visible()


@pytest.mark.parametrize("status", [502, 200])
async def test_a_page_of_the_proxy_is_no_answer_and_is_not_shown(browser: Browser, status: int) -> None:
    page_of_proxy = {"status": status, "content_type": "text/html", "body": "<html><h1>Bad gateway</h1></html>"}
    async with asking() as url, await browser.new_page() as tab:
        await tab.route("**/ask/answer", lambda route: route.fulfill(**page_of_proxy))
        await tab.goto(f"{url}/ask")
        await ask(tab)
        await expect(tab.get_by_role("alert")).to_have_text("No answer came. Please try again.")
        await tab.unroute("**/ask/answer")
        await ask(tab)
        await expect(tab.get_by_role("link", name="[1]")).to_be_visible()
