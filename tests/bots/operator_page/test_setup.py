"""Setting up on the operator's page over HTTP: only the owner, only this page's forms, only this file."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from lxml import html

from bots.cli.browser_setup import BrowserSetup
from bots.operator_page import sessions
from bots.operator_page.server import serve_operator_page
from core.settings import OperatorPageSettings, Secret
from core.settings.loader import load_settings
from core.settings.yaml_file import read_yaml
from tests.support.deployment import make_repository
from tests.support.operator_page import OWNER, READER, Page, browser, operator_page, read
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer

WRITTEN = """\
# Ours, with a comment.
name: KIMAs
sources:  # what it knows
  # The handbook.
  handbook: {kind: files, path: handbook}
"""
KINDS = ("source", "model", "platform", "chat", "owner")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PAGE_TOKEN", "PAGE_OWNER_TOKEN", "KIMAS_TELEGRAM_TOKEN", "KIMAS_MODEL_KEY"):
        monkeypatch.setenv(name, "")
    home = tmp_path / "bot"
    (home / "docs").mkdir(parents=True)
    (home / "handbook").mkdir()
    for folder in ("docs", "handbook"):
        (home / folder / "rocket.md").write_text("# Rocket\n\nThe launch key is in the blue safe.\n", "utf-8")
    (home / "kimas.yaml").write_text(WRITTEN, "utf-8")
    return home


@pytest.fixture
async def page(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Page]:
    environment: dict[str, str] = {}
    settings = load_settings([home / "kimas.yaml"], (), {})
    monkeypatch.setenv("PAGE_TOKEN", READER)
    monkeypatch.setenv("PAGE_OWNER_TOKEN", OWNER)
    setup = BrowserSetup(home / "kimas.yaml")
    async with operator_page(tmp_path, environment, settings=settings, setup=setup) as served:
        yield served


async def get_hidden(client: aiohttp.ClientSession) -> dict[str, str]:
    """The hidden fields of a form of the page."""
    form = html.fromstring(await read(client, "/setup")).xpath("//form[@action='/setup/source']")[0]
    return {item.get("name"): item.get("value") for item in form.xpath(".//input[@type='hidden']")}


async def send(
    client: aiohttp.ClientSession, kind: str, fields: Mapping[str, str], status: int | tuple[int, ...] = 303
) -> str:
    """Send a form of the page, and return its problem, or the notice that follows."""
    data = fields if "form_token" in fields else {**await get_hidden(client), **fields}
    async with client.post(f"/setup/{kind}", data=data, allow_redirects=False) as response:
        text = await response.text()
        assert response.status == status, text
    if status == 303:
        text = await read(client, "/setup")
    return " ".join(html.fromstring(text).xpath("string(//*[contains(@class, 'banner')])").split())


def read_data(home: Path) -> dict[str, object]:
    data: dict[str, object] = read_yaml(home / "kimas.yaml").data
    return data


class TestWhoMay:
    async def test_strangers_and_readers_change_nothing(self, page: Page, home: Path) -> None:
        async with browser(page, OWNER) as owner, browser(page, READER) as reader, browser(page) as stranger:
            stolen = await get_hidden(owner)
            for client, token in ((stranger, stolen["form_token"]), (reader, await _get_token(reader))):
                for path in (*(f"/setup/{kind}" for kind in KINDS), "/setup/try", "/setup/restart"):
                    data = {**stolen, "form_token": token, "location": "docs", "question": "Hello?"}
                    async with client.post(path, data=data, allow_redirects=False) as response:
                        assert response.status == 403, path
            assert 'action="/setup/source"' not in await read(reader, "/setup")
            await read(stranger, "/setup", 303)
        assert (home / "kimas.yaml").read_text("utf-8") == WRITTEN
        entries = await page.context.audit.get_newest(20, chat=None)
        commands = {("refused", command) for command in ("setup", "try", "restart")}
        assert {(entry.outcome, entry.command) for entry in entries} == commands

    async def test_forms_of_other_sites_and_old_ones_are_refused(self, page: Page, home: Path) -> None:
        async with browser(page, OWNER) as client:
            hidden = await get_hidden(client)
            good = {**hidden, "location": "docs"}
            for data, headers in (
                (good, {"Origin": "https://evil.example"}),
                (good, {"Origin": "null"}),
                (good, {"Sec-Fetch-Site": "cross-site"}),
                (good, {"Sec-Fetch-Site": "same-site"}),
                ({**good, "form_token": ""}, {}),
                ({**good, "form_token": hidden["form_token"][::-1]}, {}),
            ):
                async with client.post("/setup/source", data=data, headers=headers) as response:
                    assert response.status == 403
            async with client.post("/setup/source", data={**good, "location": "x" * 200_000}) as response:
                assert response.status == 413
            async with client.post("/setup/anything", data=good) as response:
                assert response.status == 404
            async with client.get("/setup/source") as response:
                assert response.status in (404, 405)
            async with client.get("/setup", headers={"Host": "evil.example"}) as response:
                assert response.status == 421
        assert (home / "kimas.yaml").read_text("utf-8") == WRITTEN

    async def test_what_is_not_offered_is_refused(self, page: Page) -> None:
        async with browser(page, OWNER) as client:
            await send(client, "restart", {}, 404)
            await send(client, "try", {"question": "Hello?"}, 404)
            shown = await read(client, "/setup")
            assert "Restart now" not in shown
            assert "Try it" not in shown

    async def test_a_restart_is_asked_for_once(self, page: Page, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        setup = page.context.setup
        assert setup
        setup.can_restart = True
        signals: list[int] = []
        monkeypatch.setattr(os, "kill", lambda _pid, number: signals.append(number))
        async with browser(page, OWNER) as client:
            (home / "kimas.yaml").write_text("name: [\n", "utf-8")
            assert "goes on as it is" in await send(client, "restart", await _get_form_token(client), 422)
            assert not signals
            (home / "kimas.yaml").write_text(WRITTEN, "utf-8")
            for _ in range(2):
                await send(client, "restart", {}, 200)
        assert signals == [signal.SIGTERM]

    async def test_after_a_restart_the_new_tokens_count(self, page: Page) -> None:
        section = OperatorPageSettings(port=0, owner_token=Secret(env="PAGE_TOKEN"))
        async with browser(page, OWNER) as client:
            cookies = {cookie.key: cookie.value for cookie in client.cookie_jar}
            async with serve_operator_page(section, page.context) as port:
                address = f"http://127.0.0.1:{port}"
                async with client.get(f"{address}/setup", cookies=cookies, allow_redirects=False) as response:
                    assert response.status == 200, "who was signed in stays so"
                for token, status in ((OWNER, 403), (READER, 303)):
                    data = {"token": token}
                    async with client.post(f"{address}/sign-in", data=data, allow_redirects=False) as response:
                        assert response.status == status

    async def test_a_link_opens_the_page_once(self, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        setup = page.context.setup
        assert setup
        assert setup.sessions
        token = setup.sessions.make_link_token()
        async with browser(page) as client, browser(page) as other:
            for _ in range(2):
                # Whoever only looks at the address, as a preview does, uses nothing up.
                assert token in await read(client, f"/sign-in?once={token}")
            data = {"once": token}
            evil = {"Origin": "https://evil.example"}
            async with client.post("/sign-in", data=data, headers=evil, allow_redirects=False) as response:
                assert response.status == 403
            async with client.post("/sign-in", data=data, allow_redirects=False) as response:
                assert (response.status, response.headers["Location"]) == (303, "/setup")
            assert "Who writes the answers" in await read(client, "/setup")
            async with other.post("/sign-in", data=data) as response:
                assert response.status == 403
                shown = await response.text()
            assert "used before, or is too old. Enter the owner's token." in html.fromstring(shown).text_content()
            setup.secrets_file.touch()
            async with other.post("/sign-in", data=data) as response:
                assert "token, which is in kimas.env." in html.fromstring(await response.text()).text_content()
            for value in ("", "x", OWNER[:-1]):
                async with other.post("/sign-in", data={"once": value}) as response:
                    assert response.status == 403
            monkeypatch.setattr(sessions, "LINK_S", 0.0)
            late = setup.sessions.make_link_token()
            async with other.post("/sign-in", data={"once": late}) as response:
                assert response.status == 403
        assert token not in str(page.log_buffer.lines_after())


async def _get_form_token(client: aiohttp.ClientSession) -> dict[str, str]:
    return {"form_token": await _get_token(client)}


async def _get_token(client: aiohttp.ClientSession) -> str:
    return str(html.fromstring(await read(client, "/")).xpath("//input[@name='form_token']/@value")[0])


class TestSources:
    async def test_a_link_to_itself_is_no_source(self, page: Page, home: Path) -> None:
        (home / "loop").symlink_to("loop")
        async with browser(page, OWNER) as client:
            assert "does not exist" in await send(client, "source", {"location": "loop"}, 422)

    async def test_one_that_is_there_is_not_added_again(self, page: Page, home: Path) -> None:
        async with browser(page, OWNER) as client:
            problem = await send(client, "source", {"location": "handbook/"}, 422)
        assert "handbook is this source already" in problem
        assert (home / "kimas.yaml").read_text("utf-8") == WRITTEN

    async def test_of_a_large_repository_its_documents_are_read(self, page: Page, home: Path) -> None:
        files = {f"src/part_{number}.py": "x = 1" for number in range(40)}
        make_repository(home / "docs" / "project", files | {"guide/page.md": "# Page", "README.md": "# Project"})
        async with browser(page, OWNER) as client:
            assert "/guide/** /*.md is read" in await send(client, "source", {"location": "docs/project"})
        assert read_data(home)["sources"]["project"]["include"] == ["/guide/**", "/*.md"]

    async def test_one_is_added_and_the_file_keeps_everything_else(self, page: Page, home: Path) -> None:
        (home / "kimas.yaml").chmod(0o640)
        async with browser(page, OWNER) as client:
            assert "docs: 1 file" in (await send(client, "source", {"location": "docs"})).replace(f"{home}/", "")
        lines = (home / "kimas.yaml").read_text("utf-8").splitlines()
        added = [line for line in lines if line not in WRITTEN.splitlines()]
        assert [line for line in lines if line not in added] == WRITTEN.splitlines()
        assert added[0] == "  docs:"
        assert (home / "kimas.yaml.bak").read_text("utf-8") == WRITTEN
        for name in ("kimas.yaml", "kimas.yaml.bak"):
            assert stat.S_IMODE((home / name).stat().st_mode) == 0o640
        assert sorted(path.name for path in home.iterdir()) == ["docs", "handbook", "kimas.yaml", "kimas.yaml.bak"]

    async def test_a_file_that_changed_meanwhile_is_left_alone(self, page: Page, home: Path) -> None:
        async with browser(page, OWNER) as client:
            hidden = await get_hidden(client)
            (home / "kimas.yaml").write_text(WRITTEN + "# more\n", "utf-8")
            for digest in (hidden["digest"], "", hashlib.sha256(b"").hexdigest()):
                problem = await send(client, "source", {"location": "docs", "digest": digest}, 422)
                assert "the file has changed since this page was opened" in problem
            assert (home / "kimas.yaml").read_text("utf-8") == WRITTEN + "# more\n"
            await send(client, "source", {"location": "docs"})

    @pytest.mark.parametrize(
        "location",
        [
            "..",
            "../elsewhere",
            "/etc",
            "/etc/passwd",
            "docs/../../elsewhere",
            "link",
            "~",
            "~root",
            ".",
            "kimas.env",
            "kimas.yaml",
            ".hidden",
            ".git/config",
            "docs\x00/etc",
            "nowhere",
            "file:///etc/passwd",
            "FILE:///etc/passwd",
            "ext::sh -c touch% /tmp/pwned",
            "git@github.com:team/project.git",
            "ssh://git@example.org/x",
            "-u@example.org:x",
            "https://user:secret@docs.example.org/",
            "http://127.0.0.1:1/",
            "http://127.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://2130706433/",
            "http://169.254.169.254/latest/meta-data/",
            "http://localhost/",
            "http://10.0.0.1/",
            "https://",
            "http://a b/",
            "javascript:alert(1)",
        ],
    )
    async def test_other_places_are_refused(self, page: Page, home: Path, tmp_path: Path, location: str) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "private.md").write_text("# Private", "utf-8")
        (home / "link").symlink_to(tmp_path / "elsewhere")
        (home / "kimas.env").write_text("# none\n", "utf-8")
        for name in (".hidden", ".git"):
            (home / name).mkdir()
            (home / name / "config").write_text("x", "utf-8")
        async with browser(page, OWNER) as client:
            if location == ".":
                # What is below the configuration may be read; its secrets are no documents.
                shutil.rmtree(home / ".git")
                await send(client, "source", {"location": location})
                assert "env" not in str(read_data(home)["sources"])
                return
            problem = await send(client, "source", {"location": location}, 422)
            assert problem
            assert "secret" not in problem.replace("no secrets", "")
        assert (home / "kimas.yaml").read_text("utf-8") == WRITTEN

    async def test_yaml_in_a_field_is_only_text(self, page: Page, home: Path) -> None:
        evil_names = ["x: {a: b}", "- a", "&x", "*x", "{{ 7 * 7 }}", "a # b", "'q\"", "no", "[", "\u202eevil"]
        async with browser(page, OWNER) as client:
            for name in evil_names:
                (home / name).mkdir()
                (home / name / "a.md").write_text("# A\n\nText.\n", "utf-8")
                await send(client, "source", {"location": name}, 303 if name != "\u202eevil" else 422)
        data = read_data(home)
        assert set(data) == {"name", "sources"}
        sources = data["sources"]
        assert isinstance(sources, dict)
        assert {source["path"] for source in sources.values()} >= {str(home / name) for name in evil_names[:-1]}

    async def test_a_folder_that_cannot_be_written_says_what_to_add(self, page: Page, home: Path) -> None:
        (home / "kimas.yaml").write_text("sources: {handbook: {kind: files, path: handbook}, }\nname: [\n", "utf-8")
        async with browser(page, OWNER) as client:
            assert "The configuration has a fault" in await read(client, "/setup")
        (home / "kimas.yaml").write_text("{name: KIMAs}\n", "utf-8")
        async with browser(page, OWNER) as client:
            form = {"form_token": await _get_token(client), "location": "docs"}
            digest = hashlib.sha256(b"{name: KIMAs}\n").hexdigest()
            async with client.post("/setup/source", data={**form, "digest": digest}) as response:
                assert response.status == 422
                assert "by hand" in await response.text()
                assert "kind: files" in await response.text()
        assert (home / "kimas.yaml").read_text("utf-8") == "{name: KIMAs}\n"

    async def test_a_file_that_cannot_be_replaced_is_left_as_it_was(self, page: Page, home: Path) -> None:
        (home / "kimas.yaml.bak").mkdir()
        async with browser(page, OWNER) as client:
            problem = await send(client, "source", {"location": "docs"}, 422)
        assert "by hand: sources: docs: kind: files" in problem
        assert (home / "kimas.yaml").read_text("utf-8") == WRITTEN
        assert sorted(path.name for path in home.iterdir()) == ["docs", "handbook", "kimas.yaml", "kimas.yaml.bak"]


class TestChats:
    @pytest.mark.parametrize(
        ("kind", "value", "problem"),
        [
            ("owner", "Ann", "administration.owners"),
            ("owner", "telegram:Ann", "administration.owners"),
            ("owner", "telegram:5\n- telegram:6", "administration.owners"),
            ("owner", "", "administration.owners"),
            ("chat", "telegram:-1", "telegram is not connected: a group is written as platform:id"),
            ("chat", "", "nothing is not connected"),
            ("chat", "https://discord.com/channels/x", "this is no link of a channel"),
        ],
    )
    async def test_who_is_nobody_is_refused(self, page: Page, home: Path, kind: str, value: str, problem: str) -> None:
        async with browser(page, OWNER) as client:
            assert problem in await send(client, kind, {kind: value}, 422)
        assert (home / "kimas.yaml").read_text("utf-8") == WRITTEN

    async def test_owners_are_added_one_by_one(self, page: Page, home: Path) -> None:
        async with browser(page, OWNER) as client:
            for number in (5, 6):
                assert f"telegram:{number} may give every command" in await send(
                    client, "owner", {"owner": f"telegram:{number}"}
                )
        assert read_data(home)["administration"] == {"owners": ["telegram:6", "telegram:5"]}


class TestSecrets:
    async def test_a_token_is_kept_beside_the_file_alone(
        self, tmp_path: Path, page: Page, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (home / "kimas.env").write_text("# KIMAS_TELEGRAM_TOKEN=\nOTHER=1\n", "utf-8")
        monkeypatch.delenv("KIMAS_TELEGRAM_TOKEN")
        async with TelegramPeer() as telegram, browser(page, OWNER) as client:
            setup = page.context.setup
            assert isinstance(setup, BrowserSetup)
            setup.api_url = telegram.api_url
            for wrong, problem in (
                ("43:wrong", "was refused"),
                ("a b", "no spaces"),
                ("a\nB=c", "no spaces"),
                ("", "missing"),
            ):
                text = await send(client, "platform", {"platform": "telegram", "token": wrong}, 422)
                assert problem in text
                assert "43:wrong" not in await read(client, "/setup")
                assert (home / "kimas.env").read_text("utf-8") == "# KIMAS_TELEGRAM_TOKEN=\nOTHER=1\n"
            notice = await send(client, "platform", {"platform": "telegram", "token": telegram.token})
            assert "@kimas_bot" in notice
            shown = await read(client, "/setup")
            assert "Connect Telegram" not in shown
            for text in (shown, notice, str(page.log_buffer.lines_after()), (home / "kimas.yaml").read_text("utf-8")):
                assert telegram.token not in text
        assert (home / "kimas.env").read_text("utf-8") == f"OTHER=1\nKIMAS_TELEGRAM_TOKEN={telegram.token}\n"
        assert stat.S_IMODE((home / "kimas.env").stat().st_mode) == 0o600
        assert read_data(home)["telegram"] == {
            "api_url": telegram.api_url,
            "token": {"env": "KIMAS_TELEGRAM_TOKEN"},
        }

    async def test_a_refused_key_is_never_shown(self, page: Page, home: Path) -> None:
        key = "sk-a-key-that-is-wrong"
        async with LanguageModelPeer() as models, browser(page, OWNER) as client:
            models.models = ("a", "b")
            fields = {"role": "main", "address": models.base_url, "model": "", "key": key}
            for change, problem in (
                ({}, "name one of its models: a, b"),
                ({"model": "c"}, "has no model c"),
                ({"address": "localhost:1"}, "begins with https://"),
                ({"address": "http://127.0.0.1:9/v1"}, "the connection failed"),
                ({"address": models.base_url.removesuffix("/v1")}, "has no list of models: name the model. There is a"),
                ({"role": "judge; rm"}, "no such role"),
                ({"key": "a\nb=c"}, "no spaces"),
                ({"key": "кey"}, "no spaces in it, and no letters but a to z"),
                ({"role": "vision", "model": "a"}, "vision needs main or light"),
            ):
                async with client.post(
                    "/setup/model", data={**await get_hidden(client), **fields, **change}
                ) as response:
                    text = await response.text()
                    assert (response.status, key in text) == (422, False), change
                    assert problem in html.fromstring(text).text_content()
                assert not (home / "kimas.env").exists()
        assert (home / "kimas.yaml").read_text("utf-8") == WRITTEN
