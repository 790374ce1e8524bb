"""`kimas init` in a terminal: asks, checks every answer at once, and writes nothing before the last one."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from bots.cli.check import check
from bots.cli.env_file import get_env_path
from bots.cli.init_template import MODEL_KEY, PAGE_KEY, TOKENS, Answers, check_is_new
from bots.cli.model_trial import find_room
from bots.cli.options import import_by_path
from bots.cli.probes import diagnose
from bots.cli.trial import guess_source, list_files
from bots.common.diagnosis import Diagnosis, FoundChat, Scope
from core.errors import ConfigurationError, KimasError, PlatformError, SourceError, UsageError
from core.llm.client import OpenAIClient
from core.settings import AdministrationSettings, BotSettings, PlatformSettings, Settings

Result = TypeVar("Result")

GROUP_WAIT_S = 60.0
CHECK_TIMEOUT_S = 30.0
OLLAMA_URL = "http://localhost:11434/v1"
MAX_SHOWN_MODELS = 20
NO_MODEL = "none"
PAGE_KEY_BYTES = 24
# A folder with fewer files is read whole without a question.
MANY_FILES = 30
MAX_SHOWN_KINDS = 6
DOCUMENT_FOLDERS = ("docs", "doc", "documentation", "guide", "book", "content", "website")
OWNER_IDS = {
    "telegram": "user id on Telegram (a number; @userinfobot tells it)",
    "discord": "user id on Discord (Settings, Advanced, Developer Mode, then right-click your name)",
    "slack": "member id on Slack (your profile, ..., Copy member ID)",
}
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
    click.echo("Enter takes what is in brackets. Ctrl-C ends; nothing is written before that or the last answer.\n")
    answers = Answers(api_url=api_url)
    try:
        _ask_questions(answers)
    except (click.Abort, KeyboardInterrupt):
        is_something = any(answers.secrets.values()) or answers.sources
        if not (is_something and click.confirm("\nWrite what you have answered so far?", default=True)):
            raise click.Abort from None
    if answers.platform:
        # For the operator's page.
        answers.secrets[PAGE_KEY] = secrets.token_urlsafe(PAGE_KEY_BYTES)
    return answers


def _ask_questions(answers: Answers) -> None:
    platform = click.prompt("Platform", type=click.Choice([*TOKENS, "none"]), default="telegram")
    if platform != "none":
        _ask_platform(answers, platform)
    _ask_sources(answers)
    _ask_model(answers)


def _ask(
    text: str,
    examine: Callable[[str], Result],
    *,
    default: str | None = "",
    hidden: bool = False,
    keep: Callable[[str], Result] | None = None,
) -> Result:
    """Ask until an answer passes, or is kept (`keep`) although it does not; every refusal is shown with its reason."""
    while True:
        answer: str = click.prompt(text, default=default, hide_input=hidden, show_default=bool(default) and not hidden)
        try:
            return examine(answer.strip())
        except (KimasError, ValueError, OSError, TimeoutError) as error:
            _show_problem(str(error) or "no answer in time")
        if keep and click.confirm("  Keep it anyway?", default=False):
            return keep(answer.strip())


def _show_problem(text: str) -> None:
    click.secho(f"  {text}", fg="red")


def _ask_platform(answers: Answers, platform: str) -> None:
    answers.platform = platform
    click.echo(f"\n{TOKEN_HINTS[platform]}")
    tokens: dict[str, str] = {}

    def examine(setting: str) -> Callable[[str], Diagnosis | None]:
        variable = TOKENS[platform][setting]
        is_last = setting == list(TOKENS[platform])[-1]

        def run(value: str) -> Diagnosis | None:
            tokens[variable] = value
            if any(character.isspace() for character in value):
                raise ValueError("a token has no spaces in it")
            return _diagnose(answers, tokens) if is_last and all(tokens.values()) else None

        return run

    diagnosis = None
    for setting in TOKENS[platform]:
        diagnosis = _ask(f"{TOKEN_NAMES[setting]}, not shown (Enter: later)", examine(setting), hidden=True)
    answers.secrets |= tokens
    if diagnosis is None:
        click.echo(f"  Fill in {', '.join(tokens)} later.")
        return
    click.secho(f"  ok: {diagnosis.identity}", fg="green")
    click.echo(f"\nBring the bot into your group: {diagnosis.invitation}")
    if platform == "telegram":
        _find_telegram_group(answers)
    else:
        answers.chat = _ask_channel(answers)
    if not answers.owner:
        text = f"Your own {OWNER_IDS[platform]}, to administer the bot (Enter: later)"
        answers.owner = _ask(text, lambda value: _examine_owner(platform, value))


def _examine_owner(platform: str, value: str) -> str:
    """Return the id of a person of a platform; "" for an empty answer. Raises `ValueError`."""
    if value:
        AdministrationSettings.model_validate({"owners": [f"{platform}:{value}"]})
    return value


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


def _find_telegram_group(answers: Answers) -> None:
    """Wait for a message in a group: it tells the group and, if they agree, the owner."""
    find_chat = import_by_path("telegram.diagnosis:find_chat")
    while True:
        hint = "Add it to the group, and write a message there that begins with /ask. Enter: wait for it, s: skip"
        answer = click.prompt(hint, default="", show_default=False).strip().lower()
        if answer == "s":
            return
        if answer:
            _show_problem("only Enter or s is an answer here")
            continue
        click.echo(f"  waiting for up to {GROUP_WAIT_S:.0f} s ...")
        try:
            chat: FoundChat | None = asyncio.run(find_chat(_make_section(answers), GROUP_WAIT_S))
        except PlatformError as error:
            _show_problem(str(error))
            continue
        if chat is None:
            _show_problem("nothing arrived: is the bot in the group?")
            continue
        if click.confirm(f"  {chat.title} ({chat.id}): answer in this group only?", default=True):
            answers.chat = chat.id
        owner = f"{chat.author} ({chat.author_id})"
        if chat.author_id and click.confirm(f"  {owner}: is that you, who administers the bot?", default=True):
            answers.owner = chat.author_id
        return


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
        _ask_include(list(answers.sources.values())[-1])


def _ask_include(source: dict[str, Any]) -> None:
    """Show what a repository on this machine holds, and let its part be chosen."""
    files = list_files(Path(source["url"])) if source["kind"] == "git" else []
    if len(files) < MANY_FILES:
        return
    kinds = Counter(file.suffix or "no suffix" for file in files).most_common(MAX_SHOWN_KINDS)
    click.echo("  it holds " + ", ".join(f"{count} {kind}" for kind, count in kinds))
    top_folders = {file.parts[0] for file in files if len(file.parts) > 1}
    folders = [name for name in DOCUMENT_FOLDERS if name in top_folders]
    proposal = " ".join([*(f"/{name}/**" for name in folders), "/*.md"]) if folders else "all"
    patterns = click.prompt("  Read which of them? Patterns, or all", default=proposal).split()
    if patterns != ["all"]:
        source["include"] = patterns


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
    key = _ask("API key, not shown (Enter: none)", str, hidden=True) if choice == "other" else ""
    base_url, names = _ask(
        "Address of the endpoint (none: no model)",
        lambda address: _examine_address(address, key),
        default=OLLAMA_URL if choice == "ollama" else None,
        keep=lambda address: (address, ()),
    )
    if base_url == NO_MODEL:
        return
    if names:
        click.echo("  it has " + ", ".join(sorted(names)[:MAX_SHOWN_MODELS]))
    model, room = _ask(
        "Model's name (none: no model)",
        lambda name: _examine_model(name, base_url, key),
        default=names[0] if len(names) == 1 else None,
        keep=lambda name: (name, None),
    )
    if model == NO_MODEL:
        return
    answers.model = {"base_url": base_url, "model": model} | ({"context_tokens": str(room)} if room else {})
    if key:
        answers.secrets[MODEL_KEY] = key


def _examine_address(address: str, key: str) -> tuple[str, Sequence[str]]:
    """Return the address of an endpoint with its models. Raises `KimasError`."""
    if address == NO_MODEL:
        return address, ()
    if not address.startswith(("http://", "https://")):
        raise ConfigurationError([f"an address begins with http:// or https://, for example http://{address}"])
    return address, asyncio.run(_list_models(address, key))


def _examine_model(name: str, base_url: str, key: str) -> tuple[str, int | None]:
    """Return the name of a model that answers, and its `context_tokens` where it reads slowly. Raises `ModelError`."""
    if name == NO_MODEL:
        return name, None
    room = asyncio.run(find_room(base_url, name, key, CHECK_TIMEOUT_S))
    click.secho(f"  ok: {name} at {base_url} answers", fg="green")
    if room:
        click.echo(f"  it reads slowly here, so it gets no more than {room:,} tokens of passages (context_tokens)")
    return name, room


async def _list_models(base_url: str, key: str) -> Sequence[str]:
    client = OpenAIClient.open(base_url, key, CHECK_TIMEOUT_S)
    try:
        return await client.list_models()
    finally:
        await client.close()
