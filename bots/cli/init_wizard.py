"""`kimas init` in a terminal: asks, checks every answer at once, and writes nothing before the last one."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from bots.cli.check import check
from bots.cli.env_file import get_env_path
from bots.cli.init_template import MODEL_KEY, TOKENS, Answers, check_is_new
from bots.cli.model_trial import answers_at_all
from bots.cli.options import import_by_path
from bots.cli.probes import diagnose
from bots.cli.trial import guess_source
from bots.common.diagnosis import Diagnosis, FoundChat, Scope
from core.errors import ConfigurationError, KimasError, PlatformError, SourceError, UsageError
from core.llm.client import OpenAIClient
from core.settings import BotSettings, PlatformSettings, Settings

Result = TypeVar("Result")

GROUP_WAIT_S = 60.0
CHECK_TIMEOUT_S = 30.0
OLLAMA_URL = "http://localhost:11434/v1"
MAX_SHOWN_MODELS = 20
TOKEN_HINTS = {
    "telegram": "In Telegram, write /newbot to @BotFather (https://t.me/BotFather). It answers with the token.",
    "discord": "Make an application at https://discord.com/developers/applications. On the page Bot, switch on "
    "Message Content Intent, then Reset Token shows the token.",
    "slack": "Make an app from the manifest in docs/slack.md at https://api.slack.com/apps, and install it.",
}
TOKEN_NAMES = {"token": "Token", "bot_token": "Bot token (xoxb-)", "app_token": "App token (xapp-)"}
CHANNEL_LINKS = {
    "discord": re.compile(r"(?:https://(?:\w+\.)?discord(?:app)?\.com/channels/\d+/)?(\d{15,20})/?"),
    "slack": re.compile(r"(?:https://[\w.-]+\.slack\.com/archives/)?([CG][A-Z0-9]{6,})/?"),
}


def ask_all(path: Path, api_url: str) -> Answers:
    """Ask for everything that a bot needs. Raises click's `Abort`, and its `UsageError` for a file that exists."""
    try:
        check_is_new(path)
        check_is_new(get_env_path(path))
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    click.echo("Enter takes what is in brackets. Ctrl-C ends; nothing is written before the last answer.\n")
    answers = Answers(api_url=api_url)
    platform = click.prompt("Platform", type=click.Choice([*TOKENS, "none"]), default="telegram")
    if platform != "none":
        _ask_platform(answers, platform)
    _ask_sources(answers)
    _ask_model(answers)
    return answers


def _ask(text: str, examine: Callable[[str], Result], *, default: str | None = "", hidden: bool = False) -> Result:
    """Ask until an answer passes; every refusal is shown with its reason."""
    while True:
        answer: str = click.prompt(text, default=default, hide_input=hidden, show_default=bool(default) and not hidden)
        try:
            return examine(answer.strip())
        except (KimasError, ValueError, OSError, TimeoutError) as error:
            _show_problem(str(error) or "no answer in time")


def _show_problem(text: str) -> None:
    click.secho(f"  {text}", fg="red")


def _ask_platform(answers: Answers, platform: str) -> None:
    answers.platform = platform
    click.echo(f"\n{TOKEN_HINTS[platform]}")
    secrets: dict[str, str] = {}

    def examine(setting: str) -> Callable[[str], Diagnosis | None]:
        variable = TOKENS[platform][setting]
        is_last = setting == list(TOKENS[platform])[-1]

        def run(value: str) -> Diagnosis | None:
            secrets[variable] = value
            if any(character.isspace() for character in value):
                raise ValueError("a token has no spaces in it")
            return _diagnose(answers, secrets) if is_last and all(secrets.values()) else None

        return run

    diagnosis = None
    for setting in TOKENS[platform]:
        diagnosis = _ask(f"{TOKEN_NAMES[setting]}, not shown (Enter: later)", examine(setting), hidden=True)
    answers.secrets |= secrets
    if diagnosis is None:
        click.echo(f"  Fill in {', '.join(secrets)} later.")
        return
    click.secho(f"  ok: {diagnosis.identity}", fg="green")
    click.echo(f"\nBring the bot into your group: {diagnosis.invitation}")
    answers.chat = _find_telegram_group(answers) if platform == "telegram" else _ask_channel(answers)


def _make_section(answers: Answers) -> PlatformSettings:
    section = {name: {"env": variable} for name, variable in TOKENS[answers.platform].items()}
    values = section | ({"api_url": answers.api_url} if answers.api_url else {})
    bot = BotSettings.model_validate({answers.platform: values})
    return next(settings for _, settings in bot.iter_platforms())


