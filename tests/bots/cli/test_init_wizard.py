"""`kimas init` in a real terminal, against servers that speak the platforms' protocols: it asks wrong answers again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bots.cli import model_trial
from bots.cli.env_file import load_env_file, read_env_names
from bots.cli.init_template import PAGE_PORT, Answers, render_config, write_config
from bots.cli.init_wizard import _ask_include, _ask_model
from bots.cli.setup_checks import OWNER_IDS, examine_owner, examine_source, make_section
from core.errors import ConfigurationError, UsageError
from core.settings import FilesSource, GitSource, Settings
from core.settings.loader import load_settings
from tests.support.deployment import git, make_repository
from tests.support.peers.discord import DiscordPeer
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.slack import SlackPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.peers.web import Page, WebPeer
from tests.support.terminal import Terminal, open_kimas

GROUP = -1001234567890


def init(folder: Path, *arguments: str) -> AbstractAsyncContextManager[Terminal]:
    return open_kimas(["init", *arguments], folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "bot"
    (path / "docs").mkdir(parents=True)
    (path / "docs" / "rocket.md").write_text("# Rocket\n\nThe launch key is in the blue safe.\n", "utf-8")
    return path


async def test_telegram_from_an_empty_folder(folder: Path) -> None:
    async with TelegramPeer() as peer, LanguageModelPeer() as models, init(folder, "--api-url", peer.api_url) as user:
        models.models = ("qwen3:8b", "llama3.2")
        models.api_key = "sk-a-key-for-tests"
        await user.answer("Platform (telegram, discord, slack, none) [telegram]:", "fax")
        await user.read("'fax' is not one of")
        await user.answer("[telegram]:", "")
        await user.answer("Token, not shown", "43:wrong")
        await user.read("telegram.token was refused")
        await user.answer("Token, not shown", "two words")
        await user.read("a token has no spaces in it")
        await user.answer("Token, not shown", peer.token)
        await user.read("ok: @kimas_bot")
        await user.read("https://t.me/kimas_bot?startgroup=true")
        await user.answer("s: skip", "")
        await user.read("waiting for up to 60 s")
        peer.say(GROUP, "/ask hello")
        await user.answer(f"Team ({GROUP}): answer in this group only?", "")
        await user.answer("is that you, who administers the bot?", "")
        await user.answer("Source [.]:", "no/such/place")
        await user.read("no/such/place does not exist: name a folder, a file or an address")
        await user.answer("Source [.]:", "docs")
        await user.read("ok: ")
        await user.answer("Another source (Enter: none):", "")
        await user.answer("Model (none, ollama, other) [none]:", "other")
        address = "Address of the endpoint (none: no model):"
        await user.answer(address, "localhost:1234")
        await user.read("begins with http:// or https://, for example http://localhost:1234")
        await user.answer(address, "http://127.0.0.1:9/v1")
        await user.read(": is its server running?)")
        await user.answer("Keep it anyway?", "")
        await user.answer(address, models.base_url)
        await user.answer("API key, not shown (Enter: none):", "sk-wrong")
        await user.read("Incorrect API key provided")
        await user.answer("Keep it anyway?", "")
        await user.answer("API key, not shown (Enter: none):", "sk-a-key-for-tests")
        await user.read("it has llama3.2, qwen3:8b")
        await user.answer("Model's name (none: no model):", "qwen3:7b")
        await user.read("has no model qwen3:7b; it has qwen3:8b")
        await user.answer("Keep it anyway?", "")
        assert list(folder.iterdir()) == [folder / "docs"], "nothing is written before the last answer"
        await user.answer("Model's name (none: no model):", "qwen3:8b")
        assert await user.end() == 0
        assert user.output.count("Keep it anyway?") == 3
        assert "kimas check --live" in user.output
        assert peer.pending(), "the message that was found is still there for the daemon"
    for secret in (peer.token, "sk-a-key-for-tests", "43:wrong"):
        assert secret not in user.output
        assert secret not in (folder / "kimas.yaml").read_text("utf-8")
    env_file = folder / "kimas.env"
    assert env_file.stat().st_mode & 0o777 == 0o600
    environment = dict(re.findall(r"^(\w+)=(.*)$", env_file.read_text("utf-8"), re.MULTILINE))
    assert len(environment["KIMAS_PAGE_TOKEN"]) >= 32
    assert environment == {
        "KIMAS_TELEGRAM_TOKEN": peer.token,
        "KIMAS_MODEL_KEY": "sk-a-key-for-tests",
        "KIMAS_PAGE_TOKEN": environment["KIMAS_PAGE_TOKEN"],
    }
    settings = load_settings([folder / "kimas.yaml"], (), environment)
    assert settings.telegram is not None
    assert settings.telegram.api_url == peer.api_url
    assert settings.gate.chats == (f"telegram:{GROUP}",)
    assert [owner.partition(":")[0] for owner in settings.administration.owners] == ["telegram"]
    assert settings.operator_page.port is not None
    assert isinstance(settings.sources["docs"], FilesSource)
    assert settings.sources["learned"].kind == "learned"
    assert settings.models.main is not None
    assert settings.models.main.model == "qwen3:8b"


async def test_discord_asks_for_a_channel_where_the_bot_may_write(folder: Path) -> None:
    repository = make_repository(folder / "project")
    async with DiscordPeer() as peer, init(folder, "--api-url", peer.api_url, "discord.yaml") as user:
        channel_id = peer.channel()
        closed_channel = peer.channel()
        peer.channels[closed_channel].lacking = {"send"}
        await user.answer("Platform", "discord")
        await user.read("switch on Message Content Intent")
        await user.answer("Token, not shown", peer.token)
        await user.read(f"client_id={peer.application}&scope=bot+applications.commands&permissions=274877975552")
        await user.answer("Link of the channel", "https://example.org/channels/1/2")
        await user.read("this is no link of a channel")
        await user.answer("Link of the channel", f"https://discord.com/channels/{peer.guild}/{closed_channel}")
        await user.read("the bot lacks Send Messages")
        await user.answer("Link of the channel", "https://discord.com/channels/1/123456789012345678")
        await user.read("the channel does not exist, or was deleted (Discord: Unknown Channel)")
        await user.answer("Link of the channel", f"https://discord.com/channels/{peer.guild}/{channel_id}")
        await user.answer("Your own user id on Discord", "Ann")
        await user.read("  this is no user id on Discord (Settings, Advanced, Developer Mode")
        await user.answer("Your own user id on Discord", "discord:123456789012345678")
        await user.answer("Source [.]:", str(repository))
        await user.read("ok: ")
        await user.answer("Another source (Enter: none):", "")
        await user.answer("Model", "none")
        assert await user.end() == 0
    assert "pydantic" not in user.output
    settings = load_settings([folder / "discord.yaml"], (), {"KIMAS_DISCORD_TOKEN": "x", "KIMAS_PAGE_TOKEN": "a" * 32})
    assert settings.administration.owners == ("discord:123456789012345678",)
    assert settings.gate.chats == (f"discord:{channel_id}",)
    assert isinstance(settings.sources["project"], GitSource)


async def test_slack_asks_for_both_tokens(folder: Path) -> None:
    async with SlackPeer() as peer, init(folder, "--api-url", peer.api_url) as user:
        peer.say("C0123456789", "Hello")
        await user.answer("Platform", "slack")
        await user.answer("Bot token (xoxb-), not shown", peer.bot_token)
        await user.answer("App token (xapp-), not shown", "xapp-wrong")
        await user.read("slack.app_token was refused")
        await user.answer("App token (xapp-), not shown", peer.app_token)
        await user.read("ok: kimas in Rocket")
        await user.read("/invite @kimas")
        await user.answer("Link of the channel", "https://rocket.slack.com/archives/C0000000000")
        await user.read("the bot is not in the channel")
        await user.answer("Link of the channel", "https://rocket.slack.com/archives/C0123456789")
        await user.answer("Your own member id on Slack", "")
        await user.answer("Source [.]:", "docs")
        await user.answer("Another source (Enter: none):", "")
        await user.answer("Model", "")
        assert await user.end() == 0
    tokens = {"KIMAS_SLACK_BOT_TOKEN": "x", "KIMAS_SLACK_APP_TOKEN": "y", "KIMAS_PAGE_TOKEN": "a" * 32}
    assert load_settings([folder / "kimas.yaml"], (), tokens).gate.chats == ("slack:C0123456789",)


async def test_what_is_not_known_yet_is_filled_in_later(folder: Path) -> None:
    async with init(folder) as user:
        await user.read("For Mastodon, Bluesky, GitHub, GitLab or HTTP choose none")
        await user.answer("Platform (", "")
        await user.answer("Token, not shown", "")
        await user.read("Fill in KIMAS_TELEGRAM_TOKEN later")
        await user.answer("Source [.]:", "")
        await user.answer("Another source (Enter: none):", "docs/rocket.md")
        (folder / "faq.yaml").write_text("How do I log in?: With a token.\n", "utf-8")
        await user.answer("Another source (Enter: none):", "faq.yaml")
        await user.read("1 question")
        await user.answer("Another source (Enter: none):", "")
        await user.answer("Model", "")
        assert await user.end() == 0
    assert "# KIMAS_TELEGRAM_TOKEN=" in (folder / "kimas.env").read_text("utf-8")
    settings = load_settings([folder / "kimas.yaml"], (), {}, require_secrets=False)
    assert settings.telegram is not None
    assert set(settings.sources) == {"bot", "rocket-md", "faq-yaml", "learned"}
    assert settings.sources["faq-yaml"].kind == "faq"


async def test_a_second_bot_gets_another_port_for_its_page(folder: Path) -> None:
    with socket.socket() as listener:
        # Where it is taken already, that does as well.
        with suppress(OSError):
            listener.bind(("127.0.0.1", PAGE_PORT))
            listener.listen()
        async with init(folder) as user:
            await user.answer("Platform (", "")
            await user.answer("Token, not shown", "")
            await user.answer("Source [.]:", "docs")
            await user.answer("Another source (Enter: none):", "")
            await user.answer("Model", "")
            assert await user.end() == 0
    port = load_settings([folder / "kimas.yaml"], (), {}, require_secrets=False).operator_page.port
    assert port not in (None, PAGE_PORT)


@pytest.mark.parametrize("platform", list(OWNER_IDS))
@pytest.mark.parametrize("answer", ["ann", "@ann", "two words", "x" * 300])
def test_who_is_nobody_reads_what_an_id_is(platform: str, answer: str) -> None:
    with pytest.raises(ValueError, match=rf"^this is no {re.escape(OWNER_IDS[platform])}$"):
        examine_owner(platform, answer)


def test_settings_that_are_made_of_answers_are_refused_in_the_words_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"^api_url: must match \S+ \(another API server"):
        make_section("discord", "http://two words")


@pytest.mark.parametrize("at", ["Platform", "Token, not shown", "Source [.]:"])
async def test_an_interrupt_leaves_nothing(folder: Path, at: str) -> None:
    async with init(folder) as user:
        for question in ("Platform", "Token, not shown", "Source [.]:"):
            await user.read(question)
            if question == at:
                break
            os.write(user.controller, b"\n")
        os.write(user.controller, b"\x03")
        assert await user.end() == 1
        assert "Aborted!" in user.output
    assert list(folder.iterdir()) == [folder / "docs"]


async def test_an_interrupt_while_it_waits_for_the_group(folder: Path) -> None:
    async with TelegramPeer() as peer, init(folder, "--api-url", peer.api_url) as user:
        await user.answer("Platform", "")
        await user.answer("Token, not shown", peer.token)
        await user.answer("s: skip", "")
        await user.read("waiting for up to 60 s")
        user.process.send_signal(signal.SIGINT)
        await user.answer("Write what you have answered so far?", "n")
        assert await user.end() == 1
    assert list(folder.iterdir()) == [folder / "docs"]


async def name_a_model_that_is_away(user: Terminal) -> None:
    await user.answer("Platform", "none")
    await user.answer("Source [.]:", "docs")
    await user.answer("Another source (Enter: none):", "")
    await user.answer("Model", "other")
    await user.answer("Address of the endpoint (none: no model):", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("pasted", "example"),
    [
        ("sk-wrong", "http://localhost:8000/v1"),
        ("gsk_0123456789abcdefghij", "http://localhost:8000/v1"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "http://localhost:8000/v1"),
        ("http://", "http://localhost:8000/v1"),
        ("http://localhost:11434/v1/chat/completions", "http://localhost:11434/v1 is left"),
    ],
)
async def test_what_is_no_address_is_not_kept_nor_repeated_where_it_may_be_a_key(pasted: str, example: str) -> None:
    answers = Answers()
    lines = f"other\n{pasted}\nhttp://127.0.0.1:9/v1\ny\n\nsk-0123456789abcdef\nnone\n"
    with CliRunner().isolation(input=lines) as (output, *_):
        await asyncio.to_thread(_ask_model, answers)
        shown = output.getvalue().decode()
    assert example in shown
    assert shown.count("Keep it anyway?") == 1, "only the address that does not answer can be kept"
    assert "it looks like a key" in shown
    if not pasted.startswith("http"):
        assert shown.count(pasted) == 1, "where it was typed"
    assert answers.model == {}


async def test_an_interrupt_at_a_model_that_does_not_answer_loses_nothing(folder: Path) -> None:
    async with init(folder) as user:
        await name_a_model_that_is_away(user)
        await user.read("Keep it anyway?")
        os.write(user.controller, b"\x03")
        await user.answer("Write what you have answered so far?", "")
        assert await user.end() == 0
    settings = load_settings([folder / "kimas.yaml"], (), {})
    assert set(settings.sources) == {"docs"}
    assert settings.models.main is None


async def test_a_model_can_be_kept_although_it_does_not_answer(folder: Path) -> None:
    async with init(folder) as user:
        await name_a_model_that_is_away(user)
        await user.answer("Keep it anyway?", "y")
        await user.answer("API key, not shown (Enter: none):", "")
        await user.answer("Model's name (none: no model):", "later")
        await user.answer("Keep it anyway?", "y")
        assert await user.end() == 0
    main = load_settings([folder / "kimas.yaml"], (), {}).models.main
    assert main is not None
    assert (main.base_url, main.model) == ("http://127.0.0.1:9/v1", "later")


async def test_a_model_that_reads_slowly_gets_fewer_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_trial, "READING_S", 0.1)
    answers = Answers()
    async with LanguageModelPeer(ttft_s=0.3) as models:
        models.models = ("small",)
        with CliRunner().isolation(input=f"other\n{models.base_url}\n\nsmall\n") as (output, *_):
            await asyncio.to_thread(_ask_model, answers)
            assert "it reads slowly here" in output.getvalue().decode()
    settings = Settings.model_validate(yaml.safe_load(render_config(answers)))
    assert settings.models.main is not None
    assert settings.models.main.context_tokens == 500


async def test_a_large_repository_shows_what_it_holds_and_is_read_in_part(folder: Path) -> None:
    files = {f"docs/page-{number}.md": "# Page" for number in range(20)}
    files |= {f"src/part_{number}.py": "x = 1" for number in range(20)} | {"README.rst": "Project", "LICENSE.txt": ""}
    repository = make_repository(folder / "project", files)
    async with init(folder) as user:
        await user.answer("Platform", "none")
        await user.answer("Source [.]:", str(repository))
        await user.read("it holds 20 .")
        await user.answer("Read which of them? Patterns, or all [/docs/** /*.rst]:", "")
        await user.answer("Another source (Enter: none):", "")
        await user.answer("Model", "")
        assert await user.end() == 0
    source = load_settings([folder / "kimas.yaml"], (), {}).sources["project"]
    assert isinstance(source, GitSource)
    assert source.include == ("/docs/**", "/*.rst")


@pytest.mark.parametrize("can_filter", [True, False], ids=["lists alone", "sends all"])
async def test_of_a_remote_repository_a_part_is_proposed_too(tmp_path: Path, can_filter: bool) -> None:
    files = {f"docs/page-{number}.md": "# Page" for number in range(20)}
    files |= {f"src/part_{number}.go": "package x" for number in range(20)} | {"README.md": "Project"}
    repository = make_repository(tmp_path / "project", files)
    git(repository, "config", "uploadpack.allowFilter", str(can_filter).lower())
    source = {"kind": "git", "url": f"file://{repository}"}
    with CliRunner().isolation(input="\n") as (output, *_):
        await asyncio.to_thread(_ask_include, source)
        assert "it holds 21 .md, 20 .go" in output.getvalue().decode()
    assert source["include"] == ["/docs/**", "/*.md"]


async def test_of_a_repository_that_cannot_be_listed_it_is_said_that_all_is_read(tmp_path: Path) -> None:
    source = {"kind": "git", "url": f"file://{tmp_path}/gone"}
    with CliRunner().isolation() as (output, *_):
        await asyncio.to_thread(_ask_include, source)
        assert "`include` in the configuration limits that" in output.getvalue().decode()
    assert "include" not in source


async def test_an_existing_file_is_left_alone(folder: Path) -> None:
    (folder / "kimas.env").write_text("MINE=1\n", "utf-8")
    async with init(folder) as user:
        assert await user.end() == 2
        assert "kimas.env exists already" in user.output
    assert (folder / "kimas.env").read_text("utf-8") == "MINE=1\n"
    answers = Answers(platform="telegram", secrets={"KIMAS_TELEGRAM_TOKEN": "x"})
    with pytest.raises(UsageError, match=r"kimas.env exists already"):
        write_config(folder / "kimas.yaml", answers)
    assert not (folder / "kimas.yaml").exists()


async def test_without_a_terminal_or_on_request_nothing_is_asked(folder: Path) -> None:
    async with init(folder, "--non-interactive", "asked.yaml") as user:
        assert await user.end() == 0
    assert set(load_settings([folder / "asked.yaml"], (), {}).sources) == {"documents"}
    assert not (folder / "asked.env").exists()


async def test_an_address_of_the_api_is_one_and_belongs_to_a_platform(folder: Path) -> None:
    async with init(folder, "--api-url", "ftp://x") as user:
        assert await user.end() == 2
    assert "--api-url ftp://x is no address: it begins with http:// or https://" in user.output
    async with init(folder, "--non-interactive", "--api-url", "http://x") as user:
        assert await user.end() == 2
    assert "write api_url into" in " ".join(user.output.split())
    assert list(folder.iterdir()) == [folder / "docs"]


def test_the_file_of_secrets_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("KIMAS_TEST_A", "KIMAS_TEST_B"):
        monkeypatch.setenv(name, "before")
    monkeypatch.delenv("KIMAS_TEST_A")
    config = tmp_path / "kimas.yaml"
    assert load_env_file(config) == {}
    (tmp_path / "kimas.env").write_text("# secrets\n\nKIMAS_TEST_A=one=two\n KIMAS_TEST_B=after \n", "utf-8")
    assert read_env_names(tmp_path / "kimas.env") == {"KIMAS_TEST_A", "KIMAS_TEST_B"}
    assert load_env_file(config) == {"KIMAS_TEST_A": tmp_path / "kimas.env"}
    assert (os.environ["KIMAS_TEST_A"], os.environ["KIMAS_TEST_B"]) == ("one=two", "before")
    assert "chmod 600" in capsys.readouterr().err
    (tmp_path / "kimas.env").chmod(0o600)
    assert load_env_file(config) == {"KIMAS_TEST_A": tmp_path / "kimas.env"}
    assert capsys.readouterr().err == ""
    (tmp_path / "kimas.env").write_text("KIMAS_TEST_A=1\nno line of it\n", "utf-8")
    with pytest.raises(ConfigurationError, match=r"kimas.env:2: must be NAME=VALUE"):
        load_env_file(config)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KIMAS_TEST_A=bm%IEG^lkq$D-$wOsDmu", "bm%IEG^lkq$D-$wOsDmu"),
        ("KIMAS_TEST_A=a#b c", "a#b c"),
        ('KIMAS_TEST_A="a $b"', "a $b"),
        ("KIMAS_TEST_A='a\"b'", 'a"b'),
        ('KIMAS_TEST_A="a', '"a'),
        ('KIMAS_TEST_A="', '"'),
        ("\ufeffKIMAS_TEST_A=a", "a"),
    ],
)
def test_a_secret_is_what_stands_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, value: str) -> None:
    monkeypatch.setenv("KIMAS_TEST_A", "before")
    monkeypatch.delenv("KIMAS_TEST_A")
    (tmp_path / "kimas.env").write_text(f"{line}\n", "utf-8")
    assert read_env_names(tmp_path / "kimas.env") == {"KIMAS_TEST_A"}
    load_env_file(tmp_path / "kimas.yaml")
    assert os.environ["KIMAS_TEST_A"] == value


async def test_the_address_of_a_feed_becomes_a_feed() -> None:
    async with WebPeer() as web:
        web.pages["/feed.xml"] = Page('<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title></feed>')
        source = await examine_source(web.url("/feed.xml"), (), at_terminal=True)
    assert (source.name, source.settings["kind"]) == ("feed-xml", "feed")
