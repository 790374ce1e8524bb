"""Probes of `kimas check --live` and `kimas init`: platforms, models, sources, the journal. Nothing is changed."""

from __future__ import annotations

import asyncio
import io
import math
import wave
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from bots.cli.console import Finding
from bots.cli.endpoints import explain_failure
from bots.cli.git_check import LISTING_TIMEOUT_S, describe_repository
from bots.cli.model_trial import ModelTrial
from bots.cli.options import import_by_path
from bots.common.diagnosis import Diagnosis, Scope
from bots.common.open_storage import open_existing_database
from bots.common.store_owner import read_store_owner
from bots.daemon.adapters import get_section_path
from bots.daemon.feeds import find_feed_errors, probe_feed
from core.errors import EmbeddingError, ModelError, SourceError
from core.formatting import strip_source_prefix
from core.llm.client import OpenAIClient
from core.llm.moderation import Moderator
from core.llm.recordings import Recording
from core.runtime.budget import Budget
from core.settings import (
    EmbeddingSettings,
    FeedSource,
    GithubSource,
    GitlabSource,
    GitSource,
    HttpApiSource,
    McpSource,
    ModerationSettings,
    OwnSource,
    PlatformSettings,
    RemoteRagSource,
    SearchApiSource,
    SearchSettings,
    Settings,
    TranscriptionSettings,
    WebsiteSource,
)
from core.settings.gate import UNPROMPTED_MODES
from core.types import Passage, PlatformName
from knowledge.embedding import name_model
from knowledge.embedding.families import find_instructions
from knowledge.embedding.remote import TIMEOUT_S
from knowledge.live import open_live_source
from knowledge.reranking.rerankers import make_reranker
from knowledge.sources.factory import open_source
from knowledge.sources.feed.parsing import looks_like_feed
from knowledge.sources.forge.source import ForgeProject
from knowledge.sources.git.source import is_local
from knowledge.sources.plugin import PluginSource
from knowledge.web.addresses import redact_url
from knowledge.web.client import Request, Response, WebClient

Result = str | Diagnosis | list[Finding]
LiveSourceSettings = HttpApiSource | SearchApiSource | RemoteRagSource | McpSource

PROBE_TIMEOUT_S = 15.0
# Samples a second.
TONE_RATE = 16_000
LIVE_ONLY_HINT = "reached with --live only"
IDENTITY_PREFIXES = {
    "telegram": "the token belongs to ",
    "discord": "the token belongs to ",
    "slack": "the tokens belong to ",
    "mastodon": "the token belongs to ",
    "bluesky": "the password belongs to ",
    "github": "the token belongs to ",
    "gitlab": "the token belongs to ",
}
# Where the package of a platform has another name.
PACKAGES = {"github": "forges", "gitlab": "forges"}


class _Diagnose(Protocol):
    async def __call__(self, settings: PlatformSettings, scope: Scope) -> Diagnosis: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """An attempt to reach a service. `run` returns its result in a few words, a bot's diagnosis, findings, or raises.

    `min_timeout_s`: so many seconds it has at least.
    """

    subject: str
    run: Callable[[], Awaitable[Result]]
    min_timeout_s: float = 0.0