def _diagnose(answers: Answers, secrets: dict[str, str], chats: Sequence[str] = ()) -> Diagnosis:
    """Reach the platform. Raises `PlatformError` for what keeps the bot from answering."""
    os.environ.update(secrets)

    async def run() -> Diagnosis:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            return await diagnose(answers.platform, _make_section(answers), Scope(tuple(chats)))

    diagnosis = asyncio.run(run())
    if errors := [problem.text for problem in diagnosis.problems if problem.is_error]:
        raise PlatformError("; ".join(errors))
    for problem in diagnosis.problems:
        click.secho(f"  {problem.text}", fg="yellow")
    return diagnosis


def _find_telegram_group(answers: Answers) -> str:
    """Wait for a message in a group; return its id, or "" to answer in every group."""
    find_chat = import_by_path("telegram.diagnosis:find_chat")
    while True:
        hint = "Add it to the group, and write a message there that begins with /ask. Enter: wait for it, s: skip"
        if click.prompt(hint, default="", show_default=False).strip().lower() == "s":
            return ""
        click.echo(f"  waiting for up to {GROUP_WAIT_S:.0f} s ...")
        try:
            chat: FoundChat | None = asyncio.run(find_chat(_make_section(answers), GROUP_WAIT_S))
        except PlatformError as error:
            _show_problem(str(error))
            continue
        if chat is None:
            _show_problem("nothing arrived: is the bot in the group?")
        elif click.confirm(f"  {chat.title} ({chat.id}): answer in this group only?", default=True):
            return chat.id
        else:
            return ""


def _ask_channel(answers: Answers) -> str:
    """Ask for a channel by its link; return its id, or "" to answer in every channel."""

    def examine(value: str) -> str:
        if not value:
            return ""
        match = CHANNEL_LINKS[answers.platform].fullmatch(value)
        if match is None:
            raise ValueError("this is no link of a channel: right-click the channel, Copy Link")
        _diagnose(answers, {}, (match[1],))
        return match[1]

    return _ask("Link of the channel, to answer there only (Enter: everywhere)", examine)


def _ask_sources(answers: Answers) -> None:
    click.echo("\nWhat does the bot answer from? A folder, a file, a repository or a web site.")
    text = "Source"
    default = "."
    while location := _ask(text, lambda value: _examine_source(value, answers), default=default):
        text = "Another source (Enter: none)"
        default = ""
        click.secho(f"  ok: {location}", fg="green")


def _examine_source(location: str, answers: Answers) -> str:
    """Add a source that can be read, and return what is there; "" for an empty answer. Raises `SourceError`."""
    if not location:
        return ""
    source = guess_source(location)
    name = _make_name(location, answers)
    with tempfile.TemporaryDirectory(prefix="kimas-init-") as folder:
        settings = Settings.model_validate({"data_dir": folder, "sources": {name: source}})
        findings = asyncio.run(check(settings, live=True))
    source_findings = [finding for finding in findings if finding.subject == f"sources.{name}"]
    if errors := [finding.text for finding in source_findings if finding.level == "error"]:
        raise SourceError("; ".join(errors))
    answers.sources[name] = source
    return source_findings[-1].text


def _make_name(location: str, answers: Answers) -> str:
    """Return a new name for a source: the last word of its address or path."""
    path = location.removesuffix("/").removesuffix(".git")
    words = re.findall(r"[a-z0-9]+", os.path.basename(os.path.abspath(path) if path in (".", "..") else path).lower())
    base = "-".join(words)[:40].strip("-") or "documents"
    names = (base if number == 1 else f"{base}-{number}" for number in range(1, len(answers.sources) + 2))
    return next(name for name in names if name not in answers.sources)


def _ask_model(answers: Answers) -> None:
    click.echo("\nA language model writes the answers. Without one, the bot quotes the best sentences.")
    choice = click.prompt("Model", type=click.Choice(["none", "ollama", "other"]), default="none")
    if choice == "none":
        return
    key = ""

    def examine_address(address: str) -> tuple[str, Sequence[str]]:
        if not address.startswith(("http://", "https://")):
            raise ConfigurationError([f"an address begins with http:// or https://, for example http://{address}"])
        return address, asyncio.run(_list_models(address, key))

    if choice == "other":
        key = _ask("API key, not shown (Enter: none)", str, hidden=True)
    default = OLLAMA_URL if choice == "ollama" else None
    base_url, names = _ask("Address of the endpoint", examine_address, default=default)
    if names:
        click.echo("  it has " + ", ".join(sorted(names)[:MAX_SHOWN_MODELS]))

    def examine_model(name: str) -> str:
        result = asyncio.run(answers_at_all(base_url, name, key, CHECK_TIMEOUT_S))
        click.secho(f"  ok: {result}", fg="green")
        return name

    model = _ask("Model's name", examine_model, default=sorted(names)[0] if len(names) == 1 else None)
    answers.model = {"base_url": base_url, "model": model}
    if key:
        answers.secrets[MODEL_KEY] = key


async def _list_models(base_url: str, key: str) -> Sequence[str]:
    client = OpenAIClient.open(base_url, key, CHECK_TIMEOUT_S)
    try:
        return await client.list_models()
    finally:
        await client.close()
