"""What a new bot is asked for, and how each answer is checked: one list for the terminal and for the browser."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bots.cli.check import check
from bots.cli.endpoints import find_address_fault
from bots.cli.init_template import TOKENS
from bots.cli.model_trial import CHECK_TIMEOUT_S
from bots.cli.probes import diagnose, is_feed
from bots.cli.trial import guess_source, list_files
from bots.common.diagnosis import Diagnosis, Scope
from core.errors import ConfigurationError, PlatformError, SourceError
from core.llm.client import OpenAIClient
from core.settings import AdministrationSettings, BotSettings, GitSource, PlatformSettings, Settings
from core.settings.loader import validate
from knowledge.sources.git.source import GitRepository, is_local

MAX_SHOWN_MODELS = 20
# A repository with fewer files is read whole.
MANY_FILES = 30
PAGE_SUFFIXES = (".md", ".rst", ".adoc")
DOCUMENT_FOLDERS = ("docs", "doc", "documentation", "guide", "book", "content", "website")
# A host that cannot list a repository without its contents sends them, too.
LISTING_TIMEOUT_S = 20.0
OLLAMA_URL = "http://localhost:11434/v1"
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


@dataclass(frozen=True, slots=True)
class CheckedSource:
    """A source that can be read: its name and settings in the configuration, and what is there."""

    name: str
    settings: dict[str, Any]
    text: str


def check_token(value: str) -> str:
    """Return a token; "" for none. Raises `ValueError` for what was copied with something else."""
    if not value.isascii() or any(character.isspace() or not character.isprintable() for character in value):
        raise ValueError("a token has no spaces in it, and no letters but a to z")
    return value


def examine_owner(platform: str, value: str) -> str:
    """Return the id of a person of a platform; "" for an empty answer. Raises `ValueError`."""
    person = value.removeprefix(f"{platform}:")
    if person:
        try:
            AdministrationSettings.model_validate({"owners": [f"{platform}:{person}"]})
        except ValueError:
            raise ValueError(f"this is no {OWNER_IDS[platform]}") from None
    return person


def find_channel(platform: str, value: str) -> str:
    """Return the id of a channel by its link. Raises `ValueError`."""
    match = CHANNEL_LINKS[platform].fullmatch(value)
    if match is None:
        raise ValueError("this is no link of a channel: right-click the channel, Copy Link")
    return match[1]


def make_section(platform: str, api_url: str) -> PlatformSettings:
    """Return the settings of a platform's bot, whose secrets are in the environment."""
    section = {name: {"env": variable} for name, variable in TOKENS[platform].items()}
    values = section | ({"api_url": api_url} if api_url else {})
    bot = validate(BotSettings, {platform: values})
    return next(settings for _, settings in bot.iter_platforms())


async def diagnose_bot(section: PlatformSettings, platform: str, chats: Sequence[str] = ()) -> Diagnosis:
    """Reach the platform. Raises `PlatformError` for what keeps the bot from answering."""
    async with asyncio.timeout(CHECK_TIMEOUT_S):
        diagnosis = await diagnose(platform, section, Scope(tuple(chats)))
    if errors := [problem.text for problem in diagnosis.problems if problem.is_error]:
        raise PlatformError("; ".join(errors))
    return diagnosis


async def examine_source(location: str, taken_names: Collection[str], *, at_terminal: bool = False) -> CheckedSource:
    """Return a source that can be read, with a new name. Raises `UsageError`, `SourceError`."""
    source = guess_source(location, at_terminal=at_terminal)
    if source["kind"] == "website" and await is_feed(source["url"], source.get("allow_private", ())):
        source["kind"] = "feed"
    name = make_name(location, taken_names)
    with tempfile.TemporaryDirectory(prefix="kimas-init-") as folder:
        settings = validate(Settings, {"data_dir": folder, "sources": {name: source}})
        findings = await check(settings, live=True)
    source_findings = [finding for finding in findings if finding.subject == f"sources.{name}"]
    if errors := [finding.text for finding in source_findings if finding.level == "error"]:
        raise SourceError("; ".join(errors))
    # The last one was found live.
    *_, place = (finding.text for finding in source_findings if finding.level == "ok")
    warnings = [finding.text for finding in source_findings if finding.level == "warning"]
    return CheckedSource(name, source, "; ".join([place, *warnings]))


async def list_repository(settings: Mapping[str, Any]) -> list[Path]:
    """Return the relative paths of a repository's files; none where that takes too long, or fails."""
    if is_local(settings["url"]):
        return await asyncio.to_thread(list_files, Path(settings["url"]))
    return await _list_remote_files(settings)


def propose_include(files: Sequence[Path]) -> list[str]:
    """Return patterns for the documents of a repository; none where it is small, or has no folder of documents."""
    top_folders = {file.parts[0] for file in files if len(file.parts) > 1}
    folders = [name for name in DOCUMENT_FOLDERS if name in top_folders]
    if len(files) < MANY_FILES or not folders:
        return []
    # Its README, mostly.
    suffixes = sorted({file.suffix for file in files if len(file.parts) == 1} & set(PAGE_SUFFIXES))
    return [*(f"/{name}/**" for name in folders), *(f"/*{suffix}" for suffix in suffixes)]


async def _list_remote_files(settings: Mapping[str, Any]) -> list[Path]:
    with tempfile.TemporaryDirectory(prefix="kimas-init-") as folder:
        repository = GitRepository("source", GitSource.model_validate(settings), Path(folder))
        try:
            async with asyncio.timeout(LISTING_TIMEOUT_S):
                return [Path(path) for path in await repository.list_remote_paths()]
        except (SourceError, TimeoutError):
            return []


def make_name(location: str, taken_names: Collection[str]) -> str:
    """Return a new name for a source: the last word of its address or path."""
    path = location.removesuffix("/").removesuffix(".git")
    words = re.findall(r"[a-z0-9]+", os.path.basename(os.path.abspath(path) if path in (".", "..") else path).lower())
    base = "-".join(words)[:40].strip("-") or "documents"
    names = (base if number == 1 else f"{base}-{number}" for number in range(1, len(taken_names) + 2))
    return next(name for name in names if name not in taken_names)


async def list_models(address: str, key: str) -> Sequence[str]:
    """Return the names of the models of an endpoint. Raises `KimasError`, a `ConfigurationError` for no address."""
    if fault := find_address_fault(address):
        raise ConfigurationError([f"this {fault}"])
    client = OpenAIClient.open(address, key, CHECK_TIMEOUT_S)
    try:
        return await client.list_models()
    finally:
        await client.close()


@contextmanager
def in_environment(secrets: Mapping[str, str]) -> Iterator[None]:
    """Let the environment have these secrets inside the block."""
    former = {name: os.environ.get(name) for name in secrets}
    os.environ.update(secrets)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