async def run_probe(probe: Probe, timeout_s: float) -> list[Finding]:
    """Return what an attempt results in, after at most `timeout_s` seconds; every failure becomes a finding."""
    timeout_s = max(timeout_s, probe.min_timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            result = await probe.run()
    except TimeoutError:
        return [Finding("error", probe.subject, f"no answer within {timeout_s:g} s")]
    except Exception as error:  # Any error.
        source = probe.subject.removeprefix("sources.")
        return [Finding("error", probe.subject, strip_source_prefix(source, str(error)) or type(error).__name__)]
    if isinstance(result, str):
        return [Finding("ok", probe.subject, result)]
    if isinstance(result, list):
        return result
    prefix = IDENTITY_PREFIXES[probe.subject.rpartition(".")[2]]
    return [
        Finding("ok", probe.subject, prefix + result.identity),
        *(Finding("error" if item.is_error else "warning", probe.subject, item.text) for item in result.problems),
    ]


def make_remote_probes(settings: Settings) -> list[Probe]:
    """Return a probe per source and feed that is on another machine."""
    feed_errors = find_feed_errors(settings)
    probes = [
        Probe(f"auto_comment.feeds.{name}", partial(probe_feed, feed))
        for name, feed in settings.auto_comment.feeds.items()
        if name not in feed_errors
    ]
    for name, source in settings.sources.items():
        if isinstance(source, GitSource) and not is_local(source.url):

            async def run(name: str = name, source: GitSource = source) -> str:
                return await describe_repository(open_source(name, source, settings.data_dir), source)

            probes.append(Probe(f"sources.{name}", run, PROBE_TIMEOUT_S + LISTING_TIMEOUT_S))
        elif isinstance(source, LiveSourceSettings):
            probes.append(Probe(f"sources.{name}", partial(_probe_live_source, name, source)))
        elif isinstance(source, GithubSource | GitlabSource):
            project = ForgeProject(name, source, settings.data_dir)
            probes.append(Probe(f"sources.{name}", partial(_probe_forge, project)))
        elif isinstance(source, OwnSource):
            probes.append(Probe(f"sources.{name}", partial(_probe_plugin, name, source, settings.data_dir)))
        elif isinstance(source, WebsiteSource | FeedSource):
            probes.append(Probe(f"sources.{name}", partial(_probe_page, source)))
    return probes


async def _probe_live_source(name: str, source: LiveSourceSettings) -> str:
    live_source = open_live_source(name, source)
    try:
        results = await live_source.search("test")
    finally:
        await live_source.close()
    return f"{live_source.display_url}: answers ({len(results)} results for 'test')"


async def _probe_forge(project: ForgeProject) -> str:
    return f"{project.display_name}: answers as {await project.probe()}"


async def _probe_plugin(name: str, source: OwnSource, data_dir: Path) -> str:
    return (
        await PluginSource(name, source, data_dir).probe() or f"{source.plugin}: it cannot be asked without a refresh"
    )


async def _probe_page(source: WebsiteSource | FeedSource) -> str:
    """Describe what the first page of a web source answers. Raises `SourceError` where it is not what it should be."""
    response = await _fetch(source.url, source.allow_private)
    address = redact_url(response.url)
    if response.status >= 400:
        cause = "its server has a fault" if response.status >= 500 else "is the address right, and open to everybody?"
        raise SourceError(f"{address} answers with status {response.status}: {cause}")
    is_feed_content = looks_like_feed(response.content)
    if isinstance(source, FeedSource) and not is_feed_content:
        raise SourceError(f"{address} is no feed (RSS or Atom)")
    if isinstance(source, WebsiteSource) and is_feed_content:
        raise SourceError(f"{address} is a feed: `kind: feed` reads it")
    return f"{address}: answers, {len(response.content) / 1000:.0f} kB"


async def is_feed(url: str, allow_private: Collection[str]) -> bool:
    """Return whether an address answers with a feed; False as well where it cannot be reached."""
    try:
        response = await _fetch(url, allow_private)
    except SourceError:
        return False
    return looks_like_feed(response.content)


async def _fetch(url: str, allow_private: Collection[str]) -> Response:
    async with WebClient(allow_private) as web:
        return await web.fetch(Request(url, timeout_s=PROBE_TIMEOUT_S))


async def _probe_journal(settings: Settings) -> str:
    async with open_existing_database(settings) as database:
        return await database.get_version() if database else ""


def make_probes(settings: Settings, budgets: list[Budget] | None = None) -> list[Probe]:
    """Return a probe per configured service. Each sends a request or two and changes nothing.

    What the calls of models take is put into `budgets`.
    """
    budgets = [] if budgets is None else budgets
    # An answer and a decision.
    timeout_s = 2 * settings.budget.deadline_s + PROBE_TIMEOUT_S
    probes = [
        Probe(path, ModelTrial(path, model, _with_models_at(path, settings), budgets).run, timeout_s)
        for path, model in settings.models.iter_endpoints()
    ]
    probes += [
        Probe(path, partial(_probe_transcription, endpoint), endpoint.timeout_s)
        for path, endpoint in settings.models.iter_transcriptions()
    ]
    if settings.outgoing.moderation.base_url:
        probes.append(Probe("outgoing.moderation", partial(_probe_moderation, settings.outgoing.moderation)))
    if settings.journal.url:
        probes.append(Probe("journal", partial(_probe_journal, settings)))
    embedding = settings.knowledge.embedding
    if embedding.provider == "openai":
        probes.append(Probe("knowledge.embedding", lambda: _probe_embedding(embedding)))
    if settings.knowledge.store.provider == "weaviate":
        probes.append(Probe("knowledge.store", partial(_probe_weaviate, settings)))
    if settings.knowledge.search.rerank == "api":
        probes.append(Probe("knowledge.search.reranker", partial(_probe_reranker, settings.knowledge.search)))
    for name, platform, section in settings.get_bots():
        if platform in IDENTITY_PREFIXES:
            run = partial(diagnose, platform, section, get_scope(settings, name, platform))
            probes.append(Probe(get_section_path(name, platform), run))
    return probes


def _with_models_at(path: str, settings: Settings) -> Settings:
    """Return the settings of the chats that use the endpoint at a path of the configuration."""
    names = path.split(".")
    return settings.with_set(names[2]) if names[1] == "sets" else settings


async def _probe_embedding(settings: EmbeddingSettings) -> str:
    api_key = settings.api_key.value() if settings.api_key else ""
    client = OpenAIClient.open(settings.base_url, api_key, TIMEOUT_S)
    try:
        vector = (await client.embed(settings.model, ["yes"], find_instructions(settings).fields.get("query")))[0]
    except EmbeddingError as error:
        text = await explain_failure(error, settings.base_url, settings.model, api_key, TIMEOUT_S)
        raise EmbeddingError(text) from error
    finally:
        await client.close()
    if len(vector) != settings.dimension:
        raise ValueError(f"{settings.model} sends {len(vector)} numbers per text, dimension says {settings.dimension}")
    return f"{settings.model} at {settings.base_url} answers"


async def _probe_moderation(settings: ModerationSettings) -> str:
    moderator = Moderator.open(settings)
    try:
        await moderator.judge("A test.")
    finally:
        await moderator.close()
    return f"{settings.model or 'the moderation'} at {redact_url(settings.base_url or '')} answers"


async def _probe_transcription(settings: TranscriptionSettings) -> str:
    api_key = settings.api_key.value() if settings.api_key else ""
    client = OpenAIClient.open(settings.base_url, api_key, settings.timeout_s)
    recording = Recording("voice.wav", "audio/wav", await asyncio.to_thread(_make_tone))
    try:
        await client.transcribe(settings.model, recording)
    except ModelError as error:
        text = await explain_failure(error, settings.base_url, settings.model, api_key, settings.timeout_s)
        raise ModelError(text) from error
    finally:
        await client.close()
    return f"{settings.model} at {settings.base_url} took a second of sound"


def _make_tone() -> bytes:
    """Return a second of a low tone: as small as a recording gets that every endpoint takes."""
    samples = (round(3000 * math.sin(2 * math.pi * 220 * index / TONE_RATE)) for index in range(TONE_RATE))
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as recording:
        recording.setnchannels(1)
        recording.setsampwidth(2)
        recording.setframerate(TONE_RATE)
        recording.writeframes(b"".join(sample.to_bytes(2, "little", signed=True) for sample in samples))
    return buffer.getvalue()


async def _probe_weaviate(settings: Settings) -> str:
    from knowledge.stores.weaviate import check_weaviate

    owner = await read_store_owner(settings)
    return await check_weaviate(settings.knowledge.store.weaviate, owner, name_model(settings.knowledge.embedding))


async def _probe_reranker(settings: SearchSettings) -> str:
    reranker = make_reranker(settings)
    try:
        await reranker.rerank(
            "test", [Passage("1", "docs", "a.md", "", "A test."), Passage("2", "docs", "b.md", "", "B.")]
        )
    finally:
        await reranker.close()
    return f"{redact_url(settings.reranker.url)} answers"


async def diagnose(platform: str, settings: PlatformSettings, scope: Scope) -> Diagnosis:
    """Return what a bot's platform says of it. Raises `PlatformError` for a token that does not work."""
    run: _Diagnose = import_by_path(f"{PACKAGES.get(platform, platform)}.diagnosis:diagnose")
    return await run(settings, scope)


def get_scope(settings: Settings, bot_name: str, platform: str) -> Scope:
    """Return the chats that the configuration names for a bot, and whether it answers unprompted in one of them."""
    gate = settings.gate
    comments = settings.auto_comment.chats
    auto_chats = [chat for chat, chat_settings in settings.chats.items() if chat_settings.mode in UNPROMPTED_MODES]
    chats = [PlatformName.parse(entry) for entry in (*gate.chats, *auto_chats, *comments)]
    bot_chats = [chat.native_id for chat in chats if chat.platform == platform and chat.bot == bot_name]
    reads_all = gate.mode in UNPROMPTED_MODES or any(
        entry.startswith(f"{platform}:") for entry in (*auto_chats, *comments)
    )
    return Scope(tuple(dict.fromkeys(bot_chats)), reads_all)
